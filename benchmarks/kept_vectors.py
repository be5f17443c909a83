"""Sentence vectors of rows that are predicted again and again: models that are asked keep none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from robusttc.encoders import encode_with, make_encoder
from robusttc.jobs import Runner

__all__ = ["keep_vectors"]


def keep_vectors(learner: Any, texts: Iterable[str]) -> None:
    """Put the vectors of texts into the cache of a learner's encoder, if that is one of sentences."""
    # What was fitted may have tuned its encoder.
    encoder: Any = getattr(learner, "encoder_", None) or getattr(learner, "encoder", None)
    if encoder is not None:
        encode_with(Runner(), make_encoder(encoder), texts)

"""Sentence vectors computed in units, before anybody asks for them.

Every unit encodes about a thousand texts of similar length; its vectors go into the encoder's cache as soon
as they are there, so an interrupted run goes on from there, and `prepare` finds all of them later. A vector
does not depend on the other texts of its unit (see `robusttc.encoders.sentence_vectors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.encoder import Encoder
from robusttc.encoders.paired import PairedEncoder
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.encoders.sentence_model import SentenceModel
from robusttc.encoders.sentence_vectors import encode_sentences
from robusttc.errors import DataError, quote
from robusttc.jobs import Job, Result, Runner
from robusttc.progress import Progress, report
from robusttc.random import child_seed

__all__ = ["STAGE", "encode_with"]

STAGE = "encode"
TEXTS_A_UNIT = 1_000
# Results are in memory until a step is done: so many units are a hundred megabytes with MiniLM.
UNITS_A_STEP = 64

# The models of this process, by fingerprint and device: loading one takes seconds.
_models_here: dict[tuple[str, str], SentenceModel] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How a process gets the model; see `SentenceEncoder` for the parts.

    Attributes
    ----------
    fingerprint
        What the model must have.
    """

    model: str | Path | None
    changes: Mapping[str, NDArray[np.float32]] | None = field(repr=False)
    device: str
    fingerprint: str


def encode_with(
    runner: Runner, encoder: Encoder, texts: Iterable[str], *, progress: Progress | None = None
) -> int:
    """Compute the vectors of texts that the encoder's cache lacks; give how many there were.

    Encoders that are no sentence encoders have nothing to compute in advance. A unit that cannot be done is
    passed over: who asks for its vectors gets the error.

    Parameters
    ----------
    runner
        Who does the units.
    encoder
        The encoder; of a pair, both.
    texts
        The texts; one that occurs twice counts once.
    progress
        Told after every unit, in texts; those that were in the cache count as done.

    Examples
    --------
    >>> from robusttc.encoders.vector_cache import VectorCache
    >>> from robusttc.jobs import Runner
    >>> encoder = SentenceEncoder(cache=VectorCache.disabled())
    >>> [encode_with(Runner(), encoder, ["hello", "bye", "hello"]) for _ in range(2)]
    [2, 0]
    """
    if isinstance(encoder, PairedEncoder):
        asked = list(texts)
        return sum(
            encode_with(runner, one, asked, progress=progress) for one in (encoder.first, encoder.second)
        )
    if not isinstance(encoder, SentenceEncoder):
        return 0
    distinct = sorted(set(texts))
    cache = encoder.open_cache()
    missing = cache.find_missing(encoder.fingerprint, distinct, encoder.dimension)
    n_texts, n_missing = len(distinct), len(missing)
    n_done = n_texts - n_missing
    report(progress, STAGE, n_done, n_texts, "texts")
    if not missing:
        return 0
    model = encoder._load()
    # Texts of one length together: a batch of the model has one length.
    missing.sort(key=lambda text: (-len(text), text))
    blocks = [missing[start : start + TEXTS_A_UNIT] for start in range(0, n_missing, TEXTS_A_UNIT)]
    units = [
        Job(f"{STAGE}/{child_seed(0, 'texts', one):016x}", encode_unit, one, keep=False) for one in blocks
    ]

    def keep(unit: Job, payload: Result) -> None:
        nonlocal n_done
        vector_of = dict(zip(unit.argument, payload.arrays["vectors"], strict=True))
        cache.get_or_compute(
            model.fingerprint,
            unit.argument,
            lambda asked: np.array([vector_of[text] for text in asked]),
            model.dimension,
        )
        n_done += len(unit.argument)
        report(progress, STAGE, n_done, n_texts, "texts")

    # What is loaded already serves here, and is found by its fingerprint.
    _models_here[model.fingerprint, encoder.device] = model
    recipe = Recipe(encoder.model, encoder.changed_arrays(), encoder.device, model.fingerprint)
    data = runner.share(recipe)
    try:
        for start in range(0, len(units), UNITS_A_STEP):
            runner.run(STAGE, units[start : start + UNITS_A_STEP], data, on_result=keep, unit="texts")
    finally:
        runner.release(data)
        del _models_here[model.fingerprint, encoder.device]
    return n_missing


def encode_unit(recipe: Recipe, texts: list[str]) -> Result:
    """Do a unit: encode some texts."""
    return Result({}, {"vectors": encode_sentences(find_model(recipe), texts)})


def find_model(recipe: Recipe) -> SentenceModel:
    """Give the model of this process; it is loaded once.

    Raises
    ------
    DataError
        If the model on this machine is another one.
    """
    key = (recipe.fingerprint, recipe.device)
    if key not in _models_here:
        loaded = SentenceEncoder(recipe.model, changes=recipe.changes, device=recipe.device)._load()
        if loaded.fingerprint != recipe.fingerprint:
            raise DataError(
                "the sentence model is not the one that the run began with",
                where=str(loaded.folder),
                got=f"fingerprint {quote(loaded.fingerprint[:12])}",
                expected=quote(recipe.fingerprint[:12]),
                todo="install the same model on all machines",
            )
        _models_here[key] = loaded
    return _models_here[key]

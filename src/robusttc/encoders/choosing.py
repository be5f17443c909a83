"""Encoders by their names."""

from __future__ import annotations

from inspect import getattr_static
from os import PathLike

from robusttc.encoders.encoder import Encoder
from robusttc.errors import UsageError, nearest_name, quote

__all__ = ["ENCODER_NAMES", "make_encoder"]

ENCODER_NAMES = ("sentence", "cnn")


def is_encoder(value: object) -> bool:
    """Tell whether a value has all that an encoder has.

    `isinstance` would ask for the fingerprint itself: that loads a model, or reads a file and may fail.
    """
    parts = ("name", "fingerprint", "prepare")
    return not isinstance(value, type) and all(
        getattr_static(value, part, None) is not None for part in parts
    )


def make_encoder(
    encoder: str | Encoder = "sentence",
    *,
    vectors: str | PathLike[str] | None = None,
    model: str | PathLike[str] | None = None,
    device: str = "auto",
) -> Encoder:
    """Give the encoder of a name; one that is already made is given back.

    Parameters
    ----------
    encoder
        ``sentence``, ``cnn``, or an encoder of your own (`robusttc.encoders.features.FeatureEncoder` for
        ready-made vectors).
    vectors
        A file of word vectors, for ``cnn``.
    model
        A sentence-transformers model, for ``sentence``.
    device
        Where a sentence model runs.

    Raises
    ------
    UsageError
        If there is no such encoder, or an option does not belong to it.

    Examples
    --------
    >>> make_encoder("cnn")
    CnnEncoder()
    """
    from robusttc.encoders.cnn import CnnEncoder
    from robusttc.encoders.sentence import SentenceEncoder

    if not isinstance(encoder, str):
        if not is_encoder(encoder):
            raise UsageError(
                "this is no encoder", got=quote(encoder), expected="'sentence', 'cnn', or an Encoder"
            )
        misplaced = {"vectors": vectors, "model": model}
        owner = "the encoder that was given"
    elif encoder == "cnn":
        misplaced, owner = {"model": model}, "encoder 'cnn'"
    elif encoder == "sentence":
        misplaced, owner = {"vectors": vectors}, "encoder 'sentence'"
    else:
        nearest = nearest_name(encoder, ENCODER_NAMES)
        raise UsageError(
            "there is no such encoder",
            got=quote(encoder),
            expected=" or ".join(ENCODER_NAMES),
            todo=f"did you mean {quote(nearest)}?" if nearest else None,
        )
    for option, value in misplaced.items():
        if value is not None:
            raise UsageError(f"{owner} takes no {option}", got=quote(str(value)))
    if not isinstance(encoder, str):
        return encoder
    return CnnEncoder(vectors) if encoder == "cnn" else SentenceEncoder(model, device=device)

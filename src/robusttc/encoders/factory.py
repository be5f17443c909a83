"""Encoders by their names, and encoders that were saved with a model."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from numpy.typing import NDArray

from robusttc.data import Vocabulary
from robusttc.encoders.base import Encoder
from robusttc.encoders.cnn import CnnEncoder, WordEncoder
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.multilingual import MultilingualEncoder
from robusttc.encoders.paired import PairedEncoder
from robusttc.encoders.remote import RemoteEncoder
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.encoders.static import StaticEncoder
from robusttc.errors import DataError, StoreError, UsageError, quote, suggest
from robusttc.params import Integer

__all__ = ["DEFAULT_ENCODER", "ENCODER_NAMES", "load_encoder", "make_encoder"]

ENCODER_NAMES = ("sentence", "static", "multilingual", "both", "cnn")
# The one default of all estimators, functions, settings and commands.
DEFAULT_ENCODER = "both"
REMOTE_PREFIX = "remote:"
SAVED_NAMES = ("sentence", "static", "multilingual", "paired", "remote", "words", "features")


def make_encoder(
    encoder: str | Encoder = DEFAULT_ENCODER,
    *,
    vectors: str | PathLike[str] | None = None,
    model: str | PathLike[str] | None = None,
    device: str = "auto",
) -> Encoder:
    """Return the encoder of a name; an encoder is returned unchanged.

    Parameters
    ----------
    encoder
        ``both`` (the default: sentence and multilingual vectors concatenated), ``sentence``, ``static``,
        ``multilingual``, ``cnn``, ``remote:URL`` (an HTTP embedding service), or an `Encoder`.
    vectors
        A file of word vectors, for ``cnn``.
    model
        A sentence-transformers model, for ``sentence``, ``static`` and ``both``; for a remote service, the
        name of its model.
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
    if isinstance(encoder, Encoder):
        refuse_options("the encoder that was given", vectors=vectors, model=model)
        return encoder
    if not isinstance(encoder, str):
        raise UsageError(
            "this is not an encoder",
            got=quote(encoder),
            expected=f"{', '.join(ENCODER_NAMES)}, or an object of a subclass of Encoder",
        )
    owner = f"encoder {quote(encoder)}"
    if encoder == "cnn":
        refuse_options(owner, model=model)
        return CnnEncoder(vectors)
    refuse_options(owner, vectors=vectors)
    if encoder == "multilingual":
        refuse_options(owner, model=model)
        return MultilingualEncoder()
    if encoder == "sentence":
        return SentenceEncoder(model, device=device)
    if encoder == "static":
        return StaticEncoder(model, device=device)
    if encoder == "both":
        return PairedEncoder(SentenceEncoder(model, device=device), MultilingualEncoder())
    if encoder.startswith(REMOTE_PREFIX):
        return RemoteEncoder(encoder.removeprefix(REMOTE_PREFIX), model=None if model is None else str(model))
    raise UsageError(
        "there is no such encoder",
        got=quote(encoder),
        expected=f"{', '.join(ENCODER_NAMES)} or {REMOTE_PREFIX}URL",
        todo=suggest(encoder, ENCODER_NAMES),
    )


def refuse_options(owner: str, **options: object) -> None:
    """Refuse options that do not belong to an encoder."""
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"{owner} takes no {option}", got=quote(str(value)))


def load_encoder(
    settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, device: str = "auto"
) -> Encoder:
    """Return the encoder that `Encoder.describe` described; a sentence model runs on `device`.

    Raises
    ------
    StoreError
        If the description is damaged, or the model found now is not the one of training.
    UsageError
        If the model is not available.

    Examples
    --------
    >>> load_encoder({"encoder": "features", "dimension": 3}, {})
    FeatureEncoder(dimension=3)
    """
    name = settings.get("encoder") if isinstance(settings, Mapping) else None
    if name not in SAVED_NAMES:
        raise StoreError("the encoder is unknown", got=quote(name), expected=", ".join(SAVED_NAMES))
    if name == "paired":
        parts = []
        for place in ("first", "second"):
            start = f"{place}."
            own = {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}
            parts.append(load_encoder(settings.get(place, {}), own, device=device))
        return PairedEncoder(*parts)
    try:
        encoder = restore(settings, arrays, device)
        expected = None if name in ("words", "features") else str(settings["fingerprint"])
    except (KeyError, TypeError, DataError, UsageError) as error:
        raise StoreError(
            "the description of the encoder is damaged", where=quote(name), got=f"{error}"
        ) from error
    if Integer(1).accepts(settings.get("dimension")):
        encoder._dimension = settings["dimension"]
    if expected is not None:
        check_fingerprint(encoder, expected)
    return encoder


def restore(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], device: str) -> Encoder:
    """Return the encoder that was described; what is missing or wrong raises errors of many kinds."""
    name = settings["encoder"]
    if name == "sentence":
        return SentenceEncoder(settings["model"], weight_delta=dict(arrays) or None, device=device)
    if name == "static":
        return StaticEncoder(settings["model"], dimension=settings["dimension"], device=device)
    if name == "multilingual":
        return MultilingualEncoder()
    if name == "remote":
        return RemoteEncoder(**{option: settings[option] for option in RemoteEncoder._options})
    if name == "words":
        words, lower = settings["words"], settings["lower"]
        if not all(isinstance(word, str) for word in words) or not isinstance(lower, bool):
            raise TypeError("the words are not strings, or lower is neither true nor false")
        return WordEncoder(Vocabulary(tuple(words), lower), arrays["vectors"])
    return FeatureEncoder({}, dimension=settings["dimension"])


def check_fingerprint(encoder: Encoder, expected: str) -> None:
    """Refuse an encoder whose model is not the one that was described."""
    try:
        found = encoder.fingerprint
    except DataError as error:  # a file of the model is damaged
        found = str(error)
    if found != expected:
        raise StoreError(
            "the encoder is not the one that this was trained with",
            where=quote(encoder),
            got=f"fingerprint {found[:12]}" if len(found) == len(expected) else found,
            expected=f"fingerprint {expected[:12]}",
            todo="restore the files of that model, or train again",
        )

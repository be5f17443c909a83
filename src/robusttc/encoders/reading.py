"""New texts after training: how they become the frozen inputs that a trained layer takes.

`Encoder.prepare` sees all tasks at once. A `Reader` is what is left of it for texts that come later, and it
can be kept beside a trained model: words have the numbers and vectors that they had in training, and a
sentence model must be the very one that made the training vectors.

A reader knows the words of all tasks that were prepared together. Where the texts of a task must not reach
the models of others (`Task.may_share`), prepare that task on its own and give it a reader of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Vocabulary
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.readers import EncoderReader, PairedReader, Reader, VectorReader, WordReader
from robusttc.errors import DataError, RobustTCError, StoreError, UsageError, quote

__all__ = [
    "EncoderReader",
    "PairedReader",
    "Reader",
    "VectorReader",
    "WordReader",
    "reader_from",
    "reader_of",
]


def reader_of(encoder: Encoder, prepared: PreparedTasks) -> Reader:
    """Give the reader that fits what an encoder prepared.

    Raises
    ------
    UsageError
        If the encoder is of your own and gave word numbers without their vocabulary.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> from robusttc.data import TaskSet
    >>> from robusttc.encoders.cnn import CnnEncoder
    >>> encoder = CnnEncoder()
    >>> reader = reader_of(encoder, encoder.prepare(TaskSet([Task("a", ["Hello you"], ["x"])])))
    >>> reader, reader.read(["you there"]).tokens.ids.tolist()
    (WordReader(4 words), [3, 1])
    """
    from robusttc.encoders.features import FeatureEncoder
    from robusttc.encoders.paired import PairedEncoder

    if isinstance(prepared.inputs, WordInputs):
        if prepared.vocabulary is None:
            raise UsageError(
                "the encoder gave word numbers without the words",
                got=quote(encoder),
                expected="a vocabulary in PreparedTasks, so that new texts can be read",
            )
        return WordReader(prepared.vocabulary, prepared.inputs.vectors)
    if isinstance(encoder, FeatureEncoder):
        return VectorReader(prepared.inputs.dimension)
    if isinstance(encoder, PairedEncoder):
        return PairedReader(EncoderReader(encoder.first), EncoderReader(encoder.second))
    return EncoderReader(encoder)


def reader_from(
    settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, device: str = "auto"
) -> Reader:
    """Make a reader from what `Reader.describe` gave.

    Parameters
    ----------
    settings, arrays
        Both parts of the description.
    device
        Where a sentence model runs.

    Raises
    ------
    StoreError
        If the description is damaged, or the sentence model found now is not the one of training.
    UsageError
        If the sentence model or the device is not there.

    Examples
    --------
    >>> reader_from({"kind": "vectors", "dimension": 3}, {})
    VectorReader(dimension 3)
    """
    kind = settings.get("kind")
    if kind == "words":
        return word_reader_from(settings, arrays)
    if kind == "vectors":
        dimension = settings.get("dimension")
        if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 1:
            raise StoreError("the reader of vectors is damaged", where="dimension", got=quote(dimension))
        return VectorReader(dimension)
    if kind == "sentence":
        return sentence_reader_from(settings, arrays, device)
    if kind == "paired":
        return paired_reader_from(settings, arrays, device)
    raise StoreError(
        "the reader of texts is unknown",
        got=quote(kind),
        expected="'sentence', 'words', 'vectors' or 'paired'",
    )


def paired_reader_from(
    settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], device: str
) -> PairedReader:
    """Make two readers side by side from their descriptions."""
    both = []
    for place in ("first", "second"):
        own, prefix = settings.get(place), f"{place}."
        if not isinstance(own, Mapping) or own.get("kind") == "paired":
            raise StoreError("the pair of readers is damaged", where=place, expected="a reader")
        kept = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        both.append(reader_from(own, kept, device=device))
    return PairedReader(*both)


def word_reader_from(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> WordReader:
    """Make a reader of words from its description."""
    words, lower, vectors = settings.get("words"), settings.get("lower"), arrays.get("vectors")
    is_whole = isinstance(words, list) and isinstance(lower, bool) and isinstance(vectors, np.ndarray)
    if not is_whole or not all(isinstance(word, str) for word in words):  # type: ignore[union-attr]
        raise StoreError("the reader of words is damaged", expected="words, lower and vectors")
    try:
        return WordReader(Vocabulary(tuple(words), lower), vectors)  # type: ignore[arg-type]
    except RobustTCError as error:
        raise StoreError("the reader of words is damaged", got=str(error)) from error


def sentence_reader_from(
    settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], device: str
) -> EncoderReader:
    """Make a reader of sentences from its description; refuse another model."""
    from robusttc.encoders.sentence import SentenceEncoder

    model, fingerprint = settings.get("model"), settings.get("fingerprint")
    if not isinstance(fingerprint, str) or not (model is None or isinstance(model, str)):
        raise StoreError("the reader of sentences is damaged", expected="a model and its fingerprint")
    changes = dict(arrays) if settings.get("changed") else None
    encoder = SentenceEncoder(model, device=device, changes=changes)
    try:
        got = f"fingerprint {encoder.fingerprint[:12]}"
        is_same = encoder.fingerprint == fingerprint
    except DataError as error:
        # Saved changes of weights do not fit another model, or the files of the model are damaged.
        got, is_same = str(error), False
    if not is_same:
        raise StoreError(
            "the sentence model is not the one that this was trained with",
            where="the default model" if model is None else quote(model),
            got=got,
            expected=f"fingerprint {fingerprint[:12]}",
            todo="bring back the files of that model, or train again",
        )
    return EncoderReader(encoder)

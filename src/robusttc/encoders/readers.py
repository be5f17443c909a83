"""The kinds of reader: words, ready-made vectors, and whatever an encoder gives; see `reading`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from robusttc.data import SPLITS, Task, TaskSet, Vocabulary, is_unicode
from robusttc.encoders.encoder import Encoder
from robusttc.encoders.inputs import DenseInputs, FrozenInputs, WordInputs
from robusttc.errors import DataError, UsageError, quote

__all__ = ["EncoderReader", "PairedReader", "Reader", "VectorReader", "WordReader"]

Arrays = dict[str, NDArray[Any]]


@runtime_checkable
class Reader(Protocol):
    """Turns new texts into frozen inputs."""

    def read(self, texts: Any) -> FrozenInputs:
        """Give the frozen inputs of texts, one a text; a text alone gives what it gives among others."""

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Give what `reader_from` needs to make it again: settings for JSON, and arrays."""


class WordReader:
    """Texts as word numbers, with the vocabulary and the vectors of training; other words are unknown.

    Examples
    --------
    >>> vocabulary = Vocabulary(("<pad>", "<unk>", "hello"))
    >>> reader = WordReader(vocabulary, np.zeros((3, 2), dtype=np.float32))
    >>> reader.read(["Hello you", ""]).tokens.ids.tolist()
    [2, 1]
    """

    def __init__(self, vocabulary: Vocabulary, vectors: NDArray[np.float32]) -> None:
        self.vocabulary = vocabulary
        self.vectors = WordInputs(vocabulary.encode([]), vectors).vectors
        if len(self.vectors) != len(vocabulary):
            raise UsageError(
                "there is not one vector a word",
                got=f"{len(self.vectors):,} vectors for {len(vocabulary):,} words",
            )

    def read(self, texts: Sequence[str]) -> WordInputs:
        """Look up the words of texts."""
        return WordInputs(self.vocabulary.encode(check_texts(texts)), self.vectors)

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Give the words, and their vectors."""
        settings = {"kind": "words", "words": list(self.vocabulary.words), "lower": self.vocabulary.lower}
        return settings, {"vectors": self.vectors}

    def __repr__(self) -> str:
        return f"WordReader({len(self.vocabulary):,} words)"


class VectorReader:
    """Ready-made vectors in place of texts; only their length is known.

    Examples
    --------
    >>> VectorReader(2).read([[1.0, 2.0]]).matrix.tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def read(self, texts: Any) -> DenseInputs:
        """Check vectors, one a row, and give them back."""
        expected = f"an array of numbers of shape (rows, {self.dimension})"
        is_text = isinstance(texts, str) or (
            isinstance(texts, Sequence) and any(isinstance(text, str) for text in texts)
        )
        try:
            array: NDArray[Any] = np.zeros(0) if is_text else np.asarray(texts)
        except ValueError as error:  # rows of different lengths
            raise DataError("the vectors cannot be used", got=str(error), expected=expected) from error
        if is_text or array.dtype.kind not in "fiu":
            raise UsageError(
                "this model was trained on ready-made vectors and cannot read texts",
                got=quote(texts),
                expected=expected,
                todo="give the vectors of the texts, made in the way of those in training",
            )
        if array.ndim == 1 and array.size == 0:
            array = array.reshape(0, self.dimension)
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise DataError("the vectors cannot be used", got=f"shape {array.shape}", expected=expected)
        with np.errstate(over="ignore"):
            return DenseInputs(array.astype(np.float32))

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Give the length of the vectors."""
        return {"kind": "vectors", "dimension": self.dimension}, {}

    def __repr__(self) -> str:
        return f"VectorReader(dimension {self.dimension})"


class EncoderReader:
    """Texts as the vectors that an encoder gives them, each on its own: sentence encoders, and your own.

    Only those of `SentenceEncoder` can be described, and so be saved.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def read(self, texts: Sequence[str]) -> FrozenInputs:
        """Let the encoder prepare the texts; a sentence encoder looks into its cache, but keeps nothing."""
        from robusttc.encoders.sentence import SentenceEncoder

        checked = check_texts(texts)
        codes = np.zeros(len(checked), dtype=np.int32)
        # Not by Task's own checks, which refuse a text of white space: in use, such texts come.
        task = Task.from_codes("texts", checked, ("-",), codes, SPLITS, codes.astype(np.int8))
        tasks = TaskSet([task])
        if isinstance(self.encoder, SentenceEncoder):
            # What people ask a model about is nobody's to keep.
            prepared = self.encoder.prepare(tasks, keep=False)
        else:
            prepared = self.encoder.prepare(tasks)
        return prepared.inputs.take(prepared.items["texts"])

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Give the model's name and fingerprint, and the weights in which it differs from that model.

        Raises
        ------
        UsageError
            If the encoder is not a `SentenceEncoder`.
        """
        from robusttc.encoders.sentence import SentenceEncoder

        if not isinstance(self.encoder, SentenceEncoder):
            raise UsageError(
                "a model on an encoder of your own cannot be saved",
                got=type(self.encoder).__name__,
                expected="a SentenceEncoder, a CnnEncoder or a FeatureEncoder",
                todo="save the vectors of your encoder, and give them to a FeatureEncoder",
            )
        model = None if self.encoder.model is None else str(self.encoder.model)
        changed_arrays = getattr(self.encoder, "changed_arrays", None)
        changes: Arrays | None = None if changed_arrays is None else changed_arrays()
        settings = {
            "kind": "sentence",
            "model": model,
            "fingerprint": self.encoder.fingerprint,
            "changed": changes is not None,
        }
        return settings, dict(changes or {})

    def __repr__(self) -> str:
        return f"EncoderReader({self.encoder!r})"


class PairedReader:
    """Texts as the vectors of two readers, one behind the other; see `robusttc.encoders.paired`.

    Examples
    --------
    >>> PairedReader(VectorReader(1), VectorReader(1)).read([[2.0]]).matrix.tolist()
    [[2.0, 2.0]]
    """

    def __init__(self, first: Reader, second: Reader) -> None:
        self.first, self.second = first, second

    def read(self, texts: Any) -> DenseInputs:
        """Let both read the texts."""
        read = [self.first.read(texts), self.second.read(texts)]
        return DenseInputs(np.hstack([inputs.matrix for inputs in read if isinstance(inputs, DenseInputs)]))

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Give the descriptions of both."""
        settings: dict[str, Any] = {"kind": "paired"}
        arrays: Arrays = {}
        for place, reader in (("first", self.first), ("second", self.second)):
            settings[place], own = reader.describe()
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
        return settings, arrays

    def __repr__(self) -> str:
        return f"PairedReader({self.first!r}, {self.second!r})"


def check_texts(texts: object) -> list[str]:
    """Refuse what is not a list of Unicode strings; texts of white space are allowed."""
    if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
        raise UsageError("these are no texts", got=quote(texts), expected="a list of strings")
    checked = list(texts)
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            raise DataError("a text is not a string", where=f"row {row}", got=quote(text))
        if not is_unicode(text):
            raise DataError(
                "a text is not valid Unicode: it has half of a surrogate pair",
                where=f"row {row}",
                got=quote(text),
            )
    return checked

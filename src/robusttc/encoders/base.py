"""What an encoder is: texts go in, one vector per text comes out (for the CNN, the numbers of its words).

An encoder is frozen: it knows nothing of labels, so computing it on all rows reveals nothing about them. What
is trained on top of it (layers, classifiers) takes the `FrozenInputs` that it returns.

To add an encoder, write one method:

>>> class TextLength(Encoder):
...     name = "length"
...
...     def encode(self, texts):
...         return np.array([[len(text)] for text in texts], dtype=np.float32)
>>> TextLength().read(["hi", "hello"]).matrix.tolist()
[[2.0], [5.0]]
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import TaskSet, TokenArray, Vocabulary, is_unicode
from robusttc.errors import DataError, StoreError, UnknownTaskError, UsageError, nearest_name, quote
from robusttc.params import Integer
from robusttc.progress import Progress, report

if TYPE_CHECKING:
    from robusttc.encoders.cache import VectorCache

__all__ = [
    "ENCODER_NAMES",
    "DenseInputs",
    "Encoder",
    "FrozenInputs",
    "PreparedTasks",
    "WordInputs",
    "check_texts",
    "distinct_texts",
    "load_encoder",
    "make_encoder",
    "resolve_device",
]

ENCODER_NAMES = ("sentence", "static", "multilingual", "both", "cnn")
REMOTE_PREFIX = "remote:"
# The default fingerprint of an encoder is made of the vectors of these texts.
PROBES = ("", "Where is my parcel?", "¿Dónde está mi paquete?")

# Where the encoder of each name in a description is.
CLASSES = {
    "sentence": ("robusttc.encoders.sentence", "SentenceEncoder"),
    "static": ("robusttc.encoders.static", "StaticEncoder"),
    "multilingual": ("robusttc.encoders.multilingual", "MultilingualEncoder"),
    "paired": ("robusttc.encoders.paired", "PairedEncoder"),
    "remote": ("robusttc.encoders.remote", "RemoteEncoder"),
    "words": ("robusttc.encoders.cnn", "WordEncoder"),
    "features": ("robusttc.encoders.features", "FeatureEncoder"),
}

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class DenseInputs:
    """One vector per text.

    Parameters
    ----------
    matrix
        The vectors, float32 of shape (texts, dimensions).

    Raises
    ------
    UsageError
        If it is not a float32 matrix.
    DataError
        If a number is not finite.

    Examples
    --------
    >>> inputs = DenseInputs(np.eye(3, dtype=np.float32))
    >>> len(inputs), inputs.take([2, 0]).matrix.tolist()
    (3, [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    """

    matrix: NDArray[np.float32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", check_matrix("the input vectors", self.matrix))

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.matrix)

    def take(self, rows: ArrayLike) -> DenseInputs:
        """Return a copy of the given rows, in the given order."""
        taken = object.__new__(DenseInputs)  # the numbers have been checked
        object.__setattr__(taken, "matrix", self.matrix[check_rows(rows, len(self))])
        return taken

    def __repr__(self) -> str:
        return f"DenseInputs({len(self):,} items, dimension {self.dimension})"


@dataclass(frozen=True, slots=True, eq=False)
class WordInputs:
    """The word numbers of every text, and the vector of every word.

    Parameters
    ----------
    tokens
        The word numbers of every text; a text may have none.
    vectors
        The vector of every word number, float32 of shape (words, dimensions). Word 0 is the padding, whose
        vector is zero.
    vocabulary
        The words behind the numbers, which new texts need; None where there are no new texts.

    Raises
    ------
    UsageError
        If `vectors` is not a float32 matrix, or there are fewer vectors than words.
    DataError
        If a number is not finite, or the padding has a vector other than zero.

    Examples
    --------
    >>> vectors = np.array([[0, 0], [1, 2], [3, 4]], dtype=np.float32)
    >>> inputs = WordInputs(TokenArray([1, 2, 2], [0, 2, 3]), vectors)
    >>> inputs, inputs.take([1]).tokens.ids.tolist()
    (WordInputs(2 items, 3 words, dimension 2), [2])
    """

    tokens: TokenArray
    vectors: NDArray[np.float32]
    vocabulary: Vocabulary | None = None

    def __post_init__(self) -> None:
        vectors = check_matrix("the word vectors", self.vectors)
        object.__setattr__(self, "vectors", vectors)
        if len(vectors) == 0 or vectors[0].any():
            raise DataError(
                "the vector of word 0, the padding, is not zero",
                got=f"{len(vectors):,} vectors",
                expected="a first row of zeros",
                todo="put a row of zeros in front, and count words from 1",
            )
        ids = self.tokens.ids
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(vectors)):
            raise UsageError(
                "a word number has no vector",
                got=f"word {int(ids.min() if ids.min() < 0 else ids.max()):,}",
                expected=f"numbers from 0 to {len(vectors) - 1:,}",
                todo="take the vectors of the vocabulary that made the tokens",
            )

    @property
    def dimension(self) -> int:
        """The length of a word vector."""
        return int(self.vectors.shape[1])

    @property
    def n_words(self) -> int:
        """The number of words, including the padding."""
        return len(self.vectors)

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: ArrayLike) -> WordInputs:
        """Return a copy of the word numbers of the given rows, in the given order; vectors are shared."""
        # Checking the vectors of all words again for every task would cost more than training.
        taken = object.__new__(WordInputs)
        object.__setattr__(taken, "tokens", self.tokens.take(check_rows(rows, len(self))))
        object.__setattr__(taken, "vectors", self.vectors)
        object.__setattr__(taken, "vocabulary", self.vocabulary)
        return taken

    def __repr__(self) -> str:
        return f"WordInputs({len(self):,} items, {self.n_words:,} words, dimension {self.dimension})"


FrozenInputs = DenseInputs | WordInputs


@dataclass(frozen=True)
class PreparedTasks:
    """The encoded rows of a set of tasks, every distinct text once.

    Attributes
    ----------
    inputs
        The encoded distinct texts.
    text_index
        For every task, by its name, the index into `inputs` of each of its rows; -1 for rows of splits that
        were not requested.
    """

    inputs: FrozenInputs
    text_index: dict[str, NDArray[np.int64]]

    def items_of(self, task: str, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the indices into `inputs` of some rows of a task."""
        if task not in self.text_index:
            raise UnknownTaskError(task, tuple(self.text_index))
        return self.text_index[task][rows]

    def inputs_of(self, task: str, rows: NDArray[np.intp]) -> FrozenInputs:
        """Return the encoded rows of a task."""
        return self.inputs.take(self.items_of(task, rows))


class Encoder(ABC):
    """Base class of encoders; a subclass must write `encode`.

    Attributes
    ----------
    name
        A short name for people.
    cache
        Where vectors are kept; None computes them whenever they are needed. Vectors are kept under the
        fingerprint, so an encoder with a cache should define one.
    """

    name: str = "custom"
    cache: VectorCache | None = None
    _dimension: int | None = None  # of the vectors, as far as it is known

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: it changes whenever the vectors of the same texts would change.

        By default it is a hash of the vectors of a few fixed texts.
        """
        matrix = self._dense(PROBES).matrix
        kind = type(self)
        return hashlib.sha256(
            f"{kind.__module__}.{kind.__qualname__}:{matrix.shape}".encode() + matrix.tobytes()
        ).hexdigest()

    @property
    def keeps_vectors(self) -> bool:
        """Whether vectors are kept, so that computing them in advance pays."""
        return self.cache is not None and self.cache.keeps

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32] | WordInputs:
        """Return one vector per text, float32 of shape (texts, dimensions); nothing is kept."""

    def encode_cached(
        self, texts: Sequence[str], *, keep: bool = True, progress: Progress | None = None
    ) -> FrozenInputs:
        """Encode texts, looking up in the cache those that it has.

        Parameters
        ----------
        texts
            The texts.
        keep
            Whether the cache keeps the vectors that it lacked.
        progress
            Progress callback, counted in texts.
        """
        if not texts:
            if self._dimension is not None:  # without loading a model
                return DenseInputs(np.empty((0, self._dimension), dtype=np.float32))
            return self._inputs(PROBES[:1]).take([])
        if self.cache is None:
            report(progress, f"{self.name} vectors", 0, len(texts), "texts")
            inputs = self._inputs(texts)
        else:

            def advance(n_done: int) -> None:
                report(progress, f"{self.name} vectors", n_done, len(texts), "texts")

            matrix = self.cache.get_or_compute(
                self.fingerprint,
                texts,
                lambda missing: self._dense(missing).matrix,
                keep=keep,
                advance=advance,
            )
            inputs = DenseInputs(matrix)
        if isinstance(inputs, DenseInputs):
            self._dimension = inputs.dimension
        report(progress, f"{self.name} vectors", len(texts), len(texts), "texts")
        return inputs

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Encode the rows of all tasks, every distinct text once.

        Parameters
        ----------
        tasks
            The tasks.
        splits
            The splits whose rows are encoded; None encodes all rows.
        progress
            Progress callback, counted in texts.
        """
        texts, text_index = distinct_texts(tasks, splits)
        return PreparedTasks(self.encode_cached(texts, progress=progress), text_index)

    def for_new_texts(self, prepared: PreparedTasks) -> Encoder:
        """Return the encoder that encodes new texts as `prepared` was encoded; it can be saved."""
        del prepared  # only word numbers depend on the texts that were prepared
        return self

    def read(self, texts: Sequence[str]) -> FrozenInputs:
        """Encode texts that a trained model is to predict: checked, and kept nowhere.

        Raises
        ------
        UsageError
            If `texts` is not a list.
        DataError
            If a text is not a string of valid Unicode.
        """
        return self.encode_cached(check_texts(texts), keep=False)

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return what `load_encoder` needs: settings for JSON with the name of the encoder, and arrays.

        Raises
        ------
        UsageError
            If the encoder cannot be saved: then a model on top of it cannot, either.
        """
        raise UsageError(
            "a model on an encoder of your own cannot be saved",
            got=type(self).__name__,
            expected=f"one of the encoders {', '.join(ENCODER_NAMES)}, or a FeatureEncoder",
            todo="save the vectors of your encoder, and pass them to a FeatureEncoder",
        )

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], device: str) -> Encoder:
        """Return the encoder that was described; see `load_encoder`."""
        raise NotImplementedError

    def _inputs(self, texts: Sequence[str]) -> FrozenInputs:
        encoded = self.encode(texts)
        if isinstance(encoded, WordInputs):
            return encoded
        inputs = DenseInputs(encoded)
        if len(inputs) != len(texts):
            raise UsageError(
                "the encoder did not return one vector per text",
                where=quote(self),
                got=f"shape {inputs.matrix.shape}",
                expected=f"({len(texts)}, dimensions)",
            )
        return inputs

    def _dense(self, texts: Sequence[str]) -> DenseInputs:
        inputs = self._inputs(texts)
        if not isinstance(inputs, DenseInputs):
            raise UsageError("this encoder does not return one vector per text", got=quote(self))
        return inputs


def distinct_texts(
    tasks: TaskSet, splits: Sequence[str] | None = None
) -> tuple[list[str], dict[str, NDArray[np.int64]]]:
    """Return the distinct texts of all tasks, and for each row the index of its text among them.

    They are sorted, so the order of the tasks changes nothing. With `splits`, only rows of these count; the
    index of all others is -1.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["yo", "hi"], ["x", "y"]), Task("b", ["hi"], ["z"])])
    >>> texts, text_index = distinct_texts(tasks)
    >>> texts, text_index["a"].tolist(), text_index["b"].tolist()
    (['hi', 'yo'], [1, 0], [0])
    """
    rows = {task.name: range(len(task)) if splits is None else task.rows(*splits).tolist() for task in tasks}
    texts = sorted({task.texts[row] for task in tasks for row in rows[task.name]})
    index_of = {text: index for index, text in enumerate(texts)}
    text_index: dict[str, NDArray[np.int64]] = {}
    for task in tasks:
        chosen = rows[task.name]
        text_index[task.name] = np.full(len(task), -1, dtype=np.int64)
        text_index[task.name][chosen] = [index_of[task.texts[row]] for row in chosen]
    return texts, text_index


def make_encoder(
    encoder: str | Encoder = "sentence",
    *,
    vectors: str | PathLike[str] | None = None,
    model: str | PathLike[str] | None = None,
    device: str = "auto",
) -> Encoder:
    """Return the encoder of a name; an encoder is returned unchanged.

    Parameters
    ----------
    encoder
        ``sentence``, ``static``, ``multilingual``, ``both`` (sentence and multilingual vectors concatenated),
        ``cnn``, ``remote:URL`` (an HTTP embedding service), or an `Encoder`.
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
    if not isinstance(encoder, str):
        if not isinstance(encoder, Encoder):
            raise UsageError(
                "this is not an encoder",
                got=quote(encoder),
                expected=f"{', '.join(ENCODER_NAMES)}, or an object of a subclass of Encoder",
            )
        refuse_options("the encoder that was given", vectors=vectors, model=model)
        return encoder
    if encoder not in ENCODER_NAMES and not encoder.startswith(REMOTE_PREFIX):
        nearest = nearest_name(encoder, ENCODER_NAMES)
        raise UsageError(
            "there is no such encoder",
            got=quote(encoder),
            expected=f"{', '.join(ENCODER_NAMES)} or {REMOTE_PREFIX}URL",
            todo=f"did you mean {quote(nearest)}?" if nearest else None,
        )
    refuse_options(
        f"encoder {quote(encoder)}",
        vectors=None if encoder == "cnn" else vectors,
        model=model if encoder in ("cnn", "multilingual") else None,
    )
    return make_named(encoder, vectors=vectors, model=model, device=device)


def make_named(
    name: str, *, vectors: str | PathLike[str] | None, model: str | PathLike[str] | None, device: str
) -> Encoder:
    """Return the encoder of a name, with options that belong to it."""
    # Late, because each of them imports this module.
    from robusttc.encoders.cnn import CnnEncoder
    from robusttc.encoders.multilingual import MultilingualEncoder
    from robusttc.encoders.paired import PairedEncoder
    from robusttc.encoders.remote import RemoteEncoder
    from robusttc.encoders.sentence import SentenceEncoder
    from robusttc.encoders.static import StaticEncoder

    if name == "cnn":
        return CnnEncoder(vectors)
    if name == "static":
        return StaticEncoder(model, device=device)
    if name == "multilingual":
        return MultilingualEncoder()
    if name == "both":
        return PairedEncoder(SentenceEncoder(model, device=device), MultilingualEncoder())
    if name.startswith(REMOTE_PREFIX):
        return RemoteEncoder(name.removeprefix(REMOTE_PREFIX), model=None if model is None else str(model))
    return SentenceEncoder(model, device=device)


def load_encoder(
    settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, device: str = "auto"
) -> Encoder:
    """Return the encoder that `Encoder.describe` described.

    Parameters
    ----------
    settings, arrays
        Both parts of the description.
    device
        Where a sentence model runs.

    Raises
    ------
    StoreError
        If the description is damaged, or the model found now is not the one of training.
    UsageError
        If the model or the device is not available.

    Examples
    --------
    >>> load_encoder({"encoder": "features", "dimension": 3}, {})
    FeatureEncoder(dimension 3)
    """
    name = settings.get("encoder")
    if name not in CLASSES:
        raise StoreError("the encoder is unknown", got=quote(name), expected=", ".join(CLASSES))
    module, class_name = CLASSES[name]
    kind: type[Encoder] = getattr(import_module(module), class_name)
    damage: tuple[type[Exception], ...] = (KeyError, TypeError, DataError)
    if name != "paired":  # whose parts may have a model that is not installed
        damage = (*damage, UsageError)
    try:
        encoder = kind.restore(settings, arrays, device)
    except damage as error:
        raise StoreError(
            "the description of the encoder is damaged", where=quote(name), got=f"{error}"
        ) from error
    if Integer(1).accepts(settings.get("dimension")):
        encoder._dimension = settings["dimension"]
    expected = settings.get("fingerprint")
    if expected is None:
        return encoder
    try:
        got = encoder.fingerprint
    except DataError as error:  # a file of the model is damaged
        got = str(error)
    if got != expected:
        raise StoreError(
            "the encoder is not the one that this was trained with",
            where=quote(encoder),
            got=f"fingerprint {got[:12]}" if len(got) == len(expected) else got,
            expected=f"fingerprint {expected[:12]}",
            todo="restore the files of that model, or train again",
        )
    return encoder


def refuse_options(owner: str, **options: object) -> None:
    """Refuse options that do not belong to an encoder."""
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"{owner} takes no {option}", got=quote(str(value)))


def resolve_device(device: str) -> str:
    """Return the name of an available device: ``cpu``, ``cuda:N`` or ``mps``.

    Parameters
    ----------
    device
        ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; ``auto`` takes a GPU if there is one.

    Raises
    ------
    UsageError
        If there is no such device; the message lists those that there are.

    Examples
    --------
    >>> resolve_device("cpu")
    'cpu'
    """
    if device == "cpu":
        return device  # without importing torch
    available = find_devices()
    if device == "auto":
        return available[0]
    if not isinstance(device, str) or not re.fullmatch(r"mps|cuda(:\d{1,4})?", device):
        nearest = nearest_name(device, ("auto", "cpu", "cuda", "mps")) if isinstance(device, str) else None
        raise UsageError(
            "there is no device of this name",
            got=quote(device),
            expected="auto, cpu, cuda, cuda:N or mps",
            todo=f"did you mean {quote(nearest)}?" if nearest else None,
        )
    wanted = "cuda:0" if device == "cuda" else device
    if wanted not in available:
        raise UsageError(
            "the device is not available",
            got=quote(device),
            expected=f"one of {', '.join(available)}",
            todo="pass auto to take the best available device",
        )
    return wanted


def find_devices() -> list[str]:
    """Return the devices that torch can use, the best first."""
    import torch

    gpus = [f"cuda:{n}" for n in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*gpus, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def check_texts(texts: object) -> list[str]:
    """Refuse what is not a list of valid Unicode strings; blank texts are allowed.

    Raises
    ------
    UsageError
        If it is not a list.
    DataError
        If a text is not a string, or has half of a surrogate pair.
    """
    if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
        raise UsageError("texts must be a list of strings", got=quote(texts))
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


def check_matrix(what: str, matrix: object) -> NDArray[np.float32]:
    """Refuse what is not a finite float32 matrix; return it C-contiguous."""
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or matrix.dtype != np.float32:
        is_array = isinstance(matrix, np.ndarray)
        raise UsageError(
            f"{what} are not a matrix of 32-bit floats",
            got=f"{matrix.dtype} of shape {matrix.shape}" if is_array else type(matrix).__name__,  # type: ignore[attr-defined]
            expected="a float32 array of two dimensions",
            todo="convert them with np.asarray(matrix, dtype=np.float32)",
        )
    if matrix.shape[1] == 0:
        raise UsageError(f"{what} have no numbers", got=f"shape {matrix.shape}")
    finite = np.isfinite(matrix)
    if not finite.all():
        row, column = (int(index) for index in np.argwhere(~finite)[0])
        raise DataError(
            f"{what} have a number that is not finite",
            where=f"row {row:,}, column {column:,}",
            got=str(matrix[row, column]),
        )
    return np.ascontiguousarray(matrix)


def check_rows(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return row numbers as an array; refuse those out of range."""
    chosen = np.asarray(rows)
    if chosen.size == 0:
        return np.zeros(0, dtype=np.int64)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= n_rows:
        raise UsageError(
            "the rows cannot be taken",
            got=f"{chosen.dtype} of shape {chosen.shape}, from {chosen.min()} to {chosen.max()}",
            expected=f"a list of row numbers from 0 to {n_rows - 1:,}",
        )
    return chosen.astype(np.int64)

"""What an encoder returns: one vector per text, or the word numbers of every text; and the texts of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import TaskSet, TokenArray, Vocabulary
from robusttc.errors import DataError, UnknownTaskError, UsageError

__all__ = ["DenseInputs", "FrozenInputs", "PreparedTasks", "WordInputs", "distinct_texts"]

Inputs = TypeVar("Inputs", "DenseInputs", "WordInputs")


@dataclass(frozen=True, slots=True, eq=False)
class DenseInputs:
    """One vector per text: a matrix of finite float32 numbers, shape (texts, dimensions).

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
        return make_unchecked(DenseInputs, matrix=self.matrix[check_rows(rows, len(self))])

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
                todo="put a row of zeros in front, and count words from 1",
            )
        ids = self.tokens.ids
        wrong = ids[(ids < 0) | (ids >= len(vectors))]
        if len(wrong):
            expected = f"numbers from 0 to {len(vectors) - 1:,}"
            raise UsageError("a word number has no vector", got=f"word {wrong[0]:,}", expected=expected)

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
        tokens = self.tokens.take(check_rows(rows, len(self)))
        return make_unchecked(WordInputs, tokens=tokens, vectors=self.vectors, vocabulary=self.vocabulary)

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


def make_unchecked(kind: type[Inputs], **fields: object) -> Inputs:
    """Return inputs made of checked ones: checking all vectors for every task would outlast its training."""
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def check_matrix(what: str, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Refuse what is not a finite float32 matrix; return it C-contiguous."""
    dtype: Any = getattr(matrix, "dtype", type(matrix).__name__)
    shape: tuple[int, ...] = getattr(matrix, "shape", ())
    if dtype != np.float32 or len(shape) != 2 or shape[1] == 0:
        raise UsageError(
            f"{what} are not a matrix of 32-bit floats",
            got=f"{dtype} of shape {shape}",
            expected="a float32 array of shape (items, dimensions), with at least one dimension",
        )
    finite = np.isfinite(matrix)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        place = f"row {row:,}, column {column:,}"
        raise DataError(f"{what} have a number that is not finite", where=place, got=str(matrix[row, column]))
    return np.ascontiguousarray(matrix)


def check_rows(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return row numbers as an array; refuse those out of range, among them the -1 of rows not encoded."""
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

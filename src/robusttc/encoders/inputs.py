"""What the frozen part of an encoder hands to the trained layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import TokenArray
from robusttc.errors import DataError, UsageError

__all__ = ["DenseInputs", "FrozenInputs", "WordInputs"]


@dataclass(frozen=True, slots=True, eq=False)
class DenseInputs:
    """One vector an item, for instance a sentence vector.

    Parameters
    ----------
    matrix
        The vectors, float32 of shape (items, dimensions).

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
        """How many numbers a vector has."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.matrix)

    def take(self, rows: ArrayLike) -> DenseInputs:
        """Copy the given items, in the given order."""
        taken = object.__new__(DenseInputs)
        object.__setattr__(taken, "matrix", self.matrix[check_rows(rows, len(self))])
        return taken

    def __repr__(self) -> str:
        return f"DenseInputs({len(self):,} items, dimension {self.dimension})"


@dataclass(frozen=True, slots=True, eq=False)
class WordInputs:
    """Word numbers, an item a row, and the vector of every word.

    Parameters
    ----------
    tokens
        The word numbers of every item; an item may have none.
    vectors
        The vector of every word number, float32 of shape (words, dimensions). Word 0 is the padding, whose
        vector is zero.

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
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise UsageError(
                "a word number has no vector",
                got=f"word {wrong:,}",
                expected=f"numbers from 0 to {len(vectors) - 1:,}",
                todo="take the vectors of the vocabulary that made the tokens",
            )

    @property
    def dimension(self) -> int:
        """How many numbers a word vector has."""
        return int(self.vectors.shape[1])

    @property
    def n_words(self) -> int:
        """How many word numbers there are, the padding among them."""
        return len(self.vectors)

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: ArrayLike) -> WordInputs:
        """Copy the word numbers of the given items, in the given order; the vectors are shared."""
        taken = object.__new__(WordInputs)
        # The vectors were checked once; that of all words again for every task would cost more than training.
        object.__setattr__(taken, "tokens", self.tokens.take(check_rows(rows, len(self))))
        object.__setattr__(taken, "vectors", self.vectors)
        return taken

    def __repr__(self) -> str:
        return f"WordInputs({len(self):,} items, {self.n_words:,} words, dimension {self.dimension})"


FrozenInputs = DenseInputs | WordInputs


def check_matrix(what: str, matrix: object) -> NDArray[np.float32]:
    """Refuse what is not a finite float32 matrix; give it in one block of memory."""
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
        row, column = (int(place) for place in np.argwhere(~finite)[0])
        raise DataError(
            f"{what} have a number that is not finite",
            where=f"row {row:,}, column {column:,}",
            got=str(matrix[row, column]),
        )
    return np.ascontiguousarray(matrix)


def check_rows(rows: ArrayLike, n_items: int) -> NDArray[np.int64]:
    """Give row numbers as an array; refuse those that are not there."""
    chosen = np.asarray(rows)
    if chosen.size == 0:
        return np.zeros(0, dtype=np.int64)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= n_items:
        raise UsageError(
            "the rows cannot be taken",
            got=f"{chosen.dtype} of shape {chosen.shape}, from {chosen.min()} to {chosen.max()}",
            expected=f"a list of row numbers from 0 to {n_items - 1:,}",
        )
    return chosen.astype(np.int64)

"""The completion problem (Eq. 2) with its data checked.

Symbols of this package, as in the paper: `Y` the partial similarity, `observed` the set Omega, `X` the
completed similarity, `E` the sparse errors, `lam` the weight lambda of the errors; `Q` is the dual.

    minimise  ||X||_* + sum over observed (i, j) of weight_ij |E_ij|
    subject to  X + E = Y on the observed entries

where weight_ij is lam times a factor for ones and another for zeros (both 1 in the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.errors import DataError, UsageError, quote

__all__ = ["Floats", "Problem", "make_problem"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """The observed entries of a symmetric matrix, in CSR form with sorted columns.

    Attributes
    ----------
    indptr, indices
        The rows and columns of the observed entries; symmetric.
    Y
        The value of each observed entry, from 0 to 1; symmetric.
    factor
        The weight of each entry's error, relative to `lam`.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    Y: Floats
    factor: Floats

    @property
    def n(self) -> int:
        """The number of tasks."""
        return len(self.indptr) - 1

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """The row of each observed entry."""
        return np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def on_diagonal(self) -> NDArray[np.bool_]:
        """Which entries lie on the diagonal."""
        return np.equal(self.rows, self.indices)

    def matrix(self, values: Floats) -> sparse.csr_array:
        """Give a sparse matrix with these values at the observed entries; it shares the index arrays."""
        return sparse.csr_array((values, self.indices, self.indptr), shape=(self.n, self.n))

    def part(self, chosen: NDArray[np.bool_], values: Floats) -> sparse.csr_array:
        """Give a sparse matrix with these values at the chosen ones of the observed entries."""
        places = np.concatenate([[0], np.cumsum(chosen)])[self.indptr]
        return sparse.csr_array((values[chosen], self.indices[chosen], places), shape=(self.n, self.n))

    @property
    def mean_degree(self) -> float:
        """The mean number of observed partners of a task (d)."""
        return float((len(self.indices) - np.count_nonzero(self.on_diagonal)) / self.n)


def make_problem(Y: Any, observed: Any, weights: Sequence[float] = (1.0, 1.0)) -> Problem:
    """Check the data of a completion problem.

    Parameters
    ----------
    Y
        Partial similarities from 0 to 1, n x n, dense or SciPy sparse; only the observed entries count, and a
        sparse matrix is 0 where it has no entry.
    observed
        n x n, dense or SciPy sparse: not zero where `Y` is measured. In a sparse matrix an explicit zero is
        not an observation.
    weights
        Factors of the weight of errors on ones (entries of at least 1/2) and on zeros.

    Raises
    ------
    DataError
        If the matrices are not square, not of one size, not symmetric, or not in 0 to 1 where observed.
    UsageError
        If a weight is not a positive number.
    """
    check_weights(weights)
    pattern = find_pattern(as_matrix(observed, "observed"))
    values = as_matrix(Y, "Y")
    if pattern.shape != values.shape:
        raise DataError(
            "Y and observed differ in size", got=f"{values.shape} and {pattern.shape}", expected="one size"
        )
    mirror = mirrored_places(pattern)
    at_observed = values_on_pattern(values, pattern)
    check_values(at_observed, pattern, mirror)
    factor = np.where(at_observed >= 0.5, float(weights[0]), float(weights[1]))
    indices = pattern.indices.astype(np.int32, copy=False)
    return Problem(pattern.indptr.astype(np.int64), indices, at_observed, factor)


def check_weights(weights: Any) -> None:
    """Refuse weights that are not two positive numbers."""
    is_pair = isinstance(weights, Sequence | np.ndarray) and len(weights) == 2
    if not is_pair or not all(isinstance(w, Real) and 0 < float(w) < np.inf for w in weights):
        raise UsageError(
            "the weights of errors cannot be used",
            got=quote(weights),
            expected="two positive numbers: for ones and for zeros",
        )


def as_matrix(matrix: Any, name: str) -> Floats | sparse.csr_array:
    """Turn what was given into a dense array, or a CSR matrix with one entry a place; both are square."""
    result: Floats | sparse.csr_array
    try:
        if sparse.issparse(matrix):
            # Duplicates are summed in place, which must not change what the caller holds.
            is_clean = getattr(matrix, "has_canonical_format", False)
            entries: Any = sparse.csr_array(matrix, copy=not is_clean)  # type: ignore[call-overload]
            entries.sum_duplicates()
            kind = entries.dtype.kind
            result = entries.astype(np.float64, copy=False) if kind in "biuf" else entries
        else:
            array = np.asarray(matrix)
            kind = array.dtype.kind
            result = array.astype(np.float64, copy=False) if kind in "biuf" else array
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not a matrix of numbers", got=quote(str(error))) from None
    if kind not in "biuf":
        raise DataError(f"{name} is not a matrix of real numbers", got=f"an array of type {result.dtype}")
    if result.ndim != 2 or result.shape[0] != result.shape[1] or result.shape[0] == 0:
        raise DataError(f"{name} is not square", got=f"shape {result.shape}", expected="n x n with n >= 1")
    return result


def find_pattern(observed: Floats | sparse.csr_array) -> sparse.csr_array:
    """Give a matrix of the observed places, rows and columns sorted; its values mean nothing."""
    data = observed.data if sparse.issparse(observed) else observed
    if np.isnan(np.asarray(data)).any():
        raise DataError(
            "observed is not a number", got="nan", expected="not zero where Y is measured, or zero"
        )
    if isinstance(observed, np.ndarray):
        return sparse.csr_array(observed != 0)
    if np.all(observed.data):
        return observed
    pattern = observed.copy()
    pattern.eliminate_zeros()
    return pattern


def mirrored_places(pattern: sparse.csr_array) -> NDArray[np.int64]:
    """Give, for each entry (i, j) of a symmetric pattern, the place of its entry (j, i).

    Raises
    ------
    DataError
        If the pattern is not symmetric.
    """
    places = np.arange(pattern.nnz)
    numbered = sparse.csr_array((places, pattern.indices, pattern.indptr), shape=pattern.shape)
    transposed = numbered.T.tocsr()
    same_rows = np.array_equal(transposed.indptr, pattern.indptr)
    if not same_rows or not np.array_equal(transposed.indices, pattern.indices):
        ones = sparse.csr_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape)
        single = sparse.coo_array(ones - ones.T)
        single.eliminate_zeros()
        row, column = int(single.row[0]), int(single.col[0])
        raise DataError(
            "observed is not symmetric",
            where=f"entries ({row}, {column}) and ({column}, {row})",
            expected="a pair is observed in both entries or in none",
        )
    return np.asarray(transposed.data)


def values_on_pattern(values: Floats | sparse.csr_array, pattern: sparse.csr_array) -> Floats:
    """Give the values at the entries of the pattern, in its order; 0 where the values have no entry."""
    n = pattern.shape[0]
    rows = np.repeat(np.arange(n), np.diff(pattern.indptr))
    if isinstance(values, np.ndarray):
        return values[rows, pattern.indices]
    same_rows = np.array_equal(values.indptr, pattern.indptr)
    if same_rows and np.array_equal(values.indices, pattern.indices):
        return values.data.copy()
    # One number a place, ascending in both, since rows and columns are sorted.
    places = rows * n + pattern.indices
    value_places = np.repeat(np.arange(n), np.diff(values.indptr)) * n + values.indices
    if not len(value_places):
        return np.zeros(len(places))
    found = np.minimum(np.searchsorted(value_places, places), len(value_places) - 1)
    return np.where(value_places[found] == places, values.data[found], 0.0)


def check_values(values: Floats, pattern: sparse.csr_array, mirror: NDArray[np.int64]) -> None:
    """Refuse values that are not in 0 to 1 or not symmetric, naming the entry."""
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(bad):
        row, column = entry_at(pattern, int(bad[0]))
        raise DataError(
            "Y cannot be used at an observed entry",
            where=f"entry ({row}, {column})",
            got=quote(float(values[bad[0]])),
            expected="a similarity from 0 to 1",
        )
    mirrored = values[mirror]
    bad = np.flatnonzero(values != mirrored)
    if len(bad):
        row, column = entry_at(pattern, int(bad[0]))
        raise DataError(
            "Y is not symmetric",
            where=f"entries ({row}, {column}) and ({column}, {row})",
            got=f"{values[bad[0]]:g} and {mirrored[bad[0]]:g}",
        )


def entry_at(pattern: sparse.csr_array, place: int) -> tuple[int, int]:
    """Give the row and column of the entry at a place."""
    return int(np.searchsorted(pattern.indptr, place, side="right")) - 1, int(pattern.indices[place])

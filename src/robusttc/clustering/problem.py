"""The completion program: measured entries, penalties, and the factors that solve it.

Over directed entries (source i, target j) with standardised scores W_ij and weights w_ij::

    minimise  sum over measured (i, j) of  w_ij H(W_ij - X_ij - N_ij - K_ij - a_i - b_j)
              + tau ||X||_* + tau_n ||N||_* + tau_k ||K||_* + rho_a/2 ||a||^2 + rho_b/2 ||b||^2

X is symmetric and positive semidefinite (the similarity that is clustered), N symmetric and negative
semidefinite, K skew-symmetric (how transfer differs between the two directions), a and b the row ("donor")
and column effects, H the Huber loss with threshold delta. An infinite penalty leaves its part out. Three
corners:

* W binary (Eq. 1), tau_n = tau, no K, a, b and delta -> 0: Eq. 2 of the paper with lambda = 1 / tau;
* delta -> infinity: soft-impute;
* in between: robust, and every measured pair counts.

The parts are kept as factors: X = U U', N = -V V', K = P Q' - Q P'. Where features of the tasks are known
(the mean vectors of their texts, say), all factors are B times coordinates, with B = [sqrt(1 - omega) I,
sqrt(omega) F] and the penalties on the coordinates: tasks with like features are then expected to transfer
alike, and omega says how much. Without features B is the identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Factors", "Floats", "Labels", "Numbers", "Penalties", "Problem", "make_problem", "number_pairs"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Numbers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Problem:
    """Measured entries of an n x n matrix in CSR form, rows sources, columns targets."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats
    weights: Floats
    basis: sparse.csr_array | None = None

    @property
    def n(self) -> int:
        """The number of tasks."""
        return len(self.indptr) - 1

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """The row of each entry."""
        return np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.indptr))

    @property
    def degree(self) -> float:
        """The mean number of measured entries of a row: the scale of tau is its square root."""
        return max(len(self.values) / max(self.n, 1), 1.0)

    def matrix(self, values: Floats) -> sparse.csr_array:
        """Return a sparse matrix with these values at the measured entries."""
        return sparse.csr_array((values, self.indices, self.indptr), shape=(self.n, self.n))

    @cached_property
    def transposed(self) -> NDArray[np.intp] | None:
        """Where each entry's other direction is; None if some entry is measured in one direction alone."""
        order = np.lexsort((self.rows, self.indices))
        turned = self.indices[order], self.rows[order]
        return order if np.array_equal(turned, (self.rows, self.indices)) else None

    def parts(self, values: Floats, sign: float) -> sparse.csr_array:
        """Return the symmetric (sign 1) or skew-symmetric (sign -1) part of a matrix of the entries."""
        if self.transposed is not None:
            return self.matrix((values + sign * values[self.transposed]) / 2)
        matrix = self.matrix(values)
        return sparse.csr_array((matrix + sign * matrix.T) / 2)

    @property
    def n_coordinates(self) -> int:
        """The number of rows of the factors' coordinates."""
        return self.n if self.basis is None else int(self.basis.shape[1])

    def expand(self, coordinates: Floats) -> Floats:
        """Return B times coordinates."""
        return coordinates if self.basis is None else np.asarray(self.basis @ coordinates)

    def contract(self, rows: Floats) -> Floats:
        """Return B' times rows of the tasks."""
        return rows if self.basis is None else np.asarray(self.basis.T @ rows)

    def in_coordinates(self, matrix: sparse.csr_array) -> sparse.csr_array:
        """Return B' matrix B."""
        return matrix if self.basis is None else sparse.csr_array(self.basis.T @ matrix @ self.basis)


def number_pairs(rows: Numbers, columns: Numbers, n: int) -> tuple[Labels, Labels]:
    """Return the unordered pairs of some entries, each as first * n + second, and the pair of each entry."""
    low, high = np.minimum(rows, columns).astype(np.int64), np.maximum(rows, columns)
    return np.unique(low * n + high, return_inverse=True)


def make_problem(
    n: int,
    rows: Numbers,
    columns: Numbers,
    values: Floats,
    weights: Floats | None = None,
    basis: sparse.csr_array | None = None,
) -> Problem:
    """Sort entries into CSR form; no entry may occur twice."""
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    weights = np.ones(len(values)) if weights is None else weights[order]
    return Problem(indptr, columns[order].astype(np.int32), values[order], weights, basis)


@dataclass(frozen=True)
class Penalties:
    """The penalties of the program; infinity leaves a part out. `delta` is the Huber threshold."""

    positive: float
    negative: float = np.inf
    skew: float = np.inf
    row: float = np.inf
    column: float = np.inf
    delta: float = 1.0


@dataclass(frozen=True, eq=False)
class Factors:
    """A point of the program: X = U U', N = -V V', K = P Q' - Q P', effects a and b."""

    U: Floats
    V: Floats
    P: Floats
    Q: Floats
    a: Floats
    b: Floats

    @property
    def parts(self) -> tuple[Floats, ...]:
        """All of them, in this order."""
        return self.U, self.V, self.P, self.Q, self.a, self.b

    @classmethod
    def zeros(cls, n: int) -> Factors:
        """Return the origin, without any column."""
        U, V, P, Q = (np.zeros((n, 0)) for _ in range(4))
        return cls(U, V, P, Q, np.zeros(n), np.zeros(n))

    @property
    def left(self) -> Floats:
        """Left factor of everything: prediction = left @ right'."""
        return np.column_stack([self.U, -self.V, self.P, -self.Q, self.a, np.ones(len(self.a))])

    @property
    def right(self) -> Floats:
        """Right factor of everything."""
        return np.column_stack([self.U, self.V, self.Q, self.P, np.ones(len(self.a)), self.b])

    def predict(self, rows: Numbers, columns: Numbers) -> Floats:
        """Return the predicted values of some entries."""
        left, right = self.left, self.right
        out = np.empty(len(rows))
        for start in range(0, len(rows), 400_000):  # bounds the memory of the gathered rows
            part = slice(start, start + 400_000)
            out[part] = np.einsum("ij,ij->i", left[rows[part]], right[columns[part]])
        return out

    def expanded(self, problem: Problem) -> Factors:
        """Return the factors of the tasks for coordinates of a problem with features."""
        return Factors(*(problem.expand(part) for part in self.parts))

"""Completion of a similarity matrix: the program on its own, with a certified duality gap.

With the absolute loss it is Eq. 2 of the paper. The program is in `robusttc.clustering.problem`, its solvers
are in `robusttc.clustering.solvers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from robusttc.clustering.completion import ROUGH, TAUS, count_folds
from robusttc.clustering.problem import Floats, Penalties, Problem, make_problem, number_pairs
from robusttc.clustering.solvers import Solution, residuals, solve_absolute, solve_smooth
from robusttc.clustering.spectral import eigen_factors
from robusttc.errors import DataError, quote
from robusttc.params import Choice, Constraint, Number, check_params
from robusttc.random import RandomState, run_seed

__all__ = ["CompletionResult", "as_result", "complete_similarity", "cross_validate_tau"]

LAMBDAS = (0.5, 0.7, 1.0, 1.4, 2.0)  # of Eq. 2, in units of 1 / sqrt(mean number of scores of a task)
POSITIVE = Number(0, excludes=("low",))
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "regularisation": (Choice("auto"), POSITIVE),
    "loss": (Choice("huber", "absolute", "squared"),),
    "delta": (POSITIVE,),
    "tol": (POSITIVE,),
}


@dataclass(frozen=True, eq=False)
class CompletionResult:
    """A completed similarity matrix with the proof of how good it is.

    Attributes
    ----------
    eigenvalues, eigenvectors
        X as factors: ``eigenvectors @ diag(eigenvalues) @ eigenvectors.T``; `dense` multiplies them out.
    regularisation
        tau, the penalty of the nuclear norm; with the absolute loss lambda of Eq. 2 is 1 / tau.
    loss, delta
        The loss, and the Huber threshold.
    objective, gap
        The value of the program, and the proven relative distance to its optimum.
    dual
        The sparse feasible G of the proof; see `robusttc.clustering.certificate`.
    outliers
        What the loss takes for outliers: residuals beyond the threshold, sparse (E of Eq. 2).
    converged
        Whether the gap reached the tolerance.
    message
        What to know about the answer; empty if it is proven to the tolerance.
    """

    eigenvalues: Floats
    eigenvectors: Floats
    regularisation: float
    loss: str
    delta: float
    objective: float
    gap: float
    dual: sparse.csr_array
    outliers: sparse.csr_array
    converged: bool
    message: str

    @property
    def rank(self) -> int:
        """The rank of X."""
        return len(self.eigenvalues)

    def dense(self) -> Floats:
        """Multiply X out: an n x n array."""
        X = (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T
        return np.asarray((X + X.T) / 2)


def complete_similarity(
    W: ArrayLike | sparse.sparray,
    measured: ArrayLike | sparse.sparray,
    *,
    regularisation: float | Literal["auto"] = "auto",
    loss: Literal["huber", "absolute", "squared"] = "huber",
    delta: float = 1.0,
    tol: float = 1e-5,
    random_state: RandomState = 0,
) -> CompletionResult:
    r"""Complete a similarity matrix from some of its entries, with a certified duality gap.

    .. math:: \min_X \; \tau \|X\|_* + \sum_{(i,j)\ \text{measured}} H(W_{ij} - X_{ij})

    over symmetric X: positive semidefinite ones with the Huber and squared loss; with ``loss="absolute"`` all
    of them, which is Eq. 2 of the paper with :math:`\lambda = 1 / \tau`.

    Parameters
    ----------
    W
        n x n, dense or sparse; only measured entries count. With the absolute loss it must be symmetric.
    measured
        n x n: not zero where W is measured.
    regularisation
        tau, or ``auto``: by cross-validation over the measured pairs.
    loss
        ``huber``, ``absolute`` or ``squared``.
    delta
        The Huber threshold, in the unit of W.
    tol
        The relative duality gap to reach.
    random_state
        The seed of the folds.

    Raises
    ------
    DataError
        If the matrices cannot be used.
    UsageError
        If a parameter is out of its domain.

    Examples
    --------
    >>> W = np.kron(np.eye(2), np.ones((6, 6))) - 0.5
    >>> measured = ~np.eye(12, dtype=bool)
    >>> found = complete_similarity(W, measured, regularisation=0.5)
    >>> found.rank, found.converged, bool(found.dense()[0, 1] > 0 > found.dense()[0, 11])
    (1, True, True)
    """
    given = {"regularisation": regularisation, "loss": loss, "delta": delta, "tol": tol}
    check_params(given, CONSTRAINTS)
    seed = run_seed(random_state)
    problem = check_entries(W, measured, symmetric=loss == "absolute")
    if loss == "squared":
        delta = np.inf
    if isinstance(regularisation, str):
        tau = cross_validate_tau(problem, loss, delta, seed)
    else:
        tau = float(regularisation)
    solution = solve_plain(problem, tau, loss, delta, tol, seed)
    return as_result(problem, solution, tau, loss, delta, tol)


def solve_plain(problem: Problem, tau: float, loss: str, delta: float, tol: float, seed: int) -> Solution:
    """Solve the program with X alone."""
    if loss == "absolute":
        return solve_absolute(problem, tau, tol=tol, seed=seed)
    return solve_smooth(problem, Penalties(tau, delta=delta), tol=tol, seed=seed)


def as_result(
    problem: Problem, solution: Solution, tau: float, loss: str, delta: float, tol: float
) -> CompletionResult:
    """Write a solution by eigenvalues, with what it takes for outliers."""
    factors = solution.factors.expanded(problem)
    # With the smooth losses X is the positive part alone.
    U, V = factors.U, factors.V if loss == "absolute" else factors.V[:, :0]
    values, vectors = eigen_factors(np.hstack([U, V]), np.repeat([1.0, -1.0], [U.shape[1], V.shape[1]]))
    left = residuals(problem, solution.factors)
    limit, largest = (0.0, 1.0) if loss == "absolute" else (delta, delta)  # of a residual, of the dual
    beyond = np.zeros_like(left)
    if np.isfinite(limit):
        is_beyond = np.abs(solution.dual) >= largest * problem.weights * (1 - 1e-6)
        is_beyond &= np.abs(left) > limit + 1e-9
        beyond = np.where(is_beyond, left - np.sign(left) * limit, 0.0)
    outliers = problem.matrix(beyond).copy()  # what is dropped here must not be dropped from the problem
    outliers.eliminate_zeros()
    message = ""
    if not solution.converged:
        message = (
            f"the optimum is proven only to {solution.gap:.1e} of its value, not {tol:.0e}: X has rank "
            f"{len(values)}; a larger regularisation (a smaller lambda) gives a lower rank and a proof"
        )
    dual = problem.matrix(solution.scale * solution.dual)
    proven = solution.objective, solution.gap, dual, outliers, solution.converged
    return CompletionResult(values, vectors, tau, loss, delta, *proven, message)


def cross_validate_tau(problem: Problem, loss: str, delta: float, seed: int) -> float:
    """Choose tau by the squared error of held-out pairs; scaled for the larger final sample."""
    rows, columns = problem.rows.astype(np.int64), problem.indices.astype(np.int64)
    pairs, pair = number_pairs(rows, columns, problem.n)
    n_folds = min(count_folds(len(pairs)), 5)
    fold_of = np.random.default_rng(seed).permutation(len(pairs)) % max(n_folds, 2)
    taus = [1 / factor for factor in LAMBDAS] if loss == "absolute" else TAUS
    errors = np.zeros(len(taus))
    for number in range(n_folds if len(pairs) >= 10 else 0):
        held = (fold_of[pair] == number) & (rows != columns)
        train = make_problem(problem.n, rows[~held], columns[~held], problem.values[~held])
        for place, tau in enumerate(taus):
            found = solve_plain(train, tau * float(np.sqrt(train.degree)), loss, delta, ROUGH, seed)
            predicted = found.factors.predict(rows[held], columns[held])
            errors[place] += float(np.sum((problem.values[held] - predicted) ** 2))
    return taus[int(np.argmin(errors))] * float(np.sqrt(problem.degree))


def check_entries(W: Any, measured: Any, *, symmetric: bool) -> Problem:
    """Refuse matrices that cannot be used, and return the measured entries."""
    values_of, pattern_of = check_matrix("W", W), check_matrix("measured", measured)
    if values_of.shape != pattern_of.shape:
        got = f"{values_of.shape} and {pattern_of.shape}"
        raise DataError("W and measured differ in size", got=got, expected="one size")
    pattern = sparse.coo_array(pattern_of)
    pattern.eliminate_zeros()
    if np.isnan(np.asarray(pattern.data, dtype=np.float64)).any():
        expected = "not zero where W is measured, or zero"
        raise DataError("measured is not a number", got="nan", expected=expected)
    rows, columns = pattern.row.astype(np.int64), pattern.col.astype(np.int64)
    values = np.asarray(values_of[rows, columns], dtype=np.float64).ravel()
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        where = f"entry ({rows[bad[0]]}, {columns[bad[0]]})"
        raise DataError("W is not a finite number", where=where, got=quote(float(values[bad[0]])))
    problem = make_problem(values_of.shape[0], rows, columns, values)
    if symmetric:
        check_symmetric("measured", problem.matrix(np.ones(len(values))))
        check_symmetric("W", problem.matrix(problem.values))
    return problem


def check_matrix(name: str, matrix: Any) -> Any:
    """Refuse what is not a square matrix of numbers."""
    is_sparse = sparse.issparse(matrix)
    array: Any = matrix
    try:
        array = sparse.csr_array(array) if is_sparse else np.asarray(array)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not a matrix of numbers", got=quote(str(error))) from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} is not a matrix of real numbers", got=f"an array of type {array.dtype}")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.shape[0]:
        raise DataError(f"{name} is not square", got=f"shape {array.shape}", expected="n x n with n >= 1")
    return array


def check_symmetric(name: str, matrix: sparse.csr_array) -> None:
    """Refuse a matrix that is not symmetric, naming an entry."""
    difference = sparse.coo_array(abs(matrix - matrix.T))
    if difference.nnz and difference.data.max() > 0:
        place = int(np.argmax(difference.data))
        row, column = difference.row[place], difference.col[place]
        where = f"entries ({row}, {column}) and ({column}, {row})"
        raise DataError(f"{name} is not symmetric", where=where, expected="Eq. 2 has a symmetric matrix")

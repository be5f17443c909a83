"""Completion for few tasks: the reference solver, on dense matrices.

ADMM on  minimise ||X||_* + g(Z)  subject to X = Z,  where g(Z) sums weight |Y - Z| over the observed entries.
The step in X shrinks the eigenvalues of a symmetric matrix, the step in Z shrinks the errors, and what the
step in Z leaves over is a dual Q on the observed entries, inside its box. So every round has a proof at hand,
and the solver stops on the certified gap, never on feasibility: ||X - Z|| can be small long before X is
right.
"""

from __future__ import annotations

import numpy as np

from robusttc.clustering.old.completion.certificate import dual_value
from robusttc.clustering.old.completion.problem import Floats, Problem
from robusttc.clustering.old.completion.result import Solution, Step

__all__ = ["solve_dense"]

OVER_RELAXATION = 1.6
ROUNDS_A_CHECK = 10
BALANCE = 2.0  # primal and dual residual may differ by this factor before the penalty moves
KEPT_EIGENVALUE = 1e-9


def solve_dense(problem: Problem, lam: float, *, tol: float = 1e-8, max_iter: int = 5_000) -> Solution:
    """Solve Eq. 2 with n x n matrices; see the module's docstring.

    Parameters
    ----------
    problem
        The observed entries.
    lam
        The weight of the errors.
    tol
        The relative duality gap to reach.
    max_iter
        How many rounds at the most.
    """
    rows, columns = problem.rows, problem.indices
    weight = lam * problem.factor
    Z = np.zeros((problem.n, problem.n))
    Z[rows, columns] = problem.Y
    scaled_dual = np.zeros_like(Z)  # the multiplier over mu
    # The largest eigenvalue of the data sets the scale of X, which ADMM wants mu to match.
    mu = 1.0 / max(float(np.abs(np.linalg.eigvalsh(Z)).max()) / 10, 1e-6)
    history: list[Step] = []
    best: Solution | None = None
    for iteration in range(1, max_iter + 1):
        values, vectors = np.linalg.eigh(Z - scaled_dual)
        values = np.sign(values) * np.maximum(np.abs(values) - 1 / mu, 0.0)
        X = (vectors * values) @ vectors.T
        X = (X + X.T) / 2  # rounding errors would add up in the dual
        relaxed = OVER_RELAXATION * X + (1 - OVER_RELAXATION) * Z
        target = relaxed + scaled_dual
        new_Z = target.copy()
        residual = problem.Y - target[rows, columns]
        Q = np.clip(mu * residual, -weight, weight)
        new_Z[rows, columns] = target[rows, columns] + Q / mu
        scaled_dual = target - new_Z
        primal = float(np.linalg.norm(X - new_Z))
        dual = mu * float(np.linalg.norm(new_Z - Z))
        Z = new_Z
        if iteration % ROUNDS_A_CHECK == 0 or iteration == max_iter:
            best = check(problem, lam, values, vectors, X, Q).joined(best)
            history.append(
                Step(best.objective, best.gap, best.gap, best.norm, int(np.count_nonzero(values)), iteration)
            )
            if best.gap <= tol:
                break
            if primal > BALANCE * dual / mu:
                mu, scaled_dual = mu * 1.5, scaled_dual / 1.5
            elif dual / mu > BALANCE * primal:
                mu, scaled_dual = mu / 1.5, scaled_dual * 1.5
    if best is None:
        raise AssertionError("max_iter is at least 1")
    return best.finished(tuple(history), tol)


def check(problem: Problem, lam: float, values: Floats, vectors: Floats, X: Floats, Q: Floats) -> Solution:
    """Give the X of this round with its objective and the bound that its Q proves."""
    loss = float((lam * problem.factor) @ np.abs(problem.Y - X[problem.rows, problem.indices]))
    objective = float(np.abs(values).sum()) + loss
    norm = float(np.abs(np.linalg.eigvalsh(problem.matrix(Q).toarray())).max())
    kept = np.abs(values) > KEPT_EIGENVALUE * max(float(np.abs(values).max()), 1.0)
    return Solution(
        eigenvalues=values[kept],
        eigenvectors=vectors[:, kept],
        Q=Q,
        objective=objective,
        dual=dual_value(problem, lam, Q, norm),
        norm=norm,
    )

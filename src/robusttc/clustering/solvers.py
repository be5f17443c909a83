"""Solvers of the completion program, all in factors: nothing is ever n x n but what the certificate needs.

In factors the smooth program (Huber or squared loss) is a plain minimisation by L-BFGS. It is not convex, but
a point whose dual G = w psi(residual) satisfies the spectral constraints of the dual is optimal for the
convex program, and the certificate checks just that; directions in which a constraint is violated join the
factors. The absolute loss of Eq. 2 has kinks and goes by the method of multipliers: each step is the same
smooth program with shifted values. Up to `MAX_DENSE_TASKS` tasks it is solved by ADMM on dense matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from robusttc.clustering.certificate import Spectrum, bound_largest
from robusttc.clustering.problem import Factors, Floats, Penalties, Problem

__all__ = ["Solution", "solve_absolute", "solve_smooth"]

MAX_DENSE_TASKS = 500
FIRST_STEPS, ROUGH_STEPS, MAX_STEPS = 20, 40, 100  # of L-BFGS in a round
NEW_DIRECTIONS = 8  # so many columns may join a factor of lower rank in one round
SMALL = 0.05  # columns below this share of the largest are small
GUESSED = 0.25  # the same, for the first directions
VANISHED = 1e-6  # columns below this share of the largest are dropped


@dataclass(frozen=True, eq=False)
class Solution:
    """A point of the program with its proof.

    Attributes
    ----------
    factors
        The point, in the coordinates of the problem.
    dual
        G at the measured entries, before it is scaled to be feasible.
    scale
        What G is multiplied by to be feasible.
    objective, gap
        The value of the program, and the proven relative distance to its optimum.
    converged
        Whether the gap reached the tolerance.
    n_sweeps
        How often all entries were passed over.
    """

    factors: Factors
    dual: Floats
    scale: float
    objective: float
    gap: float
    converged: bool
    n_sweeps: int


@numba.njit(cache=True, fastmath=True, nogil=True)
def sweep(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: Floats,
    weights: Floats,
    delta: float,
    left: Floats,
    right: Floats,
    left_sum: Floats,
    right_sum: Floats,
    dual: Floats,
) -> float:  # pragma: no cover - compiled
    """Return the loss; write the dual G, G @ right and G' @ left."""
    n, k = left.shape
    loss = 0.0
    left_sum[:] = 0.0
    right_sum[:] = 0.0
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            residual = values[e]
            for c in range(k):
                residual -= left[i, c] * right[j, c]
            clipped = min(max(residual, -delta), delta)
            loss += weights[e] * clipped * (residual - 0.5 * clipped)
            clipped *= weights[e]
            dual[e] = clipped
            for c in range(k):
                left_sum[i, c] += clipped * right[j, c]
                right_sum[j, c] += clipped * left[i, c]
    return loss


class SmoothProgram:
    """The objective and gradient of the smooth program at factors of one shape."""

    def __init__(self, problem: Problem, penalties: Penalties, factors: Factors) -> None:
        self.problem = problem
        self.penalties = penalties
        self.widths = tuple(part.shape[1] for part in (factors.U, factors.V, factors.P))
        n, k = problem.n, self.widths[0] + self.widths[1] + 2 * self.widths[2] + 2
        self.left, self.right = np.ones((n, k)), np.ones((n, k))
        self.left_sum, self.right_sum = np.empty((n, k)), np.empty((n, k))
        self.dual = np.empty(len(problem.values))
        self.n_sweeps = 0

    def flatten(self, factors: Factors) -> Floats:
        """Return the factors as one vector."""
        parts = (factors.U, factors.V, factors.P, factors.Q, factors.a, factors.b)
        return np.concatenate([part.ravel() for part in parts])

    def unflatten(self, flat: Floats) -> Factors:
        """Return the factors that a vector holds, as views."""
        n, (u, v, p) = self.problem.n_coordinates, self.widths
        parts = []
        for width in (u, v, p, p):
            parts.append(flat[: n * width].reshape(n, width))
            flat = flat[n * width :]
        U, V, P, Q = parts
        return Factors(U, V, P, Q, flat[:n], flat[n:])

    def __call__(self, flat: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient."""
        found, pay = self.unflatten(flat), self.penalties
        u, v, p = self.widths
        ends = np.cumsum([0, u, v, p, p])
        data = self.problem
        rows = found.expanded(data)
        self.left[:, : ends[4]] = np.hstack([rows.U, -rows.V, rows.P, -rows.Q])
        self.right[:, : ends[4]] = np.hstack([rows.U, rows.V, rows.Q, rows.P])
        self.left[:, -2], self.right[:, -1] = rows.a, rows.b
        loss = sweep(
            data.indptr,
            data.indices,
            data.values,
            data.weights,
            pay.delta,
            self.left,
            self.right,
            self.left_sum,
            self.right_sum,
            self.dual,
        )
        self.n_sweeps += 1
        left_sum, right_sum = data.contract(self.left_sum), data.contract(self.right_sum)
        from_left = [left_sum[:, ends[part] : ends[part + 1]] for part in range(4)]
        from_right = [right_sum[:, ends[part] : ends[part + 1]] for part in range(4)]
        gradient = [
            2 * finite(pay.positive) * found.U - from_left[0] - from_right[0],
            2 * finite(pay.negative) * found.V + from_left[1] - from_right[1],
            2 * finite(pay.skew) * found.P - from_left[2] - from_right[3],
            2 * finite(pay.skew) * found.Q + from_left[3] - from_right[2],
            (pay.row * found.a - left_sum[:, -2]) if np.isfinite(pay.row) else 0 * found.a,
            (pay.column * found.b - right_sum[:, -1]) if np.isfinite(pay.column) else 0 * found.b,
        ]
        return loss + penalty_of(found, pay), np.concatenate([part.ravel() for part in gradient])


def finite(penalty: float) -> float:
    """Return a penalty, or 0 for a part that is left out and so has no columns."""
    return penalty if np.isfinite(penalty) else 0.0


def penalty_of(factors: Factors, pay: Penalties) -> float:
    """Return the penalties of a point; in factors a nuclear norm is a sum of squares."""
    squares = [float(np.vdot(part, part)) for part in (factors.U, factors.V, factors.P, factors.Q)]
    total = finite(pay.positive) * squares[0] + finite(pay.negative) * squares[1]
    total += finite(pay.skew) * (squares[2] + squares[3])
    total += 0.5 * finite(pay.row) * float(factors.a @ factors.a)
    return total + 0.5 * finite(pay.column) * float(factors.b @ factors.b)


@dataclass(frozen=True, eq=False)
class Proof:
    """The spectra that bound a dual, and the scale that makes it feasible."""

    positive: Spectrum | None
    negative: Spectrum | None
    skew: Spectrum | None
    scale: float


def prove(
    problem: Problem,
    pay: Penalties,
    dual: Floats,
    factors: Factors,
    slack: float,
    generator: np.random.Generator,
    *,
    estimate: bool = False,
) -> Proof:
    """Bound the spectral constraints of a dual; `estimate`: roughly, without a proof."""
    symmetric = problem.in_coordinates(problem.parts(dual, 1.0))
    spectra: list[Spectrum | None] = [None, None, None]
    scale = 1.0

    def bound(matrix: sparse.csr_array, limit: float, basis: Floats) -> Spectrum:
        nonlocal scale
        found = bound_largest(matrix, limit, basis, slack=slack, generator=generator, estimate=estimate)
        scale = min(scale, limit / max(found.upper, 1e-300))
        return found

    if np.isfinite(pay.positive):
        spectra[0] = bound(symmetric, pay.positive, orthonormal(factors.U))
    if np.isfinite(pay.negative):
        spectra[1] = bound(-symmetric, pay.negative, orthonormal(factors.V))
    if np.isfinite(pay.skew):
        K = problem.in_coordinates(problem.parts(dual, -1.0))
        zero = sparse.csr_array(K.shape)
        top, bottom = sparse.hstack([zero, K]), sparse.hstack([K.T, zero])
        # The singular vectors of K, and so the eigenvectors of this matrix, lie in the span of P and Q.
        planes = orthonormal(np.hstack([factors.P, factors.Q]))
        basis = np.asarray(np.kron(np.eye(2), planes), dtype=np.float64)
        spectra[2] = bound(sparse.csr_array(sparse.vstack([top, bottom])), pay.skew, basis)
    return Proof(spectra[0], spectra[1], spectra[2], scale)


def orthonormal(part: Floats) -> Floats:
    """Return an orthonormal basis of the columns that are not small: a small one is no eigenvector yet."""
    sizes = np.linalg.norm(part, axis=0)
    kept = part[:, sizes > SMALL * sizes.max(initial=0.0)]
    return np.asarray(np.linalg.qr(kept)[0], dtype=np.float64)


def smooth_dual_value(problem: Problem, pay: Penalties, dual: Floats, scale: float) -> tuple[float, float]:
    """Return the best lower bound that multiples of a dual up to a scale prove, and that multiple."""
    G = problem.matrix(dual)
    linear = float(dual @ problem.values)
    quadratic = 0.5 * float(dual @ (dual / problem.weights))
    if np.isfinite(pay.row):
        quadratic += (
            0.5 * float(np.sum(problem.contract(np.asarray(G.sum(axis=1), dtype=np.float64)) ** 2)) / pay.row
        )
    if np.isfinite(pay.column):
        quadratic += (
            0.5
            * float(np.sum(problem.contract(np.asarray(G.sum(axis=0), dtype=np.float64)) ** 2))
            / pay.column
        )
    best = max(min(scale, linear / (2 * quadratic)), 0.0) if quadratic > 0 else scale
    return best * linear - best**2 * quadratic, best


def solve_smooth(
    problem: Problem,
    penalties: Penalties,
    *,
    start: Factors | None = None,
    tol: float = 1e-5,
    max_rounds: int = 40,
    max_rank: int = 400,
    certify: bool = True,
    seed: int = 0,
) -> Solution:
    """Minimise the smooth program to a relative gap; see the module's docstring.

    With `certify` the gap is proven, else its bounds are estimates: enough to compare settings.
    """
    generator = np.random.default_rng(seed)
    factors = Factors.zeros(problem.n_coordinates) if start is None else start
    n_sweeps = 0
    best: Solution | None = None
    accuracy = 1e-2
    size = float(np.vdot(problem.values, problem.values)) / max(len(problem.values), 1)
    typical = 0.3 * finite(penalties.positive) * size**0.25  # of a gradient
    for round_number in range(max_rounds + 1):
        program = SmoothProgram(problem, penalties, factors)
        flat = program.flatten(factors)
        # The first directions are guesses: those that come to little go, and come back if they are needed.
        is_guess = round_number == 1 and start is None
        if round_number or start is not None:
            # No test on the decrease: a new direction starts small, and would end the search at once.
            n_steps = FIRST_STEPS if is_guess else MAX_STEPS if certify else ROUGH_STEPS
            options: Any = {"maxiter": n_steps, "maxcor": 10, "ftol": 0.0, "gtol": accuracy * typical}
            objective_of: Any = program
            flat = minimize(objective_of, flat, jac=True, method="L-BFGS-B", options=options).x
        factors = balance(program.unflatten(flat), GUESSED if is_guess else VANISHED)
        n_sweeps += program.n_sweeps + 1
        program = SmoothProgram(problem, penalties, factors)
        objective, _ = program(program.flatten(factors))
        proof = prove(problem, penalties, program.dual, factors, 0.1 * tol, generator, estimate=not certify)
        value, multiple = smooth_dual_value(problem, penalties, program.dual, proof.scale)
        gap = (objective - value) / max(objective, 1e-300)
        if best is None or gap < best.gap:
            best = Solution(
                factors, program.dual.copy(), multiple, objective, max(gap, 0.0), gap <= tol, n_sweeps
            )
        if gap <= tol or not np.isfinite(gap):
            break
        # The gap is about linear in the gradient: no more exact than this round can use.
        accuracy = max(min(0.1 * gap, 0.3 * accuracy), 1e-3 * tol)
        factors = grow(factors, penalties, proof, problem, max_rank)
    return (
        replace(best, n_sweeps=n_sweeps) if best else Solution(factors, np.zeros(0), 0.0, 0.0, 0.0, True, 0)
    )


def balance(factors: Factors, least: float) -> Factors:
    """Write each part by its singular vectors, and drop columns below a share of the largest."""

    def orthogonal(part: Floats) -> Floats:
        if not part.shape[1]:
            return part
        left, sizes, _ = np.linalg.svd(part, full_matrices=False)
        kept = sizes > least * max(float(sizes[0]), 1e-12)
        return np.asarray(left[:, kept] * sizes[kept])

    P, Q = factors.P, factors.Q
    if P.shape[1]:
        basis, triangle = np.linalg.qr(np.hstack([P, Q]))
        half = P.shape[1]
        core = triangle[:, :half] @ triangle[:, half:].T
        P, Q = skew_factors(basis, core - core.T)
    return Factors(orthogonal(factors.U), orthogonal(factors.V), P, Q, factors.a, factors.b)


def skew_factors(basis: Floats, core: Floats) -> tuple[Floats, Floats]:
    """Write basis @ core @ basis' with a skew core as P Q' - Q P' of least squares."""
    values, vectors = np.linalg.eigh(1j * core)
    kept = values > VANISHED * max(float(values[-1]), 1e-12)
    # Each pair +-s of eigenvalues of i core is a plane: real and imaginary part of its eigenvector.
    scale = np.sqrt(2 * values[kept])
    real, imaginary = vectors.real[:, kept] * scale, vectors.imag[:, kept] * scale
    return basis @ imaginary, basis @ real


def grow(factors: Factors, pay: Penalties, proof: Proof, problem: Problem, max_rank: int) -> Factors:
    """Add directions in which the dual violates its constraints, at most as many as there are."""
    # Where pairs are measured at random, an excess over the limit is what a direction lacks times d / n.
    reach = problem.n / problem.degree

    def added(part: Floats, spectrum: Spectrum | None, limit: float) -> Floats:
        if spectrum is None:
            return part
        rank = part.shape[1]
        room = max(min(max(NEW_DIRECTIONS, rank), max_rank - rank), 0)
        above = np.flatnonzero(spectrum.values > limit * (1 + 1e-9))[:room]
        sizes = np.sqrt(reach * (spectrum.values[above] - limit))
        return np.hstack([part, sizes * spectrum.vectors[:, above]])

    U = added(factors.U, proof.positive, pay.positive)
    V = added(factors.V, proof.negative, pay.negative)
    P, Q = factors.P, factors.Q
    if proof.skew is not None and P.shape[1] < max_rank:
        n = len(P)
        above = np.flatnonzero(proof.skew.values > pay.skew * (1 + 1e-9))[: 2 * NEW_DIRECTIONS]
        if len(above):
            # Singular vectors of a skew matrix come in planes: half of them are the others, turned.
            values, vectors = proof.skew.values[above], proof.skew.vectors[:, above]
            excess = reach * (values - pay.skew)
            new_P, new_Q = plane_factors(vectors[:n], vectors[n:], excess)
            P, Q = np.hstack([P, new_P]), np.hstack([Q, new_Q])
    return Factors(U, V, P, Q, factors.a, factors.b)


def plane_factors(left: Floats, right: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return P, Q of a skew matrix given by its singular vectors."""
    basis, _ = np.linalg.qr(np.hstack([left, right]))
    core = (basis.T @ left) @ (sizes[:, None] * (basis.T @ right).T)
    return skew_factors(basis, core - core.T)


def solve_absolute(
    problem: Problem,
    tau: float,
    *,
    start: Factors | None = None,
    tol: float = 1e-5,
    max_rounds: int = 60,
    seed: int = 0,
) -> Solution:
    """Minimise tau ||X||_* + sum |W - X| over symmetric X: Eq. 2 of the paper, divided by lambda = 1 / tau.

    The entries must be symmetric and of weight 1.
    """
    if problem.n <= MAX_DENSE_TASKS:
        return solve_dense(problem, tau, tol=tol)
    factors = Factors.zeros(problem.n) if start is None else start
    best: Solution | None = None
    dual = np.zeros(len(problem.values))
    generator = np.random.default_rng(seed)
    mu, accuracy, n_sweeps, last = 3.0, 1e-3, 0, 0
    for round_number in range(max_rounds):
        # Minimising the augmented Lagrangian over E leaves the Huber loss of shifted values.
        shifted = problem.with_values(problem.values + dual / mu, np.full(len(dual), mu))
        penalties = Penalties(positive=tau, negative=tau, delta=1.0 / mu)
        inner = solve_smooth(shifted, penalties, start=factors, tol=accuracy, max_rounds=4, seed=seed)
        factors, dual = inner.factors, inner.dual
        n_sweeps += inner.n_sweeps
        objective = penalty_of(factors, penalties) + float(np.abs(residuals(problem, factors)).sum())
        proof = prove(problem, penalties, dual, factors, 0.1 * tol, generator)
        gap = 1.0 - proof.scale * float(dual @ problem.values) / objective if objective > 0 else 0.0
        if best is None or gap < 0.9 * best.gap:
            last = round_number
        if best is None or gap < best.gap:
            best = Solution(factors, dual.copy(), proof.scale, objective, max(gap, 0.0), gap <= tol, n_sweeps)
        if best.gap <= tol or round_number - last >= 10:
            break
        mu, accuracy = min(1.5 * mu, 40.0), max(min(accuracy, 0.1 * abs(gap)), 0.1 * tol)
    if best is None:
        raise AssertionError("there is at least one round")
    return best


def residuals(problem: Problem, factors: Factors) -> Floats:
    """Return the values less what the factors predict, at the measured entries."""
    predicted = factors.expanded(problem).predict(problem.rows, problem.indices)
    return np.asarray(problem.values - predicted)


def solve_dense(problem: Problem, tau: float, *, tol: float, max_iter: int = 5_000) -> Solution:
    """Solve Eq. 2 by ADMM with over-relaxation and an adaptive penalty, on n x n matrices."""
    rows, columns = problem.rows, problem.indices
    Z = np.zeros((problem.n, problem.n))
    Z[rows, columns] = problem.values
    scaled_dual = np.zeros_like(Z)  # the multiplier over mu
    # The largest eigenvalue of the data sets the scale of X, which ADMM wants mu to match.
    mu = 1.0 / max(float(np.abs(np.linalg.eigvalsh(Z)).max()) / 10, 1e-6) * tau
    best_objective, best_value = np.inf, -np.inf
    best_point: tuple[Floats, Floats] = (np.zeros(0), np.zeros((problem.n, 0)))
    best_dual, best_scale = np.zeros(len(problem.values)), 1.0
    iteration = 0
    for iteration in range(1, max_iter + 1):
        values, vectors = np.linalg.eigh(Z - scaled_dual)
        values = np.sign(values) * np.maximum(np.abs(values) - tau / mu, 0.0)
        X = (vectors * values) @ vectors.T
        X = (X + X.T) / 2  # rounding errors would add up in the dual
        target = 1.6 * X - 0.6 * Z + scaled_dual
        new_Z = target.copy()
        dual = np.clip(mu * (problem.values - target[rows, columns]), -1.0, 1.0)
        new_Z[rows, columns] += dual / mu
        scaled_dual = target - new_Z
        primal_change = float(np.linalg.norm(X - new_Z))
        dual_change = float(np.linalg.norm(new_Z - Z))
        Z = new_Z
        if iteration % 10 and iteration < max_iter:
            continue
        objective = tau * float(np.abs(values).sum()) + float(np.abs(problem.values - X[rows, columns]).sum())
        if objective < best_objective:
            kept = np.abs(values) > 1e-9 * max(float(np.abs(values).max()), 1e-12)
            best_objective, best_point = objective, (values[kept], vectors[:, kept])
        norm = float(np.abs(np.linalg.eigvalsh(problem.matrix(dual).toarray())).max()) * (1 + 1e-13)
        scale = min(1.0, tau / max(norm, 1e-300))
        if scale * float(dual @ problem.values) > best_value:
            best_value, best_dual, best_scale = scale * float(dual @ problem.values), dual, scale
        if best_objective - best_value <= tol * best_objective:
            break
        if primal_change > 5 * dual_change:
            mu, scaled_dual = mu * 1.5, scaled_dual / 1.5
        elif dual_change > 5 * primal_change:
            mu, scaled_dual = mu / 1.5, scaled_dual * 1.5
    values, vectors = best_point
    sizes = vectors * np.sqrt(np.abs(values))
    n = problem.n
    factors = replace(Factors.zeros(n), U=sizes[:, values > 0], V=sizes[:, values < 0])
    gap = max(best_objective - best_value, 0.0) / max(best_objective, 1e-300)
    return Solution(factors, best_dual, best_scale, best_objective, gap, gap <= tol, iteration)

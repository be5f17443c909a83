"""Solvers of the completion program, all in factors: nothing is ever n x n but what the certificate needs.

In factors the smooth program (Huber or squared loss) is a plain minimisation by L-BFGS. It is not convex, but
a point whose dual G = w psi(residual) satisfies the spectral constraints of the dual is optimal for the
convex program, and the certificate checks just that; directions in which a constraint is violated join the
factors. The absolute loss of Eq. 2 has kinks and goes by the method of multipliers: each step is the same
smooth program with shifted values. Up to `MAX_DENSE_TASKS` tasks it is solved by ADMM on dense matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
MAX_DENSE_STEPS = 5_000  # of ADMM
MAX_ROUNDS = 60  # of the method of multipliers
FIRST_STEPS, ROUGH_STEPS, MAX_STEPS = 20, 40, 100  # of L-BFGS in a round
NEW_DIRECTIONS = 8  # so many columns may join a factor of lower rank in one round
SMALL = 0.05  # columns below this share of the largest are small
GUESSED = 0.25  # the same, for the first directions
VANISHED = 1e-6  # columns below this share of the largest are dropped
NO_SPECTRUM = Spectrum(0.0, np.zeros(0), np.zeros((0, 0)))  # of a part that is left out


@dataclass(frozen=True, eq=False)
class Solution:
    """A point of the program with its proof."""

    factors: Factors  # in the coordinates of the problem
    dual: Floats  # G at the measured entries
    scale: float  # what G is multiplied by to be feasible
    objective: float
    gap: float  # the proven relative distance to the optimum
    converged: bool


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
        self.shapes = [part.shape for part in factors.parts]
        width = sum(shape[1] for shape in self.shapes[:4]) + 2
        self.left_sum, self.right_sum = np.empty((2, problem.n, width))
        self.dual = np.empty(len(problem.values))

    def unflatten(self, flat: Floats) -> Factors:
        """Return the factors that a vector holds, as views."""
        ends = np.cumsum([np.prod(shape) for shape in self.shapes])[:-1]
        parts = np.split(flat, ends)
        return Factors(*(part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)))

    def __call__(self, flat: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient; the dual and its sums are left in the attributes."""
        found, pay, data = self.unflatten(flat), self.penalties, self.problem
        expanded = found.expanded(data)
        loss = sweep(
            data.indptr,
            data.indices,
            data.values,
            data.weights,
            pay.delta,
            expanded.left,
            expanded.right,
            self.left_sum,
            self.right_sum,
            self.dual,
        )
        ends = np.cumsum([shape[1] for shape in self.shapes[:4]])
        left = np.split(data.contract(self.left_sum), ends, axis=1)
        right = np.split(data.contract(self.right_sum), ends, axis=1)
        gradient = [
            2 * finite(pay.positive) * found.U - left[0] - right[0],
            2 * finite(pay.negative) * found.V + left[1] - right[1],
            2 * finite(pay.skew) * found.P - left[2] - right[3],
            2 * finite(pay.skew) * found.Q + left[3] - right[2],
            (pay.row * found.a - left[4][:, 0]) if np.isfinite(pay.row) else 0 * found.a,
            (pay.column * found.b - right[4][:, 1]) if np.isfinite(pay.column) else 0 * found.b,
        ]
        return loss + penalty_of(found, pay), flatten(gradient)


def flatten(parts: Iterable[Floats]) -> Floats:
    """Return arrays as one vector."""
    return np.concatenate([part.ravel() for part in parts])


def finite(penalty: float) -> float:
    """Return a penalty, or 0 for a part that is left out and so has no columns."""
    return penalty if np.isfinite(penalty) else 0.0


def penalty_of(factors: Factors, pay: Penalties) -> float:
    """Return the penalties of a point; in factors a nuclear norm is a sum of squares."""
    u, v, p, q, a, b = (float(np.vdot(part, part)) for part in factors.parts)
    norms = finite(pay.positive) * u + finite(pay.negative) * v + finite(pay.skew) * (p + q)
    return norms + 0.5 * finite(pay.row) * a + 0.5 * finite(pay.column) * b


@dataclass(frozen=True, eq=False)
class Proof:
    """The spectra that bound a dual, and the scale that makes it feasible."""

    positive: Spectrum
    negative: Spectrum
    skew: Spectrum
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

    def bound(matrix: sparse.csr_array, limit: float, basis: Floats) -> Spectrum:
        return bound_largest(matrix, limit, basis, slack=slack, generator=generator, estimate=estimate)

    symmetric = problem.in_coordinates(problem.parts(dual, 1.0))
    positive = bound(symmetric, pay.positive, orthonormal(factors.U))
    negative, skew = NO_SPECTRUM, NO_SPECTRUM
    if np.isfinite(pay.negative):
        negative = bound(-symmetric, pay.negative, orthonormal(factors.V))
    if np.isfinite(pay.skew):
        K = problem.in_coordinates(problem.parts(dual, -1.0))
        blocks: Any = [[None, K], [K.T, None]]
        doubled = sparse.csr_array(sparse.block_array(blocks))
        # The singular vectors of K, and so the eigenvectors of this matrix, lie in the span of P and Q.
        planes = orthonormal(np.hstack([factors.P, factors.Q]))
        skew = bound(doubled, pay.skew, np.asarray(np.kron(np.eye(2), planes), dtype=np.float64))
    limits = ((positive, pay.positive), (negative, pay.negative), (skew, pay.skew))
    scale = min(1.0, *(limit / max(spectrum.upper, 1e-300) for spectrum, limit in limits))
    return Proof(positive, negative, skew, scale)


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
    for axis, ridge in ((1, pay.row), (0, pay.column)):
        sums = problem.contract(np.asarray(G.sum(axis=axis), dtype=np.float64))
        quadratic += 0.5 * float(np.sum(sums**2)) / ridge
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
    give_up: Callable[[Factors], bool] | None = None,
    seed: int = 0,
) -> Solution:
    """Minimise the smooth program to a relative gap; see the module's docstring.

    With `certify` the gap is proven, else its bounds are estimates: enough to compare settings. `give_up` is
    asked after each search, before the spectra are bounded; where it says so, the solution is what is there.
    """
    generator = np.random.default_rng(seed)
    factors = Factors.zeros(problem.n_coordinates) if start is None else start
    best = Solution(factors, np.zeros(len(problem.values)), 0.0, np.inf, np.inf, False)
    accuracy = 1e-2
    size = float(np.vdot(problem.values, problem.values)) / max(len(problem.values), 1)
    typical = 0.3 * finite(penalties.positive) * size**0.25  # of a gradient
    for round_number in range(max_rounds + 1):
        # The first directions are guesses: those that come to little go, and come back if they are needed.
        is_guess = round_number == 1 and start is None
        if round_number or start is not None:
            # No test on the decrease: a new direction starts small, and would end the search at once.
            n_steps = FIRST_STEPS if is_guess else MAX_STEPS if certify else ROUGH_STEPS
            options: Any = {"maxiter": n_steps, "maxcor": 10, "ftol": 0.0, "gtol": accuracy * typical}
            program: Any = SmoothProgram(problem, penalties, factors)
            found = minimize(program, flatten(factors.parts), jac=True, method="L-BFGS-B", options=options)
            factors = program.unflatten(found.x)
        factors = balance(factors, GUESSED if is_guess else VANISHED)
        program = SmoothProgram(problem, penalties, factors)
        if give_up is not None and give_up(factors):
            return replace(best, factors=factors)
        objective, _ = program(flatten(factors.parts))
        proof = prove(problem, penalties, program.dual, factors, 0.1 * tol, generator, estimate=not certify)
        value, multiple = smooth_dual_value(problem, penalties, program.dual, proof.scale)
        gap = (objective - value) / max(objective, 1e-300)
        if gap < best.gap:
            best = Solution(factors, program.dual, multiple, objective, max(gap, 0.0), gap <= tol)
        if gap <= tol or not np.isfinite(gap):
            break
        # The gap is about linear in the gradient: no more exact than this round can use.
        accuracy = max(min(0.1 * gap, 0.3 * accuracy), 1e-3 * tol)
        factors = grow(factors, penalties, proof, problem, max_rank)
    return best


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

    def added(part: Floats, spectrum: Spectrum, limit: float) -> Floats:
        rank = part.shape[1]
        room = max(min(max(NEW_DIRECTIONS, rank), max_rank - rank), 0)
        above = np.flatnonzero(spectrum.values > limit * (1 + 1e-9))[:room]
        sizes = np.sqrt(reach * (spectrum.values[above] - limit))
        return np.hstack([part, sizes * spectrum.vectors[:, above]]) if len(above) else part

    P, Q, n = factors.P, factors.Q, len(factors.P)
    above = np.flatnonzero(proof.skew.values > pay.skew * (1 + 1e-9))[: 2 * NEW_DIRECTIONS]
    if len(above) and P.shape[1] < max_rank:
        # Singular vectors of a skew matrix come in planes: half of them are the others, turned.
        excess, vectors = reach * (proof.skew.values[above] - pay.skew), proof.skew.vectors[:, above]
        left, right = vectors[:n], vectors[n:]
        basis, _ = np.linalg.qr(np.hstack([left, right]))
        core = (basis.T @ left) @ (excess[:, None] * (basis.T @ right).T)
        new_P, new_Q = skew_factors(basis, core - core.T)
        P, Q = np.hstack([P, new_P]), np.hstack([Q, new_Q])
    U = added(factors.U, proof.positive, pay.positive)
    V = added(factors.V, proof.negative, pay.negative)
    return Factors(U, V, P, Q, factors.a, factors.b)


def solve_absolute(problem: Problem, tau: float, *, tol: float = 1e-5, seed: int = 0) -> Solution:
    """Minimise tau ||X||_* + sum |W - X| over symmetric X: Eq. 2 of the paper, divided by lambda = 1 / tau.

    The entries must be symmetric and of weight 1.
    """
    if problem.n <= MAX_DENSE_TASKS:
        return solve_dense(problem, tau, tol=tol)
    factors, dual = Factors.zeros(problem.n), np.zeros(len(problem.values))
    best = Solution(factors, dual, 0.0, np.inf, np.inf, False)
    generator = np.random.default_rng(seed)
    mu, accuracy, last = 3.0, 1e-3, 0
    for round_number in range(MAX_ROUNDS):
        # Minimising the augmented Lagrangian over E leaves the Huber loss of shifted values.
        shifted = replace(problem, values=problem.values + dual / mu, weights=np.full(len(dual), mu))
        penalties = Penalties(positive=tau, negative=tau, delta=1.0 / mu)
        inner = solve_smooth(shifted, penalties, start=factors, tol=accuracy, max_rounds=4, seed=seed)
        factors, dual = inner.factors, inner.dual
        objective = penalty_of(factors, penalties) + float(np.abs(residuals(problem, factors)).sum())
        proof = prove(problem, penalties, dual, factors, 0.1 * tol, generator)
        gap = 1.0 - proof.scale * float(dual @ problem.values) / objective if objective > 0 else 0.0
        if gap < 0.9 * best.gap:
            last = round_number
        if gap < best.gap:
            best = Solution(factors, dual, proof.scale, objective, max(gap, 0.0), gap <= tol)
        if best.gap <= tol or round_number - last >= 10:
            break
        mu, accuracy = min(1.5 * mu, 40.0), max(min(accuracy, 0.1 * abs(gap)), 0.1 * tol)
    return best


def residuals(problem: Problem, factors: Factors) -> Floats:
    """Return the values less what the factors predict, at the measured entries."""
    predicted = factors.expanded(problem).predict(problem.rows, problem.indices)
    return np.asarray(problem.values - predicted)


def solve_dense(problem: Problem, tau: float, *, tol: float) -> Solution:
    """Solve Eq. 2 by ADMM with over-relaxation and an adaptive penalty, on n x n matrices."""
    rows, columns, W = problem.rows, problem.indices, problem.values
    Z = np.zeros((problem.n, problem.n))
    Z[rows, columns] = W
    scaled_dual = np.zeros_like(Z)  # the multiplier over mu
    # The largest eigenvalue of the data sets the scale of X, which ADMM wants mu to match.
    mu = 1.0 / max(float(np.abs(np.linalg.eigvalsh(Z)).max()) / 10, 1e-6) * tau
    objective, value = np.inf, -np.inf  # the best so far, and below where they were found
    eigenvalues, eigenvectors = np.zeros(0), np.zeros((problem.n, 0))
    best_dual, best_scale = np.zeros(len(W)), 1.0
    for iteration in range(1, MAX_DENSE_STEPS + 1):
        values, vectors = np.linalg.eigh(Z - scaled_dual)
        values = np.sign(values) * np.maximum(np.abs(values) - tau / mu, 0.0)
        X = (vectors * values) @ vectors.T
        X = (X + X.T) / 2  # rounding errors would add up in the dual
        target = 1.6 * X - 0.6 * Z + scaled_dual
        new_Z = target.copy()
        dual = np.clip(mu * (W - target[rows, columns]), -1.0, 1.0)
        new_Z[rows, columns] += dual / mu
        scaled_dual = target - new_Z
        primal_change = float(np.linalg.norm(X - new_Z))
        dual_change = float(np.linalg.norm(new_Z - Z))
        Z = new_Z
        if iteration % 10:
            continue
        reached = tau * float(np.abs(values).sum()) + float(np.abs(W - X[rows, columns]).sum())
        if reached < objective:
            kept = np.abs(values) > 1e-9 * max(float(np.abs(values).max()), 1e-12)
            objective, eigenvalues, eigenvectors = reached, values[kept], vectors[:, kept]
        norm = float(np.abs(np.linalg.eigvalsh(problem.matrix(dual).toarray())).max()) * (1 + 1e-13)
        scale = min(1.0, tau / max(norm, 1e-300))
        if scale * float(dual @ W) > value:
            value, best_dual, best_scale = scale * float(dual @ W), dual, scale
        if objective - value <= tol * objective:
            break
        if primal_change > 5 * dual_change:
            mu, scaled_dual = mu * 1.5, scaled_dual / 1.5
        elif dual_change > 5 * primal_change:
            mu, scaled_dual = mu / 1.5, scaled_dual * 1.5
    sizes = eigenvectors * np.sqrt(np.abs(eigenvalues))
    factors = replace(Factors.zeros(problem.n), U=sizes[:, eigenvalues > 0], V=sizes[:, eigenvalues < 0])
    gap = max(objective - value, 0.0) / max(objective, 1e-300)
    return Solution(factors, best_dual, best_scale, objective, gap, gap <= tol)

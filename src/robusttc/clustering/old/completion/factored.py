"""Completion for many tasks: X as factors, never an n x n array.

X = U diag(s) U^T with few columns turns Eq. 2 into  minimise ||U||_F^2 + sum weight |Y - X|, which is solved
by the method of multipliers: the multipliers are the dual Q that later proves the answer. Each inner problem
is smooth but for kinks, with curvature from the entries that are fitted exactly, and is solved by Newton's
method with conjugate gradients, preconditioned by the r x r blocks of the single tasks. That needs some
hundred passes over the observed entries where first-order methods need many thousands.

The factored problem is not convex, but a point where Q U = U diag(s) and ||Q||_2 <= 1 is optimal for Eq. 2,
and the certificate checks just that. Where ||Q||_2 > 1, the directions in which it exceeds 1 join the
factors.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from robusttc.clustering.old.completion import kernels
from robusttc.clustering.old.completion.certificate import (
    MAX_EXACT_TASKS,
    NormBound,
    bound_norm,
    dual_value,
    is_norm_below,
)
from robusttc.clustering.old.completion.problem import Floats, Problem
from robusttc.clustering.old.completion.result import Solution, Step

__all__ = ["solve_factored"]

ROWS_A_BLOCK = 2_048  # fixed, so that sums do not depend on the number of threads
MAX_NEWTON_STEPS = 12
MAX_CG_STEPS = 80
MAX_NEW_COLUMNS = 8
# The penalty of the method of multipliers, in units of lambda.
FIRST_PENALTY, PENALTY_GROWTH, HIGHEST_PENALTY = 3.0, 1.5, 40.0
NEARLY_OPTIMAL = 1e-3  # a gap at which it pays to compute a proof
PATIENCE = 10  # rounds without progress
VANISHED, NEW_COLUMN_SIZE = 1e-4, 1e-2  # relative to the other columns
NOTHING = 1e-4  # a column of this size adds an eigenvalue of 1e-8, where the smallest cluster's is 1


@dataclass
class State:
    """Where the solver stands: factors, signs, multipliers and the penalty."""

    U: Floats
    signs: Floats
    Q: Floats
    mu: float
    n_products: int = 0


@dataclass
class Work:
    """Arrays that every step uses again, and the pool of threads that shares the rows."""

    problem: Problem
    weight: Floats
    n_threads: int
    new_Q: Floats = field(init=False)  # noqa: N815 - the paper's letters
    trial_Q: Floats = field(init=False)  # noqa: N815

    def __post_init__(self) -> None:
        self.new_Q = np.empty_like(self.problem.Y)
        self.trial_Q = np.empty_like(self.problem.Y)
        starts = range(0, self.problem.n, ROWS_A_BLOCK)
        self._ranges = [(start, min(start + ROWS_A_BLOCK, self.problem.n)) for start in starts]
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def close(self) -> None:
        """Let the threads go."""
        if self._pool:
            self._pool.shutdown()

    def over_rows(self, kernel: Callable[..., float | None], *arguments: object) -> float:
        """Run a kernel over all rows and add up what it returns, in the order of the rows."""

        def run(rows: tuple[int, int]) -> float:
            return kernel(*rows, self.problem.indptr, self.problem.indices, *arguments) or 0.0

        return sum((self._pool.map if self._pool else map)(run, self._ranges))

    def gradient(self, state: State, U: Floats, new_Q: Floats, gradient: Floats) -> float:
        """Give the augmented Lagrangian at U; its half gradient and the next multipliers are written."""
        args = (self.problem.Y, self.weight, state.Q, U, state.signs, state.mu, new_Q, gradient)
        return self.over_rows(kernels.gradient_rows, *args)

    def objective(self, U: Floats, signs: Floats) -> float:
        """Give the objective of Eq. 2 at X = U diag(s) U^T."""
        loss = self.over_rows(kernels.loss_rows, self.problem.Y, self.weight, U, signs)
        return float(np.abs(factor_eigenvalues(U, signs)).sum()) + loss


@dataclass
class Progress:
    """The best proven answer so far, and the last round in which either gap fell by a fifth."""

    best: Solution | None = None
    lowest: float = float("inf")
    last: int = 0

    @property
    def gap(self) -> float:
        """The best certified gap."""
        return self.best.gap if self.best else float("inf")

    def note_proof(self, candidate: Solution, round_number: int) -> None:
        """Take an answer with its proof."""
        joined = candidate.joined(self.best)
        if joined.gap < 0.8 * self.gap:
            self.last = round_number
        self.best = joined

    def note_round(self, unscaled_gap: float, round_number: int) -> None:
        """Take the gap of a round, which proves nothing."""
        if abs(unscaled_gap) < 0.8 * self.lowest:
            self.last, self.lowest = round_number, abs(unscaled_gap)


def factor_eigenvalues(U: Floats, signs: Floats) -> Floats:
    """Give the eigenvalues of U diag(s) U^T that are not zero for sure, by the r x r triangle of U."""
    triangle = np.linalg.qr(U)[1]
    return np.linalg.eigvalsh((triangle * signs) @ triangle.T)


def solve_factored(
    problem: Problem,
    lam: float,
    start: Floats,
    generator: np.random.Generator,
    *,
    start_Q: Floats | None = None,
    tol: float = 1e-5,
    max_iter: int = 60,
    max_rank: int | None = None,
    highest_norm: float = float("inf"),
    n_threads: int = 1,
) -> Solution:
    """Solve Eq. 2 from a start near the answer; see the module's docstring.

    Parameters
    ----------
    problem
        The observed entries.
    lam
        The weight of the errors.
    start
        n x r: the factor to start from, for instance the indicator of a first clustering.
    generator
        The source of the random starts of the certificate.
    start_Q
        The multipliers to start from; None takes those of the errors of the start.
    tol
        The relative duality gap to reach.
    max_iter
        How many rounds of multipliers at the most.
    max_rank
        How many columns the factors may grow to; None lets them grow to three times the start's and 20.
    highest_norm
        Stop as soon as the norm of the dual beyond the range of X is seen to settle above this, unless the
        gap is about to be reached all the same.
    n_threads
        How many threads share the rows. The answer does not depend on it.
    """
    weight = lam * problem.factor
    work = Work(problem, weight, n_threads)
    limit = max_rank if max_rank is not None else 3 * start.shape[1] + 20
    signs = np.ones(start.shape[1])
    Q = start_Q if start_Q is not None else first_multipliers(problem, weight, start, signs, work)
    state = State(start.copy(), signs, Q.copy(), FIRST_PENALTY * lam)
    progress = Progress()
    history: list[Step] = []
    try:
        for round_number in range(max_iter):
            minimise(state, work, accuracy=inner_accuracy(history, tol))
            objective = work.objective(state.U, state.signs)
            unscaled = (objective - float(state.Q @ problem.Y)) / max(objective, 1e-300)
            proof: NormBound | None = None
            is_last = round_number == max_iter - 1
            if abs(unscaled) < max(tol, NEARLY_OPTIMAL) or is_last or round_number % 5 == 4:
                if shrink(state):
                    objective = work.objective(state.U, state.signs)
                proof = prove(problem, state, generator, tol, is_settled=abs(unscaled) <= tol)
                progress.note_proof(as_solution(problem, lam, state, objective, proof), round_number)
            progress.note_round(unscaled, round_number)
            norm = proof.upper if proof else None
            history.append(Step(objective, progress.gap, unscaled, norm, state.U.shape[1], state.n_products))
            if progress.gap <= tol or round_number - progress.last >= PATIENCE:
                break
            if proof is not None:
                if is_out_of_reach(proof, unscaled, tol, highest_norm):
                    break
                if abs(unscaled) < 0.1 * (proof.beyond - 1):
                    grow(state, proof, limit)
            state.mu = min(state.mu * PENALTY_GROWTH, HIGHEST_PENALTY * lam)
    finally:
        work.close()
    if progress.best is None:
        raise AssertionError("the last round always has a proof")
    return progress.best.finished(tuple(history), tol)


def is_out_of_reach(proof: NormBound, unscaled: float, tol: float, highest_norm: float) -> bool:
    """Say whether the dual has settled with too large a norm beyond the range of X."""
    if abs(unscaled) >= max(0.1 * (proof.beyond - 1), NEARLY_OPTIMAL):
        return False
    # Below 1 a solve that is this close arrives, though its proof takes more steps.
    is_arriving = proof.beyond < 1 and abs(unscaled) < 5 * tol
    return proof.beyond > highest_norm and not is_arriving


def prove(
    problem: Problem, state: State, generator: np.random.Generator, tol: float, *, is_settled: bool
) -> NormBound:
    """Bound the norm of the multipliers; once they have settled, at a price if need be."""
    basis = np.linalg.qr(state.U)[0] if state.U.shape[1] else state.U
    matrix = problem.matrix(state.Q)
    proof = bound_norm(matrix, basis, generator, good_enough=0.995)
    limit = max(1.0, proof.estimate) + 0.3 * tol
    is_worth_it = is_settled and proof.upper > limit and proof.estimate < 1 + tol
    if is_worth_it and problem.n <= MAX_EXACT_TASKS and is_norm_below(matrix, limit):
        return replace(proof, upper=limit)
    return proof


def as_solution(problem: Problem, lam: float, state: State, objective: float, proof: NormBound) -> Solution:
    """Write the factors as eigenvalues and eigenvectors."""
    basis, triangle = np.linalg.qr(state.U)
    values, vectors = np.linalg.eigh((triangle * state.signs) @ triangle.T)
    kept = np.abs(values) > 1e-12 * max(float(np.abs(values).max(initial=0.0)), 1.0)
    return Solution(
        eigenvalues=values[kept],
        eigenvectors=basis @ vectors[:, kept],
        Q=state.Q.copy(),
        objective=objective,
        dual=dual_value(problem, lam, state.Q, proof.upper),
        norm=proof.upper,
        norm_beyond=proof.beyond,
    )


def shrink(state: State) -> bool:
    """Drop columns that have all but vanished, and say whether there were any.

    The dual may exceed 1 along them, and only a new start shows it.
    """
    sizes = np.linalg.norm(state.U, axis=0)
    kept = sizes > max(VANISHED * float(sizes.max(initial=0.0)), NOTHING)
    if kept.all():
        return False
    state.U, state.signs = np.ascontiguousarray(state.U[:, kept]), state.signs[kept]
    return True


def first_multipliers(problem: Problem, weight: Floats, U: Floats, signs: Floats, work: Work) -> Floats:
    """Give each entry that the start gets wrong its full weight, with the sign of its error."""
    values = np.empty_like(problem.Y)
    work.over_rows(kernels.values_at, U, signs, values)
    residual = problem.Y - values
    return weight * np.sign(np.where(np.abs(residual) > 0.5, residual, 0.0))


def inner_accuracy(history: list[Step], tol: float) -> float:
    """Say how small the gradient must get: a part of how far the multipliers still are from optimal."""
    if not history:
        return 3e-2
    return float(np.clip(0.1 * abs(history[-1].unscaled_gap), 0.01 * tol, 3e-2))


def minimise(state: State, work: Work, accuracy: float) -> None:
    """Minimise the augmented Lagrangian in U by Newton's method; ends with new multipliers."""
    gradient = np.empty_like(state.U)
    trial_gradient = np.empty_like(state.U)
    value = work.gradient(state, state.U, work.new_Q, gradient)
    # ||U|| is the natural measure of the gradient U - Q U: at the optimum they cancel.
    small = accuracy * max(float(np.linalg.norm(state.U)), 1e-12)
    for _ in range(MAX_NEWTON_STEPS):
        if np.linalg.norm(gradient) <= small:
            break
        step = newton_direction(state, work, gradient, small)
        slope = 2 * float(np.vdot(gradient, step))
        length = 1.0
        for _ in range(25):
            trial = state.U + length * step
            trial_value = work.gradient(state, trial, work.trial_Q, trial_gradient)
            if trial_value <= value + 1e-4 * length * slope + 1e-13 * abs(value):
                break
            length *= 0.5
        else:
            break
        state.U, value = trial, trial_value
        gradient, trial_gradient = trial_gradient, gradient
        work.new_Q, work.trial_Q = work.trial_Q, work.new_Q
    state.Q[:] = work.new_Q


def newton_direction(state: State, work: Work, gradient: Floats, small: float) -> Floats:
    """Solve Hessian x step = -gradient roughly, by preconditioned conjugate gradients.

    A direction without curvature ends the search: what was found until then goes downhill all the same.
    """
    n, r = state.U.shape
    blocks = np.empty((n, r, r))
    work.over_rows(kernels.curvature_blocks, work.weight, work.new_Q, state.U, state.mu, 0.3, blocks)
    inverse = np.linalg.inv(blocks)
    residual = -gradient
    wanted = max(0.3 * small, 0.05 * float(np.linalg.norm(residual)))
    step = np.zeros_like(residual)
    smoothed = (inverse @ residual[:, :, None])[:, :, 0]
    direction = smoothed.copy()
    product = np.empty_like(residual)
    energy = float(np.vdot(residual, smoothed))
    for iteration in range(MAX_CG_STEPS):
        work.over_rows(
            kernels.hessian_rows, work.weight, work.new_Q, state.U, state.signs, direction, state.mu, product
        )
        state.n_products += 1
        curvature = float(np.vdot(direction, product))
        if curvature <= 1e-10 * float(np.vdot(direction, direction)):
            return direction if iteration == 0 else step
        length = energy / curvature
        step += length * direction
        residual -= length * product
        if np.linalg.norm(residual) <= wanted:
            break
        smoothed = (inverse @ residual[:, :, None])[:, :, 0]
        new_energy = float(np.vdot(residual, smoothed))
        direction = smoothed + (new_energy / energy) * direction
        energy = new_energy
    return step


def grow(state: State, proof: NormBound, limit: int) -> None:
    """Add directions in which Q exceeds 1 (or falls below -1) to the factors, as far as there is room."""
    room = max(min(limit - state.U.shape[1], MAX_NEW_COLUMNS), 0)
    rising = proof.rising[:, max(proof.rising.shape[1] - room, 0) :]
    falling = proof.falling[:, : room - rising.shape[1]]
    new = np.concatenate([rising, falling], axis=1)
    # Small against the rest, large enough that the next rounds see it.
    typical = float(np.linalg.norm(state.U)) / max(np.sqrt(state.U.shape[1]), 1.0)
    state.U = np.concatenate([state.U, max(NEW_COLUMN_SIZE * typical, 1e-3) * new], axis=1)
    state.signs = np.concatenate([state.signs, np.ones(rising.shape[1]), -np.ones(falling.shape[1])])

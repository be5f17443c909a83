"""The front door of completion: Eq. 2, with lambda found and the method chosen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from robusttc.clustering.old.completion.certificate import bound_norm, dual_scale, dual_value, exact_norm
from robusttc.clustering.old.completion.dense import solve_dense
from robusttc.clustering.old.completion.problem import Floats, Problem, make_problem
from robusttc.clustering.old.completion.result import CompletionResult, LambdaWindow, Solution
from robusttc.clustering.old.completion.window import choose_lambda, predict_window, smallest_lambda
from robusttc.clustering.old.start import Start, first_clustering
from robusttc.errors import DoubtWarning, UsageError, quote
from robusttc.seeds import RandomState, numpy_generator, run_seed

__all__ = ["complete_similarity", "solve_problem"]

Method = Literal["auto", "dense", "factored"]
# Beyond the first, and with lambda to be chosen, the factored method is taken: it measures where the window
# of lambda ends, and on real scores it is many times faster (264 tasks: 1 s against 50 s).
MAX_DENSE_TASKS_AUTO, MAX_DENSE_TASKS = 100, 300
MAX_DENSE_ROUNDS, MAX_FACTORED_ROUNDS = 5_000, 60
ROWS_A_CHUNK = 4_096  # of X at the observed entries
AT_BOUND, ROUNDING = 1e-9, 1e-12
# A lambda is taken if the dual's norm beyond the range of X stays below this; else it is lowered so that it
# does.
HIGHEST_NORM, AIMED_NORM = 0.985, 0.95
MAX_SPECTRAL_STEPS = 100  # of Lanczos, for a proof that is weak anyway
MAX_LAMBDAS = 5


def complete_similarity(
    Y: Any,
    observed: Any,
    lam: float | Literal["auto"] = "auto",
    *,
    tol: float = 1e-5,
    method: Method = "auto",
    weights: Sequence[float] = (1.0, 1.0),
    n_clusters: int | None = None,
    max_iter: int | None = None,
    n_threads: int = 1,
    random_state: RandomState = 0,
) -> CompletionResult:
    r"""Complete a partially observed similarity matrix by robust low-rank completion (Eq. 2).

    .. math:: \min_{X, E} \|X\|_* + \lambda \|E\|_1 \quad\text{s.t. } P_\Omega(X + E) = P_\Omega(Y)

    The solver stops on the certified duality gap. The proof is the sparse matrix `dual` of the result, which
    anyone can check: its entries are at most lambda, its spectral norm at most 1, and <dual, Y> is a lower
    bound of the optimum.

    Parameters
    ----------
    Y
        Partial similarities in 0 to 1, n x n, symmetric, dense or SciPy sparse; only observed entries count.
    observed
        Not zero where `Y` is measured; n x n, symmetric, dense or SciPy sparse.
    lam
        The weight lambda > 0 of the errors, or ``auto``: the middle of the window in which clusters are
        neither lost nor drowned in noise. If that window is empty, the answer is that of the spectral
        clustering, and says so.
    tol
        The relative duality gap to reach.
    method
        ``dense`` (small n), ``factored`` (never n x n), or ``auto``.
    weights
        Factors of lambda for errors on ones and on zeros.
    n_clusters
        The number of clusters to start from; None finds it from the spectrum.
    max_iter
        How many rounds at the most; None takes the method's own limit.
    n_threads
        How many threads the factored method uses. The answer does not depend on it.
    random_state
        The seed.

    Returns
    -------
    CompletionResult
        X as factors, E, the gap and its proof. `converged` tells whether the gap was reached.

    Warns
    -----
    DoubtWarning
        If the gap was not reached, no lambda would do, or X is zero.

    Raises
    ------
    DataError
        If the matrices cannot be used.
    UsageError
        If an option cannot be used.

    Examples
    --------
    >>> Y = np.kron(np.eye(2), np.ones((3, 3)))
    >>> result = complete_similarity(Y, np.ones((6, 6)))
    >>> result.converged, result.rank, result.dense().round(3)[0].tolist()
    (True, 2, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    """
    check_options(lam, tol, method, n_clusters, max_iter, n_threads)
    problem = make_problem(Y, observed, weights)
    # Two threads of linear algebra on shared cores were seen to be 25 times slower than one.
    with threadpool_limits(1, user_api="blas"):
        result = solve_problem(
            problem,
            lam,
            tol=tol,
            method=method,
            weights=(float(weights[0]), float(weights[1])),
            n_clusters=n_clusters,
            max_iter=max_iter,
            n_threads=n_threads,
            seed=run_seed(random_state),
        )
    if result.message:
        warnings.warn(result.message, DoubtWarning, stacklevel=2)
    return result


def solve_problem(
    problem: Problem,
    lam: float | Literal["auto"],
    *,
    tol: float,
    method: Method,
    weights: tuple[float, float],
    n_clusters: int | None,
    max_iter: int | None,
    n_threads: int,
    seed: int,
    start: Start | None = None,
) -> CompletionResult:
    """Do the work of `complete_similarity` on a checked problem; `start` spares the first clustering."""
    if not problem.Y.any():
        return zero_answer(problem, 1.0 if lam == "auto" else float(lam), weights, tol)
    most = MAX_DENSE_TASKS_AUTO if lam == "auto" else MAX_DENSE_TASKS
    is_dense = method == "dense" or (method == "auto" and problem.n <= most)
    if lam != "auto" and is_dense:
        solution = solve_dense(problem, float(lam), tol=tol, max_iter=max_iter or MAX_DENSE_ROUNDS)
        return as_result(problem, float(lam), weights, solution, "dense", None, tol)
    if start is None:
        start = first_clustering(problem, n_clusters, seed)
    window = predict_window(problem, start, weights)
    generator = numpy_generator(seed, "certificate")
    chosen = choose_lambda(window) if lam == "auto" else float(lam)
    if lam == "auto" and window.is_empty:
        return spectral_answer(problem, start, window, weights, tol, generator)
    if is_dense:
        solution = solve_dense(problem, chosen, tol=tol, max_iter=max_iter or MAX_DENSE_ROUNDS)
        result = as_result(problem, chosen, weights, solution, "dense", window, tol)
        return note_lost_clusters(result, start) if lam == "auto" else result

    # Late: only this method needs the compiler behind it.
    from robusttc.clustering.old.completion.factored import solve_factored

    factor = np.eye(start.n_clusters)[start.labels]
    Q: Floats | None = None
    n_lambdas = 0
    while True:
        n_lambdas += 1
        solution = solve_factored(
            problem,
            chosen,
            factor,
            generator,
            start_Q=Q,
            tol=tol,
            max_iter=max_iter or MAX_FACTORED_ROUNDS,
            highest_norm=HIGHEST_NORM if lam == "auto" else float("inf"),
            n_threads=n_threads,
        )
        if lam != "auto" or solution.converged or solution.norm_beyond <= HIGHEST_NORM:
            break
        # The norm grows in proportion to lambda: so this is where it reaches 1.
        window = replace(window, high=chosen / solution.norm_beyond, high_is_measured=True)
        lower = chosen * AIMED_NORM / solution.norm_beyond
        if lower < window.low:
            return spectral_answer(problem, start, window, weights, tol, generator)
        if n_lambdas == MAX_LAMBDAS:
            break
        Q = solution.Q * (lower / chosen)
        chosen = lower
    most = MAX_DENSE_TASKS if method == "auto" else 0
    solution, used = try_dense(problem, chosen, solution, most=most, tol=tol, max_iter=max_iter)
    result = as_result(problem, chosen, weights, solution, used, window, tol)
    return note_lost_clusters(result, start) if lam == "auto" else result


def try_dense(
    problem: Problem, lam: float, solution: Solution, *, most: int, tol: float, max_iter: int | None
) -> tuple[Solution, str]:
    """Solve anew with the dense method, up to so many tasks, where the factored one has not converged.

    That happens where the optimum has a high rank: the dense method is slow there, but gets on.
    """
    if solution.converged or problem.n > most:
        return solution, "factored"
    dense = solve_dense(problem, lam, tol=tol, max_iter=max_iter or MAX_DENSE_ROUNDS)
    return (dense, "dense") if dense.converged or dense.gap < solution.gap else (solution, "factored")


def check_options(
    lam: object, tol: object, method: object, n_clusters: object, max_iter: object, n_threads: object
) -> None:
    """Refuse options that cannot be used."""
    if not (isinstance(lam, str) and lam == "auto") and not is_between(lam, 0, np.inf):
        raise UsageError("lam cannot be used", got=quote(lam), expected="'auto' or a positive number")
    if not is_between(tol, 0, 1):
        raise UsageError("tol cannot be used", got=quote(tol), expected="a number between 0 and 1")
    if not isinstance(method, str) or method not in {"auto", "dense", "factored"}:
        raise UsageError("unknown method", got=quote(method), expected="auto, dense or factored")
    for name, value in {"n_clusters": n_clusters, "max_iter": max_iter, "n_threads": n_threads}.items():
        is_count = type(value) is not bool and isinstance(value, int | np.integer) and value >= 1
        if not is_count and not (value is None and name != "n_threads"):
            raise UsageError(f"{name} cannot be used", got=quote(value), expected="an integer from 1 up")


def is_between(value: object, low: float, high: float) -> bool:
    """Say whether this is a number strictly between two others."""
    return type(value) is not bool and isinstance(value, Real) and low < float(value) < high


def as_result(
    problem: Problem,
    lam: float,
    weights: tuple[float, float],
    solution: Solution,
    method: str,
    window: LambdaWindow | None,
    tol: float,
) -> CompletionResult:
    """Put the pieces of the answer together, and say what is doubtful about it."""
    nothing = zero_solution(problem, lam, solution)
    if nothing.objective <= solution.objective and method != "spectral":
        # No worse, and it says what it is: else X would be the dust that a solver leaves on its way to zero.
        solution = nothing.finished(solution.history, tol)
    residual = problem.Y - values_at_observed(problem, solution)
    # Where the multiplier is inside its box the optimum has no error; what is left there is part of the gap.
    at_bound = np.abs(solution.Q) >= (1 - AT_BOUND) * lam * problem.factor
    is_error = (at_bound | (method == "spectral")) & (np.abs(residual) > ROUNDING)
    return CompletionResult(
        eigenvectors=solution.eigenvectors,
        eigenvalues=solution.eigenvalues,
        E=problem.part(is_error, residual),
        lam=lam,
        weights=weights,
        objective=solution.objective,
        gap=solution.gap,
        dual=problem.matrix(solution.Q / dual_scale(problem, lam, solution.Q, solution.norm)),
        dual_norm=solution.norm,
        converged=solution.converged,
        method=method,
        window=window,
        history=solution.history,
        message=describe_doubt(problem, lam, solution, tol),
    )


def values_at_observed(problem: Problem, solution: Solution) -> Floats:
    """Give X at the observed entries, some rows at a time."""
    values = np.empty_like(problem.Y)
    scaled = solution.eigenvectors * solution.eigenvalues
    for start in range(0, problem.n, ROWS_A_CHUNK):
        first, last = problem.indptr[start], problem.indptr[min(start + ROWS_A_CHUNK, problem.n)]
        rows, columns = problem.rows[first:last], problem.indices[first:last]
        values[first:last] = np.einsum("pr,pr->p", scaled[rows], solution.eigenvectors[columns])
    return values


def describe_doubt(problem: Problem, lam: float, solution: Solution, tol: float) -> str:
    """Say what is doubtful about an answer; nothing if nothing is."""
    if not len(problem.Y):
        return "X is zero: no entry is observed"
    if not len(solution.eigenvalues) and solution.converged:
        least = smallest_lambda(problem)
        if np.isinf(least):
            return "X is zero: every observed entry is zero"
        return (
            f"X is zero: lambda = {lam:.3g} is too small for any cluster to be worth its nuclear norm; it is "
            f"zero up to {least:.3g} at least. Give a larger lam, or lam='auto'"
        )
    if not solution.converged:
        what = "" if len(solution.eigenvalues) else "X is zero: "
        return (
            f"{what}completion stopped at a certified gap of {solution.gap:.1e}, above the tolerance "
            f"{tol:.1e}: the objective is within that of the optimum, no more is proven"
        )
    return ""


def note_lost_clusters(result: CompletionResult, start: Start) -> CompletionResult:
    """Say so where X cannot hold the clusters that lambda was chosen for, those of more than one task."""
    n_clusters = int(np.count_nonzero(np.bincount(start.labels) > 1))
    if result.message or result.rank >= n_clusters:
        return result
    message = (
        f"X has rank {result.rank} where the first clustering found {n_clusters} clusters: the optimum of "
        "Eq. 2 merges or loses some of them. Too few zeros may have been measured to keep them apart"
    )
    return replace(result, message=message)


def zero_solution(problem: Problem, lam: float, proof: Solution) -> Solution:
    """Give X = 0, with the proof of another answer."""
    objective = float((lam * problem.factor) @ problem.Y)
    return replace(proof, eigenvalues=np.zeros(0), eigenvectors=np.zeros((problem.n, 0)), objective=objective)


def zero_answer(problem: Problem, lam: float, weights: tuple[float, float], tol: float) -> CompletionResult:
    """Give X = 0, which is the answer where no observed entry differs from 0."""
    solution = Solution(np.zeros(0), np.zeros((problem.n, 0)), np.zeros_like(problem.Y), 0.0, 0.0, 0.0)
    return as_result(problem, lam, weights, solution.finished((), tol), "dense", None, tol)


def spectral_answer(
    problem: Problem,
    start: Start,
    window: LambdaWindow,
    weights: tuple[float, float],
    tol: float,
    generator: np.random.Generator,
) -> CompletionResult:
    """Give the block matrix of the first clustering, with what can be proven of it, where no lambda will."""
    sizes = np.bincount(start.labels).astype(np.float64)
    vectors = np.eye(len(sizes))[start.labels] / np.sqrt(sizes)
    lam = float(np.sqrt(window.low * window.high)) if np.isfinite(window.low) else window.high
    residual = problem.Y - (start.labels[problem.rows] == start.labels[problem.indices])
    weight = lam * problem.factor
    # The errors alone, scaled to fit: a weak proof, but a proof.
    Q = 0.5 * weight * np.where(problem.Y >= 0.5, 1.0, np.where(problem.Y > 0, 0.0, -1.0))
    matrix = problem.matrix(Q)
    if problem.n <= MAX_DENSE_TASKS:
        norm = exact_norm(matrix)
    else:
        norm = bound_norm(matrix, vectors, generator, max_steps=MAX_SPECTRAL_STEPS).upper
    solution = Solution(
        eigenvalues=sizes,
        eigenvectors=vectors,
        Q=Q,
        objective=float(problem.n + weight @ np.abs(residual)),
        dual=dual_value(problem, lam, Q, norm),
        norm=norm,
    )
    if np.isfinite(window.low):
        needed = f"it would have to be above {window.low:.3g} for the smallest cluster"
    else:
        needed = "one cluster has no entries that would carry it"
    message = (
        f"no lambda recovers these clusters: {needed} and below {window.high:.3g} for the noise "
        f"({window.flip_rate:.0%} of the entries contradict the clusters); this is the spectral answer, not "
        "certified. Measure more pairs, or more reliable ones"
    )
    return replace(as_result(problem, lam, weights, solution, "spectral", window, tol), message=message)

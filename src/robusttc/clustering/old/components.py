"""Completing each connected part of the observation graph on its own, and joining the answers.

Between two tasks of different components nothing is observed, not even over others. The minimum of Eq. 2 on
the whole set would put X = 0 there, which reads as "different clusters" without any evidence; and one
lambda would have to serve parts of very different size and noise. So each component has its own problem,
first clustering, lambda and proof. The joint objective is the sum of theirs, and so is the joint lower
bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from robusttc.clustering.old.completion.complete import Method, solve_problem
from robusttc.clustering.old.completion.problem import Floats, Problem
from robusttc.clustering.old.completion.result import CompletionResult
from robusttc.clustering.old.number import Option, PairValues, start_from, weigh
from robusttc.clustering.old.start import Labels, Start, estimate_rates, first_clustering
from robusttc.errors import quote

__all__ = [
    "TINY_COMPONENT",
    "CompletedComponent",
    "complete_component",
    "find_components",
    "join_completions",
    "join_starts",
    "restrict_problem",
]

# So few tasks have too few entries to estimate a lambda window from.
TINY_COMPONENT = 3
TINY_LAMBDA = 1.1
MAX_MESSAGES = 3


@dataclass(frozen=True, eq=False)
class CompletedComponent:
    """A connected component of the observation graph, and what became of it.

    Attributes
    ----------
    members
        The numbers of its tasks, in the order of the rows of everything else here.
    problem
        Its observed entries.
    wanted
        The first clustering with the number of clusters to be had: the given one, or that of the fewest nats.
    start
        The first clustering that completion started from.
    options
        Every number of clusters that was tried for the first clustering, in ascending order.
    completion
        Its completed similarity, with its own lambda and proof.
    """

    members: NDArray[np.intp]
    problem: Problem
    wanted: Start
    start: Start
    options: tuple[Option, ...]
    completion: CompletionResult

    def factors(self) -> tuple[Floats, Floats]:
        """Give X as eigenvectors and eigenvalues, for clustering.

        Where X is zero, or only the first clustering over again, it is the blocks of the first clustering
        with the number of clusters that was asked for.
        """
        if self.completion.rank and self.completion.method != "spectral":
            return self.completion.eigenvectors, self.completion.eigenvalues
        used, blocks = np.unique(self.wanted.labels, return_inverse=True)
        return np.eye(len(used))[blocks], np.ones(len(used))


def find_components(problem: Problem, order: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Find the connected components with at least two tasks, the largest first.

    Parameters
    ----------
    problem
        The observed entries; those on the diagonal connect nothing.
    order
        All task numbers in the order that decides ties: the tasks of a component come in it, and so do
        components of one size.
    """
    pattern = problem.matrix(np.ones(len(problem.indices)))
    _, component_of = connected_components(pattern, directed=False)
    # Stable, so that the members of each component stay in the given order.
    by_component = order[np.argsort(component_of[order], kind="stable")]
    ends = np.flatnonzero(np.diff(component_of[by_component])) + 1
    rank = np.empty(problem.n, dtype=np.intp)
    rank[order] = np.arange(problem.n)
    found = [members for members in np.split(by_component, ends) if len(members) > 1]
    return sorted(found, key=lambda members: (-len(members), int(rank[members[0]])))


def restrict_problem(problem: Problem, members: NDArray[np.intp]) -> Problem:
    """Give the problem of some tasks alone, in the order of `members`."""
    places = sparse.csr_array(
        (np.arange(len(problem.indices)), problem.indices, problem.indptr), shape=(problem.n, problem.n)
    )
    chosen = sparse.csr_array(places[members][:, members])
    chosen.sort_indices()
    return Problem(
        chosen.indptr.astype(np.int64),
        chosen.indices.astype(np.int32),
        problem.Y[chosen.data],
        problem.factor[chosen.data],
    )


def complete_component(
    problem: Problem,
    members: NDArray[np.intp],
    pairs: PairValues,
    lam: float | Literal["auto"],
    *,
    n_clusters: int | None,
    tol: float,
    method: Method,
    weights: tuple[float, float],
    n_threads: int,
    seed: int,
) -> CompletedComponent:
    """Complete one component; see `solve_problem` for the options.

    Of the numbers of clusters that were tried, the one is taken with which all measured pairs are told in the
    fewest nats (see `robusttc.clustering.old.number`), unless one is given. But X should hardly depend on how
    many clusters somebody wants to see: completion starts from the first clustering that tells these pairs
    shortest, the given one or another, and where no lambda is found from there, from the next. Where none is
    found at all, X is that of the first clustering with the number that was taken.

    A component of two or three tasks has too few entries for a lambda window. Where none is found for it, it
    is solved with a lambda above 1, with which every entry can carry itself: nothing can be said against any.
    """
    part = restrict_problem(problem, members)
    own_pairs = pairs.restrict(members, problem.n)
    found = first_clustering(part, None, seed)
    options = {option.n_clusters: option for option in weigh(found.candidates, own_pairs)}
    best = min(options.values(), key=lambda option: (option.score_length, option.n_clusters))
    chosen = start_from(part, found, best, give_reason(found, best, options, len(own_pairs.value)))
    wanted = chosen if n_clusters is None else first_clustering(part, n_clusters, seed)
    options.update((option.n_clusters, option) for option in weigh(wanted.candidates, own_pairs))
    starts = {start.n_clusters: start for start in (found, chosen, wanted)}

    def solve(lam: float | Literal["auto"], start: Start) -> CompletionResult:
        return solve_problem(
            part,
            lam,
            tol=tol,
            method=method,
            weights=weights,
            n_clusters=None,
            max_iter=None,
            n_threads=n_threads,
            seed=seed,
            start=start,
        )

    uncertified = {}
    for start in sorted(starts.values(), key=lambda start: options[start.n_clusters].score_length):
        completion = solve(lam, start)
        if completion.method != "spectral":
            break
        uncertified[start.n_clusters] = completion
    else:
        start = wanted
        is_tiny = len(members) <= TINY_COMPONENT
        completion = solve(TINY_LAMBDA, start) if is_tiny else uncertified[start.n_clusters]
    return CompletedComponent(
        members, part, wanted, start, tuple(options[k] for k in sorted(options)), completion
    )


def give_reason(found: Start, best: Option, options: dict[int, Option], n_pairs: int) -> str:
    """Say why a component has this number of clusters."""
    reason = f"fewest nats for {n_pairs:,} measured pairs among {min(options)} to {max(options)}"
    if best.n_clusters != found.n_clusters:
        reason += f"; those that the filter left speak for {found.n_clusters}"
    return reason


def join_completions(
    problem: Problem,
    parts: list[CompletedComponent],
    weights: tuple[float, float],
    task_names: tuple[str, ...],
) -> CompletionResult:
    """Join the answers of all components into one of the whole set.

    X, E and the dual are zero between components, and in the rows of tasks that are in none. Objective and
    lower bound are sums, so the gap is that of the sums; the norm of the dual is the largest. `lam`, `window`
    and `history` are those of the largest component.
    """
    n = problem.n
    if not parts:
        empty = sparse.csr_array((n, n), dtype=np.float64)
        return CompletionResult(
            eigenvectors=np.zeros((n, 0)),
            eigenvalues=np.zeros(0),
            E=empty,
            lam=0.0,
            weights=weights,
            objective=0.0,
            gap=1.0,  # nothing is proven
            dual=empty.copy(),
            dual_norm=0.0,
            converged=False,
            method="none",
            window=None,
            history=(),
            message=(
                "no pair of tasks is observed behind the filter, so there is nothing to complete or to "
                "cluster. Measure more pairs, both ways, at least three a task, or lower p_high and p_low"
            ),
        )
    results = [part.completion for part in parts]
    vectors = np.zeros((n, sum(result.rank for result in results)))
    column = 0
    for part, result in zip(parts, results, strict=True):
        vectors[part.members, column : column + result.rank] = result.eigenvectors
        column += result.rank
    objective = sum(result.objective for result in results)
    # Not from the gaps, which are cut off at 0: the dual itself.
    bound = sum(float(result.dual.data @ part.problem.Y) for part, result in zip(parts, results, strict=True))
    return replace(
        results[0],
        eigenvectors=vectors,
        eigenvalues=np.concatenate([result.eigenvalues for result in results]),
        E=scatter(n, [(part.members, part.completion.E) for part in parts]),
        objective=objective,
        gap=max(objective - bound, 0.0) / objective if objective > 0 else 0.0,
        dual=scatter(n, [(part.members, part.completion.dual) for part in parts]),
        dual_norm=max(result.dual_norm for result in results),
        converged=all(result.converged for result in results),
        method="+".join(dict.fromkeys(result.method for result in results)),
        message=join_messages(parts, task_names),
    )


def scatter(n: int, blocks: list[tuple[NDArray[np.intp], sparse.csr_array]]) -> sparse.csr_array:
    """Put the matrices of components into one of n x n; explicit zeros stay."""
    entries = [(members, block.tocoo()) for members, block in blocks]
    rows = np.concatenate([members[entry.row] for members, entry in entries])
    columns = np.concatenate([members[entry.col] for members, entry in entries])
    values = np.concatenate([entry.data for _, entry in entries])
    joined = sparse.csr_array((values, (rows, columns)), shape=(n, n))
    joined.sort_indices()
    return joined


def join_messages(parts: list[CompletedComponent], task_names: tuple[str, ...]) -> str:
    """Join what is doubtful about the components, each with its first task; the first three are told."""
    doubtful = [part for part in parts if part.completion.message]
    if len(parts) == 1:
        return parts[0].completion.message
    told = [
        f"component of {quote(task_names[part.members[0]])} ({len(part.members):,} tasks): "
        f"{part.completion.message}"
        for part in doubtful[:MAX_MESSAGES]
    ]
    if len(doubtful) > MAX_MESSAGES:
        told.append(f"and {len(doubtful) - MAX_MESSAGES:,} more components in doubt")
    return "; ".join(told)


def join_starts(problem: Problem, parts: list[CompletedComponent]) -> Start:
    """Join the first clusterings of all components; a task that is in none is a cluster of its own.

    The candidates are empty where there are several components: those of one do not speak of the others.
    """

    def spread(labels_of_parts: list[Labels]) -> Labels:
        labels: Labels = np.full(problem.n, -1, dtype=np.intp)
        n_clusters = 0
        for part, own_labels in zip(parts, labels_of_parts, strict=True):
            labels[part.members] = own_labels + n_clusters
            n_clusters = int(labels.max()) + 1
        alone = np.flatnonzero(labels < 0)
        labels[alone] = n_clusters + np.arange(len(alone))
        return labels

    labels = spread([part.start.labels for part in parts])
    candidates = parts[0].start.candidates if len(parts) == 1 else ()
    eigenvalues = np.concatenate([part.start.eigenvalues for part in parts]) if parts else np.zeros(0)
    return Start(
        labels=labels,
        n_clusters=int(labels.max()) + 1,
        rates=estimate_rates(problem, labels),
        candidates=tuple(replace(candidate, labels=spread([candidate.labels])) for candidate in candidates),
        eigenvalues=np.sort(eigenvalues)[::-1],
        bulk_edge=max((part.start.bulk_edge for part in parts), default=0.0),
        reason="; ".join(dict.fromkeys(part.start.reason for part in parts)),
    )

"""Algorithm 1 of the paper: reliable pairs (Eq. 1), robust completion (Eq. 2), spectral clustering.

`RobustTaskClustering(strategy="paper")` runs it. Symbols: S are the transfer scores, Y is the partly observed
0/1 similarity that Eq. 1 makes of them, X its completion by Eq. 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from robusttc.clustering.completion import N_PARTS
from robusttc.clustering.n_clusters import PairEvidence, find_confidence, fit_two_groups
from robusttc.clustering.problem import Floats, Labels, make_problem, number_pairs
from robusttc.clustering.similarity import CompletionResult, as_result, cross_validate_tau
from robusttc.clustering.solvers import solve_absolute
from robusttc.clustering.spectral import cluster_spectrally, number_by_size
from robusttc.clustering.standardise import MIN_ENTRIES, standardise
from robusttc.clustering.verdict import HeldOutPairs
from robusttc.params import Choice, Number, check_param
from robusttc.transfer import TransferScores, standardise_columns

__all__ = ["RULES", "Algorithm1", "FilteredScores", "PairVerdict", "filter_scores", "run_algorithm_1"]

RULES = ("both", "any")


class PairVerdict(IntEnum):
    """What the scores of a pair say; the first two are the values of Y."""

    DIFFERENT = 0
    SAME = 1
    UNCERTAIN = 2


@dataclass(frozen=True, eq=False)
class FilteredScores:
    """What Eq. 1 leaves of the scores.

    Y is symmetric, n x n: 1 for pairs that belong together, 0 for pairs that do not (the zeros are stored);
    the diagonal is 1. An entry that is not stored is unobserved. `verdict` holds the `PairVerdict` of each
    measured pair of tasks, ``first < second``, as a number.
    """

    Y: csr_array[np.float64]
    first: Labels
    second: Labels
    verdict: NDArray[np.int8]


def filter_scores(
    scores: TransferScores, *, p_high: float = 0.5, p_low: float = 0.5, rule: str = "both"
) -> FilteredScores:
    """Return the partly observed similarity Y of the paper (Eq. 1).

    .. code-block:: text

        rule "both":  Y_ij = Y_ji = 1           if S_ij > mu_j + p_1 sigma_j  and  S_ji > mu_i + p_1 sigma_i
                                    0           if S_ij < mu_j - p_2 sigma_j  and  S_ji < mu_i - p_2 sigma_i
                                    unobserved  otherwise
        rule "any":   Y_ij = Y_ji = 1           if S_ij >= mu_j  or  S_ji >= mu_i
                                    0           otherwise

    mu_j and sigma_j are mean and standard deviation of the measured scores of target j; ``any``, which the
    paper uses for its largest data set, does not look at `p_high` (p_1) and `p_low` (p_2).

    Deviation: scores of a task with itself are left out, because S_ii = 1 is set, not measured. Deviation: a
    score nearer to a threshold than 1e-10 of the range of its column is on it, so that rounding, which
    depends on the order of the tasks, does not decide. What Eq. 1 leaves open: a pair measured in one
    direction is unobserved under ``both`` and decided by that direction under ``any``; a target with fewer
    than three scores, or with equal ones, cannot tell high from low and counts as not measured.

    Raises
    ------
    UsageError
        If a parameter is out of its domain.

    Examples
    --------
    >>> S = [[1.0, 0.9, 0.2, 0.3], [0.8, 1.0, 0.1, 0.2], [0.2, 0.3, 1.0, 0.7], [0.1, 0.2, 0.9, 1.0]]
    >>> filtered = filter_scores(TransferScores.from_matrix(S, ["a", "b", "c", "d"]))
    >>> filtered.Y.toarray()
    array([[1., 1., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 1.],
           [0., 0., 1., 1.]])
    >>> [PairVerdict(verdict).name for verdict in filtered.verdict[:3]]
    ['SAME', 'DIFFERENT', 'UNCERTAIN']
    """
    check_param("rule", rule, Choice(*RULES))
    check_param("p_high", p_high, Number(0))
    check_param("p_low", p_low, Number(0))
    entries = np.flatnonzero(scores.off_diagonal)
    target = scores.target[entries]
    columns = standardise_columns(target, scores.score[entries], n_tasks=scores.n_tasks)
    usable = (columns.has_spread & (columns.count >= MIN_ENTRIES))[target]
    z, tie = columns.standardised, columns.tie[target]
    # The last place is that of a direction that was not measured: neither high nor low.
    high, low = np.zeros(len(scores) + 1, dtype=np.bool_), np.zeros(len(scores) + 1, dtype=np.bool_)
    if rule == "both":
        high[entries], low[entries] = usable & (z > p_high + tie), usable & (z < -(p_low + tie))
    else:
        high[entries], low[entries] = usable & (z >= -tie), usable & (z < -tie)
    pairs = scores.pairs()
    combine = np.logical_and if rule == "both" else np.logical_or
    verdict = np.full(len(pairs.first), PairVerdict.UNCERTAIN, dtype=np.int8)
    verdict[combine(low[pairs.forward], low[pairs.backward])] = PairVerdict.DIFFERENT
    verdict[combine(high[pairs.forward], high[pairs.backward])] = PairVerdict.SAME
    known, diagonal = verdict != PairVerdict.UNCERTAIN, np.arange(scores.n_tasks)
    first, second = pairs.first[known], pairs.second[known]
    places = np.concatenate([first, second, diagonal]), np.concatenate([second, first, diagonal])
    values = np.concatenate([verdict[known], verdict[known], np.ones(scores.n_tasks)]).astype(np.float64)
    Y = csr_array((values, places), shape=(scores.n_tasks, scores.n_tasks))
    Y.sort_indices()
    return FilteredScores(Y, pairs.first, pairs.second, verdict)


@dataclass(frozen=True, eq=False)
class Algorithm1:
    """What Algorithm 1 found, and its clusters of the other pairs for each part of the pairs."""

    labels: Labels
    similarity: CompletionResult
    pairs: PairEvidence
    confidence: Floats
    reason: str
    held: list[HeldOutPairs]
    n_measured: int  # pairs


def run_algorithm_1(
    scores: TransferScores,
    n_clusters: int | None,
    *,
    rule: str,
    p_high: float,
    p_low: float,
    lam: float | None,
    tol: float,
    seed: int,
) -> Algorithm1:
    """Filter (Eq. 1), complete (Eq. 2), cluster X spectrally; None is a number that is to be found."""
    filtered = filter_scores(scores, p_high=p_high, p_low=p_low, rule=rule)
    similarity = complete_filtered(filtered, None if lam is None else 1.0 / lam, tol, seed)
    chosen = n_clusters or eigengap(similarity.eigenvalues, scores.n_tasks)
    labels = number_by_size(cluster_spectrally(similarity.eigenvectors, similarity.eigenvalues, chosen, seed))
    reason = "given" if n_clusters else "the largest gap of the eigenvalues of X"
    if n_clusters and len(np.unique(labels)) < n_clusters:
        reason = f"{n_clusters} were given, but X distinguishes no more"
    # Clusters are found without each part of the pairs in turn, and judged on it.
    data = standardise(scores, method="standard")
    pairs, pair = number_pairs(data.rows, data.columns, data.n)
    part_of = (np.random.default_rng(seed).permutation(len(pairs)) % N_PARTS)[pair]
    tau = similarity.regularisation * np.sqrt(1 - 1 / N_PARTS)
    held: list[HeldOutPairs] = []
    for number in range(N_PARTS if len(pairs) >= 10 and chosen > 1 else 0):
        kept = np.sort(data.places[part_of != number])
        columns = {name: column[kept] for name, column in scores.columns.items()}
        part = TransferScores(scores.task_names, **columns, kind=scores.kind)
        found = complete_filtered(filter_scores(part, p_high=p_high, p_low=p_low, rule=rule), tau, tol, seed)
        own = cluster_spectrally(found.eigenvectors, found.eigenvalues, chosen, seed)
        judged = part_of == number
        rows, targets = data.rows[judged], data.columns[judged]
        held.append(HeldOutPairs(rows, targets, data.values[judged], own[rows] == own[targets]))
    first, second = filtered.first, filtered.second
    known = filtered.verdict != PairVerdict.UNCERTAIN
    same = np.where(known, filtered.verdict.astype(np.float64), np.nan)
    errors = np.asarray(similarity.outliers[first, second]).ravel()
    evidence = PairEvidence(first, second, same, errors)
    first, second, same = first[known], second[known], same[known]
    groups = fit_two_groups(same, labels[first] == labels[second])
    confidence = find_confidence(labels, first, second, same, groups)
    return Algorithm1(labels, similarity, evidence, confidence, reason, held, len(pairs))


def complete_filtered(filtered: FilteredScores, tau: float | None, tol: float, seed: int) -> CompletionResult:
    """Solve Eq. 2 on the entries that Eq. 1 leaves, the diagonal Y_ii = 1 among them."""
    entries = filtered.Y.tocoo()
    rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
    problem = make_problem(filtered.Y.shape[0], rows, columns, entries.data.astype(np.float64))
    if tau is None:
        tau = cross_validate_tau(problem, "absolute", 1.0, seed)
    solution = solve_absolute(problem, tau, tol=tol, seed=seed)
    return as_result(problem, solution, tau, "absolute", 1.0, tol)


def eigengap(eigenvalues: Floats, n: int) -> int:
    """Return the number of eigenvalues before the largest relative gap; 1 if X is zero."""
    values = eigenvalues[eigenvalues > 1e-6 * max(float(eigenvalues.max(initial=0.0)), 1e-12)]
    if len(values) < 2:
        return 1
    values = np.append(values[: max(int(np.sqrt(n)) * 3, 2)], 1e-3 * values[0])
    return int(np.argmax(values[:-1] / values[1:])) + 1

"""The two strategies of `RobustTaskClustering`: the default, and Algorithm 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robusttc.clustering.completion import N_PARTS, Completion, Fold, complete_scores, fit_parts
from robusttc.clustering.filtering import FilteredScores, filter_scores
from robusttc.clustering.n_clusters import (
    NumberOfClusters,
    TwoGroups,
    choose_n_clusters,
    fit_two_groups,
    pair_means,
)
from robusttc.clustering.problem import Factors, Floats, Labels, make_problem
from robusttc.clustering.similarity import CompletionResult, as_result, cross_validate_tau
from robusttc.clustering.solvers import solve_absolute
from robusttc.clustering.spectral import (
    Tree,
    build_tree,
    cluster_spectrally,
    cut,
    find_directions,
    normalise,
    number_by_size,
)
from robusttc.clustering.standardise import standardise
from robusttc.clustering.verdict import HeldOutPairs, Verdict, judge_clusters
from robusttc.transfer import TransferScores

__all__ = ["MIN_PAIRS", "Fitted", "PairEvidence", "fit_default", "fit_paper"]

MIN_PAIRS = 2  # a task with fewer measured pairs has no cluster
MIN_DIRECTIONS = 8  # of the points that say how near tasks are to each other


@dataclass(frozen=True, eq=False)
class PairEvidence:
    """What the measured pairs say.

    Attributes
    ----------
    first, second
        The task numbers, ``first < second``.
    same_group
        The posterior probability that both belong to one group, by their own scores; in paper mode Y of Eq. 1
        (NaN where it leaves the pair out).
    outlier
        What the loss clipped, in standard deviations: 0 where the completion fits; in paper mode E of Eq. 2.
    """

    first: Labels
    second: Labels
    same_group: Floats
    outlier: Floats


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a strategy found, tasks in the order of their names."""

    labels: Labels
    confidence: Floats
    similarity: CompletionResult
    verdict: Verdict
    pairs: PairEvidence
    reason: str
    tree: Tree | None
    completion: Completion | None
    points: Floats


def fit_default(
    scores: TransferScores,
    n_clusters: int | None,
    *,
    features: Floats | None,
    scale: str,
    delta: float,
    tol: float,
    seed: int,
) -> Fitted:
    """Complete the standardised scores, cluster X, and judge the clusters on held-out pairs."""
    n = scores.n_tasks
    completion = complete_scores(scores, method=scale, features=features, delta=delta, tol=tol, seed=seed)
    data, factors = completion.data, completion.factors
    left = data.values - factors.a[data.rows] - factors.b[data.columns]
    first, second, value = pair_means(data.rows, data.columns, left, n)
    active = count_partners(first, second, n) >= MIN_PAIRS
    number: NumberOfClusters | None = None
    if completion.folds:
        number = choose_n_clusters(completion.folds, n, seed)
    chosen = n_clusters or (number.chosen if number else 1)
    if n_clusters in (1, n):
        active[:] = True
    tree = build_tree(completion.directions[active], chosen, seed)
    leaf_of = np.full(n, -1, dtype=np.int64)
    leaf_of[active] = tree.leaf_of
    tree = replace(tree, leaf_of=leaf_of)
    labels = number_by_size(cut(tree, chosen))
    groups = fit_two_groups(value, (labels[first] == labels[second]) & (labels[first] >= 0))
    held = judge_parts(fit_parts(scores, completion, features, seed), labels, seed)
    share = len(first) / max(n * (n - 1) / 2, 1)
    verdict = judge_clusters(held, factors.U, labels, held_out=completion.explained, share_measured=share)
    penalty = completion.setting.penalties(completion.problem, delta).positive
    similarity = as_result(completion.problem, completion.solution, penalty, "huber", delta, tol)
    clipped = np.abs(completion.residuals) - delta
    outlier = np.where(clipped > 0, np.sign(completion.residuals) * clipped, 0.0)
    order = np.lexsort((data.columns, data.rows))
    outliers = pair_means(data.rows[order], data.columns[order], outlier, n)[2]
    pairs = PairEvidence(first, second, groups.posterior(value), outliers)
    reason = explain_number(n_clusters, chosen, labels, number)
    confidence = find_confidence(labels, first, second, value, groups)
    points = normalise(completion.directions[:, : max(chosen, MIN_DIRECTIONS)])
    return Fitted(labels, confidence, similarity, verdict, pairs, reason, tree, completion, points)


def judge_parts(parts: list[Fold], labels: Labels, seed: int) -> list[HeldOutPairs]:
    """Cluster without each part of the pairs, and pair its scores with what the others say."""
    n_clusters = int(labels.max(initial=-1)) + 1
    held = []
    for part in parts if n_clusters > 1 else []:
        if part.directions is None:
            raise AssertionError("the parts are fitted")
        own = cut(build_tree(part.directions, n_clusters, seed), n_clusters)
        rows, columns = part.held_rows, part.held_columns
        held.append(HeldOutPairs(rows, columns, part.held_values, own[rows] == own[columns]))
    return held


def explain_number(given: int | None, chosen: int, labels: Labels, number: NumberOfClusters | None) -> str:
    """Return why there are so many clusters."""
    reached = int(labels.max(initial=-1)) + 1
    if given is not None:
        if reached < given:
            n_tasks = int(np.count_nonzero(labels >= 0))
            few = f"only {n_tasks} tasks have {MIN_PAIRS} measured pairs or more"
            return f"{given} were given, but {few if n_tasks < given else 'the scores tell no more apart'}"
        if number is None or number.chosen == given:
            return "given"
        return f"given; held-out pairs speak for {number.chosen}"
    if number is None:
        return "too few pairs to compare numbers of clusters"
    if chosen == 1:
        return "no division into clusters predicts held-out pairs better"
    return "fewer clusters predict held-out pairs clearly worse, more hardly better"


def count_partners(first: Labels, second: Labels, n: int) -> Labels:
    """Return how many tasks each task was measured with."""
    return np.bincount(first, minlength=n) + np.bincount(second, minlength=n)


def find_confidence(
    labels: Labels, first: Labels, second: Labels, value: Floats, groups: TwoGroups
) -> Floats:
    """Return the posterior of each task's cluster given the values of its pairs with the others."""
    n, n_clusters = len(labels), int(labels.max(initial=-1)) + 1
    evidence = np.zeros((n, max(n_clusters, 1)))
    gain = groups.log_likelihood(value, np.ones(len(value), dtype=np.bool_))
    gain = gain - groups.log_likelihood(value, np.zeros(len(value), dtype=np.bool_))
    for own, other in ((first, second), (second, first)):
        known = labels[other] >= 0
        np.add.at(evidence, (own[known], labels[other[known]]), gain[known])
    evidence -= evidence.max(axis=1, keepdims=True)
    posterior = np.exp(evidence) / np.exp(evidence).sum(axis=1, keepdims=True)
    return np.where(labels >= 0, posterior[np.arange(n), np.maximum(labels, 0)], 0.0)


def fit_paper(
    scores: TransferScores,
    n_clusters: int | None,
    *,
    rule: str,
    p_high: float,
    p_low: float,
    lam: float | None,
    tol: float,
    seed: int,
) -> Fitted:
    """Run Algorithm 1: filter (Eq. 1), complete (Eq. 2), cluster X spectrally."""
    n = scores.n_tasks
    filtered = filter_scores(scores, p_high=p_high, p_low=p_low, rule=rule)
    similarity, factors, tau = complete_filtered(filtered, None if lam is None else 1.0 / lam, tol, seed)
    chosen = n_clusters or eigengap(similarity.eigenvalues, n)
    labels = number_by_size(cluster_spectrally(factors.U, factors.V, chosen, seed))
    # Clusters are found without each part of the pairs in turn, and judged on it.
    data = standardise(scores, method="standard")
    low, high = np.minimum(data.rows, data.columns), np.maximum(data.rows, data.columns)
    pairs, pair = np.unique(low * n + high, return_inverse=True)
    part_of = (np.random.default_rng(seed).permutation(len(pairs)) % N_PARTS)[pair]
    held: list[HeldOutPairs] = []
    if len(pairs) >= 10 and chosen > 1:
        for number in range(N_PARTS):
            kept = data.places[part_of != number]
            columns = {name: column[np.sort(kept)] for name, column in scores.columns.items()}
            part = TransferScores(scores.task_names, **columns, kind=scores.kind)
            own = filter_scores(part, p_high=p_high, p_low=p_low, rule=rule)
            found = complete_filtered(own, tau * np.sqrt(1 - 1 / N_PARTS), tol, seed)[1]
            own_labels = cluster_spectrally(found.U, found.V, chosen, seed)
            judged = part_of == number
            rows, targets = data.rows[judged], data.columns[judged]
            held.append(
                HeldOutPairs(rows, targets, data.values[judged], own_labels[rows] == own_labels[targets])
            )
    share = len(pairs) / max(n * (n - 1) / 2, 1)
    U = similarity.eigenvectors * np.sqrt(np.maximum(similarity.eigenvalues, 0))
    verdict = judge_clusters(held, U, labels, held_out=float("nan"), share_measured=share)
    evidence = paper_pairs(filtered, similarity)
    known = ~np.isnan(evidence.same_group)
    first, second, value = evidence.first[known], evidence.second[known], evidence.same_group[known]
    groups = fit_two_groups(value, labels[first] == labels[second])
    confidence = find_confidence(labels, first, second, value, groups)
    reason = "given" if n_clusters else "the largest gap of the eigenvalues of X"
    if n_clusters and int(labels.max(initial=-1)) + 1 < n_clusters:
        reason = f"{n_clusters} were given, but X tells no more apart"
    return Fitted(
        labels, confidence, similarity, verdict, evidence, reason, None, None, normalise(find_directions(U))
    )


def complete_filtered(
    filtered: FilteredScores, tau: float | None, tol: float, seed: int
) -> tuple[CompletionResult, Factors, float]:
    """Solve Eq. 2 on the entries that Eq. 1 leaves, the diagonal Y_ii = 1 among them."""
    entries = filtered.Y.tocoo()
    rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
    problem = make_problem(filtered.Y.shape[0], rows, columns, entries.data.astype(np.float64))
    if tau is None:
        tau = cross_validate_tau(problem, "absolute", 1.0, seed)
    solution = solve_absolute(problem, tau, tol=tol, seed=seed)
    return as_result(problem, solution, tau, "absolute", 1.0, tol), solution.factors, tau


def eigengap(eigenvalues: Floats, n: int) -> int:
    """Return the number of eigenvalues before the largest relative gap; 1 if X is zero."""
    values = eigenvalues[eigenvalues > 1e-6 * max(float(eigenvalues.max(initial=0.0)), 1e-12)]
    if len(values) < 2:
        return 1
    values = np.append(values[: max(int(np.sqrt(n)) * 3, 2)], 1e-3 * values[0])
    return int(np.argmax(values[:-1] / values[1:])) + 1


def paper_pairs(filtered: FilteredScores, similarity: CompletionResult) -> PairEvidence:
    """Return Y and E of the measured pairs."""
    same = np.where(filtered.verdict < 2, filtered.verdict.astype(np.float64), np.nan)
    errors = np.asarray(similarity.outliers[filtered.first, filtered.second]).ravel()
    return PairEvidence(filtered.first, filtered.second, same, errors)

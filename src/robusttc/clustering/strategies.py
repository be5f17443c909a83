"""The two strategies of `RobustTaskClustering`: the default, and Algorithm 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robusttc.clustering.completion import N_PARTS, Completion, complete_scores, fit_parts
from robusttc.clustering.filtering import FilteredScores, PairVerdict, filter_scores
from robusttc.clustering.n_clusters import (
    TwoGroups,
    choose_n_clusters,
    fit_two_groups,
    maximise_likelihood,
    pair_means,
)
from robusttc.clustering.problem import Factors, Floats, Labels, make_problem, number_pairs
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
    points: Floats
    tree: Tree | None = None
    completion: Completion | None = None


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
    data, problem, factors = completion.data, completion.problem, completion.factors
    left = data.values - factors.a[data.rows] - factors.b[data.columns]
    first, second, value = pair_means(data.rows, data.columns, left, n)
    active = np.bincount(first, minlength=n) + np.bincount(second, minlength=n) >= MIN_PAIRS
    best = choose_n_clusters(completion.folds, n, seed)[0] if completion.folds else None
    chosen = n_clusters or best or 1
    if n_clusters in (1, n):
        active[:] = True
    tree = build_tree(completion.directions[active], chosen, seed)
    leaf_of = np.full(n, -1, dtype=np.int64)
    leaf_of[active] = tree.leaf_of
    tree = replace(tree, leaf_of=leaf_of)
    labels, groups = maximise_likelihood(cut(tree, chosen), first, second, value, seed)
    labels = number_by_size(labels)
    held: list[HeldOutPairs] = []
    if count_clusters(labels) > 1:
        for part in fit_parts(scores, completion, features, seed):
            own = cut(build_tree(part.directions, count_clusters(labels), seed), count_clusters(labels))
            rows, columns = part.held_rows, part.held_columns
            held.append(HeldOutPairs(rows, columns, part.held_values, own[rows] == own[columns]))
    share = len(first) / max(n * (n - 1) / 2, 1)
    verdict = judge_clusters(held, factors.U, labels, held_out=completion.explained, share_measured=share)
    penalty = completion.setting.penalties(problem, delta).positive
    similarity = as_result(problem, completion.solution, penalty, "huber", delta, tol)
    clipped = np.abs(completion.residuals) - delta
    outlier = np.where(clipped > 0, np.sign(completion.residuals) * clipped, 0.0)
    outliers = pair_means(problem.rows, problem.indices, outlier, n)[2]
    pairs = PairEvidence(first, second, groups.posterior(value), outliers)
    reason = explain_number(n_clusters, best, labels)
    confidence = find_confidence(labels, first, second, value, groups)
    points = normalise(completion.directions[:, : max(chosen, MIN_DIRECTIONS)])
    return Fitted(labels, confidence, similarity, verdict, pairs, reason, points, tree, completion)


def count_clusters(labels: Labels) -> int:
    """Return the number of clusters, which are numbered from 0."""
    return int(labels.max(initial=-1)) + 1


def explain_number(given: int | None, best: int | None, labels: Labels) -> str:
    """Return why there are so many clusters."""
    if given is not None and count_clusters(labels) < given:
        n_tasks = int(np.count_nonzero(labels >= 0))
        few = f"only {n_tasks} tasks have {MIN_PAIRS} measured pairs or more"
        return f"{given} were given, but {few if n_tasks < given else 'the scores tell no more apart'}"
    if given is not None:
        return "given" if best in (None, given) else f"given; held-out pairs speak for {best}"
    if best is None:
        return "too few pairs to compare numbers of clusters"
    if best == 1:
        return "no division into clusters predicts held-out pairs better"
    return "fewer clusters predict held-out pairs clearly worse, more hardly better"


def find_confidence(
    labels: Labels, first: Labels, second: Labels, value: Floats, groups: TwoGroups
) -> Floats:
    """Return the posterior of each task's cluster given the values of its pairs with the others."""
    n = len(labels)
    evidence = np.zeros((n, max(count_clusters(labels), 1)))
    gain = groups.log_likelihood_ratio(value)
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
    pairs, pair = number_pairs(data.rows, data.columns, n)
    part_of = (np.random.default_rng(seed).permutation(len(pairs)) % N_PARTS)[pair]
    held: list[HeldOutPairs] = []
    for number in range(N_PARTS if len(pairs) >= 10 and chosen > 1 else 0):
        kept = np.sort(data.places[part_of != number])
        columns = {name: column[kept] for name, column in scores.columns.items()}
        part = TransferScores(scores.task_names, **columns, kind=scores.kind)
        own = filter_scores(part, p_high=p_high, p_low=p_low, rule=rule)
        found = complete_filtered(own, tau * np.sqrt(1 - 1 / N_PARTS), tol, seed)[1]
        own_labels = cluster_spectrally(found.U, found.V, chosen, seed)
        judged = part_of == number
        rows, targets = data.rows[judged], data.columns[judged]
        held.append(HeldOutPairs(rows, targets, data.values[judged], own_labels[rows] == own_labels[targets]))
    share = len(pairs) / max(n * (n - 1) / 2, 1)
    U = similarity.eigenvectors * np.sqrt(np.maximum(similarity.eigenvalues, 0))
    verdict = judge_clusters(held, U, labels, held_out=float("nan"), share_measured=share)
    same = np.where(filtered.verdict < PairVerdict.UNCERTAIN, filtered.verdict.astype(np.float64), np.nan)
    errors = np.asarray(similarity.outliers[filtered.first, filtered.second]).ravel()
    evidence = PairEvidence(filtered.first, filtered.second, same, errors)
    known = ~np.isnan(same)
    first, second, value = filtered.first[known], filtered.second[known], same[known]
    groups = fit_two_groups(value, labels[first] == labels[second])
    confidence = find_confidence(labels, first, second, value, groups)
    reason = "given" if n_clusters else "the largest gap of the eigenvalues of X"
    if n_clusters and count_clusters(labels) < n_clusters:
        reason = f"{n_clusters} were given, but X tells no more apart"
    return Fitted(labels, confidence, similarity, verdict, evidence, reason, normalise(find_directions(U)))


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

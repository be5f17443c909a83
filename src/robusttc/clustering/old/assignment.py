"""Where tasks with hardly any observation belong, and how sure each task's cluster is.

A label of -1 is a task without a cluster. The entries of a task speak for a cluster by their log-odds: a
one adds log(p_in / p_out), a zero adds log((1 - p_in) / (1 - p_out)), with p_in and p_out the rates of ones
among observed pairs inside and between clusters. `Z` are the scores, each column (target) standardised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.clustering.old.completion.problem import Floats, Problem
from robusttc.clustering.old.start import Labels, counts_by_cluster, log_odds, rates_from_counts
from robusttc.scores import TransferScores, standardise_columns

__all__ = [
    "MIN_OBSERVED",
    "cluster_evidence",
    "count_observed",
    "find_confidence",
    "place_tasks",
]

MIN_OBSERVED = 2  # a task with fewer observed pairs is not clustered, but placed where there is evidence
MIN_LOG_ODDS = 2.0  # observed entries place a task if they favour one cluster by this, about 7 to 1
MIN_STANDARD_ERRORS = 2.0  # scores place a task if the best cluster leads the second by this
MIN_SPARE_SCORES = 2  # degrees of freedom of the standard error, at the least
TIE = 1e-9


def count_observed(problem: Problem) -> NDArray[np.int64]:
    """Count the observed partners of each task."""
    return np.diff(problem.indptr) - np.bincount(problem.rows[problem.on_diagonal], minlength=problem.n)


def cluster_evidence(problem: Problem, labels: Labels) -> Floats:
    """Give how much the observed entries of each task speak for each cluster, in nats (n x k).

    The tasks of label -1 take no part in the rates, and their entries count for no cluster; they have rows of
    their own.
    """
    k = int(labels.max(initial=-1)) + 1
    if k == 0:
        return np.zeros((problem.n, 0))
    # One more cluster takes those without a label, and is then cut off.
    ones, zeros = (counts[:, :k] for counts in counts_by_cluster(problem, np.where(labels < 0, k, labels)))
    placed = labels >= 0
    one, zero = log_odds(rates_from_counts(ones[placed], zeros[placed], labels[placed]))
    return one * ones + zero * zeros


def find_confidence(problem: Problem, labels: Labels) -> Floats:
    """Give the posterior probability of each task's cluster, given its observed entries and equal priors.

    It is in (0, 1], and 0 for a task without a cluster. A task without any observed entry that was placed
    by its scores has 1 / k: its observed entries say nothing.
    """
    evidence = cluster_evidence(problem, labels)
    confidence = np.zeros(problem.n)
    placed = np.flatnonzero(labels >= 0)
    if len(placed):
        evidence = evidence[placed]
        highest = evidence.max(axis=1)
        own = evidence[np.arange(len(placed)), labels[placed]]
        share = np.exp(own - highest) / np.exp(evidence - highest[:, None]).sum(axis=1)
        confidence[placed] = np.maximum(share, np.finfo(np.float64).tiny)
    return confidence


def place_tasks(scores: TransferScores, problem: Problem, labels: Labels) -> Labels:
    """Place the tasks of label -1 in the cluster nearest to them, where there is evidence; the others stay.

    A task is placed by its observed entries if they favour one cluster over every other by `MIN_LOG_ODDS`
    nats. Else it is placed by its scores, also those that the filter found uncertain: for each cluster, the
    mean of Z over the scores of the task with the cluster's tasks, in both directions. The best mean must
    lead the second by `MIN_STANDARD_ERRORS` standard errors of their difference (pooled within clusters);
    where no second cluster was measured, it must lead the average target, which is 0. All are placed at
    once, by the tasks that had a cluster before.
    """
    labels = labels.copy()
    waiting = np.flatnonzero(labels < 0)
    if not len(waiting) or len(waiting) == len(labels):
        return labels
    by_entries = clear_winners(cluster_evidence(problem, labels)[waiting])
    by_scores = place_by_scores(scores, labels, waiting)
    labels[waiting] = np.where(by_entries >= 0, by_entries, by_scores)
    return labels


def clear_winners(evidence: Floats) -> Labels:
    """Give the cluster with the most evidence in each row, -1 where it does not lead clearly.

    A lone cluster must have clear evidence for itself.
    """
    if evidence.shape[1] == 1:
        evidence = np.column_stack([evidence, np.zeros(len(evidence))])
    second, first = np.sort(evidence, axis=1)[:, -2:].T
    return np.where((first - second >= MIN_LOG_ODDS) & (first > 0), evidence.argmax(axis=1), -1)


def place_by_scores(scores: TransferScores, labels: Labels, waiting: NDArray[np.intp]) -> Labels:
    """Give the cluster of each waiting task by its standardised scores, or -1; see `place_tasks`."""
    k = int(labels.max()) + 1
    entries = np.flatnonzero(scores.off_diagonal)
    source, target = scores.source[entries], scores.target[entries]
    columns = standardise_columns(target, scores.score[entries], n_tasks=scores.n_tasks)
    # A column without spread says nothing.
    used = columns.has_spread[target]
    source, target, z = source[used], target[used], columns.standardised[used]
    row_of = np.full(scores.n_tasks, -1, dtype=np.intp)
    row_of[waiting] = np.arange(len(waiting))
    task, partner = np.concatenate([source, target]), np.concatenate([target, source])
    z = np.concatenate([z, z])
    kept = (row_of[task] >= 0) & (labels[partner] >= 0)
    row, z = row_of[task[kept]], z[kept]
    place = row * k + labels[partner[kept]]

    count = np.bincount(place, minlength=len(waiting) * k)
    mean = np.bincount(place, z, minlength=len(count)) / np.maximum(count, 1)
    squares = np.bincount(row, (z - mean[place]) ** 2, minlength=len(waiting))
    count, mean = count.reshape(-1, k), mean.reshape(-1, k)
    spare = count.sum(axis=1) - (count > 0).sum(axis=1)
    variance = squares / np.maximum(spare, 1)

    # The average target stands in for clusters that were not measured, and is as sure as can be.
    mean = np.column_stack([np.where(count > 0, mean, -np.inf), np.full(len(waiting), -np.inf)])
    mean[(count > 0).sum(axis=1) < 2, -1] = 0.0
    share = np.column_stack([1 / np.maximum(count, 1), np.zeros(len(waiting))])
    order = np.argsort(-mean, axis=1, kind="stable")[:, :2]
    best, second = np.take_along_axis(mean, order, axis=1).T
    error = np.sqrt(variance * np.take_along_axis(share, order, axis=1).sum(axis=1))
    clear = (spare >= MIN_SPARE_SCORES) & (best > second + MIN_STANDARD_ERRORS * error + TIE)
    return np.where(clear & (order[:, 0] < k), order[:, 0], -1)

"""How many clusters: the number with which all measured pairs, not only the filtered ones, are told shortest.

The filter keeps what is reliable of single pairs, and leaves out most of them. For a question about all
pairs together that is a waste: on planted scores with weak clusters, the filtered pairs speak for one
cluster or two where all scores together show eight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.clustering.old.completion.problem import Floats, Problem
from robusttc.clustering.old.start import Candidate, Labels, Start, estimate_rates
from robusttc.scores import TransferScores, row_means, standardise_columns

__all__ = ["Option", "PairValues", "measure_pairs", "score_length", "start_from", "weigh"]

# Below this share of the variance, scores are told exactly; a log of less would drown the rest.
LEAST_VARIANCE = 1e-9


@dataclass(frozen=True, eq=False)
class PairValues:
    """What was measured of each unordered pair, whether or not the filter found it reliable.

    Attributes
    ----------
    first, second
        The numbers of the two tasks.
    value
        The mean over the measured directions of the score, each column (target) standardised and the mean
        of each row (source) taken away.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    value: Floats

    def restrict(self, members: NDArray[np.intp], n_tasks: int) -> PairValues:
        """Give the pairs of some tasks, numbered in the order of `members`."""
        number = np.full(n_tasks, -1, dtype=np.int64)
        number[members] = np.arange(len(members))
        first, second = number[self.first], number[self.second]
        kept = (first >= 0) & (second >= 0)
        return PairValues(first[kept], second[kept], self.value[kept])


@dataclass(frozen=True, eq=False)
class Option:
    """A number of clusters that was tried, with its clustering.

    Attributes
    ----------
    n_clusters, labels
        The number of clusters, and the cluster of each task.
    description_length
        The nats needed to write down the clusters and then the filtered pairs.
    score_length
        The nats needed to write down the clusters and then all measured pairs; see `score_length`.
    """

    n_clusters: int
    labels: Labels
    description_length: float
    score_length: float


def measure_pairs(scores: TransferScores) -> PairValues:
    """Give one value for each pair with a score in a column that has spread."""
    entries = np.flatnonzero(scores.off_diagonal)
    columns = standardise_columns(scores.target[entries], scores.score[entries], n_tasks=scores.n_tasks)
    used = columns.has_spread[scores.target[entries]]
    entries, z = entries[used], columns.standardised[used]
    source = scores.source[entries]
    # The last entry is that of a direction which was not measured.
    value, known = np.zeros(len(scores) + 1), np.zeros(len(scores) + 1)
    value[entries] = z - row_means(source, z, scores.n_tasks)[source]
    known[entries] = 1.0
    pairs = scores.pairs()
    count = known[pairs.forward] + known[pairs.backward]
    mean = (value[pairs.forward] + value[pairs.backward]) / np.maximum(count, 1)
    kept = count > 0
    return PairValues(pairs.first[kept], pairs.second[kept], mean[kept])


def score_length(pairs: PairValues, labels: Labels) -> float:
    """Give the nats needed to write down the partition and then the values of all pairs.

    The values are taken to be normal, with one mean within clusters, a lower one between them, and one
    variance: ``N/2 log(variance)`` up to a constant, ``1/2 log(N)`` for the second mean, and for the
    partition what it costs to name the cluster of each task. Infinite if pairs within clusters are not the
    higher ones.
    """
    n_pairs = len(pairs.value)
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    partition = -float(np.sum(sizes * np.log(sizes / sizes.sum())))
    if n_pairs == 0:
        return partition
    same = labels[pairs.first] == labels[pairs.second]
    residual = pairs.value - pairs.value.mean()
    total = float(residual @ residual)
    if same.any() and not same.all():
        inside, outside = pairs.value[same].mean(), pairs.value[~same].mean()
        if inside <= outside:
            return float("inf")
        residual = pairs.value - np.where(same, inside, outside)
        partition += float(np.log(n_pairs)) / 2
    left = float(residual @ residual)
    # As a share of the variance: the unit of the values does not matter then.
    share = left / total if total > 0 else 1.0
    return partition + n_pairs / 2 * float(np.log(max(share, LEAST_VARIANCE)))


def weigh(candidates: tuple[Candidate, ...], pairs: PairValues) -> list[Option]:
    """Add to each candidate what it makes of all measured pairs."""
    return [
        Option(one.n_clusters, one.labels, one.description_length, score_length(pairs, one.labels))
        for one in candidates
    ]


def start_from(problem: Problem, start: Start, option: Option, reason: str) -> Start:
    """Give the first clustering with another of the numbers that were tried."""
    return Start(
        labels=option.labels,
        n_clusters=option.n_clusters,
        rates=estimate_rates(problem, option.labels),
        candidates=start.candidates,
        eigenvalues=start.eigenvalues,
        bulk_edge=start.bulk_edge,
        reason=reason,
    )

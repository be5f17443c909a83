"""Where a new task belongs, by a few measured pairs: the likelihood of every cluster of the run.

The value of a pair is what clustering looks at (`robusttc.clustering.n_clusters.pair_values`): the mean of
both directions, every target standardised, without what a source gives to all alike. Within a cluster, and
between each two, values are normal around a mean of their own. So the values of a new task have a likelihood
under every cluster, and another one under "no cluster at all": like what a cluster has with tasks of others.

How far likelihoods can be believed is measured too, since the values of one task are not independent. Every
task of the run is placed as if it were new, once with its cluster there and once without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from robusttc.clustering import pair_values
from robusttc.models import apply_temperature, fit_logistic, fit_temperature
from robusttc.transfer import TransferScores, row_means, standardise_columns

__all__ = ["ClusterAssigner", "Placement", "choose_representatives"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

# So many pairs of prior belief pull the mean of a block of few pairs to that of all blocks.
PRIOR_PAIRS = 5.0
# So many tasks of prior belief pull the noise of one representative to that of all.
PRIOR_TASKS = 10.0
# Of this share of new tasks it is supposed beforehand that no cluster fits.
PRIOR_OUTSIDE = 0.2
LEAST_A_CLUSTER = 3  # representatives: the noise of one score is too large


def count_representatives(n_tasks: int, sizes: Mapping[int, int]) -> dict[int, int]:
    """Return how many tasks of each cluster a new task is compared with: about log(n)^2 in all.

    One of each cluster in turn, larger ones first, so that small clusters are heard as loudly as large ones.
    There are three of every cluster at the least, if it has three: the noise of one score is too large.

    >>> count_representatives(175, {0: 80, 1: 90, 2: 5})
    {0: 11, 1: 11, 2: 5}
    >>> count_representatives(20, {0: 19, 1: 1})
    {0: 8, 1: 1}
    """
    wanted = max(math.ceil(math.log(max(n_tasks, 2)) ** 2), LEAST_A_CLUSTER * len(sizes))
    counts = dict.fromkeys(sizes, 0)
    ordered = sorted(sizes, key=lambda cluster: (-sizes[cluster], cluster))
    left = min(wanted, sum(sizes.values()))
    while left:
        for cluster in ordered:
            if left and counts[cluster] < sizes[cluster]:
                counts[cluster] += 1
                left -= 1
    return counts


def typical_first(likeness: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[int, list[int]]:
    """Return the tasks of each cluster, those that are most like the others of their cluster first.

    `likeness` says how much each two tasks are alike, shape (tasks, tasks), NaN where that is not known.

    >>> X = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.8], [0.2, 0.8, 1.0]])
    >>> typical_first(X, np.zeros(3, dtype=np.int64))
    {0: [1, 0, 2]}
    """
    found: dict[int, list[int]] = {}
    for cluster in np.unique(labels[labels >= 0]).tolist():
        members = np.flatnonzero(labels == cluster)
        block = likeness[np.ix_(members, members)].copy()
        np.fill_diagonal(block, np.nan)
        known = np.isfinite(block)
        mean = np.where(known, block, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        # Rounded, so that the order of a sum cannot decide between equals; then their places do.
        order = np.lexsort((members, -mean.round(9)))
        found[cluster] = members[order].tolist()
    return found


def choose_representatives(
    names: tuple[str, ...], likeness: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[str, ...]:
    """Return the tasks that new ones are compared with, in the order of their names.

    >>> choose_representatives(("a", "b", "c"), np.eye(3), np.array([0, 0, 1]))
    ('a', 'b', 'c')
    """
    ordered = typical_first(likeness, labels)
    counts = count_representatives(len(names), {cluster: len(own) for cluster, own in ordered.items()})
    return tuple(sorted(names[task] for cluster, own in ordered.items() for task in own[: counts[cluster]]))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a task belongs."""

    cluster: int  # -1 for none
    confidence: float  # how probable the cluster is; of a task that no cluster fits, that none does
    probabilities: dict[int, float]  # of every cluster, by its number

    @property
    def out_of_cluster(self) -> bool:
        """Whether no cluster fits."""
        return self.cluster < 0


class ClusterAssigner:
    """Places new tasks in the clusters of a run.

    Parameters
    ----------
    scores
        The scores of the run's own tasks.
    labels
        The cluster of each of them, in their order; -1 for none. There is at least one cluster.
    representatives
        The tasks that new ones are compared with, among them.

    Attributes
    ----------
    share_found
        The share of the run's own tasks that come back to their cluster when they are placed as if they were
        new; None where no task has been measured with representatives enough.

    Examples
    --------
    >>> from robusttc.clustering import make_planted_scores
    >>> names = [f"task {number}" for number in range(24)]
    >>> labels = np.arange(24) % 3
    >>> scores = make_planted_scores(names, labels, random_state=0)
    >>> known = names[:21]
    >>> placer = ClusterAssigner(scores.subset(known), labels[:21], known[:9])
    >>> [placer.place(scores, name).cluster for name in names[21:]]
    [0, 1, 2]
    """

    def __init__(
        self, scores: TransferScores, labels: Numbers, representatives: list[str] | tuple[str, ...]
    ) -> None:
        self.names = scores.task_names
        self.labels = np.asarray(labels, dtype=np.int64)
        self._place_of = {name: place for place, name in enumerate(self.names)}
        self.representatives = np.array([self._place_of[name] for name in representatives], dtype=np.int64)
        self.clusters = np.unique(self.labels[self.labels >= 0])
        self._number_of = {int(cluster): number for number, cluster in enumerate(self.clusters)}
        self._sizes = np.array([np.count_nonzero(self.labels == cluster) for cluster in self.clusters])
        self._learn_columns(scores)
        self._learn_blocks(scores)
        self._learn_noise()
        self._learn_trust()

    def _learn_columns(self, scores: TransferScores) -> None:
        """Estimate how each target is standardised, and what each source gives to all."""
        entries = np.flatnonzero(scores.off_diagonal)
        source, target = scores.source[entries], scores.target[entries]
        columns = standardise_columns(target, scores.score[entries], n_tasks=scores.n_tasks)
        used = columns.has_spread[target]
        self.row_means = row_means(source[used], columns.standardised[used], scores.n_tasks)
        self.mean, self.deviation = columns.mean, np.where(columns.has_spread, columns.deviation, np.nan)
        self._matrix = np.full((scores.n_tasks, scores.n_tasks), np.nan)
        self._matrix[source, target] = scores.score[entries]

    def _learn_blocks(self, scores: TransferScores) -> None:
        """Estimate the mean value within each cluster and between each two."""
        first, second, value = pair_values(scores)
        k = len(self.clusters)
        number = np.full(len(self.labels), -1)
        for cluster, own in self._number_of.items():
            number[self.labels == cluster] = own
        self._number = number
        kept = (number[first] >= 0) & (number[second] >= 0)
        first, second, value = number[first[kept]], number[second[kept]], value[kept]
        total, count = np.zeros((k, k)), np.zeros((k, k))
        for one, other in ((first, second), (second, first)):
            np.add.at(total, (one, other), value)
            np.add.at(count, (one, other), 1.0)
        same = np.eye(k, dtype=np.bool_)
        inside = total[same].sum() / max(count[same].sum(), 1.0)
        outside = total[~same].sum() / max(count[~same].sum(), 1.0)
        # Halfway between alike and not.
        self.halfway = (inside + outside) / 2
        prior = np.where(same, inside, outside)
        self.blocks = (total + PRIOR_PAIRS * prior) / (count + PRIOR_PAIRS)
        off = np.where(same, 0.0, 1.0)
        self.outsiders = ((total * off).sum(axis=0) + PRIOR_PAIRS * outside) / (
            (count * off).sum(axis=0) + PRIOR_PAIRS
        )

    def _values(self, to_task: Floats, from_task: Floats, chosen: Numbers) -> tuple[Floats, Numbers]:
        """Return the values of a task with some representatives, and which of these have one.

        `to_task` and `from_task` are its scores as a target of the representatives, and as their source, NaN
        for none; `chosen` are the places of the representatives in `self.representatives`.
        """
        known = np.isfinite(to_task) | np.isfinite(from_task)
        chosen, to_task, from_task = chosen[known], to_task[known], from_task[known]
        representatives = self.representatives[chosen]
        groups = self._number[representatives]
        # A few of each cluster were measured: they stand for as many as the cluster has.
        weight = self._sizes[groups] / np.bincount(groups, minlength=len(self.clusters))[groups]
        forth = standardise(to_task, weight) - self.row_means[representatives]
        back = (from_task - self.mean[representatives]) / self.deviation[representatives]
        back = back - weighted_mean(back, weight)
        both = np.stack([forth, back])
        there = np.isfinite(both)
        value = np.where(there, both, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        usable = there.any(axis=0)
        return value[usable], chosen[usable]

    def _own_values(self, task: int, *, with_cluster: bool = True) -> tuple[Floats, Numbers]:
        """Return the values of a task of the run as if it were new, with its cluster there or without."""
        is_used = self.representatives != task
        if not with_cluster:
            is_used &= self._number[self.representatives] != self._number[task]
        chosen = np.flatnonzero(is_used)
        others = self.representatives[chosen]
        return self._values(self._matrix[others, task], self._matrix[task, others], chosen)

    def _learn_noise(self) -> None:
        """Estimate how far the values with each representative scatter: some tell more than others."""
        squares, count = np.zeros(len(self.representatives)), np.zeros(len(self.representatives))
        for task in np.flatnonzero(self._number >= 0):
            value, chosen = self._own_values(int(task))
            expected = self.blocks[self._number[task], self._number[self.representatives[chosen]]]
            squares[chosen] += (value - expected) ** 2
            count[chosen] += 1
        common = squares.sum() / max(count.sum(), 1.0) if squares.any() else 1.0
        self.noise = np.maximum((squares + PRIOR_TASKS * common) / (count + PRIOR_TASKS), 1e-6)

    def _evidence(self, value: Floats, chosen: Numbers) -> tuple[Floats, float]:
        """Return the log-likelihood of values under every cluster, and under none."""
        groups, noise = self._number[self.representatives[chosen]], self.noise[chosen]
        of_clusters = -((value - self.blocks[:, groups]) ** 2 / (2 * noise)).sum(axis=1)
        of_none = -((value - self.outsiders[groups]) ** 2 / (2 * noise)).sum()
        return of_clusters, float(of_none)

    def _learn_trust(self) -> None:
        """Place every task of the run as if it were new, with its cluster and without."""
        tables, codes, leads, is_outside = [], [], [], []
        for task in np.flatnonzero(self._number >= 0).tolist():
            own = int(self._number[task])
            value, chosen = self._own_values(task)
            # A cluster of one has nobody left to be recognised by.
            if len(value) >= 2 and (self._number[self.representatives[chosen]] == own).any():
                evidence, of_none = self._evidence(value, chosen)
                tables.append(normalise(evidence)[None])
                codes.append(np.array([own]))
                leads.append(evidence.max() - of_none)
                is_outside.append(False)
            value, chosen = self._own_values(task, with_cluster=False)
            if len(value) >= 2:
                evidence, of_none = self._evidence(value, chosen)
                leads.append(np.delete(evidence, own).max() - of_none)
                is_outside.append(True)
        self.share_found: float | None = None
        self.temperature = 1.0
        if tables:
            self.share_found = float(
                np.mean([table.argmax() == code[0] for table, code in zip(tables, codes, strict=True)])
            )
            self.temperature = max(fit_temperature(tables, codes), 1.0)
        self.slope, self.intercept = 0.0, np.inf
        outside = np.array(is_outside, dtype=np.bool_)
        if outside.any() and not outside.all():
            weight = np.where(outside, PRIOR_OUTSIDE / outside.sum(), (1 - PRIOR_OUTSIDE) / (~outside).sum())
            self.slope, self.intercept = fit_logistic(np.array(leads), ~outside, weight)

    def place(self, scores: TransferScores, name: str) -> Placement:
        """Place one task by its scores with representatives; those with other tasks are not looked at."""
        to_task, from_task = self._scores_of(scores, name)
        value, chosen = self._values(to_task, from_task, np.arange(len(self.representatives)))
        return self._decide(value, chosen)

    def _scores_of(self, scores: TransferScores, name: str) -> tuple[Floats, Floats]:
        """Return the scores of a task as target and as source of all representatives; NaN for none."""
        place_of = {other: place for place, other in enumerate(scores.task_names)}
        new = place_of.get(name, -1)
        there = np.full(len(scores.task_names), -1)
        for number, representative in enumerate(self.representatives):
            if self.names[representative] in place_of:
                there[place_of[self.names[representative]]] = number
        to_task, from_task = (
            np.full(len(self.representatives), np.nan),
            np.full(len(self.representatives), np.nan),
        )
        as_target = (scores.target == new) & (there[scores.source] >= 0)
        to_task[there[scores.source[as_target]]] = scores.score[as_target]
        as_source = (scores.source == new) & (there[scores.target] >= 0)
        from_task[there[scores.target[as_source]]] = scores.score[as_source]
        return to_task, from_task

    def find_groups(self, scores: TransferScores, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the groups of new tasks that are like each other, by the scores between them.

        Two are alike if the value of their pair is nearer to what tasks of one cluster have than to what
        tasks of two have. A group is what hangs together by that.
        """
        weight = self._sizes[self._number[self.representatives]].astype(np.float64)
        weight /= np.bincount(self._number[self.representatives])[self._number[self.representatives]]
        facts: dict[str, tuple[float, float, float]] = {}
        for name in names:
            to_task, from_task = self._scores_of(scores, name)
            mean = weighted_mean(to_task, weight)
            deviation = float(np.sqrt(weighted_mean((to_task - mean) ** 2, weight)))
            back = (from_task - self.mean[self.representatives]) / self.deviation[self.representatives]
            facts[name] = (mean, deviation, weighted_mean(back, weight))
        place_of = {name: place for place, name in enumerate(names)}
        total, count = np.zeros((len(names),) * 2), np.zeros((len(names),) * 2)
        for source, target, score in zip(scores.source, scores.target, scores.score, strict=True):
            one, other = scores.task_names[source], scores.task_names[target]
            if one != other and one in place_of and other in place_of and facts[other][1] > 0:
                value = (score - facts[other][0]) / facts[other][1] - facts[one][2]
                for ends in ((one, other), (other, one)):
                    total[place_of[ends[0]], place_of[ends[1]]] += value
                    count[place_of[ends[0]], place_of[ends[1]]] += 1
        alike = (count > 0) & (total / np.maximum(count, 1) > self.halfway)
        n_groups, group = connected_components(sparse.csr_array(alike), directed=False)
        found = [tuple(np.array(names)[group == number].tolist()) for number in range(n_groups)]
        return [one for one in found if len(one) > 1]

    def _decide(self, value: Floats, chosen: Numbers) -> Placement:
        """Return the cluster that the values speak for, or none."""
        if not len(value):
            return Placement(-1, 0.0, {})
        evidence, of_none = self._evidence(value, chosen)
        # Where no task could be tried without its cluster, nothing says that one fits none.
        fits = 1.0
        if np.isfinite(self.intercept):
            fits = float(expit(np.array([self.slope * (evidence.max() - of_none) + self.intercept]))[0])
        shares = fits * apply_temperature(normalise(evidence)[None], self.temperature)[0]
        probabilities = {
            int(cluster): float(share) for cluster, share in zip(self.clusters, shares, strict=True)
        }
        if fits < 0.5:
            return Placement(-1, 1.0 - fits, probabilities)
        best = int(shares.argmax())
        return Placement(int(self.clusters[best]), float(shares[best]), probabilities)


def normalise(evidence: Floats) -> Floats:
    """Turn log-likelihoods into shares that sum to 1."""
    shares = np.exp(evidence - evidence.max())
    return np.asarray(shares / shares.sum())


def weighted_mean(values: Floats, weight: Floats) -> float:
    """Return the mean of those values that are known; 0 of none."""
    known = np.isfinite(values)
    return float((values[known] * weight[known]).sum() / weight[known].sum()) if known.any() else 0.0


def standardise(values: Floats, weight: Floats) -> Floats:
    """Return values in standard deviations from their mean; NaN where unknown, or all alike."""
    mean = weighted_mean(values, weight)
    deviation = np.sqrt(weighted_mean((values - mean) ** 2, weight))
    if deviation <= 1e-12 * max(1.0, abs(mean)):
        return np.full(len(values), np.nan)
    return np.asarray((values - mean) / deviation)

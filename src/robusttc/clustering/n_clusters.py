"""The number of clusters: the smallest whose blocks predict held-out pairs nearly as well as any number's.

In every fold the tasks are cut into K clusters by the training pairs, and the held-out scores, less row and
column effects, are predicted by the mean of their block: a cluster with itself, or a pair of clusters. More
blocks predict ever better, since similarity is a continuum with groups in it; so the number is the smallest
with most of the gain that any number has over one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from scipy.stats import norm

from robusttc.clustering.completion import Fold
from robusttc.clustering.problem import Floats, Labels, Numbers, number_pairs
from robusttc.clustering.spectral import build_tree, cut
from robusttc.clustering.standardise import standardise
from robusttc.transfer import TransferScores, row_means

__all__ = [
    "PairEvidence",
    "TwoGroups",
    "candidates",
    "choose_n_clusters",
    "find_confidence",
    "fit_two_groups",
    "maximise_likelihood",
    "pair_means",
    "pair_values",
]

SHARE_OF_GAIN = 0.85  # of the best number of clusters, that a smaller one has to reach
CLEAR = 2.0  # standard errors by which the best number has to be better than one cluster
MAX_OVERLAP = 0.05  # share of the pairs whose value is nearer to the mean of the other group
N_STARTS = 20
MAX_STEPS = 60
MAX_TASKS = 2_000  # with more tasks, each has so many pairs that the tree needs no correction


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


@dataclass(frozen=True)
class TwoGroups:
    """Normal distributions of the values of pairs within a cluster and between clusters."""

    within_mean: float
    between_mean: float
    deviation: float
    share_within: float

    def log_likelihood_ratio(self, values: Floats) -> Floats:
        """Return the log-likelihood of values within a cluster less that between clusters."""
        within = norm.logpdf(values, self.within_mean, self.deviation)
        return np.asarray(within - norm.logpdf(values, self.between_mean, self.deviation))

    def posterior(self, values: Floats) -> Floats:
        """Return the probability that pairs of these values belong to one cluster."""
        return np.asarray(expit(self.log_likelihood_ratio(values) + logit(self.share_within)))

    @property
    def overlap(self) -> float:
        """The share of the pairs whose value is nearer to the mean of the other group."""
        return float(norm.cdf((self.between_mean - self.within_mean) / (2 * self.deviation)))


def fit_two_groups(values: Floats, same: NDArray[np.bool_]) -> TwoGroups:
    """Fit the two distributions with a common standard deviation; a group without pairs takes that of all."""
    overall = float(values.mean()) if len(values) else 0.0
    means = [float(values[chosen].mean()) if chosen.any() else overall for chosen in (same, ~same)]
    left = values - np.where(same, means[0], means[1])
    deviation = max(float(np.sqrt(np.mean(left**2))) if len(left) else 1.0, 1e-3)
    share = float(np.clip(same.mean() if len(same) else 0.5, 1e-3, 1 - 1e-3))
    return TwoGroups(means[0], means[1], deviation, share)


def maximise_likelihood(
    labels: Labels, first: Labels, second: Labels, values: Floats, seed: int
) -> tuple[Labels, TwoGroups]:
    """Return the clusters under which the values of the pairs are likeliest, if these tell groups apart.

    Where few pairs are measured, a task may have hardly a partner of its own group, and the directions of X
    say little about it. If the values within and between clusters hardly overlap, each pair by itself says
    whether two tasks belong together, also those between clusters: tasks then move to the cluster that their
    pairs support, from several starts near `labels`. Otherwise `labels` are returned as they are.
    """
    kept = (labels[first] >= 0) & (labels[second] >= 0)
    pairs = first[kept], second[kept], values[kept]
    tasks, k = np.flatnonzero(labels >= 0), int(labels.max(initial=0)) + 1
    best, least = labels, np.inf
    generator = np.random.default_rng(seed)
    for start in range(N_STARTS if 1 < k < len(tasks) <= MAX_TASKS else 0):
        drawn = labels.copy()
        moved = tasks[generator.random(len(tasks)) < (generator.uniform(0.1, 0.7) if start else 0.0)]
        drawn[moved] = generator.integers(0, k, len(moved))
        own, groups = move_tasks(drawn, k, *pairs, generator)
        if groups.deviation < least * (1 - 1e-9):
            best, least, overlap = own, groups.deviation, groups.overlap
    if best is not labels and overlap >= MAX_OVERLAP:
        best = labels
    return best, fit_two_groups(values, (best[first] == best[second]) & kept)


def move_tasks(
    labels: Labels, k: int, first: Labels, second: Labels, values: Floats, generator: np.random.Generator
) -> tuple[Labels, TwoGroups]:
    """Move tasks to the cluster that their pairs support until none would move."""
    every = np.arange(len(labels))
    for _ in range(MAX_STEPS):
        groups = fit_two_groups(values, labels[first] == labels[second])
        evidence = values - (groups.within_mean + groups.between_mean) / 2
        support = sum_by_cluster(labels, k, first, second, evidence)
        target = support.argmax(axis=1)
        would_move = (labels >= 0) & (support[every, target] > support[every, labels] + 1e-9)
        if not would_move.any():
            break
        # Half of them at a time, so that two tasks do not change places for ever.
        labels = np.where(would_move & (generator.random(len(labels)) < 0.5), target, labels)
    return labels, fit_two_groups(values, labels[first] == labels[second])


def find_confidence(
    labels: Labels, first: Labels, second: Labels, value: Floats, groups: TwoGroups
) -> Floats:
    """Return the posterior of each task's cluster given the values of its pairs with the others."""
    gain = groups.log_likelihood_ratio(value)
    posterior = softmax(sum_by_cluster(labels, int(labels.max(initial=0)) + 1, first, second, gain), axis=1)
    return np.where(labels >= 0, posterior[np.arange(len(labels)), np.maximum(labels, 0)], 0.0)


def sum_by_cluster(labels: Labels, k: int, first: Labels, second: Labels, values: Floats) -> Floats:
    """Return for each task the sums of the values of its pairs with the tasks of each of k clusters."""
    own, other = np.concatenate([first, second]), labels[np.concatenate([second, first])]
    known = other >= 0
    values = np.concatenate([values, values])[known]
    sums = np.bincount(own[known] * k + other[known], values, len(labels) * k)
    return np.asarray(sums.reshape(len(labels), k), dtype=np.float64)


def pair_means(rows: Numbers, columns: Numbers, values: Floats, n: int) -> tuple[Labels, Labels, Floats]:
    """Return unordered pairs (first < second) and the mean over their measured directions."""
    pairs, pair = number_pairs(rows, columns, n)
    return pairs // n, pairs % n, row_means(pair, values, len(pairs))


def pair_values(scores: TransferScores) -> tuple[Labels, Labels, Floats]:
    """Return the measured pairs and their standardised scores less the row means, mean of both directions."""
    data = standardise(scores, method="standard")
    means = row_means(data.rows.astype(np.int64), data.values, data.n)
    return pair_means(data.rows, data.columns, data.values - means[data.rows], data.n)


def candidates(n: int) -> tuple[int, ...]:
    """Return the numbers of clusters to try: those of four tasks or more on average, and not too many."""
    most = min(n - 1, max(n // 4, 3), int(2.5 * np.sqrt(n)), 60)
    tried = [1, *range(2, min(most, 12) + 1)]
    while tried[-1] < most:
        tried.append(min(most, int(np.ceil(1.2 * tried[-1]))))
    return tuple(tried)


def choose_n_clusters(folds: list[Fold], n: int, seed: int) -> tuple[int, dict[int, float]]:
    """Choose the number of clusters by held-out pairs; see the module's docstring.

    Returned are the number, and for each that was tried the mean gain in log-likelihood of a held-out pair
    over one cluster.
    """
    tried = candidates(n)
    predicted, values = [], []
    for fold in folds:
        a, b, data = fold.factors.a, fold.factors.b, fold.data
        left = data.values - a[data.rows] - b[data.columns]
        train = pair_means(data.rows, data.columns, left, n)
        left = fold.held_values - a[fold.held_rows] - b[fold.held_columns]
        first, second, held = pair_means(fold.held_rows, fold.held_columns, left, n)
        # A tree depends on the number of clusters by the directions that it uses alone.
        n_used = [min(number, fold.directions.shape[1]) for number in tried]
        trees = {used: build_tree(fold.directions, used, seed) for used in set(n_used)}
        labels = [cut(trees[used], number) for used, number in zip(n_used, tried, strict=True)]
        predicted.append(np.array([predict_by_blocks(own, *train, first, second) for own in labels]))
        values.append(held)
    fits = [fit_line(own, np.concatenate(values)) for own in np.concatenate(predicted, axis=1)]
    gain = np.array(fits) - fits[0]
    means = gain.mean(axis=1)
    best = int(np.argmax(means))
    error = float(gain[best].std()) / np.sqrt(max(gain.shape[1], 1))
    is_clear = means[best] > CLEAR * error
    chosen = int(np.argmax(means >= SHARE_OF_GAIN * means[best])) if is_clear else 0
    return tried[chosen], dict(zip(tried, means.tolist(), strict=True))


def predict_by_blocks(
    labels: Labels, first: Labels, second: Labels, values: Floats, held_first: Labels, held_second: Labels
) -> Floats:
    """Predict the values of held-out pairs by block means, shrunk to those within and between clusters."""
    k = int(labels.max(initial=0)) + 1

    def block_of(one: Labels, other: Labels) -> Labels:
        low, high = np.minimum(labels[one], labels[other]), np.maximum(labels[one], labels[other])
        return np.asarray(low * k + high)

    block = block_of(first, second)
    groups = fit_two_groups(values, block % (k + 1) == 0)  # blocks on the diagonal
    means = np.where(np.arange(k * k) % (k + 1) == 0, groups.within_mean, groups.between_mean)
    left = values - means[block]
    count = np.bincount(block, minlength=k * k)
    total = np.bincount(block, weights=left, minlength=k * k)
    # What block means differ by beyond noise, as in a one-way analysis of variance.
    noise = float(np.mean(left**2)) if len(left) else 1.0
    used = count > 0
    real = float(np.sum(total[used] ** 2 / count[used])) - noise * np.count_nonzero(used)
    means = means + total / (count + noise / max(real / max(len(values), 1), 1e-6))
    return np.asarray(means[block_of(held_first, held_second)])


def fit_line(predicted: Floats, values: Floats) -> Floats:
    """Return the log-likelihood of each value around the line on its prediction, with a slope of 0 or more.

    Fitted to the held-out values themselves: predictions by clusters of few pairs are too sure of themselves.
    """
    x, y = predicted - predicted.mean(), values - values.mean()
    slope = max(float(x @ y) / max(float(x @ x), 1e-12), 0.0)
    left = y - slope * x
    return np.asarray(norm.logpdf(left, 0.0, max(float(np.sqrt(np.mean(left**2))), 1e-3)))

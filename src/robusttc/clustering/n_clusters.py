"""The number of clusters: the smallest whose groups predict held-out pairs as well as any.

In every fold the tree of the training pairs is cut into K clusters. The held-out scores, less row and column
effects, are then predicted by "same cluster or not" alone: two normal distributions, fitted on the training
pairs. More blocks with a mean of their own would predict ever better, since similarity is a continuum with
groups in it; two distributions reward groups that really are apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from robusttc.clustering.completion import Fold
from robusttc.clustering.problem import Floats, Labels
from robusttc.clustering.spectral import build_tree, cut
from robusttc.clustering.standardise import standardise
from robusttc.scores import TransferScores

__all__ = [
    "NumberOfClusters",
    "TwoGroups",
    "candidates",
    "choose_n_clusters",
    "fit_two_groups",
    "pair_means",
    "pair_values",
]

TOLERATED = 0.5  # standard errors that a smaller number of clusters may lose


@dataclass(frozen=True, eq=False)
class NumberOfClusters:
    """What was tried and chosen.

    Attributes
    ----------
    chosen
        The number of clusters.
    tried, gain
        The numbers that were tried, and the mean gain in log-likelihood of a held-out pair over one cluster.
    """

    chosen: int
    tried: tuple[int, ...]
    gain: Floats


@dataclass(frozen=True)
class TwoGroups:
    """Normal distributions of the values of pairs within a cluster and between clusters."""

    within_mean: float
    within_deviation: float
    between_mean: float
    between_deviation: float
    share_within: float

    def log_likelihood(self, values: Floats, same: NDArray[np.bool_]) -> Floats:
        """Return the log-likelihood of values of pairs that are in one cluster, or are not."""
        mean = np.where(same, self.within_mean, self.between_mean)
        deviation = np.where(same, self.within_deviation, self.between_deviation)
        return np.asarray(norm.logpdf(values, mean, deviation))

    def posterior(self, values: Floats) -> Floats:
        """Return the probability that pairs of these values belong to one cluster."""
        within = norm.logpdf(values, self.within_mean, self.within_deviation) + np.log(self.share_within)
        between = norm.logpdf(values, self.between_mean, self.between_deviation) + np.log1p(
            -self.share_within
        )
        return np.asarray(expit(within - between))


def fit_two_groups(values: Floats, same: NDArray[np.bool_]) -> TwoGroups:
    """Fit the two distributions with a common standard deviation; a group without pairs takes that of all."""
    overall = float(values.mean()) if len(values) else 0.0
    means = [float(values[chosen].mean()) if chosen.any() else overall for chosen in (same, ~same)]
    left = values - np.where(same, means[0], means[1])
    deviation = max(float(np.sqrt(np.mean(left**2))) if len(left) else 1.0, 1e-3)
    share = float(np.clip(same.mean() if len(same) else 0.5, 1e-3, 1 - 1e-3))
    return TwoGroups(means[0], deviation, means[1], deviation, share)


def pair_means(rows: Labels, columns: Labels, values: Floats, n: int) -> tuple[Labels, Labels, Floats]:
    """Return unordered pairs (first < second) and the mean over their measured directions."""
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    pairs, pair = np.unique(low.astype(np.int64) * n + high, return_inverse=True)
    means = np.bincount(pair, weights=values) / np.maximum(np.bincount(pair), 1)
    return pairs // n, pairs % n, means


def pair_values(scores: TransferScores) -> tuple[Labels, Labels, Floats]:
    """Return the measured pairs and their standardised scores less the row means, mean of both directions."""
    data = standardise(scores, method="standard")
    counts = np.maximum(np.bincount(data.rows, minlength=data.n), 1)
    means = np.bincount(data.rows, weights=data.values, minlength=data.n) / counts
    return pair_means(data.rows, data.columns, data.values - means[data.rows], data.n)


def candidates(n: int) -> tuple[int, ...]:
    """Return the numbers of clusters to try."""
    most = min(n - 1, max(6, int(2.5 * np.sqrt(n))), 60)
    tried = [1, *range(2, min(most, 12) + 1)]
    while tried[-1] < most:
        tried.append(min(most, int(np.ceil(1.2 * tried[-1]))))
    return tuple(tried)


def choose_n_clusters(folds: list[Fold], n: int, seed: int) -> NumberOfClusters:
    """Choose the number of clusters by held-out pairs; see the module's docstring."""
    tried = candidates(n)
    gains: list[Floats] = []  # a fold: numbers tried x held-out pairs
    for fold in folds:
        if fold.factors is None or fold.points is None:
            raise AssertionError("the folds are fitted")
        tree = build_tree(fold.points, seed)
        labels = [cut(tree, number) for number in tried]
        a, b, data = fold.factors.a, fold.factors.b, fold.data
        first, second, train = pair_means(
            data.rows, data.columns, data.values - a[data.rows] - b[data.columns], n
        )
        held = fold.held_values - a[fold.held_rows] - b[fold.held_columns]
        held_first, held_second, held = pair_means(fold.held_rows, fold.held_columns, held, n)
        rows = []
        for own in labels:
            groups = fit_two_groups(train, own[first] == own[second])
            rows.append(groups.log_likelihood(held, own[held_first] == own[held_second]))
        gains.append(np.array(rows) - rows[0])

    gain = np.concatenate(gains, axis=1)
    means = gain.mean(axis=1)
    lost = gain[int(np.argmax(means))] - gain
    error = lost.std(axis=1) / np.sqrt(max(gain.shape[1], 1))
    chosen = int(np.argmax(lost.mean(axis=1) <= TOLERATED * error + 1e-12))
    return NumberOfClusters(tried[chosen], tried, means)

"""Plain ways to cluster tasks by their scores, which the robust one has to beat.

All have the interface of `RobustTaskClustering`: ``fit(scores)``, then `labels_` and `n_clusters_`. The
number of clusters must be given, and every task gets one of them. Like there, tasks are taken in the order
of their names, and clusters are numbered by decreasing size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from threadpoolctl import threadpool_limits

from robusttc.clustering.filtering import filter_scores
from robusttc.clustering.old.completion.problem import Floats, make_problem
from robusttc.clustering.old.components import restrict_problem
from robusttc.clustering.old.estimator import check_n_clusters, check_scores
from robusttc.clustering.old.grouping import number_clusters
from robusttc.clustering.old.spectral import cluster_factors, cluster_points
from robusttc.clustering.old.start import Labels, leading_eigenvectors
from robusttc.scores import TransferScores, standardise_columns
from robusttc.seeds import RandomState, run_seed

__all__ = ["KMeansOnRows", "SpectralOnObserved", "SpectralOnScores"]


class ScoreClustering(ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What the baselines have in common: see the module."""

    labels_: Labels
    n_clusters_: int
    task_names_: tuple[str, ...]

    def __init__(self, n_clusters: int, *, random_state: RandomState = 0) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state

    def fit(self, scores: TransferScores, y: None = None) -> Self:
        """Cluster the tasks of these scores.

        Raises
        ------
        UsageError
            If a parameter cannot be used.
        """
        del y
        check_scores(scores)
        n_clusters = check_n_clusters(self.n_clusters, scores.n_tasks)
        seed = run_seed(self.random_state)
        order = np.array(sorted(range(scores.n_tasks), key=scores.task_names.__getitem__), dtype=np.intp)
        labels: Labels = np.empty(scores.n_tasks, dtype=np.intp)
        with threadpool_limits(limits=1):
            labels[order] = self._cluster(scores, order, n_clusters, seed)
        self.labels_ = number_clusters(labels, order)[labels]
        self.n_clusters_ = n_clusters
        self.task_names_ = scores.task_names
        return self

    def fit_predict(self, scores: TransferScores, y: None = None) -> Labels:
        """Cluster the tasks, and give their labels; see `fit`."""
        del y
        return self.fit(scores).labels_

    @abstractmethod
    def _cluster(self, scores: TransferScores, order: NDArray[np.intp], n_clusters: int, seed: int) -> Labels:
        """Give labels from 0 up, each used, of the tasks in this order."""


class SpectralOnScores(ScoreClustering):
    """Spectral clustering on the raw scores: what one would do without a filter and without completion.

    The affinity is (S + S^T) / 2, with a score that is missing replaced by the mean of its column (target),
    or by the mean of all scores where the column has none; the diagonal is that of the highest score. The
    lowest affinity is moved to 0. It is made from n x n matrices: for moderate n.

    Parameters
    ----------
    n_clusters
        The number of clusters.
    random_state
        The seed.
    """

    def _cluster(self, scores: TransferScores, order: NDArray[np.intp], n_clusters: int, seed: int) -> Labels:
        S = scores.to_matrix()[np.ix_(order, order)]
        np.fill_diagonal(S, np.nan)
        missing = np.isnan(S)
        count = (~missing).sum(axis=0)
        if not count.any():
            return cluster_points(np.ones((len(S), 1)), n_clusters, seed)
        # From 0 to 1, so that sums of large scores stay numbers.
        low, high = float(np.nanmin(S)), float(np.nanmax(S))
        S = np.where(missing, 0.0, (S - low) / (high - low) if high > low else 1.0)
        overall = float(S.sum() / count.sum())
        mean = np.where(count > 0, S.sum(axis=0) / np.maximum(count, 1), overall)
        S = np.where(missing, mean, S)
        np.fill_diagonal(S, 1.0)
        values, vectors = np.linalg.eigh((S + S.T) / 2)
        # The affinity as it is: the mean is not added once more.
        return cluster_factors(vectors, values, n_clusters, tau=0.0, seed=seed)


class SpectralOnObserved(ScoreClustering):
    """Spectral clustering on what the filter leaves: the centred observed entries, without completion.

    It is how completion starts, without the last step that moves single tasks. Tasks without any observed
    pair get a cluster as well, without meaning.

    Parameters
    ----------
    n_clusters
        The number of clusters.
    rule, p_high, p_low, remove_donor_effect
        The filter: see `robusttc.clustering.filtering.filter_scores`.
    random_state
        The seed.
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        rule: str = "both",
        p_high: float = 0.5,
        p_low: float = 0.5,
        remove_donor_effect: bool = False,
        random_state: RandomState = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.rule = rule
        self.p_high = p_high
        self.p_low = p_low
        self.remove_donor_effect = remove_donor_effect
        self.random_state = random_state

    def _cluster(self, scores: TransferScores, order: NDArray[np.intp], n_clusters: int, seed: int) -> Labels:
        filtered = filter_scores(
            scores,
            p_high=self.p_high,
            p_low=self.p_low,
            rule=self.rule,
            remove_donor_effect=self.remove_donor_effect,
        )
        problem = restrict_problem(make_problem(filtered.Y, filtered.observed), order)
        values, vectors, _ = leading_eigenvectors(problem, ~problem.on_diagonal, n_clusters, seed)
        width = min(n_clusters, max(int(np.count_nonzero(values > 0)), 1), vectors.shape[1])
        return cluster_points(vectors[:, :width] * values[:width], n_clusters, seed)


class KMeansOnRows(ScoreClustering):
    """k-means on the rows of S: tasks are alike if they serve the same targets well.

    Columns (targets) are standardised over their measured scores; a missing score is 0, the mean, and so
    are the diagonal and columns without spread. The rows are n x n: for moderate n.

    Parameters
    ----------
    n_clusters
        The number of clusters.
    random_state
        The seed.
    """

    def _cluster(self, scores: TransferScores, order: NDArray[np.intp], n_clusters: int, seed: int) -> Labels:
        entries = np.flatnonzero(scores.off_diagonal)
        source, target = scores.source[entries], scores.target[entries]
        columns = standardise_columns(target, scores.score[entries], n_tasks=scores.n_tasks)
        rows: Floats = np.zeros((scores.n_tasks, scores.n_tasks))
        rows[source, target] = columns.standardised
        return cluster_points(rows[np.ix_(order, order)], n_clusters, seed)

"""The ways of clustering that are compared, and how a clustering is judged.

A clustering is judged by three things. *Agreement* with what is said of the tasks, where anything is:
adjusted Rand index (ARI), normalised mutual information (NMI, which many small clusters inflate) and that
adjusted for chance (AMI), a task without a cluster being one of its own. *Halves*: the ARI between the
clusterings by two halves of the evaluation rows. *Contrast*: how much better the mates in its cluster serve
a task than the other tasks do, by the half of the evaluation rows that the clustering has not seen: the
scores, standardised by target and less the mean of each source, of mates less those of others, mean over
both halves, in standard deviations. A task without mates has a contrast of 0. The sources' encoders are the
same in both halves, and the classifiers behind leave-one-out scores see rows of both: so contrasts compare
clusterings of one set, and are too high as they stand. The means of sources are removed before contrasts are
measured, which favours methods that remove them over raw S: what completion itself adds is the difference to
spectral clustering of standardised S, which removes them too.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits

from benchmarks.paper.clustering_sets import ClusteringSet
from robusttc import DoubtWarning, RobustTaskClustering, TransferScores
from robusttc.clustering import cluster_points
from robusttc.models import random_clusters_like
from robusttc.transfer import row_means, standardise_columns

__all__ = ["DEFAULT", "METHODS", "Ablation", "Clustered", "Comparison", "agreement", "contrast_by_task"]

DEFAULT = "log_likelihood"
METHODS = {
    "robust": "robust completion",
    "paper": "the paper's Algorithm 1",
    "standardised": "spectral on S, standardised",
    "raw": "spectral on raw S",
    "rows": "k-means on rows of S",
    "texts": "text centroids",
    "random": "random, same sizes",
}
Labels = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One way to cluster; the defaults are those of the library.

    Attributes
    ----------
    way, group
        What it is called, and the group of rows it stands in.
    method
        ``robust`` (the default strategy), ``paper`` (``strategy="paper"``), ``raw`` (spectral on raw S),
        ``standardised`` (the same on S standardised by target, less the mean of each source), ``rows``
        (k-means on rows of S), ``texts`` (k-means of the mean vectors of texts), ``random`` (of the sizes of
        ``robust``), ``truth``.
    kind, percent
        The scores; `percent` None is the set's own.
    rule
        The rule of Eq. 1, for ``paper``.
    n_clusters
        How many; None is found by ``robust``, and the others take what that found on the same scores.
    """

    way: str
    group: str
    method: str = "robust"
    kind: str = DEFAULT
    percent: float | None = None
    rule: str = "both"
    n_clusters: int | None = None

    def settings(self) -> dict[str, Any]:
        """Give all that the way is given."""
        return {name: value for name, value in asdict(self).items() if name not in ("way", "group")}


@dataclass(frozen=True, eq=False)
class Clustered:
    """The clusters of all tasks, -1 for none, and what the clustering says of itself."""

    labels: Labels
    said: dict[str, Any]

    @property
    def n_clusters(self) -> int:
        """The number of clusters in use."""
        return len(np.unique(self.labels[self.labels >= 0]))


class Comparison:
    """All clusterings of one set; what was computed is kept."""

    def __init__(self, data: ClusteringSet) -> None:
        self.data = data
        self.found: dict[tuple[Ablation, int, int | None, int | None], Clustered] = {}
        self.contrasts: dict[tuple[Ablation, int], tuple[Floats, float]] = {}

    def scores(self, one: Ablation, seed: int) -> TransferScores:
        """Give the scores that an ablation clusters by."""
        percent = self.data.base_percent if one.percent is None else one.percent
        return self.data.scores(one.kind, percent, seed)

    def cluster(self, one: Ablation, seed: int) -> Clustered:
        """Give the clusters of all scores."""
        return self._find(one, seed, None, one.n_clusters)

    def halves(self, one: Ablation, seed: int) -> tuple[Floats, float] | None:
        """Give the contrast of each task, and the agreement of the clusters of two halves of the rows.

        None for kinds of score other than the default, whose halves are of other rows.
        """
        if one.kind != DEFAULT:
            return None
        key = (replace(one, way="", group=""), seed)
        if key not in self.contrasts:
            n_clusters = max(self.cluster(one, seed).n_clusters, 1)
            labels = [self._find(one, seed, half, n_clusters).labels for half in (0, 1)]
            whole = self.scores(one, seed)
            if self.data.has_all(DEFAULT):  # judged by all pairs, also where few were clustered by
                whole = self.data.scores(DEFAULT, 100, 0)
            judged = [contrast_by_task(half_of(whole, 1 - half), labels[half]) for half in (0, 1)]
            agreed = float(adjusted_rand_score(*(as_singletons(own) for own in labels)))
            self.contrasts[key] = np.mean(judged, axis=0), agreed
        return self.contrasts[key]

    def _find(self, one: Ablation, seed: int, half: int | None, n_clusters: int | None) -> Clustered:
        key = (replace(one, way="", group=""), seed, half, n_clusters)
        if key not in self.found:
            self.found[key] = self._cluster(one, seed, half, n_clusters)
        return self.found[key]

    def _cluster(self, one: Ablation, seed: int, half: int | None, n_clusters: int | None) -> Clustered:
        if one.method == "truth":
            return Clustered(np.unique(self.data.truth or (), return_inverse=True)[1].astype(np.int64), {})
        if one.method == "random":
            robust = replace(one, method="robust")
            sizes = self.cluster(robust, seed).labels if half is None else self._halved(robust, seed, half)
            return Clustered(random_clusters_like(sizes, seed).astype(np.int64), {})
        if n_clusters is None and one.method != "robust":
            n_clusters = max(self.cluster(replace(one, method="robust"), seed).n_clusters, 1)
        if one.method == "texts":
            return Clustered(cluster_points(self.data.centroids, n_clusters or 1, seed).astype(np.int64), {})
        scores = self.scores(one, seed)
        return fit(one, scores if half is None else half_of(scores, half), n_clusters, seed)

    def _halved(self, one: Ablation, seed: int, half: int) -> Labels:
        n_clusters = max(self.cluster(one, seed).n_clusters, 1)
        return self._find(one, seed, half, n_clusters).labels


def fit(one: Ablation, scores: TransferScores, n_clusters: int | None, seed: int) -> Clustered:
    """Cluster by scores."""
    given = n_clusters or 1
    if one.method == "raw":
        return Clustered(cluster_affinity(scores, given, seed), {})
    if one.method == "standardised":
        return Clustered(cluster_affinity(standardise(scores), given, seed), {})
    if one.method == "rows":
        rows = standardise(scores, remove_row_means=False).to_matrix()
        np.fill_diagonal(rows, 0.0)
        return Clustered(cluster_points(np.nan_to_num(rows), given, seed), {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        strategy = "paper" if one.method == "paper" else "default"
        model = RobustTaskClustering(
            n_clusters or "auto", strategy=strategy, rule=one.rule, random_state=seed
        ).fit(scores)
    verdict, certificate = model.verdict_.as_dict(), model.certificate_.as_dict()
    said = {name: verdict[name] for name in ("supported", "p_value", "explained", "held_out")}
    return Clustered(model.labels_, {**said, "gap": certificate["gap"], "rank": certificate["rank"]})


def cluster_affinity(scores: TransferScores, n_clusters: int, seed: int) -> Labels:
    """Cluster spectrally by (S + S^T) / 2, the lowest score moved to 0; a missing score is its column's mean.

    The diagonal is the highest score.
    """
    S = scores.to_matrix().astype(np.float64)
    np.fill_diagonal(S, np.nan)
    n = len(S)
    if n_clusters in (1, n) or np.isnan(S).all():
        return np.arange(n) % n_clusters
    S = (S - np.nanmin(S)) / max(float(np.nanmax(S) - np.nanmin(S)), 1e-12)
    count = (~np.isnan(S)).sum(axis=0)
    mean = np.where(count > 0, np.nansum(S, axis=0) / np.maximum(count, 1), np.nanmean(S))
    S = np.where(np.isnan(S), mean, S)
    np.fill_diagonal(S, 1.0)
    model = SpectralClustering(n_clusters, affinity="precomputed", random_state=seed)
    with threadpool_limits(1):
        return np.asarray(model.fit_predict((S + S.T) / 2), dtype=np.int64)


def half_of(scores: TransferScores, half: int) -> TransferScores:
    """Give the scores by one half of the evaluation rows."""
    values = scores.second_half if half else scores.first_half
    assert values is not None
    return TransferScores(
        scores.task_names, source=scores.source, target=scores.target, score=values, kind=scores.kind
    )


def standardise(scores: TransferScores, *, remove_row_means: bool = True) -> TransferScores:
    """Return the scores of different tasks, standardised by target, less the mean of each source."""
    kept = scores.off_diagonal
    source, target = scores.source[kept], scores.target[kept]
    value = standardise_columns(target, scores.score[kept], n_tasks=scores.n_tasks).standardised
    if remove_row_means:
        value = value - row_means(source, value, scores.n_tasks)[source]
    return TransferScores(scores.task_names, source=source, target=target, score=value)


def contrast_by_task(scores: TransferScores, labels: Labels) -> Floats:
    """Give how much better mates serve each task than others do, in standard deviations; 0 without mates.

    Examples
    --------
    >>> S = np.kron(np.eye(2), np.ones((3, 3)))
    >>> scores = TransferScores.from_matrix(S, list("abcdef"))
    >>> contrast_by_task(scores, np.array([0, 0, 0, 1, 1, -1])).round(2).tolist()
    [2.04, 2.04, 2.04, 1.53, 1.53, 0.0]
    """
    n = scores.n_tasks
    own = standardise(scores)
    source, target, value = own.source, own.target, own.score
    is_mate = (labels[source] == labels[target]) & (labels[target] >= 0)
    means = []
    for chosen in (is_mate, ~is_mate):
        count = np.bincount(target[chosen], minlength=n)
        total = np.bincount(target[chosen], weights=value[chosen], minlength=n)
        means.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    return np.asarray(np.nan_to_num(means[0] - means[1]))


def agreement(labels: Labels, truth: tuple[str, ...] | None) -> dict[str, float | None]:
    """Give the indices of agreement; None where there is nothing to agree with.

    Examples
    --------
    >>> agreement(np.array([1, 1, 0, 0]), ("x", "x", "y", "y"))
    {'ari': 1.0, 'nmi': 1.0, 'ami': 1.0}
    """
    if truth is None:
        return {"ari": None, "nmi": None, "ami": None}
    own = as_singletons(labels)
    return {
        "ari": float(adjusted_rand_score(truth, own)),
        "nmi": float(normalized_mutual_info_score(truth, own)),
        "ami": float(adjusted_mutual_info_score(truth, own)),
    }


def as_singletons(labels: Labels) -> Labels:
    """Make every task without a cluster a cluster of its own."""
    own = labels.astype(np.int64)
    alone = np.flatnonzero(own < 0)
    own[alone] = own.max(initial=-1) + 1 + np.arange(len(alone))
    return own

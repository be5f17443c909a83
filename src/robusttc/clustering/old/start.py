"""The first clustering: spectral, on the observed entries as they are, then corrected task by task.

It starts the completion, tells how noisy the entries are, and is the answer where completion has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from robusttc.clustering.old.completion.problem import Floats, Problem
from robusttc.seeds import numpy_generator

__all__ = ["Candidate", "Rates", "Start", "estimate_rates", "first_clustering", "refine_labels"]

Labels = NDArray[np.intp]

EIGEN_TOLERANCE = 1e-2  # directions are only a start, and k-means forgives
FIRST_EIGENVALUES = 12
MAX_CLUSTERS = 60
FEW_TASKS, FREE_CLUSTERS = 500, 15
MAX_REFINEMENTS = 30
# An eigenvalue counts when it stands clear of the bulk, whose edge is read off the negative end.
CLEAR_OF_BULK = 1.05


@dataclass(frozen=True)
class Rates:
    """The share of ones among observed pairs within clusters and between them."""

    inside: float
    outside: float
    n_inside: int
    n_outside: int

    @property
    def flip_rate(self) -> float:
        """The share of entries that contradict the clusters."""
        n_pairs = max(self.n_inside + self.n_outside, 1)
        return ((1 - self.inside) * self.n_inside + self.outside * self.n_outside) / n_pairs


@dataclass(frozen=True)
class Candidate:
    """One number of clusters that was tried: how many nats its clustering needs to describe the entries."""

    n_clusters: int
    description_length: float
    labels: Labels


@dataclass(frozen=True)
class Start:
    """A first clustering, with how it was come by."""

    labels: Labels
    n_clusters: int
    rates: Rates
    candidates: tuple[Candidate, ...]
    eigenvalues: Floats
    bulk_edge: float
    reason: str


def first_clustering(problem: Problem, n_clusters: int | None, seed: int) -> Start:
    """Cluster the tasks spectrally on the centred observed entries, and refine.

    Without a given number, every number from 1 to two more than the eigenvalues that stand clear of the noise
    is tried, and the one whose clusters describe the entries in the fewest nats is taken: minus the log-
    likelihood of the ones and zeros, plus the price of the partition.
    """
    off_diagonal = ~problem.on_diagonal
    values, vectors, edge = leading_eigenvectors(problem, off_diagonal, n_clusters, seed)
    n_clear = int(np.count_nonzero(values > CLEAR_OF_BULK * edge))
    if n_clusters is not None:
        tried = [min(n_clusters, problem.n)]
        reason = "given"
    else:
        # Few tasks are tried with many numbers, which costs nothing: weak clusters hide below the edge.
        highest = max(n_clear + 2, min(FREE_CLUSTERS, problem.n // 3) if problem.n <= FEW_TASKS else 0)
        lowest = 1 if problem.n <= FEW_TASKS else max(1, n_clear - 1)
        tried = sorted({1, *range(lowest, min(highest, problem.n, MAX_CLUSTERS) + 1)})
        reason = (
            f"{n_clear} eigenvalues stand clear of the noise; fewest nats among {tried[0]} to {tried[-1]}"
        )
    candidates = [try_number(problem, values, vectors, n_clear, k, seed) for k in tried]
    best = min(candidates, key=lambda candidate: (candidate.description_length, candidate.n_clusters))
    return Start(
        labels=best.labels,
        n_clusters=best.n_clusters,
        rates=estimate_rates(problem, best.labels),
        candidates=tuple(candidates),
        eigenvalues=values,
        bulk_edge=edge,
        reason=reason,
    )


def try_number(
    problem: Problem, values: Floats, vectors: Floats, n_clear: int, k: int, seed: int
) -> Candidate:
    """Cluster into k, with the clear eigenvectors alone and with one fewer than k, and keep the better."""
    widths = {min(k, max(n_clear, 1), vectors.shape[1]), min(max(k - 1, 1), vectors.shape[1])}
    found = []
    for width in sorted(widths):
        labels = cluster_rows(vectors[:, :width] * values[:width], k, seed)
        labels = refine_labels(problem, labels)
        length = description_length(estimate_rates(problem, labels), labels)
        found.append(Candidate(k, length, labels))
    return min(found, key=lambda candidate: candidate.description_length)


def leading_eigenvectors(
    problem: Problem, off_diagonal: NDArray[np.bool_], n_clusters: int | None, seed: int
) -> tuple[Floats, Floats, float]:
    """Give the largest eigenvalues, descending, with their vectors, and the edge of the noise."""
    similarities = problem.Y[off_diagonal]
    mean = float(similarities.mean()) if len(similarities) else 0.0
    # Where hardly any zero was seen, centring would leave nothing: what is observed at all is then the
    # signal.
    centre = mean if mean < 0.98 else 0.0
    centred = np.where(off_diagonal, problem.Y - centre, 0.0)
    matrix = problem.matrix(centred)
    n = problem.n
    if np.abs(centred).max(initial=0.0) < 1e-12:
        return np.zeros(1), np.zeros((n, 1)), 0.0
    if n <= 200:
        values, vectors = np.linalg.eigh(matrix.toarray())
        return values[::-1], vectors[:, ::-1], max(-float(values[0]), 0.0)
    generator = numpy_generator(seed, "first clustering")
    start = generator.standard_normal(n)
    edge = -float(eigsh(matrix, k=1, which="SA", tol=EIGEN_TOLERANCE, v0=start, return_eigenvectors=False)[0])
    wanted = FIRST_EIGENVALUES if n_clusters is None else n_clusters
    while True:
        wanted = min(wanted, n // 2, MAX_CLUSTERS if n_clusters is None else n // 2)
        values, vectors = eigsh(matrix, k=wanted, which="LA", tol=EIGEN_TOLERANCE, v0=start, rng=generator)
        order = np.argsort(-values)
        values, vectors = values[order], vectors[:, order]
        enough = n_clusters is not None or values[-1] <= CLEAR_OF_BULK * edge
        if enough or wanted >= min(n // 2, MAX_CLUSTERS):
            return values, vectors, edge
        wanted *= 2


def cluster_rows(rows: Floats, n_clusters: int, seed: int) -> Labels:
    """Cluster the rows of a matrix by k-means; labels 0 to n_clusters - 1, each of them used."""
    if n_clusters == 1:
        return np.zeros(len(rows), dtype=np.intp)
    if n_clusters >= len(rows):
        return np.arange(len(rows), dtype=np.intp)
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: the empty ones are filled below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = KMeans(n_clusters, n_init=4, random_state=seed % 2**32).fit_predict(rows)
    return fill_empty(labels.astype(np.intp), n_clusters)


def fill_empty(labels: Labels, n_clusters: int) -> Labels:
    """Give each empty cluster a task of the largest one, so that the number asked for is kept."""
    labels = labels.copy()
    counts = np.bincount(labels, minlength=n_clusters)
    for empty in np.flatnonzero(counts == 0):
        largest = int(np.argmax(counts))
        labels[np.flatnonzero(labels == largest)[-1]] = empty
        counts[largest] -= 1
        counts[empty] += 1
    return labels


def counts_by_cluster(problem: Problem, labels: Labels) -> tuple[Floats, Floats]:
    """Count, for every task and cluster, the observed ones and the observed zeros (n x k each)."""
    k = int(labels.max(initial=0)) + 1
    places = problem.rows.astype(np.int64) * k + labels[problem.indices]
    ones = np.bincount(places, weights=problem.Y, minlength=problem.n * k).astype(np.float64, copy=False)
    seen = np.bincount(places, minlength=problem.n * k).astype(np.float64)
    diagonal = problem.on_diagonal
    ones[places[diagonal]] -= problem.Y[diagonal]
    seen[places[diagonal]] -= 1
    return ones.reshape(problem.n, k), (seen - ones).reshape(problem.n, k)


def rates_from_counts(ones: Floats, zeros: Floats, labels: Labels) -> Rates:
    """Give the rates of ones inside and outside of the clusters."""
    own = np.arange(len(labels)), labels
    ones_inside, zeros_inside = float(ones[own].sum()), float(zeros[own].sum())
    ones_outside, zeros_outside = float(ones.sum()) - ones_inside, float(zeros.sum()) - zeros_inside
    # Every pair is counted from both of its tasks. Half a count each keeps rates off 0 and 1.
    n_inside, n_outside = (ones_inside + zeros_inside) / 2, (ones_outside + zeros_outside) / 2
    return Rates(
        inside=(ones_inside / 2 + 0.5) / (n_inside + 1),
        outside=(ones_outside / 2 + 0.5) / (n_outside + 1),
        n_inside=round(n_inside),
        n_outside=round(n_outside),
    )


def estimate_rates(problem: Problem, labels: Labels) -> Rates:
    """Estimate how often an observed pair is a one, within clusters and between them."""
    return rates_from_counts(*counts_by_cluster(problem, labels), labels)


def log_odds(rates: Rates) -> tuple[float, float]:
    """Give how much a one, and a zero, speaks for two tasks being of one cluster."""
    one = float(np.log(rates.inside / rates.outside))
    zero = float(np.log((1 - rates.inside) / (1 - rates.outside)))
    if rates.inside <= rates.outside:  # the clusters are upside down; a one still speaks for a cluster
        return 1.0, -1.0
    return one, zero


def refine_labels(problem: Problem, labels: Labels) -> Labels:
    """Move every task to the cluster for which its observed entries speak most, until that helps no more.

    With equal error rates this is the local majority; with unequal ones each entry counts by its log-odds.
    All tasks move at once, so two may pass each other: the labels that describe the entries best are kept.
    The last task of a cluster stays, so that the number of clusters is kept.
    """
    if int(labels.max(initial=0)) == 0:
        return labels.copy()
    best, shortest = labels.copy(), np.inf
    for _ in range(MAX_REFINEMENTS):
        ones, zeros = counts_by_cluster(problem, labels)
        rates = rates_from_counts(ones, zeros, labels)
        length = description_length(rates, labels)
        if length >= shortest:
            break
        best, shortest = labels, length
        one, zero = log_odds(rates)
        evidence = one * ones + zero * zeros
        own = evidence[np.arange(len(labels)), labels]
        # Without evidence for a better place a task stays.
        moves = np.flatnonzero(evidence.max(axis=1) > own + 1e-9)
        labels = labels.copy()
        labels[moves] = np.argmax(evidence[moves], axis=1)
        labels = keep_clusters(labels, best)
    return best


def keep_clusters(labels: Labels, before: Labels) -> Labels:
    """Put a task back into each cluster that lost its last one."""
    k = int(before.max(initial=0)) + 1
    labels = labels.copy()
    # Putting one back may take the last one of another.
    while len(emptied := np.setdiff1d(np.arange(k), labels)):
        for cluster in emptied:
            labels[np.flatnonzero(before == cluster)[0]] = cluster
    return labels


def description_length(rates: Rates, labels: Labels) -> float:
    """Give the nats needed to write down the partition and then the observed entries."""
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    partition = -float(np.sum(counts * np.log(counts / counts.sum())))

    def entropy(rate: float, n_pairs: int) -> float:
        return -n_pairs * float(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))

    return partition + entropy(rates.inside, rates.n_inside) + entropy(rates.outside, rates.n_outside)

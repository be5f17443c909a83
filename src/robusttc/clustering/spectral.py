"""Clusters of tasks from the factors of the completed similarity X = U U'.

The default is average linkage by cosine in the leading directions of X: it keeps large groups whole where
k-means cuts them into equal pieces. `cluster_spectrally` is the paper's step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from robusttc.clustering.problem import Floats, Labels

__all__ = [
    "Tree",
    "build_tree",
    "cluster_points",
    "cluster_spectrally",
    "cut",
    "eigen_factors",
    "find_directions",
    "normalise",
]

MAX_LEAVES = 2_000  # average linkage takes memory and time with the square of the points
MAX_DIRECTIONS = 64


def find_directions(U: Floats) -> Floats:
    """Return the directions of X = U U' with rows and columns centred: orthogonal columns, longest first."""
    if not U.size:
        return np.zeros((len(U), 1))
    left, sizes, _ = np.linalg.svd(U - U.mean(axis=0), full_matrices=False)
    return np.asarray(left[:, :MAX_DIRECTIONS] * sizes[:MAX_DIRECTIONS])


def normalise(points: Floats) -> Floats:
    """Return the points scaled to length 1; one of length 0, but for rounding, stays there."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(length > 1e-12, length, 1.0))


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of clusters: `cut(tree, K)` returns K of them."""

    links: Floats | None  # as SciPy has them; None where there is nothing to join or to tell apart
    leaf_of: Labels  # the leaf of each task; -1 for a task that is not in the tree


def build_tree(directions: Floats, n_clusters: int, seed: int = 0) -> Tree:
    """Join tasks by average linkage of the cosines of their places in the K leading directions of X.

    Directions beyond the number of clusters tell groups within groups apart, and are the noisiest. Many tasks
    are first joined to small groups by k-means.
    """
    points = normalise(directions[:, :n_clusters])
    leaf_of = np.arange(len(points))
    if len(points) > MAX_LEAVES:
        model = MiniBatchKMeans(
            MAX_LEAVES // 4, random_state=seed % 2**32, n_init=1, batch_size=8192, max_no_improvement=5
        )
        used, leaf_of = np.unique(model.fit_predict(points), return_inverse=True)
        points = normalise(model.cluster_centers_[used])
    if len(points) < 2 or not np.any(points):
        return Tree(None, leaf_of)
    cosines = np.clip(points @ points.T, -1.0, 1.0)
    distances = (1.0 - cosines)[np.triu_indices(len(points), 1)]
    return Tree(linkage(distances, method="average"), leaf_of)


def cut(tree: Tree, n_clusters: int) -> Labels:
    """Return labels from 0 for this number of clusters, or for all leaves where there are fewer."""
    if tree.links is None or n_clusters <= 1:
        return np.where(tree.leaf_of >= 0, 0, -1)
    n_leaves = len(tree.links) + 1
    joined = tree.links[: max(n_leaves - n_clusters, 0), :2].astype(np.int64)
    nodes = np.repeat(n_leaves + np.arange(len(joined)), 2)
    graph = sparse.coo_array(
        (np.ones(len(nodes)), (nodes, joined.ravel())), shape=(2 * n_leaves, 2 * n_leaves)
    )
    labels = sparse.csgraph.connected_components(graph, directed=False)[1][:n_leaves]
    return np.where(tree.leaf_of >= 0, labels[np.maximum(tree.leaf_of, 0)], -1)


def number_by_size(labels: Labels) -> Labels:
    """Return the labels with clusters numbered by decreasing size, equal ones by their first task."""
    if not (labels >= 0).any():
        return labels
    used, first, counts = np.unique(labels[labels >= 0], return_index=True, return_counts=True)
    members = np.flatnonzero(labels >= 0)
    order = np.lexsort((members[first], -counts))
    new = np.full(int(labels.max(initial=-1)) + 1, -1, dtype=np.int64)
    new[used[order]] = np.arange(len(used))
    return np.where(labels >= 0, new[np.maximum(labels, 0)], -1)


def cluster_spectrally(factors: Floats, weights: Floats, n_clusters: int, seed: int = 0) -> Labels:
    """Cluster by normalised spectral clustering of X = factors diag(weights) factors' (Algorithm 1).

    The affinity is X with negative degrees raised to a small positive number; the rows of the leading
    eigenvectors of D^-1/2 X D^-1/2, scaled to length 1, are clustered by k-means. Nothing is n x n.
    Deviation: the paper does not say what to do with a task of degree 0 or below.
    """
    degrees = factors @ (weights * factors.sum(axis=0))
    typical = float(degrees.mean())
    if not typical > 0:
        return np.zeros(len(factors), dtype=np.int64)
    scaled = factors / np.sqrt(np.maximum(degrees, 1e-3 * typical))[:, None]
    values, vectors = eigen_factors(scaled, weights)
    leading = vectors[:, :n_clusters][:, values[:n_clusters] > 1e-9 * values[0]]
    return cluster_points(normalise(leading), n_clusters, seed)


def eigen_factors(factors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, largest first, and eigenvectors of factors diag(weights) factors'."""
    if not factors.shape[1]:
        return np.zeros(0), factors
    Q, R = np.linalg.qr(factors)
    values, vectors = np.linalg.eigh((R * weights) @ R.T)
    order = np.argsort(-values)
    order = order[np.abs(values[order]) > 1e-10 * max(float(np.abs(values).max()), 1e-300)]
    return values[order], Q @ vectors[:, order]


def cluster_points(points: Floats, n_clusters: int, seed: int) -> Labels:
    """Cluster points by k-means, the best of ten starts."""
    n = len(points)
    if n_clusters == 1:
        return np.zeros(n, dtype=np.int64)
    if n_clusters >= n:
        return np.arange(n, dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        labels = KMeans(n_clusters, n_init=10, random_state=seed % 2**32).fit_predict(points)
    return np.asarray(labels, dtype=np.int64)

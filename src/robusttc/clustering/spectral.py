"""Clusters of tasks from the factors of the completed similarity X = U U'.

The default is average linkage by cosine on the rows of U, centred: it keeps large groups whole where k-means
cuts them into equal pieces, and its tree can be cut elsewhere. `cluster_spectrally` is the paper's step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from robusttc.clustering.problem import Floats, Labels

__all__ = ["build_tree", "cluster_points", "cluster_spectrally", "cut", "embed", "number_by_size"]

MAX_LEAVES = 4_000  # average linkage takes memory and time with the square of the points
MAX_DIRECTIONS = 64


def embed(U: Floats) -> Floats:
    """Return the tasks as points of length 1: rows of U less their mean (X with rows and columns centred)."""
    if not len(U):
        return np.zeros((0, 1))
    centred = U - U.mean(axis=0)
    if U.shape[1] > MAX_DIRECTIONS:
        left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
        centred = left[:, :MAX_DIRECTIONS] * sizes[:MAX_DIRECTIONS]
    if not centred.shape[1]:
        return np.zeros((len(U), 1))
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred / np.where(length > 1e-12, length, 1.0))


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of clusters: `cut(tree, K)` returns K of them.

    Attributes
    ----------
    links
        The linkage of the leaves as SciPy has it; None where there is nothing to join or to tell apart.
    leaf_of
        The leaf of each task; -1 for a task that is not in the tree.
    """

    links: Floats | None
    leaf_of: Labels


def build_tree(points: Floats, seed: int = 0) -> Tree:
    """Join points by average linkage of cosines; many points are first joined to small groups by k-means."""
    n = len(points)
    leaf_of = np.arange(n)
    if n > MAX_LEAVES:
        n_leaves = MAX_LEAVES // 4
        model = MiniBatchKMeans(n_leaves, random_state=seed % 2**32, n_init=1, batch_size=8192)
        leaf_of = model.fit_predict(points).astype(np.int64)
        used, leaf_of = np.unique(leaf_of, return_inverse=True)
        centers = model.cluster_centers_[used]
        points = centers / np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), 1e-12)
    if len(points) < 2 or not np.any(points):
        return Tree(None, leaf_of)
    # Squared distance of unit vectors is twice one less their cosine; a zero row is at distance 1/2 of all.
    cosines = np.clip(points @ points.T, -1.0, 1.0)
    distances = (1.0 - cosines)[np.triu_indices(len(points), 1)]
    return Tree(linkage(distances, method="average"), leaf_of)


def cut(tree: Tree, n_clusters: int) -> Labels:
    """Return labels from 0 for this number of clusters, or for all leaves where there are fewer."""
    if tree.links is None or n_clusters <= 1:
        return np.where(tree.leaf_of >= 0, 0, -1)
    labels = cut_tree(tree.links, [min(n_clusters, len(tree.links) + 1)]).ravel()
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


def cluster_spectrally(U: Floats, V: Floats, n_clusters: int, seed: int = 0) -> Labels:
    """Cluster by normalised spectral clustering of X = U U' - V V' (Algorithm 1, last step).

    The affinity is X with negative degrees raised to a small positive number; the rows of the leading
    eigenvectors of D^-1/2 X D^-1/2, scaled to length 1, are clustered by k-means. Nothing is n x n.
    Deviation: the paper does not say what to do with a task of degree 0 or below.
    """
    factors = np.hstack([U, V])
    signs = np.concatenate([np.ones(U.shape[1]), -np.ones(V.shape[1])])
    n = len(U)
    degrees = factors @ (signs * factors.sum(axis=0))
    typical = float(degrees.mean())
    if not typical > 0:
        return np.zeros(n, dtype=np.int64)
    scaled = factors / np.sqrt(np.maximum(degrees, 1e-3 * typical))[:, None]
    Q, R = np.linalg.qr(scaled)
    values, vectors = np.linalg.eigh((R * signs) @ R.T)
    leading = np.argsort(-values)[:n_clusters]
    points = Q @ vectors[:, leading[values[leading] > 1e-9 * values[-1]]]
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return cluster_points(points / np.where(length > 0, length, 1.0), n_clusters, seed)


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

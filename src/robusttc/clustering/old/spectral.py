"""Spectral clustering of the completed similarity, from its factors.

Symbols: `X` = V diag(w) V^T the completed similarity, V n x r, w of length r; `A` the affinity, X plus a
constant; `D` its degrees. Nothing here is n x n: A is W M W^T with W = [V, 1] and M diagonal, so with
D^-1/2 W = Q R (QR) the eigenvectors of D^-1/2 A D^-1/2 are Q times those of R M R^T, (r + 1) x (r + 1).
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from robusttc.clustering.old.completion.problem import Floats
from robusttc.clustering.old.start import Labels, fill_empty

__all__ = ["cluster_factors", "cluster_points", "embed_factors"]

KMEANS_STARTS = 10
# Degrees below this share of the mean are raised to it: a task with X_ij < 0 must not turn the sign.
DEGREE_FLOOR = 1e-3
# An eigenvalue below this share of the largest is that of a direction which the affinity does not have.
KEPT_EIGENVALUE = 1e-9


def cluster_factors(
    eigenvectors: Floats, eigenvalues: Floats, n_clusters: int, *, tau: float = 1.0, seed: int = 0
) -> Labels:
    r"""Cluster tasks spectrally by their similarity X, given as factors.

    The affinity is regularised, :math:`A = X + \tau\,\mathrm{mean}(X)\,11^T`, normalised by its degrees,
    :math:`D^{-1/2} A D^{-1/2}`; the rows of its `n_clusters` leading eigenvectors, scaled to length 1, are
    clustered by k-means. Deviation: the paper has tau = 0. Then a task of degree near 0 has a direction to
    itself, and with many clusters most of them hold such a task alone; with tau = 1 such tasks stay with the
    others.

    Parameters
    ----------
    eigenvectors, eigenvalues
        X as ``eigenvectors @ diag(eigenvalues) @ eigenvectors.T``; the columns need not be orthonormal, so
        the rows may be some of the tasks only.
    n_clusters
        The number of clusters, 1 to n; all of them are used.
    tau
        How much of the mean of X is added to every entry; 0 or more.
    seed
        The seed of k-means.

    Returns
    -------
    ndarray
        Labels from 0 to ``n_clusters - 1``.

    Examples
    --------
    >>> V = np.repeat(np.eye(2), 3, axis=0) / np.sqrt(3)
    >>> labels = cluster_factors(V, np.array([3.0, 3.0]), 2)
    >>> bool((labels[:3] == labels[0]).all() and (labels[3:] == 1 - labels[0]).all())
    True
    """
    return cluster_points(embed_factors(eigenvectors, eigenvalues, n_clusters, tau=tau), n_clusters, seed)


def embed_factors(eigenvectors: Floats, eigenvalues: Floats, width: int, *, tau: float = 1.0) -> Floats:
    """Give the tasks as points of length 1: rows of the leading eigenvectors of the normalised affinity.

    There are at most `width` columns, and fewer where the affinity has a lower rank. See `cluster_factors`.
    """
    n = len(eigenvectors)
    total = eigenvectors.sum(axis=0)
    degrees = eigenvectors @ (eigenvalues * total)
    mean_degree = float(degrees.mean()) if n else 0.0
    if not mean_degree > 0:
        # X is zero, or speaks against itself: every task is as near to every other.
        return np.ones((n, 1))
    constant = tau * mean_degree / n
    degrees = np.maximum(degrees + tau * mean_degree, DEGREE_FLOOR * mean_degree)
    W = np.column_stack([eigenvectors, np.ones(n)]) / np.sqrt(degrees)[:, None]
    Q, R = np.linalg.qr(W)
    small = (R * np.append(eigenvalues, constant)) @ R.T
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    leading = np.argsort(-values)[:width]
    leading = leading[values[leading] > KEPT_EIGENVALUE * values[-1]]
    points = Q @ vectors[:, leading]
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(length > 0, length, 1.0))


def cluster_points(points: Floats, n_clusters: int, seed: int) -> Labels:
    """Cluster points by k-means, the best of ten starts; every label from 0 to ``n_clusters - 1`` is used."""
    n = len(points)
    if n_clusters == 1:
        return np.zeros(n, dtype=np.intp)
    if n_clusters >= n:
        return np.arange(n, dtype=np.intp)
    with warnings.catch_warnings():
        # Fewer distinct points than clusters: the empty ones are filled below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_clusters, n_init=KMEANS_STARTS, random_state=seed % 2**32)
        labels = model.fit_predict(points)
    return fill_empty(labels.astype(np.intp), n_clusters)

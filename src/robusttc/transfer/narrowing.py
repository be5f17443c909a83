"""Narrow encoders: the few directions of a representation that tell a task's labels apart.

A wide representation keeps nearly all that the frozen part knows, whatever it was trained on, so it serves
every task alike and its scores say nothing. A narrow one must choose what its own task needs. The choice is
made in closed form: the directions w that maximise

    (w' S_between w) / (w' S_within w), S_within = (1 - shrinkage) covariance + shrinkage * mean variance * I,

(the discriminants of a shrunk covariance), each scaled by how much it tells. With k labels there are at most
k - 1 of them. Nothing is random, and a task takes milliseconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

__all__ = ["discriminant_directions"]

Floats = NDArray[np.float64]


def discriminant_directions(
    features: NDArray[np.float32], codes: NDArray[np.int64], *, n_labels: int, width: int, shrinkage: float
) -> NDArray[np.float32]:
    """Give the most discriminative directions, shape (dimension, at most `width`), the best first.

    Parameters
    ----------
    features
        The representation of the task's rows, shape (rows, dimension).
    codes
        The label of every row.
    n_labels
        The number of labels; some may have no row.
    width
        How many directions at the most. There are no more than labels with rows, less one.
    shrinkage
        From 0, the covariance within labels as it is measured, to 1, none but its mean variance.

    Examples
    --------
    >>> features = np.array([[0, 5], [1, -5], [10, 5], [11, -5]], dtype=np.float32)
    >>> codes = np.array([0, 0, 1, 1])
    >>> directions = discriminant_directions(features, codes, n_labels=2, width=3, shrinkage=0.1)
    >>> directions.shape, (features @ directions).argmin(axis=0) < 2
    ((2, 1), array([ True]))
    """
    rows = features.astype(np.float64)
    n, dimension = rows.shape
    counts = np.bincount(codes, minlength=n_labels)
    present = counts > 0
    members = np.zeros((n_labels, n))
    members[codes, np.arange(n)] = 1.0
    means = (members @ rows)[present] / counts[present, None]
    rows -= means[np.cumsum(present)[codes] - 1]
    means -= np.average(means, axis=0, weights=counts[present])
    within = rows.T @ rows / n
    variance = np.trace(within) / dimension
    if variance <= 0.0:
        # All rows of a label are the same: every direction between labels tells them apart alike.
        within, variance, shrinkage = np.eye(dimension), 1.0, 1.0
    within = (1 - shrinkage) * within + shrinkage * variance * np.eye(dimension)
    try:
        root = cholesky(within, lower=True)
    except LinAlgError:
        # Without shrinkage the covariance of few rows is singular; the smallest that mends it.
        root = cholesky(within + 1e-6 * variance * np.eye(dimension), lower=True)
    whitened = solve_triangular(root, (means * np.sqrt(counts[present] / n)[:, None]).T, lower=True)
    # The labels are mostly fewer than the dimensions, so the small side's eigenvectors are taken.
    values, vectors = eigh(whitened.T @ whitened)
    n_directions = min(width, int(present.sum()) - 1, dimension)
    order = np.argsort(-values, kind="stable")[:n_directions]
    kept = order[values[order] > 1e-12 * max(values[order[0]], 1e-300)] if len(order) else order
    # whitened @ vector has length sqrt(value): the scale that says how much a direction tells.
    directions = solve_triangular(root, whitened @ vectors[:, kept], lower=True, trans="T")
    # The sign of an eigenvector is the library's whim.
    largest = np.argmax(np.abs(directions), axis=0)
    directions *= np.where(directions[largest, np.arange(len(kept))] < 0, -1.0, 1.0)
    return np.ascontiguousarray(directions, dtype=np.float32)

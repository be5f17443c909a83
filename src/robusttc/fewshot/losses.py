"""The losses that a metric is trained with, and their gradients with respect to the representations.

Both take the representation of a support set and of queries, and give the mean cross-entropy of the queries:

* *matching* (Eq. 4): P(y | x) is the sum, over the support examples l of label y, of the softmax over l of
  z_l . z;
* *prototype*: P(y | x) is the softmax over y of s cos(c_y, z), where c_y is the mean of the label's support
  vectors, each of unit length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["matching_loss", "prototype_loss", "softmax_rows", "sum_rows", "unit_rows"]

Floats = NDArray[np.float32] | NDArray[np.float64]
# Below this length a vector has no direction; it stays as it is.
TINY = 1e-12


def unit_rows(matrix: Floats) -> Floats:
    """Bring every row to length 1; a row of zeros stays one.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.sqrt((matrix * matrix).sum(axis=1, keepdims=True))
    result: Floats = matrix / np.maximum(lengths, TINY).astype(matrix.dtype)
    return result


def sum_rows(matrix: NDArray[np.float32], codes: NDArray[np.int64], n_labels: int) -> NDArray[np.float32]:
    """Add up the rows of each label, in their order; a label without rows gets zeros.

    Examples
    --------
    >>> sum_rows(np.array([[1], [2], [4]], dtype=np.float32), np.array([2, 0, 2]), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    sums = np.zeros((n_labels, matrix.shape[1]), dtype=np.float32)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    if len(present):
        sums[present] = np.add.reduceat(matrix[order], starts, axis=0)
    return sums


def unit_gradient(matrix: Floats, unit: Floats, gradient: Floats) -> Floats:
    """Carry a gradient with respect to unit rows back to the rows themselves."""
    lengths = np.maximum(np.sqrt((matrix * matrix).sum(axis=1, keepdims=True)), TINY).astype(matrix.dtype)
    along = (unit * gradient).sum(axis=1, keepdims=True)
    result: Floats = (gradient - unit * along) / lengths
    return result


def softmax_rows(logits: Floats) -> Floats:
    """Give the softmax of every row."""
    shares: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def matching_loss(
    support: Floats, support_codes: NDArray[np.int64], queries: Floats, query_codes: NDArray[np.int64]
) -> tuple[float, Floats, Floats]:
    """Give the loss of matching (Eq. 4) and its gradients with respect to support and queries.

    Parameters
    ----------
    support, queries
        Representations, shapes (support rows, width) and (queries, width).
    support_codes, query_codes
        Their labels; every query's label must occur in the support.

    Examples
    --------
    >>> eye = np.eye(2)
    >>> loss, _, _ = matching_loss(eye, np.array([0, 1]), eye, np.array([0, 1]))
    >>> round(loss, 3)  # log(1 + 1 / e)
    0.313
    """
    shares = softmax_rows(queries @ support.T)
    own = support_codes[None, :] == query_codes[:, None]
    right = np.maximum((shares * own).sum(axis=1), 1e-30)
    # d(-log sum of own shares) / d logits = shares - own shares / their sum
    logits_gradient = (shares - shares * own / right[:, None].astype(shares.dtype)) / len(queries)
    logits_gradient = logits_gradient.astype(shares.dtype)
    return float(-np.log(right).mean()), logits_gradient.T @ queries, logits_gradient @ support


def prototype_loss(
    support: Floats,
    support_codes: NDArray[np.int64],
    queries: Floats,
    query_codes: NDArray[np.int64],
    *,
    n_labels: int,
    scale: float,
) -> tuple[float, Floats, Floats]:
    """Give the loss of prototypes and its gradients with respect to support and queries.

    Parameters
    ----------
    support, queries
        Representations, shapes (support rows, width) and (queries, width).
    support_codes, query_codes
        Their labels; every label occurs in the support.
    n_labels
        How many labels there are.
    scale
        The factor s of the cosines.

    Examples
    --------
    >>> eye = np.eye(2)
    >>> loss, _, _ = prototype_loss(eye, np.array([0, 1]), eye, np.array([0, 1]), n_labels=2, scale=1.0)
    >>> round(loss, 3)
    0.313
    """
    unit_support, unit_queries = unit_rows(support), unit_rows(queries)
    factor = support.dtype.type(scale)
    member = np.zeros((n_labels, len(support)), dtype=support.dtype)
    member[support_codes, np.arange(len(support))] = 1.0
    member /= member.sum(axis=1, keepdims=True)
    means = member @ unit_support
    prototypes = unit_rows(means)
    shares = softmax_rows(factor * (unit_queries @ prototypes.T))
    places = np.arange(len(queries))
    loss = float(-np.log(np.maximum(shares[places, query_codes], 1e-30)).mean())
    shares[places, query_codes] -= 1.0
    logits_gradient: Floats = shares * (factor / support.dtype.type(len(queries)))
    prototype_gradient = unit_gradient(means, prototypes, logits_gradient.T @ unit_queries)
    support_gradient = unit_gradient(support, unit_support, member.T @ prototype_gradient)
    return loss, support_gradient, unit_gradient(queries, unit_queries, logits_gradient @ prototypes)

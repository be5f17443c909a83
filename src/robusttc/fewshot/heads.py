"""Classifiers on a few representations: prototypes, and softmax regression.

A label's name, encoded like a text, is one more support vector of its label. That is what tells apart labels
of one example, and what makes leave-one-out possible for them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.fewshot.losses import softmax_rows, sum_rows, unit_rows
from robusttc.models import fit_softmax

__all__ = ["LinearHead", "fit_prototypes", "fit_regression", "leave_one_out_prototypes"]

Floats = NDArray[np.float32]
LinearHead = tuple[Floats, Floats]


def fit_prototypes(
    support: Floats, codes: NDArray[np.int64], *, n_labels: int, scale: float, names: Floats | None = None
) -> LinearHead:
    """Give the prototype classifier as weight (width, labels) and bias: scale times the cosine to a label.

    Parameters
    ----------
    support
        Unit vectors of the support set.
    codes
        Their labels; every label occurs.
    n_labels
        How many labels there are.
    scale
        The factor of the cosines.
    names
        One unit vector a label, that of its name.

    Examples
    --------
    >>> weight, bias = fit_prototypes(np.eye(2, dtype=np.float32), np.array([0, 1]), n_labels=2, scale=4.0)
    >>> weight.tolist()
    [[4.0, 0.0], [0.0, 4.0]]
    """
    sums = sum_vectors(support, codes, n_labels, names)
    weight = np.float32(scale) * unit_rows(sums).T
    return np.ascontiguousarray(weight, dtype=np.float32), np.zeros(n_labels, dtype=np.float32)


def fit_regression(
    support: Floats, codes: NDArray[np.int64], *, n_labels: int, C: float, names: Floats | None = None
) -> LinearHead:
    """Give softmax regression on support vectors and names, every label counting alike; see `fit_softmax`.

    Examples
    --------
    >>> vectors = np.eye(2, dtype=np.float32)
    >>> weight, bias = fit_regression(vectors, np.array([0, 1]), n_labels=2, C=10.0)
    >>> (vectors @ weight + bias).argmax(axis=1).tolist()
    [0, 1]
    """
    if names is not None:
        support = np.concatenate([support, names])
        codes = np.concatenate([codes, np.arange(n_labels)])
    fitted = fit_softmax(support, codes, n_labels=n_labels, C=C, balanced=True)
    return np.ascontiguousarray(fitted.weight, dtype=np.float32), fitted.bias.astype(np.float32)


def leave_one_out_prototypes(
    support: Floats, codes: NDArray[np.int64], *, n_labels: int, scale: float, names: Floats | None = None
) -> NDArray[np.float64]:
    """Give the probabilities of every support row by prototypes made without it, in closed form.

    A row whose label has no other vector gets probability 0 of its own label and cannot be judged.

    Examples
    --------
    >>> vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    >>> left_out = leave_one_out_prototypes(vectors, np.array([0, 0, 1]), n_labels=2, scale=4.0)
    >>> left_out.round(2).tolist()
    [[0.98, 0.02], [0.98, 0.02], [1.0, 0.0]]
    """
    sums = sum_vectors(support, codes, n_labels, names).astype(np.float64)
    vectors = support.astype(np.float64)
    logits = scale * vectors @ unit_rows(sums).T
    rows = np.arange(len(codes))
    without = sums[codes] - vectors
    n_vectors = np.bincount(codes, minlength=n_labels) + (names is not None)
    own = scale * (vectors * unit_rows(without)).sum(axis=1)
    logits[rows, codes] = np.where(n_vectors[codes] >= 2, own, -np.inf)
    return softmax_rows(logits).astype(np.float64)


def sum_vectors(support: Floats, codes: NDArray[np.int64], n_labels: int, names: Floats | None) -> Floats:
    """Add up the vectors of each label."""
    sums = sum_rows(support, codes, n_labels)
    return sums if names is None else sums + names

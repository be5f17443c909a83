"""Matching (Eq. 4): a text has the labels of the support examples that it is like."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.fewshot.losses import softmax_rows
from robusttc.models import multiply_rows

__all__ = ["leave_one_out_matching", "match", "scorable_rows"]

Floats = NDArray[np.float32]


def match(
    queries: Floats, support: Floats, codes: NDArray[np.int64], *, n_labels: int
) -> NDArray[np.float64]:
    """Give P(y | x): the sum, over the support examples l of label y, of the softmax over l of z_l . z.

    Bit for bit, a query's result does not depend on the other queries.

    Parameters
    ----------
    queries, support
        Representations, shapes (queries, width) and (support rows, width).
    codes
        The label of every support row.
    n_labels
        How many labels there are; one without a support row has probability 0.

    Examples
    --------
    >>> support = np.array([[2, 0], [0, 2], [0, 2]], dtype=np.float32)
    >>> match(support[:1], support, np.array([0, 1, 1]), n_labels=2).round(3).tolist()
    [[0.965, 0.035]]
    """
    logits = multiply_rows(queries, np.ascontiguousarray(support.T)).astype(np.float64)
    return sum_by_label(softmax_rows(logits), codes, n_labels)


def leave_one_out_matching(
    support: Floats, codes: NDArray[np.int64], *, n_labels: int
) -> NDArray[np.float64]:
    """Give P(y | x) for every support row from all the others: an example must not match itself.

    Rows of a label without another example have probability 0 of their own label, so they cannot be judged;
    see `scorable_rows`. A support set of one row gives even probabilities.

    Examples
    --------
    >>> support = np.array([[2, 0], [2, 0], [0, 2]], dtype=np.float32)
    >>> leave_one_out_matching(support, np.array([0, 0, 1]), n_labels=2).round(3).tolist()
    [[0.982, 0.018], [0.982, 0.018], [1.0, 0.0]]
    """
    if len(support) == 1:
        return np.full((1, n_labels), 1 / n_labels)
    logits = multiply_rows(support, np.ascontiguousarray(support.T)).astype(np.float64)
    np.fill_diagonal(logits, -np.inf)
    return sum_by_label(softmax_rows(logits), codes, n_labels)


def scorable_rows(codes: NDArray[np.int64], *, with_names: bool = False) -> NDArray[np.bool_]:
    """Tell which rows leave-one-out can judge: their label has another row, or its name stands for it.

    Examples
    --------
    >>> scorable_rows(np.array([0, 1, 1])).tolist()
    [False, True, True]
    """
    if with_names:
        return np.ones(len(codes), dtype=np.bool_)
    return np.asarray(np.bincount(codes)[codes] >= 2)


def sum_by_label(
    shares: NDArray[np.floating], codes: NDArray[np.int64], n_labels: int
) -> NDArray[np.float64]:
    """Add up the columns of each label."""
    result = np.zeros((len(shares), n_labels))
    for column, code in enumerate(codes.tolist()):
        result[:, code] += shares[:, column]
    return result

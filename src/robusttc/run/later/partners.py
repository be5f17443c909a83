"""Which tasks of a run a new one is compared with: those that stand best for their clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["choose_partners", "count_partners", "typical_first"]

LEAST_A_CLUSTER = 3


def count_partners(n_tasks: int, sizes: Mapping[int, int]) -> dict[int, int]:
    """Give how many tasks of each cluster a new task is compared with: about log(n)^2 in all.

    One of each cluster in turn, larger ones first, so that small clusters are heard as loudly as large ones.
    There are three of every cluster at the least, if it has three: the noise of one score is too large.

    Parameters
    ----------
    n_tasks
        How many tasks the run has.
    sizes
        The number of tasks of each cluster.

    Examples
    --------
    >>> count_partners(175, {0: 80, 1: 90, 2: 5})
    {0: 11, 1: 11, 2: 5}
    >>> count_partners(20, {0: 19, 1: 1})
    {0: 8, 1: 1}
    """
    wanted = max(math.ceil(math.log(max(n_tasks, 2)) ** 2), LEAST_A_CLUSTER * len(sizes))
    counts = dict.fromkeys(sizes, 0)
    ordered = sorted(sizes, key=lambda cluster: (-sizes[cluster], cluster))
    left = min(wanted, sum(sizes.values()))
    while left:
        for cluster in ordered:
            if left and counts[cluster] < sizes[cluster]:
                counts[cluster] += 1
                left -= 1
    return counts


def typical_first(likeness: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[int, list[int]]:
    """Give the tasks of each cluster, those that are most like the others of their cluster first.

    Parameters
    ----------
    likeness
        How much each two tasks are alike, shape (tasks, tasks); NaN where that is not known.
    labels
        The cluster of each task; -1 for none.

    Examples
    --------
    >>> X = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.8], [0.2, 0.8, 1.0]])
    >>> typical_first(X, np.zeros(3, dtype=np.int64))
    {0: [1, 0, 2]}
    """
    found: dict[int, list[int]] = {}
    for cluster in np.unique(labels[labels >= 0]).tolist():
        members = np.flatnonzero(labels == cluster)
        block = likeness[np.ix_(members, members)].copy()
        np.fill_diagonal(block, np.nan)
        known = np.isfinite(block)
        mean = np.where(known, block, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        # Rounded, so that the order of a sum cannot decide between equals; then their places do.
        order = np.lexsort((members, -mean.round(9)))
        found[cluster] = members[order].tolist()
    return found


def choose_partners(
    names: tuple[str, ...], likeness: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[str, ...]:
    """Give the tasks that new ones are compared with, in the order of their names.

    Examples
    --------
    >>> choose_partners(("a", "b", "c"), np.eye(3), np.array([0, 0, 1]))
    ('a', 'b', 'c')
    """
    ordered = typical_first(likeness, labels)
    counts = count_partners(len(names), {cluster: len(own) for cluster, own in ordered.items()})
    return tuple(sorted(names[task] for cluster, own in ordered.items() for task in own[: counts[cluster]]))

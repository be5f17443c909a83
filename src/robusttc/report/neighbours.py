"""Which tasks are nearest to each task, and which stand for a cluster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.report.task_space import TaskSpace

__all__ = ["find_nearest", "find_representatives", "measured_both_ways"]

ROWS_AT_ONCE = 256
# X of clear clusters is 0 or 1 for whole blocks: among those what was measured decides, and only among those.
STEP = 1e-3
MAX_DEVIATIONS = 4.0


def find_nearest(space: TaskSpace, *, n: int = 5) -> dict[str, list[tuple[str, float]]]:
    """Give the nearest tasks of each task with their similarity, the nearest first.

    Nearness is the completed similarity; where that is the same to a thousandth, the pair with the better
    measured transfer (the mean of what was measured in the two directions) is nearer.
    """
    both = measured_both_ways(space)
    n_tasks = len(space.names)
    found: dict[str, list[tuple[str, float]]] = {}
    for begin in range(0, n_tasks, ROWS_AT_ONCE):
        rows = slice(begin, min(begin + ROWS_AT_ONCE, n_tasks))
        similarity = space.similarity(rows)
        order = np.round(similarity / STEP) * STEP
        order += STEP / 2 * np.clip(both[rows].toarray(), -MAX_DEVIATIONS, MAX_DEVIATIONS) / MAX_DEVIATIONS
        order[np.arange(rows.stop - begin), np.arange(begin, rows.stop)] = -np.inf
        for place, row in enumerate(order):
            # A stable sort: of tasks that are alike in all, the first in order comes first.
            nearest = np.argsort(-row, kind="stable")[: min(n, n_tasks - 1)]
            found[space.names[begin + place]] = [
                (space.names[task], float(similarity[place, task])) for task in nearest
            ]
    return found


def measured_both_ways(space: TaskSpace) -> sparse.csr_array:
    """Give the mean of what was measured in the two directions of every pair."""
    there = sparse.csr_array(
        (np.ones(space.measured.nnz), space.measured.indices, space.measured.indptr),
        shape=space.measured.shape,
    )
    total, number = space.measured + space.measured.T, there + there.T
    number.data = 1 / number.data
    return sparse.csr_array(total * number)


def find_representatives(
    space: TaskSpace, members: NDArray[np.intp], both: sparse.csr_array, *, n: int = 3
) -> list[str]:
    """Give the tasks of a cluster that are most similar to the rest of it, the most typical first.

    Parameters
    ----------
    space
        All tasks.
    members
        The places of the cluster's tasks.
    both
        What `measured_both_ways` gives.
    n
        How many, at the most.
    """
    own = space.points[members]
    to_cluster = own @ own.mean(axis=0)
    measured = both[members][:, members]
    number = np.maximum(np.diff(measured.indptr), 1)
    evidence = np.clip(np.asarray(measured.sum(axis=1)).ravel() / number, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    order = np.round(to_cluster / STEP) * STEP + STEP / 2 * evidence / MAX_DEVIATIONS
    return [space.names[members[place]] for place in np.argsort(-order, kind="stable")[:n]]

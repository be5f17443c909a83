"""Where the tasks of a clustering are to each other: all matrices in one order, by cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.clustering.standardise import standardise
from robusttc.run import Similarity
from robusttc.transfer import TransferScores

__all__ = ["TaskSpace", "make_space", "order_tasks"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TaskSpace:
    """The tasks that were clustered or added later, ordered by cluster, and what lies between them.

    Attributes
    ----------
    names
        The tasks in the order of all rows and columns; see `order_tasks`.
    labels
        The cluster of each; -1 for none.
    points
        The tasks as points: the completed similarity of two is the product of their points. Of a task that
        was added later only a few pairs were measured, and none completed: it has the mean similarities of
        its cluster, and none without one.
    measured
        The transfer scores from row to column in standard deviations from the mean of the column. Columns
        that cannot be standardised are empty.
    raw
        The transfer scores as they were measured.
    verdicts
        What a measured pair says by its own scores: from 1, surely one group, to -1, surely two; symmetric.
    errors
        What the robust loss clipped: scores that contradict all the others; symmetric.
    """

    names: tuple[str, ...]
    labels: NDArray[np.int64]
    points: Floats
    measured: sparse.csr_array
    raw: sparse.csr_array
    verdicts: sparse.csr_array
    errors: sparse.csr_array

    def similarity(self, rows: slice) -> Floats:
        """Return some rows of the completed similarity."""
        return np.asarray(self.points[rows] @ self.points.T)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the clusters, ascending; one whose last task was removed leaves a gap."""
        return tuple(int(number) for number in np.unique(self.labels[self.labels >= 0]))


def order_tasks(partition: Mapping[str, int], confidence: Mapping[str, float]) -> tuple[str, ...]:
    """Order tasks by cluster, the surest of each first; those in no cluster come last.

    Examples
    --------
    >>> order_tasks({"a": 1, "b": -1, "c": 0, "d": 1}, {"a": 0.5, "d": 0.9})
    ('c', 'd', 'a', 'b')
    """

    def key(name: str) -> tuple[bool, int, float, str]:
        cluster = partition[name]
        return cluster < 0, cluster, -confidence.get(name, 0.0), name

    return tuple(sorted(partition, key=key))


def make_space(
    names: Sequence[str],
    partition: Mapping[str, int],
    scores: TransferScores,
    similarity: Similarity,
) -> TaskSpace:
    """Put all matrices into one order.

    Parameters
    ----------
    names
        The tasks, in that order. Those of the matrices that are not among them are left out.
    partition
        The cluster of each.
    scores, similarity
        What was measured, and what was made of it.
    """
    labels = np.array([partition[name] for name in names], dtype=np.int64)
    to_scores = places_of(names, scores.task_names)
    to_similarity = places_of(names, similarity.task_names)
    shape = (scores.n_tasks, scores.n_tasks)
    data, off = standardise(scores, method="standard"), scores.off_diagonal
    measured, raw = (
        rearrange(sparse.csr_array((values, ends), shape=shape), to_scores)
        for values, ends in (
            (data.values, (data.rows, data.columns)),
            (scores.score[off], (scores.source[off], scores.target[off])),
        )
    )
    same_group = similarity.same_group.copy()
    same_group.data = 2 * same_group.data - 1
    return TaskSpace(
        tuple(names),
        labels,
        place_added(similarity.points, to_similarity, labels),
        measured,
        raw,
        rearrange(same_group, to_similarity),
        rearrange(similarity.outliers, to_similarity),
    )


def place_added(points: Floats, places: NDArray[np.intp], labels: NDArray[np.int64]) -> Floats:
    """Give the points in another order; a task that has none gets the mean of its cluster."""
    found = np.zeros((len(places), points.shape[1]))
    known = places >= 0
    found[known] = points[places[known]]
    for task in np.flatnonzero(~known & (labels >= 0)):
        mates = known & (labels == labels[task])
        if mates.any():
            found[task] = found[mates].mean(axis=0)
    return found


def places_of(names: Sequence[str], known: Sequence[str]) -> NDArray[np.intp]:
    """Give the place of each name among the known ones; -1 for those that are not there."""
    place_of = {name: place for place, name in enumerate(known)}
    return np.array([place_of.get(name, -1) for name in names], dtype=np.intp)


def rearrange(matrix: sparse.csr_array, places: NDArray[np.intp]) -> sparse.csr_array:
    """Give a square matrix with its rows and columns at other places; what is stored as zero stays stored.

    Parameters
    ----------
    matrix
        The matrix.
    places
        For each new row, which one it was; -1 for a new one, which is empty.
    """
    new_place = np.full(matrix.shape[0], -1, dtype=np.intp)
    there = places >= 0
    new_place[places[there]] = np.flatnonzero(there)
    entries = matrix.tocoo()
    row, column = new_place[entries.row], new_place[entries.col]
    kept = (row >= 0) & (column >= 0)
    values: NDArray[Any] = entries.data[kept]
    found = sparse.csr_array((values, (row[kept], column[kept])), shape=(len(places), len(places)))
    found.sort_indices()
    return found

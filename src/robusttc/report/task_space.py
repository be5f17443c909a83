"""Where the tasks of a clustering are to each other: all matrices in one order, by cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.clustering.filtering import MIN_ENTRIES
from robusttc.run.similarity import Similarity
from robusttc.scores import TransferScores, row_means, standardise_columns

__all__ = ["TaskSpace", "make_space", "order_tasks", "standardise_scores"]

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
    eigenvalues, eigenvectors
        The completed similarity X as factors. Of a task that was added later only a few pairs were
        measured, and none completed: it has the mean similarities of its cluster, and none without one.
    measured
        The transfer scores from row to column as Eq. 1 sees them: standard deviations from the mean of the
        column, without the donor effect where the run removes it. Columns that cannot tell high from low are
        empty.
    raw
        The transfer scores as they were measured.
    verdicts
        What Eq. 1 says: 1 the two belong together, -1 they do not; symmetric.
    errors
        The errors E: what was measured, but contradicts the structure; symmetric.
    """

    names: tuple[str, ...]
    labels: NDArray[np.int64]
    eigenvalues: Floats
    eigenvectors: Floats
    measured: sparse.csr_array
    raw: sparse.csr_array
    verdicts: sparse.csr_array
    errors: sparse.csr_array

    def similarity(self, rows: slice) -> Floats:
        """Multiply out some rows of X."""
        return np.asarray((self.eigenvectors[rows] * self.eigenvalues) @ self.eigenvectors.T)

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
    *,
    remove_donor_effect: bool,
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
    remove_donor_effect
        Whether Eq. 1 had the donor effect removed.
    """
    labels = np.array([partition[name] for name in names], dtype=np.int64)
    to_scores = places_of(names, scores.task_names)
    to_similarity = places_of(names, similarity.task_names)
    shape = (scores.n_tasks, scores.n_tasks)
    standardised = standardise_scores(scores, remove_donor_effect=remove_donor_effect)
    measured, raw = (
        rearrange(
            sparse.csr_array((values[told], (scores.source[told], scores.target[told])), shape=shape),
            to_scores,
        )
        for values, told in ((standardised, np.isfinite(standardised)), (scores.score, scores.off_diagonal))
    )
    return TaskSpace(
        tuple(names),
        labels,
        similarity.eigenvalues,
        place_added(similarity.eigenvectors, to_similarity, labels),
        measured,
        raw,
        rearrange(similarity.verdicts, to_similarity),
        rearrange(similarity.errors, to_similarity),
    )


def place_added(eigenvectors: Floats, places: NDArray[np.intp], labels: NDArray[np.int64]) -> Floats:
    """Give the factors of X in another order; a task that X does not have gets the mean of its cluster."""
    found = np.zeros((len(places), eigenvectors.shape[1]))
    known = places >= 0
    found[known] = eigenvectors[places[known]]
    for task in np.flatnonzero(~known & (labels >= 0)):
        mates = known & (labels == labels[task])
        if mates.any():
            found[task] = found[mates].mean(axis=0)
    return found


def standardise_scores(scores: TransferScores, *, remove_donor_effect: bool) -> Floats:
    """Give every score as Eq. 1 sees it, see `filter_scores`; NaN where its column cannot tell high from low.

    Examples
    --------
    >>> S = [[1, 4, 1], [3, 1, 2], [1, 6, 1]]
    >>> scores = TransferScores.from_matrix(S, ["a", "b", "c"])
    >>> np.isnan(standardise_scores(scores, remove_donor_effect=False)).all()  # two scores tell nothing
    np.True_
    """
    found = np.full(len(scores), np.nan)
    entries = np.flatnonzero(scores.off_diagonal)
    source, target = scores.source[entries], scores.target[entries]
    columns = standardise_columns(target, scores.score[entries], n_tasks=scores.n_tasks)
    usable = columns.has_spread & (columns.count >= MIN_ENTRIES)
    if remove_donor_effect:
        kept = usable[target]
        entries, source, target = entries[kept], source[kept], target[kept]
        residual = columns.standardised[kept]
        residual = residual - row_means(source, residual, scores.n_tasks)[source]
        size = np.sqrt(np.maximum(columns.count, 1.0))
        columns = standardise_columns(target, residual, n_tasks=scores.n_tasks, size=size)
        usable = usable & columns.has_spread
    kept = usable[target]
    found[entries[kept]] = columns.standardised[kept]
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

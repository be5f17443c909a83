"""What the report needs of a run, computed once: the order of the tasks, matrices, neighbours, who loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.clustering.standardise import standardise
from robusttc.stats import Estimate

if TYPE_CHECKING:
    from robusttc.run import Run, TaskFigures

__all__ = ["NegativeTransfer", "ReportData", "TaskMatrices", "find_nearest", "find_typical", "order_tasks"]

ROWS_AT_ONCE = 256
N_NEAREST = 5
N_TYPICAL = 3
# X of clear clusters is 0 or 1 for whole blocks: among those what was measured decides, and only among those.
SIMILARITY_STEP = 1e-3
MIN_SIMILARITY = 0.005  # what would be shown as 0.00 is no neighbour
MAX_DEVIATIONS = 4.0
# Standard deviations below the mean of all sources from which on a source counts as bad: that of Eq. 1.
BAD_EFFECT = -0.5
MAX_SOURCES = 5

Floats = NDArray[np.float64]


class ReportData:
    """A run as the report reads it; see `robusttc.run.Run` for what is there.

    Attributes
    ----------
    run
        The run.
    names
        All of its tasks: by cluster, the surest of each first; those in no cluster come last.
    figures
        What the test rows of each task say.
    n_clusters
        The number of clusters that have tasks.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.figures: dict[str, TaskFigures] = {one.task: one for one in run.evaluation.tasks}
        self.names = tuple(name for name in order_tasks(run.clusters, run.confidence) if name in run.tasks)
        self.n_clusters = len({number for number in run.clusters.values() if number >= 0})

    @property
    def clusters_serve(self) -> bool:
        """Whether cluster models serve."""
        return bool(self.run.summary["multitask"]["clusters_serve"])

    def is_sharing(self, name: str) -> bool:
        """Return whether a task may share; one that may not has nothing to lose."""
        return name in self.run.tasks and bool(self.run.tasks[name].may_share)

    def members(self) -> dict[int, list[str]]:
        """Return the tasks of each cluster, in the order of the report."""
        found: dict[int, list[str]] = {}
        for name in self.names:
            if self.run.clusters[name] >= 0:
                found.setdefault(self.run.clusters[name], []).append(name)
        return found

    @cached_property
    def matrices(self) -> TaskMatrices | None:
        """What lies between the tasks that were clustered or came later; None without clusters."""
        scores, similarity = self.run.scores, self.run.similarity
        if scores is None or similarity is None:
            return None
        known = {*similarity.task_names, *self.run.added}
        names = [name for name in self.names if name in known and self.is_sharing(name)]
        return TaskMatrices.of(names, self.run.clusters, scores, similarity)

    @cached_property
    def negative_transfer(self) -> tuple[NegativeTransfer, ...]:
        """The tasks that lose by sharing, by their 95 % intervals, the worst first."""
        return tuple(
            sorted(
                (
                    NegativeTransfer(name, change, evidence, self.find_sources(name))
                    for name, (change, evidence) in self.changes.items()
                    if change.below_zero
                ),
                key=lambda one: (one.change.mean, one.task),
            )
        )

    @cached_property
    def changes(self) -> dict[str, tuple[Estimate, str]]:
        """What sharing changes for each task that may share, and the rows that say so."""
        found = {}
        for name, figures in self.figures.items():
            if not self.is_sharing(name):
                continue
            if figures.gain is not None:
                found[name] = (figures.gain, "test rows")
            elif figures.held_out_gain is not None:
                found[name] = (figures.held_out_gain, "held-out training rows")
        return found

    def find_sources(self, name: str) -> tuple[tuple[str, float], ...]:
        """Return the tasks of the same model that were measured to serve a task worst, the worst first."""
        matrices = self.matrices
        if matrices is None or name not in matrices.names:
            return ()
        place = matrices.names.index(name)
        column = matrices.measured[:, [place]].tocoo()
        is_mate = np.ones(len(matrices.names), dtype=np.bool_)
        if self.clusters_serve:
            is_mate = matrices.labels == matrices.labels[place]
        found = [
            (matrices.names[source], float(effect))
            for source, effect in zip(column.row, column.data, strict=True)
            # No model learned from tasks that came later.
            if is_mate[source] and effect < BAD_EFFECT and matrices.names[source] not in self.run.added
        ]
        return tuple(sorted(found, key=lambda entry: (entry[1], entry[0]))[:MAX_SOURCES])


@dataclass(frozen=True, slots=True)
class NegativeTransfer:
    """A task that loses by sharing.

    Attributes
    ----------
    task
        The task.
    change
        What serves less its own model.
    evidence
        ``test rows`` or, of a task without any, ``held-out training rows``.
    sources
        Tasks of the same model that serve it worst, each with how far its transfer score is from the mean of
        all sources, in standard deviations. Nothing is trained again to find them.
    """

    task: str
    change: Estimate
    evidence: str
    sources: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TaskMatrices:
    """The tasks that were clustered or added later, ordered by cluster, and what lies between them.

    Attributes
    ----------
    names
        The tasks in the order of all rows (sources) and columns (targets).
    labels
        The cluster of each; -1 for none.
    points
        The completed similarity of two tasks is the product of their points. Of a task that was added later
        none was completed: it has the mean of its cluster, and zeros without one.
    raw
        The transfer scores as they were measured.
    measured
        The same in standard deviations from the mean of the column, without what a source gives to everybody;
        0 in columns that cannot be standardised.
    verdicts
        What a measured pair says by its own scores: from 1, surely one group, to -1, surely two; symmetric.
    errors
        What the robust loss clipped: scores that contradict all the others; symmetric.
    """

    names: tuple[str, ...]
    labels: NDArray[np.int64]
    points: Floats
    raw: sparse.csr_array
    measured: sparse.csr_array
    verdicts: sparse.csr_array
    errors: sparse.csr_array

    @classmethod
    def of(
        cls, names: Sequence[str], partition: Mapping[str, int], scores: Any, similarity: Any
    ) -> TaskMatrices:
        """Put all matrices into one order; tasks of theirs that are not named are left out."""
        labels = np.array([partition[name] for name in names], dtype=np.int64)
        to_scores, to_similarity = (places_of(names, known.task_names) for known in (scores, similarity))
        shape = (scores.n_tasks, scores.n_tasks)
        off, data = scores.off_diagonal, standardise(scores, method="standard")
        ends = (scores.source[off], scores.target[off])
        raw = sparse.csr_array((scores.score[off], ends), shape=shape)
        # Every score that was measured is there, also where nothing can be said of it.
        measured = sparse.coo_array(
            (
                np.concatenate([data.values, np.zeros(len(ends[0]))]),
                (np.concatenate([data.rows, ends[0]]), np.concatenate([data.columns, ends[1]])),
            ),
            shape=shape,
        ).tocsr()
        same_group = similarity.same_group.copy()
        same_group.data = 2 * same_group.data - 1
        return cls(
            tuple(names),
            labels,
            place_added(similarity.points, to_similarity, labels),
            rearrange(raw, to_scores),
            rearrange(measured, to_scores),
            rearrange(same_group, to_similarity),
            rearrange(similarity.outliers, to_similarity),
        )

    def similarity(self, rows: slice = slice(None)) -> Floats:
        """Return some rows of the completed similarity."""
        return np.asarray(self.points[rows] @ self.points.T)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The places where a cluster begins; the tasks in none have one, too."""
        return tuple(np.flatnonzero(np.diff(self.labels, prepend=self.labels[:1] - 1)).tolist())

    def take(self, places: NDArray[np.intp]) -> TaskMatrices:
        """Return the matrices of some of the tasks, given by their places in ascending order."""
        return TaskMatrices(
            tuple(self.names[place] for place in places),
            self.labels[places],
            self.points[places],
            *(matrix[places][:, places] for matrix in (self.raw, self.measured, self.verdicts, self.errors)),
        )

    def thinned(self, n_most: int) -> TaskMatrices:
        """Leave out tasks evenly until about `n_most` are left; every cluster keeps its first, the surest."""
        n = len(self.names)
        if n <= n_most:
            return self
        even = np.linspace(0, n - 1, n_most).astype(np.intp)
        return self.take(np.union1d(even, np.array(self.boundaries, dtype=np.intp)))

    def block_means(self) -> dict[str, Any]:
        """Return means over the pairs of tasks of every two clusters, and what they are means of.

        ``completed`` similarity (of a task that is alone in its cluster: with itself), ``measured`` scores in
        standard deviations (NaN where there are none) with their number ``observed``, and how many measured
        pairs are more likely of one group (``similar``) and of two (``different``).
        """
        numbers = np.unique(self.labels[self.labels >= 0])
        members = (self.labels == numbers[:, None]).astype(np.float64)  # cluster x task

        def add_up(values: NDArray[Any], pattern: sparse.csr_array) -> Floats:
            entries = (np.asarray(values, dtype=np.float64), pattern.indices, pattern.indptr)
            return np.asarray(members @ (sparse.csr_array(entries, shape=pattern.shape) @ members.T))

        sizes, sums = members.sum(axis=1), members @ self.points
        total, pairs = sums @ sums.T, np.outer(sizes, sizes)
        is_several = sizes > 1
        total[is_several, is_several] -= (members @ (self.points**2).sum(axis=1))[is_several]
        pairs[is_several, is_several] -= sizes[is_several]
        observed = add_up(np.ones(self.measured.nnz), self.measured)
        verdicts = [add_up(sign * self.verdicts.data > 0, self.verdicts) for sign in (1, -1)]
        for counts in verdicts:
            counts[np.diag_indices(len(counts))] /= 2  # both directions of a pair within a cluster are there
        with np.errstate(invalid="ignore"):
            measured = add_up(self.measured.data, self.measured) / observed
        return {
            "n": len(numbers),
            "clusters": numbers,
            "completed": total / pairs,
            "measured": measured,
            "observed": observed.astype(np.int64),
            "similar": verdicts[0].astype(np.int64),
            "different": verdicts[1].astype(np.int64),
        }

    @property
    def both_ways(self) -> sparse.csr_array:
        """The mean of what was measured in the two directions of every pair."""
        entries = (np.ones(self.measured.nnz), self.measured.indices, self.measured.indptr)
        is_there = sparse.csr_array(entries, shape=self.measured.shape)
        total, number = self.measured + self.measured.T, is_there + is_there.T
        number.data = 1 / number.data
        return sparse.csr_array(total * number)


def order_tasks(partition: Mapping[str, int], confidence: Mapping[str, float]) -> tuple[str, ...]:
    """Order tasks by cluster, the surest of each first; those in no cluster come last.

    >>> order_tasks({"a": 1, "b": -1, "c": 0, "d": 1}, {"a": 0.5, "d": 0.9})
    ('c', 'd', 'a', 'b')
    """
    return tuple(
        sorted(
            partition,
            key=lambda name: (partition[name] < 0, partition[name], -confidence.get(name, 0.0), name),
        )
    )


def place_added(points: Floats, places: NDArray[np.intp], labels: NDArray[np.int64]) -> Floats:
    """Return the points in another order; a task that has none gets the mean of its cluster."""
    found = np.zeros((len(places), points.shape[1]))
    is_known = places >= 0
    found[is_known] = points[places[is_known]]
    for task in np.flatnonzero(~is_known & (labels >= 0)):
        mates = is_known & (labels == labels[task])
        if mates.any():
            found[task] = found[mates].mean(axis=0)
    return found


def places_of(names: Sequence[str], known: Sequence[str]) -> NDArray[np.intp]:
    """Return the place of each name among the known ones; -1 for those that are not there."""
    place_of = {name: place for place, name in enumerate(known)}
    return np.array([place_of.get(name, -1) for name in names], dtype=np.intp)


def rearrange(matrix: sparse.csr_array, places: NDArray[np.intp]) -> sparse.csr_array:
    """Return a square matrix with its rows and columns at other places; stored zeros stay stored.

    `places` says for each new row which one it was; -1 for a new one, which is empty.
    """
    new_place = np.full(matrix.shape[0], -1, dtype=np.intp)
    is_there = places >= 0
    new_place[places[is_there]] = np.flatnonzero(is_there)
    entries = matrix.tocoo()
    row, column = new_place[entries.row], new_place[entries.col]
    kept = (row >= 0) & (column >= 0)
    ends = (row[kept], column[kept])
    found = sparse.csr_array((entries.data[kept], ends), shape=(len(places), len(places)))
    found.sort_indices()
    return found


def find_nearest(matrices: TaskMatrices) -> dict[str, list[tuple[str, float]]]:
    """Return the nearest tasks of each task with their completed similarity, the nearest first.

    Where that is the same to a thousandth, the pair with the better measured transfer (the mean of the two
    directions) is nearer. Tasks that are like no other have none.
    """
    both, n_tasks = matrices.both_ways, len(matrices.names)
    found: dict[str, list[tuple[str, float]]] = {}
    for begin in range(0, n_tasks, ROWS_AT_ONCE):
        rows = slice(begin, min(begin + ROWS_AT_ONCE, n_tasks))
        similarity = matrices.similarity(rows)
        rank = rank_of(similarity, both[rows].toarray())
        rank[np.arange(rows.stop - begin), np.arange(begin, rows.stop)] = -np.inf
        for place, row in enumerate(rank):
            # A stable sort: of tasks that are alike in all, the first in order comes first.
            nearest = np.argsort(-row, kind="stable")[: min(N_NEAREST, n_tasks - 1)]
            found[matrices.names[begin + place]] = [
                (matrices.names[task], float(similarity[place, task]))
                for task in nearest
                if similarity[place, task] >= MIN_SIMILARITY
            ]
    return found


def find_typical(matrices: TaskMatrices, number: int) -> list[str]:
    """Return the tasks of a cluster that are most similar to the rest of it, the most typical first."""
    places = np.flatnonzero(matrices.labels == number)
    own = matrices.points[places]
    among = matrices.take(places).both_ways
    evidence = np.asarray(among.sum(axis=1)).ravel() / np.maximum(np.diff(among.indptr), 1)
    order = np.argsort(-rank_of(own @ own.mean(axis=0), evidence), kind="stable")
    return [matrices.names[places[place]] for place in order[:N_TYPICAL]]


def rank_of(similarity: Floats, evidence: Floats) -> Floats:
    """Return what to order by: similarity to a thousandth, then what was measured."""
    clipped = np.clip(evidence, -MAX_DEVIATIONS, MAX_DEVIATIONS) / MAX_DEVIATIONS
    return np.asarray(
        np.round(similarity / SIMILARITY_STEP) * SIMILARITY_STEP + SIMILARITY_STEP / 2 * clipped
    )

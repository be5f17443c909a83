"""Transfer scores: how well the encoder of one task serves another, for the pairs that were measured."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UnknownTaskError
from robusttc.params import Choice, Number, check_param
from robusttc.transfer.score_columns import (
    ENDS,
    HALVES,
    Columns,
    ScoreReliability,
    as_array,
    assess_reliability,
    average_duplicates,
    check_columns,
    check_names,
    duplicate_mask,
    refuse_duplicates,
    sort_columns,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["DUPLICATES", "KINDS", "ScorePairs", "TransferScores"]

KINDS = ("accuracy", "log_likelihood", "brier", "overlap", "other")
DUPLICATES = ("error", "average")
OPTIONAL = ("n_examples", "standard_error", *HALVES)
# Scores measured on two machines differ in the last bits; a float32 product differs by a little more.
RELATIVE_ROUNDING, ROUNDING = 1e-6, 1e-9
MAX_NAMES_IN_PLOT = 40


@dataclass(frozen=True, eq=False)
class ScorePairs:
    """The unordered pairs of different tasks with at least one score, in the order of (first, second).

    `forward` has the position of the score first → second in the arrays of the scores, `backward` that of
    second → first; -1 where that direction was not measured.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    forward: NDArray[np.int64]
    backward: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


@dataclass(init=False, eq=False, repr=False, frozen=True)
class TransferScores:
    """Scores of measured pairs of tasks; immutable, sparse.

    ``score[m]`` says how well the encoder of task ``source[m]`` serves task ``target[m]``: S_ij of the paper
    with i the source and j the target. Higher is better, whatever the kind. Scores of a task with itself are
    kept, but take no part in any mean. Entries are in the order of (source, target).

    Parameters
    ----------
    task_names
        The names of all tasks, including those without a score.
    source, target
        The task numbers of each score.
    score
        The scores; finite. With ``kind="accuracy"`` they must be from 0 to 1.
    n_examples
        The number of evaluation examples behind each score, 0 where it is not known; or None.
    standard_error
        The standard error of each score, or None.
    first_half, second_half
        The score from each of two disjoint halves of the examples, to assess reliability; None for both.
    kind
        What was measured: ``accuracy``, ``log_likelihood``, ``brier`` (signed so that higher is better),
        ``overlap`` or ``other``.
    duplicates
        What to do with a pair measured twice. ``error`` refuses it. ``average`` keeps the mean, weighted by
        `n_examples` where all measurements of the pair have it (their sum is kept), else with equal weights
        (and 0 examples: not known). The standard error is then that of this mean of independent
        measurements, ``sqrt(sum(w**2 * e**2)) / sum(w)``; the halves are averaged like the score.

    Raises
    ------
    DataError
        If a name, number or score cannot be used; it names task and value.
    UsageError
        If `kind` or `duplicates` is unknown.

    Examples
    --------
    >>> scores = TransferScores(["a", "b", "c"], source=[0, 1], target=[1, 0], score=[0.5, 0.75])
    >>> scores
    TransferScores(3 tasks, 2 scores, kind 'other')
    >>> scores.to_matrix()
    array([[ nan, 0.5 ,  nan],
           [0.75,  nan,  nan],
           [ nan,  nan,  nan]])
    """

    task_names: tuple[str, ...]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    score: NDArray[np.float64]
    n_examples: NDArray[np.int64] | None
    standard_error: NDArray[np.float64] | None
    first_half: NDArray[np.float64] | None
    second_half: NDArray[np.float64] | None
    kind: str

    def __init__(
        self,
        task_names: Sequence[str],
        *,
        source: ArrayLike,
        target: ArrayLike,
        score: ArrayLike,
        n_examples: ArrayLike | None = None,
        standard_error: ArrayLike | None = None,
        first_half: ArrayLike | None = None,
        second_half: ArrayLike | None = None,
        kind: str = "other",
        duplicates: str = "error",
    ) -> None:
        check_param("kind", kind, Choice(*KINDS))
        check_param("duplicates", duplicates, Choice(*DUPLICATES))
        names = check_names(task_names)
        given = (source, target, score, n_examples, standard_error, first_half, second_half)
        columns = {
            name: as_array(name, values, whole=name in (*ENDS, "n_examples"))
            for name, values in zip((*ENDS, "score", *OPTIONAL), given, strict=True)
            if values is not None
        }
        check_columns(names, columns, kind)
        columns = sort_columns(columns, len(names))
        columns = average_duplicates(columns) if duplicates == "average" else columns
        refuse_duplicates(names, columns)
        for column in columns.values():
            column.flags.writeable = False
        self.__dict__.update({**dict.fromkeys(OPTIONAL), **columns, "task_names": names, "kind": kind})

    @classmethod
    def from_matrix(
        cls,
        matrix: ArrayLike,
        task_names: Sequence[str],
        *,
        observed: ArrayLike | None = None,
        n_examples: ArrayLike | None = None,
        standard_error: ArrayLike | None = None,
        first_half: ArrayLike | None = None,
        second_half: ArrayLike | None = None,
        kind: str = "other",
    ) -> TransferScores:
        """Return the scores of a square matrix: rows are sources, columns targets.

        Parameters
        ----------
        matrix
            The scores; NaN where there is none.
        task_names
            One name per row and column.
        observed
            True where the matrix has a score; its other cells are ignored. None: where it is not NaN.
        n_examples, standard_error, first_half, second_half
            A matrix of the same shape, or one number for all scores.
        kind
            What was measured.

        Examples
        --------
        >>> TransferScores.from_matrix([[np.nan, 0.5], [0.75, np.nan]], ["a", "b"])
        TransferScores(2 tasks, 2 scores, kind 'other')
        """
        names = check_names(task_names)
        shape = (len(names), len(names))
        values = as_array("matrix", matrix, n_dimensions=2)
        if values.shape != shape:
            raise DataError(
                "the matrix of scores does not have one row and one column per task",
                got=f"shape {values.shape}",
                expected=f"{shape} for {len(names):,} task names",
            )
        mask = ~np.isnan(values) if observed is None else np.asarray(observed)
        if mask.dtype != np.bool_ or mask.shape != shape:
            raise DataError(
                "observed cannot be used",
                got=f"{mask.dtype} of shape {mask.shape}",
                expected=f"a matrix of booleans of shape {shape}",
            )
        source, target = np.nonzero(mask)
        columns: dict[str, Any] = {}
        for name, cells in zip(OPTIONAL, (n_examples, standard_error, first_half, second_half), strict=True):
            if cells is not None and np.shape(cells) not in ((), shape):
                expected = f"one number, or a matrix of shape {shape}"
                raise DataError(f"{name} cannot be used", got=f"shape {np.shape(cells)}", expected=expected)
            columns[name] = None if cells is None else np.broadcast_to(cells, shape)[mask]
        return cls(names, source=source, target=target, score=values[mask], **columns, kind=kind)

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, *, kind: str | None = None, duplicates: str = "error"
    ) -> TransferScores:
        """Return the scores of a pandas frame, in either form that `read_scores` reads.

        Parameters
        ----------
        frame
            One score per row, with the columns of `read_scores`; or a square table whose index and columns
            are the task names. NaN is a pair that was not measured.
        kind, duplicates
            As in `read_scores`.

        Raises
        ------
        ScoresError
            If the frame cannot be used; it lists the problems with their rows.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", "a"], "score": [0.5, 0.75]})
        >>> TransferScores.from_frame(frame)
        TransferScores(2 tasks, 2 scores, kind 'other')
        """
        from robusttc.transfer.score_files import read_frame

        return read_frame(frame, kind=kind, duplicates=duplicates)

    def to_frame(self) -> pd.DataFrame:
        """Return the scores as a pandas frame, one per row, which `from_frame` converts back exactly.

        A task that is the source of no score has a row of its own with NaN as the score.

        Examples
        --------
        >>> TransferScores.from_matrix([[np.nan, 0.5], [0.75, np.nan]], ["a", "b"]).to_frame()
          source target  score
        0      a      b   0.50
        1      b      a   0.75
        """
        from robusttc.transfer.score_files import make_frame

        return make_frame(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling loses the read-only flag of arrays.
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def __len__(self) -> int:
        """Return the number of scores: measured ordered pairs, scores of a task with itself included."""
        return len(self.score)

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.task_names)

    @property
    def columns(self) -> Columns:
        """The arrays that the scores have, by the names of the parameters; those that are None left out."""
        values = {name: getattr(self, name) for name in (*ENDS, "score", *OPTIONAL)}
        return {name: column for name, column in values.items() if column is not None}

    @property
    def off_diagonal(self) -> NDArray[np.bool_]:
        """For each score, whether it is of two different tasks."""
        return np.not_equal(self.source, self.target)

    def to_matrix(self) -> NDArray[np.float64]:
        """Return the scores as a dense matrix, rows sources, columns targets, NaN where there is none."""
        matrix = np.full((self.n_tasks, self.n_tasks), np.nan)
        matrix[self.source, self.target] = self.score
        return matrix

    def subset(self, names: Iterable[str]) -> TransferScores:
        """Return the scores among these tasks, in this order: to leave tasks out, or to reorder them.

        Raises
        ------
        UnknownTaskError
            If a name is not that of a task.
        """
        chosen = tuple(names)
        for name in set(chosen).difference(self.task_names):
            raise UnknownTaskError(name, self.task_names)
        columns = self._columns_for(chosen)
        kept = (columns["source"] >= 0) & (columns["target"] >= 0)
        arrays: dict[str, Any] = {name: column[kept] for name, column in columns.items()}
        return TransferScores(chosen, **arrays, kind=self.kind)

    def _columns_for(self, names: Sequence[str]) -> Columns:
        """Return the columns with sources and targets numbered as in `names`; -1 is a task not among them."""
        number_of = {name: number for number, name in enumerate(names)}
        numbers = np.array([number_of.get(name, -1) for name in self.task_names], dtype=np.int64)
        return {**self.columns, "source": numbers[self.source], "target": numbers[self.target]}

    def merged_with(self, other: TransferScores) -> TransferScores:
        """Return all scores of both: later measurements, or further tasks.

        The tasks of `other` that are new come last. A pair that both have must agree up to rounding; the
        score of `self` is kept. Where only one of them has `n_examples`, those of the other are 0: not known.

        Raises
        ------
        DataError
            If the kinds differ, a pair has two different scores, or only one of them has standard errors or
            halves.
        """
        if self.kind != other.kind:
            raise DataError("scores of two kinds cannot be merged", got=f"{self.kind} and {other.kind}")
        for column, plural in (("standard_error", "standard errors"), ("first_half", "halves")):
            if (column in self.columns) != (column in other.columns):
                raise DataError(
                    f"only one of the two has {plural}",
                    got=f"{plural} of the {'first' if column in self.columns else 'second'} scores",
                    todo=f"give both their {plural}, or none",
                )
        names = tuple(dict.fromkeys(self.task_names + other.task_names))
        first, second = self.columns, other._columns_for(names)
        if ("n_examples" in first) != ("n_examples" in second):
            for columns in (first, second):
                columns.setdefault("n_examples", np.zeros(len(columns["score"]), dtype=np.int64))
        merged = {name: np.concatenate([values, second[name]]) for name, values in first.items()}
        merged = sort_columns(merged, len(names))  # stable: of two scores of a pair, that of self is first
        is_again = duplicate_mask(merged)
        is_same = np.ones(len(is_again), dtype=np.bool_)
        for values in merged.values():
            is_same[1:] &= np.isclose(values[1:], values[:-1], RELATIVE_ROUNDING, ROUNDING)
        kept: dict[str, Any] = {name: values[~(is_again & is_same)] for name, values in merged.items()}
        return TransferScores(names, **kept, kind=self.kind)

    def pairs(self) -> ScorePairs:
        """Return the unordered pairs of different tasks, each with the positions of its two scores."""
        entries = np.flatnonzero(self.off_diagonal)
        source, target = self.source[entries], self.target[entries]
        keys = np.minimum(source, target) * self.n_tasks + np.maximum(source, target)
        unique, pair = np.unique(keys, return_inverse=True)
        is_forward = source < target
        forward, backward = np.full((2, len(unique)), -1, dtype=np.int64)
        forward[pair[is_forward]] = entries[is_forward]
        backward[pair[~is_forward]] = entries[~is_forward]
        return ScorePairs(unique // self.n_tasks, unique % self.n_tasks, forward, backward)

    def intervals(self, *, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper ends of a confidence interval for each score.

        Accuracies with `n_examples` have Wilson's interval; all else the normal interval from
        `standard_error`. Both ends are NaN where neither is known.

        Examples
        --------
        >>> scores = TransferScores(
        ...     ["a", "b"], source=[0], target=[1], score=[0.8], n_examples=[100], kind="accuracy"
        ... )
        >>> low, high = scores.intervals()
        >>> low.round(3), high.round(3)
        (array([0.711]), array([0.867]))
        """
        check_param("level", level, Number(0, 1, excludes=("low", "high")))
        z = NormalDist().inv_cdf((1 + level) / 2)
        half = np.full(len(self), np.nan) if self.standard_error is None else z * self.standard_error
        low, high = self.score - half, self.score + half
        if self.kind == "accuracy" and self.n_examples is not None:
            known = self.n_examples > 0
            n, p = self.n_examples[known], self.score[known]
            centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
            half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2.0))
            # At the ends of the range rounding would leave the interval a little short.
            low[known] = np.where(p == 0, 0.0, centre - half)
            high[known] = np.where(p == 1, 1.0, centre + half)
        return low, high

    def reliability(self) -> ScoreReliability:
        """Assess the scores: do directions and halves agree, how large is the main effect of the source."""
        return assess_reliability(self)

    def plot(self, ax: Axes | None = None, *, order: Sequence[str] | None = None) -> Axes:
        """Draw the scores as a heat map, rows sources, columns targets, unmeasured pairs white.

        Parameters
        ----------
        ax
            Where to draw; None opens a new figure.
        order
            Task names in the order of rows and columns, for instance by cluster; None is `task_names`.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots()
        scores = self if order is None else self.subset(order)
        image = ax.imshow(scores.to_matrix(), interpolation="nearest")
        if scores.n_tasks <= MAX_NAMES_IN_PLOT:
            ax.set_xticks(range(scores.n_tasks), scores.task_names, rotation=90)
            ax.set_yticks(range(scores.n_tasks), scores.task_names)
        ax.set_xlabel("target")
        ax.set_ylabel("source")
        ax.figure.colorbar(image, ax=ax, label=self.kind.replace("_", " "))
        return ax

    def write_csv(self, path: str | Path, *, owner_only: bool = False) -> None:
        """Write the scores to a CSV file, one per row, that `read_scores` reads back exactly.

        A task that is the source of no score has a row of its own without a score, to keep its position. The
        file is written completely or not at all, and with `owner_only` only its owner may read it. Names are
        written as they are, in quotes: a program that takes a cell beginning with ``=`` for a formula will
        take such a name for one.
        """
        from robusttc.transfer.score_files import write_scores

        write_scores(self, path, owner_only=owner_only)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over names, kind and every score: equal scores have equal hashes, on every machine."""
        # Scores without halves keep the hashes that they had before there were any.
        halves = [half for half in (self.first_half, self.second_half) if half is not None]
        digest = hashlib.sha256(b"robusttc-scores-2" if halves else b"robusttc-scores-1")
        for text in (self.kind, str(self.n_tasks), *self.task_names):
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        for whole in (self.source, self.target, self.n_examples):
            digest.update(b"-" if whole is None else whole.astype("<i8").tobytes())
        for real in (self.score, self.standard_error, *halves):
            # 0.0 and -0.0 are equal, and must not differ here.
            digest.update(b"-" if real is None else (real + 0.0).astype("<f8").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, TransferScores):
            return NotImplemented
        return self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __repr__(self) -> str:
        return f"TransferScores({self.n_tasks:,} tasks, {len(self):,} scores, kind {self.kind!r})"

    def _repr_html_(self) -> str:
        possible, found = max(self.n_tasks * (self.n_tasks - 1), 1), self.reliability()
        share = int(np.count_nonzero(self.off_diagonal)) / possible
        spread = ", ".join(f"{value:.3g}" for value in np.quantile(self.score, [0, 0.5, 1])) if self else None
        rows = {
            "Tasks": f"{self.n_tasks:,}",
            "Scores": f"{len(self):,} ({share:.0%} of all pairs)",
            "Kind": self.kind,
            "Lowest, median, highest": spread,
            "Reciprocity": found.reciprocity and f"{found.reciprocity:.2f}",
            "Split-half reliability": found.split_half and f"{found.split_half:.2f}",
        }
        cells = "".join(f"<tr><th>{name}</th><td>{escape(v)}</td></tr>" for name, v in rows.items() if v)
        return f"<table><caption>Transfer scores</caption>{cells}</table>"

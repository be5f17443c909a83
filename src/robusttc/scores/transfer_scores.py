"""Transfer scores: how well the encoder of one task serves another, for the pairs that were measured."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from robusttc.errors import DataError, UnknownTaskError, UsageError, quote
from robusttc.scores.checks import (
    DUPLICATES,
    HALVES,
    KINDS,
    as_floats,
    as_integers,
    average_duplicates,
    check_choice,
    check_columns,
    check_names,
    refuse_duplicates,
    sort_columns,
)
from robusttc.scores.merging import merge_columns
from robusttc.scores.reliability import judge_scores
from robusttc.scores.statistics import ScoreReliability

__all__ = ["ScorePairs", "TransferScores"]

NEEDED = ("source", "target", "score")
OPTIONAL = ("n_examples", "standard_error", *HALVES)


@dataclass(frozen=True, eq=False)
class ScorePairs:
    """The unordered pairs of different tasks with at least one score, in the order of (first, second).

    Attributes
    ----------
    first, second
        The task numbers, ``first < second``.
    forward, backward
        The position of the score first → second, and of second → first, in the arrays of the scores; -1
        where that direction was not measured.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    forward: NDArray[np.int64]
    backward: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


class TransferScores:
    """Scores of measured pairs of tasks; immutable, sparse.

    ``score[m]`` says how well the encoder of task ``source[m]`` serves task ``target[m]``: it is S_ij of the
    paper with i the source and j the target. Higher is better, whatever the kind. Scores of a task with
    itself may be given; they are kept, and take no part in any mean. Entries are kept in the order of
    (source, target), so scores that were measured in another order are equal.

    Parameters
    ----------
    task_names
        The names of all tasks, also of those without a score.
    source, target
        The numbers of the tasks, one of each a score.
    score
        The scores; finite. With ``kind="accuracy"`` they must be from 0 to 1, other kinds are free.
    n_examples
        The number of evaluation examples behind each score, 0 where it is not known; or None.
    standard_error
        The standard error of each score; or None.
    first_half, second_half
        The same scores measured on two disjoint halves of the evaluation examples, which show how much of a
        score is chance; finite. Both, or None for both.
    kind
        What was measured: ``accuracy``, ``log_likelihood``, ``brier`` (signed so that higher is better),
        ``logme``, ``overlap`` or ``other``.
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
        check_choice("kind", kind, KINDS)
        check_choice("duplicates", duplicates, DUPLICATES)
        names = check_names(task_names)
        columns = {
            "source": as_integers("source", source),
            "target": as_integers("target", target),
            "score": as_floats("score", score),
        }
        if n_examples is not None:
            columns["n_examples"] = as_integers("n_examples", n_examples)
        if standard_error is not None:
            columns["standard_error"] = as_floats("standard_error", standard_error)
        for name, half in zip(HALVES, (first_half, second_half), strict=True):
            if half is not None:
                columns[name] = as_floats(name, half)
        check_columns(names, columns, kind)
        columns = sort_columns(columns, len(names))
        if duplicates == "average":
            columns = average_duplicates(columns)
        else:
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
        """Make scores from a square matrix, rows sources, columns targets.

        Parameters
        ----------
        matrix
            The scores; NaN where there is none.
        task_names
            One name a row and column.
        observed
            True where the matrix has a score; what it holds elsewhere is not looked at. None: where it is
            not NaN.
        n_examples, standard_error
            A matrix of the same shape, or one number for all scores.
        first_half, second_half
            Matrices of the same shape.
        kind
            What was measured.

        Examples
        --------
        >>> TransferScores.from_matrix([[np.nan, 0.5], [0.75, np.nan]], ["a", "b"])
        TransferScores(2 tasks, 2 scores, kind 'other')
        """
        names = check_names(task_names)
        shape = (len(names), len(names))
        values = as_floats("matrix", matrix, n_dimensions=2)
        if values.shape != shape:
            raise DataError(
                "the matrix of scores has not one row and one column a task",
                got=f"shape {values.shape}",
                expected=f"{shape} for {len(names):,} task names",
            )
        if observed is None:
            source, target = np.nonzero(~np.isnan(values))
        else:
            mask = np.asarray(observed)
            if mask.dtype != np.bool_ or mask.shape != shape:
                raise DataError(
                    "observed cannot be used",
                    got=f"{mask.dtype} of shape {mask.shape}",
                    expected=f"a matrix of booleans of shape {shape}",
                )
            source, target = np.nonzero(mask)

        def pick(name: str, values: ArrayLike | None, *, one_for_all: bool) -> NDArray[Any] | None:
            if values is None:
                return None
            values = np.asarray(values)
            if values.shape != shape and not (one_for_all and values.ndim == 0):
                raise DataError(
                    f"{name} cannot be used",
                    got=f"shape {values.shape}",
                    expected=("one number, or " if one_for_all else "") + f"a matrix of shape {shape}",
                )
            picked: NDArray[Any] = np.broadcast_to(values, shape)[source, target]
            return picked

        return cls(
            names,
            source=source,
            target=target,
            score=values[source, target],
            n_examples=pick("n_examples", n_examples, one_for_all=True),
            standard_error=pick("standard_error", standard_error, one_for_all=True),
            first_half=pick("first_half", first_half, one_for_all=False),
            second_half=pick("second_half", second_half, one_for_all=False),
            kind=kind,
        )

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"TransferScores are immutable; cannot set {field}")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"TransferScores are immutable; cannot delete {field}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        # NumPy forgets on the way between processes that an array must not be written to.
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def __len__(self) -> int:
        """Give the number of scores: measured ordered pairs, scores of a task with itself included."""
        return len(self.score)

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.task_names)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays that the scores have, by the names of the parameters; those that are None left out."""
        values = {name: getattr(self, name) for name in (*NEEDED, *OPTIONAL)}
        return {name: column for name, column in values.items() if column is not None}

    @property
    def off_diagonal(self) -> NDArray[np.bool_]:
        """For each score, whether it is of two different tasks."""
        return np.not_equal(self.source, self.target)

    def to_matrix(self) -> NDArray[np.float64]:
        """Give the scores as a dense matrix, rows sources, columns targets, NaN where there is none."""
        matrix = np.full((self.n_tasks, self.n_tasks), np.nan)
        matrix[self.source, self.target] = self.score
        return matrix

    def as_sparse(self) -> csr_array[np.float64]:
        """Give the scores as a sparse matrix; a score of 0 is stored, so the pattern is what was measured."""
        shape = (self.n_tasks, self.n_tasks)
        return csr_array((self.score.copy(), (self.source, self.target)), shape=shape)

    def subset(self, names: Iterable[str]) -> TransferScores:
        """Give the scores among these tasks, in this order: to leave tasks out, or to reorder them.

        Raises
        ------
        UnknownTaskError
            If a name is not that of a task.
        """
        number_of = {name: number for number, name in enumerate(self.task_names)}
        chosen = tuple(names)
        for name in chosen:
            if name not in number_of:
                raise UnknownTaskError(name, self.task_names)
        new_number = np.full(self.n_tasks, -1, dtype=np.int64)
        new_number[[number_of[name] for name in chosen]] = np.arange(len(chosen))
        source, target = new_number[self.source], new_number[self.target]
        kept = (source >= 0) & (target >= 0)
        columns: dict[str, Any] = {**self.columns, "source": source, "target": target}
        columns = {name: column[kept] for name, column in columns.items()}
        return TransferScores(chosen, **columns, kind=self.kind)

    def merged_with(self, other: TransferScores) -> TransferScores:
        """Give all scores of both: later measurements, or further tasks.

        The tasks of `other` that are new come behind. A pair that both have must be equal in both. Where
        only one of them knows `n_examples`, those of the other are 0: not known.

        Raises
        ------
        DataError
            If the kinds differ, a pair has two different scores, or only one of them has standard errors or
            halves.
        """
        names, columns = merge_columns(self, other)
        return TransferScores(names, **columns, kind=self.kind)

    def pairs(self) -> ScorePairs:
        """Give the unordered pairs of different tasks, each with the places of its two scores."""
        n = self.n_tasks
        upper = np.flatnonzero(self.source < self.target)
        lower = np.flatnonzero(self.source > self.target)
        upper_key = self.source[upper] * n + self.target[upper]
        lower_key = self.target[lower] * n + self.source[lower]
        by_key = np.argsort(lower_key)
        entries = np.concatenate([upper, lower[by_key]])
        keys = np.concatenate([upper_key, lower_key[by_key]])
        # Two sorted runs: the stable sort merges them in linear time, upper before lower of the same pair.
        merged = np.argsort(keys, kind="stable")
        keys, entries, is_upper = keys[merged], entries[merged], merged < len(upper)
        starts = np.ones(len(keys), dtype=np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        pair = np.cumsum(starts) - 1
        forward = np.full(int(np.count_nonzero(starts)), -1, dtype=np.int64)
        backward = forward.copy()
        forward[pair[is_upper]] = entries[is_upper]
        backward[pair[~is_upper]] = entries[~is_upper]
        first, second = np.divmod(keys[starts], n)
        return ScorePairs(first, second, forward, backward)

    def intervals(self, *, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the lower and upper ends of a confidence interval for each score.

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
        if not 0 < level < 1:
            raise UsageError(
                "the level of an interval cannot be used", got=quote(level), expected="between 0 and 1"
            )
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
        """Judge the scores by themselves: do directions and halves agree, how much is the donor's doing."""
        return judge_scores(self)

    def write_csv(self, path: str | Path, *, owner_only: bool = False) -> None:
        """Write the scores to a file that `read_scores` reads back to the letter; see there for its form.

        The names of the tasks are written as they are, in quotes: a program that takes a cell beginning with
        ``=`` for a formula will take such a name for one.

        Parameters
        ----------
        path
            The file.
        owner_only
            Whether only its owner may read the file.
        """
        from robusttc.scores.csv_files import write_scores

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

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
from robusttc.scores.statistics import (
    ScoreReliability,
    correlate_both_orders,
    row_means,
    share_of_rows,
    standardise_columns,
)

__all__ = ["ScorePairs", "TransferScores"]


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
    kind
        What was measured: ``accuracy``, ``log_likelihood``, ``brier`` (signed so that higher is better) or
        ``other``.
    duplicates
        What to do with a pair measured twice. ``error`` refuses it. ``average`` keeps the mean, weighted by
        `n_examples` where all measurements of the pair have it (their sum is kept), else with equal weights
        (and 0 examples: not known). The standard error is then that of this mean of independent
        measurements, ``sqrt(sum(w**2 * e**2)) / sum(w)``.

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
        check_columns(names, columns, kind)
        columns = sort_columns(columns, len(names))
        if duplicates == "average":
            columns = average_duplicates(columns)
        else:
            refuse_duplicates(names, columns)
        for column in columns.values():
            column.flags.writeable = False
        values = {"n_examples": None, "standard_error": None, **columns, "task_names": names, "kind": kind}
        self.__dict__.update(values)

    @classmethod
    def from_matrix(
        cls,
        matrix: ArrayLike,
        task_names: Sequence[str],
        *,
        observed: ArrayLike | None = None,
        n_examples: ArrayLike | None = None,
        standard_error: ArrayLike | None = None,
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

        def pick(name: str, values: ArrayLike | None) -> NDArray[Any] | None:
            if values is None:
                return None
            values = np.asarray(values)
            if values.shape not in ((), shape):
                raise DataError(
                    f"{name} cannot be used",
                    got=f"shape {values.shape}",
                    expected=f"one number, or a matrix of shape {shape}",
                )
            picked: NDArray[Any] = np.broadcast_to(values, shape)[source, target]
            return picked

        return cls(
            names,
            source=source,
            target=target,
            score=values[source, target],
            n_examples=pick("n_examples", n_examples),
            standard_error=pick("standard_error", standard_error),
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
        return TransferScores(
            chosen,
            source=source[kept],
            target=target[kept],
            score=self.score[kept],
            n_examples=None if self.n_examples is None else self.n_examples[kept],
            standard_error=None if self.standard_error is None else self.standard_error[kept],
            kind=self.kind,
        )

    def merged_with(self, other: TransferScores) -> TransferScores:
        """Give all scores of both: later measurements, or further tasks.

        The tasks of `other` that are new come behind. A pair that both have must be equal in both. Where
        only one of them knows `n_examples`, those of the other are 0: not known.

        Raises
        ------
        DataError
            If the kinds differ, a pair has two different scores, or only one of them has standard errors.
        """
        if self.kind != other.kind:
            raise DataError("scores of two kinds cannot be merged", got=f"{self.kind} and {other.kind}")
        if (self.standard_error is None) != (other.standard_error is None):
            raise DataError(
                "only one of the two has standard errors", todo="give both their standard errors, or none"
            )
        names = tuple(dict.fromkeys(self.task_names + other.task_names))
        number_of = {name: number for number, name in enumerate(names)}
        new_number = np.array([number_of[name] for name in other.task_names], dtype=np.int64)
        source = np.concatenate([self.source, new_number[other.source]])
        target = np.concatenate([self.target, new_number[other.target]])
        columns = {
            "source": source,
            "target": target,
            "score": np.concatenate([self.score, other.score]),
        }
        if self.n_examples is not None or other.n_examples is not None:
            known = (one.n_examples for one in (self, other))
            lengths = (len(self), len(other))
            columns["n_examples"] = np.concatenate(
                [
                    np.zeros(length, np.int64) if n is None else n
                    for n, length in zip(known, lengths, strict=True)
                ]
            )
        if self.standard_error is not None and other.standard_error is not None:
            columns["standard_error"] = np.concatenate([self.standard_error, other.standard_error])
        columns = sort_columns(columns, len(names))
        # A pair that is equal in both is kept once; what is left of pairs that are there twice differs, and
        # the constructor refuses it.
        kept = np.zeros(len(source), dtype=np.bool_)
        kept[:1] = True
        for column in columns.values():
            kept[1:] |= column[1:] != column[:-1]
        return TransferScores(
            names,
            source=columns["source"][kept],
            target=columns["target"][kept],
            score=columns["score"][kept],
            n_examples=columns["n_examples"][kept] if "n_examples" in columns else None,
            standard_error=columns["standard_error"][kept] if "standard_error" in columns else None,
            kind=self.kind,
        )

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
        """Judge the scores by themselves: do two directions agree, and how much is the donor's doing."""
        entries = np.flatnonzero(self.off_diagonal)
        columns = standardise_columns(self.target[entries], self.score[entries], n_tasks=self.n_tasks)
        used = columns.has_spread[self.target[entries]]
        Z = np.full(len(self), np.nan)
        Z[entries[used]] = columns.standardised[used]
        entries = entries[used]
        row, z = self.source[entries], Z[entries]
        without_donors = Z.copy()
        without_donors[entries] = z - row_means(row, z, self.n_tasks)[row]

        pairs = self.pairs()
        both = (pairs.forward >= 0) & (pairs.backward >= 0)
        forward, backward = pairs.forward[both], pairs.backward[both]
        both = ~(np.isnan(Z[forward]) | np.isnan(Z[backward]))
        forward, backward = forward[both], backward[both]
        return ScoreReliability(
            reciprocity=correlate_both_orders(Z[forward], Z[backward]),
            reciprocity_without_donors=correlate_both_orders(
                without_donors[forward], without_donors[backward]
            ),
            donor_share=share_of_rows(row, z, self.n_tasks),
            n_pairs=len(forward),
            n_scores=len(entries),
        )

    def write_csv(self, path: str | Path) -> None:
        """Write the scores to a file that `read_scores` reads back to the letter; see there for its form.

        The names of the tasks are written as they are, in quotes: a program that takes a cell beginning with
        ``=`` for a formula will take such a name for one.
        """
        from robusttc.scores.csv_files import write_scores

        write_scores(self, path)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over names, kind and every score: equal scores have equal hashes, on every machine."""
        digest = hashlib.sha256(b"robusttc-scores-1")
        for text in (self.kind, str(self.n_tasks), *self.task_names):
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        for whole in (self.source, self.target, self.n_examples):
            digest.update(b"-" if whole is None else whole.astype("<i8").tobytes())
        for real in (self.score, self.standard_error):
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

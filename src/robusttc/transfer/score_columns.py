"""The columns of transfer scores: checks that name task and value, statistics, and how reliable they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import is_unicode
from robusttc.errors import DataError, quote

if TYPE_CHECKING:
    from robusttc.transfer.scores import TransferScores

__all__ = [
    "ENDS",
    "HALVES",
    "ColumnStatistics",
    "Columns",
    "ScoreReliability",
    "as_array",
    "assess_reliability",
    "average_duplicates",
    "check_columns",
    "check_names",
    "correlate",
    "correlate_both_orders",
    "duplicate_mask",
    "find_faults",
    "is_task_name",
    "refuse_duplicates",
    "row_means",
    "sort_columns",
    "standardise_columns",
]

ENDS = ("source", "target")
HALVES = ("first_half", "second_half")  # both or neither
MAX_SCORE = 1e150  # beyond, the square of a score overflows
FINITE = (-MAX_SCORE, MAX_SCORE, "a finite number")
# The lowest and the highest value of each column, and what is expected.
RANGES: dict[str, tuple[float, float, str]] = {
    "score": FINITE,
    "n_examples": (0, 2**53, "0 (not known) or more"),
    "standard_error": (0, MAX_SCORE, "a finite number, 0 or more"),
    **dict.fromkeys(HALVES, FINITE),
}
ACCURACY = (0, 1, "from 0 to 1, or another kind of score")
# A column whose scores differ by less than this share of their size is constant up to rounding.
CONSTANT = 1e-12
# Scores nearer to a threshold than this share of the column's range are on it: the order in which a mean was
# summed up must not decide. The second number is the rounding of the scores themselves.
TIE_OF_RANGE = 1e-10
TIE_OF_SIZE = 1e-15
MIN_PAIRS = 3  # a correlation over fewer says nothing

Columns = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


def check_names(task_names: Sequence[str]) -> tuple[str, ...]:
    """Refuse task names that are empty, not strings, or not unique."""
    if isinstance(task_names, str):
        raise DataError("the task names are one string", got=quote(task_names), expected="a list of names")
    names = tuple(task_names)
    if not names:
        raise DataError("there are no tasks", expected="at least one task name")
    seen: set[str] = set()
    for number, name in enumerate(names):
        if not is_task_name(name):
            raise DataError(
                "the name of a task is not usable",
                where=f"task {number}",
                got=quote(name),
                expected="a non-empty string of Unicode text",
            )
        if name in seen:
            raise DataError("two tasks have the same name", got=quote(name), expected="unique names")
        seen.add(name)
    return names


def is_task_name(name: object) -> bool:
    """Return whether a value can name a task: a string that is not blank and can be written as UTF-8."""
    return isinstance(name, str) and bool(name.strip()) and is_unicode(name)


def as_array(name: str, values: ArrayLike, *, whole: bool = False, n_dimensions: int = 1) -> NDArray[Any]:
    """Return the caller's values as a new array of float64, or of int64 if they must be whole numbers."""
    form = "list" if n_dimensions == 1 else "square matrix"
    try:
        array = np.array(values, dtype=np.int64 if np.shape(values) == (0,) else None)
        if array.dtype.kind not in ("iu" if whole else "iuf") or array.ndim != n_dimensions:
            raise ValueError(f"{array.dtype} of shape {array.shape}")
    except ValueError as error:
        expected = f"a {form} of {'whole ' if whole else ''}numbers"
        raise DataError(f"{name} cannot be used", got=str(error), expected=expected) from None
    return array.astype(np.int64 if whole else np.float64)


def check_columns(names: tuple[str, ...], columns: Columns, kind: str) -> None:
    """Refuse columns that are not scores, naming tasks and value."""
    given = [name for name in HALVES if name in columns]
    if len(given) == 1:
        raise DataError(
            "only one of the two halves of the scores is given",
            got=given[0],
            expected=" and ".join(HALVES),
            todo="give both, or neither",
        )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise DataError("the columns of the scores differ in length", got=got, expected="equal lengths")
    for name, places, expected in find_faults(columns, len(names), kind):
        first, more = places[0], len(places) - 1
        ends = [int(columns[end][first]) for end in ENDS]
        source, target = (
            quote(names[end]) if 0 <= end < len(names) else f"task number {end}" for end in ends
        )
        raise DataError(
            f"the {name} is out of its range",
            where=f"score {first}, {source} → {target}",
            got=f"{columns[name][first]}" + (f" (and {more:,} more such scores)" if more else ""),
            expected=expected,
        )


def find_faults(columns: Columns, n_tasks: int, kind: str) -> Iterator[tuple[str, list[int], str]]:
    """Yield each column with values out of its range, their positions, and what is expected."""
    ends = dict.fromkeys(ENDS, (0, n_tasks - 1, f"from 0 to {n_tasks - 1:,}"))
    for name, values in columns.items():
        low, high, expected = {**RANGES, **ends}[name]
        if kind == "accuracy" and name == "score":
            low, high, expected = ACCURACY
        bad = ~((values >= low) & (values <= high))
        if bad.any():
            yield name, np.flatnonzero(bad).tolist(), expected


def sort_columns(columns: Columns, n_tasks: int) -> Columns:
    """Return the scores in the order of (source, target)."""
    order = np.argsort(columns["source"] * n_tasks + columns["target"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def duplicate_mask(columns: Columns) -> NDArray[np.bool_]:
    """Return which of the sorted scores are of the same pair as the score before."""
    is_again = np.zeros(len(columns["score"]), dtype=np.bool_)
    source, target = columns["source"], columns["target"]
    is_again[1:] = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    return is_again


def refuse_duplicates(names: tuple[str, ...], columns: Columns) -> None:
    """Refuse a pair that was measured twice, naming tasks and values."""
    is_again = duplicate_mask(columns)
    if is_again.any():
        place = int(np.argmax(is_again))
        source, target = names[columns["source"][place]], names[columns["target"][place]]
        raise DataError(
            "a pair has more than one score",
            where=f"{quote(source)} → {quote(target)}",
            got=" and ".join(
                ", ".join(f"{name} {column[m]}" for name, column in columns.items() if name not in ENDS)
                for m in (place - 1, place)
            ),
            expected="one score per pair",
            todo='leave out all but one, or average them: TransferScores(..., duplicates="average")',
        )


def average_duplicates(columns: Columns) -> Columns:
    """Replace the scores of a pair that was measured more than once by their mean; see `TransferScores`."""
    is_again = duplicate_mask(columns)
    if not is_again.any():
        return columns
    first = np.flatnonzero(~is_again)
    group = np.cumsum(~is_again) - 1
    n_examples = columns.get("n_examples", np.zeros(len(is_again), dtype=np.int64))
    known = np.minimum.reduceat(n_examples, first) > 0
    weight = np.where(known[group], n_examples, 1).astype(np.float64)
    weight /= np.add.reduceat(weight, first)[group]
    averaged = {name: column[first] for name, column in columns.items()}
    for name in {"score", *HALVES} & columns.keys():
        # Rounding must not take the mean of equal scores away from them, nor an accuracy above 1.
        lowest, highest = (reduce.reduceat(columns[name], first) for reduce in (np.minimum, np.maximum))
        averaged[name] = np.clip(np.add.reduceat(weight * columns[name], first), lowest, highest)
    if "n_examples" in columns:
        averaged["n_examples"] = np.where(known, np.add.reduceat(n_examples, first), 0)
    if "standard_error" in columns:
        squares = (weight * columns["standard_error"]) ** 2
        averaged["standard_error"] = np.sqrt(np.add.reduceat(squares, first))
    return averaged


# --- Statistics, and how far scores can be trusted


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """What `standardise_columns` returns: `standardised` has one number per entry, all else one per column.

    `mean` and `deviation` (population, as `numpy.std`) are NaN in a column without entries. `standardised` is
    an entry's distance from the mean of its column in standard deviations, 0 in a column without spread;
    numbers that are nearer to each other than `tie` are the same up to rounding.
    """

    count: Numbers
    mean: Floats
    deviation: Floats
    has_spread: NDArray[np.bool_]
    standardised: Floats
    tie: Floats


@dataclass(frozen=True)
class ScoreReliability:
    """How far scores can be trusted, from the scores themselves.

    Z is S with every column (target) standardised by its own mean and standard deviation; the diagonal and
    columns without spread are left out. "Without donors" means without the main effect of the source (how
    good it is for every target): row means are subtracted. What cannot be computed from so few scores, or
    scores without spread, is None.

    Attributes
    ----------
    reciprocity, reciprocity_without_donors
        Correlation of Z_ij with Z_ji over the pairs measured both ways, every pair entered in both orders.
    donor_share
        The share of the variance of Z that belongs to the source alone, by the one-way analysis of variance
        with r rows, N entries, k_i entries in row i: ``v = (MS_between - MS_within) / k0``,
        ``share = v / (v + MS_within)``, at least 0, where ``k0 = (N - sum(k_i**2) / N) / (r - 1)``. The plain
        share of the row means would be about r / N for pure noise; this is about 0.
    n_pairs, n_scores
        The number of pairs measured both ways, and of scores, that were used.
    split_half, split_half_without_donors
        Where the scores come with their two halves: the correlation between the halves over all scores, each
        half standardised like Z. It is the reliability of half a score.
    """

    reciprocity: float | None
    reciprocity_without_donors: float | None
    donor_share: float | None
    n_pairs: int
    n_scores: int
    split_half: float | None = None
    split_half_without_donors: float | None = None

    @property
    def split_half_corrected(self) -> float | None:
        """The reliability of the whole score by Spearman and Brown: 2r / (1 + r), r without donors."""
        r = self.split_half_without_donors
        return None if r is None or r <= -1 else 2 * r / (1 + r)


def standardise_columns(target: Numbers, value: Floats, *, n_tasks: int) -> ColumnStatistics:
    """Standardise the columns of a sparse matrix, of which `target` has the column of each entry."""
    count = np.bincount(target, minlength=n_tasks)
    lowest = np.full(n_tasks, np.inf)
    highest = np.full(n_tasks, -np.inf)
    np.minimum.at(lowest, target, value)
    np.maximum.at(highest, target, value)
    empty = count == 0
    lowest[empty] = highest[empty] = 0.0
    size = np.maximum(np.abs(lowest), np.abs(highest))
    extent = highest - lowest
    has_spread = extent > CONSTANT * size
    # From 0 to 1 within each column: a constant column becomes exactly 0, and squares neither overflow nor
    # vanish, whatever the unit of the scores.
    unit = np.where(extent > 0, extent, 1.0)
    scaled = (value - lowest[target]) / unit[target]
    divisor = np.maximum(count, 1)
    scaled_mean = np.bincount(target, scaled, minlength=n_tasks) / divisor
    scaled -= scaled_mean[target]
    scaled_deviation = np.sqrt(np.bincount(target, scaled**2, minlength=n_tasks) / divisor)
    divisor = np.where(has_spread, scaled_deviation, 1.0)
    scaled /= divisor[target]
    scaled[~has_spread[target]] = 0.0
    return ColumnStatistics(
        count=count,
        mean=np.where(empty, np.nan, lowest + unit * scaled_mean),
        deviation=np.where(empty, np.nan, unit * scaled_deviation),
        has_spread=has_spread,
        standardised=scaled,
        tie=(TIE_OF_RANGE + TIE_OF_SIZE * size / unit) / divisor,
    )


def row_means(row: Numbers, value: Floats, n_tasks: int) -> Floats:
    """Return the mean of each row over its entries; 0 for a row without any."""
    return np.bincount(row, value, minlength=n_tasks) / np.maximum(np.bincount(row, minlength=n_tasks), 1)


def assess_reliability(scores: TransferScores) -> ScoreReliability:
    """Compute what `ScoreReliability` describes."""
    n_tasks = scores.n_tasks
    entries = np.flatnonzero(scores.off_diagonal)
    columns = standardise_columns(scores.target[entries], scores.score[entries], n_tasks=n_tasks)
    used = columns.has_spread[scores.target[entries]]
    entries, z = entries[used], columns.standardised[used]
    row = scores.source[entries]
    Z, without_donors = np.full((2, len(scores)), np.nan)
    Z[entries] = z
    without_donors[entries] = z - row_means(row, z, n_tasks)[row]

    pairs = scores.pairs()
    both = (pairs.forward >= 0) & (pairs.backward >= 0)
    both[both] = np.isfinite(Z[pairs.forward[both]] + Z[pairs.backward[both]])
    forward, backward = pairs.forward[both], pairs.backward[both]
    split_half, split_half_without_donors = compare_halves(scores)
    return ScoreReliability(
        reciprocity=correlate_both_orders(Z[forward], Z[backward]),
        reciprocity_without_donors=correlate_both_orders(without_donors[forward], without_donors[backward]),
        donor_share=share_of_rows(row, z, n_tasks),
        n_pairs=len(forward),
        n_scores=len(entries),
        split_half=split_half,
        split_half_without_donors=split_half_without_donors,
    )


def compare_halves(scores: TransferScores) -> tuple[float | None, float | None]:
    """Correlate the two halves of the scores: as they are, and without row means."""
    if scores.first_half is None or scores.second_half is None:
        return None, None
    entries, n_tasks = scores.off_diagonal, scores.n_tasks
    source, target = scores.source[entries], scores.target[entries]
    halves = [
        standardise_columns(target, half[entries], n_tasks=n_tasks)
        for half in (scores.first_half, scores.second_half)
    ]
    used = (halves[0].has_spread & halves[1].has_spread)[target]
    row = source[used]
    first, second = (half.standardised[used] for half in halves)
    centred = [z - row_means(row, z, n_tasks)[row] for z in (first, second)]
    return correlate(first, second), correlate(*centred)


def correlate(one: Floats, other: Floats) -> float | None:
    """Return the Pearson correlation of standardised values; None where there is too little spread."""
    if len(one) < MIN_PAIRS:
        return None
    one, other = one - one.mean(), other - other.mean()
    variances = float(one @ one), float(other @ other)
    if min(variances) <= CONSTANT**2 * len(one):
        return None
    return float(np.clip(one @ other / np.sqrt(variances[0] * variances[1]), -1.0, 1.0))


def correlate_both_orders(one: Floats, other: Floats) -> float | None:
    """Correlate two directions, every pair entered in both orders; None as in `correlate`."""
    if len(one) < MIN_PAIRS:
        return None
    return correlate(np.concatenate([one, other]), np.concatenate([other, one]))


def share_of_rows(row: Numbers, z: Floats, n_tasks: int) -> float | None:
    """Estimate the share of the variance that belongs to the rows; see `ScoreReliability`."""
    count = np.bincount(row, minlength=n_tasks)
    n_rows, n_entries = int(np.count_nonzero(count)), len(z)
    if n_rows < 2 or n_entries <= n_rows:
        return None
    means = row_means(row, z, n_tasks)
    within = float(((z - means[row]) ** 2).sum()) / (n_entries - n_rows)
    between = float((count * (means - z.mean()) ** 2).sum()) / (n_rows - 1)
    entries_per_row = (n_entries - float((count.astype(float) ** 2).sum()) / n_entries) / (n_rows - 1)
    of_rows = max(0.0, (between - within) / entries_per_row)
    return of_rows / (of_rows + within)

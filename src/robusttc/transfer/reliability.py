"""Column statistics of transfer scores, and how far the scores can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from robusttc.transfer.scores import TransferScores

__all__ = [
    "ColumnStatistics",
    "ScoreReliability",
    "assess_reliability",
    "correlate",
    "correlate_both_orders",
    "row_means",
    "standardise_columns",
]

# A column whose scores differ by less than this share of their size is constant up to rounding.
CONSTANT = 1e-12
# Scores nearer to a threshold than this share of the column's range are on it: the order in which a mean was
# summed up must not decide. The second number is the rounding of the scores themselves.
TIE_OF_RANGE = 1e-10
TIE_OF_SIZE = 1e-15
MIN_PAIRS = 3  # a correlation over fewer says nothing

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


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


def standardise_columns(
    target: Numbers, value: Floats, *, n_tasks: int, size: Floats | None = None
) -> ColumnStatistics:
    """Standardise the columns of a sparse matrix, of which `target` has the column of each entry.

    `size` is for each column the size of the numbers that the values were computed from, to distinguish
    spread from rounding; None takes the largest absolute value of the column.
    """
    count = np.bincount(target, minlength=n_tasks)
    lowest = np.full(n_tasks, np.inf)
    highest = np.full(n_tasks, -np.inf)
    np.minimum.at(lowest, target, value)
    np.maximum.at(highest, target, value)
    empty = count == 0
    lowest[empty] = highest[empty] = 0.0
    if size is None:
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
    scaled /= np.where(has_spread, scaled_deviation, 1.0)[target]
    scaled[~has_spread[target]] = 0.0
    tie = (TIE_OF_RANGE + TIE_OF_SIZE * size / unit) / np.where(has_spread, scaled_deviation, 1.0)
    return ColumnStatistics(
        count=count,
        mean=np.where(empty, np.nan, lowest + unit * scaled_mean),
        deviation=np.where(empty, np.nan, unit * scaled_deviation),
        has_spread=has_spread,
        standardised=scaled,
        tie=tie,
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

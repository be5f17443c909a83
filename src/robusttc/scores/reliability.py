"""How far scores can be trusted, judged by the scores themselves: directions, halves, donors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robusttc.scores.statistics import (
    ScoreReliability,
    correlate,
    correlate_both_orders,
    row_means,
    share_of_rows,
    standardise_columns,
)

if TYPE_CHECKING:
    from robusttc.scores.transfer_scores import TransferScores

__all__ = ["judge_scores"]


def judge_scores(scores: TransferScores) -> ScoreReliability:
    """Compute what `ScoreReliability` describes."""
    n_tasks = scores.n_tasks
    entries = np.flatnonzero(scores.off_diagonal)
    columns = standardise_columns(scores.target[entries], scores.score[entries], n_tasks=n_tasks)
    used = columns.has_spread[scores.target[entries]]
    Z = np.full(len(scores), np.nan)
    Z[entries[used]] = columns.standardised[used]
    entries = entries[used]
    row, z = scores.source[entries], Z[entries]
    without_donors = Z.copy()
    without_donors[entries] = z - row_means(row, z, n_tasks)[row]

    pairs = scores.pairs()
    both = (pairs.forward >= 0) & (pairs.backward >= 0)
    forward, backward = pairs.forward[both], pairs.backward[both]
    both = ~(np.isnan(Z[forward]) | np.isnan(Z[backward]))
    forward, backward = forward[both], backward[both]
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
    """Correlate the two halves of the scores: as they are, and without the donor effect."""
    if scores.first_half is None or scores.second_half is None:
        return None, None
    entries = scores.off_diagonal
    source, target = scores.source[entries], scores.target[entries]
    halves = [
        standardise_columns(target, half[entries], n_tasks=scores.n_tasks)
        for half in (scores.first_half, scores.second_half)
    ]
    used = (halves[0].has_spread & halves[1].has_spread)[target]
    row = source[used]
    first, second = (half.standardised[used] for half in halves)

    def remove_donors(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return z - row_means(row, z, scores.n_tasks)[row]

    return correlate(first, second), correlate(remove_donors(first), remove_donors(second))

"""Scores to comparable values: every target's scores get mean 0 and standard deviation 1.

A target that is hard, or whose scores have another unit, then counts like any other: adding a constant to the
scores of a target, or multiplying them by a positive number, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from robusttc.clustering.problem import Floats
from robusttc.scores import TransferScores

__all__ = ["METHODS", "Standardised", "choose_method", "standardise"]

METHODS = ("auto", "standard", "rank")
CLIP = 3.0
MIN_ENTRIES = 3  # two scores of a target are always one high and one low, whatever they are
WILD = 8.0  # a score so many robust standard deviations away has no say in mean and standard deviation
SKEWED = 1.5
MODEL_VARIANCE = 0.5  # typical variance of standardised scores that the program does not explain


@dataclass(frozen=True, eq=False)
class Standardised:
    """Standardised scores of pairs of different tasks.

    Attributes
    ----------
    n
        The number of tasks.
    rows, columns, values, weights
        Source, target, standardised score and weight of each score that can be used.
    places
        The position of each in the arrays of the scores.
    center, spread
        Mean and standard deviation of each target's scores; NaN where they cannot be standardised.
    method
        ``standard`` or ``rank``.
    quantiles
        With ``rank``: for each target its sorted normal scores and scores.
    """

    n: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Floats
    weights: Floats
    places: NDArray[np.int64]
    center: Floats
    spread: Floats
    method: str
    quantiles: dict[int, tuple[Floats, Floats]]

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which targets can be standardised: three scores or more that differ."""
        return np.isfinite(self.spread)

    def apply(self, columns: NDArray[np.int64], scores: Floats) -> Floats:
        """Standardise other scores of the same targets; NaN for targets that cannot be standardised."""
        if self.method == "standard":
            return np.clip((scores - self.center[columns]) / self.spread[columns], -CLIP, CLIP)
        out = np.full(len(scores), np.nan)
        for column, (normal, known) in self.quantiles.items():
            chosen = columns == column
            out[chosen] = np.interp(scores[chosen], known, normal)
        return out

    def to_scores(self, columns: NDArray[np.int64], values: Floats) -> Floats:
        """Return standardised values in the units of the scores."""
        if self.method == "standard":
            return np.asarray(self.center[columns] + self.spread[columns] * values)
        out = np.full(len(values), np.nan)
        for column, (normal, known) in self.quantiles.items():
            chosen = columns == column
            out[chosen] = np.interp(values[chosen], normal, known)
        return out


def standardise(
    scores: TransferScores, *, method: str = "auto", places: NDArray[np.int64] | None = None
) -> Standardised:
    """Standardise the scores at some positions (all by default), target by target.

    Parameters
    ----------
    scores
        The transfer scores.
    method
        ``standard``: less the mean, divided by the standard deviation, clipped at 3; a score more than 8
        robust standard deviations from the median has no say in either. ``rank``: normal scores of the ranks,
        for scores with long tails. ``auto``: ``rank`` if the scores of the targets are strongly skewed.
    places
        Positions in the arrays of the scores.
    """
    if places is None:
        places = np.arange(len(scores))
    places = places[scores.source[places] != scores.target[places]]
    target, score = scores.target[places], scores.score[places]
    if method == "auto":
        method = choose_method(scores)
    order = np.argsort(target, kind="stable")
    starts = np.searchsorted(target[order], np.arange(scores.n_tasks + 1))
    n = scores.n_tasks
    center, spread, values = np.full(n, np.nan), np.full(n, np.nan), np.zeros(len(places))
    quantiles: dict[int, tuple[Floats, Floats]] = {}
    for column in range(n):
        own = order[starts[column] : starts[column + 1]]
        own_scores = score[own]
        if len(own) < MIN_ENTRIES or not has_spread(own_scores):
            continue
        tame = own_scores[~is_wild(own_scores)]
        size = float(np.abs(tame).max())  # scores of a tiny unit would vanish when they are squared
        deviation = size * float((tame / size).std())
        if not deviation > 0:
            continue
        center[column], spread[column] = tame.mean(), deviation
        if method == "rank":
            ranks = rankdata(own_scores)
            normal = norm.ppf((ranks - 0.375) / (len(own) + 0.25))
            normal /= max(float(normal.std()), 1e-12)
            known, first = np.unique(own_scores, return_index=True)
            quantiles[column] = (normal[first], known)
            values[own] = normal
        else:
            values[own] = np.clip((own_scores - center[column]) / spread[column], -CLIP, CLIP)
    kept = np.isfinite(spread)[target]
    weights = weigh(scores, places, spread[target])[kept]
    return Standardised(
        n,
        scores.source[places][kept],
        target[kept],
        values[kept],
        weights,
        places[kept],
        center,
        spread,
        method,
        quantiles,
    )


def has_spread(values: Floats) -> bool:
    """Return whether values differ by more than rounding."""
    return float(np.ptp(values)) > 1e-12 * float(np.abs(values).max())


def is_wild(values: Floats) -> NDArray[np.bool_]:
    """Return which values are far outside of the bulk of the others, in robust standard deviations."""
    away = np.abs(values - np.median(values))
    typical = 1.4826 * float(np.median(away))
    wild = away > WILD * typical if typical > 0 else np.zeros(len(values), dtype=np.bool_)
    return wild if has_spread(values[~wild]) else np.zeros(len(values), dtype=np.bool_)


def weigh(scores: TransferScores, places: NDArray[np.int64], spread: Floats) -> Floats:
    """Return weights of mean 1 from the standard errors, or ones where there are none."""
    if scores.standard_error is None:
        return np.ones(len(places))
    with np.errstate(invalid="ignore"):
        noise = np.nan_to_num(scores.standard_error[places] / spread) ** 2
    weights = MODEL_VARIANCE / (MODEL_VARIANCE + noise)
    return np.asarray(weights / max(float(weights.mean()), 1e-12)) if len(weights) else weights


def choose_method(scores: TransferScores) -> str:
    """Return ``rank`` if the scores of a typical target are strongly skewed, else ``standard``."""
    off = scores.off_diagonal
    target, score = scores.target[off], scores.score[off]
    n = scores.n_tasks
    count = np.maximum(np.bincount(target, minlength=n), 1)
    mean = np.bincount(target, weights=score, minlength=n) / count
    away = score - mean[target]
    second = np.bincount(target, weights=away**2, minlength=n) / count
    third = np.bincount(target, weights=away**3, minlength=n) / count
    usable = (count >= 8) & (second > 1e-24 * np.maximum(mean**2, 1e-300))
    if not usable.any():
        return "standard"
    skewness = third[usable] / second[usable] ** 1.5
    return "rank" if float(np.median(np.abs(skewness))) > SKEWED else "standard"

"""Scores to comparable values: every target's scores get mean 0 and standard deviation 1.

A target that is hard, or whose scores have another unit, then counts like any other: adding a constant to the
scores of a target, or multiplying them by a positive number, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median
from scipy.stats import norm, rankdata

from robusttc.clustering.problem import Floats, Numbers
from robusttc.transfer import TransferScores, row_means

__all__ = ["METHODS", "Standardised", "choose_method", "standardise"]

METHODS = ("auto", "standard", "rank")
CLIP = 3.0
MIN_ENTRIES = 3  # two scores of a target are always one high and one low, whatever they are
WILD = 8.0  # a score so many robust standard deviations away has no say in mean and standard deviation
SKEWED = 1.5
MODEL_VARIANCE = 0.5  # typical variance of standardised scores that the program does not explain


@dataclass(frozen=True, eq=False)
class Standardised:
    """Standardised scores of pairs of different tasks, of targets that can be standardised."""

    n: int
    rows: Numbers  # the source of each score
    columns: Numbers  # its target
    values: Floats
    weights: Floats
    places: Numbers  # its position in the arrays of the scores
    center: Floats  # the mean of each target's scores; NaN where they cannot be standardised
    spread: Floats  # their standard deviation
    method: str
    quantiles: dict[int, tuple[Floats, Floats]]  # with `rank`: sorted normal scores and scores of each target

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which targets can be standardised: three scores or more that differ."""
        return np.isfinite(self.spread)

    def adjusted(self, scores: TransferScores, expected: Floats, variance: Floats) -> Standardised:
        """Return the scores in the unit of all sources of a target, not of those it was measured with.

        Sources that serve everybody well, or tasks of one group, may happen to be many among the measured
        ones. The new value a + b z of a target's scores has the largest likelihood given that it is normal
        around the expected value (of mean 0 over all sources of the target) with the target's variance.
        """
        columns, n = self.columns.astype(np.int64), self.n
        count = np.maximum(np.bincount(columns, minlength=n), 1)
        z_mean, mean = row_means(columns, self.values, n), row_means(columns, expected, n)
        z, around = self.values - z_mean[columns], expected - mean[columns]
        squares = np.bincount(columns, weights=z**2, minlength=n)
        products = np.bincount(columns, weights=z * around, minlength=n)
        root = np.sqrt(products**2 + 4 * count * variance * squares)
        slope = (products + root) / (2 * np.where(squares > 0, squares, 1.0))
        spread = self.spread / np.where(squares > 0, slope, 1.0)
        center = self.center + self.spread * z_mean - spread * mean
        values = np.clip((scores.score[self.places] - center[columns]) / spread[columns], -CLIP, CLIP)
        return replace(self, values=values, center=center, spread=spread)

    def apply(self, columns: Numbers, scores: Floats) -> Floats:
        """Standardise other scores of the same targets; NaN for targets that cannot be standardised."""
        if self.method == "rank":
            return self._interpolate(columns, scores, to_scores=False)
        return np.clip((scores - self.center[columns]) / self.spread[columns], -CLIP, CLIP)

    def to_scores(self, columns: Numbers, values: Floats) -> Floats:
        """Return standardised values in the units of the scores."""
        if self.method == "rank":
            return self._interpolate(columns, values, to_scores=True)
        return np.asarray(self.center[columns] + self.spread[columns] * values)

    def _interpolate(self, columns: Numbers, given: Floats, *, to_scores: bool) -> Floats:
        out = np.full(len(given), np.nan)
        for column, (normal, known) in self.quantiles.items():
            chosen = columns == column
            ends = (normal, known) if to_scores else (known, normal)
            out[chosen] = np.interp(given[chosen], *ends)
        return out


def standardise(
    scores: TransferScores, *, method: str = "auto", places: Numbers | None = None
) -> Standardised:
    """Standardise the scores at some positions (all by default), target by target.

    The method ``standard`` subtracts the mean and divides by the standard deviation, clipped at 3; a score
    more than 8 robust standard deviations from the median has no say in either. ``rank`` takes normal scores
    of the ranks, for scores with long tails; ``auto`` takes ranks if the targets' scores are strongly skewed.
    """
    if places is None:
        places = np.arange(len(scores), dtype=np.int32)
    places = places[scores.source[places] != scores.target[places]]
    target, score = scores.target[places].astype(np.int32), scores.score[places]
    if method == "auto":
        method = choose_method(scores)
    n = scores.n_tasks
    is_wild = find_wild(target, score, n)
    center, spread = column_moments(target[~is_wild], score[~is_wild], n)
    spread[np.bincount(target, minlength=n) < MIN_ENTRIES] = np.nan
    kept = np.isfinite(spread)[target]
    places, target, score = places[kept], target[kept], score[kept]
    quantiles: dict[int, tuple[Floats, Floats]] = {}
    if method == "rank":
        values, quantiles = normal_scores(target, score)
    else:
        values = np.clip((score - center[target]) / spread[target], -CLIP, CLIP)
    weights = weigh(scores, places, spread[target])
    source = scores.source[places].astype(np.int32)
    return Standardised(n, source, target, values, weights, places, center, spread, method, quantiles)


def column_moments(target: Numbers, score: Floats, n: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each target's scores; NaN where they do not differ."""
    size = np.zeros(n)  # scores of a tiny unit would vanish when they are squared
    np.maximum.at(size, target, np.abs(score))
    scaled = score / np.where(size > 0, size, 1.0)[target]
    count = np.bincount(target, minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(target, weights=scaled, minlength=n) / count
        squares = np.bincount(target, weights=(scaled - mean[target]) ** 2, minlength=n)
        deviation = np.sqrt(squares / count)
    differs = deviation > 1e-12
    return np.where(differs, size * mean, np.nan), np.where(differs, size * deviation, np.nan)


def find_wild(target: Numbers, score: Floats, n: int) -> NDArray[np.bool_]:
    """Return which scores are far outside of the bulk of their target's, in robust standard deviations."""
    if not len(score):
        return np.zeros(0, dtype=np.bool_)
    away = np.abs(score - median(score, target, np.arange(n))[target])
    typical = 1.4826 * median(away, target, np.arange(n))[target]
    wild = (typical > 0) & (away > WILD * typical)
    is_left = np.isfinite(column_moments(target[~wild], score[~wild], n)[1])
    return np.asarray(wild & is_left[target])


def normal_scores(target: Numbers, score: Floats) -> tuple[Floats, dict[int, tuple[Floats, Floats]]]:
    """Return normal scores of the ranks within each target, and the quantiles of each target."""
    values = np.zeros(len(score))
    quantiles = {}
    order = np.argsort(target, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(target[order])) + 1) if len(order) else []:
        normal = norm.ppf((rankdata(score[own]) - 0.375) / (len(own) + 0.25))
        normal /= max(float(normal.std()), 1e-12)
        known, first = np.unique(score[own], return_index=True)
        quantiles[int(target[own[0]])] = (normal[first], known)
        values[own] = normal
    return values, quantiles


def weigh(scores: TransferScores, places: Numbers, spread: Floats) -> Floats:
    """Return weights of mean 1 from the standard errors, or ones where there are none."""
    if scores.standard_error is None:
        return np.broadcast_to(1.0, len(places))
    with np.errstate(invalid="ignore"):
        noise = np.nan_to_num(scores.standard_error[places] / spread) ** 2
    weights = MODEL_VARIANCE / (MODEL_VARIANCE + noise)
    return np.asarray(weights / max(float(weights.mean()), 1e-12)) if len(weights) else weights


def choose_method(scores: TransferScores) -> str:
    """Return ``rank`` if the scores of a typical target are strongly skewed, else ``standard``."""
    off = scores.off_diagonal
    target, score = scores.target[off], scores.score[off]
    n = scores.n_tasks
    count, mean = np.bincount(target, minlength=n), row_means(target, score, n)
    away = score - mean[target]
    second, third = row_means(target, away**2, n), row_means(target, away**3, n)
    usable = (count >= 8) & (second > 1e-24 * np.maximum(mean**2, 1e-300))
    if not usable.any():
        return "standard"
    skewness = third[usable] / second[usable] ** 1.5
    return "rank" if float(np.median(np.abs(skewness))) > SKEWED else "standard"

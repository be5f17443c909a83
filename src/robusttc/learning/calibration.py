"""Probabilities that can be trusted: one temperature for several tasks, and how far off they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UsageError, quote
from robusttc.learning.blending import check_probabilities

__all__ = ["Coverage", "coverage_at", "expected_calibration_error", "fit_temperature", "sharpen"]

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.05, 20.0
SMALLEST_PROBABILITY = 1e-12
HALVINGS = 45


def fit_temperature(
    probabilities: Sequence[NDArray[np.floating]], codes: Sequence[NDArray[np.integer]]
) -> float:
    """Find the temperature T that minimises the log-loss of ``p ** (1 / T)``, made to sum to 1.

    Every task counts alike, whatever its number of rows. In ``b = 1 / T`` the loss is convex, and its slope,
    the mean of ``log p`` under the sharpened distribution less ``log p`` of the right label, is brought to
    zero by halving between T = 0.05 and T = 20. At an end of that range, the end is the answer: a handful of
    rows that are all right would ask for T = 0.

    Parameters
    ----------
    probabilities
        One array (rows, labels) a task. Probabilities below 1e-12 count as 1e-12.
    codes
        The number of the right label of every row. A task without rows counts for nothing.

    Returns
    -------
    float
        The temperature; above 1 it softens. 1 where there are no rows at all, or labels to tell apart.

    Raises
    ------
    UsageError
        If the shapes do not fit.
    DataError
        If a value is not a probability, or a code is not that of a label.

    Examples
    --------
    >>> sure = np.array([[0.99, 0.01]] * 4)
    >>> round(fit_temperature([sure], [np.array([0, 0, 0, 1])]), 2)
    4.18
    """
    if len(probabilities) != len(codes):
        raise UsageError(
            "the probabilities are not of the same tasks",
            got=f"{len(probabilities)} arrays of probabilities, {len(codes)} of codes",
        )
    tables: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for task, (table, right) in enumerate(zip(probabilities, codes, strict=True)):
        checked = check_probabilities(table, right, where=f"task {task}")
        if len(checked):
            logs = np.log(np.maximum(checked, SMALLEST_PROBABILITY))
            tables.append((logs, logs[np.arange(len(logs)), np.asarray(right, dtype=np.intp)]))

    def slope(inverse: float) -> float:
        total = 0.0
        for logs, of_right in tables:
            scaled = np.exp(inverse * (logs - logs.max(axis=1, keepdims=True)))
            expected = (scaled * logs).sum(axis=1) / scaled.sum(axis=1)
            total += float((expected - of_right).mean())
        return total

    low, high = math.log(1 / HIGHEST_TEMPERATURE), math.log(1 / LOWEST_TEMPERATURE)
    if not tables or all((logs.max(axis=1) == logs.min(axis=1)).all() for logs, _ in tables):
        return 1.0
    if slope(math.exp(low)) >= 0.0:
        return HIGHEST_TEMPERATURE
    if slope(math.exp(high)) <= 0.0:
        return LOWEST_TEMPERATURE
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(math.exp(middle)) > 0.0 else (middle, high)
    return math.exp(-(low + high) / 2)


def sharpen(probabilities: ArrayLike, temperature: float) -> NDArray[np.float64]:
    """Give ``p ** (1 / temperature)``, made to sum to 1; the most probable label stays the same.

    Examples
    --------
    >>> sharpen([[0.8, 0.2]], 0.5).round(3).tolist()
    [[0.941, 0.059]]
    """
    if not (isinstance(temperature, int | float) and 0.0 < temperature < math.inf):
        raise UsageError(
            "the temperature cannot be used", got=quote(temperature), expected="a positive number"
        )
    table = np.array(probabilities, dtype=np.float64)
    if table.ndim != 2:
        raise UsageError(
            "the probabilities cannot be used", got=f"shape {table.shape}", expected="(rows, labels)"
        )
    if temperature == 1.0 or table.size == 0:
        return table
    with np.errstate(divide="ignore"):
        logs = np.log(table)
    sharp: NDArray[np.float64] = np.exp((logs - logs.max(axis=1, keepdims=True)) / temperature)
    sharp /= sharp.sum(axis=1, keepdims=True)
    # Two labels that differ in the last bits can become equal: the first of them must not win by that.
    rows, best = np.arange(len(table)), table.argmax(axis=1)
    moved = sharp.argmax(axis=1) != best
    sharp[rows[moved], best[moved]] = np.nextafter(sharp[moved].max(axis=1), 2.0)
    return sharp


def expected_calibration_error(confidence: ArrayLike, right: ArrayLike, *, n_bins: int = 15) -> float:
    """Give the mean distance of confidence and accuracy over bins of equal width, weighted by their rows.

    Parameters
    ----------
    confidence
        The probability of the label that was chosen, one a row.
    right
        Whether that label is right.
    n_bins
        How many bins from 0 to 1; a bin holds its upper end.

    Examples
    --------
    >>> round(expected_calibration_error([0.9, 0.9, 0.6, 0.6], [True, True, True, False]), 3)
    0.1
    """
    sure, hits = check_confidence(confidence, right)
    if not isinstance(n_bins, int) or n_bins < 1:
        raise UsageError("n_bins cannot be used", got=quote(n_bins), expected="an integer from 1 up")
    bins = np.clip(np.ceil(sure * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    distance = np.bincount(bins, weights=sure - hits, minlength=n_bins)
    return float(np.abs(distance).sum() / len(sure))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What abstaining below a threshold gives: the share of rows answered, and how many of these are right.

    `accuracy` is NaN where no row is answered.
    """

    threshold: float
    coverage: float
    accuracy: float

    def to_dict(self) -> dict[str, float | None]:
        """Give it as values for JSON, which has no NaN: that becomes None."""
        accuracy = None if math.isnan(self.accuracy) else self.accuracy
        return {"threshold": self.threshold, "coverage": self.coverage, "accuracy": accuracy}


def coverage_at(confidence: ArrayLike, right: ArrayLike, thresholds: Sequence[float]) -> tuple[Coverage, ...]:
    """Tell for each threshold how many rows are answered (confidence at or above it), and how well.

    Examples
    --------
    >>> coverage_at([0.9, 0.8, 0.3, 0.2], [True, True, False, True], [0.5])
    (Coverage(threshold=0.5, coverage=0.5, accuracy=1.0),)
    """
    sure, hits = check_confidence(confidence, right)
    answers = []
    for threshold in thresholds:
        answered = sure >= threshold
        accuracy = float(hits[answered].mean()) if answered.any() else math.nan
        answers.append(Coverage(float(threshold), float(answered.mean()), accuracy))
    return tuple(answers)


def check_confidence(
    confidence: ArrayLike, right: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Refuse confidences that are not one number from 0 to 1 a row, with a truth beside it."""
    sure, hits = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if sure.ndim != 1 or sure.shape != hits.shape or len(sure) == 0:
        raise UsageError(
            "the confidences cannot be used",
            got=f"shapes {sure.shape} and {hits.shape}",
            expected="one confidence and one truth a row, and at least one row",
        )
    # Sums of probabilities may be above 1 by rounding.
    if not ((sure >= 0.0) & (sure <= 1.0 + 1e-6)).all():
        raise DataError(
            "a confidence is not a probability", got=quote([float(sure.min()), float(sure.max())])
        )
    if not ((hits == 0.0) | (hits == 1.0)).all():
        raise DataError("a row is neither right nor wrong", expected="True or False")
    return sure, hits

"""Probabilities that can be trusted: temperature scaling, abstention, and the report on both.

The report, `TrustReport`, is the same for multi-task models (on their held-out rows) and for few-shot models
(on the queries of held-out tasks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UsageError, quote
from robusttc.models.blending import check_probabilities
from robusttc.models.out_of_scope import ScopeExample, measure_scope
from robusttc.params import Integer, Nothing, Number, check_param
from robusttc.stats import Estimate, mean_interval

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.05, 20.0
SMALLEST_PROBABILITY = 1e-12
# A temperature from fewer rows than these says more about the rows than about the model.
FEWEST_ROWS = 30
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)

# Held-out probabilities of one task, (rows, labels), and the codes of the right labels.
HeldOut = tuple[NDArray[np.floating], NDArray[np.integer]]


def fit_temperature(
    probabilities: Sequence[NDArray[np.floating]], codes: Sequence[NDArray[np.integer]]
) -> float:
    """Find the temperature T that minimises the log-loss of ``p ** (1 / T)``, scaled to sum 1.

    Every task counts the same, whatever its number of rows. In ``b = 1 / T`` the loss is convex; its minimum
    is looked for between T = 0.05 and T = 20. At an end of that range, the end is the result: a handful of
    rows that are all right would ask for T = 0.

    Above 1 it softens; it is 1 where there are no rows at all, or all labels look alike. `probabilities` has
    one array (rows, labels) per task, `codes` the right labels. Probabilities below 1e-12 count as 1e-12.

    Examples
    --------
    >>> sure = np.array([[0.99, 0.01]] * 4)
    >>> round(fit_temperature([sure], [np.array([0, 0, 0, 1])]), 2)
    4.18
    """
    from scipy.optimize import brentq

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
    if all((logs.max(axis=1) == logs.min(axis=1)).all() for logs, _ in tables):
        return 1.0

    def slope(log_inverse: float) -> float:
        total = 0.0
        for logs, of_right in tables:
            scaled = np.exp(math.exp(log_inverse) * (logs - logs.max(axis=1, keepdims=True)))
            total += float(((scaled * logs).sum(axis=1) / scaled.sum(axis=1) - of_right).mean())
        return total

    low, high = -math.log(HIGHEST_TEMPERATURE), -math.log(LOWEST_TEMPERATURE)
    if slope(low) >= 0.0:
        return HIGHEST_TEMPERATURE
    if slope(high) <= 0.0:
        return LOWEST_TEMPERATURE
    return math.exp(-brentq(slope, low, high, xtol=1e-12))


def find_temperature(rows: Sequence[HeldOut]) -> float:
    """Return the temperature of some tasks together; 1 where they have fewer than 30 rows."""
    if sum(len(codes) for _, codes in rows) < FEWEST_ROWS:
        return 1.0
    return fit_temperature([table for table, _ in rows], [codes for _, codes in rows])


def apply_temperature(probabilities: ArrayLike, temperature: float) -> NDArray[np.float64]:
    """Return ``p ** (1 / temperature)``, scaled to sum 1; the most probable label stays the same.

    Examples
    --------
    >>> apply_temperature([[0.8, 0.2]], 0.5).round(3).tolist()
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
    scaled: NDArray[np.float64] = np.exp((logs - logs.max(axis=1, keepdims=True)) / temperature)
    scaled /= scaled.sum(axis=1, keepdims=True)
    # Two labels that differ in the last bits can become equal: the first of them must not win by that.
    rows, best = np.arange(len(table)), table.argmax(axis=1)
    moved = scaled.argmax(axis=1) != best
    scaled[rows[moved], best[moved]] = np.nextafter(scaled[moved].max(axis=1), 2.0)
    return scaled


def check_threshold(abstain_below: float | None) -> float:
    """Return the probability below which nothing is predicted, 0 for None."""
    check_param("abstain_below", abstain_below, Nothing(), Number(0, 1))
    return float(abstain_below or 0.0)


def pick_labels(
    probabilities: NDArray[np.float64], label_names: Sequence[str], *, threshold: float = 0.0
) -> NDArray[np.object_]:
    """Return the most probable label of every row; None where its probability is below the threshold.

    Examples
    --------
    >>> pick_labels(np.array([[0.9, 0.1], [0.4, 0.6]]), ["x", "y"], threshold=0.7).tolist()
    ['x', None]
    """
    found: NDArray[np.object_] = np.array(label_names, dtype=object)[probabilities.argmax(axis=1)]
    found[probabilities.max(axis=1, initial=0.0) < threshold] = None
    return found


def expected_calibration_error(confidence: ArrayLike, right: ArrayLike, *, n_bins: int = 15) -> float:
    """Return the mean distance of confidence and accuracy over bins of equal width, weighted by their rows.

    `confidence` is the probability of the label that was chosen, `right` whether that is right. A bin holds
    its upper end.

    Examples
    --------
    >>> round(expected_calibration_error([0.9, 0.9, 0.6, 0.6], [True, True, True, False]), 3)
    0.1
    """
    sure, hits = check_confidence(confidence, right)
    check_param("n_bins", n_bins, Integer(1))
    bins = np.clip(np.ceil(sure * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    distance = np.bincount(bins, weights=sure - hits, minlength=n_bins)
    return float(np.abs(distance).sum() / len(sure))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What abstaining below a threshold costs and gives: the share of rows predicted, and their accuracy.

    `accuracy` is NaN where no row is predicted.
    """

    threshold: float
    coverage: float
    accuracy: float

    def to_dict(self) -> dict[str, float | None]:
        """Return it as values for JSON, which has no NaN: that becomes None."""
        accuracy = None if math.isnan(self.accuracy) else self.accuracy
        return {"threshold": self.threshold, "coverage": self.coverage, "accuracy": accuracy}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Coverage:
        """Rebuild it from what `to_dict` returned."""
        accuracy = math.nan if values["accuracy"] is None else float(values["accuracy"])
        return cls(float(values["threshold"]), float(values["coverage"]), accuracy)


def coverage_at(confidence: ArrayLike, right: ArrayLike, thresholds: Sequence[float]) -> tuple[Coverage, ...]:
    """Return for each threshold how many rows are predicted (confidence at or above it), and how well.

    Examples
    --------
    >>> coverage_at([0.9, 0.8, 0.3, 0.2], [True, True, False, True], [0.5])
    (Coverage(threshold=0.5, coverage=0.5, accuracy=1.0),)
    """
    sure, hits = check_confidence(confidence, right)
    found = []
    for threshold in thresholds:
        predicted = sure >= threshold
        accuracy = float(hits[predicted].mean()) if predicted.any() else math.nan
        found.append(Coverage(float(threshold), float(predicted.mean()), accuracy))
    return tuple(found)


def check_confidence(
    confidence: ArrayLike, right: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Refuse confidences that are not one number from 0 to 1 per row, with a truth beside it."""
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


@dataclass(frozen=True, slots=True)
class TrustReport:
    """How far the probabilities and out-of-scope scores of a trained model can be trusted.

    The expected calibration error is that without and with temperature scaling. For the second, the
    temperature is that of the other half of the tasks of a group: the one that serves has seen all of them.
    So are the coefficients behind `scope_auroc`: how well the out-of-scope score separates texts of other
    clusters from the task's own, mean over tasks; and those behind `scope_rejected`: which share of the
    task's own texts is above the threshold that promises 5 %.
    """

    n_rows: int  # held-out rows it is based on; without any, the rest is empty
    n_tasks: int
    error_before: float | None
    error_after: float | None
    coverage: tuple[Coverage, ...]  # for thresholds of `abstain_below`
    scope_auroc: Estimate | None  # None where it could not be measured
    scope_rejected: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        return {
            **asdict(self),
            "coverage": [one.to_dict() for one in self.coverage],
            "scope_auroc": None if self.scope_auroc is None else self.scope_auroc.to_dict(),
            "scope_rejected": None if self.scope_rejected is None else self.scope_rejected.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrustReport:
        """Rebuild it from what `to_dict` returned."""
        scope = [values["scope_auroc"], values["scope_rejected"]]
        return cls(
            values["n_rows"],
            values["n_tasks"],
            values["error_before"],
            values["error_after"],
            tuple(Coverage.from_dict(one) for one in values["coverage"]),
            *(None if found is None else Estimate.from_dict(found) for found in scope),
        )


def measure_trust(
    rows: Sequence[HeldOut], examples: Sequence[ScopeExample] = (), *, groups: Sequence[int] = ()
) -> TrustReport:
    """Report on held-out predictions; what is fitted is fitted on half of the tasks and used on the other.

    `rows` are, per task, held-out probabilities before temperature scaling, and codes; `examples` held-out
    texts for the out-of-scope score. Tasks of equal `groups` have one temperature; by default all have.

    Examples
    --------
    >>> unsure = np.tile([[0.6, 0.4]], (40, 1)), np.zeros(40, dtype=int)
    >>> report = measure_trust([unsure, unsure])
    >>> report.n_rows, report.n_tasks, round(report.error_before, 3), round(report.error_after, 3)
    (80, 2, 0.4, 0.0)
    """
    scope = [mean_interval(values) if values else None for values in measure_scope(examples)]
    before, after, right = [], [], []
    in_groups: dict[int, list[HeldOut]] = {}
    for one, group in zip(rows, groups or [0] * len(rows), strict=True):
        if len(one[1]):
            in_groups.setdefault(group, []).append(one)
    for used in in_groups.values():
        temperatures = [find_temperature(used[1 - half :: 2]) for half in (0, 1)]
        for place, (table, codes) in enumerate(used):
            scaled = apply_temperature(table, temperatures[place % 2])
            right.append(table.argmax(axis=1) == codes)
            before.append(np.minimum(table.max(axis=1), 1.0))
            after.append(np.minimum(scaled.max(axis=1), 1.0))
    if not right:
        return TrustReport(0, 0, None, None, (), *scope)
    hits, confidence = np.concatenate(right), np.concatenate(after)
    return TrustReport(
        len(hits),
        len(right),
        expected_calibration_error(np.concatenate(before), hits),
        expected_calibration_error(confidence, hits),
        coverage_at(confidence, hits, THRESHOLDS),
        *scope,
    )

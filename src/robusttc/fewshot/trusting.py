"""What a rehearsal tells about trust: temperatures, the sense of scope, and figures for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.losses import unit_rows
from robusttc.fewshot.playing import Played
from robusttc.fewshot.rehearsal import Rehearsal
from robusttc.fewshot.spaces import Space
from robusttc.models import (
    Coverage,
    ScopeExample,
    ScopeModel,
    apply_temperature,
    coverage_at,
    expected_calibration_error,
    fit_scope,
    fit_temperature,
    measure_scope,
)

__all__ = ["Trust", "borrow_temperature", "fit_temperatures", "learn_scope", "measure_trust"]

# A temperature from fewer queries than these says more about the queries than about the predictor.
FEWEST_ROWS = 60
THRESHOLDS = (0.5, 0.7, 0.9)
# The temperature of all held-out tasks together has no cluster's number.
SHARED = -1


@dataclass(frozen=True, slots=True)
class Trust:
    """How far probabilities can be trusted, by held-out source tasks.

    Attributes
    ----------
    calibration_error, uncalibrated_error
        The expected calibration error with and without temperatures, over the queries of all tasks.
    coverage
        How many texts are answered, and how many of these rightly, for some values of ``abstain_below``.
    scope_auroc
        How well the out-of-scope score tells texts of other tasks from the task's own; mean over tasks; NaN
        without other tasks.
    n_tasks
        How many tasks were held out.
    """

    calibration_error: float
    uncalibrated_error: float
    coverage: tuple[Coverage, ...]
    scope_auroc: float
    n_tasks: int

    def to_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return {
            "calibration_error": self.calibration_error,
            "uncalibrated_error": self.uncalibrated_error,
            "coverage": [one.to_dict() for one in self.coverage],
            "scope_auroc": None if np.isnan(self.scope_auroc) else self.scope_auroc,
            "n_tasks": self.n_tasks,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trust:
        """Make it from what `to_dict` gave."""
        scope = values["scope_auroc"]
        return cls(
            float(values["calibration_error"]),
            float(values["uncalibrated_error"]),
            tuple(
                Coverage(
                    float(one["threshold"]),
                    float(one["coverage"]),
                    float("nan") if one["accuracy"] is None else float(one["accuracy"]),
                )
                for one in values["coverage"]
            ),
            float("nan") if scope is None else float(scope),
            int(values["n_tasks"]),
        )


def fit_temperatures(rehearsal: Rehearsal, way: str, cluster_of: Mapping[str, int]) -> dict[int, float]:
    """Give one temperature a cluster, from its held-out tasks, and that of all tasks under `SHARED`.

    A cluster with fewer than 60 queries in its held-out tasks takes the one of all.
    """
    shared = temperature_of(rehearsal.played, way)
    temperatures = {SHARED: shared}
    for number in sorted(set(cluster_of.values())):
        own = [one for one in rehearsal.played if cluster_of.get(one.name) == number]
        is_enough = sum(len(one.codes) for one in own) >= FEWEST_ROWS
        temperatures[number] = temperature_of(own, way) if is_enough else shared
    return temperatures


def temperature_of(played: Sequence[Played], way: str) -> float:
    """Give the temperature that suits some tasks together; 1 without enough queries."""
    if sum(len(one.codes) for one in played) < FEWEST_ROWS:
        return 1.0
    return float(fit_temperature([one.probabilities[way] for one in played], [one.codes for one in played]))


def borrow_temperature(temperatures: Mapping[int, float], weights: Mapping[int, float]) -> float:
    """Give the temperature of a new task: the geometric mean of the clusters', by their weights.

    Examples
    --------
    >>> borrow_temperature({-1: 1.0, 0: 1.0, 1: 4.0}, {0: 0.5, 1: 0.5}), borrow_temperature({-1: 3.0}, {})
    (2.0, 3.0)
    """
    total = sum(weights.values())
    if total <= 0:
        return temperatures[SHARED]
    logs = [
        weight * np.log(temperatures.get(number, temperatures[SHARED])) for number, weight in weights.items()
    ]
    return float(np.exp(sum(logs) / total))


def scope_directions(space: Space, inputs: FrozenInputs) -> NDArray[np.float32]:
    """Give the representation that the out-of-scope score looks at."""
    return np.asarray(unit_rows(space.represent(inputs)), dtype=np.float32)


def scope_example(one: Played, *, space: Space, inputs: FrozenInputs) -> ScopeExample | None:
    """Show a task its own queries, and queries of other tasks; None where there are no others."""
    if len(one.outside) == 0:
        return None
    rows = np.concatenate([one.queries, one.outside])
    return ScopeExample(
        scope_directions(space, one.support.inputs),
        scope_directions(space, inputs.take(rows)),
        np.repeat([False, True], [len(one.queries), len(one.outside)]),
    )


def learn_scope(
    rehearsal: Rehearsal, *, space: Space, inputs: FrozenInputs
) -> tuple[ScopeModel | None, float]:
    """Learn what is out of scope from held-out tasks, where texts of other clusters stand for the outside.

    Which these are, see `robusttc.fewshot.rehearsal.choose_outside`.

    Returns
    -------
    model, auroc
        The model that new tasks borrow, and how well one learned from half of the tasks does on the other
        half; None and NaN where there are fewer than four tasks.
    """
    shown = (scope_example(one, space=space, inputs=inputs) for one in rehearsal.played)
    examples = [example for example in shown if example is not None]
    if len(examples) < 4:
        return None, float("nan")
    return fit_scope(examples), float(np.mean(measure_scope(examples)))


def measure_trust(
    rehearsal: Rehearsal,
    way: str,
    temperatures: Mapping[int, float],
    scope_auroc: float,
) -> Trust | None:
    """Give the figures of trust on the held-out tasks; None without any."""
    if not rehearsal.played:
        return None
    plain, sharpened, rights = [], [], []
    for one in rehearsal.played:
        table = one.probabilities[way]
        temperature = borrow_temperature(temperatures, one.weights[way] if way == "cluster" else {})
        plain.append(table.max(axis=1))
        sharpened.append(apply_temperature(table, temperature).max(axis=1))
        rights.append(table.argmax(axis=1) == one.codes)
    right, confidence = np.concatenate(rights), np.concatenate(sharpened)
    return Trust(
        expected_calibration_error(confidence, right),
        expected_calibration_error(np.concatenate(plain), right),
        tuple(coverage_at(confidence, right, THRESHOLDS)),
        scope_auroc,
        len({one.name for one in rehearsal.played}),
    )

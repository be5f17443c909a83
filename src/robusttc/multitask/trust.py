"""How far the probabilities of a trained model can be trusted, by rows that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robusttc.learning.calibration import Coverage, coverage_at, expected_calibration_error
from robusttc.learning.scope import ScopeExample, auroc, fit_scope
from robusttc.multitask.choosing import Choice
from robusttc.multitask.serving import Serving
from robusttc.multitask.training_data import TrainingData
from robusttc.multitask.trusting import (
    Rows,
    calibrated,
    cluster_temperatures,
    learn_scope,
    set_references,
    set_temperatures,
)
from robusttc.stats import Estimate, mean_interval

__all__ = ["THRESHOLDS", "TrustReport", "look_at_trust"]

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class TrustReport:
    """What validation rows say about probabilities.

    Attributes
    ----------
    n_rows, n_tasks
        How many rows in ``valid``, of how many tasks; without any, the rest is empty.
    error_before, error_after
        The expected calibration error without and with temperatures. For the second, the temperatures are
        those of the other half of the rows: the ones that serve have seen all of them.
    coverage
        For thresholds of `abstain_below`: the share of rows that get an answer, and how many are right.
    scope_auroc
        How well the out-of-scope score tells texts of other clusters from the task's own, mean over tasks;
        coefficients are those of the other half of the tasks. None where it could not be measured.
    """

    n_rows: int
    n_tasks: int
    error_before: float | None
    error_after: float | None
    coverage: tuple[Coverage, ...]
    scope_auroc: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            **asdict(self),
            "coverage": [one.to_dict() for one in self.coverage],
            "scope_auroc": None if self.scope_auroc is None else self.scope_auroc.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrustReport:
        """Make it from what `to_dict` gave."""
        coverage = tuple(
            Coverage(
                one["threshold"],
                one["coverage"],
                float("nan") if one["accuracy"] is None else one["accuracy"],
            )
            for one in values["coverage"]
        )
        found = values["scope_auroc"]
        return cls(
            values["n_rows"],
            values["n_tasks"],
            values["error_before"],
            values["error_after"],
            coverage,
            None if found is None else Estimate.from_dict(found),
        )


def look_at_trust(serving: Serving, data: TrainingData, choice: Choice | None, *, seed: int) -> TrustReport:
    """Set temperatures and the out-of-scope model, and report on both."""
    valid: dict[str, Rows] = {}
    if data.prepared is not None:
        for name, part in data.parts.items():
            if len(part.valid_items):
                taken = data.prepared.inputs.take(part.valid_items)
                familiar = data.valid_familiar(name)
                valid[name] = (serving.raw_probabilities(name, taken, familiar), part.valid_codes)
    private: dict[str, Rows] = {}
    for name, (prepared, part) in data.private.items():
        if len(part.valid_items):
            taken = prepared.inputs.take(part.valid_items)
            private[name] = (serving.raw_probabilities(name, taken), part.valid_codes)
    held = (
        {} if choice is None else {name: (choice.served[name], choice.codes[name]) for name in choice.codes}
    )
    labels = {name: serving.tasks[name].cluster for name in data.parts}
    set_temperatures(serving, cluster_temperatures(labels, valid, held), private)
    set_references(serving, data, seed=seed)
    examples: dict[str, ScopeExample] = {}
    if data.prepared is not None:
        examples = learn_scope(serving, data, seed=seed)
    return report_trust(labels, valid, examples)


def report_trust(
    labels: Mapping[str, int], valid: Mapping[str, Rows], examples: Mapping[str, ScopeExample]
) -> TrustReport:
    """Measure on each half of the rows, and of the tasks, what was fitted on the other."""
    if not valid:
        return TrustReport(0, 0, None, None, (), None)
    halves: list[dict[str, Rows]] = [
        {name: (table[half::2], codes[half::2]) for name, (table, codes) in valid.items()} for half in (0, 1)
    ]
    after: list[Rows] = []
    for own, other in (halves, halves[::-1]):
        temperatures = cluster_temperatures(labels, other, {})
        after += [calibrated(own[name], temperatures[labels[name]]) for name in sorted(own)]
    confidence, right = flatten([valid[name] for name in sorted(valid)])
    confidence_after, right_after = flatten(after)
    return TrustReport(
        len(right),
        len(valid),
        expected_calibration_error(confidence, right),
        expected_calibration_error(confidence_after, right_after),
        coverage_at(confidence_after, right_after, THRESHOLDS),
        measure_scope(examples),
    )


def flatten(rows: list[Rows]) -> tuple[Any, Any]:
    """Give the confidence of every row, and whether it is right."""
    confidence = np.concatenate([table.max(axis=1, initial=0.0) for table, _ in rows])
    right = np.concatenate([table.argmax(axis=1) == codes for table, codes in rows if len(codes)])
    return np.minimum(confidence, 1.0), right


def measure_scope(examples: Mapping[str, ScopeExample]) -> Estimate | None:
    """Give the mean AUROC over tasks, each with the coefficients of the other half of the tasks."""
    names = sorted(examples)
    if len(names) < 2:
        return None
    scores = []
    for half in (0, 1):
        model = fit_scope([examples[name] for name in names[1 - half :: 2]])
        for name in names[half::2]:
            example = examples[name]
            score = model.score(example.reference, example.representation, example.confidence)
            scores.append(auroc(score[~example.is_outside], score[example.is_outside]))
    return mean_interval(scores)

"""After training: temperatures, the out-of-scope model, and what validation rows say about both."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.models import ScopeExample, apply_temperature, fit_scope, fit_temperature
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.serving import Serving
from robusttc.multitask.training_data import TrainingData
from robusttc.random import numpy_generator

__all__ = [
    "FEWEST_ROWS",
    "MAX_REFERENCES",
    "cluster_temperatures",
    "learn_scope",
    "set_references",
    "set_temperatures",
]

Probabilities = NDArray[np.float64]
Numbers = NDArray[np.int64]
Rows = tuple[Probabilities, Numbers]

# A temperature from fewer rows than these says more about the rows than about the model.
FEWEST_ROWS = 30
# Training representations of a task that the out-of-scope score compares with: a bound on time and memory.
MAX_REFERENCES = 256
# Texts from outside that a task is shown.
MAX_OUTSIDE = 40


def cluster_temperatures(
    labels: Mapping[str, int], valid: Mapping[str, Rows], held: Mapping[str, Rows]
) -> dict[int, float]:
    """Give one temperature a cluster, from the validation rows of its tasks.

    A cluster with fewer than `FEWEST_ROWS` of them takes out-of-fold rows of its tasks; one that has too few
    of those as well takes the temperature of all tasks together.

    Examples
    --------
    >>> rows = np.full((40, 2), 0.5) + [0.4, -0.4], np.arange(40) % 2
    >>> cluster_temperatures({"a": 0, "b": 7}, {"a": rows}, {})
    {0: 20.0, 7: 20.0}
    """
    found: dict[int, float] = {}
    for cluster in sorted(set(labels.values())):
        own = sorted(name for name, number in labels.items() if number == cluster)
        for source in (valid, held):
            rows = [source[name] for name in own if name in source]
            if sum(len(codes) for _, codes in rows) >= FEWEST_ROWS:
                found[cluster] = temperature_of(rows)
                break
        else:
            source = valid if valid else held
            found[cluster] = temperature_of([source[name] for name in sorted(source)])
    return found


def temperature_of(rows: Sequence[Rows]) -> float:
    """Give the temperature that is best for some tasks together; 1 without enough rows."""
    if sum(len(codes) for _, codes in rows) < FEWEST_ROWS:
        return 1.0
    return float(fit_temperature([table for table, _ in rows], [codes for _, codes in rows]))


def set_temperatures(serving: Serving, temperatures: Mapping[int, float], valid: Mapping[str, Rows]) -> None:
    """Give every task its temperature: that of its cluster, or its own if it may not share."""
    for name, task in serving.tasks.items():
        if task.may_share:
            temperature = temperatures[task.cluster]
        else:
            temperature = temperature_of([valid[name]] if name in valid else [])
        serving.tasks[name] = dataclasses.replace(task, temperature=temperature)


def learn_scope(serving: Serving, data: TrainingData, *, seed: int) -> dict[str, ScopeExample]:
    """Fit the out-of-scope model; give what it was fitted on.

    Texts of other clusters stand for what does not belong to a task: rows in ``valid`` of tasks of other
    clusters, or, where there is but one cluster, of other tasks; never a text that the task has itself. They
    are asked about as new texts: what comes from outside one day is seldom a sentence that a mate has.

    Parameters
    ----------
    serving
        The models, with temperatures and references; it gets the out-of-scope model.
    data
        The tasks.
    seed
        Of the texts that are drawn.
    """
    assert data.prepared is not None  # noqa: S101 - the caller has looked
    inputs, parts = data.prepared.inputs, data.parts
    clusters = {serving.tasks[name].cluster for name in parts}
    examples: dict[str, ScopeExample] = {}
    for name in sorted(parts):
        part = parts[name]
        own_cluster = serving.tasks[name].cluster
        others = [
            parts[key].valid_items
            for key in sorted(parts)
            if key != name
            and (len(clusters) == 1 or serving.tasks[key].cluster != own_cluster or own_cluster < 0)
        ]
        outside = np.setdiff1d(
            np.concatenate([*others, np.zeros(0, dtype=np.int64)]),
            np.concatenate([part.items, part.valid_items]),
        )
        if len(outside) == 0 or len(part.valid_items) == 0:
            continue
        outside = numpy_generator(seed, "outside", [name]).permutation(outside)[:MAX_OUTSIDE]
        taken = inputs.take(np.concatenate([part.valid_items, outside]))
        is_outside = np.arange(len(taken)) >= len(part.valid_items)
        examples[name] = ScopeExample(
            serving.references[name],
            serving.represent(name, taken),
            is_outside,
        )
    if examples:
        serving.scope = fit_scope(list(examples.values()))
    return examples


def set_references(serving: Serving, data: TrainingData, *, seed: int) -> None:
    """Keep the training representations of every task that the out-of-scope score compares with."""
    for name in serving.tasks:
        prepared, part = data.private[name] if name in data.private else (data.prepared, data.parts[name])
        assert prepared is not None  # noqa: S101 - the task was prepared one way or the other
        taken = prepared.inputs.take(draw_references(part, seed))
        serving.references[name] = serving.represent(name, taken)


def draw_references(part: TaskPart, seed: int) -> Numbers:
    """Give the distinct items of a task's training rows, not too many."""
    items = np.unique(part.items)
    if len(items) > MAX_REFERENCES:
        items = np.sort(numpy_generator(seed, "references", [part.name]).permutation(items)[:MAX_REFERENCES])
    return items


def calibrated(rows: Rows, temperature: float) -> Rows:
    """Give the rows with a temperature applied."""
    return apply_temperature(rows[0], temperature), rows[1]

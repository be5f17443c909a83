"""The stage `evaluate`: every task's accuracy on its test rows, by each kind of model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.stats import Estimate, difference_interval, mean_interval, share_interval

__all__ = ["KINDS", "Evaluation", "TaskFigures", "judge"]

# The models that are told apart, each compared with the first.
KINDS = ("own", "shared", "cluster", "served")
Hits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What the test rows of one task say.

    Attributes
    ----------
    task, group
        The task, and its cluster; -1 for none.
    n_rows
        How many test rows it has.
    own, shared, cluster, served
        The share of them that its own model, the model of all tasks, the model of its cluster, and what
        serves predict right, with Wilson's interval; None for what the task does not have.
    gain
        The mean over rows of what serves less the own model, with the interval of the paired difference;
        None without test rows.
    """

    task: str
    group: int
    n_rows: int
    own: Estimate | None
    shared: Estimate | None
    cluster: Estimate | None
    served: Estimate | None
    gain: Estimate | None

    @property
    def state(self) -> str:
        """One of ``gains``, ``harmed`` (95 % intervals), ``no difference`` and ``no test rows``."""
        if self.gain is None:
            return "no test rows" if not self.n_rows else "not compared"
        return "gains" if self.gain.above_zero else "harmed" if self.gain.below_zero else "no difference"

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {
            name: value.to_dict() if isinstance(value, Estimate) else value for name, value in values.items()
        }
        return {**plain, "state": self.state}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskFigures:
        """Make it from what `to_dict` gave."""
        estimates = {
            name: None if values[name] is None else Estimate.from_dict(values[name])
            for name in (*KINDS, "gain")
        }
        return cls(str(values["task"]), int(values["group"]), int(values["n_rows"]), **estimates)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the test rows of all tasks say.

    Attributes
    ----------
    tasks
        The figures of every task, in the order of the tasks.
    means
        The mean accuracy over tasks of each kind of model, over the tasks that have all kinds.
    gains
        The mean difference of each kind to the own models, over the same tasks.
    """

    tasks: tuple[TaskFigures, ...]
    means: Mapping[str, Estimate]
    gains: Mapping[str, Estimate]

    @classmethod
    def of(cls, tasks: Sequence[TaskFigures]) -> Evaluation:
        """Take the means over tasks."""
        judged = [task for task in tasks if task.served is not None]
        # A kind that no task has (no clusters, no sharing) has no mean; else the tasks must be the same.
        kinds = [kind for kind in KINDS if any(getattr(task, kind) is not None for task in judged)]
        whole = [task for task in judged if all(getattr(task, kind) is not None for kind in kinds)]
        if not whole:
            return cls(tuple(tasks), {}, {})
        table = {kind: [getattr(task, kind).mean for task in whole] for kind in kinds}
        means = {kind: within(mean_interval(values), 0.0) for kind, values in table.items()}
        gains = {
            kind: within(difference_interval(values, table["own"]), -1.0)
            for kind, values in table.items()
            if kind != "own" and "own" in table
        }
        return cls(tuple(tasks), means, gains)

    def count(self, state: str) -> int:
        """Count the tasks of a state; see `TaskFigures.state`."""
        return sum(task.state == state for task in self.tasks)

    @property
    def sentence(self) -> str:
        """Who gains and who is harmed, in one sentence."""
        n_judged = sum(task.gain is not None for task in self.tasks)
        if not n_judged:
            return "No task has test rows to tell by."
        return (
            f"On test rows sharing helps {self.count('gains'):,} of {n_judged:,} tasks for sure and harms "
            f"{self.count('harmed'):,} (95 % intervals)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            "means": {kind: mean.to_dict() for kind, mean in self.means.items()},
            "gains": {kind: gain.to_dict() for kind, gain in self.gains.items()},
            "sentence": self.sentence,
            "tasks": [task.to_dict() for task in self.tasks],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """Make it from what `to_dict` gave."""
        return cls(
            tuple(TaskFigures.from_dict(task) for task in values["tasks"]),
            {kind: Estimate.from_dict(mean) for kind, mean in values["means"].items()},
            {kind: Estimate.from_dict(gain) for kind, gain in values["gains"].items()},
        )


def within(estimate: Estimate, lowest: float) -> Estimate:
    """Cut an interval where accuracies, or differences of them, end; that of few values reaches beyond.

    >>> within(Estimate(0.9, 0.7, 1.1, 3), 0.0)
    Estimate(mean=0.9, low=0.7, high=1.0, n=3)
    """
    if estimate.n < 2:  # nothing is known of the spread
        return estimate
    return Estimate(estimate.mean, max(lowest, estimate.low), min(1.0, estimate.high), estimate.n)


def judge(task: str, cluster: int, n_rows: int, right: Mapping[str, Hits]) -> TaskFigures:
    """Return the figures of a task: which of its test rows each kind of model predicts right."""
    if not n_rows:
        return TaskFigures(task, cluster, 0, None, None, None, None, None)
    shares = {kind: share_interval(int(hits.sum()), n_rows) for kind, hits in right.items()}
    gain = None
    if "own" in right:
        difference = right["served"].astype(np.float64) - right["own"].astype(np.float64)
        gain = within(mean_interval(difference), -1.0)
    own, shared, in_cluster, served = (shares.get(kind) for kind in KINDS)
    return TaskFigures(task, cluster, n_rows, own, shared, in_cluster, served, gain)

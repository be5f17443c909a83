"""What is known of the tasks that came after the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robusttc.run.evaluation import TaskFigures
from robusttc.stats import Estimate

__all__ = ["ADDED", "AddedTask", "added_in"]

# The place in the summary.
ADDED = "added"


@dataclass(frozen=True, slots=True)
class AddedTask:
    """A task that was added to a finished run, and is there now.

    Attributes
    ----------
    name
        The task.
    version
        The version of the run that it came with.
    cluster
        Its cluster; -1 for none.
    confidence
        How probable it is that the task belongs there, by the pairs that were measured; 0 without a cluster.
    out_of_cluster
        Whether it was measured, and no cluster fits.
    expected_gain
        How much more of its own held-out training rows are right with sharing than with its own model alone;
        None for a task that may not share, or has nothing to hold out.
    figures
        What its test rows say.
    n_measured
        The number of tasks that it was compared with.
    shares
        Whether models of other tasks help to serve it.
    """

    name: str
    version: int
    cluster: int
    confidence: float
    out_of_cluster: bool
    expected_gain: Estimate | None
    figures: TaskFigures
    n_measured: int
    shares: bool

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON, without the figures: these are in the evaluation."""
        return {
            "name": self.name,
            "version": self.version,
            "cluster": self.cluster,
            "confidence": self.confidence,
            "out_of_cluster": self.out_of_cluster,
            "expected_gain": None if self.expected_gain is None else self.expected_gain.to_dict(),
            "n_measured": self.n_measured,
            "shares": self.shares,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], figures: TaskFigures) -> AddedTask:
        """Make it from what `to_dict` gave, and its figures."""
        gain = values["expected_gain"]
        return cls(
            str(values["name"]),
            int(values["version"]),
            int(values["cluster"]),
            float(values["confidence"]),
            bool(values["out_of_cluster"]),
            None if gain is None else Estimate.from_dict(gain),
            figures,
            int(values["n_measured"]),
            bool(values["shares"]),
        )


def added_in(summary: Mapping[str, Any]) -> dict[str, AddedTask]:
    """Give the added tasks of a summary, by name."""
    figures = {values["task"]: TaskFigures.from_dict(values) for values in summary["evaluation"]["tasks"]}
    return {
        values["name"]: AddedTask.from_dict(values, figures[values["name"]])
        for values in summary.get(ADDED, [])
    }

"""All that a run says of itself, taken from its folder once: what the report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robusttc.data import TaskSet
from robusttc.progress import Progress, report
from robusttc.report.held_out import HeldOut, read_held_out
from robusttc.run import AddedTask, Change, Evaluation, Similarity, TaskFigures
from robusttc.transfer import TransferScores

if TYPE_CHECKING:
    from robusttc.run import Run

__all__ = ["STAGE", "RunFacts", "read_facts"]

STAGE = "report"


@dataclass(frozen=True, slots=True, eq=False)
class RunFacts:
    """What is known of a run.

    Attributes
    ----------
    folder
        Its folder.
    summary
        What ``summary.json`` says.
    tasks
        All tasks, also those that could not be learned.
    evaluation
        What test rows say.
    partition
        The cluster of every task now; -1 for none.
    confidence
        The posterior probability of each task's cluster, where there is one.
    scores, similarity
        What was measured and completed; None where tasks were not clustered.
    history
        All versions of the run, the fit first.
    partitions
        The partition of every version, by its number.
    added
        The tasks that were added later.
    adapted
        The names of tasks that were learned from a handful of examples, beside the run.
    held_out
        What held-out training rows say.
    versions
        What the run was made with.
    """

    folder: Path
    summary: Mapping[str, Any]
    tasks: TaskSet
    evaluation: Evaluation
    partition: Mapping[str, int]
    confidence: Mapping[str, float]
    scores: TransferScores | None
    similarity: Similarity | None
    history: tuple[Change, ...]
    partitions: Mapping[int, Mapping[str, int]]
    added: Mapping[str, AddedTask] = field(default_factory=dict)
    adapted: tuple[str, ...] = ()
    held_out: HeldOut = field(default_factory=HeldOut)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, TaskFigures]:
        """The figures of each task that has some."""
        added = {name: task.figures for name, task in self.added.items()}
        return {**added, **{figures.task: figures for figures in self.evaluation.tasks}}

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        """Whether held-out pairs support the clusters."""
        clusters = self.summary["clusters"]
        return None if clusters is None else clusters["verdict"]

    @property
    def clusters_serve(self) -> bool:
        """Whether cluster models serve."""
        return bool(self.summary["multitask"]["clusters_serve"])

    @property
    def set_aside(self) -> dict[str, str]:
        """Why tasks could not be learned, by name."""
        return {
            name: str(unit["error"])
            for unit in self.summary["quarantined"]
            if unit["stage"] == "read"
            for name in unit["tasks"]
        }


def read_facts(opened: Run, *, progress: Progress | None = None) -> RunFacts:
    """Read all that the report needs from a finished run.

    Raises
    ------
    StoreError
        If something is missing or damaged, or the run was made before runs kept their tasks.
    """
    report(progress, STAGE, 0, 3, "steps", "reading tasks")
    tasks = opened.tasks
    report(progress, STAGE, 1, 3, "steps", "reading scores")
    history = opened.history
    return RunFacts(
        opened.folder,
        opened.summary,
        tasks,
        opened.evaluation,
        opened.partition(),
        opened.confidence,
        opened.scores,
        opened.similarity,
        history,
        {number: opened.partition(number) for number in opened.kept_versions},
        opened.added,
        opened.adapted_names,
        read_held_out(opened.path("models/multitask")),
        opened.made_with,
    )

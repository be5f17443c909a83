"""A finished run, opened to be looked at and to predict."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from robusttc.errors import StoreError, UnknownTaskError, UsageError, quote
from robusttc.fewshot.estimator import ClusterFewShot
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.run.adapted import AdaptedModels
from robusttc.run.answering import Answers, answer_adapted, answer_learned
from robusttc.run.evaluation import Evaluation
from robusttc.run.fitting import FINISHED
from robusttc.run.manifest import check_manifest
from robusttc.run.places import FEWSHOT, MULTITASK
from robusttc.run.store import RunStore
from robusttc.run.summary import evaluation_of, read_summary

__all__ = ["OpenRun"]


class OpenRun:
    """A finished run.

    Parameters
    ----------
    folder
        Its folder. All of its files are checked.
    device
        Where sentence models run.

    Attributes
    ----------
    summary
        What ``summary.json`` says.
    adapted
        The tasks that were added with a handful of examples.

    Raises
    ------
    StoreError
        If there is no run, it is not finished, damaged, or from a later version.
    """

    def __init__(self, folder: str | os.PathLike[str], *, device: str = "cpu") -> None:
        with RunStore.open(folder, read_only=True) as store:
            self.folder: Path = store.folder
            is_finished = bool(store.value(FINISHED, False))
            costs = store.costs()
        if not is_finished:
            stage = f"stopped in stage {costs[-1].stage}" if costs else "stopped before its first stage"
            raise StoreError(
                "the run is not finished",
                where=repr(str(self.folder)),
                got=stage,
                todo="run the same fit again to finish it",
            )
        check_manifest(self.folder)
        self.device = device
        self.summary: dict[str, Any] = read_summary(self.folder)
        self.adapted = AdaptedModels(self.folder)

    @cached_property
    def multitask(self) -> ClusterMultiTask:
        """The model of the run's tasks."""
        return ClusterMultiTask.load(self.folder / MULTITASK, device=self.device)

    @cached_property
    def fewshot(self) -> ClusterFewShot:
        """What learns new tasks.

        Raises
        ------
        UsageError
            If the run has none.
        """
        if self.summary["fewshot"] is None:
            reasons = [doubt for doubt in self.summary["doubts"] if doubt.startswith("New tasks")]
            raise UsageError(
                "the run has nothing that learns new tasks",
                where=repr(str(self.folder)),
                got=reasons[0] if reasons else None,
            )
        return ClusterFewShot.load(self.folder / FEWSHOT, device=self.device)

    @property
    def evaluation(self) -> Evaluation:
        """What the test rows said."""
        return evaluation_of(self.summary)

    @property
    def quarantined(self) -> list[Mapping[str, Any]]:
        """What was left out."""
        return list(self.summary["quarantined"])

    def find(self, task: str) -> Answers:
        """Give what answers for a task: one of the run, or one that was added.

        Raises
        ------
        UnknownTaskError
            If there is no such task; the message names the nearest one.
        StoreError
            If its model is damaged.
        UsageError
            If the task is one of the run, but could not be learned.
        """
        if self.adapted.has(task):
            return answer_adapted(self.adapted.load(task, device=self.device))
        # The names are in the summary, so that an added task does not wait for the models of all others.
        learned = {figures.task for figures in self.evaluation.tasks}
        if task in learned:
            return answer_learned(self.multitask, task)
        for unit in self.quarantined:
            if unit["stage"] == "read" and unit["tasks"] == [task]:
                raise UsageError(
                    "the task was set aside when the run was made",
                    where=f"task {quote(task)}",
                    got=unit["error"],
                    todo="mend its rows and fit again, or add it with: robusttc adapt",
                )
        raise UnknownTaskError(task, [*sorted(learned), *self.adapted.names()])

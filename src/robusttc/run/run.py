"""A finished run: what it holds, and what answers for its tasks."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robusttc.data import Task, TaskSet
from robusttc.errors import StoreError, UnknownTaskError, UsageError, quote
from robusttc.fewshot import ClusterFewShot
from robusttc.files import explain_disk_errors
from robusttc.multitask import ClusterMultiTask
from robusttc.run.adapted import AdaptedModels
from robusttc.run.answering import Answers, answer_adapted, answer_learned
from robusttc.run.evaluation import Evaluation
from robusttc.run.fitting import FINISHED
from robusttc.run.kept_tasks import KeptTasks
from robusttc.run.later.added_models import AddedModels
from robusttc.run.later.added_tasks import AddedTask, added_in
from robusttc.run.later.changing import CHANGE, refuse_half_written
from robusttc.run.later.history import Change, changes_in, partition_place, read_partition, tell_history
from robusttc.run.manifest import check_manifest
from robusttc.run.places import CLUSTERS, FEWSHOT, MULTITASK, SCORES
from robusttc.run.similarity import Similarity, read_similarity
from robusttc.run.store import RunStore
from robusttc.run.summary import evaluation_of, read_summary
from robusttc.transfer import TransferScores, read_scores

if TYPE_CHECKING:
    from robusttc.run.explain import Explanation

__all__ = ["Run", "open_run"]


def open_run(folder: str | os.PathLike[str], *, device: str = "cpu") -> Run:
    """Open a finished run; see `Run`."""
    return Run(folder, device=device)


class Run:
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
            later = changes_in(store)
            change = store.value(CHANGE)
            #: The versions of the libraries that the run was fitted with.
            self.made_with: dict[str, str] = dict(store.identity.versions)
        if not is_finished:
            stage = f"stopped in stage {costs[-1].stage}" if costs else "stopped before its first stage"
            raise StoreError(
                "the run is not finished",
                where=repr(str(self.folder)),
                got=stage,
                todo="run the same fit again to finish it",
            )
        self._costs, self._later = costs, later
        try:
            check_manifest(self.folder)
        except StoreError:
            refuse_half_written(self.folder, change)
            raise
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

    @cached_property
    def tasks(self) -> TaskSet:
        """The tasks of the run in the order of their names, also those that could not be learned."""
        return KeptTasks(self.folder).read()

    @cached_property
    def scores(self) -> TransferScores | None:
        """The transfer scores; None where none were measured."""
        found = self.summary["transfer"]
        return None if found is None else read_scores(self.folder / SCORES)

    @cached_property
    def similarity(self) -> Similarity | None:
        """What completion made of the scores; None where tasks were not clustered."""
        return None if self.summary["clusters"] is None else read_similarity(self.folder)

    @property
    def verdict(self) -> dict[str, Any] | None:
        """Whether held-out pairs support the clusters; None where tasks were not clustered."""
        found = self.summary["clusters"]
        return None if found is None else found["verdict"]

    @cached_property
    def history(self) -> tuple[Change, ...]:
        """The versions of the run; the first is the fit."""
        return tell_history(self.folder, self._later, self._costs)

    def partition(self, version: int | None = None) -> dict[str, int]:
        """Give the cluster of every task, -1 for none, as of a version; None for now.

        Raises
        ------
        UsageError
            If there is no such version.
        """
        n_versions = 1 + len(self._later)
        wanted = n_versions if version is None else version
        return read_partition(partition_place(self.folder, wanted, n_versions=n_versions))

    @cached_property
    def added(self) -> dict[str, AddedTask]:
        """The tasks that were added after the fit and are there now, by name."""
        return added_in(self.summary)

    def learned(self, task: str) -> ClusterMultiTask:
        """Give the model that knows a task: that of the run, or for an added task its own on top of it."""
        if task in self.added:
            return AddedModels(self.folder).load(task, self.multitask)
        return self.multitask

    @cached_property
    def clusters(self) -> dict[str, int]:
        """The cluster of every task now, -1 for none."""
        return self.partition()

    @cached_property
    def confidence(self) -> dict[str, float]:
        """The posterior probability of each task's cluster, where it has one."""
        with explain_disk_errors("the clusters cannot be read", self.folder / CLUSTERS):
            content = (self.folder / CLUSTERS).read_bytes()
        try:
            rows = csv.DictReader(io.StringIO(content.decode(), newline=""))
            return {
                row["task"]: float(row["confidence"]) for row in rows if row["cluster"] and row["confidence"]
            }
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            where = repr(str(self.folder / CLUSTERS))
            raise StoreError("the clusters cannot be read", where=where, got=quote(error)) from error

    @cached_property
    def adapted_names(self) -> tuple[str, ...]:
        """The names of the tasks that were learned from a handful of examples."""
        return tuple(self.adapted.names())

    @cached_property
    def task_names(self) -> tuple[str, ...]:
        """The names of all tasks that have a model, sorted."""
        return tuple(sorted({*(one.task for one in self.evaluation.tasks), *self.adapted_names}))

    @cached_property
    def set_aside(self) -> dict[str, str]:
        """Why tasks could not be learned, by name."""
        return {
            name: str(unit["error"])
            for unit in self.quarantined
            if unit["stage"] == "read"
            for name in unit["tasks"]
        }

    def rows_of(self, task: str) -> Task:
        """Return the rows of one task, without reading those of the others.

        Raises
        ------
        UnknownTaskError
            If the run keeps no such task (the examples of adapted tasks are in their models).
        """
        return KeptTasks(self.folder).read([task])[task]

    @property
    def evaluation(self) -> Evaluation:
        """What the test rows said."""
        return evaluation_of(self.summary)

    @property
    def quarantined(self) -> list[Mapping[str, Any]]:
        """What was left out."""
        return list(self.summary["quarantined"])

    def explain(self, task: str, *, n_others: int = 8, by_gradients: bool = False) -> Explanation:
        """Explain one task: its cluster, its labels among those of others, and what to label next.

        `robusttc.run.explain.explain_task` has the arguments and errors.
        """
        from robusttc.run.explain import explain_task

        return explain_task(self, task, n_others=n_others, by_gradients=by_gradients)

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
        # The names are in the summary, so that an added task does not wait for the models of all others.
        learned = {figures.task for figures in self.evaluation.tasks}
        # First: for a moment, an added task and the adapted one that it replaces are both there.
        if task in learned:
            return answer_learned(self.learned(task), task)
        if self.adapted.has(task):
            return answer_adapted(self.adapted.load(task, device=self.device))
        for unit in self.quarantined:
            if unit["stage"] == "read" and unit["tasks"] == [task]:
                raise UsageError(
                    "the task was set aside when the run was made",
                    where=f"task {quote(task)}",
                    got=unit["error"],
                    todo="mend its rows, then take it out with robusttc remove and add it again",
                )
        raise UnknownTaskError(task, [*sorted(learned), *self.adapted.names()])

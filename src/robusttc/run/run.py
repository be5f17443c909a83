"""A finished run: one version of it, what it holds, and what answers for its tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robusttc.data import Task, TaskSet
from robusttc.errors import UnknownTaskError, UsageError, quote
from robusttc.fewshot import ClusterFewShot, FewShotModel
from robusttc.formatting import count
from robusttc.multitask import ClusterMultiTask, load_added, serve_added
from robusttc.progress import ProgressOption, resolve_progress
from robusttc.run.evaluation import Evaluation, TaskFigures
from robusttc.run.folder import RunFolder
from robusttc.run.outputs import (
    FEWSHOT,
    MULTITASK,
    RETIRED,
    SCORES,
    SIMILARITY,
    AddedTask,
    ClusterRow,
    Similarity,
    read_clusters,
    read_similarity,
    read_summary,
)
from robusttc.run.predict import Prediction, TaskPredictor
from robusttc.run.task_files import (
    adapted_names,
    hash_name,
    read_adapted,
    read_examples,
    read_task,
    read_tasks,
)
from robusttc.run.version import Change, Version
from robusttc.stats import Estimate
from robusttc.transfer import TransferScores, read_scores

if TYPE_CHECKING:
    import pandas as pd

    from robusttc.run.comparison import Comparison
    from robusttc.run.explain import Explanation
    from robusttc.run.settings import Execution
    from robusttc.run.updates import AddResult, Limits, RemoveResult

__all__ = ["Run", "added_model_folder", "open_run"]

# What stays of a run that is opened anew where the model is the same.
MODELS = {"multitask": f"{MULTITASK}/manifest.json", "fewshot": f"{FEWSHOT}/manifest.json"}


def open_run(folder: str | os.PathLike[str], *, device: str = "cpu", version: int | None = None) -> Run:
    """Open a finished run; see `Run`."""
    return Run(folder, device=device, version=version)


def added_model_folder(name: str) -> str:
    """Return where the model of an added task is in a version."""
    return f"models/added/{hash_name(name)}"


class Run:
    """A finished run, as of one version: what is written to its folder meanwhile does not show.

    Nothing is written anywhere by reading or predicting. Sizes of files are checked on opening, contents
    where they are read.

    Parameters
    ----------
    folder
        Its folder.
    device
        Where sentence models run.
    version
        The number of a version that is kept; None for the current one.

    Attributes
    ----------
    folder
        The folder of the run.
    version
        The version that is open.
    summary
        What ``summary.json`` says, with the costs of the stages of the fit.

    Raises
    ------
    UsageError
        If there is no run, it is not finished, or the version is not kept.
    StoreError
        If it is damaged, or from another version of robusttc.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, device: str = "cpu", version: int | None = None
    ) -> None:
        place = RunFolder(folder)
        self.folder: Path = place.path
        self.device = device
        self._open(place.current() if version is None else place.version(version))

    def _open(self, version: Version) -> None:
        self.version = version
        fits = [change for change in version.history if change.kind == "fit"]
        costs = list(fits[-1].details.get("costs", ()))
        self.summary: dict[str, Any] = {**read_summary(version), "costs": costs}
        self._predictors: dict[str, TaskPredictor] = {}

    def reload(self) -> Run:
        """Open the version that is current now, and return this run; models that did not change stay."""
        before, now = self.version, RunFolder(self.folder).current()
        if now.number != before.number:
            same = {name for name, file in MODELS.items() if before.files.get(file) == now.files.get(file)}
            for name, value in vars(type(self)).items():
                if isinstance(value, cached_property) and name not in same:
                    self.__dict__.pop(name, None)
            self._open(now)
        return self

    # What the run is.

    def path(self, name: str) -> Path:
        """Return where a file or folder of the version is, such as ``scores.csv``."""
        return self.version.folder / name

    @property
    def made_with(self) -> dict[str, str]:
        """The versions of the libraries that made it."""
        return dict(self.version.libraries)

    @property
    def history(self) -> tuple[Change, ...]:
        """What made the versions of the run, the fit first."""
        return self.version.history

    @property
    def kept_versions(self) -> tuple[int, ...]:
        """The numbers of the versions that are kept."""
        return tuple(number for number in RunFolder(self.folder).numbers() if number <= self.version.number)

    @property
    def costs(self) -> list[Mapping[str, Any]]:
        """What the stages of the fit have cost: stage, wall_seconds, cpu_seconds, peak_bytes, units."""
        return list(self.summary["costs"])

    @property
    def is_doubtful(self) -> bool:
        """Whether something was left out or is not proven."""
        return bool(self.summary["quarantined"] or self.summary["doubts"])

    @property
    def quarantined(self) -> list[Mapping[str, Any]]:
        """What was left out: stage, key, error and tasks of every job."""
        return list(self.summary["quarantined"])

    @cached_property
    def set_aside(self) -> dict[str, str]:
        """Why tasks could not be learned, by name."""
        return {
            name: str(job["error"])
            for job in self.quarantined
            if job["stage"] == "read"
            for name in job["tasks"]
        }

    # Its tasks.

    @cached_property
    def tasks(self) -> TaskSet:
        """The tasks in the order of their names, also those that could not be learned."""
        return read_tasks(self.version)

    def rows_of(self, task: str) -> Task:
        """Return the rows of one task, without reading those of the others.

        Raises
        ------
        UnknownTaskError
            If the run has no rows of such a task.
        """
        found = read_task(self.version, task)
        if found is None:
            raise UnknownTaskError(task, self.task_names)
        return found

    @cached_property
    def task_names(self) -> tuple[str, ...]:
        """The names of all tasks that have a model, sorted."""
        learned = {one.task for one in self.evaluation.tasks} - {*self.retired}
        return tuple(sorted({*learned, *self.adapted_names}))

    @property
    def retired(self) -> tuple[str, ...]:
        """The names of the tasks that no longer answer and are about to be removed."""
        return tuple(self.summary.get(RETIRED, ()))

    @cached_property
    def adapted_names(self) -> tuple[str, ...]:
        """The names of the tasks that were learned from a handful of examples, sorted."""
        return adapted_names(self.version)

    @cached_property
    def added(self) -> dict[str, AddedTask]:
        """The tasks that were added after the fit, by name."""
        figures: dict[str, TaskFigures] = {one.task: one for one in self.evaluation.tasks}
        found = self.summary.get("added", [])
        return {one["name"]: AddedTask.from_dict(one, figures[one["name"]]) for one in found}

    # What was found.

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the test rows say of every task and kind of model."""
        return Evaluation.from_dict(self.summary["evaluation"])

    def evaluate(self) -> Evaluation:
        """Return `evaluation`; it was made when the run was, before models were trained on all rows."""
        return self.evaluation

    @cached_property
    def scores(self) -> TransferScores | None:
        """The transfer scores; None where none were measured."""
        return read_scores(self.version.path(SCORES)) if SCORES in self.version else None

    @cached_property
    def similarity(self) -> Similarity | None:
        """What completion made of the scores; None where tasks were not clustered."""
        return read_similarity(self.version) if SIMILARITY in self.version else None

    @property
    def verdict(self) -> dict[str, Any] | None:
        """Whether held-out pairs support the clusters; None where tasks were not clustered."""
        found = self.summary["clusters"]
        return None if found is None else found["verdict"]

    @cached_property
    def cluster_rows(self) -> dict[str, ClusterRow]:
        """The lines of ``clusters.csv``, by task."""
        return read_clusters(self.version)

    @property
    def clusters(self) -> dict[str, int]:
        """The cluster of every task, -1 for none."""
        return {name: row.cluster for name, row in self.cluster_rows.items()}

    def partition(self, version: int | None = None) -> dict[str, int]:
        """Return the cluster of every task as of a version that is kept; None for the one that is open."""
        if version is None or version == self.version.number:
            return self.clusters
        found = read_clusters(RunFolder(self.folder).version(version))
        return {name: row.cluster for name, row in found.items()}

    @property
    def confidence(self) -> dict[str, float]:
        """The posterior probability of each task's cluster, where it has one."""
        rows = self.cluster_rows.values()
        return {row.task: row.confidence for row in rows if row.cluster >= 0 and row.confidence is not None}

    # What predicts.

    @cached_property
    def multitask(self) -> ClusterMultiTask:
        """The models of the tasks of the fit."""
        return ClusterMultiTask.load(self.path(MULTITASK), device=self.device)

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
        return ClusterFewShot.load(self.path(FEWSHOT), device=self.device)

    def learned(self, task: str) -> ClusterMultiTask:
        """Return the model that knows a task: for an added one, its own parts on top of those of the run."""
        if task not in self.added:
            return self.multitask
        base = self.version.files[MODELS["multitask"]][0]
        added = load_added(self.path(added_model_folder(task)), base=base, device=self.device)
        return self.multitask.with_predictor(serve_added(self.multitask.predictor_, added))

    def adapted_model(self, task: str) -> FewShotModel:
        """Return the model of an adapted task.

        Raises
        ------
        UnknownTaskError
            If there is no such adapted task.
        StoreError
            If it is damaged.
        """
        if task not in self.adapted_names:
            raise UnknownTaskError(task, self.adapted_names)
        return read_adapted(self.version, task, self.fewshot)

    def examples_of(self, task: str) -> Task:
        """Return the examples that an adapted task was learned from."""
        if task not in self.adapted_names:
            raise UnknownTaskError(task, self.adapted_names)
        return read_examples(self.version, task)

    def predictor(self, task: str) -> TaskPredictor:
        """Return what predicts for a task; it is kept, so the next call is quick.

        Raises
        ------
        UnknownTaskError
            If there is no such task; the message names the nearest one.
        UsageError
            If the task is one of the run, but could not be learned.
        StoreError
            If its model is damaged.
        """
        if task not in self._predictors:
            self._predictors[task] = self._make_predictor(task)
        return self._predictors[task]

    def _make_predictor(self, task: str) -> TaskPredictor:
        if task in self.adapted_names:
            return TaskPredictor.of_adapted(self.adapted_model(task))
        if task in self.task_names:
            return TaskPredictor.of_model(self.learned(task), task, lambda: self.rows_of(task))
        if task in self.set_aside:
            raise UsageError(
                "the task was set aside when the run was made",
                where=f"task {quote(task)}",
                got=self.set_aside[task],
                todo="mend its rows, then take it out with robusttc remove and add it again",
            )
        raise UnknownTaskError(task, self.task_names)

    def predict(
        self, task: str, texts: str | Sequence[str], *, abstain_below: float | None = None
    ) -> Prediction:
        """Return labels, probabilities and out-of-scope scores of texts; they are kept nowhere.

        Parameters
        ----------
        task
            A task of the run, an added or an adapted one.
        texts
            The texts, or one.
        abstain_below
            Where the highest probability is below this number, the label is None.

        Raises
        ------
        UnknownTaskError, UsageError, StoreError
            As `predictor`.
        DataError
            If a text is none.
        """
        return self.predictor(task).predict(texts, abstain_below=abstain_below)

    # What changes it.

    def adapt(self, examples: Task, *, replace: bool = False, limits: Limits | None = None) -> FewShotModel:
        """Learn a task from a handful of examples, as the next version; this run then shows that.

        `robusttc.run.updates.adapt_task` has the arguments and errors.
        """
        from robusttc.run.updates import adapt_task

        return adapt_task(self, examples, replace=replace, limits=limits)

    def add(
        self,
        tasks: TaskSet,
        *,
        private: Iterable[str] = (),
        replace_adapted: bool = False,
        limits: Limits | None = None,
        execution: Execution | None = None,
        progress: ProgressOption = True,
    ) -> AddResult:
        """Add tasks, as the next version; this run then shows that.

        `robusttc.run.updates.add_tasks` has the arguments and errors.
        """
        from robusttc.run.updates import add_tasks

        result = add_tasks(
            self.folder,
            tasks,
            private=private,
            replace_adapted=replace_adapted,
            limits=limits,
            execution=execution,
            progress=resolve_progress(progress),
        )
        self.reload()
        return result

    def remove(
        self,
        tasks: Sequence[str],
        *,
        limits: Limits | None = None,
        execution: Execution | None = None,
        progress: ProgressOption = True,
    ) -> RemoveResult:
        """Remove tasks, as the next version; this run then shows that.

        `robusttc.run.updates.remove_tasks` has the arguments and errors; what had learned from the tasks is
        trained again, which `robusttc.run.updates.plan_removal` tells beforehand.
        """
        from robusttc.run.updates import remove_tasks

        result = remove_tasks(
            self.folder, tasks, limits=limits, execution=execution, progress=resolve_progress(progress)
        )
        self.reload()
        return result

    # What it says of tasks.

    def explain(self, task: str, *, n_others: int = 8, by_gradients: bool = False) -> Explanation:
        """Explain a task: why it is where it is, what sharing gave it, what would help it.

        `robusttc.run.explain.explain_task` has the arguments and errors.
        """
        from robusttc.run.explain import explain_task

        return explain_task(self, task, n_others=n_others, by_gradients=by_gradients)

    def compare(self, predictions: str | os.PathLike[str] | pd.DataFrame) -> Comparison:
        """Compare the run with what is in use today, on texts that it has not learned.

        `robusttc.run.comparison.compare_run` has the argument and errors.
        """
        from robusttc.run.comparison import compare_run

        return compare_run(self, predictions)

    # For people.

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, version={self.version.number})"

    def _repr_html_(self) -> str:
        found, evaluation = self.summary["clusters"], self.evaluation
        clusters = "not clustered" if found is None else count(found["n"], "cluster")
        facts = {
            "folder": str(self.folder),
            "version": f"{self.version.number}: {self.version.change.sentence}",
            "tasks": f"{count(len(self.task_names), 'task')}, {clusters}",
            **{f"test accuracy, {kind}": percents(mean) for kind, mean in evaluation.means.items()},
            "sharing": evaluation.sentence,
        }
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(said)}</td></tr>" for name, said in facts.items())
        return f"<table>{''.join(rows)}</table>"


def percents(mean: Estimate) -> str:
    """Return a share and its interval in per cent."""
    return f"{100 * mean.mean:.1f} % [{100 * mean.low:.1f}, {100 * mean.high:.1f}]"

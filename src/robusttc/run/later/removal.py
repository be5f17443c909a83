"""One removal of tasks from a finished run, from the tasks that stay to the files of the next version."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robusttc.encoders import VectorCache, default_cache_folder
from robusttc.files import write_file
from robusttc.formatting import count
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import Progress
from robusttc.run.adapted import AdaptedModels
from robusttc.run.evaluation import TaskFigures
from robusttc.run.kept_tasks import KeptTasks
from robusttc.run.later.added_models import AddedModels
from robusttc.run.later.added_tasks import ADDED
from robusttc.run.later.changing import CHANGE, Pending
from robusttc.run.later.forgetting import find_units, forget_names, without_tasks
from robusttc.run.later.history import HISTORY, Change, changes_in, version_folder
from robusttc.run.later.influence import Influence, find_influence
from robusttc.run.later.later_outputs import (
    as_text,
    forget_before,
    names_added,
    read_before,
    table_with,
    with_figures,
    write_version,
)
from robusttc.run.later.retraining import STAGING, Retrained, retrain
from robusttc.run.later.telling import list_names
from robusttc.run.manifest import write_manifest
from robusttc.run.naming import digest_values
from robusttc.run.places import CLUSTERS, FEWSHOT, MULTITASK, SCORES, SIMILARITY, SUMMARY
from robusttc.run.settings import FitSettings
from robusttc.run.similarity import read_similarity, write_similarity
from robusttc.run.store import RunStore
from robusttc.run.summary import read_summary
from robusttc.transfer import read_scores

__all__ = ["RemoveResult", "Removing", "take_back", "tell_removed", "wipe"]


@dataclass(frozen=True, slots=True, eq=False)
class RemoveResult:
    """What a removal leaves behind.

    Attributes
    ----------
    folder
        The run's folder.
    version
        The version of the run now.
    tasks
        The tasks that are gone.
    influence
        What had learned from them, and was trained again.
    sentences
        What changed, in plain words.
    summary
        What ``summary.json`` says.
    """

    folder: Path
    version: int
    tasks: tuple[str, ...]
    influence: Influence
    sentences: tuple[str, ...]
    summary: Mapping[str, Any]


class Removing:
    """One removal, from the tasks that stay to the files of the next version."""

    def __init__(self, store: RunStore, pending: Pending, runner: Runner, progress: Progress | None) -> None:
        self.store, self.folder = store, store.folder
        self.pending, self.names = pending, tuple(sorted(pending.tasks))
        self.runner, self.progress = runner, progress
        self.configuration = FitSettings(**store.value("configuration"))

    def run(self) -> RemoveResult:
        """Do all of it; what is finished is not done again."""
        before, rows = read_before(self.folder, self.pending.version - 1)
        influence = find_influence(self.store, self.names, before=(before, rows))
        partition = {row["task"]: int(row["cluster"]) if row["cluster"] else -1 for row in rows}
        again: Retrained | None = None
        if influence.retrains:
            again = retrain(
                self.store,
                self.runner,
                self.configuration,
                before,
                partition,
                gone=self.names,
                name=digest_values("remove", self.pending.version, dict(self.pending.tasks)),
                progress=self.progress,
            )
        self.pending = replace(self.pending, state="writing")
        self.store.set_values({CHANGE: self.pending.to_dict()})
        return self.write(before, list(rows), partition, influence, again)

    def write(
        self,
        before: dict[str, Any],
        rows: list[Mapping[str, str]],
        partition: Mapping[str, int],
        influence: Influence,
        again: Retrained | None,
    ) -> RemoveResult:
        """Write all files of the new version, and note that it is there."""
        folder, names = self.folder, self.names
        AddedModels(folder).remove(names)
        # Left by an addition that was killed right after its commit; they would serve again.
        AdaptedModels(folder).remove(names_added(before) & set(names))
        if again is not None:
            again.multitask.save(folder / MULTITASK)
            if again.fewshot is None:
                shutil.rmtree(folder / FEWSHOT, ignore_errors=True)
            else:
                again.fewshot.save(folder / FEWSHOT)
            for one in again.joined.values():
                AddedModels(folder).save(one.later)
        else:
            drop_private(folder, names)
            AddedModels(folder).move_to_base(sorted(names_added(before) - set(names)))
        if (folder / SIMILARITY).is_file():
            write_similarity(folder, without_tasks(read_similarity(folder), names))
        scores = None
        if (folder / SCORES).is_file():
            known = read_scores(folder / SCORES)
            scores = known.subset([name for name in known.task_names if name not in names])
        summary = self.summarise(before, rows, again)
        if scores is None or not len(scores):
            (folder / SCORES).unlink(missing_ok=True)
            scores, summary["transfer"] = None, None
        elif summary["transfer"] is not None:
            summary["transfer"] = {**summary["transfer"], "n_scores": len(scores)}
        erase_vectors(folder, names)
        KeptTasks(folder).remove(names)
        sentences = tell_removed(names, partition, influence)
        change = Change(self.pending.version, "remove", self.pending.when, names, sentences[0])
        gone, changed = find_units(self.store, names, kept=None if again is None else again.names)
        # First out of the books, so that the summary does not quote them; the change itself stays noted.
        self.store.forget(names, units=gone, changed=changed)
        summary["configuration"] = {**summary["configuration"], "private": self.private_left()}
        write_version(
            folder,
            self.store,
            change,
            summary=summary,
            table=table_with(rows, without=names),
            scores=scores,
            details={"influence": influence.to_dict(), "sentences": list(sentences)},
        )
        shutil.rmtree(folder / STAGING, ignore_errors=True)
        write_manifest(folder)
        history = [*(one.to_dict() for one in changes_in(self.store)), change.to_dict()]
        self.pending = replace(self.pending, state="wiping")
        self.store.set_values({HISTORY: history, CHANGE: self.pending.to_dict()})
        return wipe(self.store, self.pending, influence)

    def private_left(self) -> list[str]:
        """Give the private tasks of the configuration that stay."""
        return [name for name in self.store.value("configuration")["private"] if name not in self.names]

    def summarise(
        self, before: dict[str, Any], rows: list[Mapping[str, str]], again: Retrained | None
    ) -> dict[str, Any]:
        """Give the summary of the new version."""
        left = [row for row in rows if row["task"] not in self.names]
        kept = KeptTasks(self.folder).read([row["task"] for row in left])
        figures: list[TaskFigures] = []
        if again is not None:
            figures = [*again.evaluation.tasks, *(one.figures for one in again.joined.values())]
        summary: dict[str, Any] = {
            **forget_names(before, self.names),
            "tasks": {
                "n": len(left),
                "n_learned": sum(row["learned"] == "yes" for row in left),
                "n_private": sum(row["private"] == "yes" for row in left),
                "n_rows": kept.n_rows,
            },
            "evaluation": with_figures(before, figures, without=self.names),
        }
        added = [values for values in summary.get(ADDED, []) if values["name"] not in self.names]
        if again is not None:
            added = [again.describe(values) for values in added]
            summary |= again.sections()
            known = set(before["doubts"])
            summary["doubts"] += [doubt for doubt in again.doubts if doubt not in known]
        if ADDED in before:
            summary[ADDED] = added
        if summary["clusters"] is not None:
            looked_at = [row for row in left if row["confidence"]]
            numbers = [int(row["cluster"]) for row in looked_at if row["cluster"]]
            sizes = [numbers.count(number) for number in range(len(before["clusters"]["sizes"]))]
            summary["clusters"]["sizes"] = sizes
            summary["clusters"]["n"] = sum(size > 0 for size in sizes)
            summary["clusters"]["n_without"] = len(looked_at) - len(numbers)
        return summary


def wipe(store: RunStore, pending: Pending, influence: Influence | None = None) -> RemoveResult:
    """Overwrite what was removed, and note that the change is over."""
    store.wipe()
    forget_before(store.folder)
    store.set_values({}, gone=[CHANGE])
    summary = read_summary(store.folder)
    change = changes_in(store)[-1]
    return RemoveResult(
        store.folder,
        pending.version,
        tuple(sorted(pending.tasks)),
        influence or Influence((), (), (), (), 0.0),
        (change.sentence,),
        summary,
    )


def erase_vectors(folder: Path, names: Sequence[str]) -> None:
    """Erase the vectors of the texts of tasks from the user's cache, of all models."""
    kept = KeptTasks(folder)
    # Those that are gone already were erased before the removal was interrupted.
    left = [name for name in names if kept.place(name).is_file()]
    if left:
        texts = [text for task in kept.read(left) for text in task.texts]
        VectorCache(default_cache_folder()).erase(texts)


def drop_private(folder: Path, names: Sequence[str]) -> None:
    """Take tasks that nobody learned from out of the model of the run; nothing else of it changes."""
    model = ClusterMultiTask.load(folder / MULTITASK)
    if set(names) & set(model.task_names_):
        model.without_tasks(names).save(folder / MULTITASK)


def tell_removed(names: Sequence[str], partition: Mapping[str, int], influence: Influence) -> tuple[str, ...]:
    """Say what went."""
    said = f"{count(len(names), 'task')} removed: {list_names(names)}"
    if influence.retrains:
        said += "; what had learned from it was trained again"
    left = {number for name, number in partition.items() if name not in names}
    vanished = sorted({partition[name] for name in names if partition.get(name, -1) >= 0} - left)
    if vanished:
        numbers = ", ".join(str(number) for number in vanished)
        said += f"; cluster {numbers} has no tasks any more, the others keep their numbers"
    return (f"{said}.",)


def take_back(store: RunStore, pending: Pending) -> None:
    """Bring a run back to what it was before an addition that is not finished."""
    folder, names = store.folder, tuple(sorted(pending.tasks))
    if pending.state == "writing":
        before, rows = read_before(folder, pending.version - 1)
        write_file(folder / SUMMARY, as_text(before))
        write_file(folder / CLUSTERS, table_with(rows))
        if (folder / SCORES).is_file():
            known = read_scores(folder / SCORES)
            left = [name for name in known.task_names if name not in names]
            known.subset(left).write_csv(folder / SCORES, owner_only=True)
    AddedModels(folder).remove(names)
    KeptTasks(folder).remove(names)
    shutil.rmtree(version_folder(folder, pending.version), ignore_errors=True)
    gone, changed = find_units(store, names)
    write_manifest(folder)
    store.forget(names, units=gone, changed=changed, gone=[CHANGE])
    store.wipe()
    forget_before(folder)

"""Add: new tasks in a finished run. Few pairs are measured, and only what is theirs is trained."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from robusttc.data import TaskSet
from robusttc.errors import DataError, UsageError, WorkError, quote
from robusttc.formatting import count
from robusttc.multitask import check_learnable, save_added
from robusttc.progress import Progress
from robusttc.run.fit import FitContext, encode_texts
from robusttc.run.inputs import hash_task
from robusttc.run.outputs import (
    CLUSTERS,
    SCORES,
    SUMMARY,
    AddedTask,
    ClusterRow,
    pack_clusters,
    pack_summary,
)
from robusttc.run.predict import TaskPredictor
from robusttc.run.run import MODELS, Run, added_model_folder
from robusttc.run.settings import Execution
from robusttc.run.store import Quarantined
from robusttc.run.task_files import adapted_files, pack_names, pack_task, task_file
from robusttc.run.updates.measure_new import Measured, measure_new_tasks
from robusttc.run.updates.new_heads import NewHead, train_new_heads
from robusttc.run.updates.next_version import (
    Flip,
    Judgement,
    Limits,
    Update,
    count_clusters,
    judge_version,
    list_names,
    with_figures,
)
from robusttc.run.version import Change

__all__ = ["AddResult", "add_tasks"]

MAX_LISTED = 10


@dataclass(frozen=True, slots=True, eq=False)
class AddResult:
    """What an addition leaves behind.

    Attributes
    ----------
    folder, version
        The run's folder, and its version now.
    added
        The tasks that came, by name.
    there
        The names of tasks that were there already, with the same rows.
    set_aside
        Why some of the new tasks cannot be learned, by name.
    flips
        Held-out texts of tasks that were there before which are labelled otherwise now.
    sentences
        What is to be said of all of them together.
    doubts
        What could not be done, a sentence each.
    """

    folder: Path
    version: int
    added: Mapping[str, AddedTask]
    there: tuple[str, ...]
    set_aside: Mapping[str, str]
    flips: tuple[Flip, ...]
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def is_doubtful(self) -> bool:
        """Whether something was left out."""
        return bool(self.set_aside or self.doubts)


def add_tasks(
    folder: str | os.PathLike[str],
    tasks: TaskSet,
    *,
    private: Iterable[str] = (),
    replace_adapted: bool = False,
    limits: Limits | None = None,
    execution: Execution | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> AddResult:
    """Add tasks to a finished run.

    Each new task is measured against representatives of every cluster, placed in a cluster or in none, and
    gets models of its own: one alone, and classifiers on the run's layers, which do not change. Until the
    next version is published the run answers as before; called again with the same tasks after a kill, it
    goes on where it was, to the same result.

    Parameters
    ----------
    folder
        The folder of a finished run.
    tasks
        The new tasks. Those that the run has with the same rows are left as they are.
    private
        Names of tasks that are not compared with others, and get a model of their own only.
    replace_adapted
        Whether a task takes the place of one of the same name that `adapt` made.
    limits
        What the next version must not break.
    execution
        Where jobs run; None runs them in this process.
    progress
        Called now and then with how far it is.
    stop
        Asked now and then; once it says True, work under way is dropped and `Stopped` is raised.

    Raises
    ------
    UsageError
        If a name is taken, or another change of the run is under way.
    DataError
        If no new task can be learned.
    VersionRefusedError
        If the next version breaks a limit.
    StoreError
        If the run is damaged, or another process works on it.
    """
    marked = tasks.keep_private(private)
    with Update.begin(folder) as update:
        new = sort_new(update.run, marked, replace=replace_adapted)
        if not len(new.tasks):
            there = update.run.version.number
            return AddResult(update.run.folder, there, {}, new.there, {}, (), (), ())
        update.claim("add", {task.name: hash_task(task) for task in new.tasks})
        with update.working(execution, progress, stop) as context, context.stage("add") as tell:
            heads, measured = train(context, update, new, tell)
            predictors = {name: predictor_of(head, new.tasks) for name, head in heads.items()}
            judgement = judge_version(update.run, predictors, limits or Limits())
        return publish(update, new, measured, heads, judgement)


def train(
    context: FitContext, update: Update, new: NewTasks, progress: Progress | None
) -> tuple[dict[str, NewHead], Measured]:
    """Encode the new tasks, measure and place those that may share, and train what they need."""
    encoder, learnable = update.encoder(), new.learnable
    if encoder.keeps_vectors:
        encode_texts(context.runner, encoder, learnable, progress)
    try:
        measured = measure_new_tasks(
            update.run,
            learnable.shareable(),
            context.settings,
            encoder,
            runner=context.runner,
            progress=progress,
        )
    except WorkError as error:
        sentence = f"The new tasks could not be measured, so they have no clusters: {error}."
        measured = Measured(None, doubts=[sentence])
    update.doubts += measured.doubts
    heads = train_new_heads(
        learnable,
        {name: measured.placement(name).cluster for name in learnable.names},
        update.run.multitask,
        encoder,
        n_folds=context.settings.n_folds,
        runner=context.runner.with_prefix("add", cost_stage="add"),
        progress=progress,
    )
    return heads, measured


def predictor_of(head: NewHead, tasks: TaskSet) -> TaskPredictor:
    """Return what predicts for a new task."""
    name = head.parts.task.name
    return TaskPredictor.of_model(head.model, name, lambda: tasks[name])


@dataclass(frozen=True, slots=True)
class NewTasks:
    """The tasks that are to be added, sorted."""

    tasks: TaskSet  # all that are new, in the order of their names, also those that cannot be learned
    there: tuple[str, ...]  # those that the run has with the same rows
    set_aside: dict[str, str]  # why some of the new ones cannot be learned
    replaced: tuple[str, ...]  # those in whose place one stands that `adapt` made

    @property
    def learnable(self) -> TaskSet:
        """The new tasks that can be learned."""
        return self.tasks.subset([name for name in self.tasks.names if name not in self.set_aside])


def sort_new(run: Run, tasks: TaskSet, *, replace: bool) -> NewTasks:
    """Sort tasks into new ones and those that are there; refuse all that cannot come, in one message."""
    known, adapted = run.version.identity["tasks"], set(run.adapted_names)
    ordered = sorted(tasks, key=lambda task: task.name)
    there = tuple(task.name for task in ordered if known.get(task.name) == hash_task(task))
    taken = [task.name for task in ordered if task.name in known and task.name not in there]
    used = [task.name for task in ordered if task.name not in known and task.name in adapted]
    problems = [
        f"{quote(name)} is in the run with other rows, or private where this is not" for name in taken
    ]
    if not replace:
        problems += [f"{quote(name)} was made by robusttc adapt" for name in used]
    if problems:
        refuse_names(run, problems, has_taken=bool(taken), has_used=bool(used) and not replace)
    new = TaskSet(task for task in ordered if task.name not in known)
    set_aside: dict[str, str] = {}
    for task in new:
        try:
            check_learnable(TaskSet([task]))
        except DataError as error:
            set_aside[task.name] = str(error)
    if len(new) and len(set_aside) == len(new):
        first = next(iter(set_aside.values()))
        raise DataError("no new task can be learned", got=f"{len(new):,} tasks, the first: {first}")
    return NewTasks(new, there, set_aside, tuple(used))


def refuse_names(run: Run, problems: list[str], *, has_taken: bool, has_used: bool) -> None:
    """Say which names are taken, and what to do."""
    lines = [f"  {line}" for line in problems[:MAX_LISTED]]
    if len(problems) > MAX_LISTED:
        lines.append(f"  … and {len(problems) - MAX_LISTED:,} more")
    todo = []
    if has_taken:
        todo.append("give it another name, or take the old one out first with: robusttc remove")
    if has_used:
        todo.append("put it in the place of the adapted one with --replace")
    lines.append(f"What to do: {'; '.join(todo)}")
    what = f"{len(problems):,} names are taken:" if len(problems) > 1 else "a name is taken:"
    raise UsageError("\n".join([what, *lines]), where=repr(str(run.folder)))


def publish(
    update: Update, new: NewTasks, measured: Measured, heads: Mapping[str, NewHead], judgement: Judgement
) -> AddResult:
    """Write the files of the next version, and let it answer."""
    writer, run = update.writer, update.run
    added = {name: describe(head, measured, update.number) for name, head in heads.items()}
    aside = [Quarantined("read", f"read/{name}", why, (name,)) for name, why in new.set_aside.items()]
    left_out = [*aside, *update.store.quarantined()]
    rows = [
        *run.cluster_rows.values(),
        *(cluster_row(new, name, added, left_out) for name in new.tasks.names),
    ]
    scores = run.scores
    if scores is not None and measured.scores is not None:
        scores = scores.merged_with(measured.scores)
    sentences = describe_all(added, new.set_aside, measured)

    staging = writer.begin(run.version)
    base = run.version.files[MODELS["multitask"]][0]
    for task in new.tasks:
        writer.write(task_file(task.name), pack_task(task))
    for name, head in heads.items():
        update.save_folder(added_model_folder(name), partial(save_added, head.parts, base=base))
    if scores is not None:
        scores.write_csv(staging / SCORES, owner_only=True)
    replaced = set(new.replaced) & set(added)
    if replaced:
        writer.remove([file for name in replaced for file in adapted_files(name)])
        for file, content in pack_names(sorted(set(run.adapted_names) - replaced)).items():
            writer.write(file, content)
    before = {key: value for key, value in run.summary.items() if key != "costs"}
    counts, shareable = before["tasks"], new.tasks.shareable()
    summary = {
        **before,
        "tasks": {
            "n": counts["n"] + len(new.tasks),
            "n_learned": counts["n_learned"] + len(added),
            "n_private": counts["n_private"] + len(new.tasks) - len(shareable),
            "n_rows": counts["n_rows"] + new.tasks.n_rows,
        },
        "clusters": count_clusters(before, rows),
        "evaluation": with_figures(run.evaluation, [one.figures for one in added.values()]),
        "added": [*before.get("added", []), *(one.to_dict() for one in added.values())],
        "doubts": list(dict.fromkeys([*before["doubts"], *update.doubts])),
        "quarantined": [*before["quarantined"], *(asdict(job) for job in left_out)],
    }
    if before["transfer"] is not None and scores is not None:
        summary["transfer"] = {**before["transfer"], "n_scores": len(scores)}
    writer.write(CLUSTERS, pack_clusters(rows))
    writer.write(SUMMARY, pack_summary(summary))
    details = {
        "added": [one.to_dict() for one in added.values()],
        "set_aside": new.set_aside,
        "sentences": list(sentences),
    }
    change = Change("add", new.tasks.names, sentences[0], details=details)
    identity = update.identity({task.name: hash_task(task) for task in new.tasks})
    version = update.publish(change, judgement, identity)
    return AddResult(
        run.folder,
        version.number,
        added,
        new.there,
        new.set_aside,
        judgement.flips,
        sentences,
        tuple(update.doubts),
    )


def describe(head: NewHead, measured: Measured, version: int) -> AddedTask:
    """Return what is known of a new task."""
    task = head.parts.task
    placement, is_placed = measured.placement(task.name), measured.has_clusters and task.may_share
    return AddedTask(
        task.name,
        version,
        task.cluster,
        placement.confidence if is_placed else 0.0,
        is_placed and placement.out_of_cluster,
        head.gain,
        head.figures,
        measured.n_measured(task.name),
        task.shares,
    )


def cluster_row(
    new: NewTasks, name: str, added: Mapping[str, AddedTask], left_out: Iterable[Quarantined]
) -> ClusterRow:
    """Return the line of a new task in the file of clusters."""
    one = added.get(name)
    why = "; ".join(f"{job.stage}: {job.error}" for job in left_out if job.tasks == (name,))
    is_private = not new.tasks[name].may_share
    if one is None:
        return ClusterRow(name, private=is_private, learned=False, why=why)
    return ClusterRow(name, one.cluster, one.confidence if one.n_measured else None, is_private, why=why)


def describe_all(
    added: Mapping[str, AddedTask], set_aside: Mapping[str, str], measured: Measured
) -> tuple[str, ...]:
    """Say what came, the sum first."""
    placed = sum(one.cluster >= 0 for one in added.values())
    unplaced = [name for name, one in added.items() if one.out_of_cluster]
    parts = [f"{count(len(added), 'task')} added"]
    if placed:
        parts.append(f"{placed:,} to clusters that were there")
    if unplaced:
        parts.append(f"{len(unplaced):,} out of cluster")
    first = ", ".join(parts)
    if set_aside:
        first += f"; {count(len(set_aside), 'task')} set aside: {list_names(set_aside)}"
    sentences = [f"{first}."]
    sentences += [
        f"These {len(group):,} new tasks are like each other and unlike all others: {list_names(group)}; "
        "a refit would make a cluster of them."
        for group in measured.groups
    ]
    alone = [name for name in unplaced if not any(name in group for group in measured.groups)]
    if alone:
        sentences.append(f"No cluster fits {list_names(alone)}.")
    own = [name for name, one in added.items() if one.expected_gain is not None and not one.shares]
    if own:
        sentences.append(f"Sharing does not pay for {list_names(own)}: own models serve.")
    return tuple(sentences)

"""Adapt: a new task from a handful of examples, as the next version of a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from robusttc.data import Task, name_problem
from robusttc.errors import StoreError, UnknownTaskError, UsageError, quote
from robusttc.fewshot import FewShotModel
from robusttc.formatting import count
from robusttc.run.folder import FolderWriter
from robusttc.run.outputs import FEWSHOT
from robusttc.run.predict import TaskPredictor
from robusttc.run.task_files import adapted_files, pack_adapted, pack_names, pack_task, read_examples
from robusttc.run.updates.next_version import Limits, judge_version, must_pass_file, refuse_pending
from robusttc.run.version import Change

if TYPE_CHECKING:
    from robusttc.run.run import Run

__all__ = ["adapt_task", "restore_task"]


def adapt_task(
    run: Run, examples: Task, *, replace: bool = False, limits: Limits | None = None
) -> FewShotModel:
    """Learn a task from its training rows, and publish it; `run` then shows the new version.

    Its model is its own parts on the metrics of the run's learner, so it is small, and its examples are kept:
    with another learner it is learned again.

    Parameters
    ----------
    run
        The run.
    examples
        The task; its name must be new.
    replace
        Whether it may take the place of an adapted task of its name. The same examples again change nothing.
    limits
        What the next version must not break.

    Raises
    ------
    UsageError
        If the name is taken, another change is under way, or the run has nothing that learns new tasks.
    DataError
        If there are no training rows, or all of them have one label.
    VersionRefusedError
        If the next version breaks a limit.
    StoreError
        If another process works on the run, or the disk does not take it.
    """
    started, name = time.perf_counter(), examples.name
    problem = name_problem(name, "name")
    if problem is not None:
        raise UsageError(problem, got=quote(name))
    with FolderWriter(run.folder) as writer:
        refuse_pending(writer)
        run.reload()  # from here on nobody else changes it
        refuse_taken(run, name, replace=replace)
        there = find_same(run, examples)
        if there is not None and limits is None:
            return there
        model = run.fewshot.adapt(examples)
        judgement = judge_version(run, {name: TaskPredictor.of_adapted(model)}, limits or Limits())
        base = run.version
        writer.begin(base)
        files = {**pack_adapted(model, examples), **pack_names([*({*run.adapted_names} - {name}), name])}
        for file, content in files.items():
            writer.write(file, content)
        for task in judgement.must_pass:
            writer.write(must_pass_file(task.name), pack_task(task))
        n_rows, n_labels = len(examples.rows("train")), len(model.label_names)
        sentence = f"{quote(name)} was learned from {count(n_rows, 'example')} of {count(n_labels, 'label')}."
        change = Change("adapt", (name,), sentence, time.perf_counter() - started, judgement.n_flips)
        writer.publish(change, identity=base.identity, libraries=base.libraries)
    run.reload()
    return model


def find_same(run: Run, examples: Task) -> FewShotModel | None:
    """Return the model that the run has of these very examples; None if it has none that can be read."""
    if examples.name not in run.adapted_names:
        return None
    try:
        known = read_examples(run.version, examples.name)
        return run.adapted_model(examples.name) if pack_task(known) == pack_task(examples) else None
    except StoreError:
        return None  # damaged: it is learned again


def restore_task(run: Run, name: str, version: int) -> None:
    """Let the model of an adapted task answer that it had in an earlier version, as the next version.

    Raises
    ------
    UnknownTaskError
        If there is no such adapted task.
    UsageError
        If that version is not kept, has no such task, or is from before what it stands on was trained again.
    StoreError
        If another process works on the run, or the disk does not take it.
    """
    with FolderWriter(run.folder) as writer:
        refuse_pending(writer)
        run.reload()
        if name not in run.adapted_names:
            raise UnknownTaskError(name, run.adapted_names)
        earlier, base = writer.version(version), run.version
        files = adapted_files(name)
        learner = f"{FEWSHOT}/manifest.json"
        if any(file not in earlier for file in files) or earlier.files[learner] != base.files[learner]:
            where = f"version {version}"
            raise UsageError("the task cannot be restored", where=where, expected="a version of this task")
        writer.begin(base)
        for file in files:
            writer.write(file, earlier.read(file))
        sentence = f"{quote(name)} is again as in version {version}."
        writer.publish(Change("adapt", (name,), sentence), identity=base.identity, libraries=base.libraries)
    run.reload()


def refuse_taken(run: Run, name: str, *, replace: bool) -> None:
    """Refuse a name that a task has."""
    if name in run.adapted_names and not replace:
        raise UsageError(
            "an adapted task has this name",
            got=quote(name),
            todo="choose another name, or put this one in its place with --replace",
        )
    if name in run.cluster_rows:
        raise UsageError(
            "a task of the run has this name",
            got=quote(name),
            todo="choose another name, or add the rows to the task and fit again",
        )

"""Adapt: a new task from a handful of examples, as the next version of a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from robusttc.data import Task, name_problem
from robusttc.errors import UsageError, quote
from robusttc.fewshot import FewShotModel
from robusttc.formatting import count
from robusttc.run.folder import Change, FolderWriter
from robusttc.run.task_files import pack_adapted, pack_names

if TYPE_CHECKING:
    from robusttc.run.run import Run

__all__ = ["adapt_task"]


def adapt_task(run: Run, examples: Task, *, replace: bool = False) -> FewShotModel:
    """Learn a task and publish it; see `Run.adapt`."""
    started, name = time.perf_counter(), examples.name
    problem = name_problem(name, "name")
    if problem is not None:
        raise UsageError(problem, got=quote(name))
    with FolderWriter(run.folder) as writer:
        run.reload()  # from here on nobody else changes it
        refuse_taken(run, name, replace=replace)
        model = run.fewshot.adapt(examples)
        base = run.version
        writer.begin(base)
        files = {**pack_adapted(model, examples), **pack_names([*({*run.adapted_names} - {name}), name])}
        for file, content in files.items():
            writer.write(file, content)
        n_rows, n_labels = len(examples.rows("train")), len(model.label_names)
        sentence = f"{name} was learned from {count(n_rows, 'example')} of {count(n_labels, 'label')}."
        change = Change("adapt", (name,), sentence, time.perf_counter() - started)
        writer.publish(change, identity=base.identity, libraries=base.libraries)
    run.reload()
    return model


def refuse_taken(run: Run, name: str, *, replace: bool) -> None:
    """Refuse a name that a task has."""
    if name in run.adapted_names and not replace:
        raise UsageError(
            "an added task has this name",
            got=quote(name),
            todo="choose another name, or put this one in its place with --replace",
        )
    if name in run.cluster_rows:
        raise UsageError(
            "a task of the run has this name",
            got=quote(name),
            todo="choose another name, or add the rows to the task and fit again",
        )

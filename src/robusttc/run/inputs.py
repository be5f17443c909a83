"""What a run is a run of; which tasks can be learned, and how long learning them takes."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from robusttc.data import Task, TaskSet
from robusttc.encoders import make_encoder
from robusttc.errors import DataError, UsageError, quote
from robusttc.formatting import count
from robusttc.multitask import check_learnable
from robusttc.run.settings import FitSettings
from robusttc.run.version import Version
from robusttc.transfer import choose_pairs
from robusttc.version import __version__

__all__ = [
    "SortedTasks",
    "estimate_learning",
    "hash_task",
    "identify",
    "library_versions",
    "refuse_difference",
    "refuse_other",
    "sort_tasks",
]

# What the last digits of a number depend on.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "numba")
MAX_LISTED_DIFFERENCES = 10
ABSENT = object()


def identify(tasks: TaskSet, settings: FitSettings) -> dict[str, Any]:
    """Return what the results of a run depend on: its settings, and the content of every task."""
    values = settings.to_dict()
    # What is in the files counts, not where they are.
    paths = {name: values.pop(name) for name in ("vectors", "model")}
    values["encoder_files"] = make_encoder(settings.encoder, device="cpu", **paths).fingerprint
    return {"settings": values, "tasks": {task.name: hash_task(task) for task in tasks}}


def hash_task(task: Task) -> str:
    """Return the SHA-256 of a task's content, and of whether its splits were drawn: models depend on both."""
    if not task.splits_drawn:
        return task.content_hash
    return hashlib.sha256(f"{task.content_hash}, splits drawn".encode()).hexdigest()


def library_versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    return {"robusttc": __version__, **{name: metadata.version(name) for name in LIBRARIES}}


def refuse_other(current: Version, identity: Mapping[str, Any], libraries: Mapping[str, str]) -> None:
    """Refuse to go on with a run of something else."""
    changed = sorted({change.kind for change in current.history} & {"add", "remove"})
    if changed and current.identity != identity:
        raise UsageError(
            "tasks have been added to this run or removed from it",
            where=repr(str(current.folder.parent.parent)),
            got=count(len(current.history), "version"),
            todo="add or remove others with robusttc add and remove, or fit in another folder",
        )
    where = current.folder.parent.parent
    refuse_difference(current.identity, identity, current.libraries, libraries, where=where)


def refuse_difference(
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    libraries_then: Mapping[str, str],
    libraries_now: Mapping[str, str],
    *,
    where: os.PathLike[str],
) -> None:
    """Refuse to resume a run with other inputs, and list what differs, ten at most."""
    before, after = then["tasks"], now["tasks"]
    found = list(compare(then["settings"], now["settings"], ""))
    found += [f"version of {line}" for line in compare(libraries_then, libraries_now, "")]
    changed = [name for name in before if after.get(name, before[name]) != before[name]]
    found += [f"task {quote(name)} has other rows" for name in changed]
    found += [f"task {quote(name)} is gone" for name in before if name not in after]
    found += [f"task {quote(name)} is new" for name in after if name not in before]
    if not found:
        return
    lines = [f"  {line}" for line in found[:MAX_LISTED_DIFFERENCES]]
    if len(found) > MAX_LISTED_DIFFERENCES:
        lines.append(f"  … and {len(found) - MAX_LISTED_DIFFERENCES:,} more")
    lines.append("What to do: give what was given then, or another folder for a new run")
    what = "this run was begun with something else, so it cannot be resumed:"
    raise UsageError("\n".join([what, *lines]), where=repr(os.fspath(where)))


def compare(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Describe the values that differ, those of mappings inside by their path."""
    for name in [*then, *(name for name in now if name not in then)]:
        before, after = then.get(name, ABSENT), now.get(name, ABSENT)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from compare(before, after, f"{prefix}{name}.")
        # 1, 1.0 and true are equal in Python; in settings they are not.
        elif type(before) is not type(after) or before != after:
            shown = ("not there" if value is ABSENT else quote(value) for value in (before, after))
            yield f"{prefix}{name}: {next(shown)} then, {next(shown)} now"


@dataclass(frozen=True, slots=True)
class SortedTasks:
    """The tasks that can be learned, in the order of their names, and why each of the others cannot."""

    tasks: TaskSet
    set_aside: dict[str, str]


def sort_tasks(tasks: TaskSet, settings: FitSettings) -> SortedTasks:
    """Part tasks into those that can be learned and the others; the private ones are marked.

    Raises
    ------
    UnknownTaskError
        If a private task is not there.
    UsageError
        If there are fewer tasks than clusters, or not so many pairs of them.
    DataError
        If no task can be learned.

    Examples
    --------
    >>> tasks = TaskSet([Task("b", ["hi", "bye"], ["x", "y"]), Task("a", ["hi"], ["x"])])
    >>> found = sort_tasks(tasks, FitSettings())
    >>> found.tasks.names, found.set_aside["a"].partition(";")[0]
    (('b',), "task 'a': the task cannot be learned")
    """
    tasks = tasks.keep_private(settings.private)
    set_aside: dict[str, str] = {}
    for task in sorted(tasks, key=lambda task: task.name):
        try:
            check_learnable(TaskSet([task]))
        except DataError as error:
            set_aside[task.name] = str(error)
    names = sorted(set(tasks.names) - set_aside.keys())
    if not names:
        first = next(iter(set_aside.values()), "there are no tasks")
        raise DataError("no task can be learned", got=f"{len(set_aside):,} tasks, the first: {first}")
    learnable = tasks.subset(names)
    shared = learnable.shareable().names
    if isinstance(settings.pairs, int) and len(shared) > 1:
        # Refuses a number that these tasks cannot have, before a run is begun with it.
        choose_pairs(shared, settings.pairs, random_state=settings.seed)
    if settings.clusters != "auto" and settings.clusters > len(shared):
        raise UsageError(
            "there are fewer tasks than clusters",
            got=f"clusters {settings.clusters:,}",
            expected=f"at most {len(shared):,}, the number of tasks that can be learned and may share",
        )
    return SortedTasks(learnable, set_aside)


# How long learning takes, roughly: what measuring costs can be tried, but nobody knows the clusters yet.
# CPU seconds for one row in one model and for one metric, seen on `bots175` on one core for `sentence`.
SECONDS_A_ROW = {"sentence": 4e-4, "both": 7e-4, "cnn": 1.6e-3}
SECONDS_A_METRIC = {"sentence": 1.5, "both": 2.7, "cnn": 3.0}
SECONDS_A_VALIDATION_TASK = 0.15
SECONDS_TUNING, SECONDS_A_TEXT = 180.0, 4e-3
MOST_HELD_OUT, TASKS_A_CLUSTER = 60, 25
EVALUATION_PASSES = 2.0


def estimate_learning(tasks: TaskSet, settings: FitSettings, *, n_workers: int = 1) -> float:
    """Return the seconds that multi-task and few-shot learning will take, to a factor of two or three."""
    shared = tasks.shareable()
    n_rows = sum(len(task.rows("train")) for task in shared)
    encoder = settings.encoder if settings.encoder in SECONDS_A_ROW else "sentence"
    is_auto = settings.clusters == "auto"
    n_clusters = max(2, math.ceil(len(shared) / TASKS_A_CLUSTER)) if is_auto else int(settings.clusters)
    passes = EVALUATION_PASSES
    if settings.strategy == "blend":
        # In each fold: the shared model, the clusters, and random clusters.
        passes += (settings.n_folds - 1) * (2 + settings.n_random)
    n_rounds = 1 if len(shared) > MOST_HELD_OUT else 3
    n_metrics = (n_rounds + 1) * (1 + n_clusters) + n_rounds * n_clusters
    seconds = SECONDS_A_ROW[encoder] * n_rows * passes + SECONDS_A_METRIC[encoder] * n_metrics
    seconds += SECONDS_A_VALIDATION_TASK * 2 * min(len(shared), MOST_HELD_OUT)
    tuning = 0.0
    if settings.tune == "encoder":
        tuning = SECONDS_TUNING + SECONDS_A_TEXT * sum(len(set(task.texts)) for task in shared)
    return seconds / n_workers + tuning

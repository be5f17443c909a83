"""A fit as a run: one folder, begun once, resumed as often as need be, finished once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from robusttc.data import TaskSet
from robusttc.encoders import make_encoder
from robusttc.errors import StoreError
from robusttc.jobs import Stopped
from robusttc.progress import Progress, ProgressEvent
from robusttc.run.creation import DATABASE
from robusttc.run.identity import Identity, hash_task
from robusttc.run.later.history import refuse_later
from robusttc.run.learnable import sort_tasks
from robusttc.run.manifest import check_manifest, write_manifest
from robusttc.run.outputs import write_outputs
from robusttc.run.places import remove_half_saved
from robusttc.run.settings import Execution, FitSettings
from robusttc.run.stages import ENTANGLED, Stages
from robusttc.run.store import RunStore
from robusttc.run.summary import read_summary
from robusttc.run.workers import make_runner
from robusttc.version import __version__

__all__ = ["FINISHED", "FitResult", "fit_run", "make_identity"]

# The value of the store that says that everything is in its place.
FINISHED = "finished"
# What the last digits of a number depend on.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "numba")


@dataclass(frozen=True, slots=True, eq=False)
class FitResult:
    """What a fit leaves behind.

    Attributes
    ----------
    folder
        The run's folder.
    summary
        What ``summary.json`` says.
    was_finished
        Whether it was all there before.
    """

    folder: Path
    summary: dict[str, Any]
    was_finished: bool

    @property
    def is_doubtful(self) -> bool:
        """Whether something was left out or not proven."""
        return bool(self.summary["quarantined"] or self.summary["doubts"])


def fit_run(
    folder: str | os.PathLike[str],
    tasks: TaskSet,
    configuration: FitSettings,
    *,
    execution: Execution | None = None,
    retry: bool = False,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> FitResult:
    """Learn from tasks in a folder that remembers every finished piece of work.

    Calling it again with the same arguments goes on where it was stopped, or killed; the result depends on
    tasks and configuration alone.

    Parameters
    ----------
    folder
        The run's folder: new, empty, or that of the same run.
    tasks
        The tasks. Those that cannot be learned are set aside, and named in the summary.
    configuration
        What the result depends on.
    execution
        Who does the work; None takes one process.
    retry
        Whether to try again what was given up before.
    progress
        Told how far it is.
    stop
        Asked now and then; once it says True, work under way is dropped and `Stopped` is raised.

    Raises
    ------
    UsageError
        If an argument cannot be used, the folder holds something else, or a run of something else.
    DataError
        If no task can be learned.
    StoreError
        If the run is damaged, of a newer version, or another process works on it, or the disk is full.
    Stopped
        If it was told to stop.
    """
    is_stopped = stop if stop is not None else never
    found = sort_tasks(tasks, configuration)
    private = tasks.keep_private(configuration.private)
    identity = make_identity(private, configuration)
    with open_or_create(Path(folder), identity) as store:
        place = store.folder
        if retry:
            release(store)
        elif (done := find_finished(store)) is not None:
            return FitResult(place, done, was_finished=True)
        store.set_value(FINISHED, False)
        store.set_value("configuration", configuration.to_dict())
        for name, why in found.set_aside.items():
            store.quarantine("read", f"read/{name}", why, [name])
        with make_runner(store, execution or Execution(), stop=is_stopped) as runner:
            stages = Stages(place, store, runner, configuration, progress=stopping(progress, is_stopped))
            outcome = stages.run(found.tasks)
        remove_half_saved(place)
        summary = write_outputs(place, store, private, found, configuration, outcome)
        write_manifest(place)
        store.set_value(FINISHED, True)
    return FitResult(place, summary, was_finished=False)


def open_or_create(folder: Path, identity: Identity) -> RunStore:
    """Open the run of a folder, or begin one."""
    if not (folder / DATABASE).exists():
        return RunStore.create(folder, identity)
    store = RunStore.open(folder)
    try:
        refuse_later(store)
        store.identity.refuse_other(identity, where=repr(str(store.folder)))
    except BaseException:
        store.close()
        raise
    return store


def find_finished(store: RunStore) -> dict[str, Any] | None:
    """Give the summary of a run that is finished and whole; None where there is something to do.

    A file that is gone or damaged is something to do: all of them can be made again from the database.
    """
    if not store.value(FINISHED, False):
        return None
    try:
        check_manifest(store.folder)
        return read_summary(store.folder)
    except StoreError:
        return None


def release(store: RunStore) -> None:
    """Have everything that was given up tried again, with what depends on it."""
    stages = {unit.stage for unit in store.quarantined()}
    for stage in ENTANGLED:
        if stage in stages:
            store.set_value(f"retried/{stage}", store.value(f"retried/{stage}", 0) + 1)
    store.release_quarantined()


def make_identity(tasks: TaskSet, configuration: FitSettings) -> Identity:
    """Give what a run of these tasks is a run of."""
    facts = configuration.to_dict()
    # What is in the files counts, not where they are.
    paths = {name: facts.pop(name) for name in ("vectors", "model")}
    files = make_encoder(configuration.encoder, device="cpu", **paths).fingerprint
    versions = {"robusttc": __version__, **{name: metadata.version(name) for name in LIBRARIES}}
    facts["encoder_files"] = files
    return Identity(facts, {task.name: hash_task(task) for task in tasks}, versions)


def stopping(progress: Progress | None, stop: Callable[[], bool]) -> Progress:
    """Give a callback that also ends work in this very process, once it is to stop."""

    def tell(event: ProgressEvent) -> None:
        if stop():
            raise Stopped
        if progress is not None:
            progress(event)

    return tell


def never() -> bool:
    """Do not stop."""
    return False

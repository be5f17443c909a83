"""Tasks added to a finished run: few pairs are measured, and only what is theirs is trained.

Killed at any moment, the same call goes on where it was, to the same result; until its last moment everybody
else sees the run as it was before. See `robusttc.run.later.changing`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from robusttc.data import TaskSet
from robusttc.errors import UsageError
from robusttc.progress import Progress
from robusttc.run.adapted import AdaptedModels
from robusttc.run.fitting import never, stopping
from robusttc.run.later.addition import Adding, AddResult
from robusttc.run.later.beginning import begun, pending_of, refuse_unfinished
from robusttc.run.later.changing import Pending, refuse_other_change
from robusttc.run.later.history import changes_in
from robusttc.run.later.later_outputs import names_added
from robusttc.run.later.new_tasks import NewTasks, sort_new
from robusttc.run.later.removal import take_back
from robusttc.run.manifest import check_manifest
from robusttc.run.settings import Execution
from robusttc.run.store import RunStore
from robusttc.run.summary import read_summary

__all__ = ["AddResult", "add_tasks", "give_up_adding"]


def add_tasks(
    folder: str | os.PathLike[str],
    tasks: TaskSet,
    *,
    private: Iterable[str] = (),
    replace_adapted: bool = False,
    execution: Execution | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> AddResult:
    """Add tasks to a finished run.

    Each new task is measured against representatives of every cluster, placed in a cluster or in none, and
    gets models of its own: one alone, and classifiers on the run's models, which do not change. Calling it
    again with the same tasks goes on where it was stopped, or says that they are there.

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
    execution
        Who does the work; None does it in this process.
    progress
        Told how far it is.
    stop
        Asked now and then; once it says True, work under way is dropped and `Stopped` is raised.

    Raises
    ------
    UsageError
        If a name is taken, or another change of the run is under way.
    DataError
        If no new task can be learned.
    StoreError
        If there is no run, it is not finished, damaged, or another process works on it.
    Stopped
        If it was told to stop.
    """
    is_stopped = never if stop is None else stop
    marked = tasks.keep_private(private)
    with RunStore.open(folder) as store:
        refuse_unfinished(store)
        pending = pending_of(store)
        if pending is None or pending.state == "begun":
            check_manifest(store.folder)
        under_way = {} if pending is None else pending.tasks
        known = {name: content for name, content in store.identity.tasks.items() if name not in under_way}
        new = sort_new(store.folder, known, marked, replace=replace_adapted)
        if pending is not None and (pending.kind != "add" or dict(pending.tasks) != new.hashes):
            refuse_other_change(store.folder, pending, "other tasks")
        if not len(new.tasks):
            return nothing_new(store, new)
        if pending is None:
            version = 2 + len(changes_in(store))
            pending = Pending("add", version, new.hashes, time.time())
        with begun(store, pending, execution, is_stopped) as runner:
            return Adding(store, pending, new, runner, stopping(progress, is_stopped)).run()


def nothing_new(store: RunStore, new: NewTasks) -> AddResult:
    """Say that all tasks are there already."""
    summary = read_summary(store.folder)
    # An addition that was killed right after its commit has left the adapted models that it replaces.
    AdaptedModels(store.folder).remove(names_added(summary) & set(new.there))
    version = 1 + len(changes_in(store))
    return AddResult(store.folder, version, {}, new.there, {}, (), (), summary)


def give_up_adding(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Take back an addition that was begun and is not finished; give the names of its tasks.

    Raises
    ------
    UsageError
        If none is under way.
    StoreError
        As `add_tasks`.
    """
    with RunStore.open(folder) as store:
        refuse_unfinished(store)
        pending = pending_of(store)
        if pending is None or pending.kind != "add":
            raise UsageError(
                "no addition is under way", where=repr(str(store.folder)), expected="one that was stopped"
            )
        take_back(store, pending)
        return tuple(sorted(pending.tasks))

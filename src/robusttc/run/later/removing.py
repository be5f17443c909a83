"""Tasks removed from a finished run: what learned from them is trained again, and nothing of them stays.

Only the history keeps their names. Killed at any moment, the same call goes on where it was; until its last
moment everybody else sees the run as it was before. See `robusttc.run.later.changing`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from robusttc.errors import UnknownTaskError, UsageError, quote
from robusttc.progress import Progress
from robusttc.run.adapted import AdaptedModels
from robusttc.run.fitting import never, stopping
from robusttc.run.later.beginning import begun, pending_of, refuse_unfinished
from robusttc.run.later.changing import Pending, refuse_other_change
from robusttc.run.later.history import changes_in
from robusttc.run.later.influence import Influence, find_influence
from robusttc.run.later.later_outputs import read_before
from robusttc.run.later.removal import RemoveResult, Removing, wipe
from robusttc.run.later.telling import list_names
from robusttc.run.manifest import check_manifest
from robusttc.run.settings import Execution
from robusttc.run.store import RunStore

__all__ = ["RemoveResult", "plan_removal", "remove_tasks"]


def plan_removal(folder: str | os.PathLike[str], names: Sequence[str]) -> Influence:
    """Tell what tasks have influenced, before anything is done; see `remove_tasks` for errors."""
    with RunStore.open(folder, read_only=True) as store:
        refuse_unfinished(store)
        pending = pending_of(store)
        wanted = check_names(store, names, pending)
        if pending is None or pending.state == "begun":
            check_manifest(store.folder)
        before = None
        if pending is not None and pending.state != "wiping":
            before = read_before(store.folder, pending.version - 1)
        return find_influence(store, wanted, before=before)


def remove_tasks(
    folder: str | os.PathLike[str],
    names: Sequence[str],
    *,
    execution: Execution | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> RemoveResult:
    """Remove tasks from a finished run.

    Of an added task its models, scores and texts go, and nobody else is touched. What a task of the fit has
    influenced is trained again from the tasks that the run keeps: the model of all tasks, those of clusters,
    weights, and what learns new tasks; clusters and the scores of others stay.

    Parameters
    ----------
    folder
        The folder of a finished run.
    names
        The tasks.
    execution
        Who does the work; None does it in this process.
    progress
        Told how far it is.
    stop
        Asked now and then; once it says True, work under way is dropped and `Stopped` is raised.

    Raises
    ------
    UnknownTaskError
        If the run has no such task.
    UsageError
        If no task would be left, or another change of the run is under way.
    StoreError
        If there is no run, it is not finished, damaged, or another process works on it.
    Stopped
        If it was told to stop.
    """
    is_stopped = never if stop is None else stop
    with RunStore.open(folder) as store:
        refuse_unfinished(store)
        pending = pending_of(store)
        wanted = check_names(store, names, pending)
        if pending is None or pending.state == "begun":
            check_manifest(store.folder)
        if pending is None:
            hashes = {name: store.identity.tasks[name] for name in wanted}
            pending = Pending("remove", 2 + len(changes_in(store)), hashes, time.time())
        if pending.state == "wiping":
            return wipe(store, pending)
        with begun(store, pending, execution, is_stopped) as runner:
            return Removing(store, pending, runner, stopping(progress, is_stopped)).run()


def check_names(store: RunStore, names: Sequence[str], pending: Pending | None) -> tuple[str, ...]:
    """Refuse names that cannot go; give them in order."""
    wanted = tuple(sorted(set(names)))
    if not wanted:
        raise UsageError("there is nothing to remove", expected="the name of a task at least")
    if pending is not None:
        if pending.kind != "remove" or set(pending.tasks) != set(wanted):
            refuse_other_change(store.folder, pending, f"removing {list_names(wanted)}")
        return wanted
    adapted = AdaptedModels(store.folder)
    for name in wanted:
        if name in store.identity.tasks:
            continue
        if adapted.has(name):
            raise UsageError(
                "the task was made by robusttc adapt, and no other task has learned from it",
                got=quote(name),
                todo=f"delete its folder: {adapted.place(name)}",
            )
        raise UnknownTaskError(name, list(store.identity.tasks))
    aside = {unit.tasks[0] for unit in store.quarantined() if unit.stage == "read"}
    if not set(store.identity.tasks) - aside - set(wanted):
        raise UsageError(
            "the last task of a run cannot be removed",
            where=repr(str(store.folder)),
            got=list_names(wanted),
            todo="delete the folder of the run",
        )
    return wanted

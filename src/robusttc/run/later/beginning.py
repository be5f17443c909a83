"""How a change of a finished run begins and ends, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from robusttc.errors import StoreError
from robusttc.jobs import Runner
from robusttc.run.fitting import FINISHED
from robusttc.run.later.changing import CHANGE, Pending
from robusttc.run.later.history import HISTORY, Change, changes_in
from robusttc.run.later.later_outputs import forget_before, keep_before, refuse_unreadable
from robusttc.run.manifest import write_manifest
from robusttc.run.settings import Execution
from robusttc.run.store import RunStore
from robusttc.run.workers import StoredJobs, make_runner

__all__ = ["begun", "finish_change", "pending_of", "refuse_unfinished"]


def refuse_unfinished(store: RunStore) -> None:
    """Refuse a run whose fit is not finished.

    Raises
    ------
    StoreError
        If so.
    """
    if store.value(FINISHED, False):
        return
    costs = store.costs()
    raise StoreError(
        "the run is not finished",
        where=repr(str(store.folder)),
        got=f"stopped in stage {costs[-1].stage}" if costs else "stopped before its first stage",
        todo="run the same fit again to finish it",
    )


def pending_of(store: RunStore) -> Pending | None:
    """Give the change that is under way."""
    values = store.value(CHANGE)
    return None if values is None else Pending.from_dict(values)


@contextmanager
def begun(
    store: RunStore, pending: Pending, execution: Execution | None, stop: Callable[[], bool]
) -> Iterator[Runner]:
    """Note that a change is under way, and give who works on it."""
    if pending.state == "begun":
        keep_before(store.folder, pending.version - 1)
        tasks = pending.tasks if pending.kind == "add" else None
        store.set_values({CHANGE: pending.to_dict()}, tasks=tasks)
    refuse_unreadable(store.folder)
    if execution is None or (execution.executor == "local" and execution.workers == 1):
        yield Runner(store=StoredJobs(store), stop=stop)
        return
    with make_runner(store, execution, stop=stop) as runner:
        yield runner


def finish_change(store: RunStore, change: Change) -> None:
    """Note that all files of a version are in their places."""
    write_manifest(store.folder)
    history = [*(one.to_dict() for one in changes_in(store)), change.to_dict()]
    store.set_values({HISTORY: history}, gone=[CHANGE])
    forget_before(store.folder)

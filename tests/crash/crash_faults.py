"""Bugs that are planted on purpose, each of which the witness must notice.

`FAULTS` has them all, with what the witness must say and the way of killing that shows it. They are planted
in the process that runs the stub run, and nowhere else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import crash_run
from crash_run import Parts, Setting, Tell
from crash_units import outlive
from robusttc.run.records import FinishedUnit
from robusttc.run.score_rows import ScoreRows
from robusttc.run.score_table import ScoreTable

from robusttc import files
from robusttc.crash_points import reach
from robusttc.errors import StoreError
from robusttc.jobs import Job
from robusttc.jobs.processes import ProcessExecutor
from robusttc.run import finished, manifest, owner, sealed
from robusttc.run.store import RunStore

DROPPED_EVERY = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """A planted bug.

    Attributes
    ----------
    plant
        Plants it in this process, given what tells the witness; gives the parts of the run and the teller.
    said
        Words that the witness must say.
    way
        How the run is killed: at random moments, or at points whose names begin with `points`.
    """

    plant: Callable[[Tell], tuple[Parts, Tell]]
    said: str
    way: Literal["random", "points"]
    points: tuple[str, ...] = ()


def acknowledge_early(tell: Tell) -> tuple[Parts, Tell]:
    """Say that a unit is done before it is committed."""
    real, told = RunStore.finish_many, set()

    def finish_many(self: RunStore, units: Sequence[FinishedUnit]) -> None:
        for unit in units:
            told.add(unit.key)
            tell("done", unit.key)
        real(self, units)

    def tell_once(word: str, key: str) -> None:
        if key not in told:
            tell(word, key)

    RunStore.finish_many = finish_many  # type: ignore[method-assign]
    return Parts(), tell_once


class LateCommit:
    """A connection that puts every second commit off until the next one."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.n_commits = 0

    def execute(self, statement: str, *arguments: Any) -> Any:
        if statement == "COMMIT":
            self.n_commits += 1
            if self.n_commits % 2:
                return None
        if statement.startswith("BEGIN") and self.connection.in_transaction:
            return None
        return self.connection.execute(statement, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def commit_late(tell: Tell) -> tuple[Parts, Tell]:
    """Commit only every second time."""
    load = sealed.SealedTables.load

    def load_weakly(self: sealed.SealedTables, *, stay: bool = False) -> None:
        load(self, stay=stay)
        self.connection = LateCommit(self.connection)  # type: ignore[assignment]

    sealed.SealedTables.load = load_weakly  # type: ignore[method-assign]
    return Parts(), tell


def drop_inserts(tell: Tell) -> tuple[Parts, Tell]:
    """Forget to write some of the units."""
    real = finished.FinishedUnits._insert
    n_inserted = 0

    def insert(self: finished.FinishedUnits, unit: FinishedUnit) -> None:
        nonlocal n_inserted
        n_inserted += 1
        if n_inserted % DROPPED_EVERY:
            real(self, unit)

    finished.FinishedUnits._insert = insert  # type: ignore[method-assign]
    return Parts(), tell


def commit_scores_apart(tell: Tell) -> tuple[Parts, Tell]:
    """Commit a unit first, and its scores in a commit of their own."""
    real = ScoreTable.insert
    later: list[tuple[ScoreTable, int, ScoreRows]] = []

    def insert(self: ScoreTable, unit: int, rows: ScoreRows) -> None:
        later.append((self, unit, rows))

    add = finished.FinishedUnits.add

    def add_apart(self: finished.FinishedUnits, units: Sequence[FinishedUnit]) -> None:
        add(self, units)
        with self._sealed.transaction("finish"):
            for table, unit, rows in later:
                real(table, unit, rows)
        later.clear()

    ScoreTable.insert = insert  # type: ignore[method-assign]
    finished.FinishedUnits.add = add_apart  # type: ignore[method-assign]
    return Parts(), tell


def write_in_place(tell: Tell) -> tuple[Parts, Tell]:
    """Write files straight to their places, without renaming."""

    def write_file(path: str | os.PathLike[str], content: bytes) -> None:
        files.make_folder(Path(path).parent)
        with Path(path).open("wb") as stream:
            stream.write(content[: len(content) // 2])
            stream.flush()
            reach("file/written")
            stream.write(content[len(content) // 2 :])

    for module in (files, manifest, crash_run):
        module.write_file = write_file  # type: ignore[attr-defined]
    return Parts(), tell


def forget_finished(tell: Tell) -> tuple[Parts, Tell]:
    """Do all units again after a restart."""

    def find(self: RunStore, keys: Iterable[str]) -> dict[str, bytes]:
        del self, keys
        return {}

    RunStore.find = find  # type: ignore[method-assign]
    return Parts(), tell


def keep_a_lock_file(tell: Tell) -> tuple[Parts, Tell]:
    """Take the run by making a file, which a killed process does not remove."""
    release = owner.Owner.release

    def lock(handle: int, path: Path) -> None:
        del handle
        try:
            os.close(os.open(path.parent.with_suffix(".taken"), os.O_CREAT | os.O_EXCL))
        except FileExistsError as error:
            raise StoreError("another process works on this run", where=str(path)) from error

    def release_file(self: owner.Owner) -> None:
        release(self)
        self.folder.with_suffix(".taken").unlink()

    owner.lock = lock
    owner.Owner.release = release_file  # type: ignore[method-assign]
    return Parts(), tell


def leave_shared_data(tell: Tell) -> tuple[Parts, Tell]:
    """Give the file of shared data a name, under which it outlives the process."""
    tempfile.TemporaryFile = partial(tempfile.NamedTemporaryFile, delete=False)  # type: ignore[assignment]
    return Parts(), tell


class SeedByOrder(ProcessExecutor):
    """Seeds a unit by when it is given out, not by what it is."""

    n_submitted = 0

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:
        self.n_submitted += 1
        seeded = replace(job, argument=replace(job.argument, seed=self.n_submitted))
        super().submit(seeded, shared, time_limit)


def seed_by_order(tell: Tell) -> tuple[Parts, Tell]:
    """Let random numbers depend on the order of work."""
    return Parts(make_executor=lambda setting: SeedByOrder(setting.n_workers)), tell


class Distrustful(ProcessExecutor):
    """Notes every unit as failed when it is given out, to be on the safe side."""

    store: RunStore

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:
        if job.keep:
            self.store.record_failure(job.key.partition("/")[0], job.key, "it was begun", job.tasks)
        super().submit(job, shared, time_limit)


def count_kills_as_failures(tell: Tell) -> tuple[Parts, Tell]:
    """Hold it against a unit that the run was killed while it was under way."""
    init = RunStore.__init__

    def remember(self: RunStore, *arguments: Any) -> None:
        init(self, *arguments)
        Distrustful.store = self

    def make(setting: Setting) -> ProcessExecutor:
        return Distrustful(setting.n_workers)

    RunStore.__init__ = remember  # type: ignore[method-assign,assignment]
    return Parts(make_executor=make), tell


def finish_early(tell: Tell) -> tuple[Parts, Tell]:
    """Note that the run is finished before its files are there."""
    return Parts(is_finished_early=True), tell


def leave_a_process(tell: Tell) -> tuple[Parts, Tell]:
    """Start processes that outlive the run."""
    return Parts(measure=outlive), tell


FAULTS = {
    "acknowledged before the commit": Fault(acknowledge_early, "lost", "points", ("finish/",)),
    "every second commit put off": Fault(commit_late, "lost", "points", ("finish/",)),
    "every fifth insert dropped": Fault(drop_inserts, "lost", "random"),
    "scores in a commit of their own": Fault(commit_scores_apart, "scores", "points", ("finish/",)),
    "files written in place": Fault(write_in_place, "half", "points", ("file/written",)),
    "finished units forgotten": Fault(forget_finished, "done again", "random"),
    "a lock that a killed process keeps": Fault(keep_a_lock_file, "did not go on", "random"),
    "shared data left behind": Fault(leave_shared_data, "left over", "random"),
    "seeds by the order of work": Fault(seed_by_order, "another result", "random"),
    "kills counted as failures": Fault(count_kills_as_failures, "counted as failed", "random"),
    "finished before the files are there": Fault(finish_early, "finished", "points", ("file/",)),
    "a process that outlives the run": Fault(leave_a_process, "outlived", "random"),
}

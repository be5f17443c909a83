"""The store of a run: every unit of work that is finished, every score, what failed, and what it cost.

A unit is acknowledged when `RunStore.finish` returns: from then on it is there, whatever happens to the
process or the machine. It is stored once; finishing it again must give the same bytes. One process writes,
any number may read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from robusttc.crash_points import reach
from robusttc.errors import UsageError, quote
from robusttc.files import make_folder, restrict
from robusttc.run.creation import DATABASE, build_database, read_identity, refuse_missing, refuse_used
from robusttc.run.database import check_pages, connect, explained, recover, wipe
from robusttc.run.failures import Failures
from robusttc.run.finished import FinishedUnits
from robusttc.run.identity import Identity
from robusttc.run.owner import Owner
from robusttc.run.records import FinishedUnit, Quarantined, StageCost, add_up_costs
from robusttc.run.remembered import Remembered
from robusttc.run.schema import SPANS, TASKS
from robusttc.run.score_rows import ScoreRows
from robusttc.run.sealed import SealedTables
from robusttc.run.spans import Spans

__all__ = ["RunStore"]


# Before the name of a stage: the cost of its units whose results are kept elsewhere.
COST_NOT_KEPT = "cost not kept/"


class RunStore:
    """The store of one run; made by `create`, opened again by `open`, ended by `close` or a ``with`` block.

    Whoever opens it for writing is the run's owner until it is closed. It is for one thread.

    Attributes
    ----------
    folder
        The run's folder.
    identity
        What the run is a run of.
    task_names
        The names of its tasks; scores refer to them by place.
    read_only
        Whether it was opened for reading alone; it then shows the run as it was at that moment.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RunStore.create(folder, Identity({"seed": 0}, {"acme": "12ab"}, {})) as store:
    ...         store.finish("transfer", "transfer/acme", b"result")
    ...     with RunStore.open(folder, read_only=True) as store:
    ...         store.find(["transfer/acme", "transfer/other"])
    {'transfer/acme': b'result'}
    """

    def __init__(self, connection: sqlite3.Connection, sealed: SealedTables, owner: Owner | None) -> None:
        self.folder = sealed.path.parent
        self.read_only = owner is None
        self._connection = connection
        self._sealed = sealed
        self._owner = owner
        self._numbers: dict[str, int] = {}
        self._read_tasks()
        self._spans = Spans(sealed)
        self._units = FinishedUnits(sealed, self._spans, self._numbers)
        self._failures = Failures(sealed)
        self._facts = Remembered(sealed)

    def _read_tasks(self) -> None:
        """Take what the run is a run of from its rows."""
        self.identity = read_identity(self._sealed)
        self.task_names = tuple(self.identity.tasks)
        # In place: whoever stores scores looks numbers up in it.
        self._numbers.clear()
        self._numbers.update({name: number for number, name, _ in self._sealed.rows[TASKS.name].values()})

    @classmethod
    def create(cls, folder: str | os.PathLike[str], identity: Identity) -> RunStore:
        """Begin a run in a folder that is new or empty, and open it.

        Raises
        ------
        UsageError
            If a run or something else is in the folder.
        StoreError
            If another process works in it, or the disk does not take it.
        """
        place = Path(os.path.realpath(folder))
        make_folder(place)
        owner = Owner.take(place)
        try:
            refuse_used(place)
            restrict(place)
            build_database(place, identity)
            return cls._open(place, owner, None)
        except BaseException:
            owner.release()
            raise

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], *, identity: Identity | None = None, read_only: bool = False
    ) -> RunStore:
        """Open a run.

        Parameters
        ----------
        folder
            Its folder.
        identity
            What it must be a run of; None for whatever it is.
        read_only
            Whether only to look: this is allowed while another process works on it.

        Raises
        ------
        UsageError
            If it is a run of something else; the message lists what differs.
        StoreError
            If there is no run, it is damaged, of a newer version, or another process works on it.
        """
        place = Path(os.path.realpath(folder))
        refuse_missing(place)
        if read_only:
            return cls._open(place, None, identity)
        owner = Owner.take(place)
        restrict(place)
        try:
            return cls._open(place, owner, identity)
        except BaseException:
            owner.release()
            raise

    @classmethod
    def _open(cls, folder: Path, owner: Owner | None, identity: Identity | None) -> RunStore:
        """Open and check a database that is there."""
        path = folder / DATABASE
        connection = connect(path, read_only=owner is None)
        try:
            with explained(path):
                reach("open/connected")
                if owner is not None:
                    recover(connection, path)
                reach("open/recovered")
                sealed = SealedTables(connection, path)
                sealed.load(stay=owner is None)
                reach("open/checked")
            store = cls(connection, sealed, owner)
            if identity is not None:
                store.identity.refuse_other(identity, where=repr(str(folder)))
        except BaseException:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Let go of the run; calling it again does nothing."""
        try:
            with explained(self._sealed.path):
                reach("close/begun")
                self._connection.close()
                reach("close/done")
        finally:
            if self._owner is not None:
                self._owner.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Give the results of those of the units that are finished.

        Raises
        ------
        StoreError
            If a result is not what was stored.
        """
        return self._units.find(keys)

    def finished(self, stage: str) -> int:
        """Count the finished units of a stage."""
        return sum(row[1] == stage for row in self._units.rows.values())

    def finish(
        self,
        stage: str,
        key: str,
        content: bytes,
        *,
        scores: ScoreRows | None = None,
        seconds: float = 0.0,
        cpu_seconds: float = 0.0,
        peak_bytes: int = 0,
        attempts: int = 1,
    ) -> None:
        """Store a finished unit; when this returns, it is there for good. See `FinishedUnit`.

        Raises
        ------
        StoreError
            If the unit was finished before with other bytes, or the disk does not take it.
        """
        unit = FinishedUnit(
            stage=stage,
            key=key,
            content=content,
            scores=scores,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            peak_bytes=peak_bytes,
            attempts=attempts,
        )
        self.finish_many([unit])

    def finish_many(self, units: Sequence[FinishedUnit]) -> None:
        """Store finished units in one commit: all of them, or none.

        Raises
        ------
        StoreError
            As `finish`.
        """
        self._refuse_reading()
        self._units.add(units)

    def record_failure(self, stage: str, key: str, error: str, tasks: Sequence[str] = ()) -> None:
        """Note that a unit failed once; it will be tried again."""
        self._fail(stage, key, error, tasks, is_last=False)

    def quarantine(self, stage: str, key: str, error: str, tasks: Sequence[str] = ()) -> None:
        """Note that a unit failed for the last time, and is left out."""
        self._fail(stage, key, error, tasks, is_last=True)

    def _fail(self, stage: str, key: str, error: str, tasks: Sequence[str], *, is_last: bool) -> None:
        """Note a failure of a unit that is not finished."""
        self._refuse_reading()
        if key in self._units.rows:
            raise UsageError("the unit is finished, so it cannot fail", where=f"unit {quote(key)}")
        self._failures.add(stage, key, error, tasks, is_last=is_last)

    def failures(self, key: str) -> int:
        """Count how often a unit failed, before restarts too; 0 for one that is finished since."""
        return self._failures.count(key)

    def quarantined(self) -> list[Quarantined]:
        """Give the units that are left out, by stage and key."""
        return self._failures.quarantined()

    def release_quarantined(self) -> int:
        """Forget the failures of all units that are left out, so that they are tried again; count them."""
        self._refuse_reading()
        return self._failures.release()

    def scores(self) -> dict[str, NDArray[Any]]:
        """Give all scores as columns, by source and target: what `TransferScores` takes after the names.

        Tasks are places in `task_names`. Columns that were not given with the scores are left out.

        Raises
        ------
        StoreError
            If they are not what was stored.
        """
        return self._units.scores()

    def n_scores(self) -> int:
        """Count the stored scores."""
        return sum(row[4] for row in self._units.rows.values())

    def set_value(self, name: str, value: Any) -> None:
        """Remember a small fact of the run, in the place of an earlier one of this name; JSON values."""
        self.set_values({name: value})

    def set_values(
        self, values: Mapping[str, Any], *, gone: Iterable[str] = (), tasks: Mapping[str, str] | None = None
    ) -> None:
        """Remember several facts in one commit, forget others, and let the run have more tasks.

        Parameters
        ----------
        values
            The facts, by name.
        gone
            Names of facts that are forgotten.
        tasks
            New tasks, each with the SHA-256 of its content; those that are there stay as they are.
        """
        self._refuse_reading()
        rows, dropped = self._facts.as_rows(values), list(gone)
        new = {name: content for name, content in (tasks or {}).items() if name not in self._numbers}
        if not new and not self._facts.would_change(rows, dropped):
            return
        with self._sealed.transaction("value"):
            self._facts.write(rows, dropped)
            first = 1 + max(self._numbers.values(), default=-1)
            for number, (name, content) in enumerate(new.items(), start=first):
                self._sealed.put(TASKS, (number, name, content))
        if new:
            self._read_tasks()

    def unit_keys(self) -> list[str]:
        """Give the keys of all units that are finished or have failed, sorted."""
        return sorted({*self._units.rows, *self._failures.keys()})

    def forget(
        self,
        names: Sequence[str],
        *,
        units: Iterable[str] = (),
        changed: Sequence[FinishedUnit] = (),
        values: Mapping[str, Any] | None = None,
        gone: Iterable[str] = (),
    ) -> None:
        """Remove tasks with all that the database has of them, in one commit.

        Parameters
        ----------
        names
            The tasks; those that are not there are gone already.
        units
            The keys of units to be removed, finished or failed.
        changed
            Units that are kept with another result; no score may be left of the tasks.
        values, gone
            Facts to be set and to be forgotten in the same commit.
        """
        self._refuse_reading()
        dropped, rows = set(units), self._facts.as_rows(values or {})
        try:
            with self._sealed.transaction("release"):
                self._units.replace([key for key in dropped if key in self._units.rows], changed)
                self._failures.forget(names, dropped)
                self._facts.write(rows, gone)
                self._facts.forget_private(set(names))
                for name in [name for name in names if name in self._numbers]:
                    self._sealed.remove(TASKS, self._numbers[name])
        except BaseException:
            self._units.settle()
            raise
        self._read_tasks()

    def wipe(self) -> None:
        """Make sure that nothing which was removed is left in the database's files.

        Raises
        ------
        StoreError
            If somebody who reads the run keeps an older state of it.
        """
        self._refuse_reading()
        wipe(self._connection, self._sealed.path)

    def value(self, name: str, default: Any = None) -> Any:
        """Give a fact of the run."""
        return self._facts.find(name, default)

    def begin_stage(self, stage: str, n_units: int) -> None:
        """Note that a stage of so many units is worked on from now on."""
        self._refuse_reading()
        self._spans.begin(stage, n_units)

    def end_stage(self, stage: str) -> None:
        """Note that a stage is done."""
        self._refuse_reading()
        self._spans.end(stage)

    def costs(self) -> list[StageCost]:
        """Give what the stages cost so far, in the order in which they were begun."""
        costs = add_up_costs(self._units.rows.values(), self._sealed.rows[SPANS.name].values())
        return [cost.with_more(*self.value(COST_NOT_KEPT + cost.stage, (0, 0.0, 0))) for cost in costs]

    def add_cost(self, stage: str, *, units: int, cpu_seconds: float, peak_bytes: int) -> None:
        """Note what units of a stage cost whose results are kept elsewhere."""
        before = self.value(COST_NOT_KEPT + stage, (0, 0.0, 0))
        more = [before[0] + units, before[1] + cpu_seconds, max(before[2], peak_bytes)]
        self.set_value(COST_NOT_KEPT + stage, more)

    def check(self) -> None:
        """Check every byte that counts, which takes as long as reading the database.

        Raises
        ------
        StoreError
            If anything is not what was stored.
        """
        check_pages(self._connection, self._sealed.path)
        for key in self._units.rows:
            self.find([key])
        self.scores()

    def _refuse_reading(self) -> None:
        """Refuse to write what was opened for reading."""
        if self.read_only:
            raise UsageError("the run was opened for reading alone", where=repr(str(self.folder)))

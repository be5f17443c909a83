"""Unfinished work of a run: the results of jobs, their failures, and facts, in one SQLite file.

``jobs-0004.sqlite`` holds what is done towards version 4, and is deleted when that is published. A commit
that has returned is on the disk. Every row has a SHA-256 of all that it says:

* a damaged **result** does not count as there: the job runs again, and gives the same bytes;
* a damaged **failure** or **fact** is a StoreError that names it, since nothing could bring it back;
* a job that is finished twice must give the same bytes, else a result would depend on more than its inputs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from robusttc.errors import StoreError, quote
from robusttc.files import encode_json
from robusttc.jobs import Outcome, Result
from robusttc.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JobStore", "Quarantined", "StageCost"]

APPLICATION_ID, VERSION = 0x72746A62, 1
SCHEMA = (
    "CREATE TABLE results (key TEXT PRIMARY KEY, stage TEXT NOT NULL, content BLOB NOT NULL,"
    " sha256 BLOB NOT NULL, seconds REAL NOT NULL, cpu_seconds REAL NOT NULL,"
    " peak_bytes INTEGER NOT NULL) STRICT",
    "CREATE TABLE failures (key TEXT PRIMARY KEY, stage TEXT NOT NULL, error TEXT NOT NULL,"
    " tasks TEXT NOT NULL, n_failures INTEGER NOT NULL, is_quarantined INTEGER NOT NULL,"
    " sha256 BLOB NOT NULL) STRICT",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, sha256 BLOB NOT NULL) STRICT",
)
TODO = "delete this file, and run the same command again: what it held is computed again"
MAX_ERROR_CHARACTERS = 10_000
KEYS_AT_ONCE = 1_000  # SQLite takes at most 32,766
COST = "cost/"  # before the name of a stage: the fact of what it has cost


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A job that failed several times and is left out: its last error, and the tasks that it is about."""

    stage: str
    key: str
    error: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage has cost, all restarts together.

    Attributes
    ----------
    stage
        Its name.
    units
        How many of its jobs are finished.
    wall_seconds
        How long it was worked on; after a kill, up to the last commit.
    cpu_seconds, peak_bytes
        Of its jobs: the sum, and the largest.
    started, ended
        Seconds since 1970; `ended` is None while it is worked on.
    """

    stage: str
    units: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    started: float | None = None
    ended: float | None = None


def digest(*parts: bytes | str | float) -> bytes:
    """Hash some parts, so that no two lists of parts have the same hash."""
    found = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.digest()


class JobStore:
    """The store of unfinished work, as `robusttc.jobs.Runner` takes it; of one process and thread.

    Parameters
    ----------
    path
        The file; it is created where it is missing. Whoever opens it has the lock of the run.

    Raises
    ------
    StoreError
        If it is damaged, or the disk does not take it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(
            path, application_id=APPLICATION_ID, version=VERSION, schema=SCHEMA, damage_todo=TODO
        )
        self._stage_clocks: dict[
            str, float
        ] = {}  # of the stages that are worked on: when they were last noted

    # Results.

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the packed results of those of the keys that are finished; a damaged one is not."""
        wanted = list(keys)
        found: dict[str, bytes] = {}
        for begin in range(0, len(wanted), KEYS_AT_ONCE):
            some = wanted[begin : begin + KEYS_AT_ONCE]
            query = "SELECT key, stage, content, sha256 FROM results WHERE key IN ({})"
            rows = self._database.execute(query.format(",".join("?" * len(some))), some)
            found |= {
                key: content for key, stage, content, check in rows if digest(key, stage, content) == check
            }
        return found

    def commit(self, stage: str, done: Sequence[tuple[Outcome, Result]]) -> None:
        """Store finished jobs, all or none; on return they are there for good.

        Raises
        ------
        StoreError
            If a job was finished before with other bytes, or the disk does not take them.
        """
        with self._database.transaction():
            there = self.find([outcome.key for outcome, _ in done])
            new = []
            for outcome, _ in done:
                content = outcome.content or b""
                if there.get(outcome.key, content) != content:
                    raise StoreError(
                        "a job gave another result than before",
                        where=repr(str(self.path)),
                        got=f"job {quote(outcome.key)}",
                        expected="a result that depends on the inputs alone",
                        todo="report this as an error of robusttc",
                    )
                if outcome.key not in there:
                    new.append(outcome)
                    self._insert(stage, outcome, content)
            self._add_cost(
                stage,
                len(new),
                sum(outcome.cpu_seconds for outcome in new),
                max((outcome.peak_bytes for outcome in new), default=0),
            )

    def _insert(self, stage: str, outcome: Outcome, content: bytes) -> None:
        check = digest(outcome.key, stage, content)
        cost = outcome.seconds, outcome.cpu_seconds, outcome.peak_bytes
        self._database.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?)",
            (outcome.key, stage, content, check, *cost),
        )
        self._database.execute("DELETE FROM failures WHERE key = ?", (outcome.key,))

    # Failures.

    def failures(self, key: str) -> int:
        """Return how often a job has failed, before restarts too; 0 once it is finished."""
        found = self._read_failures("WHERE key = ?", (key,))
        return found[0][1] if found else 0

    def record_failure(
        self, stage: str, key: str, error: str, tasks: Sequence[str], *, is_last: bool
    ) -> None:
        """Record a failure; after the last one the job is quarantined."""
        text = error[:MAX_ERROR_CHARACTERS].encode("utf-8", "backslashreplace").decode()
        with self._database.transaction():
            values = key, stage, text, encode_json(list(tasks)), self.failures(key) + 1, int(is_last)
            self._database.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, digest(*values))
            )

    def quarantined(self) -> list[Quarantined]:
        """Return the jobs that are left out, by stage and key."""
        return [job for job, _ in self._read_failures("WHERE is_quarantined ORDER BY stage, key")]

    def quarantined_keys(self) -> set[str]:
        """Return the keys of the jobs that are left out."""
        return {job.key for job in self.quarantined()}

    def release(self) -> None:
        """Forget all failures, so that every job is tried again."""
        with self._database.transaction():
            self._database.execute("DELETE FROM failures")

    def _read_failures(self, where: str, values: Sequence[Any] = ()) -> list[tuple[Quarantined, int]]:
        found = []
        query = f"SELECT key, stage, error, tasks, n_failures, is_quarantined, sha256 FROM failures {where}"  # noqa: S608
        for *row, check in self._database.execute(query, values):
            if digest(*row) != check:
                self._database.raise_damaged(f"the failure of job {quote(row[0])}")
            key, stage, error, tasks, n_failures, _ = row
            found.append((Quarantined(stage, key, error, tuple(json.loads(tasks))), n_failures))
        return found

    # Facts.

    def fact(self, name: str, default: Any = None) -> Any:
        """Return a fact, which JSON can hold."""
        rows = self._database.execute("SELECT value, sha256 FROM facts WHERE name = ?", (name,))
        if not rows:
            return default
        ((value, check),) = rows
        if digest(name, value) != check:
            self._database.raise_damaged(f"the fact {quote(name)}")
        return json.loads(value)

    def set_fact(self, name: str, value: Any) -> None:
        """Store a fact, in the place of an earlier one of this name."""
        with self._database.transaction():
            self._put_fact(name, value)

    def _put_fact(self, name: str, value: Any) -> None:
        text = encode_json(value, where=f"fact {name}")
        self._database.execute(
            "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (name, text, digest(name, text))
        )

    # Costs.

    def add_cost(self, stage: str, *, n_jobs: int, cpu_seconds: float, peak_bytes: int) -> None:
        """Record what jobs have cost whose results are not stored."""
        with self._database.transaction():
            self._add_cost(stage, n_jobs, cpu_seconds, peak_bytes)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the time that the block takes to a stage; a kill loses what follows the last commit."""
        with self._database.transaction():
            cost = self._cost(stage)
            started = time.time() if cost.started is None else cost.started
            self._put_cost(replace(cost, started=started, ended=None))
        self._stage_clocks[stage] = time.monotonic()
        yield
        with self._database.transaction():
            self._add_cost(stage, 0, 0.0, 0)
            self._put_cost(replace(self._cost(stage), ended=time.time()))
        del self._stage_clocks[stage]

    def costs(self) -> list[StageCost]:
        """Return what every stage has cost so far, in the order in which they were begun."""
        rows = self._database.execute("SELECT name FROM facts WHERE name GLOB ?", (f"{COST}*",))
        found = [self._cost(name.removeprefix(COST)) for (name,) in rows]
        return sorted(found, key=lambda cost: (cost.started is None, cost.started, cost.stage))

    def _cost(self, stage: str) -> StageCost:
        return StageCost(**self.fact(f"{COST}{stage}", {"stage": stage}))

    def _put_cost(self, cost: StageCost) -> None:
        self._put_fact(f"{COST}{cost.stage}", asdict(cost))

    def _add_cost(self, stage: str, n_jobs: int, cpu_seconds: float, peak_bytes: int) -> None:
        """Add to the cost of a stage, with the time since the last commit of those that are worked on."""
        now = time.monotonic()
        for name in {stage, *self._stage_clocks}:
            cost = self._cost(name)
            if name == stage:
                cost = replace(
                    cost,
                    units=cost.units + n_jobs,
                    cpu_seconds=cost.cpu_seconds + cpu_seconds,
                    peak_bytes=max(cost.peak_bytes, peak_bytes),
                )
            if name in self._stage_clocks:
                seconds = now - self._stage_clocks[name]
                cost = replace(cost, wall_seconds=cost.wall_seconds + seconds)
                self._stage_clocks[name] = now
            self._put_cost(cost)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

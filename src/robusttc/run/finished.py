"""The finished units of a run: each is stored once, and what comes out is what went in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from robusttc.errors import StoreError, quote
from robusttc.run.database import explained, raise_damaged
from robusttc.run.records import FinishedUnit, digest_content
from robusttc.run.schema import FAILURES, UNITS
from robusttc.run.score_table import ScoreTable
from robusttc.run.sealed import Row, SealedTables
from robusttc.run.spans import Spans

__all__ = ["FinishedUnits"]

SELECT_CONTENT = "SELECT content FROM contents WHERE unit = ?"
INSERT_CONTENT = "INSERT INTO contents (unit, content) VALUES (?, ?)"


class FinishedUnits:
    """The finished units.

    Parameters
    ----------
    sealed
        The small tables of the run.
    spans
        The times of its stages: a commit notes how long its stage has been worked on.
    task_names
        The tasks of the run, in the order of their numbers.

    Attributes
    ----------
    rows
        The row of every finished unit, by key.
    """

    def __init__(self, sealed: SealedTables, spans: Spans, task_names: tuple[str, ...]) -> None:
        self._sealed = sealed
        self._spans = spans
        self._path = sealed.path
        self._scores = ScoreTable(sealed.connection, sealed.path, task_names)
        self.rows: dict[str, Row] = {}
        self._index()

    def _index(self) -> None:
        """Note the row of every key."""
        self.rows = {row[2]: row for row in self._sealed.rows[UNITS.name].values()}

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Give the results of those of the units that are finished."""
        found: dict[str, bytes] = {}
        for key in keys:
            if key not in self.rows:
                continue
            number, stage, _, digest = self.rows[key][:4]
            with explained(self._path):
                row = self._sealed.connection.execute(SELECT_CONTENT, (number,)).fetchone()
            content = row[0] if row is not None and isinstance(row[0], bytes) else None
            if content is None or digest_content(stage, key, content) != digest:
                raise_damaged(self._path, f"another result of unit {quote(key)} than was stored")
            found[key] = content
        return found

    def scores(self) -> dict[str, NDArray[Any]]:
        """Give the scores of all units as columns."""
        return self._scores.read(self.rows.values())

    def add(self, units: Sequence[FinishedUnit]) -> None:
        """Store units in one commit: all of them, or none; those that are there must be the same."""
        if all(self._is_stored(unit) for unit in units):
            return
        try:
            with self._sealed.transaction("finish"):
                for unit in units:
                    if not self._is_stored(unit):
                        self._insert(unit)
                self._spans.touch({unit.stage for unit in units})
        except BaseException:
            self._index()
            raise

    def _is_stored(self, unit: FinishedUnit) -> bool:
        """Tell whether a unit is there, and refuse one that is there with another result."""
        row = self.rows.get(unit.key)
        if row is None:
            return False
        same = (unit.stage, digest_content(unit.stage, unit.key, unit.content)) == (row[1], row[3])
        if not same or self._scores.digest(unit.key, unit.scores) != row[5]:
            raise StoreError(
                "a unit of work gave another result than before",
                where=f"unit {quote(unit.key)} in {str(self._path)!r}",
                expected="the same bytes every time",
                todo="begin a new run in another folder, on one type of machine and with one version",
            )
        return True

    def _insert(self, unit: FinishedUnit) -> None:
        """Write a new unit, inside a transaction."""
        number = len(self.rows) + 1
        row = (
            number,
            unit.stage,
            unit.key,
            digest_content(unit.stage, unit.key, unit.content),
            0 if unit.scores is None else len(unit.scores),
            self._scores.digest(unit.key, unit.scores),
            float(unit.seconds),
            float(unit.cpu_seconds),
            int(unit.peak_bytes),
            int(unit.attempts),
            time.time(),
        )
        self._sealed.put(UNITS, row)
        self.rows[unit.key] = row
        self._sealed.connection.execute(INSERT_CONTENT, (number, unit.content))
        if unit.scores is not None:
            self._scores.insert(number, unit.scores)
        if unit.key in self._sealed.rows[FAILURES.name]:
            self._sealed.remove(FAILURES, unit.key)

"""The finished units of a run: each is stored once, and what comes out is what went in."""

from __future__ import annotations

import dataclasses
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
DELETE_CONTENT = "DELETE FROM contents WHERE unit = ?"


class FinishedUnits:
    """The finished units.

    Parameters
    ----------
    sealed
        The small tables of the run.
    spans
        The times of its stages: a commit notes how long its stage has been worked on.
    numbers
        The number of every task of the run.

    Attributes
    ----------
    rows
        The row of every finished unit, by key.
    """

    def __init__(self, sealed: SealedTables, spans: Spans, numbers: dict[str, int]) -> None:
        self._sealed = sealed
        self._spans = spans
        self._path = sealed.path
        self._scores = ScoreTable(sealed.connection, sealed.path, numbers)
        self.rows: dict[str, Row] = {}
        self._index()

    def _index(self) -> None:
        """Note the row of every key."""
        self.rows = {row[2]: row for row in self._sealed.rows[UNITS.name].values()}
        self._last = max((row[0] for row in self.rows.values()), default=0)

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
        # After units were removed there are fewer than the last number says.
        self._last = number = self._last + 1
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

    def replace(self, gone: Iterable[str], changed: Sequence[FinishedUnit]) -> None:
        """Remove units, and put others in the place of those of their keys, inside a transaction."""
        old = {unit.key: self.rows[unit.key] for unit in changed}
        for key in sorted({*gone, *old}):
            number = self.rows[key][0]
            self._scores.remove(number)
            self._sealed.connection.execute(DELETE_CONTENT, (number,))
            self._sealed.remove(UNITS, number)
            del self.rows[key]
        for unit in changed:
            # What it cost and when it was finished stays.
            cost = old[unit.key]
            self._insert(dataclasses.replace(unit, stage=cost[1], seconds=cost[6], cpu_seconds=cost[7]))

    def settle(self) -> None:
        """Note the rows anew, after a transaction that was not committed."""
        self._index()

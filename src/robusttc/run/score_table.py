"""The table of scores: one row a pair, checked unit by unit when it is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import UsageError, quote
from robusttc.run.database import explained, raise_damaged
from robusttc.run.score_rows import COLUMNS, ScoreRows, digest_scores, number_columns
from robusttc.run.sealed import Row

__all__ = ["ScoreTable"]

INSERT = (
    "INSERT INTO scores (source, target, unit, score, n_examples, standard_error, first_half, second_half)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
SELECT = (
    "SELECT source, target, unit, score, n_examples, standard_error, first_half, second_half FROM scores"
    " ORDER BY source, target"
)
DELETE = "DELETE FROM scores WHERE unit = ?"
ENDS = ("source", "target", "unit")
NO_ROWS = np.empty(0, dtype=np.intp)


class ScoreTable:
    """The scores of a run.

    Parameters
    ----------
    connection, path
        The database, and its file for messages.
    numbers
        The number of every task; those of tasks that are gone are not used again.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, numbers: dict[str, int]) -> None:
        self._connection = connection
        self._path = path
        self._numbers = numbers

    def digest(self, key: str, rows: ScoreRows | None) -> bytes | None:
        """Give the SHA-256 of a unit's scores."""
        return None if rows is None else digest_scores(key, *number_columns(rows, self._numbers))

    def insert(self, unit: int, rows: ScoreRows) -> None:
        """Write the scores of a unit, inside a transaction.

        Raises
        ------
        UsageError
            If another unit measured one of the pairs, or with other columns.
        """
        source, columns = number_columns(rows, self._numbers)
        n = len(rows)
        nothing = [None] * n
        target, *lists = [nothing if column is None else column.tolist() for column in columns.values()]
        self._refuse_other_columns(rows)
        try:
            self._connection.executemany(INSERT, zip([source] * n, target, [unit] * n, *lists, strict=True))
        except sqlite3.IntegrityError as error:
            raise UsageError(
                "a pair was measured by two units", where=f"the scores of {quote(rows.source)}"
            ) from error

    def _refuse_other_columns(self, rows: ScoreRows) -> None:
        """Refuse scores with other columns than the ones that are there: together they would have holes."""
        first = self._connection.execute(SELECT + " LIMIT 1").fetchone()
        if first is None:
            return
        there = tuple(name for name, value in zip(COLUMNS, first[3:], strict=True) if value is not None)
        if len(rows) and rows.given != there:
            raise UsageError(
                "scores have other columns than the scores before",
                where=f"the scores of {quote(rows.source)}",
                got=", ".join(rows.given),
                expected=", ".join(there),
            )

    def read(self, units: Iterable[Row]) -> dict[str, NDArray[Any]]:
        """Give all scores as columns.

        Raises
        ------
        StoreError
            If the scores of a unit are not those that were stored.
        """
        with explained(self._path):
            rows = self._connection.execute(SELECT).fetchall()
        try:
            columns = make_columns(rows)
        except (TypeError, ValueError, OverflowError) as error:
            raise_damaged(self._path, f"scores that are no numbers: {error}")
        order = np.argsort(columns["unit"], kind="stable")
        numbers, starts = np.unique(columns["unit"][order], return_index=True)
        parts = np.split(order, starts[1:]) if len(order) else []
        rows_of: dict[int, NDArray[np.intp]] = dict(zip(numbers.tolist(), parts, strict=True))
        for number, _, key, _, n_scores, digest, *_ in units:
            chosen = rows_of.pop(number, NO_ROWS)
            if digest is not None and not self._is_same(key, columns, chosen, n_scores, digest):
                raise_damaged(self._path, f"other scores of unit {quote(key)} than were stored")
        if rows_of:
            raise_damaged(self._path, "scores of no unit")
        # As places among the tasks that are there: numbers have holes once tasks are gone.
        there = np.array(sorted(self._numbers.values()), dtype=np.int64)
        for end in ("source", "target"):
            columns[end] = np.searchsorted(there, columns[end])
        return {name: column for name, column in columns.items() if name != "unit"}

    def remove(self, unit: int) -> None:
        """Remove the scores of a unit, inside a transaction."""
        self._connection.execute(DELETE, (unit,))

    @staticmethod
    def _is_same(
        key: str, columns: dict[str, NDArray[Any]], chosen: NDArray[np.intp], n_scores: int, digest: bytes
    ) -> bool:
        """Tell whether the scores of a unit are those that were stored."""
        if len(chosen) != n_scores or n_scores == 0:
            return len(chosen) == n_scores
        mine = {name: column[chosen] for name, column in columns.items()}
        source = mine["source"]
        return bool(np.all(source == source[0])) and digest_scores(key, int(source[0]), mine) == digest


def make_columns(rows: list[Row]) -> dict[str, NDArray[Any]]:
    """Make arrays of rows; a column without any value is left out.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If a value is no number, or a column has holes.
    """
    lists = list(zip(*rows, strict=True)) or [()] * (len(ENDS) + len(COLUMNS))
    columns: dict[str, NDArray[Any]] = {}
    for name, values in zip((*ENDS, *COLUMNS), lists, strict=True):
        kind = COLUMNS.get(name, np.int64)
        n_missing = values.count(None)
        if n_missing and n_missing < len(values):
            raise ValueError(f"{name} has holes")
        if not n_missing and (rows or name in ("source", "target", "unit", "score")):
            columns[name] = np.array(values, dtype=kind)
    return columns

"""Small tables held in memory and on disk, sealed by one hash over all rows.

SQLite writes no checksums into its pages. A flipped bit in a row, a row that has vanished because a page's
count of rows was damaged, a page that is older than its neighbours: the seal tells them all. It is the sum of
the hashes of the rows, so that a commit changes it by what it writes, and it has the number of commits in it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from robusttc.crash_points import reach
from robusttc.errors import StoreError, UsageError
from robusttc.run.database import explained, raise_damaged
from robusttc.run.schema import SEALED, Table

__all__ = ["Row", "SealedTables", "digest_row"]

Row = tuple[Any, ...]
MODULUS = 1 << 256
WRITE_SEAL = (
    "INSERT INTO seal (one, commits, sha256) VALUES (1, ?, ?)"
    " ON CONFLICT (one) DO UPDATE SET commits = excluded.commits, sha256 = excluded.sha256"
)


def digest_row(table: str, row: Sequence[Any]) -> int:
    """Hash a row with its table's name, as a number; the type of a value counts.

    Examples
    --------
    >>> digest_row("a", (1, "x")) == digest_row("a", (1.0, "x"))
    False
    """
    digest = hashlib.sha256(b"robusttc-row-1")
    for value in (table, *row):
        if value is None:
            kind, content = b"n", b""
        elif isinstance(value, int):
            kind, content = b"i", value.to_bytes(8, "little", signed=True)
        elif isinstance(value, float):
            kind, content = b"f", struct.pack("<d", value)
        elif isinstance(value, str):
            kind, content = b"s", value.encode()
        else:
            kind, content = b"b", bytes(value)
        digest.update(kind + len(content).to_bytes(8, "little") + content)
    return int.from_bytes(digest.digest(), "little")


class SealedTables:
    """The small tables of a run.

    Parameters
    ----------
    connection
        To the database.
    path
        Its file, for messages.

    Attributes
    ----------
    rows
        For every table, its rows by primary key. Only `put` and `remove` change them, inside a transaction.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.rows: dict[str, dict[Any, Row]] = {table.name: {} for table in SEALED}
        self._total = 0
        self._commits = 0
        self._undo: list[tuple[str, Any, Row | None]] | None = None
        self._is_broken = False

    def load(self, *, stay: bool = False) -> None:
        """Read all rows, as of one moment, and check them against the seal.

        Parameters
        ----------
        stay
            Whether all that is read later is to be as of this moment too.

        Raises
        ------
        StoreError
            If they are not what was written.
        """
        with explained(self.path):
            self.connection.execute("BEGIN")
            try:
                seals = self.connection.execute("SELECT one, commits, sha256 FROM seal").fetchall()
                total = 0
                for table in SEALED:
                    found = self.connection.execute(table.select).fetchall()
                    total += sum(digest_row(table.name, row) for row in found)
                    self.rows[table.name] = {row[0]: row for row in found}
            finally:
                if self.connection.in_transaction and not stay:
                    self.connection.execute("ROLLBACK")
        self._total = total % MODULUS
        if len(seals) != 1 or not isinstance(seals[0][1], int) or seals[0][2] != self._seal(seals[0][1]):
            raise_damaged(self.path, "rows that are not those that were written")
        self._commits = seals[0][1]

    def _seal(self, commits: int) -> bytes:
        """Give the hash over all rows and the number of commits."""
        content = self._total.to_bytes(32, "little") + commits.to_bytes(8, "little", signed=True)
        return hashlib.sha256(b"robusttc-seal-1" + content).digest()

    @contextmanager
    def transaction(self, name: str) -> Iterator[None]:
        """Do what the block does wholly or not at all; when it ends without an error, the disk has it.

        Parameters
        ----------
        name
            Of the points that are reached: one of `points.TRANSACTIONS`.

        Raises
        ------
        StoreError
            If the disk does not take it.
        """
        self.refuse_broken()
        if self._undo is not None:
            raise UsageError("a transaction was begun inside another", where=repr(str(self.path)))
        self._undo = []
        total, commits = self._total, self._commits
        try:
            with explained(self.path):
                self.connection.execute("BEGIN IMMEDIATE")
                reach(f"{name}/begun")
                yield
                self._commits = commits + 1
                self.connection.execute(WRITE_SEAL, (self._commits, self._seal(self._commits)))
                reach(f"{name}/written")
                self.connection.execute("COMMIT")
        except BaseException:
            self._settle(total, commits)
            raise
        finally:
            self._undo = None
        with explained(self.path):
            reach(f"{name}/committed")

    def refuse_broken(self) -> None:
        """Refuse to go on after an error that left memory and disk apart."""
        if self._is_broken:
            raise StoreError(
                "the run cannot be written since an earlier error",
                where=repr(str(self.path)),
                todo="run the same command again",
            )

    def _settle(self, total: int, commits: int) -> None:
        """After an error, make memory what the disk has: the error may have come after the commit."""
        # Whoever interrupts this too finds a store that refuses to go on.
        self._is_broken = True
        stored = None
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            stored = self.connection.execute("SELECT commits FROM seal").fetchall()
        if stored != [(commits + 1,)]:
            for table, key, row in reversed(self._undo or []):
                if row is None:
                    self.rows[table].pop(key, None)
                else:
                    self.rows[table][key] = row
            self._total, self._commits = total, commits
        self._is_broken = stored is None

    def put(self, table: Table, row: Row) -> None:
        """Write a row in the place of the one with its primary key, inside a transaction."""
        rows = self.rows[table.name]
        old = rows.get(row[0])
        self._remember(table.name, row[0], old)
        self.connection.execute(table.put, row)
        rows[row[0]] = row
        removed = 0 if old is None else digest_row(table.name, old)
        self._total = (self._total + digest_row(table.name, row) - removed) % MODULUS

    def remove(self, table: Table, key: Any) -> None:
        """Remove the row with a primary key, inside a transaction."""
        rows = self.rows[table.name]
        old = rows[key]
        self._remember(table.name, key, old)
        self.connection.execute(table.remove, (key,))
        del rows[key]
        self._total = (self._total - digest_row(table.name, old)) % MODULUS

    def _remember(self, table: str, key: Any, row: Row | None) -> None:
        """Keep what a row was, in case that the transaction fails."""
        if self._undo is None:
            raise UsageError("a row was changed outside a transaction", where=repr(str(self.path)))
        self._undo.append((table, key, row))

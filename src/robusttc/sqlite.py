"""The one connection to SQLite: settings that keep every commit, and errors that name the file.

A commit that has returned is on the disk (WAL, synchronous FULL), what is deleted is overwritten
(secure_delete), and a file that another program or a newer version made is refused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from robusttc.errors import StoreError, UsageError, quote
from robusttc.files import RESUME, explain_disk_errors, open_private, sync_folder

__all__ = ["Database", "explain_sqlite_errors", "remove_database"]

BUSY_SECONDS = 5.0
# What belongs to a database: the file, its log, and the index of the log.
ENDINGS = ("", "-wal", "-shm")
# (setting, value, what SQLite must answer when it is asked for it afterwards)
SETTINGS = (
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),  # with WAL, NORMAL may lose the last commits when the power goes
    ("fullfsync", "ON", 1),
    ("secure_delete", "ON", 1),
    ("trusted_schema", "OFF", 0),
    ("cell_size_check", "ON", 1),
)
NOT_OPEN = (
    "the database cannot be opened or written",
    "look at the permissions of the folder and its files, and whether the disk is read-only",
)
HELD = ("another program holds the database", "close it, and try again")
DAMAGED = "the database is damaged"
ADVICE = {
    sqlite3.SQLITE_FULL: ("the disk is full", f"make room on it; {RESUME}"),
    sqlite3.SQLITE_READONLY: NOT_OPEN,
    sqlite3.SQLITE_PERM: NOT_OPEN,
    sqlite3.SQLITE_CANTOPEN: NOT_OPEN,
    sqlite3.SQLITE_BUSY: HELD,
    sqlite3.SQLITE_LOCKED: HELD,
    sqlite3.SQLITE_IOERR: (
        "the disk did not take or give the database",
        f"look whether it is full, failing, or too small for the file; {RESUME}",
    ),
    sqlite3.SQLITE_TOOBIG: ("a value is too large for the database", "cut it into several"),
}


@contextmanager
def explain_sqlite_errors(path: Path, *, todo: str | None = None) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into a StoreError that names the file and says what to do.

    `todo` is what to do about damage.
    """
    try:
        with explain_disk_errors("the database cannot be used", path):
            yield
    except sqlite3.ProgrammingError as error:
        # Closed, or used by another thread: the fault of the caller, not of the file.
        raise UsageError("the database cannot be used", where=repr(str(path)), got=str(error)) from error
    # UnicodeDecodeError: the message of an error may quote a damaged statement.
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        code = getattr(error, "sqlite_errorcode", None)
        # The lowest byte is the kind of error, the rest details.
        what, advice = ADVICE.get(-1 if code is None else code & 0xFF, (DAMAGED, todo))
        got = str(error) or type(error).__name__
        raise StoreError(what, where=repr(str(path)), got=got, todo=advice) from error


class Database:
    """One connection, of one thread, to a database file that is created where it is missing.

    Parameters
    ----------
    path
        The file.
    application_id, version
        Whose file it is, and the version of its tables; a file of others or of a later version is refused.
    schema
        The statements that create the tables. A process that is killed while creating leaves none of them.
    damage_todo
        What to do if the file is damaged, for messages.

    Raises
    ------
    StoreError
        If the file is damaged, of another program or a newer version, or the disk does not take it.

    Examples
    --------
    >>> import tempfile
    >>> schema = ["CREATE TABLE numbers (value INTEGER) STRICT"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Database(Path(folder) / "a.sqlite", application_id=7, version=1, schema=schema) as database:
    ...         with database.transaction():
    ...             _ = database.execute("INSERT INTO numbers VALUES (?)", [3])
    ...         database.execute("SELECT value FROM numbers")
    [(3,)]
    """

    def __init__(
        self,
        path: Path,
        *,
        application_id: int,
        version: int,
        schema: Sequence[str],
        damage_todo: str | None = None,
    ) -> None:
        self.path = path
        self._todo = damage_todo
        with self._explained():
            # A clean end removes the log; after another one, every page is looked at.
            was_killed = path.with_name(f"{path.name}-wal").exists()
            if not path.exists():
                os.close(open_private(path, os.O_WRONLY | os.O_CREAT))  # its log gets the same permissions
                sync_folder(path.parent)
            path.chmod(0o600)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
            try:
                self._open(application_id, version, schema, was_killed=was_killed)
            except BaseException:
                self._connection.close()
                raise

    def _open(self, application_id: int, version: int, schema: Sequence[str], *, was_killed: bool) -> None:
        is_new = not self._one("SELECT count(*) FROM sqlite_schema")
        if not is_new:
            self._check_owner(application_id, version)
        for name, value, answer in SETTINGS:
            self._connection.execute(f"PRAGMA {name} = {value}").fetchall()
            if (found := self._one(f"PRAGMA {name}")) != answer:
                raise StoreError(
                    "the database cannot be kept safely here",
                    where=repr(str(self.path)),
                    got=f"{name} {quote(found)}",
                    expected=value,
                    todo="choose a folder on a local disk",
                )
        if is_new:
            with self.transaction():
                for statement in schema:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {application_id}")
                self._connection.execute(f"PRAGMA user_version = {version}")
        elif was_killed and (found := self._one("PRAGMA quick_check(1)")) != "ok":
            self.raise_damaged(quote(found))

    def _check_owner(self, application_id: int, version: int) -> None:
        """Refuse a file of another program or of a newer version."""
        owner, found = self._one("PRAGMA application_id"), self._one("PRAGMA user_version")
        if owner != application_id:
            self.raise_damaged(f"application_id {owner}, which is that of another program")
        if found != version:
            raise StoreError(
                "the database was written by another version of robusttc",
                where=repr(str(self.path)),
                got=f"version {found}",
                expected=f"version {version}",
                todo="use that version of robusttc",
            )

    def _one(self, statement: str) -> Any:
        row = self._connection.execute(statement).fetchone()
        return None if row is None else row[0]

    def _explained(self) -> Any:
        return explain_sqlite_errors(self.path, todo=self._todo)

    def raise_damaged(self, got: str) -> None:
        """Raise the StoreError of a damaged file."""
        raise StoreError(DAMAGED, where=repr(str(self.path)), got=got, todo=self._todo)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Execute one statement and return its rows."""
        with self._explained():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is executed in the block, all or none; on leaving it is on the disk."""
        with self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # some errors have ended the transaction already
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connection; its log goes into the file."""
        with self._explained():
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def remove_database(path: Path) -> None:
    """Remove a database with its log, which nobody has open."""
    for ending in ENDINGS:
        path.with_name(path.name + ending).unlink(missing_ok=True)

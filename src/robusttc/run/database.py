"""The connection to ``run.sqlite``: durable settings that are asserted, errors that name the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote as quote_url

from robusttc.errors import StoreError, UsageError, quote
from robusttc.files import RESUME, explain_disk_errors
from robusttc.run.schema import APPLICATION_ID, SCHEMA_VERSION, STATEMENTS

__all__ = ["check_pages", "connect", "explained", "raise_damaged", "recover", "wipe"]

BUSY_MILLISECONDS = 5_000
HEADER = b"SQLite format 3\x00"
TODO_DAMAGED = "bring the folder back from a copy, or begin a new run in another folder"

# (setting, value, what SQLite must answer when it is asked for it afterwards)
SETTINGS = (
    ("journal_mode", "WAL", "wal"),
    # With WAL, NORMAL may lose the last commits when the power goes.
    ("synchronous", "FULL", 2),
    ("fullfsync", "ON", 1),
    ("foreign_keys", "ON", 1),
    ("busy_timeout", str(BUSY_MILLISECONDS), BUSY_MILLISECONDS),
    ("trusted_schema", "OFF", 0),
    ("cell_size_check", "ON", 1),
    # What clients wrote is overwritten when it goes.
    ("secure_delete", "ON", 1),
)
# What says nothing about the file is not set in one that is only read.
WRITING = ("journal_mode", "synchronous", "fullfsync")
# Other values would be damage: no run was ever written with them.
FORM = (("encoding", "UTF-8"), ("auto_vacuum", 0))

DAMAGED = ("the run's database is damaged", TODO_DAMAGED)
TOO_LARGE = ("a result is too large for the run's database", "cut it into several")
NOT_OPEN = (
    "the run's database cannot be written or opened",
    "look at the rights of the folder and its files, and whether the disk is read-only",
)
HELD = ("another program holds the run's database", "close it, and try again")
ADVICE = {
    sqlite3.SQLITE_FULL: ("the disk is full", f"make room on it; {RESUME}"),
    sqlite3.SQLITE_READONLY: NOT_OPEN,
    sqlite3.SQLITE_PERM: NOT_OPEN,
    sqlite3.SQLITE_CANTOPEN: NOT_OPEN,
    sqlite3.SQLITE_BUSY: HELD,
    sqlite3.SQLITE_LOCKED: HELD,
    sqlite3.SQLITE_IOERR: (
        "the disk did not take or give the run's database",
        f"look whether it is full, failing, or too small for the file; {RESUME}",
    ),
    sqlite3.SQLITE_TOOBIG: TOO_LARGE,
}


def raise_damaged(path: Path, got: str, *, what: str = "the run's database is damaged") -> NoReturn:
    """Say that the database is not what was written."""
    raise StoreError(what, where=repr(str(path)), got=got, todo=TODO_DAMAGED)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into a StoreError that names the file and says what to do."""
    try:
        with explain_disk_errors("the run's database cannot be used", path):
            yield
    except sqlite3.ProgrammingError as error:
        # A store that is closed, or used by a second thread: the caller's fault, not the file's.
        raise UsageError("the run's store cannot be used", where=repr(str(path)), got=str(error)) from error
    # UnicodeDecodeError: the message of an error may quote a damaged statement.
    except (sqlite3.Error, UnicodeDecodeError, MemoryError, OverflowError) as error:
        what, todo = advise(error)
        got = str(error) or type(error).__name__
        raise StoreError(what, where=repr(str(path)), got=got, todo=todo) from error


def advise(error: Exception) -> tuple[str, str]:
    """Give what is wrong, and what to do about it."""
    if isinstance(error, OverflowError):
        return TOO_LARGE
    if isinstance(error, MemoryError):
        return "there is no memory for the run's database", f"close other programs; {RESUME}"
    code = getattr(error, "sqlite_errorcode", None)
    # The lowest byte says the kind, the rest the detail. Without a code it is text that is no Unicode.
    return ADVICE.get(code & 0xFF, DAMAGED) if code is not None else DAMAGED


def connect(path: Path, *, read_only: bool, is_new: bool = False) -> sqlite3.Connection:
    """Open the database, and make sure of every setting that its promises rest on.

    Parameters
    ----------
    path
        The file.
    read_only
        Whether nothing is to be written.
    is_new
        Whether the file is still empty.

    Raises
    ------
    StoreError
        If it cannot be opened, or not with these settings.
    """
    with explained(path):
        if not is_new:
            check_header(path)
        uri = f"file:{quote_url(str(path))}?mode={choose_mode(path) if read_only else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_MILLISECONDS / 1000)
        try:
            if not is_new:
                check_form(connection, path)
            for name, value, answer in SETTINGS:
                if read_only and name in WRITING:
                    continue
                connection.execute(f"PRAGMA {name} = {value}").fetchall()
                found = query(connection, f"PRAGMA {name}")
                if found != answer:
                    raise StoreError(
                        "the run's database cannot be kept safely here",
                        where=repr(str(path)),
                        got=f"{name} {quote(found)}",
                        expected=str(value),
                        todo="choose a folder on a local disk",
                    )
        except BaseException:
            connection.close()
            raise
    return connection


def choose_mode(path: Path) -> str:
    """Give the way to open a database for reading.

    On a read-only disk SQLite cannot make the files by which readers and the writer keep out of each other's
    way; it must be told that nobody writes.
    """
    log = path.with_name(f"{path.name}-wal")
    is_writable = os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)
    if is_writable or (log.exists() and log.stat().st_size):
        return "ro"
    return "ro&immutable=1"


def check_header(path: Path) -> None:
    """Refuse what is no database before SQLite makes one of it."""
    with path.open("rb") as stream:
        header = stream.read(len(HEADER))
    if header != HEADER:
        raise_damaged(path, "a file that is no database" if header else "an empty file")


def query(connection: sqlite3.Connection, statement: str) -> Any:
    """Give the one value that a statement asks for."""
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]


def check_form(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is no run, that a newer version wrote, or whose tables are not ours.

    Raises
    ------
    StoreError
        If so.
    """
    with explained(path):
        application, version = (
            query(connection, "PRAGMA application_id"),
            query(connection, "PRAGMA user_version"),
        )
        if application != APPLICATION_ID:
            raise_damaged(
                path, f"application_id {application}", what="the file is no run of robusttc, or damaged"
            )
        # Before all else: a newer form may have anything.
        if version > SCHEMA_VERSION:
            raise StoreError(
                "the run was written by a newer robusttc",
                where=repr(str(path)),
                got=f"form {version}",
                expected=f"at most form {SCHEMA_VERSION}",
                todo="install a newer robusttc",
            )
        for name, answer in FORM:
            found = query(connection, f"PRAGMA {name}")
            if found != answer:
                raise_damaged(path, f"{name} {quote(found)}")
        found_tables = {row[0] for row in connection.execute("SELECT sql FROM sqlite_schema WHERE sql > ''")}
        if version != SCHEMA_VERSION or found_tables != set(STATEMENTS):
            raise_damaged(path, f"other tables than those of form {SCHEMA_VERSION}")


def recover(connection: sqlite3.Connection, path: Path) -> None:
    """Bring what a killed process committed from the log into the database, and look at the file's size.

    Raises
    ------
    StoreError
        If the file has another size than it should have.
    """
    with explained(path):
        # Passive: it does not wait for those who read.
        _, n_logged, n_brought = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        expected = query(connection, "PRAGMA page_count") * query(connection, "PRAGMA page_size")
        size = path.stat().st_size
    # Somebody who reads an older state keeps a part of the log from being brought in.
    if n_logged == n_brought and size != expected:
        raise_damaged(path, f"{size:,} bytes where {expected:,} were written")


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Have SQLite look at every page of the file.

    Raises
    ------
    StoreError
        If a page is not as it must be.
    """
    with explained(path):
        found = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != [("ok",)]:
        raise_damaged(path, quote(found[0][0] if found else None))


def wipe(connection: sqlite3.Connection, path: Path) -> None:
    """Make sure that nothing which was removed is left in the database's files.

    Raises
    ------
    StoreError
        If somebody who reads the run keeps an older state of it.
    """
    with explained(path):
        connection.execute("VACUUM")
        is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if is_busy:
        raise StoreError(
            "what was removed is still in the log of the database, since another program reads the run",
            where=repr(str(path)),
            todo="close it, and run the same command again",
        )

"""The first moments of a run: its database is made beside its place, and put there by renaming.

So a run that has ``run.sqlite`` has its tables, its configuration and its tasks.
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

from robusttc.crash_points import reach
from robusttc.errors import StoreError, UsageError, quote
from robusttc.files import encode_json, explain_disk_errors, open_private, part_of, sync_folder
from robusttc.run.database import connect, explained, recover
from robusttc.run.identity import Identity
from robusttc.run.owner import LOCK_NAME
from robusttc.run.schema import APPLICATION_ID, RUN, SCHEMA_VERSION, STATEMENTS, TASKS
from robusttc.run.sealed import SealedTables

__all__ = ["DATABASE", "build_database", "read_identity", "refuse_missing", "refuse_used"]

DATABASE = "run.sqlite"
SIDE_FILES = ("", "-wal", "-shm", "-journal")


def refuse_used(folder: Path) -> None:
    """Refuse a folder in which a new run cannot begin.

    Raises
    ------
    UsageError
        If a run or something else is in it.
    """
    if (folder / DATABASE).exists():
        raise UsageError(
            "there is a run already", where=repr(str(folder)), todo="resume it, or choose another folder"
        )
    # What a killed start leaves is hidden, but for the lock.
    found = sorted(path.name for path in folder.iterdir() if path.name[0] != "." and path.name != LOCK_NAME)
    if found:
        raise UsageError(
            "the folder holds something else",
            where=repr(str(folder)),
            got=", ".join(quote(name) for name in found[:3]) + (" …" if len(found) > 3 else ""),
            expected="a new or empty folder",
            todo="choose another folder, or empty this one yourself",
        )


def refuse_missing(folder: Path) -> None:
    """Refuse a folder without a run, saying what is there instead.

    Raises
    ------
    StoreError
        If so.
    """
    where = repr(str(folder))
    with explain_disk_errors("the folder cannot be looked into", folder):
        if (folder / DATABASE).exists():
            return
    if not folder.exists():
        raise StoreError("there is no such folder", where=where, todo="give the folder of a run")
    if not folder.is_dir():
        raise StoreError("it is a file", where=where, expected="the folder of a run")
    if (folder / LOCK_NAME).exists():
        raise StoreError(
            "the run was stopped before it began, or its database is gone",
            where=where,
            got=f"no {DATABASE}",
            todo="run fit again in this folder; a run that was under way must come back from a copy",
        )
    raise StoreError(
        "there is no run in this folder", where=where, got=f"no {DATABASE}", todo="run fit first"
    )


def build_database(folder: Path, identity: Identity) -> None:
    """Make the database of a new run; killed at any moment, it is there wholly or not at all.

    Raises
    ------
    StoreError
        If the disk does not take it.
    """
    place = folder / DATABASE
    part = part_of(place)
    with explained(place):
        remove_part(part)
        os.close(open_private(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            fill(part, identity)
            reach("database/filled")
            part.replace(place)
        except (OSError, sqlite3.Error):
            remove_part(part)
            raise
        reach("database/renamed")
        sync_folder(folder)
        reach("database/in place")


def remove_part(part: Path) -> None:
    """Remove what a killed or failed start left."""
    for ending in SIDE_FILES:
        part.with_name(part.name + ending).unlink(missing_ok=True)


def fill(part: Path, identity: Identity) -> None:
    """Make the tables and write what the run is a run of."""
    connection = connect(part, read_only=False, is_new=True)
    try:
        sealed = SealedTables(connection, part)
        with sealed.transaction("create"):
            for statement in STATEMENTS:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            for name in ("configuration", "versions"):
                sealed.put(RUN, (name, encode_json(getattr(identity, name), where=name)))
            for number, (name, content) in enumerate(identity.tasks.items()):
                sealed.put(TASKS, (number, name, content))
        # Closing would do it too, but say nothing where it fails, and the log is not renamed with the file.
        recover(connection, part)
    finally:
        connection.close()
    with part.open("rb") as stream:
        os.fsync(stream.fileno())


def read_identity(sealed: SealedTables) -> Identity:
    """Give what the run is a run of; its rows are checked already."""
    values = {name: json.loads(value) for name, value in sealed.rows[RUN.name].values()}
    tasks = {name: content for _, name, content in sorted(sealed.rows[TASKS.name].values())}
    return Identity(values["configuration"], tasks, values["versions"])

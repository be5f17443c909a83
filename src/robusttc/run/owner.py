"""Who works on a run: one process at a time.

The owner holds a lock of the operating system on ``owner.lock``, which ends with the process however it
ends: a dead owner holds nothing. What the file says is for the message to the second process alone. The file
is never removed, since a lock on a removed file keeps nobody out.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from robusttc.crash_points import reach
from robusttc.errors import StoreError, quote
from robusttc.files import explain_disk_errors, open_private

__all__ = ["LOCK_NAME", "Owner"]

LOCK_NAME = "owner.lock"
MAX_NOTE_BYTES = 4096
# How long the second process waits for the first to have written who it is.
NOTE_SECONDS = 0.3
# Somebody may remove the whole folder between the opening and the locking.
TRIES = 10


class Owner:
    """The right to write a run, held by this process.

    Taken by `take`, given back by `release` or at the end of a ``with`` block. Processes that this one starts
    do not have it, unless they are forked without executing a program.

    Attributes
    ----------
    folder
        The run's folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Owner.take(folder) as owner:
    ...     Owner.take(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    robusttc.errors.StoreError: ...: another process works on this run; got process ...
    """

    def __init__(self, folder: Path, handle: int) -> None:
        self.folder = folder
        self._handle: int | None = handle

    @classmethod
    def take(cls, folder: str | os.PathLike[str]) -> Owner:
        """Become the owner of a run's folder, which must be there.

        Raises
        ------
        StoreError
            At once if another process is the owner (it names process, machine and since when), or if the
            folder cannot be written to.
        """
        place = Path(folder)
        path = place / LOCK_NAME
        with explain_disk_errors("the run cannot be locked", path):
            for _ in range(TRIES):
                handle = open_locked(path)
                if handle is not None:
                    try:
                        write_note(handle)
                    except BaseException:
                        os.close(handle)
                        raise
                    return cls(place, handle)
        raise StoreError("the run cannot be locked", where=repr(str(path)), got="it is replaced all the time")

    def release(self) -> None:
        """Give the right back; calling it again does nothing."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        try:
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def open_locked(path: Path) -> int | None:
    """Open the lock's file and lock it; None if the file is no longer the one at its place."""
    handle = open_private(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0))
    try:
        reach("owner/opened")
        lock(handle, path)
        reach("owner/locked")
        held = os.fstat(handle)
        found = path.stat() if path.exists() else None
    except BaseException:
        os.close(handle)
        raise
    if found is not None and (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino):
        return handle
    os.close(handle)
    return None


def lock(handle: int, path: Path) -> None:
    """Lock an open file for this process alone, or say who has it."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise_owned(path)
        raise


def write_note(handle: int) -> None:
    """Write who the owner is; not by renaming, which would leave the lock on another file."""
    note = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.time()}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(note).encode(), 0)
    os.fsync(handle)
    reach("owner/written")


def read_note(path: Path) -> dict[str, Any] | None:
    """Read who the owner is; None if it has not said so, or in no way that can be understood.

    The note may still be that of a dead owner before it, so a process that is not there is asked for again.
    """
    deadline = time.monotonic() + NOTE_SECONDS
    while True:
        note = parse_note(path)
        is_sure = note is not None and (note["host"] != socket.gethostname() or is_alive(note["pid"]))
        if is_sure or time.monotonic() > deadline:
            return note
        time.sleep(0.02)


def parse_note(path: Path) -> dict[str, Any] | None:
    """Read the note as it is now; None if it is none."""
    try:
        with path.open("rb") as stream:
            note = json.loads(stream.read(MAX_NOTE_BYTES))
        datetime.fromtimestamp(note["started"], UTC)
        return note if isinstance(note["pid"], int) and isinstance(note["host"], str) else None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def is_alive(pid: int) -> bool:
    """Tell whether this machine has such a process."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def raise_owned(path: Path) -> NoReturn:
    """Say who owns the run."""
    note = read_note(path)
    if note is None:
        got, todo = "a process that has not said who it is", "wait for it, or stop it"
    else:
        since = datetime.fromtimestamp(note["started"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        got = f"process {note['pid']} on {quote(note['host'])}, since {since}"
        todo = f"wait for it, or stop it there: kill {note['pid']}"
    raise StoreError(
        "another process works on this run",
        where=repr(str(path.parent)),
        got=got,
        expected="one process a run",
        todo=todo,
    )

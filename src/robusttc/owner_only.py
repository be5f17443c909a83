"""Files and folders that only their owner may read, whatever the umask: they hold what clients wrote."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["FILE_MODE", "FOLDER_MODE", "make_owner_only", "open_owner_only", "restrict"]

FILE_MODE = 0o600
FOLDER_MODE = 0o700
# The rights of the group and of everybody.
OTHERS = 0o077


def open_owner_only(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file for its owner alone; `open` takes this as its opener.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.csv")
    ...     with open(path, "w", opener=open_owner_only) as stream:
    ...         _ = stream.write("source,target,score")
    ...     oct(path.stat().st_mode & 0o777)
    '0o600'
    """
    handle = os.open(path, flags, FILE_MODE)
    # The file may have been there, with other rights. Not every disk and system knows them.
    if hasattr(os, "fchmod"):
        with suppress(OSError):
            os.fchmod(handle, FILE_MODE)
    return handle


def make_owner_only(folder: Path) -> list[Path]:
    """Make a folder, and those above it that are missing, for their owner alone; give those that were made.

    A folder that is there stays as it is.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
        with suppress(OSError):
            path.chmod(FOLDER_MODE)
    # Says so where it is a file.
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    return missing


def restrict(path: Path) -> None:
    """Take the rights of all others from a file or folder that is there, as far as they can be taken."""
    # It belongs to somebody else, or the disk knows no rights.
    with suppress(OSError):
        mode = path.stat().st_mode & 0o777
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)

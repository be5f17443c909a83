"""Files of a run that are whole at any moment: written beside their place, and put there by renaming.

Whoever is killed on the way leaves the old file or the new one. What a killed writer left beside has a fixed
name, so the next writer overwrites it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from robusttc.errors import StoreError
from robusttc.owner_only import make_owner_only, open_owner_only
from robusttc.run.points import reach

__all__ = [
    "explained_files",
    "make_folder",
    "part_of",
    "sync_folder",
    "write_file",
]

RESUME = "nothing that was finished is lost: run the same command again afterwards"
# What to do about the errors of a disk that people meet.
ADVICE = {
    errno.ENOSPC: f"make room on the disk; {RESUME}",
    errno.EDQUOT: f"make room in your quota; {RESUME}",
    errno.EFBIG: f"raise the limit on the size of files (ulimit -f); {RESUME}",
    errno.EMFILE: f"raise the limit on open files (ulimit -n); {RESUME}",
    errno.EACCES: "give yourself the right to write there, or choose another folder",
    errno.EPERM: "give yourself the right to write there, or choose another folder",
    errno.EROFS: "the disk is mounted read-only: choose another folder",
    errno.EIO: f"the disk may be failing: look at the system's log; {RESUME}",
    errno.ENOLCK: "choose a folder on a local disk",
    errno.EOPNOTSUPP: "choose a folder on a local disk",
    errno.EEXIST: "it is a file: choose another folder",
    errno.ENOTDIR: "a part of the path is a file: choose another folder",
    errno.ENAMETOOLONG: "choose a folder with a shorter path",
}


@contextmanager
def explained_files(what: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the disk into a StoreError that names the file and says what to do."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        # EINVAL and others that say nothing by themselves have no advice.
        todo = ADVICE.get(error.errno) if error.errno is not None else None
        raise StoreError(what, where=repr(os.fspath(path)), got=reason, todo=todo) from error


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Put a file in its place, wholly or not at all; when this returns, the disk has it.

    Parameters
    ----------
    path
        The file; its folder is made where it is missing.
    content
        All of its bytes.

    Raises
    ------
    StoreError
        If the disk does not take it; the file that was there is still there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder) / "clusters.csv", b"task,cluster")
    ...     (Path(folder) / "clusters.csv").read_bytes()
    b'task,cluster'
    """
    place = Path(path)
    part = part_of(place)
    with explained_files("the file cannot be written", place):
        make_folder(place.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        handle = open_owner_only(part, flags)
        try:
            with os.fdopen(handle, "wb") as stream:
                reach("file/opened")
                stream.write(content)
                stream.flush()
                reach("file/written")
                os.fsync(stream.fileno())
            reach("file/synced")
            part.replace(place)
        except OSError:
            # Room is what is missing most often.
            part.unlink(missing_ok=True)
            raise
        reach("file/renamed")
        sync_folder(place.parent)
        reach("file/in place")


def part_of(path: Path) -> Path:
    """Give the place beside a file where it is written first."""
    return path.parent / f".{path.name}.part"


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, for nobody else to read; one that is there stays as it is."""
    if folder.is_dir():
        return
    with explained_files("the folder cannot be made", folder):
        for path in make_owner_only(folder):
            sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder; where folders cannot be opened, there is no need."""
    if os.name == "nt":  # pragma: no cover
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

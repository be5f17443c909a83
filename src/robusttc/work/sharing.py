"""Data that many processes read: large arrays go once into a file that all of them map.

Objects are pickled without their large blocks of memory, which are written to one file as they are. A reader
maps that file copy-on-write: the memory is shared by all readers, arrays can be written to (compiled loops
take a read-only array for another type), and what one reader writes no other one sees.

Nothing here is for keeping: a file lives as long as the process that made it, and pickles are read only by
the workers that this process has started, over a pipe that nobody else can reach.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from robusttc.errors import StoreError

__all__ = ["SharedData", "SharedFile", "join", "open_shared", "remove_left_over", "share", "split"]

PREFIX = "robusttc-shared-"
# Memory of arrays begins at such addresses, as if they had been made here.
ALIGNMENT = 64
# Smaller blocks stay in the pickle: a place of their own would cost more than it saves.
SMALLEST_BLOCK_BYTES = 4096


@dataclass(frozen=True, slots=True, eq=False)
class SharedData:
    """How to find shared data again.

    Attributes
    ----------
    head
        The pickled objects without their large blocks.
    path
        The file of the blocks; empty if there are none.
    spans
        Begin and length of each block in the file, in bytes.
    """

    head: bytes
    path: str
    spans: tuple[tuple[int, int], ...]


@dataclass(slots=True, eq=False)
class SharedFile:
    """Shared data, and the open file that keeps others from clearing it away."""

    data: SharedData
    file: IO[bytes] | None

    def remove(self) -> None:
        """Remove the file; processes that have mapped it keep what they see."""
        if self.file is not None:
            self.file.close()
            self.file = None
            # Windows does not remove what is mapped; the next start does.
            with contextlib.suppress(OSError):
                Path(self.data.path).unlink()


def split(data: Any) -> tuple[bytes, list[memoryview]]:
    """Pickle objects without their large blocks of memory, and give the blocks beside it."""
    blocks: list[memoryview] = []

    def stays_in(buffer: pickle.PickleBuffer) -> bool:
        block = buffer.raw()
        if block.nbytes < SMALLEST_BLOCK_BYTES:
            return True
        blocks.append(block)
        return False

    return pickle.dumps(data, protocol=5, buffer_callback=stays_in), blocks


def join(head: bytes, blocks: list[Any]) -> Any:
    """Make objects from what `split` gave."""
    return pickle.loads(head, buffers=blocks)  # noqa: S301 - made by `split` in the process that started this one


def share(data: Any, folder: Path) -> SharedFile:
    """Write data for other processes.

    Parameters
    ----------
    data
        Anything that can be pickled.
    folder
        Where the file goes; readable by this user alone.

    Raises
    ------
    StoreError
        If the file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> made = share({"vectors": np.ones((100, 100))}, Path(tempfile.gettempdir()))
    >>> open_shared(made.data)["vectors"].sum()
    np.float64(10000.0)
    >>> made.remove()
    """
    head, blocks = split(data)
    if not blocks:
        return SharedFile(SharedData(head, "", ()), None)
    path = str(folder)
    file: IO[bytes] | None = None
    try:
        file, path = make_file(folder)
        spans = []
        for block in blocks:
            file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
            spans.append((file.tell(), block.nbytes))
            file.write(block)
        file.flush()
    except OSError as error:
        if file is not None:
            SharedFile(SharedData(b"", path, ()), file).remove()
        raise StoreError(
            "data for the workers cannot be written",
            where=path,
            got=error.strerror or str(error),
            todo="make room there, or name another folder by the environment variable TMPDIR",
        ) from error
    return SharedFile(SharedData(head, path, tuple(spans)), file)


def open_shared(shared: SharedData) -> Any:
    """Read shared data; large arrays are views of the file, private as soon as they are written to."""
    if not shared.path:
        return join(shared.head, [])
    with Path(shared.path).open("rb") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    return join(shared.head, [memory[begin : begin + size] for begin, size in shared.spans])


def make_file(folder: Path) -> tuple[IO[bytes], str]:
    """Make an empty file that is locked, so that `remove_left_over` of another process leaves it alone."""
    while True:
        number, path = tempfile.mkstemp(prefix=PREFIX, suffix=".bin", dir=folder)
        # Buffered: blocks may be small; closed by `SharedFile.remove`.
        file = os.fdopen(number, "w+b")
        # Another process may have cleared it away before it was locked.
        if try_lock(file) and Path(path).exists():
            return file, path
        file.close()


def remove_left_over(folder: Path) -> int:
    """Remove files in a folder whose processes were killed, and give their number."""
    n_removed = 0
    for path in folder.glob(f"{PREFIX}*.bin"):
        # Files of other users cannot be opened; those of living processes are locked.
        with contextlib.suppress(OSError), path.open("r+b") as file:
            if try_lock(file):
                path.unlink()
                n_removed += 1
    return n_removed


if sys.platform == "win32":

    def try_lock(file: IO[bytes]) -> bool:
        """Windows does not remove a file that is open: no lock is needed."""
        return not file.closed

else:
    import fcntl

    def try_lock(file: IO[bytes]) -> bool:
        """Lock a file until it is closed, or give False because another process holds it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

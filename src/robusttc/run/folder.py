"""The folder of a run: immutable versions over objects named by content, and a pointer to the current one.

::

    RUN/
      objects/ab/abcdef…    files named by the SHA-256 of their content
      versions/0003/        a version: relative links into objects/, and manifest.json
      current               a link to the version that answers, replaced atomically
      jobs-0004.sqlite      unfinished work towards version 4
      owner.lock            locked by the one process that writes

A reader opens `current` once, and sees that version only. A writer builds the next version in a hidden folder
and swaps the pointer: killed before that, it has changed nothing; what it leaves, the next writer removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Self

from robusttc.errors import StoreError, UsageError, quote
from robusttc.files import (
    explain_disk_errors,
    make_folder,
    open_private,
    sync_folder,
)
from robusttc.run.store import JobStore
from robusttc.run.version import (
    MANIFEST,
    Change,
    Version,
    raise_damaged,
    read_body,
    read_version,
    write_manifest,
)
from robusttc.sqlite import remove_database

__all__ = ["BusyError", "FolderWriter", "RunFolder"]

OBJECTS, VERSIONS, CURRENT, LOCK = "objects", "versions", "current", "owner.lock"
PAGE = "report.html"  # beside the versions: it can be made again at any time
KEPT_VERSIONS = 10
NOTE_SECONDS = 0.3  # how long a second process waits for the first to have written who it is
ATTEMPTS = 3  # at reading: a version may be erased while it is opened


class BusyError(StoreError):
    """Another change of the run is under way; the same works once that is finished."""


class RunFolder:
    """The folder of a run, for reading.

    Parameters
    ----------
    path
        The folder.

    Raises
    ------
    UsageError
        If there is no run.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))

    @property
    def page(self) -> Path:
        """Where the report is."""
        return self.path / PAGE

    def jobs_path(self, number: int) -> Path:
        """Return where unfinished work towards a version is."""
        return self.path / f"jobs-{number:04}.sqlite"

    def numbers(self) -> list[int]:
        """Return the numbers of the versions that are kept."""
        current = self.current_number()
        folder = self.path / VERSIONS
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        found = sorted(int(name) for name in names if re.fullmatch(r"\d{4,}", name))
        return [number for number in found if current is not None and number <= current]

    def current_number(self) -> int | None:
        """Return the number of the version that answers, the price of reading a link; None without one."""
        try:
            return int((self.path / CURRENT).readlink().name)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise_damaged(self.path / CURRENT, str(error))

    def current(self) -> Version:
        """Return the version that answers; whatever is written meanwhile, it stays the same."""
        for _ in range(ATTEMPTS):
            number = self.current_number()
            if number is None:
                self._refuse_missing()
            try:
                return self.version(number)
            except StoreError:
                if self.current_number() == number:
                    raise
        raise StoreError("the run is changed all the time", where=repr(str(self.path)))

    def is_begun(self) -> bool:
        """Tell whether a run was begun here; refuse a folder with other files."""
        with explain_disk_errors("the folder cannot be read", self.path):
            names = [path.name for path in self.path.iterdir()] if self.path.is_dir() else []
        # What a killed start left is hidden, but for the lock; notes of people beside a run are theirs.
        found = sorted(name for name in names if not name.startswith("."))
        if VERSIONS not in found and {*found} - {LOCK}:
            raise UsageError(
                "the folder holds something else",
                where=repr(str(self.path)),
                got=", ".join(quote(name) for name in found[:3]) + (" …" if len(found) > 3 else ""),
                expected="a new or empty folder, or one with a run",
                todo="choose another folder, or empty this one yourself",
            )
        return bool(found)

    def _refuse_missing(self) -> NoReturn:
        """Say what is there instead of a run that can be read."""
        where = repr(str(self.path))
        if (self.path / VERSIONS).exists() or (self.path / LOCK).exists():
            raise UsageError(
                "the run is not finished", where=where, todo="run the same fit again to finish it"
            )
        if not self.path.exists():
            raise UsageError("there is no such folder", where=where, todo="give the folder of a run")
        raise UsageError("there is no run in this folder", where=where, todo="run fit first")

    def version(self, number: int) -> Version:
        """Return a version that is kept, after a look at the sizes of its files.

        Raises
        ------
        UsageError
            If it is not kept.
        StoreError
            If it is damaged, or of a newer robusttc.
        """
        folder = self.path / VERSIONS / f"{number:04}"
        if not folder.is_dir() and number != self.current_number():
            kept = ", ".join(map(str, self.numbers()))
            raise UsageError("this version is not kept", got=str(number), expected=f"one of {kept}")
        found = read_version(folder)
        found.check_sizes()
        return found


class FolderWriter(RunFolder):
    """The folder of a run, for the one process that changes it; `close` or a ``with`` block ends that.

    Parameters
    ----------
    path
        The folder.
    create
        Whether a new run may begin there: the folder is made, or must be empty.

    Raises
    ------
    UsageError
        If there is no run, or the folder of a new one holds something else.
    StoreError
        If another process writes the run (it names process, machine and since when), or the disk does not
        take it.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        super().__init__(path)
        self._store: JobStore | None = None
        if create:
            make_folder(self.path)
            self.is_begun()
        elif not (self.path / LOCK).exists():
            self._refuse_missing()
        with explain_disk_errors("the run cannot be written", self.path):
            self._lock = take_lock(self.path / LOCK)
            try:
                self.path.chmod(0o700)
                self._recover()
            except BaseException:
                os.close(self._lock)
                raise

    def _recover(self) -> None:
        """Remove what a killed process left, and finish what it had decided."""
        folder = self.path / VERSIONS
        make_folder(folder)
        number = self.current_number() or 0
        for path in folder.iterdir():
            # Hidden: half built or half removed. Beyond the current one: killed before the swap.
            if path.name.startswith(".") or (path.name.isdigit() and int(path.name) > number):
                shutil.rmtree(path)
        (self.path / f".{CURRENT}.part").unlink(missing_ok=True)
        if number:
            self._settle(read_version(folder / f"{number:04}"))

    @property
    def next_number(self) -> int:
        """The number of the version that is written next."""
        return (self.current_number() or 0) + 1

    @property
    def staging(self) -> Path:
        """Where the next version is built."""
        return self.path / VERSIONS / f".{self.next_number:04}.part"

    def jobs(self, *, reuse: bool = False) -> JobStore:
        """Return the store of work towards the next version; `reuse` goes on with that of the current one."""
        if self._store is None:
            path = self.jobs_path(self.next_number)
            kept = self.jobs_path(self.next_number - 1)
            if reuse and kept.exists() and not path.exists():
                JobStore(kept).close()  # brings its log into the file
                kept.replace(path)
                sync_folder(self.path)
            self._store = JobStore(path)
        return self._store

    def begin(self, base: Version | None = None) -> Path:
        """Return a new folder for the files of the next version; it begins with the links of `base`.

        Files are written there in any way that replaces a link instead of following it, as
        `robusttc.files.write_file` does; `write` needs no waiting for the disk.
        """
        staging = self.staging
        with explain_disk_errors("the next version cannot be begun", staging):
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(mode=0o700)
            if base is not None:
                for name in base.files:
                    make_folder((staging / name).parent)
                    (staging / name).symlink_to((base.folder / name).readlink())
        return staging

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the next version."""
        path = self.staging / name
        with explain_disk_errors("the file cannot be written", path):
            make_folder(path.parent)
            path.unlink(missing_ok=True)  # never through a link into the objects
            with open(path, "xb", opener=open_private) as stream:
                stream.write(content)

    def remove(self, names: Iterable[str]) -> None:
        """Leave files out of the next version; those that are not there are left out already."""
        for name in names:
            (self.staging / name).unlink(missing_ok=True)

    def publish(
        self,
        change: Change,
        *,
        identity: Mapping[str, Any],
        libraries: Mapping[str, str],
        keep_jobs: bool = False,
        erase: Iterable[str] = (),
        drop_older: bool = False,
    ) -> Version:
        """Make what is in the staging folder the version that answers.

        Parameters
        ----------
        change
            What happened.
        identity, libraries
            What the version was made from, and with.
        keep_jobs
            Whether finished jobs are kept, so that only failed ones are tried again later.
        erase
            Paths in older versions whose objects are erased: what a client wrote and its models.
        drop_older
            Whether all older versions are erased, because models in them learned from what is erased. Both
            decisions are a part of the version, so they are carried out after any kill.
        """
        staging, number = self.staging, self.next_number
        before = read_version(self.path / VERSIONS / f"{number - 1:04}").history if number > 1 else ()
        done = replace(change, version=number, when=round(time.time(), 3))
        folder = self.path / VERSIONS / f"{number:04}"
        with explain_disk_errors("the version cannot be published", folder):
            files = dict(self._store_objects(staging))
            body = {
                "version": number,
                "history": [asdict(one) for one in (*before, done)],
                "identity": dict(identity),
                "libraries": dict(libraries),
                "files": files,
                "keeps_jobs": keep_jobs,
                "erased": sorted(erase),
                "drops_older": drop_older,
            }
            write_manifest(staging, body)
            staging.rename(folder)
            sync_folder(folder.parent)
            part = self.path / f".{CURRENT}.part"
            part.unlink(missing_ok=True)
            part.symlink_to(Path(VERSIONS) / folder.name)
            part.replace(self.path / CURRENT)
            sync_folder(self.path)
            self._close_jobs()
            version = read_version(folder)
            self._settle(version)
        return version

    def _store_objects(self, staging: Path) -> Iterator[tuple[str, tuple[str, int]]]:
        """Move new files into the objects and leave links; yield path, SHA-256 and size of all files."""
        touched = {staging, *(path for path in staging.rglob("*") if path.is_dir() and not path.is_symlink())}
        for path in sorted(walk(staging)):
            name = path.relative_to(staging).as_posix()
            if path.is_symlink():
                yield name, (path.readlink().name, path.stat().st_size)
                continue
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                os.fsync(stream.fileno())
                size = os.fstat(stream.fileno()).st_size
            target = self.path / OBJECTS / digest[:2] / digest
            make_folder(target.parent)
            path.chmod(0o600)
            if is_object(target, digest):
                path.unlink()
            else:
                path.replace(target)
                touched.add(target.parent)
            up = "../" * (name.count("/") + 2)
            path.symlink_to(f"{up}{OBJECTS}/{digest[:2]}/{digest}")
            yield name, (digest, size)
        for folder in touched:
            sync_folder(folder)

    def _settle(self, current: Version) -> None:
        """Erase what the current version says, and remove what no kept version needs."""
        older = [number for number in self.numbers() if number != current.number]
        for number in older:
            if current.drops_older or number <= current.number - KEPT_VERSIONS:
                self._drop(number)
            elif current.erased:
                self._erase(number, current.erased)
        if current.erased:
            self.page.unlink(missing_ok=True)  # it has texts of the tasks; it can be made again
        for path in self.path.glob("jobs-*.sqlite"):
            n = int(path.stem.removeprefix("jobs-"))
            if n < current.number or (n == current.number and not current.keeps_jobs):
                remove_database(path)
        self._remove_unused()

    def _drop(self, number: int) -> None:
        """Remove a version; killed meanwhile, what is left of it is hidden and removed later."""
        folder = self.path / VERSIONS / f"{number:04}"
        hidden = folder.with_name(f".{folder.name}.old")
        folder.rename(hidden)
        shutil.rmtree(hidden)

    def _erase(self, number: int, names: Sequence[str]) -> None:
        """Remove files from an older version; one that cannot be read is removed whole."""
        folder = self.path / VERSIONS / f"{number:04}"
        try:
            body = read_body(folder)
        except StoreError:
            self._drop(number)
            return
        gone = [name for name in names if name in body["files"]]
        if gone:
            write_manifest(
                folder, {**body, "files": {k: v for k, v in body["files"].items() if k not in gone}}
            )
        for name in names:
            (folder / name).unlink(missing_ok=True)

    def _remove_unused(self) -> None:
        """Remove objects to which no version links."""
        links = [path for path in walk(self.path / VERSIONS) if path.is_symlink()]
        used = {path.readlink().name for path in links}
        for path in walk(self.path / OBJECTS):
            if path.name not in used:
                path.unlink()

    def give_up(self) -> None:
        """Drop all work towards the next version: the run is as before."""
        self._close_jobs()
        with explain_disk_errors("the unfinished work cannot be removed", self.path):
            remove_database(self.jobs_path(self.next_number))
            shutil.rmtree(self.staging, ignore_errors=True)
            self._remove_unused()

    def _close_jobs(self) -> None:
        if self._store is not None:
            store, self._store = self._store, None
            store.close()

    def close(self) -> None:
        """Let another process write; calling it again does nothing."""
        try:
            self._close_jobs()
        finally:
            if self._lock >= 0:
                handle, self._lock = self._lock, -1
                with suppress(OSError):
                    os.ftruncate(handle, 0)
                os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def walk(folder: Path) -> list[Path]:
    """Return all files and links below a folder, but for manifests."""
    return [
        Path(place) / name
        for place, folders, names in os.walk(folder)
        # os.walk counts links to folders as folders, and does not follow them.
        for name in [*names, *(one for one in folders if (Path(place) / one).is_symlink())]
        if not (name == MANIFEST and Path(place).parent.name == VERSIONS)
    ]


def is_object(path: Path, digest: str) -> bool:
    """Tell whether an object is there and has the content that its name says."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == digest
    except FileNotFoundError:
        return False


def take_lock(path: Path) -> int:
    """Become the one writer; the lock ends with this process, however it ends."""
    handle = open_private(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        note = {"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(note).encode(), 0)
    except BlockingIOError:
        owner = describe_owner(handle)
        os.close(handle)
        raise BusyError(
            "another process works on this run",
            where=repr(str(path.parent)),
            got=owner,
            expected="one process a run",
            todo="wait for it, or stop it",
        ) from None
    except BaseException:
        os.close(handle)
        raise
    return handle


def describe_owner(handle: int) -> str:
    """Say who holds the lock, as far as it has written that."""
    deadline = time.monotonic() + NOTE_SECONDS
    while True:
        try:
            note = json.loads(os.pread(handle, 4096, 0))
            since = datetime.fromtimestamp(note["since"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            return f"process {int(note['pid'])} on {quote(str(note['host']))}, since {since}"
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            if time.monotonic() > deadline:
                return "a process that has not said who it is"
            time.sleep(0.02)

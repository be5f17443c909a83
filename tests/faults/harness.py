"""Kill a change of a run at every step, fail its disk, cut its power; and look at what is left.

A *step* is a call that changes a disk or waits for it: fsync, rename, replace, symlink, unlink, mkdir, rmdir,
and every COMMIT of SQLite, before and after. A change runs in a forked process; a fault strikes at step n.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import stat
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from robusttc.errors import StoreError
from robusttc.run import RunFolder

Change = Callable[[Path], None]
Fault = Callable[[int, str], None]
CALLS = ("fsync", "replace", "rename", "symlink", "unlink", "mkdir", "rmdir")
DONE, STORE_ERROR, OTHER_ERROR = 0, 5, 1


class Steps:
    """Counts the steps of a process, and lets a fault strike at one of them."""

    def __init__(
        self,
        fault: Fault = lambda _number, _name: None,
        on_sync: Callable[[int], None] = lambda _handle: None,
    ) -> None:
        self.fault = fault
        self.on_sync = on_sync
        self.n = 0

    def reach(self, name: str) -> None:
        self.n += 1
        self.fault(self.n, name)

    @contextmanager
    def watched(self) -> Iterator[Steps]:
        """Watch the calls of this process in the block."""
        originals: dict[str, Any] = {name: getattr(os, name) for name in CALLS}
        connect = sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(connection, statement: str, *values: Any) -> sqlite3.Cursor:  # noqa: N805
                if statement == "COMMIT":
                    self.reach("COMMIT")
                    result = super().execute(statement, *values)
                    self.reach("committed")
                    return result
                return super().execute(statement, *values)

        def watch(name: str) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                self.reach(name)
                result = originals[name](*arguments, **options)
                if name == "fsync":
                    self.on_sync(*arguments)
                return result

            return call

        def open_connection(*arguments: Any, **options: Any) -> sqlite3.Connection:
            return connect(*arguments, **options, factory=Connection)

        try:
            for name in CALLS:
                setattr(os, name, watch(name))
            sqlite3.connect = open_connection  # type: ignore[assignment]
            yield self
        finally:
            for name, original in originals.items():
                setattr(os, name, original)
            sqlite3.connect = connect


def kill_at(n: int) -> Fault:
    """Kill the process at a step."""

    def strike(number: int, _name: str) -> None:
        if number == n:
            os.kill(os.getpid(), signal.SIGKILL)

    return strike


def fail_from(n: int, code: int) -> Fault:
    """Let the disk refuse everything from a step on: it is full, or read-only."""

    def strike(number: int, name: str) -> None:
        if number >= n and name not in ("unlink", "rmdir", "committed"):
            if name == "COMMIT":
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            raise OSError(code, os.strerror(code))

    return strike


def in_child(change: Change, folder: Path, steps: Steps) -> tuple[int, int]:
    """Make a change in a forked process; return how it ended (below zero: the signal), and its steps."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = OTHER_ERROR
        try:
            with steps.watched():
                change(folder)
            code = DONE
        except StoreError:
            code = STORE_ERROR
        except BaseException:
            traceback.print_exc()
        finally:
            os.write(writing, str(steps.n).encode())
            os._exit(code)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    told = os.read(reading, 100)
    os.close(reading)
    return os.waitstatus_to_exitcode(status), int(told or b"0")


def count_steps(change: Change, folder: Path) -> int:
    """Return the number of steps of a change that nothing disturbs."""
    code, n_steps = in_child(change, folder, Steps())
    assert code == DONE
    return n_steps


Files = dict[str, str]


def read_versions(folder: Path) -> dict[int, Files]:
    """Return the hashes of all files of every version that is kept, after reading all of them."""
    run = RunFolder(folder)
    found = {}
    for number in run.numbers():
        version = run.version(number)
        version.check()
        found[number] = {name: digest for name, (digest, _) in version.files.items()}
    return found


@dataclass(slots=True)
class Case:
    """A change to disturb.

    Attributes
    ----------
    name
        For messages.
    prepare
        Makes the state before it.
    change
        The change; called again after a fault, it goes on and must end with the same.
    works
        Whether the run answers, whatever happened; by default, all its files are whole.
    """

    name: str
    prepare: Change
    change: Change
    works: Change = lambda _: None
    expected: dict[int, Files] = field(default_factory=dict)
    before: dict[int, Files] = field(default_factory=dict)

    def lay_out(self, root: Path) -> int:
        """Make the states before and after, and return the number of steps between them."""
        self.prepare(root / "before")
        self.before = read_versions(root / "before") if (root / "before").exists() else {}
        self.copy(root, root / "calm")
        n_steps = count_steps(self.change, root / "calm")
        self.expected = read_versions(root / "calm")
        assert self.expected != self.before
        return n_steps

    def copy(self, root: Path, place: Path) -> Path:
        """Copy the state before to another place."""
        if (root / "before").exists():
            shutil.copytree(root / "before", place, symlinks=True)
        return place

    def check(self, folder: Path, *, must_be_new: bool = False) -> list[str]:
        """Say what is wrong with a run after a fault: it must be as before or as after, and go on."""
        faults = []
        found = read_versions(folder) if folder.exists() else {}
        current = max(found, default=0)
        if must_be_new and current != max(self.expected):
            faults.append("what was published is lost")
        known = {**self.before, **self.expected}
        for number, files in found.items():
            # A version that is erased later may lack files for a moment; it never has others.
            whole = [one[number] for one in (self.before, self.expected) if number in one]
            if number not in known or not any(files.items() <= one.items() for one in whole):
                faults.append(f"version {number} is another")
        if self.before and not found:
            faults.append("the run is gone")
        if found:
            self.works(folder)
        code, _ = in_child(self.change, folder, Steps())
        if code != DONE:
            faults.append("it does not go on")
        elif read_versions(folder) != self.expected:
            faults.append("another result")
        faults += [f"left over: {name}" for name in leftovers(folder)]
        return faults


def leftovers(folder: Path) -> list[str]:
    """Return what should not be in a run that is finished."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    return [name for name in names if Path(name).name.startswith(".") or "jobs-" in name]


def find_faults(case: Case, root: Path, n: int, kind: Literal["kill", "full", "read-only"]) -> list[str]:
    """Disturb a change at step n, and say what is wrong afterwards."""
    folder = case.copy(root, root / f"{kind}-{n}")
    code = errno.ENOSPC if kind == "full" else errno.EROFS
    fault = kill_at(n) if kind == "kill" else fail_from(n, code)
    ended, _ = in_child(case.change, folder, Steps(fault))
    expected = (-signal.SIGKILL,) if kind == "kill" else (STORE_ERROR, DONE)
    found = [] if ended in expected else [f"it ended with {ended}"]
    found += case.check(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return [f"{case.name}, {kind} at step {n}: {one}" for one in found]


class Disk:
    """What of a folder survives a loss of power: what was waited for, and no more.

    Contents are those of the last fsync of a file, names those of the last fsync of a folder. `names_survive`
    is the other extreme: all renames are on the disk at once, and contents that were not waited for are lost.
    SQLite waits for its files itself (WAL, synchronous FULL): they are taken as they are.
    """

    def __init__(self, folder: Path, *, names_survive: bool = False) -> None:
        self.folder = folder
        self.names_survive = names_survive
        self.contents: dict[int, bytes] = {}  # by inode
        # Of every folder, by inode: inode, whether it is a folder, and target of every name.
        self.names: dict[int, dict[str, tuple[int, bool, str]]] = {}
        self.parent = {folder.parent.stat().st_ino: folder.name}
        for path in (folder, *folder.rglob("*")) if folder.exists() else ():
            self.note(path)

    def note(self, path: Path) -> None:
        """Take a file or folder as being on the disk."""
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode):
            self.names[found.st_ino] = list_folder(path)
        elif stat.S_ISREG(found.st_mode):
            self.contents[found.st_ino] = path.read_bytes()

    def sync(self, handle: int) -> None:
        """A process has waited for a file or folder."""
        self.note(Path(f"/proc/self/fd/{handle}").readlink())

    def lose_power(self, place: Path) -> None:
        """Write what survives to another place."""
        if self.folder.exists():
            self.write(self.folder, self.folder.stat().st_ino, place)

    def write(self, source: Path, inode: int, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        now = list_folder(source) if self.names_survive and source.is_dir() else {}
        entries = now if self.names_survive else self.names.get(inode, {})
        for name, (own, is_folder, target) in entries.items():
            path = source / name
            if target:
                (place / name).symlink_to(target)
            elif is_folder:
                self.write(path, own, place / name)
            elif ".sqlite" in name:
                if path.exists():
                    (place / name).write_bytes(path.read_bytes())
            else:
                (place / name).write_bytes(self.contents.get(own, b""))


def list_folder(folder: Path) -> dict[str, tuple[int, bool, str]]:
    """Return inode, whether it is a folder, and the target of every name in a folder."""
    found = {}
    for one in os.scandir(folder):
        target = str(Path(one.path).readlink()) if one.is_symlink() else ""
        found[one.name] = one.inode(), one.is_dir(follow_symlinks=False), target
    return found


def power_losses(case: Case, root: Path, n: int, *, names_survive: bool) -> list[str]:
    """Cut the power at step n (0: at the end), and say what is wrong with what survives."""
    folder, left = case.copy(root, root / f"power-{n}"), root / f"left-{n}"

    disk = Disk(folder, names_survive=names_survive)

    def strike(number: int, _name: str) -> None:
        if number == n:
            disk.lose_power(left)
            os._exit(0)

    def change(place: Path) -> None:
        case.change(place)
        disk.lose_power(left)

    code, _ = in_child(change, folder, Steps(strike, disk.sync))
    found = [] if code == DONE else [f"it ended with {code}"]
    if not left.exists() and case.before:
        found.append("the run is gone")
    found += case.check(left, must_be_new=n == 0)
    for place in (folder, left):
        shutil.rmtree(place, ignore_errors=True)
    return [f"{case.name}, power at step {n}: {one}" for one in found]

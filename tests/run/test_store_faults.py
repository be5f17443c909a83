"""A disk that is full, failing or not ours: an error that says so, nothing lost, the run goes on later."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_run import (
    ALL_UNITS,
    IDENTITY,
    batches,
    do_run,
    find_faults,
    make_unit,
    other_unit,
    quick_folder,
    tell,
)

from robusttc.crash_points import set_hook
from robusttc.errors import StoreError, UsageError
from robusttc.run.database import choose_mode, explained
from robusttc.run.schema import APPLICATION_ID, VALUES
from robusttc.run.store import RunStore

PROGRAM = Path(__file__).parent / "fault_program.py"


def run_program(kind: str, folder: Path, *, own_mounts: bool = False) -> dict[str, Any]:
    command = [sys.executable, str(PROGRAM), kind, str(folder)]
    if own_mounts:
        command = ["unshare", "--mount", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", folder]
        return subprocess.run(command, capture_output=True).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="only root mounts a disk of its own")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; those of pytest are for one user."""
    with tempfile.TemporaryDirectory(prefix="robusttc-rights-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        Path(folder).chmod(0o755)


def test_files_that_may_not_grow() -> None:
    with quick_folder() as folder:
        found = run_program("limit", folder)
    assert found["faults"] == []
    assert len(found["messages"]) > 10
    assert all("PLACE" in message for message in found["messages"])
    assert all("the same command again" in message for message in found["messages"])


@needs_mount
def test_a_full_disk(tmp_path: Path) -> None:
    found = run_program("full", tmp_path, own_mounts=True)
    assert found["faults"] == []
    assert len(found["messages"]) > 10
    assert all("PLACE" in message for message in found["messages"])
    assert all(re.search("room on|Look whether it is full", message) for message in found["messages"])


@needs_mount
def test_a_read_only_disk_can_be_read(tmp_path: Path) -> None:
    found = run_program("read-only", tmp_path, own_mounts=True)
    assert found["faults"] == []
    writing, creating, reading = found["messages"]
    assert "PLACE/killed/run.sqlite': the run's database cannot be written or opened" in reading
    assert "PLACE/run/owner.lock': the run cannot be locked; got Read-only file system" in writing
    assert "PLACE/new': the folder cannot be made; got Read-only file system" in creating
    assert "choose another folder" in writing


def test_somebody_without_the_right_to_write_can_read(open_folder: Path) -> None:
    found = run_program("rights", open_folder)
    assert found["faults"] == []
    writing, creating = found["messages"]
    assert "PLACE/run/owner.lock': the run cannot be locked; got Permission denied" in writing
    assert "PLACE/new': the folder cannot be made; got Permission denied" in creating
    assert "Give yourself the right to write there" in writing


def test_how_a_database_is_opened_for_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.sqlite"
    assert choose_mode(path) == "ro&immutable=1"  # no such file
    path.touch()
    assert choose_mode(path) == "ro"
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    assert choose_mode(path) == "ro&immutable=1"
    (tmp_path / "run.sqlite-wal").write_bytes(b"commits that are not in the database yet")
    assert choose_mode(path) == "ro"


@pytest.mark.parametrize(
    ("number", "forever"), [(errno.ENOSPC, False), (errno.EIO, True), (errno.EMFILE, False)]
)
def test_a_fault_at_every_point(number: int, forever: bool) -> None:
    """At the first point, at the second, and so on until the run does not meet the fault any more."""
    with quick_folder() as folder:
        do_run(folder / "undisturbed")
        expected = tell(folder / "undisturbed")
        fault_at = 0
        while True:
            fault_at += 1
            n_reached = 0

            def fail(_point: str) -> None:
                nonlocal n_reached
                n_reached += 1
                if n_reached == fault_at or (forever and n_reached > fault_at):  # noqa: B023
                    raise OSError(number, os.strerror(number))

            place = folder / str(fault_at)
            acknowledged: set[str] = set()
            set_hook(fail)
            try:
                do_run(place, acknowledged.update)
                break
            except StoreError as error:
                message = str(error)
            finally:
                set_hook(None)
            assert str(place) in message
            assert os.strerror(number) in message
            assert find_faults(place, acknowledged) == []
            do_run(place)
            assert tell(place) == expected
        assert fault_at > 60


def test_the_same_store_goes_on_after_a_fault(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        for point in ("finish/begun", "finish/written", "finish/committed"):

            def fail(reached: str, point: str = point) -> None:
                if reached == point:
                    raise OSError(errno.ENOSPC, "No space left on device")

            set_hook(fail)
            with pytest.raises(StoreError, match="No space left"):
                store.finish_many([make_unit(0), make_unit(1)])
            set_hook(None)
            assert len(store.find(ALL_UNITS)) == (2 if point == "finish/committed" else 0)
        for batch in batches():
            store.finish_many(batch)
        assert store.failures("x") == 0
        store.check()
    with RunStore.open(tmp_path / "run") as store:
        store.check()
        assert len(store.find(ALL_UNITS)) == len(ALL_UNITS)


def test_a_store_whose_disk_is_gone_refuses_to_go_on(tmp_path: Path) -> None:
    class Gone:
        """A connection whose disk fails at the commit and for ever after."""

        in_transaction = True

        def __init__(self, connection: sqlite3.Connection) -> None:
            self.connection = connection
            self.is_gone = False

        def execute(self, statement: str, *arguments: Any) -> object:
            self.is_gone |= statement == "COMMIT"
            if self.is_gone:
                raise sqlite3.OperationalError("disk I/O error")
            return self.connection.execute(statement, *arguments)

    store = RunStore.create(tmp_path / "run", IDENTITY)
    store.finish_many([other_unit("a")])
    store._sealed.connection = Gone(store._connection)  # type: ignore[assignment]
    with pytest.raises(StoreError, match="disk I/O error"):
        store.finish_many([other_unit("b")])
    with pytest.raises(StoreError, match=r"since an earlier error.*Run the same command again"):
        store.finish_many([other_unit("b")])
    store.close()
    with RunStore.open(tmp_path / "run") as store:
        assert len(store.find(ALL_UNITS)) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full.*Make room"),
        (sqlite3.SQLITE_READONLY, "cannot be written or opened.*rights of the folder"),
        (sqlite3.SQLITE_BUSY, "another program holds.*Close it"),
        (sqlite3.SQLITE_IOERR | 3 << 8, "did not take or give.*Look whether"),
        (sqlite3.SQLITE_TOOBIG, "too large.*Cut it"),
        (sqlite3.SQLITE_CORRUPT, "damaged.*Bring the folder back"),
        (None, "damaged"),
    ],
)
def test_what_sqlite_says_is_said_in_plain_words(code: int | None, words: str) -> None:
    error = sqlite3.OperationalError("reason")
    if code is not None:
        error.sqlite_errorcode = code
    with pytest.raises(StoreError, match=words) as caught, explained(Path("place/run.sqlite")):
        raise error
    assert "'place/run.sqlite'" in str(caught.value)
    assert "got reason" in str(caught.value)


def test_other_errors_around_the_database() -> None:
    path = Path("place/run.sqlite")
    with pytest.raises(StoreError, match="too large"), explained(path):
        raise OverflowError("BLOB longer than INT_MAX bytes")
    with pytest.raises(StoreError, match=r"no memory.*got MemoryError"), explained(path):
        raise MemoryError
    with pytest.raises(UsageError, match="cannot be used; got closed"), explained(path):
        raise sqlite3.ProgrammingError("closed")
    with pytest.raises(StoreError, match="damaged"), explained(path):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")


def test_a_database_that_another_program_holds(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        store._connection.execute("PRAGMA busy_timeout = 20")
        other = sqlite3.connect(tmp_path / "run" / "run.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program holds the run's database"):
            store.finish_many([other_unit("a")])
        other.execute("ROLLBACK")
        other.close()
        store.finish_many([other_unit("a")])


@pytest.mark.parametrize(
    "content", [b"", b"SQLite format 3\x00", b"something else", b"SQLite format 3\x00" + bytes(5000)]
)
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.sqlite").write_bytes(content)
    for read_only in (False, True):
        with pytest.raises(StoreError, match="damaged") as caught:
            RunStore.open(tmp_path, read_only=read_only)
        assert str(tmp_path / "run.sqlite") in str(caught.value)
    assert (tmp_path / "run.sqlite").read_bytes() == content


def test_a_file_of_another_size_is_told(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "run", IDENTITY).close()
    path = tmp_path / "run" / "run.sqlite"
    with path.open("ab") as stream:
        stream.write(bytes(8192))
    with pytest.raises(StoreError, match=r"bytes where .* were written"):
        RunStore.open(tmp_path / "run")


def test_a_database_in_another_encoding_is_told(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "run.sqlite")
    connection.execute("PRAGMA encoding = 'UTF-16'")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("CREATE TABLE a (b)")
    connection.close()
    with pytest.raises(StoreError, match="damaged; got encoding 'UTF-16"):
        RunStore.open(tmp_path)


def test_transactions_are_not_nested_and_rows_change_inside_them(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        sealed = store._sealed
        with pytest.raises(UsageError, match="outside a transaction"):
            sealed.put(VALUES, ("a", "1"))
        with sealed.transaction("value"):
            sealed.put(VALUES, ("a", "1"))
            with pytest.raises(UsageError, match="inside another"), sealed.transaction("value"):
                pass
        assert store.value("a") == 1
        with pytest.raises(UsageError, match="outside a transaction"):
            sealed.remove(VALUES, "a")
        assert store.value("a") == 1
        store.check()


def test_a_folder_in_the_place_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").mkdir()
    with pytest.raises(StoreError, match="Is a directory"):
        RunStore.open(tmp_path)

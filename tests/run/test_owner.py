"""One owner a run: the second is refused and told who, a dead one is followed, races have one winner."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from robusttc.crash_points import set_hook
from robusttc.errors import StoreError
from robusttc.run import owner as owner_module
from robusttc.run.owner import LOCK_NAME, Owner

# Says that it has the run, and keeps it until it is ended or told to go.
HOLD = """
import sys
from robusttc.run.owner import Owner
owner = Owner.take(sys.argv[1])
print("taken", flush=True)
sys.stdin.readline()
"""

# Contenders that start at the same moment; a winner holds on until all have tried.
RACE = """
import os, sys, time
from pathlib import Path
from robusttc.errors import StoreError
from robusttc.run.owner import Owner
folder, n_races, n_contenders = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for race in range(n_races):
    place = folder / str(race)
    place.mkdir()
    start = time.monotonic() + 0.02
    children = []
    for contender in range(n_contenders):
        child = os.fork()
        if child == 0:
            while time.monotonic() < start:
                pass
            try:
                Owner.take(place)
                (place / f"won-{contender}").touch()
            except StoreError:
                (place / f"lost-{contender}").touch()
            until = time.monotonic() + 5
            while len(os.listdir(place)) < n_contenders + 1 and time.monotonic() < until:
                time.sleep(0.001)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
"""


def start_holder(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "taken\n"
    return holder


def end(holder: subprocess.Popen[str]) -> None:
    holder.communicate("go\n", timeout=20)


def test_the_second_process_is_refused_at_once_and_told_who(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    try:
        began = time.monotonic()
        with pytest.raises(StoreError, match="another process works on this run") as caught:
            Owner.take(tmp_path)
        assert time.monotonic() - began < 1
        message = str(caught.value)
        assert f"process {holder.pid} on {socket.gethostname()!r}, since 20" in message
        assert str(tmp_path) in message
        assert f"Wait for it, or stop it there: kill {holder.pid}" in message
    finally:
        end(holder)
    Owner.take(tmp_path).release()


def test_a_killed_owner_is_followed(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.communicate(timeout=20)
    with Owner.take(tmp_path) as owner:
        note = json.loads((tmp_path / LOCK_NAME).read_text())
        assert (note["pid"], note["host"]) == (os.getpid(), socket.gethostname())
        assert abs(note["started"] - time.time()) < 60
        assert owner.folder == tmp_path
        assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600


def test_of_many_that_start_together_one_wins(tmp_path: Path) -> None:
    n_races, n_contenders = 30, 4
    command = [sys.executable, "-c", RACE, str(tmp_path), str(n_races), str(n_contenders)]
    subprocess.run(command, check=True, timeout=120)
    for race in range(n_races):
        found = sorted(path.name for path in (tmp_path / str(race)).iterdir())
        assert len([name for name in found if name.startswith("won")]) == 1, found
        assert len([name for name in found if name.startswith("lost")]) == n_contenders - 1, found


def test_a_started_program_does_not_keep_the_run(tmp_path: Path) -> None:
    with Owner.take(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        Owner.take(tmp_path).release()
    finally:
        child.communicate(b"\n", timeout=20)


def test_release_twice_and_take_again(tmp_path: Path) -> None:
    owner = Owner.take(tmp_path)
    with pytest.raises(StoreError, match="another process"):
        Owner.take(tmp_path)
    owner.release()
    owner.release()
    Owner.take(tmp_path).release()


@pytest.mark.parametrize("note", ["", "{", "[]", '{"pid": "1"}', '{"pid": 1, "host": "a", "started": 1e99}'])
def test_an_owner_that_has_not_said_who_it_is(
    tmp_path: Path, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "NOTE_SECONDS", 0.0)
    with Owner.take(tmp_path):
        (tmp_path / LOCK_NAME).write_text(note)
        with pytest.raises(StoreError, match="a process that has not said who it is"):
            Owner.take(tmp_path)


def test_the_note_of_a_dead_owner_is_not_taken_for_that_of_the_living(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(timeout=20)
    path = tmp_path / LOCK_NAME
    with Owner.take(tmp_path):
        right = path.read_text()
        wrong = json.dumps({**json.loads(right), "pid": dead.pid})
        path.write_text(wrong)
        later = threading.Timer(0.1, path.write_text, [right])
        later.start()
        with pytest.raises(StoreError, match=f"process {os.getpid()} on"):
            Owner.take(tmp_path)
        later.join()
        for pid in (dead.pid, 10**30):  # nobody says otherwise: better than nothing
            path.write_text(json.dumps({**json.loads(right), "pid": pid}))
            with pytest.raises(StoreError, match=f"process {pid} on"):
                Owner.take(tmp_path)
        path.write_text(json.dumps({**json.loads(right), "pid": 1}))
        with pytest.raises(StoreError, match="process 1 on"):
            Owner.take(tmp_path)
    assert path.read_bytes() == b""


def test_a_process_of_somebody_else_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert owner_module.is_alive(1)


def test_a_disk_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int, _kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"No locks available\. Choose a folder on a local disk"):
        Owner.take(tmp_path)


def test_a_lock_on_a_file_that_was_removed_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / LOCK_NAME
    n_removed = 0

    def remove(point: str) -> None:
        nonlocal n_removed
        if point == "owner/opened" and n_removed < 2:
            path.unlink()
            n_removed += 1

    set_hook(remove)
    try:
        with Owner.take(tmp_path):
            assert n_removed == 2
            with pytest.raises(StoreError, match="another process"):
                Owner.take(tmp_path)
    finally:
        set_hook(None)


def test_a_file_that_is_replaced_all_the_time(tmp_path: Path) -> None:
    def replace(point: str) -> None:
        if point == "owner/locked":
            (tmp_path / LOCK_NAME).unlink()
            (tmp_path / LOCK_NAME).touch()

    set_hook(replace)
    try:
        with pytest.raises(StoreError, match="replaced all the time"):
            Owner.take(tmp_path)
    finally:
        set_hook(None)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the run cannot be locked") as caught:
        Owner.take(tmp_path / "gone")
    assert str(tmp_path / "gone") in str(caught.value)


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="the run cannot be locked"):
        Owner.take(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "mine"


@pytest.mark.parametrize("point", ["owner/opened", "owner/locked", "owner/written"])
def test_a_disk_that_fails_leaves_no_lock_behind(tmp_path: Path, point: str) -> None:
    def fail(reached: str) -> None:
        if reached == point:
            raise OSError(28, "No space left on device")

    set_hook(fail)
    try:
        with pytest.raises(StoreError, match="No space left"):
            Owner.take(tmp_path)
    finally:
        set_hook(None)
    Owner.take(tmp_path).release()

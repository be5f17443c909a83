"""The power goes: of what was written and not synced, any part may be missing.

A killed process does not show this, since the system keeps what it wrote. So the calls of a run to the system
are recorded, and for any moment a disk is made that has all that was synced by then, and some of the rest.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from small_run import do_run, find_faults, quick_folder, tell

PROGRAM = Path(__file__).parent / "power_program.py"
CALLS = "openat,close,write,pwrite64,ftruncate,fsync,fdatasync,rename,unlink"
CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
SECTOR = 512


def can_watch() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not can_watch(), reason="strace is not here, or may not watch")


@dataclass
class File:
    """A file on the disk: what is safe, and what was written since (place and bytes, or a new length)."""

    safe: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for place, content in self.pending:
            put(self.safe, place, content)
        self.pending.clear()

    def draw(self, draw: random.Random) -> bytes:
        """What may be there after the power went: every write is there, or not, or in part."""
        content = bytearray(self.safe)
        for place, written in self.pending:
            fate = draw.choice(["there", "missing", "torn"])
            if fate == "torn" and written is not None:
                written = written[: SECTOR * draw.randrange(1 + len(written) // SECTOR)]
            if fate != "missing":
                put(content, place, written)
        return bytes(content)


def put(content: bytearray, place: int, written: bytes | None) -> None:
    if written is None:
        del content[place:]
        content.extend(bytes(place - len(content)))
    else:
        content.extend(bytes(max(place - len(content), 0)))
        content[place : place + len(written)] = written


class Disk:
    """A folder on a disk, as the calls of a process make it."""

    def __init__(self, folder: Path, acknowledged: Path) -> None:
        self.folder, self.notes = str(folder), str(acknowledged)
        self.names: dict[str, File] = {}
        self.safe_names: dict[str, File] = {}
        self.name_changes: list[dict[str, File]] = []  # the names after every change since the last sync
        self.handles: dict[int, tuple[str, int]] = {}  # path, and where the next plain write goes
        self.acknowledged: set[str] = set()

    def call(self, name: str, arguments: str, result: int) -> bool:
        """Take a call into account, and tell whether it changed anything."""
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in TEXT.findall(arguments)]
        if result < 0:
            return False
        if name == "openat":
            return self.open(texts[0].decode(), arguments, result)
        if name in ("rename", "unlink"):
            return self.move(*(text.decode() for text in texts))
        handle = int(arguments.split(",")[0])
        path, place = self.handles.get(handle, ("", 0))
        if name == "close":
            self.handles.pop(handle, None)
        elif path == self.notes and name == "write":
            self.acknowledged |= set(json.loads(texts[0]))
        elif path in self.names:
            self.change(name, path, arguments, place, texts)
            if name == "write":
                self.handles[handle] = (path, place + len(texts[0]))
            return True
        elif path and name in ("fsync", "fdatasync"):  # of a folder: the names in it are safe
            self.safe_names = dict(self.names)
            self.name_changes.clear()
        return False

    def open(self, path: str, arguments: str, handle: int) -> bool:
        is_ours = path.startswith(self.folder) and not path.endswith("-shm")  # which is made anew every time
        if not is_ours and path != self.notes:
            self.handles.pop(handle, None)
            return False
        self.handles[handle] = (path, 0)
        if path == self.notes or "O_DIRECTORY" in arguments or Path(path).is_dir():
            return False
        if "O_CREAT" in arguments and path not in self.names:
            self.names[path] = File()
            self.name_changes.append(dict(self.names))
        elif "O_TRUNC" in arguments:
            self.names[path].pending.append((0, None))
        return True

    def move(self, path: str, target: str | None = None) -> bool:
        if path not in self.names:
            return False
        moved = self.names.pop(path)
        if target is not None:
            self.names[target] = moved
        self.name_changes.append(dict(self.names))
        return True

    def change(self, name: str, path: str, arguments: str, place: int, texts: list[bytes]) -> None:
        file = self.names[path]
        if name == "pwrite64":
            file.pending.append((int(arguments.rsplit(",", 1)[1]), texts[0]))
        elif name == "write":
            file.pending.append((place, texts[0]))
        elif name == "ftruncate":
            file.pending.append((int(arguments.rsplit(",", 1)[1]), None))
        else:
            file.sync()

    def lose_power(self, place: Path, draw: random.Random) -> None:
        """Write what may be left of the folder to another place."""
        names = draw.choice([self.safe_names, *self.name_changes])
        place.mkdir(mode=0o700)
        for path, file in names.items():
            target = place / Path(path).relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.draw(draw))


def replay(root: Path, weakness: str = "") -> Iterator[Disk]:
    """Watch a run, and give the disk after every change."""
    folder, acknowledged, log = root / "run", root / "acknowledged", root / "calls"
    watched = [sys.executable, str(PROGRAM), str(folder), str(acknowledged), weakness]
    command = ["strace", "-f", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(log), *watched]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    disk = Disk(folder, acknowledged)
    with log.open() as lines:
        for line in lines:
            found = CALL.match(line)
            if found is not None and disk.call(found[1], found[2], int(found[3])):
                yield disk
    for file in disk.names.values():
        file.sync()
    written = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {name: bytes(file.safe) for name, file in disk.names.items()} == written  # no call was missed


def find_losses(root: Path, weakness: str = "", states: int = 1) -> tuple[int, list[str]]:
    draw = random.Random(0)
    faults: list[str] = []
    n_states = 0
    do_run(root / "undisturbed")
    expected = tell(root / "undisturbed")
    for number, disk in enumerate(replay(root, weakness)):
        for state in range(states):
            place = root / f"lost-{number}-{state}"
            disk.lose_power(place, draw)
            n_states += 1
            try:
                found = find_faults(place, disk.acknowledged)
                do_run(place)
                faults += found if tell(place) == expected else [*found, "another result"]
            except Exception as error:  # whatever it is, the run cannot go on
                faults.append(f"{number}: {type(error).__name__}: {error}")
            shutil.rmtree(place)
    return n_states, faults


@pytest.mark.parametrize("states", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_when_the_power_goes(states: int) -> None:
    with quick_folder() as root:
        n_states, faults = find_losses(root, states=states)
    assert faults == []
    assert n_states > 200 * states


def test_without_syncing_it_would_be_lost() -> None:
    with quick_folder() as root:
        _, faults = find_losses(root, "no syncing")
    assert any("lost" in fault for fault in faults)

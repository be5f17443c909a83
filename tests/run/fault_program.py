"""Real faults of a disk around the little run: limits on files, a full disk, a read-only one, one of others.

A program of its own, ``python fault_program.py KIND FOLDER``, because limits and rights belong to a process.
It prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from small_run import ALL_UNITS, IDENTITY, do_run, find_faults, tell

from robusttc.errors import StoreError
from robusttc.run.store import RunStore

NOBODY = 65534
# Bytes; close together where the database is made, further apart where it grows.
SIZES = (*range(0, 160_000, 4_000), *range(160_000, 800_000, 16_000))


def run_in_vain(folder: Path) -> tuple[set[str], str | None]:
    """Run, and give what was acknowledged and the message of the error, if there was one."""
    acknowledged: set[str] = set()

    def acknowledge(keys: Iterable[str]) -> None:
        acknowledged.update(keys)

    try:
        do_run(folder, acknowledge)
    except StoreError as error:
        return acknowledged, str(error)
    return acknowledged, None


def try_all_sizes(folder: Path, limit: Callable[[int], None], free: Callable[[], None]) -> dict[str, Any]:
    """Give the run more and more room until it is enough; every time the rest is done with all room."""
    do_run(folder / "undisturbed")
    expected = tell(folder / "undisturbed")
    shutil.rmtree(folder / "undisturbed")
    faults: list[str] = []
    messages: list[str] = []
    for size in SIZES:
        place = folder / str(size)
        place.mkdir(mode=0o700)
        limit(size)
        acknowledged, message = run_in_vain(place)
        free()
        faults += [f"{size}: {fault}" for fault in find_faults(place, acknowledged)]
        do_run(place)
        if tell(place) != expected:
            faults.append(f"{size}: another result")
        shutil.rmtree(place)
        if message is None:
            break
        messages.append(message.replace(str(place), "PLACE"))
    else:
        faults.append("no size was enough")
    return {"messages": messages, "faults": faults}


def limit_files(folder: Path) -> dict[str, Any]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))

    return try_all_sizes(folder, limit, lambda: limit(most))


def fill_disk(folder: Path) -> dict[str, Any]:
    mount("size=2m", folder)
    ballast = folder / "ballast"

    def limit(size: int) -> None:
        left = os.statvfs(folder).f_bavail * os.statvfs(folder).f_bsize
        ballast.write_bytes(bytes(max(left - size, 0)))

    return try_all_sizes(folder, limit, lambda: ballast.unlink())


def mount(options: str, folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def look_without_writing(folder: Path) -> dict[str, Any]:
    """What can be done with a run that must not be written, and what is said about the rest."""
    faults = []
    with RunStore.open(folder / "run", read_only=True) as store:
        if len(store.find(ALL_UNITS)) != len(ALL_UNITS):
            faults.append("a reader does not find all units")
    messages = [run_in_vain(folder / "run")[1] or "no error"]
    try:
        RunStore.create(folder / "new", IDENTITY).close()
    except StoreError as error:
        messages.append(str(error))
    return {"messages": [message.replace(str(folder), "PLACE") for message in messages], "faults": faults}


def protect_disk(folder: Path) -> dict[str, Any]:
    mount("size=2m", folder)
    do_run(folder / "run")
    with RunStore.open(folder / "run") as store:
        store.set_value("more", 1)
        shutil.copytree(folder / "run", folder / "killed", ignore=shutil.ignore_patterns("*-shm"))
    mount_again = ["mount", "-o", "remount,ro", str(folder)]
    subprocess.run(mount_again, check=True)
    found = look_without_writing(folder)
    try:
        # Its last commits are in the log, which cannot be brought in here.
        RunStore.open(folder / "killed", read_only=True).close()
    except StoreError as error:
        found["messages"].append(str(error).replace(str(folder), "PLACE"))
    return found


def take_rights(folder: Path) -> dict[str, Any]:
    """As somebody who may read the run, and not write it."""
    do_run(folder / "run")
    for path in [folder / "run", *(folder / "run").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return look_without_writing(folder)


KINDS = {"limit": limit_files, "full": fill_disk, "read-only": protect_disk, "rights": take_rights}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(KINDS[sys.argv[1]](Path(sys.argv[2]))))

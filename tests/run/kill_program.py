"""Kills the little run at every point that it reaches, again while it recovers, and looks at what is left.

A program of its own: ``python kill_program.py FOLDER [WEAKNESS]``. It forks a process for every killing,
which is much quicker than starting Python anew, and prints what it found as JSON. A weakness is a bug that is
planted on purpose: the faults must then be found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import small_run
from small_run import do_run, find_faults, tell

from robusttc import files
from robusttc.crash_points import POINTS, reach, set_hook
from robusttc.run import manifest, sealed

# How many points a process that recovers reaches before it works on.
N_RECOVERING = 8


class LateCommit:
    """A connection that puts every second commit off until the next one."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.n_commits = 0

    def execute(self, statement: str, *arguments: Any) -> Any:
        if statement == "COMMIT":
            self.n_commits += 1
            if self.n_commits % 2:
                return None
        if statement.startswith("BEGIN") and self.connection.in_transaction:
            return None
        return self.connection.execute(statement, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def plant(weakness: str) -> None:
    """Plant a bug in this process."""
    if weakness == "late commit":
        load = sealed.SealedTables.load

        def load_weakly(self: sealed.SealedTables, *, stay: bool = False) -> None:
            load(self, stay=stay)
            if not stay:
                self.connection = LateCommit(self.connection)  # type: ignore[assignment]

        sealed.SealedTables.load = load_weakly  # type: ignore[method-assign]
    elif weakness == "plain writing":

        def write_plainly(path: Path, content: bytes) -> None:
            files.make_folder(Path(path).parent)
            with Path(path).open("wb") as stream:
                stream.write(content[: len(content) // 2])
                stream.flush()
                reach("file/written")
                stream.write(content[len(content) // 2 :])

        for module in (files, manifest, small_run):
            module.write_file = write_plainly  # type: ignore[attr-defined]


def run_killed(folder: Path, kill_at: int, weakness: str) -> tuple[set[str], bool]:
    """Run in a process that is killed at a certain point; give what it acknowledged, and whether it was."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        n_reached = 0

        def count(_point: str) -> None:
            nonlocal n_reached
            n_reached += 1
            if n_reached == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        def acknowledge(keys: Iterable[str]) -> None:
            os.write(writing, b"".join(json.dumps(key).encode() + b"\n" for key in keys))

        code = 1
        try:
            plant(weakness)
            set_hook(count)
            do_run(folder, acknowledge, early=weakness == "early acknowledgement")
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        acknowledged = {json.loads(line) for line in stream.read().splitlines()}
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the run ended with {status} at point {kill_at}")
    return acknowledged, status != 0


def list_reached(folder: Path) -> list[str]:
    """Give the points that an undisturbed run reaches, in their order."""
    reached: list[str] = []
    set_hook(reached.append)
    do_run(folder)
    set_hook(None)
    return reached


def attempt(what: str, work: Callable[[], list[str]]) -> list[str]:
    """Give the faults that were found; an error is one too."""
    try:
        return [f"{what}: {fault}" for fault in work()]
    except Exception as error:  # whatever it is, it is a fault
        return [f"{what}: {type(error).__name__}: {error}"]


def main(folder: Path, weakness: str) -> None:
    reached = list_reached(folder / "undisturbed")
    expected = tell(folder / "undisturbed")
    faults: list[str] = []
    n_kills = 0
    for number, point in enumerate(reached, start=1):
        if weakness and not point.startswith(("finish", "file")):
            continue
        # Every kind of first killing meets most points of the recovery, which come in turn.
        for second in [0, 1 + number % N_RECOVERING] if not weakness else [0]:
            place = folder / f"{number}-{second}"
            acknowledged, was_killed = run_killed(place, number, weakness)
            n_kills += was_killed
            if second:
                more, was_killed = run_killed(place, second, weakness)
                acknowledged |= more
                n_kills += was_killed

            def look(place: Path = place, acknowledged: set[str] = acknowledged) -> list[str]:
                found = find_faults(place, acknowledged)
                do_run(place)
                return found if tell(place) == expected else [*found, "another result than undisturbed"]

            faults += attempt(f"killed at {point} ({number}), then at {second}", look)
    missed = sorted(POINTS - set(reached))
    summary = {"reached": len(reached), "kills": n_kills, "missed": missed, "faults": faults}
    sys.stdout.write(json.dumps(summary))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")

"""The witness: starts the stub run, kills it, listens to what it acknowledges, and looks at what is left.

It lives in a process of its own that has loaded everything and forks one process for every life of the run,
which is much quicker than starting Python anew. It looks at a copy of the database, with SQLite alone:
opening the real one would do a part of the recovery that is to be tested.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import sqlite3
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash_faults import FAULTS
from crash_run import FINISHED, POISON, Parts, Setting, do_run
from crash_units import read_log

from robusttc.crash_points import set_hook

# A life that takes longer hangs.
LIFE_SECONDS = 60.0
LOOK_SECONDS = 0.2
# Workers end with the run; so soon that the next one finds nothing of them.
END_SECONDS = 5.0
# Units under way for each worker: one that it does, one that waits for it or is not committed yet.
UNITS_A_WORKER = 2
TABLES = {
    "units": "SELECT units.stage, units.key, contents.content FROM units JOIN contents ON unit = number",
    "scores": "SELECT source, target, score, n_examples, standard_error FROM scores",
    "failures": "SELECT key, stage, error, tasks, times, quarantined FROM failures",
    # What units cost is not the same in any two runs.
    "facts": "SELECT name, value FROM facts WHERE name NOT LIKE 'cost %'",
}

Hook = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Kill:
    """When a life ends.

    Attributes
    ----------
    seconds
        So long after its start, or after the acknowledgement.
    acknowledged
        After so many units were acknowledged in this life; 0 for the start.
    """

    seconds: float
    acknowledged: int = 0


@dataclass(slots=True)
class Life:
    """What the witness saw of one life of a run."""

    code: int | None = None
    told: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    is_outlived: bool = False

    @property
    def done(self) -> list[str]:
        """The units that were acknowledged."""
        return [key for word, key in self.told if word == "done"]


@dataclass(frozen=True, slots=True)
class Found:
    """What is in a run's folder."""

    contents: dict[str, bytes]
    scores: Counter[str]
    failures: list[tuple[Any, ...]]
    is_finished: bool
    files: dict[str, bytes]
    digest: str


def start_life(setting: Setting, fault: str, hook: Hook | None) -> tuple[int, int]:
    """Fork a process that runs the stub run; give its number, and the end of the pipe that it tells to.

    The pipe is its standard output, which its workers inherit: it ends when all of them have.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        os.setsid()
        os.dup2(writing, 1)
        errors = os.open(setting.folder.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(errors, 2)

        def tell(word: str, key: str) -> None:
            os.write(1, json.dumps([word, key]).encode() + b"\n")

        parts, tell_weakly = FAULTS[fault].plant(tell) if fault else (Parts(), tell)
        set_hook(hook)
        do_run(setting, tell_weakly, parts)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def watch_life(child: int, pipe: int, kill: Kill | None) -> Life:
    """Listen to a life until it ends, and end it when its time has come."""
    life, start, rest = Life(), time.monotonic(), b""
    deadline = start + kill.seconds if kill and not kill.acknowledged else start + LIFE_SECONDS
    while (left := deadline - time.monotonic()) > 0 and not has_ended(child):
        # What it has started may hold the pipe open when it has ended, so we look at both.
        if not select.select([pipe], [], [], min(left, LOOK_SECONDS))[0]:
            continue
        piece = os.read(pipe, 65536)
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        before = len(life.done)
        life.told += [tuple(json.loads(line)) for line in lines]
        if kill and kill.acknowledged and before < kill.acknowledged <= len(life.done):
            deadline = time.monotonic() + kill.seconds
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    life.seconds = time.monotonic() - start
    life.code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    life.is_outlived = not listen_to_end(pipe, rest, life)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    return life


def has_ended(child: int) -> bool:
    """Tell whether a process has ended; it can still be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def listen_to_end(pipe: int, rest: bytes, life: Life) -> bool:
    """Take what was told before the end; True if all processes that could tell something have ended."""
    deadline = time.monotonic() + END_SECONDS
    try:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(pipe, 65536)
            if not piece:
                return True
            rest += piece
        return False
    finally:
        os.close(pipe)
        life.told += [tuple(json.loads(line)) for line in rest.split(b"\n")[:-1]]


def look(folder: Path) -> Found | None:
    """Read everything that a run has, but for times; None before it has a database."""
    database = folder / "run.sqlite"
    if not database.exists():
        return None
    copy = folder.with_suffix(".copy")
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for name in ("run.sqlite", "run.sqlite-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(folder / name, copy / name)
    with closing(sqlite3.connect(copy / "run.sqlite")) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise sqlite3.DatabaseError("the check of the database's pages failed")
        rows = {name: sorted(connection.execute(query)) for name, query in TABLES.items()}
        names = dict(connection.execute("SELECT number, name FROM tasks"))
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("run.sqlite") and path.name != "owner.lock"
    }
    return Found(
        contents={key: content for _, key, content in rows["units"]},
        scores=Counter(f"transfer/{names[row[0]]}" for row in rows["scores"]),
        failures=rows["failures"],
        is_finished=("finished", "true") in rows["facts"],
        files=files,
        digest=hashlib.sha256(repr((rows, sorted(files.items()))).encode()).hexdigest(),
    )


class Witness:
    """Follows one run from life to life, and notes everything that is wrong.

    Parameters
    ----------
    setting
        The run.
    expected
        What the undisturbed run left.
    fault
        The name of a planted fault, or nothing.
    """

    def __init__(self, setting: Setting, expected: Found | None, fault: str = "") -> None:
        self.setting = setting
        self.expected = expected
        self.fault = fault
        self.acknowledged: list[str] = []
        self.stored: set[str] = set()
        self.n_begun = 0
        self.n_lives = 0
        self.faults: list[str] = []

    def live(self, kill: Kill | None = None, hook: Hook | None = None) -> Life:
        """Let the run live once, and look at what it leaves."""
        child, pipe = start_life(self.setting, self.fault, hook)
        life = watch_life(child, pipe, kill)
        self.n_lives += 1
        self.acknowledged += life.done
        try:
            found = look(self.setting.folder)
        except sqlite3.DatabaseError as error:
            self.complain(f"the database cannot be read: {error}")
            return life
        begun = [key for _, key in read_log(self.setting.log)[self.n_begun :]]
        self.n_begun += len(begun)
        self.judge_life(life, begun, found)
        if found is not None:
            self.judge_what_is_left(found, is_over=life.code == 0)
        elif self.acknowledged:
            self.complain("the whole run is lost")
        return life

    def complain(self, what: str) -> None:
        """Note a fault."""
        self.faults.append(f"life {self.n_lives}: {what}")

    def judge_life(self, life: Life, begun: list[str], found: Found | None) -> None:
        """Compare what was told and begun in a life with what is stored after it."""
        if life.code not in (0, -signal.SIGKILL):
            said = self.setting.folder.with_suffix(".err").read_text(encoding="utf-8")
            self.complain(f"the run did not go on: {' '.join(said.splitlines()[-1:])}")
        if life.seconds > LIFE_SECONDS:
            self.complain(f"the run was not done after {LIFE_SECONDS:g} s")
        if life.is_outlived:
            self.complain("a process outlived the run")
        stored = set() if found is None else set(found.contents)
        for key in sorted(set(self.acknowledged) - stored):
            self.complain(f"lost {key!r}, which was acknowledged")
        for key, times in Counter(self.acknowledged).items():
            if times > 1:
                self.complain(f"{key!r} was acknowledged {times} times")
        kept = [key for key in begun if key != POISON and not key.startswith("encode/")]
        for key in sorted(set(kept) & self.stored):
            self.complain(f"{key!r} was done again, though it was stored")
        redone = [key for key in kept if key not in stored]
        if len(redone) > UNITS_A_WORKER * self.setting.n_workers:
            self.complain(f"{len(redone)} units were lost, more than were under way")
        self.stored = stored

    def judge_what_is_left(self, found: Found, *, is_over: bool) -> None:
        """Compare what is stored with the undisturbed run."""
        expected = self.expected
        if expected is None:
            return
        self.judge_units(found, expected)
        for name, content in found.files.items():
            if not Path(name).name.startswith(".") and content != expected.files.get(name):
                self.complain(f"{name} is another or half")
        if found.is_finished and expected.files.keys() - found.files.keys():
            self.complain(f"{FINISHED}, though files are missing")
        if is_over and found.digest != expected.digest:
            self.complain("another result than that of the undisturbed run")
        left = sorted(path.name for path in self.setting.scratch.iterdir()) if is_over else []
        if left:
            self.complain(f"left over: {left[0]}")

    def judge_units(self, found: Found, expected: Found) -> None:
        """Compare stored units one by one: all of their results and scores, and no failure of a good one."""
        for key, content in found.contents.items():
            if content != expected.contents.get(key):
                self.complain(f"another result of {key!r}")
        for key in found.contents.keys() | found.scores.keys():
            wanted = expected.scores[key] if key in found.contents else 0
            if found.scores[key] != wanted:
                self.complain(f"{found.scores[key]} scores of {key!r} where {wanted} should be")
        for row in found.failures:
            if row[0] != POISON:
                self.complain(f"{row[0]!r} was counted as failed: {row[2]}")

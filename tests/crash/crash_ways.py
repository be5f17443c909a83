"""The ways of killing the stub run, and what they found."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crash_faults import FAULTS
from crash_run import Setting
from crash_units import read_log
from crash_witness import Found, Hook, Kill, Life, Witness, look, start_life, watch_life

from robusttc.crash_points import POINTS

# Half of the kills come so soon after the start that no unit, or hardly one, is done.
SOON_SECONDS = 0.4
# The others so many acknowledgements later, and at most so many seconds after that.
MOST_ACKNOWLEDGED = 9
SHORTLY_SECONDS = 0.01
# A run may be killed so often before its witness thinks that it never ends.
MOST_LIVES = 400


class Harness:
    """Does runs in a folder, and collects what their witnesses say.

    Parameters
    ----------
    folder
        An empty folder.
    fault
        The name of a planted fault, or nothing.
    """

    def __init__(self, folder: Path, *, fault: str = "") -> None:
        self.folder = folder
        self.fault = fault
        self.kills: list[str] = []
        self.faults: list[str] = []
        self.expected: Found | None = None
        undisturbed = self.witness("undisturbed", n_workers=1)
        undisturbed.live(hook=writing(self.folder / "points"))
        self.points = read_lines(self.folder / "points")
        self.expected = look(undisturbed.setting.folder)
        self.collect("undisturbed", undisturbed)

    def witness(self, name: str, *, n_workers: int, tries: int = 3) -> Witness:
        """Give the witness of a new run."""
        setting = Setting(self.folder / name, n_workers=n_workers, tries=tries)
        return Witness(setting, self.expected, self.fault)

    def note(self, name: str, when: str, life: Life) -> bool:
        """Note how a life ended; True if it was killed."""
        if life.code == -signal.SIGKILL:
            self.kills.append(
                f"{name}: {when}; after {life.seconds:.4f} s, {len(life.done)} units acknowledged"
            )
        return life.code == -signal.SIGKILL

    def collect(self, name: str, witness: Witness) -> None:
        """Take over what a witness says."""
        self.faults += [f"{name}, {fault}" for fault in witness.faults]
        witness.faults.clear()


def kill_at_random(
    harness: Harness, *, seed: int, n_kills: int, n_workers: list[int], until_red: bool
) -> None:
    """Kill runs at random moments until they are finished, one after the other, so often in all.

    The numbers of workers are those of the runs, in turn.
    """
    generator = random.Random(seed)
    number = 0
    while len(harness.kills) < n_kills and not (until_red and harness.faults):
        number += 1
        name = f"run-{number}"
        witness = harness.witness(name, n_workers=n_workers[number % len(n_workers)])
        while witness.n_lives < MOST_LIVES:
            kill = draw_kill(generator) if len(harness.kills) < n_kills else None
            was_killed = harness.note(name, str(kill), witness.live(kill))
            harness.collect(name, witness)
            if not was_killed or (until_red and harness.faults):
                break
        else:
            harness.faults.append(f"{name} did not end in {MOST_LIVES} lives")


def draw_kill(generator: random.Random) -> Kill:
    """Draw the moment of a kill."""
    if generator.random() < 0.4:
        return Kill(round(generator.uniform(0.0, SOON_SECONDS), 4))
    return Kill(round(generator.uniform(0.0, SHORTLY_SECONDS), 4), generator.randint(1, MOST_ACKNOWLEDGED))


def kill_at_points(harness: Harness, *, seed: int, starts: tuple[str, ...], until_red: bool) -> list[str]:
    """Kill a run at every named point, a second time while it recovers, and let it finish.

    Returns
    -------
    list of str
        The points that were never reached.
    """
    generator = random.Random(seed)
    reached = harness.points
    names = [name for name in sorted(set(reached)) if name.startswith(starts)]
    recovery = [] if until_red else list_recovery(harness)
    for number, point in enumerate(names):
        if until_red and harness.faults:
            break
        name = f"at {point.replace('/', ' ')}"
        witness = harness.witness(name, n_workers=1)
        times = generator.randint(1, reached.count(point))
        life = witness.live(hook=killing(point, times))
        if not harness.note(name, f"at {point}, time {times}", life):
            harness.faults.append(f"{name}: it was not reached a time {times}")
        for second in recovery[number % len(recovery) :][:1] if recovery else []:
            if not harness.note(name, f"then at {second}", witness.live(hook=killing(second, 1))):
                harness.faults.append(f"{name}: {second} was not reached while recovering")
        if witness.live().code != 0:
            harness.faults.append(f"{name}: it could not be finished")
        harness.collect(name, witness)
    return sorted(POINTS - set(reached))


def killing(point: str, times: int) -> Hook:
    """Give a hook that ends its process when a point is reached for the n-th time."""
    left = times

    def count(reached: str) -> None:
        nonlocal left
        left -= reached == point
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def writing(path: Path) -> Hook:
    """Give a hook that writes all points to a file."""

    def write(point: str) -> None:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(point + "\n")

    return write


def read_lines(path: Path) -> list[str]:
    """Read a file of points."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def list_recovery(harness: Harness) -> list[str]:
    """Give the points that a run reaches between a restart and the first unit that is done then."""
    setting = Setting(harness.folder / "recovery", n_workers=1)
    watch_life(*start_life(setting, harness.fault, killing("finish/committed", 4)), None)
    watch_life(*start_life(setting, harness.fault, writing(harness.folder / "recovery points")), None)
    reached = read_lines(harness.folder / "recovery points")
    return list(dict.fromkeys(reached[: reached.index("finish/begun")]))


def kill_workers(harness: Harness, *, seed: int, n_kills: int) -> None:
    """Kill worker processes while the run goes on; it must not notice more than that units failed."""
    generator = random.Random(seed)
    witness = harness.witness("workers", n_workers=2, tries=2 * n_kills)
    setting = witness.setting
    child, pipe = start_life(setting, harness.fault, None)
    killed: set[int] = set()
    deadline = time.monotonic() + 60.0
    while len(killed) < n_kills and time.monotonic() < deadline:
        seen = {process for process, _ in read_log(setting.log)} - killed
        if seen:
            time.sleep(generator.uniform(0.0, 0.03))
            victim = generator.choice(sorted(seen))
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                break
            killed.add(victim)
            harness.kills.append(f"workers: process {victim}")
        time.sleep(0.005)
    life = watch_life(child, pipe, None)
    found = look(setting.folder)
    expected = harness.expected
    # But for how often the unit that always fails was tried.
    is_same = (
        found is not None
        and expected is not None
        and (found.contents, found.scores, found.files)
        == (expected.contents, expected.scores, expected.files)
    )
    if life.code != 0 or not is_same:
        harness.faults.append(f"workers: the run ended with {life.code}, or with another result")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Give a new folder, in memory where possible: there, too, a killed process leaves what it wrote."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is a new one
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if usable else None, prefix="robusttc-crash-") as folder:
        yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["random", "points", "workers"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 1], help="of one run after the other")
    parser.add_argument("--fault", choices=list(FAULTS), default="")
    parser.add_argument("--starts", nargs="*", default=[""], help="of names of points")
    parser.add_argument("--until-red", action="store_true", help="stop at the first fault that is found")
    given = parser.parse_args()
    missed: list[str] = []
    with quick_folder() as folder:
        harness = Harness(folder, fault=given.fault)
        if given.way == "random":
            kill_at_random(
                harness,
                seed=given.seed,
                n_kills=given.kills,
                n_workers=given.workers,
                until_red=given.until_red,
            )
        elif given.way == "points":
            missed = kill_at_points(
                harness, seed=given.seed, starts=tuple(given.starts), until_red=given.until_red
            )
        else:
            kill_workers(harness, seed=given.seed, n_kills=given.kills)
    report: dict[str, Any] = {
        "seed": given.seed,
        "n_kills": len(harness.kills),
        "kills": harness.kills,
        "missed": missed,
        "faults": harness.faults,
    }
    sys.stdout.write(json.dumps(report, indent=1) + "\n")

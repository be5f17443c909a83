"""How fast the store takes scores and gives them back, and whether the driver's memory grows.

As many tasks and scores as clients1491 has with the default number of pairs; a unit is one source.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Record
from robusttc.jobs import Job, Result, Runner, pack
from robusttc.jobs.processes import ProcessExecutor
from robusttc.run.identity import Identity
from robusttc.run.records import FinishedUnit
from robusttc.run.score_rows import ScoreRows
from robusttc.run.store import RunStore
from robusttc.run.workers import StoredJobs

N_TASKS = 1_491
N_TARGETS = 68  # 1,491 sources with 68 targets are 101,388 scores
NAMES = tuple(f"client-{number:04}" for number in range(N_TASKS))
IDENTITY = Identity({"seed": 0}, dict.fromkeys(NAMES, "0"), {})
UNITS_A_COMMIT = (1, 8)
# The part of the soak after which memory should stand still.
WARM_UP = 0.2
SOAK_STEP = 50
MIB = 2**20


def stub(_data: Any, number: int) -> Result:
    """Give scores of one source, drawn in no time."""
    columns = np.random.default_rng(number).normal(size=(4, N_TARGETS))
    names = ("score", "standard_error", "first_half", "second_half")
    arrays: dict[str, Any] = dict(zip(names, columns, strict=True))
    arrays["standard_error"] = abs(arrays["standard_error"])
    return Result({"source": NAMES[number]}, {**arrays, "n_examples": np.full(N_TARGETS, 100)})


def stub_units() -> list[Job]:
    """Give one unit a task."""
    return [Job(f"transfer/{name}", stub, number) for number, name in enumerate(NAMES)]


def scores_of(unit: Job, payload: Result) -> ScoreRows:
    """Give the scores of a unit."""
    own: int = unit.argument
    targets = [NAMES[(own + 1 + 7 * place) % N_TASKS] for place in range(N_TARGETS)]
    return ScoreRows(NAMES[own], targets, **payload.arrays)


def stored_scores(key: str, payload: Result) -> ScoreRows:
    """Give the scores of a unit by its key."""
    return scores_of(Job(key, stub, NAMES.index(key.removeprefix("transfer/"))), payload)


def measure_scores(n_units: int, place: Path) -> Record:
    """Put all scores into a new store, so many units a commit; making them is not counted."""
    units = [
        FinishedUnit(
            stage="transfer",
            key=unit.key,
            content=pack(payload),
            scores=scores_of(unit, payload),
            seconds=0.1,
        )
        for unit in stub_units()
        for payload in [stub(None, unit.argument)]
    ]
    with tempfile.TemporaryDirectory(prefix="bench-run-", dir=place) as folder:
        with RunStore.create(Path(folder) / "run", IDENTITY) as store:
            start = time.perf_counter()
            for begin in range(0, len(units), n_units):
                store.finish_many(units[begin : begin + n_units])
            seconds = time.perf_counter() - start
            n_scores = store.n_scores()
        size = (Path(folder) / "run" / "run.sqlite").stat().st_size
    return {"n_units": n_units, "scores": n_scores, "wall": seconds, "bytes": size}


def scores_row(record: Record) -> list[str]:
    """Show one size of commits."""
    return [
        str(record["n_units"]),
        f"{record['scores']:,}",
        f"{record['wall']:.2f}",
        f"{record['scores'] / record['wall']:,.0f}",
        f"{record['bytes'] / record['scores']:.0f}",
        str(record["load"]),
    ]


def fill(folder: Path) -> None:
    """Make a run that has all scores, and that nobody has closed: its last commits are in the log."""
    child = os.fork()
    if child == 0:
        store = RunStore.create(folder, IDENTITY)
        for unit in stub_units():
            payload = stub(None, unit.argument)
            store.finish("transfer", unit.key, pack(payload), scores=scores_of(unit, payload))
        os._exit(0)
    os.waitpid(child, 0)


def measure_resume(place: Path) -> Record:
    """Resume a killed run with all scores in a new process."""
    with tempfile.TemporaryDirectory(prefix="bench-run-", dir=place) as name:
        folder = Path(name) / "run"
        fill(folder)
        start = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.run_store", "--resume", str(folder)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return {**json.loads(output), "wall": time.perf_counter() - start}


def resume(folder: Path) -> Record:
    """Open a run, find all of its units finished, and read all scores."""
    start = time.perf_counter()
    with RunStore.open(folder, identity=IDENTITY) as store, closing(ProcessExecutor(1)) as executor:
        opened = time.perf_counter()
        results = Runner(executor, StoredJobs(store, stored_scores)).run("transfer", stub_units())
        found = time.perf_counter()
        scores = store.scores()
        read = time.perf_counter()
    assert all(result is not None for result in results)
    return {
        "units": len(results),
        "scores": len(scores["score"]),
        "open": opened - start,
        "find": found - opened,
        "read": read - found,
    }


def resume_row(record: Record) -> list[str]:
    """Show a resumed run."""
    return [
        f"{record['scores']:,}",
        f"{record['units']:,}",
        *(f"{record[name]:.2f}" for name in ("wall", "open", "find", "read")),
    ]


def resident_bytes() -> int:
    """Give the memory that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure_soak(place: Path, *, is_fit: bool) -> Record:
    """Do stub units in two workers, and look at the driver's memory after each, in a process of its own.

    Parameters
    ----------
    place
        A folder.
    is_fit
        Whether as in a fit: with all that a fit has loaded, and with all results held until the last one is
        there. Else the driver has nothing but the run, and lets go of results every so many units.
    """
    command = [sys.executable, "-m", "benchmarks.run_store", "--fit" if is_fit else "--soak", str(place)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: Record = json.loads(output)
    return found


def soak(place: Path, *, is_fit: bool) -> Record:
    """Do all stub units in this process."""
    if is_fit:
        import robusttc.run.fitting  # noqa: F401
    memory: list[int] = []
    files: list[int] = []

    def look(_unit: Job, _payload: Result) -> None:
        memory.append(resident_bytes())
        files.append(len(list(Path("/proc/self/fd").iterdir())))

    units = stub_units()
    step = len(units) if is_fit else SOAK_STEP
    with (
        tempfile.TemporaryDirectory(prefix="soak-", dir=place) as name,
        RunStore.create(Path(name) / "run", IDENTITY) as store,
        closing(ProcessExecutor(2)) as executor,
    ):
        runner = Runner(executor, StoredJobs(store, stored_scores))
        start = time.perf_counter()
        for begin in range(0, len(units), step):
            runner.run("transfer", units[begin : begin + step], on_result=look)
        seconds = time.perf_counter() - start
        n_scores = store.n_scores()
    warm = int(WARM_UP * len(memory))
    return {
        "is_fit": is_fit,
        "units": len(memory),
        "scores": n_scores,
        "after_warm_up": memory[warm],
        "at_end": memory[-1],
        "files": [files[warm], files[-1]],
        "wall": seconds,
    }


def soak_row(record: Record) -> list[str]:
    """Show the soak."""
    return [
        "as in a fit, all results held" if record["is_fit"] else "nothing but the run",
        f"{record['scores']:,}",
        f"{record['units']:,}",
        f"{record['after_warm_up'] / MIB:.1f}",
        f"{record['at_end'] / MIB:.1f}",
        f"{100 * (record['at_end'] / record['after_warm_up'] - 1):+.1f} %",
        " then ".join(map(str, record["files"])),
        f"{record['units'] / record['wall']:.0f}",
    ]


if __name__ == "__main__":
    way, where = sys.argv[1:]
    place = Path(where)
    print(json.dumps(resume(place) if way == "--resume" else soak(place, is_fit=way == "--fit")))

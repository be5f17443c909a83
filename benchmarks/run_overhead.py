"""What the store and the worker processes cost, and what a second worker gains."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.records import Record
from robusttc import TaskSet
from robusttc.data import make_planted_tasks
from robusttc.jobs import InProcessExecutor, Job, Result, Runner
from robusttc.jobs.job import Outcome
from robusttc.jobs.processes import ProcessExecutor
from robusttc.run.store import JobStore
from robusttc.transfer import measure_transfer

# A unit, one source on 47 targets, takes about as long as one of bots175 on all others with sentence vectors.
N_TASKS = 48
# The first call loads libraries and compiled loops, in every process that works.
WARM_UP_TASKS = 6


def planted(n_tasks: int, seed: int) -> TaskSet:
    """Give planted tasks."""
    return make_planted_tasks(n_tasks, random_state=seed).tasks


@contextmanager
def stored_run(n_workers: int, place: Path) -> Iterator[tuple[Runner, ProcessExecutor, JobStore]]:
    """Yield a runner with a new store, and workers that have done something."""
    with (
        tempfile.TemporaryDirectory(prefix="run-", dir=place) as folder,
        JobStore(Path(folder) / "jobs-0001.sqlite") as store,
        closing(ProcessExecutor(n_workers)) as executor,
    ):
        runner = Runner(executor, store)
        wake_workers(runner, n_workers)
        yield runner, executor, store


def warm_up(_data: Any, seed: int) -> Result:
    """Measure something small, for its libraries."""
    measure_transfer(planted(WARM_UP_TASKS, seed), encoder="cnn", pairs="all")
    return Result()


def wake_workers(runner: Runner, n_workers: int) -> None:
    """Let all workers load what they will need; more units than workers, so that each gets some."""
    runner.run("warm up", [Job(f"warm/{n}", warm_up, 77, keep=False) for n in range(2 * n_workers)])


def cpu_of(process: int) -> float:
    """Give the CPU seconds of another process."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def workers_cpu(executor: ProcessExecutor) -> float:
    """Give the CPU seconds of all workers so far."""
    return sum(cpu_of(worker.process.pid or 0) for worker in executor._workers)


class TimedExecutor(InProcessExecutor):
    """Runs jobs in this process, and adds up their CPU seconds."""

    cpu_seconds = 0.0

    def wait(self, timeout: float) -> list[Outcome]:
        """Run the next job."""
        outcomes = super().wait(timeout)
        self.cpu_seconds += sum(outcome.cpu_seconds for outcome in outcomes)
        return outcomes


def measure_overhead(place: Path) -> Record:
    """Measure the same transfer directly and in a run.

    How fast the units themselves are depends on what else the machine does; so what is not in units is
    compared as well.
    """
    tasks = planted(N_TASKS, 0)
    warm_up(None, 77)
    timed = TimedExecutor()
    start, cpu = time.perf_counter(), time.process_time()
    directly = measure_transfer(tasks, encoder="cnn", pairs="all", runner=Runner(timed))
    direct = {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "units": timed.cpu_seconds,
    }
    with stored_run(1, place) as (runner, executor, store):
        start, cpu, others = time.perf_counter(), time.process_time(), workers_cpu(executor)
        stored = measure_transfer(tasks, encoder="cnn", pairs="all", runner=runner)
        run = {"wall": time.perf_counter() - start}
        run["cpu"] = time.process_time() - cpu + workers_cpu(executor) - others
        run["units"] = sum(cost.cpu_seconds for cost in store.costs() if cost.stage == "transfer")
    assert (directly.score == stored.score).all()
    return {"direct": direct, "run": run, "units": N_TASKS, "scores": len(stored)}


def overhead_row(turn: int, record: Record) -> list[str]:
    """Show one turn."""
    direct, run = record["direct"], record["run"]
    more = (run["cpu"] - run["units"]) - (direct["cpu"] - direct["units"])
    return [
        str(turn),
        f"{direct['cpu']:.2f}",
        f"{run['cpu']:.2f}",
        f"{run['cpu'] / direct['cpu']:.3f}",
        f"{100 * more / direct['cpu']:+.1f} %",
        f"{direct['wall']:.2f}",
        f"{run['wall']:.2f}",
        str(record["load"]),
    ]


def measure_workers(place: Path) -> Record:
    """Measure the same run with one and with two workers, and what the machine gives two processes."""
    tasks = planted(N_TASKS, 0)
    seconds = {}
    for n_workers in (1, 2):
        with stored_run(n_workers, place) as (runner, _, _):
            start = time.perf_counter()
            measure_transfer(tasks, encoder="cnn", pairs="all", runner=runner)
            seconds[n_workers] = time.perf_counter() - start
    return {"one": seconds[1], "two": seconds[2], "machine": gain_of_two()}


def gain_of_two() -> float:
    """Give how much more two processes that only count get done than one, in the same time."""
    alone = sum(count_in_parallel(1))
    return sum(count_in_parallel(2)) / alone


def count_in_parallel(n_processes: int) -> list[int]:
    """Let processes count at the same time for some seconds."""
    with multiprocessing.get_context("spawn").Pool(n_processes) as pool:
        pool.map(count, [0.2] * n_processes, chunksize=1)
        return pool.map(count, [3.0] * n_processes, chunksize=1)


def count(seconds: float) -> int:
    """Count for some seconds."""
    end, counted = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        counted += 1
    return counted


def workers_row(turn: int, record: Record) -> list[str]:
    """Show one turn."""
    return [
        str(turn),
        f"{record['one']:.2f}",
        f"{record['two']:.2f}",
        f"{record['one'] / record['two']:.2f}",
        f"{record['machine']:.2f}",
        str(record["load"]),
    ]

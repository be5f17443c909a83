"""What a run costs on disk: results per second into the store, resuming, and the size of a run.

As many jobs and scores as clients1491 has with the default number of pairs: a job is one source.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Record
from robusttc.jobs import Job, Outcome, Result, Runner, pack
from robusttc.run.store import JobStore

N_SOURCES, N_TARGETS = 1_491, 68  # 101,388 scores
N_FINISHED = 100_000
JOBS_A_COMMIT = (1, 8)
PROGRAM = [sys.executable, "-c", "import sys; from robusttc.cli import main; sys.exit(main())"]
MIB = 2**20


def stub(_shared: Any, number: int) -> Result:
    """Return scores of one source, drawn in no time."""
    columns = np.random.default_rng(number).normal(size=(4, N_TARGETS))
    names = ("score", "standard_error", "first_half", "second_half")
    return Result({"source": str(number)}, dict(zip(names, columns, strict=True)))


def never(_shared: Any, number: int) -> Result:
    """Fail: a job that is finished must not run again."""
    raise AssertionError(f"job {number} ran again")


def measure_scores(n_jobs: int, place: Path) -> Record:
    """Put all results into a new store, so many jobs a commit; making them is not counted."""
    made = [(f"transfer/{number}", stub(None, number)) for number in range(N_SOURCES)]
    done = [(Outcome(key, "done", pack(result)), result) for key, result in made]
    with tempfile.TemporaryDirectory(prefix="bench-run-", dir=place) as folder:
        path = Path(folder) / "jobs-0001.sqlite"
        with JobStore(path) as store:
            start, cpu = time.perf_counter(), time.process_time()
            for begin in range(0, len(done), n_jobs):
                store.commit("transfer", done[begin : begin + n_jobs])
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        size = path.stat().st_size
    return {
        "n_jobs": n_jobs,
        "results": len(done),
        "scores": len(done) * N_TARGETS,
        "wall": seconds,
        "cpu": cpu_seconds,
        "bytes": size,
    }


def scores_row(record: Record) -> list[str]:
    """Show one size of commits."""
    return [
        str(record["n_jobs"]),
        f"{record['results']:,}",
        f"{record['wall']:.2f}",
        f"{record['cpu']:.2f}",
        f"{record['results'] / record['wall']:,.0f}",
        f"{record['scores'] / record['wall']:,.0f}",
        f"{record['bytes'] / record['scores']:.0f}",
        str(record["load"]),
    ]


def measure_resume(place: Path) -> Record:
    """Open a store with 100,000 finished jobs that was killed, and find all of them finished."""
    with tempfile.TemporaryDirectory(prefix="bench-run-", dir=place) as folder:
        path = Path(folder) / "jobs-0001.sqlite"
        child = os.fork()
        if child == 0:  # killed: its last commits are in the log
            store = JobStore(path)
            for begin in range(0, N_FINISHED, 1000):
                made = [(n, Result({"number": n})) for n in range(begin, begin + 1000)]
                store.commit("a", [(Outcome(f"a/{n}", "done", pack(one)), one) for n, one in made])
            os._exit(0)
        os.waitpid(child, 0)
        jobs = [Job(f"a/{number}", never, number) for number in range(N_FINISHED)]
        start, cpu = time.perf_counter(), time.process_time()
        with JobStore(path) as store:
            opened = time.perf_counter()
            results = Runner(store=store).run("a", jobs)
            found = time.perf_counter()
        assert all(result is not None for result in results)
    return {
        "jobs": len(results),
        "open": opened - start,
        "find": found - opened,
        "wall": found - start,
        "cpu": time.process_time() - cpu,
    }


def resume_row(record: Record) -> list[str]:
    """Show a resumed run."""
    return [f"{record['jobs']:,}", *(f"{record[name]:.2f}" for name in ("wall", "cpu", "open", "find"))]


def measure_demo(place: Path) -> Record:
    """Run the demo, look at what its run takes on the disk, and ask that from a new process."""
    with tempfile.TemporaryDirectory(prefix="bench-demo-", dir=place) as name:
        folder = Path(name)
        start = time.perf_counter()
        subprocess.run(
            [*PROGRAM, "demo", "--out", str(folder / "demo")], check=True, stdout=subprocess.DEVNULL
        )
        wall = time.perf_counter() - start
        run = folder / "demo" / "run"
        answer = subprocess.run(
            [sys.executable, "-m", "benchmarks.run_store", str(run)],
            check=True,
            capture_output=True,
            text=True,
        )
        first, second, cpu = map(float, answer.stdout.split())
        files = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
        parts = {"report.html": 0, "objects": 0, "versions": 0}
        for path in files:
            part = path.relative_to(run).parts[0]
            parts[part] = parts.get(part, 0) + path.stat().st_size
    return {
        "wall": wall,
        "parts": parts,
        "bytes": sum(parts.values()),
        "first": first,
        "second": second,
        "second_cpu": cpu,
    }


def demo_row(record: Record) -> list[str]:
    """Show the size of the run of the demo, and how soon it answers."""
    return [
        f"{record['bytes'] / 1e6:.1f}",
        *(f"{record['parts'][name] / 1e6:.1f}" for name in ("objects", "versions", "report.html")),
        f"{record['wall']:.0f}",
        f"{record['first']:.2f}",
        f"{1000 * record['second_cpu']:.1f}",
    ]


def answer_first(folder: Path) -> None:
    """Open a run and predict one text, from the start of its import; then another one."""
    start = time.perf_counter()
    from robusttc.run import Run

    run = Run(folder)
    task = run.task_names[0]
    run.predict(task, "where is the parcel that I am waiting for")
    first = time.perf_counter() - start
    start, cpu = time.perf_counter(), time.process_time()
    run.predict(task, "please send my money back as soon as you can")
    print(first, time.perf_counter() - start, time.process_time() - cpu)


if __name__ == "__main__":
    answer_first(Path(sys.argv[1]))

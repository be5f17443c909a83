"""Job functions that workers can import, and a store in memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robusttc.jobs import Job, Outcome, Result, pack
from robusttc.random import numpy_generator

# Large enough that a copy with every job would be seen.
N_ROWS, N_COLUMNS = 20_000, 30


class MemoryStore:
    """Keeps results and failures as a run's store does."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.finished: list[tuple[str, Outcome, int]] = []  # stage, outcome, attempts
        self.commits: list[int] = []
        self.errors: dict[str, list[str]] = {}
        self.quarantined: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.costs: list[tuple[str, int]] = []

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        return {key: self.content[key] for key in keys if key in self.content}

    def commit(self, stage: str, done: Sequence[tuple[Outcome, Result]]) -> None:
        self.commits.append(len(done))
        for outcome, result in done:
            self.finished.append((stage, outcome, self.failures(outcome.key) + 1))
            assert outcome.content == pack(result)
            assert self.content.setdefault(outcome.key, outcome.content) == outcome.content

    def failures(self, key: str) -> int:
        return len(self.errors.get(key, []))

    def record_failure(
        self, stage: str, key: str, error: str, tasks: Sequence[str], *, is_last: bool
    ) -> None:
        self.errors.setdefault(key, []).append(error)
        if is_last:
            self.quarantined[key] = stage, tuple(tasks)

    def quarantined_keys(self) -> list[str]:
        return list(self.quarantined)

    def add_cost(self, stage: str, *, n_jobs: int, cpu_seconds: float, peak_bytes: int) -> None:
        assert cpu_seconds > 0
        assert peak_bytes > 10_000_000
        self.costs.append((stage, n_jobs))


def make_data() -> dict[str, Any]:
    vectors = np.random.default_rng(5).normal(size=(N_ROWS, N_COLUMNS))
    return {"vectors": vectors, "names": ["acme", "blue"]}


def solve(data: dict[str, Any], number: int) -> Result:
    """Linear algebra whose last digits depend on the order of sums, on rows drawn with a child seed."""
    rows = numpy_generator(3, "solve", [str(number)]).integers(len(data["vectors"]), size=300)
    chosen = data["vectors"][rows]
    values = np.linalg.eigvalsh(chosen.T @ chosen)
    return Result({"number": number, "largest": float(values[-1])}, {"values": values, "chosen": chosen[:3]})


def solve_jobs(n_jobs: int = 20, **changes: Any) -> list[Job]:
    return [
        Job(f"solve/{number}", solve, number, tasks=(f"task {number}",), **changes)
        for number in range(n_jobs)
    ]


def contents(results: list[Result | None]) -> list[bytes | None]:
    return [None if result is None else pack(result) for result in results]


def misbehave(_data: Any, how: str) -> Result:
    if how == "raise":
        raise ValueError("poison")
    if how == "exit":
        os._exit(3)
    if how == "exit without error":
        os._exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "fork":
        # A child that holds the pipe open must not hide that the worker is gone.
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        os._exit(4)
    if how == "sleep":
        time.sleep(60)
    if how == "compute":
        # One call into C that lets no other thread of this process run.
        sum(range(10**12))
    return Result({"how": how})


def die_first(_data: Any, marker: str) -> Result:
    """Kill the worker in the first attempt."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Result({"marker": marker})


def sleep_a_little(_data: Any, number: int) -> Result:
    time.sleep(0.05)
    return Result({"number": number})


def look_at_process(data: Any, _number: int) -> Result:
    """Return what a job sees of its process, and write into the shared data."""
    import scipy.linalg  # noqa: F401 - with a library of its own
    import torch
    from threadpoolctl import threadpool_info

    before = float(data["vectors"][0, 0])
    data["vectors"][0, 0] = -1.0
    return Result(
        {
            "pid": os.getpid(),
            "before": before,
            "torch": torch.get_num_threads(),
            "threads": sorted({library["num_threads"] for library in threadpool_info()}),
            "files": [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()],
        }
    )


def return_nonsense(_data: Any, _argument: Any) -> Result:
    return Result({"answer": float("nan")})


class CannotBeRead:
    """What cannot be restored in a worker."""

    def __reduce__(self) -> Any:
        return refuse, ()


def refuse() -> None:
    raise RuntimeError("no such thing")

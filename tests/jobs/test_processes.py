"""Worker processes of this machine: what they share, and how they start and end."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_samples import make_data, misbehave, sleep_a_little

from robusttc.errors import StoreError, UsageError
from robusttc.jobs import Job, Result, Runner
from robusttc.jobs import processes as module
from robusttc.jobs.job import Outcome
from robusttc.jobs.processes import ALIGNMENT, ProcessExecutor

LARGE = 20_000


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "doubles": np.random.default_rng(0).normal(size=(LARGE, 3)),
    "columns": np.asfortranarray(np.arange(LARGE * 2.0).reshape(LARGE, 2)),
    "bytes": np.frombuffer(os.urandom(LARGE + 1), dtype=np.uint8).copy(),
    "texts": np.array([f"text {number}" for number in range(LARGE)]),
    "objects": np.array(["a", "bc"] * LARGE, dtype=object),
    "every second": np.arange(LARGE * 2)[::2],
    "read-only": read_only(np.arange(LARGE)),
    "small read-only": read_only(np.arange(3)),
    "empty": np.zeros((0, 3)),
    "scalar": np.array(2.5),
}


def describe_array(data: dict[str, Any], name: str) -> Result:
    array = data["arrays"][name]
    address = array.__array_interface__["data"][0]
    return Result(
        {
            "type": [array.dtype.str, list(array.shape)],
            "flags": [array.flags.writeable, array.flags.f_contiguous],
            "digest": hashlib.sha256(repr(array.tolist()).encode()).hexdigest(),
            "is_aligned": name not in ("doubles", "columns", "bytes") or address % ALIGNMENT == 0,
            "is_same": data["same"] is data["arrays"]["doubles"],
        }
    )


def test_shared_arrays_come_back_as_they_were(scratch: Path) -> None:
    data = {"arrays": ARRAYS, "same": ARRAYS["doubles"]}
    with Runner(ProcessExecutor(1)) as runner:
        results = runner.run(
            "arrays", [Job(name, describe_array, name) for name in ARRAYS], runner.share(data)
        )
        # Nothing of the data has a name on the disk.
        assert [path for path in scratch.iterdir() if path.is_file()] == []
    for name, result in zip(ARRAYS, results, strict=True):
        assert result is not None
        expected = dict(describe_array(data, name).values)
        if name == "every second":  # which is made contiguous
            expected["flags"] = [True, True]
        assert result.values == {**expected, "is_aligned": True}


def test_missing_folder_is_named(monkeypatch: pytest.MonkeyPatch, scratch: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(scratch / "nowhere"))
    with (
        closing(ProcessExecutor(1)) as executor,
        pytest.raises(StoreError, match=r"nowhere.*workers cannot be written.*TMPDIR.*No such file"),
    ):
        executor.share(np.zeros(LARGE))


def test_full_disk_leaves_nothing_behind(scratch: Path) -> None:
    # Files over this size fail in the middle of the write, as on a full disk.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with (
            closing(ProcessExecutor(1)) as executor,
            pytest.raises(StoreError, match=r"workers cannot be written.*too large"),
        ):
            executor.share(np.zeros(LARGE))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert list(scratch.iterdir()) == []


def touch(data: dict[str, Any], folder: str) -> Result:
    """Read all shared data, and report what that has cost."""
    before = count_read_bytes()
    total = float(data["vectors"].sum())
    mapped = {"Rss": 0, "Anonymous": 0}
    is_shared = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name.split(" ")[0]:
            is_shared = folder in line
        elif is_shared and name in mapped:
            mapped[name] += int(rest.split()[0]) * 1024
    return Result(
        {"pid": os.getpid(), "total": total, **mapped, "before": before, "after": count_read_bytes()}
    )


def count_read_bytes() -> int:
    """Count what this process has read from files and pipes; mapped memory is not read."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_shared_data_is_neither_sent_with_jobs_nor_copied(scratch: Path) -> None:
    data = make_data()
    n_bytes = data["vectors"].nbytes
    with Runner(ProcessExecutor(2)) as runner:
        jobs = [Job(f"touch/{number}", touch, str(scratch)) for number in range(40)]
        results = runner.run("touch", jobs, runner.share(data))
    seen: dict[int, list[dict[str, Any]]] = {}
    for result in results:
        assert result is not None
        seen.setdefault(result.values["pid"], []).append(dict(result.values))
    for of_worker in seen.values():
        # All of it is there, and none of it was copied: a copy of a page belongs to no file.
        assert of_worker[-1]["Rss"] >= n_bytes
        assert of_worker[-1]["Anonymous"] < n_bytes / 100
        of_worker.sort(key=lambda values: values["before"])
        gaps = [later["before"] - earlier["after"] for earlier, later in itertools.pairwise(of_worker)]
        assert sum(gaps) < n_bytes / 10
    assert sum(map(len, seen.values())) == 40


def count_mappings(_data: Any, folder: str) -> Result:
    return Result({"n": Path("/proc/self/maps").read_text().count(folder)})


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_worker_maps_the_data_of_its_last_job_alone(scratch: Path) -> None:
    with Runner(ProcessExecutor(1)) as runner:

        def count(shared: Any) -> int:
            (result,) = runner.run("maps", [Job("maps", count_mappings, str(scratch))], shared)
            assert result is not None
            return int(result.values["n"])

        handles = [runner.share(np.full(100_000, float(number))) for number in range(3)]
        assert [count(handle) for handle in [*handles, *handles, None]] == [1] * 7
        for handle in handles:
            runner.release(handle)


def look_at_signals(_data: Any, _number: int) -> Result:
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    variables = [os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    is_deaf = blocked and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return Result({"is_deaf": is_deaf, "variables": variables})


def test_workers_are_deaf_to_interrupts_and_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not because the tests' own environment says so.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with Runner(ProcessExecutor(1)) as runner:
        # Also the one that takes the place of another.
        for _ in range(2):
            (result,) = runner.run("look", [Job("look", look_at_signals)])
            assert result is not None
            assert result.values == {"is_deaf": True, "variables": ["1", "1"]}
            os.kill(pid_of(runner), signal.SIGKILL)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def tell_pid(_data: Any, _number: int) -> Result:
    return Result({"pid": os.getpid()})


def pid_of(runner: Runner) -> int:
    (result,) = runner.run("pid", [Job("pid", tell_pid)])
    assert result is not None
    return int(result.values["pid"])


def test_worker_that_is_killed_while_idle_is_replaced() -> None:
    with Runner(ProcessExecutor(1)) as runner:
        pids = set()
        for pause in (0.0, 0.05, 0.3, 0.3):
            pid = pid_of(runner)
            os.kill(pid, signal.SIGKILL)
            time.sleep(pause)
            pids.add(pid)
        assert len(pids) == 4


def return_much(_data: Any, n_bytes: int) -> Result:
    return Result({"pid": os.getpid()}, {"x": np.ones(n_bytes, dtype=np.uint8)})


def test_worker_that_is_killed_while_it_sends_costs_its_job_alone() -> None:
    """Kill workers at random moments, mostly while they send a large result."""
    random = np.random.default_rng(0)
    with closing(ProcessExecutor(2)) as executor:
        runner = Runner(executor, tries=50)
        n_killed = 0

        def kill_one(_job: Job, _result: Result) -> None:
            nonlocal n_killed
            time.sleep(random.uniform(0, 0.03))
            for worker in executor._workers:
                if n_killed < 6 and worker.order is not None:
                    worker.process.kill()
                    n_killed += 1
                    break

        jobs = [Job(f"much/{number}", return_much, 20_000_000) for number in range(24)]
        results = runner.run("much", jobs, on_result=kill_one)
    assert n_killed == 6
    assert [result and len(result.arrays["x"]) for result in results] == [20_000_000] * 24


def test_time_limit_holds_for_a_worker_that_is_frozen_while_it_sends() -> None:
    with closing(ProcessExecutor(1)) as executor:
        executor.submit(Job("warm", tell_pid), None, 60.0)
        while not (outcomes := executor.wait(1.0)):
            pass
        (worker,) = executor._workers
        executor.submit(Job("much", return_much, 100_000_000), None, 600.0)
        while not worker.received:  # until the first part of the result is here
            assert executor.wait(0.0) == []
        os.kill(worker.process.pid or 0, signal.SIGSTOP)
        assert worker.order is not None
        start = time.monotonic()
        worker.order = worker.order._replace(time_limit=start - worker.since + 0.5)
        while not (outcomes := executor.wait(1.0)):
            assert time.monotonic() - start < 30
        assert [(outcome.key, outcome.kind) for outcome in outcomes] == [("much", "timeout")]
        executor.submit(Job("next", tell_pid), None, 60.0)
        while not (outcomes := executor.wait(1.0)):
            pass
        assert outcomes[0].kind == "done"


def test_idle_worker_that_is_frozen_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEND_SECONDS", 3.0)
    with Runner(ProcessExecutor(1), time_limit=20.0) as runner:
        os.kill(pid_of(runner), signal.SIGSTOP)
        (result,) = runner.run("much", [Job("much", take_much, b"x" * 20_000_000)])
        assert result is not None
        assert result.values["n"] == 20_000_000


def take_much(_data: Any, content: bytes) -> Result:
    return Result({"n": len(content)})


def test_time_limit_does_not_count_waiting_for_a_worker() -> None:
    with closing(ProcessExecutor(1)) as executor:
        for number in range(40):
            executor.submit(Job(f"sleep/{number}", sleep_a_little, number), None, 1.5)
        outcomes: list[Outcome] = []
        while len(outcomes) < 40:
            outcomes += executor.wait(1.0)
    assert {outcome.kind for outcome in outcomes} == {"done"}


def test_close_ends_what_runs_and_may_be_called_again() -> None:
    executor = ProcessExecutor(2)
    executor.share(np.zeros(10_000))
    for number in range(4):
        executor.submit(Job(f"compute/{number}", misbehave, "compute"), None, math.inf)
    while sum(worker.order is not None for worker in executor._workers) < 2:
        executor.wait(0.05)
    pids = [worker.process.pid or 0 for worker in executor._workers]
    executor.close()
    executor.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(UsageError, match="have been closed"):
        executor.submit(Job("x", tell_pid), None, 1.0)
    with pytest.raises(UsageError, match="have been closed"):
        executor.share(1)


def never_be_ready(_connection: Any, _parent: int) -> None:
    time.sleep(60)


def test_workers_that_are_never_ready_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_work", never_be_ready)
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    with (
        Runner(ProcessExecutor(1)) as runner,
        pytest.raises(UsageError, match=r"cannot be started; got 3 in a row.*was not ready after 0\.2 s"),
    ):
        runner.run("x", [Job("x", tell_pid)])


@pytest.mark.parametrize("n_workers", [0, -1, True, 1.5, "2"])
def test_wrong_number_of_workers_is_refused(n_workers: Any) -> None:
    with pytest.raises(UsageError, match="n_workers cannot be used"):
        ProcessExecutor(n_workers)


FORGETFUL = """
import multiprocessing
import numpy as np
from robusttc.jobs import Job, Result, Runner, make_executor

KEPT = []

def answer(data, argument):
    # As progress bars of libraries do: a semaphore that lives as long as the process.
    KEPT.append(multiprocessing.RLock())
    return Result({"sum": float(data.sum()) + argument})

def main():
    runner = Runner(make_executor("local", n_workers=2))
    jobs = [Job(f"n/{n}", answer, n) for n in range(4)]
    print([result.values["sum"] for result in runner.run("n", jobs, runner.share(np.ones(10_000)))])
    CLOSE
    return runner

GUARD
    kept = main()
"""


def run_script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("close", ["runner.close()", "pass"])
def test_program_ends_cleanly_and_leaves_nothing_behind(close: str, tmp_path: Path) -> None:
    guarded = FORGETFUL.replace("GUARD", "if __name__ == '__main__':").replace("CLOSE", close)
    result = run_script(guarded, tmp_path)
    expected = f"{[10_000.0 + number for number in range(4)]}\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")


def test_script_without_a_guard_is_told_what_to_do(tmp_path: Path) -> None:
    result = run_script(FORGETFUL.replace("GUARD", "if True:").replace("CLOSE", "pass"), tmp_path)
    assert result.returncode == 1
    assert "worker processes cannot be started" in result.stderr
    assert "below `if __name__ == '__main__':`" in result.stderr


HOLDER = """
import os, signal, sys
from pathlib import Path
import numpy as np
from robusttc.jobs import Job, Result, Runner, make_executor

def hold(data, argument):
    Path(argument).write_text(str(os.getpid()))
    # One call into C that lets no other thread of this process run.
    sum(range(10**12))
    return Result()

if __name__ == "__main__":
    # A background process of a shell inherits that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(sys.argv[1])
    with Runner(make_executor("local", n_workers=2)) as runner:
        jobs = [Job(f"n/{n}", hold, str(folder / f"pid{n}")) for n in range(2)]
        try:
            runner.run("demo", jobs, runner.share(np.ones(100_000)))
        except KeyboardInterrupt:
            sys.exit(130)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_its_parent(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(HOLDER)
    folder = tmp_path / "scratch"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    try:
        pids = [wait_for_pid(folder / f"pid{index}") for index in range(2)]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as the keyboard does
        else:
            process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    deadline = time.monotonic() + 5.0
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if is_running(pid)]
    if number == signal.SIGINT:
        assert (process.returncode, errors) == (130, b"")
    # The shared data is gone, too.
    assert sorted(path.name for path in folder.iterdir()) == ["pid0", "pid1"]


def wait_for_pid(path: Path) -> int:
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.02)
    raise TimeoutError(path)


def is_running(pid: int) -> bool:
    try:
        # A killed process that nobody has waited for is a zombie.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

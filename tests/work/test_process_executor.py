"""Worker processes that raise, end, hang and are replaced."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.errors import UsageError
from robusttc.work import crew
from robusttc.work.outcomes import Outcome
from robusttc.work.packing import unpack
from robusttc.work.process_executor import ProcessExecutor
from robusttc.work.units import HERE, Payload, Unit


def tell_pid(_data: Any, number: int) -> Payload:
    return Payload({"pid": os.getpid(), "number": number})


def misbehave(_data: Any, how: str) -> Payload:
    if how == "raise":
        raise ValueError("poison")
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "fork":
        # A child that holds the pipe open must not hide that the worker is gone.
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        os._exit(4)
    time.sleep(60)
    return Payload()


def count_mappings(_data: Any, _number: int) -> Payload:
    return Payload({"n": Path("/proc/self/maps").read_text().count("robusttc-shared")})


def end_at_once(_pipe: Any, _parent: int) -> None:
    os._exit(7)


def never_be_ready(_pipe: Any, _parent: int) -> None:
    time.sleep(60)


class CannotBeRead:
    """Data whose reading raises, in the worker."""

    def __reduce__(self) -> Any:
        return refuse_to_be, ()


def refuse_to_be() -> None:
    raise RuntimeError("no such thing")


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2, scratch=tmp_path_factory.mktemp("scratch")) as executor:
        yield executor


def collect(executor: ProcessExecutor, n_outcomes: int, seconds: float = 30.0) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    deadline = time.monotonic() + seconds
    while len(found) < n_outcomes and time.monotonic() < deadline:
        for outcome in executor.wait(0.5):
            assert outcome.ticket not in found
            found[outcome.ticket] = outcome
    assert len(found) == n_outcomes
    return found


def test_poison_harms_its_own_unit_alone(executor: ProcessExecutor) -> None:
    ways = ["raise", "exit", "kill", "fork", "hang"]
    for ticket, how in enumerate(ways):
        executor.submit(ticket, Unit(how, misbehave, how), None, 0.5 if how == "hang" else 60.0)
        executor.submit(100 + ticket, Unit(f"good {how}", tell_pid, ticket), None, 60.0)
    found = collect(executor, 10)
    kinds = [found[ticket].kind for ticket in range(5)]
    assert kinds == ["raised", "died", "died", "died", "hung"]
    assert str(found[0].error).startswith("ValueError: poison")
    assert found[1].error == "the worker process ended with code 3"
    assert found[2].error == "the worker process ended by signal 9"
    assert found[3].error == "the worker process ended with code 4"
    assert found[4].error == "not done after its time limit of 0.5 s"
    assert 0.5 <= found[4].seconds < 5
    assert all(found[ticket].content is None for ticket in range(5))
    for ticket in range(5):
        content = found[100 + ticket].content
        assert content is not None
        assert unpack(content).values["number"] == ticket


def test_time_limit_does_not_count_waiting_for_a_worker(executor: ProcessExecutor) -> None:
    # The last one waits for 1.75 seconds.
    for ticket in range(16):
        executor.submit(ticket, Unit(f"sleep {ticket}", sleep_for, 0.25), None, 1.5)
    assert [outcome.kind for outcome in collect(executor, 16).values()] == ["done"] * 16


def sleep_for(_data: Any, seconds: float) -> Payload:
    time.sleep(seconds)
    return Payload()


def test_worker_that_is_killed_while_it_waits_is_replaced(executor: ProcessExecutor) -> None:
    pids = set()
    for ticket in range(3):
        executor.submit(ticket, Unit("pid", tell_pid, ticket), None, 60.0)
        outcome = collect(executor, 1)[ticket]
        assert outcome.content is not None
        pid = unpack(outcome.content).values["pid"]
        assert pid not in pids
        pids.add(pid)
        for worker in executor._foreman.crew.workers:
            os.kill(worker.process.pid or 0, signal.SIGKILL)
        time.sleep(0.1)


def test_waiting_ends_in_time(executor: ProcessExecutor) -> None:
    start = time.monotonic()
    assert executor.wait(0.2) == []
    assert 0.1 < time.monotonic() - start < 2
    assert executor.wait(0.0) == []


def test_unit_that_cannot_be_sent_or_read_has_an_outcome(executor: ProcessExecutor) -> None:
    executor.submit(1, Unit("local", lambda _data, _argument: Payload()), None, 60.0)
    handle = executor.put(CannotBeRead())
    executor.submit(2, Unit("data", tell_pid, 1), handle, 60.0)
    executor.submit(3, Unit("argument", tell_pid, CannotBeRead()), None, 60.0)
    found = collect(executor, 3)
    assert {outcome.kind for outcome in found.values()} == {"raised"}
    assert "cannot be sent" in str(found[1].error)
    assert "RuntimeError: no such thing" in str(found[2].error)
    assert "RuntimeError: no such thing" in str(found[3].error)
    executor.drop(handle)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_dropped_data_is_forgotten_everywhere(tmp_path: Path) -> None:
    with ProcessExecutor(1, scratch=tmp_path) as executor:
        handles = [executor.put(np.full(100_000, float(number))) for number in range(3)]
        for ticket, handle in enumerate(handles):
            executor.submit(ticket, Unit("maps", count_mappings, 0), handle, 60.0)
        found = collect(executor, 3)
        assert [unpack(found[ticket].content or b"").values["n"] for ticket in range(3)] == [1, 2, 3]
        executor.drop(handles[0])  # the worker waits, and hears of it at once
        executor.submit(3, Unit("sleep", sleep_for, 0.3), handles[1], 60.0)
        time.sleep(0.1)
        executor.drop(handles[2])  # the worker works, and hears of it with the next unit
        executor.drop(handles[2])
        executor.submit(4, Unit("maps", count_mappings, 0), handles[1], 60.0)
        assert unpack(collect(executor, 2)[4].content or b"").values["n"] == 1
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_close_ends_what_runs_and_may_be_called_again(tmp_path: Path) -> None:
    executor = ProcessExecutor(2, scratch=tmp_path)
    executor.put(np.zeros(10_000))
    for ticket in range(4):
        executor.submit(ticket, Unit("hang", misbehave, "hang"), None, math.inf)
    while (
        not all(worker.job for worker in executor._foreman.crew.workers) or not executor._foreman.crew.workers
    ):
        time.sleep(0.02)
    pids = [worker.process.pid for worker in executor._foreman.crew.workers]
    start = time.monotonic()
    executor.close()
    executor.close()
    assert time.monotonic() - start < 5
    assert not executor._foreman.is_alive()
    assert list(tmp_path.iterdir()) == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid or 0, 0)
    with pytest.raises(UsageError, match="have been closed"):
        executor.submit(9, Unit("x", tell_pid), None, 1.0)
    with pytest.raises(UsageError, match="have been closed"):
        executor.put(1)


def test_cancelled_units_have_no_outcome(executor: ProcessExecutor) -> None:
    for ticket in range(4):
        executor.submit(ticket, Unit("hang", misbehave, "hang"), None, 60.0)
    time.sleep(0.2)
    executor.cancel()
    executor.submit(9, Unit("good", tell_pid, 1), None, 60.0)
    assert list(collect(executor, 1)) == [9]


def test_workers_that_cannot_start_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(crew, "serve_units", end_at_once)
    executor = ProcessExecutor(2, scratch=tmp_path)
    executor.submit(1, Unit("good", tell_pid, 1), None, 60.0)
    with pytest.raises(
        UsageError, match=r"cannot be started; got 3 in a row that ended with code 7.*__main__"
    ):
        collect(executor, 1)
    executor.close()


def test_workers_that_are_never_ready_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(crew, "serve_units", never_be_ready)
    monkeypatch.setattr(crew, "START_SECONDS", 0.2)
    with ProcessExecutor(1, scratch=tmp_path) as executor:
        executor.submit(1, Unit("good", tell_pid, 1), None, 60.0)
        with pytest.raises(UsageError, match=r"got 3 in a row that were not ready after 0\.2 s"):
            collect(executor, 1)


@pytest.mark.parametrize("n_workers", [0, -1, True, 1.5, "2"])
def test_wrong_number_of_workers_is_refused(n_workers: Any) -> None:
    with pytest.raises(UsageError, match="n_workers"):
        ProcessExecutor(n_workers)


def test_data_of_another_workshop_is_refused(executor: ProcessExecutor) -> None:
    with pytest.raises(UsageError, match="put elsewhere"):
        executor.submit(1, Unit("good", tell_pid, 1), HERE.put(1), 60.0)
    with pytest.raises(UsageError, match="put elsewhere"):
        executor.drop(HERE.put(1))


FORGETFUL = """
import sys
from pathlib import Path
import numpy as np
from robusttc.work.process_executor import ProcessExecutor
from robusttc.work.units import Payload, Unit

def answer(data, argument):
    return Payload({"sum": float(data.sum())})

def main():
    executor = ProcessExecutor(2, scratch=Path(sys.argv[1]))
    executor.submit(1, Unit("n", answer), executor.put(np.ones(10_000)), 60.0)
    print(executor.wait(60.0)[0].kind)
    return executor

GUARD
    kept = main()
"""


def run_script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    scratch = folder / "scratch"
    scratch.mkdir()
    return subprocess.run(
        [sys.executable, str(script), str(scratch)], capture_output=True, text=True, timeout=60, check=False
    )


def test_program_that_forgets_to_close_ends_cleanly(tmp_path: Path) -> None:
    result = run_script(FORGETFUL.replace("GUARD", "if __name__ == '__main__':"), tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_script_without_a_guard_is_told_what_to_do(tmp_path: Path) -> None:
    result = run_script(FORGETFUL.replace("GUARD", "if True:"), tmp_path)
    assert result.returncode == 1
    assert "worker processes cannot be started" in result.stderr
    assert "below `if __name__ == '__main__':`" in result.stderr

"""A workshop of real processes: the same results as here, whatever the number of workers."""

from __future__ import annotations

import itertools
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

from robusttc.errors import DataError, RobustTCError, UsageError
from robusttc.progress import ProgressEvent
from robusttc.random import numpy_generator
from robusttc.work.packing import pack
from robusttc.work.processes import Processes
from robusttc.work.units import HERE, Payload, Unit

# Large enough that a copy with every unit would be seen.
N_ROWS = 20_000
N_COLUMNS = 50


def solve(data: dict[str, Any], number: int) -> Payload:
    """Linear algebra whose last digits depend on the order of sums."""
    vectors = data["vectors"]
    rows = numpy_generator(3, "solve", [str(number)]).integers(len(vectors), size=400)
    chosen = vectors[rows]
    values = np.linalg.eigvalsh(chosen.T @ chosen)
    return Payload({"number": number, "largest": float(values[-1])}, {"values": values, "chosen": chosen[:3]})


def look_at_process(_data: Any, _number: int) -> Payload:
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    variables = [
        os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    ]
    return Payload({"pid": os.getpid(), "deaf": blocked and is_ignored, "variables": variables})


def count_threads(_data: Any, _number: int) -> Payload:
    import scipy.linalg  # noqa: F401 - with a library of its own
    import torch
    from threadpoolctl import threadpool_info

    libraries = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    return Payload({"torch": torch.get_num_threads(), "libraries": libraries})


def touch(data: dict[str, Any], _number: int) -> Payload:
    """Read all shared data, and tell what that has cost."""
    before = count_read_bytes()
    total = float(data["vectors"].sum())
    mapped = {"Rss": 0, "Anonymous": 0}
    is_shared = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name.split(" ")[0]:
            is_shared = "robusttc-shared" in line
        elif is_shared and name in mapped:
            mapped[name] += int(rest.split()[0]) * 1024
    return Payload(
        {"pid": os.getpid(), "total": total, **mapped, "before": before, "after": count_read_bytes()}
    )


def count_read_bytes() -> int:
    """Count what this process has read from files and pipes; mapped memory is not read."""
    return int(Path("/proc/self/io").read_text().split()[1])


def write_into(data: dict[str, Any], number: int) -> Payload:
    before = float(data["vectors"][0, 0])
    data["vectors"][0, 0] = number
    return Payload({"before": before, "pid": os.getpid()})


def complain(_data: Any, number: int) -> Payload:
    if number == 3:
        raise DataError("the label is unknown", where="acme:3", got="'x'", todo="mend it")
    return Payload({"number": number})


class OfTwoError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def complain_strangely(_data: Any, _number: int) -> Payload:
    raise OfTwoError("so", "and so")


def leave(_data: Any, _number: int) -> Payload:
    os._exit(9)


def wait_long(_data: Any, seconds: float) -> Payload:
    time.sleep(seconds)
    return Payload({"slept": seconds})


def make_data() -> dict[str, Any]:
    return {"vectors": np.random.default_rng(5).normal(size=(N_ROWS, N_COLUMNS)), "names": ["a", "b"]}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(2, scratch=tmp_path_factory.mktemp("scratch")) as workshop:
        yield workshop


def contents(results: list[Payload | None]) -> list[bytes]:
    return [pack(result) for result in results if result is not None]


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_results_are_those_of_here_in_any_order(n_workers: int, tmp_path: Path) -> None:
    units = [Unit(f"solve/{number}", solve, number) for number in range(24)]
    expected = contents(HERE.do("demo", units, HERE.put(make_data())))
    order = np.random.default_rng(n_workers).permutation(len(units))
    with Processes(n_workers, scratch=tmp_path) as workshop:
        handle = workshop.put(make_data())
        assert contents(workshop.do("demo", units, handle)) == expected
        shuffled = contents(workshop.do("demo", [units[index] for index in order], handle))
        assert shuffled == [expected[index] for index in order]
        workshop.drop(handle)
        assert list(tmp_path.iterdir()) == []


def test_workers_are_of_the_kind_that_was_asked_for(pair: Processes) -> None:
    units = [Unit(f"look/{number}", look_at_process, number) for number in range(50)]
    results = [result.values for result in pair.do("demo", units) if result is not None]
    pids = {values["pid"] for values in results}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    assert all(values["deaf"] for values in results)
    assert {tuple(values["variables"]) for values in results} == {("1", "1", "1")}


def test_libraries_that_a_unit_loads_have_one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Not because the tests' own environment says so.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with Processes(1, scratch=tmp_path) as workshop:
        (result,) = workshop.do("demo", [Unit("threads", count_threads)])
    assert result is not None
    assert result.values["torch"] == 1
    assert set(result.values["libraries"]) == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_data_is_neither_sent_with_units_nor_copied(pair: Processes) -> None:
    data = make_data()
    n_bytes = data["vectors"].nbytes
    handle = pair.put(data)
    results = pair.do("demo", [Unit(f"touch/{number}", touch, number) for number in range(40)], handle)
    seen: dict[int, list[dict[str, Any]]] = {}
    for result in results:
        assert result is not None
        seen.setdefault(result.values["pid"], []).append(dict(result.values))
    for of_worker in seen.values():
        # All of it is there, and none of it was copied: a copy of a page belongs to no file.
        assert of_worker[-1]["Rss"] >= n_bytes
        assert of_worker[-1]["Anonymous"] < n_bytes / 100
        # What came through the pipe between two units is next to nothing; early on, modules are read, too.
        of_worker.sort(key=lambda values: values["before"])
        gaps = [later["before"] - earlier["after"] for earlier, later in itertools.pairwise(of_worker)]
        assert len(gaps) < 3 or 0 < np.median(gaps) < 10_000
        assert sum(gaps) < n_bytes / 10
    assert sum(map(len, seen.values())) - len(seen) > 30
    pair.drop(handle)


def test_data_can_be_written_to_by_one_worker_alone(pair: Processes) -> None:
    data = make_data()
    original = float(data["vectors"][0, 0])
    handle = pair.put(data)
    results = pair.do(
        "demo", [Unit(f"write/{number}", write_into, number) for number in range(1, 30)], handle
    )
    by_worker: dict[int, list[float]] = {}
    for result in results:
        assert result is not None
        by_worker.setdefault(result.values["pid"], []).append(result.values["before"])
    assert all(values.count(original) == 1 for values in by_worker.values())
    assert data["vectors"][0, 0] == original
    pair.drop(handle)


def test_progress_and_results_are_told_of_here(pair: Processes) -> None:
    events: list[ProgressEvent] = []
    done: list[tuple[str, int]] = []
    units = [Unit(f"n/{number}", complain, number, tasks=(f"task {number}",)) for number in (0, 1, 2)]
    pair.do(
        "demo",
        units,
        when_done=lambda unit, payload: done.append((unit.key, payload.values["number"])),
        progress=events.append,
        noun="numbers",
    )
    assert sorted(done) == [("n/0", 0), ("n/1", 1), ("n/2", 2)]
    assert [event.done for event in events] == [0, 1, 2, 3]
    assert {(event.stage, event.total, event.unit) for event in events} == {("demo", 3, "numbers")}
    assert {event.detail for event in events} == {"", "task 0", "task 1", "task 2"}


def test_no_units_are_no_work(pair: Processes) -> None:
    assert pair.do("demo", []) == []


def test_error_of_a_unit_is_raised_as_it_is_and_the_workshop_goes_on(pair: Processes) -> None:
    units = [Unit(f"n/{number}", complain, number) for number in range(50)]
    with pytest.raises(DataError, match=r"acme:3: the label is unknown; got 'x'. Mend it") as caught:
        pair.do("demo", units)
    assert any("in complain" in note for note in caught.value.__notes__)
    # Outcomes of the call that failed must not pass for those of this one.
    results = pair.do("demo", [Unit(f"m/{number}", complain, number) for number in range(10, 40)])
    assert [result.values["number"] for result in results if result is not None] == list(range(10, 40))


def test_error_that_cannot_travel_is_told_of(pair: Processes) -> None:
    with pytest.raises(
        RobustTCError, match="n/1: a piece of work could not be done; got OfTwoError: so and so"
    ):
        pair.do("demo", [Unit("n/1", complain_strangely)])


def test_lost_worker_is_told_of(pair: Processes) -> None:
    with pytest.raises(RobustTCError, match=r"n/1: .*ended with code 9.*fewer workers"):
        pair.do("demo", [Unit("n/1", leave)])


def test_unit_that_cannot_be_sent_is_told_of(pair: Processes) -> None:
    with pytest.raises((AttributeError, TypeError), match=r"pickle|local object"):
        pair.do("demo", [Unit("n/1", lambda _data, _argument: Payload())])


def test_error_of_the_caller_ends_the_units(pair: Processes) -> None:
    def refuse(_unit: Unit, _payload: Payload) -> None:
        raise UsageError("enough")

    start = time.monotonic()
    with pytest.raises(UsageError, match="enough"):
        pair.do(
            "demo",
            [Unit("n/1", complain, 1), *(Unit(f"w/{n}", wait_long, 60.0) for n in (1, 2))],
            when_done=refuse,
        )
    pair.do("demo", [Unit("n/2", complain, 2), Unit("n/4", complain, 4)])
    assert time.monotonic() - start < 20


SCRIPT = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
from robusttc.work.processes import Processes
from robusttc.work.units import Payload, Unit

def hold(data, argument):
    Path(argument).write_text(str(os.getpid()))
    # One call into C that lets no other thread of this process run.
    sum(range(10**12))
    return Payload()

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    with Processes(2, scratch=folder) as workshop:
        handle = workshop.put(np.ones(100_000))
        workshop.do("demo", [Unit(f"n/{n}", hold, str(folder / f"pid{n}")) for n in range(2)], handle)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "scratch"
    folder.mkdir()
    process = subprocess.Popen([sys.executable, str(script), str(Path(__file__).parent), str(folder)])
    try:
        pids = [wait_for_pid(folder / f"pid{index}") for index in range(2)]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        process.send_signal(number)
        process.wait()
    deadline = time.monotonic() + 2.0
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if is_running(pid)]
    # What it has left is cleared away by the next one.
    assert len(list(folder.glob("robusttc-shared-*"))) == 1
    with Processes(1, scratch=folder):
        assert list(folder.glob("robusttc-shared-*")) == []


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

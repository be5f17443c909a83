"""Units on a real Ray of our own, on this machine."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.errors import UsageError
from robusttc.random import numpy_generator
from robusttc.run import ray_worker
from robusttc.run.identity import Identity
from robusttc.run.ray_executor import InRay, RayExecutor
from robusttc.run.store import RunStore
from robusttc.run.workshop import StoredWorkshop
from robusttc.version import __version__
from robusttc.work.outcomes import Outcome
from robusttc.work.packing import pack, unpack
from robusttc.work.units import HERE, Payload, Unit

# Ray leaves files and processes to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

IDENTITY = Identity({"seed": 0}, {"acme": "0"}, {})


def solve(data: dict[str, Any], number: int) -> Payload:
    rows = numpy_generator(1, "solve", [str(number)]).integers(len(data["vectors"]), size=200)
    chosen = data["vectors"][rows]
    return Payload({"number": number}, {"values": np.linalg.eigvalsh(chosen.T @ chosen)})


def write_into(data: dict[str, Any], number: int) -> Payload:
    before = float(data["vectors"][0, 0])
    data["vectors"][0, 0] = number
    libraries: list[int] = []
    from threadpoolctl import threadpool_info

    libraries = [library["num_threads"] for library in threadpool_info()]
    files = [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()]
    return Payload({"before": before, "pid": os.getpid(), "threads": libraries, "files": files})


def misbehave(_data: Any, how: str) -> Payload:
    if how == "raise":
        raise ValueError("poison")
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        # One call into C that lets no other thread of this process run.
        sum(range(10**12))
    return Payload()


class CannotBeRead:
    """What cannot be made again in a worker."""

    def __reduce__(self) -> Any:
        return refuse_to_be, ()


def refuse_to_be() -> None:
    raise RuntimeError("no such thing")


def make_data() -> dict[str, Any]:
    return {"vectors": np.random.default_rng(2).normal(size=(5000, 30)), "names": ["acme"]}


@pytest.fixture(scope="module")
def executor() -> Iterator[RayExecutor]:
    environment = pytest.MonkeyPatch()
    environment.delenv("RAY_ADDRESS", raising=False)
    # The workers look for the units of this file, too.
    environment.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    executor = RayExecutor(n_workers=2)
    assert executor.n_workers == 2
    yield executor
    executor.submit(1, Unit("hang", misbehave, "hang"), None, 60.0)
    time.sleep(0.5)
    start = time.monotonic()
    executor.close()
    assert time.monotonic() - start < 5
    environment.undo()


def collect(executor: RayExecutor, n_outcomes: int) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    deadline = time.monotonic() + 60
    while len(found) < n_outcomes and time.monotonic() < deadline:
        found |= {outcome.ticket: outcome for outcome in executor.wait(1.0)}
    assert len(found) == n_outcomes
    return found


def test_nothing_of_it_listens_to_other_machines(executor: RayExecutor) -> None:
    assert executor.n_workers == 2
    addresses = listening_addresses()
    assert addresses
    assert {address for address in addresses if not is_loopback(address)} == set()


def listening_addresses() -> list[str]:
    """Give the local addresses of all listening sockets of this process and of those below it."""
    sockets = set()
    for pid in descendants(os.getpid()):
        try:
            targets = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        sockets |= {target[8:-1] for target in targets if target.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.append(fields[1].partition(":")[0])
    return found


def is_loopback(address: str) -> bool:
    return address in {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def descendants(pid: int) -> list[int]:
    found = [pid]
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += descendants(int(child))
    return found


def test_results_are_the_same_bytes_as_here(executor: RayExecutor, tmp_path: Path) -> None:
    units = [Unit(f"solve/{number}", solve, number) for number in range(40)]
    expected = [pack(done) for done in HERE.do("solve", units, HERE.put(make_data())) if done is not None]
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        workshop = StoredWorkshop(store, executor)
        handle = workshop.put(make_data())
        results = workshop.do("solve", units, handle)
        workshop.drop(handle)
        assert store.quarantined() == []
        assert [pack(result) for result in results if result is not None] == expected
        assert list(store.find([unit.key for unit in units]).values()) == expected


def test_data_comes_once_and_can_be_written_to_and_the_store_is_the_drivers(
    executor: RayExecutor, tmp_path: Path
) -> None:
    data = make_data()
    original = float(data["vectors"][0, 0])
    units = [Unit(f"write/{number}", write_into, number) for number in range(1, 30)]
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        workshop = StoredWorkshop(store, executor)
        results = workshop.do("write", units, workshop.put(data))
    by_worker: dict[int, list[float]] = {}
    for result in results:
        assert result is not None
        by_worker.setdefault(result.values["pid"], []).append(result.values["before"])
        assert set(result.values["threads"]) == {1}
        assert not [file for file in result.values["files"] if str(tmp_path) in file]
    # The second unit of a worker sees what the first has written: the data was not fetched again.
    assert all(values.count(original) == 1 for values in by_worker.values())
    assert sum(map(len, by_worker.values())) > len(by_worker)


def test_poison_is_left_out_and_the_others_finish(
    executor: RayExecutor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ways = ["raise", "exit", "kill"]
    bad = [Unit(f"bad/{how}", misbehave, how, tasks=("acme",)) for how in ways]
    good = [Unit(f"good/{number}", misbehave, "not at all") for number in range(10)]
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        workshop = StoredWorkshop(store, executor)
        results = workshop.do("bad", [*bad, *good])
        left_out = {unit.key: unit.error for unit in store.quarantined()}
        assert [store.failures(f"bad/{how}") for how in ways] == [3, 3, 3]
    assert [result is None for result in results] == [True] * 3 + [False] * 10
    assert left_out["bad/raise"].startswith("ValueError: poison")
    assert "the Ray worker was lost" in left_out["bad/exit"]
    assert "the Ray worker was lost" in left_out["bad/kill"]
    # The commands' output is theirs: Ray would tell there of every lost worker.
    assert capfd.readouterr() == ("", "")


def test_unit_that_hangs_is_ended(executor: RayExecutor) -> None:
    executor.submit(1, Unit("hang", misbehave, "hang"), None, 1.0)
    outcome = collect(executor, 1)[1]
    assert outcome.kind == "hung"
    assert outcome.error == "not done after its time limit of 1 s"


def test_unit_that_cannot_be_sent_or_read_has_an_outcome(executor: RayExecutor) -> None:
    executor.submit(1, Unit("lock", misbehave, (number for number in range(3))), None, 60.0)
    executor.submit(2, Unit("argument", misbehave, CannotBeRead()), None, 60.0)
    handle = executor.put(CannotBeRead())
    executor.submit(3, Unit("data", misbehave, "not at all"), handle, 60.0)
    found = collect(executor, 3)
    assert [found[ticket].kind for ticket in (1, 2, 3)] == ["raised"] * 3
    assert "cannot be sent" in str(found[1].error)
    assert "no such thing" in str(found[2].error)
    assert "no such thing" in str(found[3].error)
    executor.drop(handle)
    assert executor.wait(0.1) == []


def test_second_executor_uses_the_ray_that_is_there_and_leaves_it(executor: RayExecutor) -> None:
    import ray

    with RayExecutor() as second:
        second.submit(1, Unit("good", misbehave, "not at all"), None, 60.0)
        assert collect_kinds(second) == ["done"]
        second.submit(2, Unit("hang", misbehave, "hang"), None, 60.0)
        time.sleep(0.5)
    assert ray.is_initialized()
    with pytest.raises(UsageError, match="has been closed"):
        second.submit(3, Unit("good", misbehave, "not at all"), None, 60.0)
    # What it left under way was ended: both processors are free again.
    executor.submit(4, Unit("good", misbehave, "not at all"), None, 60.0)
    executor.submit(5, Unit("good", misbehave, "not at all"), None, 60.0)
    assert {outcome.kind for outcome in collect(executor, 2).values()} == {"done"}


def collect_kinds(executor: RayExecutor) -> list[str]:
    return [outcome.kind for outcome in collect(executor, 1).values()]


def test_open_ray_is_refused_when_connected(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    assert executor.n_workers == 2
    real = ray.get_runtime_context()

    class Elsewhere:
        gcs_address = "10.0.0.5:6379"

    monkeypatch.setattr(ray, "get_runtime_context", Elsewhere)
    monkeypatch.delenv("RAY_AUTH_MODE")
    second = RayExecutor("127.0.0.1:6379")
    with pytest.raises(UsageError, match="no authentication"):
        second.put(1)
    assert ray.is_initialized()
    assert real.gcs_address.startswith("127.0.0.1:")


def test_nodes_that_come_and_go_are_counted(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    assert executor.n_workers == 2
    counts = iter([{"CPU": 6.0}, {"memory": 1.0}])
    monkeypatch.setattr(ray, "cluster_resources", lambda: next(counts))
    monkeypatch.setattr(executor, "_counted", (0.0, 2))
    assert [executor.n_workers, executor.n_workers] == [6, 6]
    executor._counted = (0.0, 6)
    assert executor.n_workers == 1


def test_data_of_another_workshop_is_refused(executor: RayExecutor) -> None:
    with pytest.raises(UsageError, match="put elsewhere"):
        executor.submit(1, Unit("good", misbehave, ""), HERE.put(1), 60.0)
    with pytest.raises(UsageError, match="put elsewhere"):
        executor.drop(HERE.put(1))


def test_cluster_that_cannot_do_anything_is_refused(
    executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert executor.n_workers == 2
    monkeypatch.setattr("robusttc.run.ray_executor.__version__", "0.0.0")
    with pytest.raises(UsageError, match=r"cannot do our work; got .*another version of robusttc"):
        RayExecutor().put(1)
    monkeypatch.setattr("robusttc.run.ray_executor.TRY_SECONDS", 0.0)
    with pytest.raises(UsageError, match="cannot do our work; got GetTimeoutError"):
        RayExecutor().put(1)


def test_failures_outside_the_unit_have_an_outcome(
    executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    handle = executor.put([1])
    assert isinstance(handle, InRay)
    # Data that was lost on the way is no fault of the unit: another try may find it.
    lost = ray.remote(misbehave).options(max_retries=0).remote(None, "exit")
    executor._shelf[handle.number] = [lost]
    executor.submit(1, Unit("data", misbehave, "not at all"), handle, 60.0)
    monkeypatch.setattr("robusttc.run.ray_executor.__version__", "0.0.0")
    executor.submit(2, Unit("version", misbehave, "not at all"), None, 60.0)
    found = collect(executor, 2)
    assert found[1].kind == "died"
    assert "WorkerCrashedError" in str(found[1].error)
    assert found[2].kind == "raised"
    assert "another version" in str(found[2].error)
    executor.drop(handle)


def test_node_with_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="another version of robusttc; got"):
        ray_worker.do_unit("0.0.0", b"", None, {}, 60.0)


def test_worker_without_ray_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    shelf: dict[str, Any] = {"old": 1}
    monkeypatch.setattr(ray_worker, "_shelf", shelf)
    monkeypatch.setattr(ray, "get", lambda _: (pickle.dumps(make_data()), []))
    pickled = pickle.dumps((solve, 1))
    for limit in (60.0, float("inf")):
        report = ray_worker.do_unit(__version__, pickled, "new", {"new": ["reference"]}, limit)
        assert report.content is not None
        assert unpack(report.content).values == {"number": 1}
    assert list(shelf) == ["new"]
    assert ray_worker.do_nothing(None, None).values == {}
    assert "UnpicklingError" in str(ray_worker.do_unit(__version__, b"nonsense", None, {}, 60.0).error)


def test_lost_data_is_no_fault_of_the_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def lose(_reference: Any) -> None:
        raise ray.exceptions.ObjectLostError("00", None, "")

    monkeypatch.setattr(ray, "get", lose)
    with pytest.raises(ray.exceptions.ObjectLostError):
        ray_worker.do_unit(__version__, pickle.dumps((solve, 1)), "number", {"number": ["reference"]}, 60.0)

"""A private Ray on this machine: what it listens to, and what goes wrong outside a job."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from job_samples import make_data, misbehave, solve

from robusttc.errors import UsageError
from robusttc.jobs import Job, Runner, unpack
from robusttc.jobs import ray as module
from robusttc.jobs.job import Outcome
from robusttc.jobs.ray import RayExecutor, run_on_node
from robusttc.version import __version__

# Ray leaves files and processes to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

GOOD = Job("good", misbehave, "not at all")


@pytest.fixture(scope="module")
def executor() -> Iterator[RayExecutor]:
    environment = pytest.MonkeyPatch()
    environment.delenv("RAY_ADDRESS", raising=False)
    # The workers look for the functions of the tests, too.
    environment.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    executor = RayExecutor(n_workers=2)
    assert executor.n_workers == 2
    yield executor
    executor.submit(Job("compute", misbehave, "compute"), None, 60.0)
    executor.close()
    environment.undo()


def collect(executor: RayExecutor, n_outcomes: int) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    deadline = time.monotonic() + 60
    while len(found) < n_outcomes and time.monotonic() < deadline:
        found |= {outcome.key: outcome for outcome in executor.wait(1.0)}
    assert len(found) == n_outcomes
    return found


def test_nothing_of_it_listens_to_other_machines(executor: RayExecutor) -> None:
    assert executor.n_workers == 2
    addresses = listening_addresses()
    assert addresses
    assert {address for address in addresses if not is_loopback(address)} == set()


def listening_addresses() -> list[str]:
    """Return the local addresses of all listening sockets of this process and of those below it."""
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


def test_second_executor_uses_the_ray_that_is_there_and_leaves_it(executor: RayExecutor) -> None:
    import ray

    with closing(RayExecutor()) as second:
        assert None not in Runner(second).run("good", [GOOD])
        second.submit(Job("compute", misbehave, "compute"), None, 60.0)
    assert ray.is_initialized()
    with pytest.raises(UsageError, match="has been closed"):
        second.submit(GOOD, None, 60.0)
    # What it left in flight was ended: both processors are free again.
    for key in ("a", "b"):
        executor.submit(replace(GOOD, key=key), None, 60.0)
    assert {outcome.kind for outcome in collect(executor, 2).values()} == {"done"}


def test_open_ray_is_refused_when_connected(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    assert executor.n_workers == 2

    class Elsewhere:
        gcs_address = "10.0.0.5:6379"

    monkeypatch.setattr(ray, "get_runtime_context", Elsewhere)
    monkeypatch.delenv("RAY_AUTH_MODE")
    with pytest.raises(UsageError, match="no authentication"):
        RayExecutor("127.0.0.1:6379").share(1)
    assert ray.is_initialized()


def test_nodes_that_come_and_go_are_counted(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    assert executor.n_workers == 2
    counts = iter([{"CPU": 6.0}, {"memory": 1.0}])
    monkeypatch.setattr(ray, "cluster_resources", lambda: next(counts))
    assert [executor.n_workers, executor.n_workers] == [6, 1]


def test_cluster_that_cannot_run_anything_is_refused(
    executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert executor.n_workers == 2
    monkeypatch.setattr(module, "__version__", "0.0.0")
    with pytest.raises(UsageError, match=r"cannot run our jobs; got .*another version of robusttc"):
        RayExecutor().share(1)
    monkeypatch.setattr(module, "TRY_SECONDS", 0.0)
    with pytest.raises(UsageError, match="cannot run our jobs; got GetTimeoutError"):
        RayExecutor().share(1)


def test_failures_outside_the_job_have_an_outcome(
    executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    assert executor.n_workers == 2
    # Data that was lost on the way is no fault of the job: another attempt may find it.
    lost = [ray.remote(misbehave).options(max_retries=0).remote(None, "exit")]
    executor.submit(replace(GOOD, key="lost"), lost, 60.0)
    monkeypatch.setattr(module, "__version__", "0.0.0")
    executor.submit(replace(GOOD, key="other"), None, 60.0)
    found = collect(executor, 2)
    assert found["lost"].kind == "died"
    assert "WorkerCrashedError" in str(found["lost"].error)
    assert found["other"].kind == "raised"
    assert "another version" in str(found["other"].error)


def test_node_with_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="another version of robusttc; got"):
        run_on_node("0.0.0", "a", b"", None, 60.0)


class Reference:
    """Stands for a reference of Ray to shared data."""

    def hex(self) -> str:
        return "new"


def test_worker_without_ray_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    fetched: dict[str, Any] = {"old": 1}
    monkeypatch.setattr(module, "_fetched", fetched)
    monkeypatch.setattr(ray, "get", lambda _: pickle.dumps(make_data()))
    pickled = pickle.dumps(Job("a", solve, 1))
    for limit in (60.0, float("inf")):
        outcome = run_on_node(__version__, "a", pickled, [Reference()], limit)
        assert outcome.key == "a"
        assert unpack(outcome.content or b"").values["number"] == 1
    assert list(fetched) == ["new"]


def test_lost_data_is_no_fault_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def lose(_reference: Any) -> None:
        raise ray.exceptions.ObjectLostError("00", None, "")

    monkeypatch.setattr(ray, "get", lose)
    with pytest.raises(ray.exceptions.ObjectLostError):
        run_on_node(__version__, "a", b"", [Reference()], 60.0)

"""A real Ray cluster of two nodes, of which workers and one node are lost during the run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_samples import MemoryStore

from robusttc.errors import UsageError
from robusttc.jobs import Job, Result, Runner, pack
from robusttc.jobs.ray import RayExecutor, prepare_environment
from robusttc.random import numpy_generator

# Ray leaves files and processes to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

N_JOBS = 40
# This one works for ever the first time.
STUCK = 5


def solve(data: dict[str, Any], number: int) -> Result:
    """Leave a note of who does it, then work a while."""
    if data["notes"]:
        Path(data["notes"], f"{number}.{os.getpid()}").touch()
        if number == STUCK and len(list(Path(data["notes"]).glob(f"{number}.*"))) == 1:
            time.sleep(60)  # until it is killed
    rows = numpy_generator(1, "solve", [str(number)]).integers(len(data["vectors"]), size=200)
    values = np.linalg.eigvalsh(data["vectors"][rows].T @ data["vectors"][rows])
    if data["notes"]:
        time.sleep(0.05)
    return Result({"number": number}, {"values": values})


def fail(_data: Any, how: str) -> Result:
    if how == "raise":
        raise ValueError("poison")
    os._exit(3)


def make_data(notes: str = "") -> dict[str, Any]:
    return {"vectors": np.random.default_rng(2).normal(size=(5000, 30)), "notes": notes}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    environment = pytest.MonkeyPatch()
    environment.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    prepare_environment(is_private=True)
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
        shutdown_at_exit=False,
    )
    yield cluster
    cluster.shutdown()
    environment.undo()


def test_lost_workers_and_a_lost_node_change_nothing(cluster: Any, tmp_path: Path) -> None:
    import ray

    node = cluster.add_node(num_cpus=1, include_dashboard=False)
    notes = tmp_path / "notes"
    notes.mkdir()
    jobs = [Job(f"solve/{number}", solve, number, tasks=("acme",)) for number in range(N_JOBS)]
    bad = [Job(f"bad/{how}", fail, how, tasks=("acme",)) for how in ("raise", "exit")]
    direct = Runner()
    expected = {
        job.key: pack(result)
        for job, result in zip(jobs, direct.run("solve", jobs, direct.share(make_data())), strict=True)
        if result is not None
    }
    lost: list[str] = []
    workers_of_node: set[int] = set()
    store = MemoryStore()
    with closing(RayExecutor(cluster.address)) as executor:
        assert executor.n_workers == 2

        def make_trouble(_job: Job, _result: Result) -> None:
            stuck = list(notes.glob(f"{STUCK}.*"))
            if stuck and "worker" not in lost:
                lost.append("worker")
                os.kill(int(stuck[0].name.partition(".")[2]), signal.SIGKILL)
            if len(store.content) >= 20 and "node" not in lost:
                lost.append("node")
                workers_of_node.update(below(node.all_processes["raylet"][0].process.pid))
                cluster.remove_node(node, allow_graceful=False)

        runner = Runner(executor, store)
        results = runner.run(
            "solve", [*bad, *jobs], runner.share(make_data(str(notes))), on_result=make_trouble
        )
        assert lost == ["worker", "node"]
        n_stuck = len(list(notes.glob(f"{STUCK}.*")))
    # Both nodes worked, work was lost, and nothing of it is seen in the results.
    assert {int(path.name.partition(".")[2]) for path in notes.iterdir()} & workers_of_node
    assert n_stuck > 1
    assert results[:2] == [None, None]
    assert all(result is not None for result in results[2:])
    assert store.content == expected
    assert store.quarantined.keys() == {"bad/raise", "bad/exit"}
    assert store.errors["bad/raise"][2].startswith("ValueError: poison")
    # The connection was ours, the cluster is not.
    assert not ray.is_initialized()
    assert cluster.head_node.all_processes["raylet"][0].process.poll() is None


def below(pid: int) -> list[int]:
    """Give all processes below a process."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [further for child in children for further in below(child)]


def test_new_driver_goes_on_from_the_store(cluster: Any) -> None:
    jobs = [Job(f"solve/{number}", solve, number) for number in range(10)]
    direct = Runner()
    expected = [pack(done) for done in direct.run("solve", jobs, direct.share(make_data())) if done]
    store = MemoryStore()
    for part in (jobs[:5], jobs):
        with Runner(RayExecutor(cluster.address), store) as runner:
            results = runner.run("solve", part, runner.share(make_data()))
    assert store.commits
    assert [pack(result) for result in results if result is not None] == expected


def test_cluster_that_wants_another_token_is_told_of(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**_settings: Any) -> None:
        raise ConnectionError("the token is wrong")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(UsageError, match=r"does not answer.*the token is wrong.*same token"):
        RayExecutor(cluster.address).share(1)

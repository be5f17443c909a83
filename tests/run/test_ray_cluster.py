"""A real Ray cluster of two nodes, of which workers and one node are lost during the run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.errors import UsageError
from robusttc.random import numpy_generator
from robusttc.run.identity import Identity
from robusttc.run.ray_address import prepare_own_ray
from robusttc.run.ray_executor import RayExecutor
from robusttc.run.store import RunStore
from robusttc.run.workshop import StoredWorkshop
from robusttc.work.packing import pack
from robusttc.work.units import HERE, Payload, Unit

# Ray leaves files and processes to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

IDENTITY = Identity({"seed": 0}, {"acme": "0"}, {})
N_UNITS = 40
# This one works for ever the first time.
STUCK = 5


def solve(data: dict[str, Any], number: int) -> Payload:
    """Leave a note of who does it, then work a while."""
    if data["notes"]:
        Path(data["notes"], f"{number}.{os.getpid()}").touch()
        if number == STUCK and len(list(Path(data["notes"]).glob(f"{number}.*"))) == 1:
            time.sleep(60)  # until it is killed
    rows = numpy_generator(1, "solve", [str(number)]).integers(len(data["vectors"]), size=200)
    values = np.linalg.eigvalsh(data["vectors"][rows].T @ data["vectors"][rows])
    if data["notes"]:
        time.sleep(0.05)
    return Payload({"number": number}, {"values": values})


def fail(_data: Any, how: str) -> Payload:
    if how == "raise":
        raise ValueError("poison")
    os._exit(3)


def make_data(notes: str = "") -> dict[str, Any]:
    return {"vectors": np.random.default_rng(2).normal(size=(5000, 30)), "notes": notes}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    environment = pytest.MonkeyPatch()
    environment.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    prepare_own_ray()
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
    units = [Unit(f"solve/{number}", solve, number, tasks=("acme",)) for number in range(N_UNITS)]
    bad = [Unit(f"bad/{how}", fail, how, tasks=("acme",)) for how in ("raise", "exit")]
    expected = {
        unit.key: pack(payload)
        for unit, payload in zip(units, HERE.do("solve", units, HERE.put(make_data())), strict=True)
        if payload is not None
    }
    lost: list[str] = []
    workers_of_node: set[int] = set()
    with RunStore.create(tmp_path / "run", IDENTITY) as store, RayExecutor(cluster.address) as executor:
        assert executor.n_workers == 2

        def make_trouble(_unit: Unit, _payload: Payload) -> None:
            stuck = list(notes.glob(f"{STUCK}.*"))
            if stuck and "worker" not in lost:
                lost.append("worker")
                os.kill(int(stuck[0].name.partition(".")[2]), signal.SIGKILL)
            if store.finished("solve") >= 20 and "node" not in lost:
                lost.append("node")
                workers_of_node.update(below(node.all_processes["raylet"][0].process.pid))
                cluster.remove_node(node, allow_graceful=False)

        workshop = StoredWorkshop(store, executor)
        results = workshop.do(
            "solve", [*bad, *units], workshop.put(make_data(str(notes))), when_done=make_trouble
        )
        assert lost == ["worker", "node"]
        left_out = {unit.key: unit.error for unit in store.quarantined()}
        found = store.find([unit.key for unit in units])
        n_stuck = len(list(notes.glob(f"{STUCK}.*")))
    # Both nodes worked, work was lost, and nothing of it is seen in the results.
    assert {int(path.name.partition(".")[2]) for path in notes.iterdir()} & workers_of_node
    assert n_stuck > 1
    assert results[:2] == [None, None]
    assert all(result is not None for result in results[2:])
    assert found == expected
    assert left_out.keys() == {"bad/raise", "bad/exit"}
    assert left_out["bad/raise"].startswith("ValueError: poison")
    # The connection was ours, the cluster is not.
    assert not ray.is_initialized()
    assert cluster.head_node.all_processes["raylet"][0].process.poll() is None


def below(pid: int) -> list[int]:
    """Give all processes below a process."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [further for child in children for further in below(child)]


def test_new_driver_goes_on_from_the_store(cluster: Any, tmp_path: Path) -> None:
    units = [Unit(f"solve/{number}", solve, number) for number in range(10)]
    expected = [pack(done) for done in HERE.do("solve", units, HERE.put(make_data())) if done is not None]
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        for part in (units[:5], units):
            with RayExecutor(cluster.address) as executor:
                workshop = StoredWorkshop(store, executor)
                results = workshop.do("solve", part, workshop.put(make_data()))
    assert [pack(result) for result in results if result is not None] == expected


def test_cluster_that_wants_another_token_is_told_of(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**_settings: Any) -> None:
        raise ConnectionError("the token is wrong")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(UsageError, match=r"does not answer.*the token is wrong.*same token"):
        RayExecutor(cluster.address).put(1)

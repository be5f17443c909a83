"""A run's workshop with real worker processes: poison, hangs, stops, and any number of workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.random import numpy_generator
from robusttc.run.executor import make_executor
from robusttc.run.identity import Identity
from robusttc.run.stopping import Stopped
from robusttc.run.store import RunStore
from robusttc.run.workshop import StoredWorkshop
from robusttc.work.packing import pack
from robusttc.work.process_executor import ProcessExecutor
from robusttc.work.units import HERE, Payload, Unit

IDENTITY = Identity({"seed": 0}, {"acme": "0", "blue": "1"}, {})


def solve(data: np.ndarray[Any, Any], number: int) -> Payload:
    rows = numpy_generator(1, "solve", [str(number)]).integers(len(data), size=200)
    values = np.linalg.eigvalsh(data[rows].T @ data[rows])
    return Payload({"number": number}, {"values": values})


def misbehave(_data: Any, how: str) -> Payload:
    if how == "raise":
        raise ValueError("poison")
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return Payload()


def sleep_a_little(_data: Any, number: int) -> Payload:
    time.sleep(0.05)
    return Payload({"number": number})


def make_data() -> np.ndarray[Any, Any]:
    return np.random.default_rng(2).normal(size=(5000, 30))


def expected(units: list[Unit]) -> list[bytes]:
    return [pack(result) for result in HERE.do("solve", units, HERE.put(make_data())) if result is not None]


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_results_are_the_same_bytes_for_any_number_of_workers(n_workers: int, tmp_path: Path) -> None:
    units = [Unit(f"solve/{number}", solve, number) for number in range(30)]
    order = np.random.default_rng(n_workers).permutation(len(units))
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        executor = make_executor("local", n_workers=n_workers, scratch=tmp_path)
        workshop = StoredWorkshop(store, executor)
        workshop.do("solve", [units[index] for index in order], workshop.put(make_data()))
        executor.close()
        found = store.find([unit.key for unit in units])
        assert [found[unit.key] for unit in units] == expected(units)
        assert store.costs()[0].cpu_seconds > 0
        assert store.costs()[0].peak_bytes > 10_000_000


def test_poison_is_tried_three_times_and_left_out_while_the_others_finish(tmp_path: Path) -> None:
    ways = ["raise", "exit", "kill", "hang"]
    good = [Unit(f"solve/{number}", solve, number) for number in range(20)]
    bad = [Unit(f"bad/{how}", misbehave, how, tasks=("acme",)) for how in ways]
    errors: dict[str, list[str]] = {}
    with (
        RunStore.create(tmp_path / "run", IDENTITY) as store,
        ProcessExecutor(2, scratch=tmp_path) as executor,
    ):
        real = store.record_failure

        def record(stage: str, key: str, error: str, tasks: tuple[str, ...]) -> None:
            errors.setdefault(key, []).append(error)
            real(stage, key, error, tasks)

        store.record_failure = record  # type: ignore[method-assign,assignment]
        workshop = StoredWorkshop(store, executor, time_limit=1.5)
        results = workshop.do("solve", [*bad, *good], workshop.put(make_data()))
        assert results[:4] == [None] * 4
        assert [pack(result) for result in results[4:] if result is not None] == expected(good)
        left_out = {unit.key: unit.error for unit in store.quarantined()}
    assert {key: len(tries) for key, tries in errors.items()} == {f"bad/{how}": 2 for how in ways}
    assert left_out.keys() == errors.keys()
    assert left_out["bad/raise"].startswith("ValueError: poison")
    assert left_out["bad/exit"] == "the worker process ended with code 3"
    assert left_out["bad/kill"] == "the worker process ended by signal 9"
    assert left_out["bad/hang"] == "not done after its time limit of 1.5 s"


def test_stopped_run_can_be_resumed(tmp_path: Path) -> None:
    units = [Unit(f"sleep/{number}", sleep_a_little, number) for number in range(40)]
    folder = tmp_path / "run"
    with (
        RunStore.create(folder, IDENTITY) as store,
        ProcessExecutor(2, scratch=tmp_path) as executor,
    ):
        workshop = StoredWorkshop(store, executor, stop=lambda: store.finished("sleep") >= 10)
        with pytest.raises(Stopped):
            workshop.do("sleep", units)
    with RunStore.open(folder, identity=IDENTITY) as store:
        assert 10 <= store.finished("sleep") < 40
        assert store.quarantined() == []
        with ProcessExecutor(2, scratch=tmp_path) as executor:
            workshop = StoredWorkshop(store, executor)
            results = workshop.do("sleep", units)
        assert [result.values["number"] for result in results if result is not None] == list(range(40))
        assert store.finished("sleep") == 40


def test_signal_to_all_processes_is_the_drivers_to_decide(tmp_path: Path) -> None:
    units = [Unit(f"sleep/{number}", sleep_a_little, number) for number in range(40)]
    with (
        RunStore.create(tmp_path / "run", IDENTITY) as store,
        ProcessExecutor(2, scratch=tmp_path) as executor,
    ):
        n_signals = 0

        def interrupt_workers(_unit: Unit, _payload: Payload) -> None:
            nonlocal n_signals
            for worker in executor._foreman.crew.workers:
                os.kill(worker.process.pid or 0, signal.SIGINT)
                n_signals += 1

        workshop = StoredWorkshop(store, executor)
        results = workshop.do("sleep", units, when_done=interrupt_workers)
        assert [result.values["number"] for result in results if result is not None] == list(range(40))
        assert n_signals > 20
        assert {worker.process.exitcode for worker in executor._foreman.crew.workers} == {None}


def test_stop_does_not_wait_for_units_under_way(tmp_path: Path) -> None:
    with (
        RunStore.create(tmp_path / "run", IDENTITY) as store,
        ProcessExecutor(2, scratch=tmp_path) as executor,
    ):
        asked = time.monotonic() + 0.5
        workshop = StoredWorkshop(store, executor, stop=lambda: time.monotonic() > asked)
        with pytest.raises(Stopped):
            workshop.do("slow", [Unit(f"slow/{number}", misbehave, "hang") for number in range(8)])
        assert time.monotonic() - asked < 5
        assert not executor._foreman.is_alive()

"""Which executor a name stands for, and what it means to be stopped."""

from __future__ import annotations

import pytest

from robusttc.run.executor import make_executor
from robusttc.run.ray_executor import RayExecutor
from robusttc.run.stopping import Stopped
from robusttc.work.process_executor import ProcessExecutor


def test_names_of_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    local = make_executor("local")
    assert isinstance(local, ProcessExecutor)
    assert local.n_workers == 1
    local.close()
    ray = make_executor("ray", n_workers=3)
    assert isinstance(ray, RayExecutor)
    assert ray.n_local == 3
    ray.close()


def test_stopped_is_no_exception() -> None:
    # Nothing on the way may take it for a failure.
    assert not issubclass(Stopped, Exception)

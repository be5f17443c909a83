"""The runner by itself: what it submits, commits, retries and gives up, on an executor of our choosing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from job_samples import MemoryStore, contents, make_data, misbehave, solve_jobs

from robusttc.errors import StoreError, UsageError
from robusttc.jobs import Job, Result, Runner, Stopped, make_executor
from robusttc.jobs.job import Outcome, run_job
from robusttc.jobs.processes import ProcessExecutor
from robusttc.jobs.ray import RayExecutor


class Desk:
    """Runs jobs here, in a random order, and keeps a record."""

    def __init__(self, *, n_workers: int = 2, seed: int = 0, at_once: int = 1) -> None:
        self.n_workers, self.at_once = n_workers, at_once
        self.random = np.random.default_rng(seed)
        self.in_flight: list[tuple[Job, Any]] = []
        self.tried: list[str] = []
        self.limits: set[float] = set()
        self.n_shared = self.n_released = self.n_cancelled = self.most_in_flight = 0
        # What happens instead of the job, by key.
        self.fate: dict[str, list[Literal["raised", "died", "timeout"]]] = {}
        self.before_wait: Callable[[], None] = lambda: None

    def share(self, data: Any) -> Any:
        self.n_shared += 1
        return (data,)

    def release(self, reference: Any) -> None:
        assert isinstance(reference, tuple)
        self.n_released += 1

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:
        self.in_flight.append((job, None if shared is None else shared[0]))
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        self.limits.add(time_limit)

    def wait(self, timeout: float) -> list[Outcome]:
        assert 0.0 <= timeout <= 0.2
        self.before_wait()
        outcomes = []
        for _ in range(min(self.at_once, len(self.in_flight))):
            job, shared = self.in_flight.pop(int(self.random.integers(len(self.in_flight))))
            self.tried.append(job.key)
            if self.fate.get(job.key):
                outcomes.append(Outcome(job.key, self.fate[job.key].pop(0), error="bad luck"))
            else:
                outcomes.append(run_job(job, shared))
        return outcomes

    def cancel(self) -> None:
        self.n_cancelled += 1
        self.in_flight.clear()

    def close(self) -> None:
        pass


def run(runner: Runner, jobs: list[Job], **options: Any) -> list[Result | None]:
    return runner.run("solve", jobs, runner.share(make_data()), **options)


@pytest.mark.parametrize("seed", range(4))
def test_all_workers_are_kept_busy_in_any_order(seed: int) -> None:
    desk = Desk(n_workers=1 + seed, seed=seed, at_once=1 + seed)
    runner = Runner(desk, MemoryStore(), time_limit=5.0)
    shared = runner.share(make_data())
    assert desk.n_shared == 0
    results = runner.run("solve", solve_jobs(), shared)
    runner.release(shared)
    assert contents(results) == contents(run(Runner(), solve_jobs()))
    assert desk.most_in_flight == 2 * desk.n_workers
    assert desk.limits == {5.0}
    assert (desk.n_shared, desk.n_released, desk.n_cancelled) == (1, 1, 0)


def test_data_is_not_even_shared_when_all_is_finished() -> None:
    store = MemoryStore()
    run(Runner(Desk(), store), solve_jobs(100))
    desk = Desk()
    runner = Runner(desk, store)
    shared = runner.share(make_data())
    assert None not in runner.run("solve", solve_jobs(100), shared)
    runner.release(shared)
    assert (desk.tried, desk.n_shared, desk.n_released) == ([], 0, 0)


def test_jobs_that_finish_together_are_committed_together() -> None:
    store = MemoryStore()
    run(Runner(Desk(n_workers=3, at_once=6), store), solve_jobs(18))
    assert store.commits == [6, 6, 6]


def test_what_cannot_be_committed_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_stage: str, _done: Any) -> None:
        raise StoreError("the disk is full", where="run.sqlite")

    store, desk = MemoryStore(), Desk()
    monkeypatch.setattr(store, "commit", refuse)
    seen: list[str] = []
    with pytest.raises(StoreError, match="disk is full"):
        run(Runner(desk, store), solve_jobs(), on_result=lambda job, _: seen.append(job.key))
    assert seen == []
    assert desk.n_cancelled == 1


@pytest.mark.parametrize("kind", ["raised", "died", "timeout"])
def test_job_that_fails_is_tried_again_after_the_others(kind: Any) -> None:
    store, desk = MemoryStore(), Desk(n_workers=1)
    desk.fate["solve/0"] = [kind, kind]
    assert None not in run(Runner(desk, store), solve_jobs(12))
    attempts = [place for place, key in enumerate(desk.tried) if key == "solve/0"]
    assert len(attempts) == 3
    assert attempts[1] >= 11
    assert store.quarantined == {}


def test_failures_before_a_restart_count() -> None:
    store, desk = MemoryStore(), Desk()
    store.record_failure("solve", "solve/0", "died", ["acme"], is_last=False)
    desk.fate["solve/0"] = ["died"] * 5
    assert run(Runner(desk, store), solve_jobs(1)) == [None]
    assert desk.tried == ["solve/0"] * 2
    assert store.errors["solve/0"] == ["died", "bad luck", "bad luck"]


def test_failures_of_jobs_that_are_not_kept_do_not_outlive_the_runner() -> None:
    store = MemoryStore()
    for _ in range(2):
        desk = Desk()
        desk.fate["solve/1"] = ["died", "died"]
        assert None not in run(Runner(desk, store), solve_jobs(5, keep=False))
        assert len(desk.tried) == 7
    desk.fate["solve/1"] = ["died"] * 3
    assert run(Runner(desk, store), solve_jobs(5, keep=False))[1] is None
    assert list(store.quarantined) == ["solve/1"]


def test_number_of_tries_can_be_chosen() -> None:
    desk = Desk()
    assert Runner(desk, MemoryStore(), tries=1).run("x", [Job("x", misbehave, "raise")]) == [None]
    assert desk.tried == ["x"]
    with pytest.raises(UsageError, match="tries cannot be used"):
        Runner(desk, tries=0)


def test_that_workers_die_of_a_stop_is_no_failure() -> None:
    store, desk, stop = MemoryStore(), Desk(n_workers=1, at_once=2), []
    desk.fate["solve/0"] = ["died"]
    desk.before_wait = lambda: stop.append(True)
    with pytest.raises(Stopped):
        run(Runner(desk, store, stop=lambda: bool(stop)), solve_jobs(3))
    assert store.errors == {}
    assert len(store.content) == 1
    # Nothing on the way may mistake it for a failure.
    assert not issubclass(Stopped, Exception)


def test_prefix_changes_the_keys_in_the_store_alone() -> None:
    store = MemoryStore()
    runner, seen = Runner(Desk(), store), list[str]()
    job = solve_jobs(1)
    run(runner.with_prefix("1f"), job, on_result=lambda one, _: seen.append(one.key))
    run(runner.with_prefix("1f", cost_stage="evaluate"), job)  # the same job is not computed again
    run(runner.with_prefix("2a", cost_stage="evaluate"), job)
    run(runner.with_prefix("2a/alone", stage="evaluate"), job)
    run(runner, job)
    assert seen == ["solve/0"]
    assert [(stage, outcome.key) for stage, outcome, _ in store.finished] == [
        ("solve", "solve/1f/0"),
        ("evaluate", "solve/2a/0"),
        ("evaluate", "evaluate/2a/alone/0"),
        ("solve", "solve/0"),
    ]


def test_two_jobs_with_one_key_are_refused() -> None:
    with pytest.raises(UsageError, match="same key; got 'solve/0'"):
        Runner().run("solve", [*solve_jobs(3), *solve_jobs(1)])


def test_names_of_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    local = make_executor("local")
    assert isinstance(local, ProcessExecutor)
    assert local.n_workers == 1
    local.close()
    ray = make_executor("ray", n_workers=3)
    assert isinstance(ray, RayExecutor)
    assert ray.n_private == 3
    ray.close()

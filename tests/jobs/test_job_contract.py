"""What every executor promises: in this process, in processes, on Ray."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_samples import (
    CannotBeRead,
    MemoryStore,
    contents,
    die_first,
    look_at_process,
    make_data,
    misbehave,
    return_nonsense,
    sleep_a_little,
    solve_jobs,
)

from robusttc.errors import DataError, UsageError, WorkError
from robusttc.jobs import Executor, InProcessExecutor, Job, Result, Runner, Stopped
from robusttc.jobs.processes import ProcessExecutor
from robusttc.jobs.ray import RayExecutor
from robusttc.progress import ProgressEvent

# Ray leaves files and processes to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

# Those that survive what a job does to its process.
ISOLATED = ["processes", "ray"]
isolated = pytest.mark.parametrize("executor", ISOLATED, indirect=True)


@pytest.fixture(scope="module", params=["in process", *ISOLATED])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "in process":
        yield InProcessExecutor()
    elif request.param == "processes":
        with closing(ProcessExecutor(2)) as processes:
            yield processes
    else:
        environment = pytest.MonkeyPatch()
        environment.delenv("RAY_ADDRESS", raising=False)
        environment.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        with closing(RayExecutor(n_workers=2)) as ray:
            yield ray
        environment.undo()


@pytest.fixture(scope="module")
def expected() -> list[bytes | None]:
    runner = Runner()
    return contents(runner.run("solve", solve_jobs(), runner.share(make_data())))


@pytest.mark.parametrize("seed", [0, 1])
def test_results_do_not_depend_on_executor_or_order(
    seed: int, executor: Executor, expected: list[bytes | None]
) -> None:
    store = MemoryStore()
    runner = Runner(executor, store)
    order = np.random.default_rng(seed).permutation(len(expected))
    shared = runner.share(make_data())
    jobs = solve_jobs()
    results = runner.run("solve", [jobs[index] for index in order], shared)
    runner.release(shared)
    assert contents(results) == [expected[index] for index in order]
    assert [store.content[job.key] for job in jobs] == expected
    assert all(outcome.cpu_seconds > 0 for _, outcome, _ in store.finished)
    assert all(outcome.peak_bytes > 10_000_000 for _, outcome, _ in store.finished)
    assert {attempts for _, _, attempts in store.finished} == {1}


def test_stored_results_are_not_computed_again(executor: Executor, expected: list[bytes | None]) -> None:
    store = MemoryStore()
    Runner(executor, store).run("solve", solve_jobs()[::2], Runner(executor).share(make_data()))
    assert len(store.finished) == 10
    events: list[ProgressEvent] = []
    seen: list[str] = []
    runner = Runner(executor, store)
    results = runner.run(
        "solve",
        solve_jobs(),
        runner.share(make_data()),
        on_result=lambda job, _: seen.append(job.key),
        progress=events.append,
        unit="tasks",
    )
    assert contents(results) == expected
    assert len(store.finished) == len(expected)
    # Results from the store are reported like all others.
    assert sorted(seen) == sorted(job.key for job in solve_jobs())
    assert [event.done for event in events] == list(range(21))
    assert {(event.stage, event.total, event.unit) for event in events} == {("solve", 20, "tasks")}
    assert {event.detail for event in events} == {"", *(f"task {number}" for number in range(20))}


def test_results_count_once_they_are_committed(executor: Executor) -> None:
    store = MemoryStore()
    runner = Runner(executor, store)
    seen: list[bool] = []
    runner.run(
        "solve",
        solve_jobs(),
        runner.share(make_data()),
        on_result=lambda job, _: seen.append(job.key in store.content),
        progress=lambda event: seen.append(event.done <= len(store.content)),
    )
    assert seen == [True] * 41


def test_job_that_fails_is_quarantined_and_the_others_go_on(
    executor: Executor, expected: list[bytes | None]
) -> None:
    store = MemoryStore()
    runner = Runner(executor, store)
    bad = [
        Job("bad/raise", misbehave, "raise", tasks=("acme", "blue")),
        Job("bad/nonsense", return_nonsense),
    ]
    seen: list[str] = []
    results = runner.run(
        "solve",
        [*bad, *solve_jobs()],
        runner.share(make_data()),
        on_result=lambda job, _: seen.append(job.key),
    )
    assert results[:2] == [None, None]
    assert contents(results[2:]) == expected
    assert {key: len(errors) for key, errors in store.errors.items()} == {job.key: 3 for job in bad}
    assert store.quarantined["bad/raise"] == ("solve", ("acme", "blue"))
    assert store.errors["bad/raise"][2].startswith("ValueError: poison (job_samples.py:")
    assert "JSON" in store.errors["bad/nonsense"][0]
    assert not {"bad/raise", "bad/nonsense"} & set(seen)
    # It stays quarantined, and is not tried again.
    assert runner.run("solve", bad) == [None, None]
    assert len(store.errors["bad/raise"]) == 3


@isolated
def test_killed_worker_costs_its_job_one_attempt(
    executor: Executor, expected: list[bytes | None], tmp_path: Path
) -> None:
    store = MemoryStore()
    runner = Runner(executor, store)
    unlucky = Job("once/1", die_first, str(tmp_path / "died"))
    results = runner.run("solve", [unlucky, *solve_jobs()], runner.share(make_data()))
    assert contents(results[1:]) == expected
    assert results[0] is not None
    assert list(store.errors) == ["once/1"]
    assert [attempts for _, outcome, attempts in store.finished if outcome.key == "once/1"] == [2]
    # Without a store it is tried again as well.
    (result,) = Runner(executor).run("once", [Job("once/2", die_first, str(tmp_path / "again"))])
    assert result is not None


@isolated
def test_poison_harms_its_own_job_alone(executor: Executor, capfd: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore()
    ways = ["exit", "exit without error", "kill", "fork", "sleep", "compute"]
    good = [Job(f"good/{number}", misbehave, "not at all") for number in range(10)]
    runner = Runner(executor, store, tries=2, time_limit=4.0)
    results = runner.run("bad", [*(Job(f"bad/{how}", misbehave, how) for how in ways), *good])
    assert [result is None for result in results] == [True] * 6 + [False] * 10
    assert {key: len(errors) for key, errors in store.errors.items()} == {f"bad/{how}": 2 for how in ways}
    assert store.errors["bad/sleep"] == store.errors["bad/compute"]
    assert store.errors["bad/sleep"] == ["not done after its time limit of 4 s"] * 2
    if isinstance(executor, ProcessExecutor):
        last = {key: errors[-1] for key, errors in store.errors.items()}
        assert last["bad/exit"] == "the worker process ended with code 3"
        assert last["bad/exit without error"] == "the worker process ended with code 0"
        assert last["bad/kill"] == "the worker process was ended by signal 9"
        assert last["bad/fork"] == "the worker process ended with code 4"
    else:
        assert "the Ray worker was lost" in store.errors["bad/kill"][0]
    # The output belongs to the commands.
    assert capfd.readouterr() == ("", "")


@isolated
def test_lost_worker_without_a_store_is_an_error(executor: Executor) -> None:
    with pytest.raises(WorkError, match=r"job bad/kill: a job has failed; got the .*worker.*fewer workers"):
        Runner(executor).run("bad", [Job("bad/kill", misbehave, "kill")])


def complain(_data: Any, number: int) -> Result:
    if number == 3:
        raise DataError("the label is unknown", where="acme:3", got="'x'", todo="mend it")
    return Result({"number": number})


class OfTwoError(Exception):
    """Can be pickled, but not restored."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def complain_strangely(_data: Any, _number: int) -> Result:
    raise OfTwoError("so", "and so")


def test_error_without_a_store_is_raised_as_it_is(executor: Executor) -> None:
    runner = Runner(executor)
    with pytest.raises(DataError, match=r"acme:3: the label is unknown; got 'x'. Mend it") as caught:
        runner.run("n", [Job(f"n/{number}", complain, number) for number in range(20)])
    if not isinstance(executor, InProcessExecutor):
        assert any("in complain" in note for note in caught.value.__notes__)
        with pytest.raises(WorkError, match=r"job n/1: a job has failed; got OfTwoError: so and so"):
            runner.run("n", [Job("n/1", complain_strangely)])
    # Outcomes of the call that failed must not pass for those of this one, also of another runner.
    for again in (runner, Runner(executor)):
        results = again.run("m", [Job(f"m/{number}", complain, number) for number in range(10, 30)])
        assert [result and result.values["number"] for result in results] == list(range(10, 30))


def test_stop_keeps_what_is_finished_and_can_be_resumed(executor: Executor) -> None:
    store = MemoryStore()
    jobs = [Job(f"sleep/{number}", sleep_a_little, number) for number in range(30)]
    runner = Runner(executor, store, stop=lambda: len(store.content) >= 8)
    with pytest.raises(Stopped):
        runner.run("sleep", jobs)
    assert 8 <= len(store.content) < 20
    assert store.errors == {}
    with pytest.raises(Stopped):  # asked before anything is submitted
        Runner(executor, store, stop=lambda: True).run("other", [Job("other/1", sleep_a_little, 1)])
    assert "other/1" not in store.content
    results = Runner(executor, store).run("sleep", jobs)
    assert [result and result.values["number"] for result in results] == list(range(30))
    assert len(store.finished) == 30


@isolated
def test_stop_does_not_wait_for_jobs_in_flight(executor: Executor) -> None:
    store = MemoryStore()
    Runner(executor).run("warm", [Job(f"warm/{n}", sleep_a_little, n) for n in range(4)])
    deadline = time.monotonic() + 0.5
    jobs = [Job(f"slow/{number}", misbehave, "sleep") for number in range(8)]
    with pytest.raises(Stopped):
        Runner(executor, store, stop=lambda: time.monotonic() > deadline).run("slow", jobs)
    assert time.monotonic() - deadline < 30  # far less than a job
    # Their workers are free again.
    (result,) = Runner(executor).run("warm", [Job("warm/0", sleep_a_little, 0)])
    assert result is not None


def test_interrupt_ends_the_jobs(executor: Executor) -> None:
    jobs = [Job(f"sleep/{number}", sleep_a_little, number) for number in range(20)]
    seen: list[str] = []

    def interrupt(job: Job, _result: Result) -> None:
        seen.append(job.key)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Runner(executor).run("sleep", jobs, on_result=interrupt)
    assert len(seen) == 3
    assert None not in Runner(executor).run("sleep", jobs)


def test_shared_data_is_sent_once_and_private_to_a_worker(executor: Executor, tmp_path: Path) -> None:
    data = make_data()
    original = float(data["vectors"][0, 0])
    marker = tmp_path / "store"
    with marker.open("w"):  # stands for the store: it is open in this process alone
        runner = Runner(executor)
        jobs = [Job(f"look/{number}", look_at_process, number) for number in range(12)]
        results = [result.values for result in runner.run("look", jobs, runner.share(data)) if result]
    by_worker: dict[int, list[float]] = {}
    for values in results:
        by_worker.setdefault(values["pid"], []).append(values["before"])
        assert (values["torch"], values["threads"]) == (1, [1])
    # The second job of a worker sees what the first has written: the data was not sent again.
    assert all(values.count(original) == 1 for values in by_worker.values())
    if isinstance(executor, InProcessExecutor):
        assert list(by_worker) == [os.getpid()]
    else:
        assert os.getpid() not in by_worker
        assert len(by_worker) <= 2
        assert float(data["vectors"][0, 0]) == original
        assert not [file for values in results for file in values["files"] if file == str(marker)]


@isolated
def test_job_that_cannot_be_read_fails_alone(executor: Executor) -> None:
    store = MemoryStore()
    runner = Runner(executor, store, tries=1)
    jobs = [Job("bad/argument", misbehave, CannotBeRead()), Job("good", misbehave, "not at all")]
    results = runner.run("bad", jobs)
    assert [result is None for result in results] == [True, False]
    assert "RuntimeError: no such thing" in store.errors["bad/argument"][0]
    assert runner.run("bad", [Job("bad/data", misbehave)], runner.share(CannotBeRead())) == [None]
    assert "RuntimeError: no such thing" in store.errors["bad/data"][0]


@isolated
def test_job_that_cannot_be_sent_is_an_error_at_once(executor: Executor) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        Runner(executor, MemoryStore()).run("bad", [Job("bad/lock", misbehave, threading.Lock())])
    assert None not in Runner(executor).run("good", [Job("good", misbehave, "not at all")])


def test_unkept_results_are_computed_again(executor: Executor, expected: list[bytes | None]) -> None:
    store = MemoryStore()
    for _ in range(2):
        runner = Runner(executor, store)
        assert contents(runner.run("solve", solve_jobs(keep=False), runner.share(make_data()))) == expected
    assert store.content == {}
    assert store.costs == [("solve", 20)] * 2


def test_no_jobs_are_no_work(executor: Executor) -> None:
    assert Runner(executor).run("demo", []) == []


def test_shared_data_of_another_executor_is_refused(executor: Executor) -> None:
    runner, foreign = Runner(executor), Runner().share(1)
    with pytest.raises(UsageError, match="shared by another runner"):
        runner.run("demo", solve_jobs(1), foreign)
    with pytest.raises(UsageError, match="shared by another runner"):
        runner.release(foreign)

"""Measuring in rounds: the same scores as at once, stopped where the rule says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder, PreparedTasks
from robusttc.errors import DoubtWarning, WorkError
from robusttc.jobs import Job, Result, Runner, Shared
from robusttc.progress import ProgressEvent
from robusttc.transfer import (
    PairList,
    TransferScores,
    choose_pairs,
    count_entries,
    estimate_cost,
    measure_transfer,
    round_sizes,
)

N_TASKS = 52


class CountingEncoder(FeatureEncoder):
    """Counts how often tasks are prepared."""

    n_prepared = 0

    def prepare(self, *arguments: Any, **options: Any) -> PreparedTasks:
        self.n_prepared += 1
        return super().prepare(*arguments, **options)


def vector_tasks(n_tasks: int = N_TASKS, n_rows: int = 16) -> tuple[TaskSet, CountingEncoder]:
    generator = np.random.default_rng(n_tasks)
    names = [f"t{number}" for number in range(n_tasks - 1)] + ["round 2/t0"]
    codes = np.arange(n_rows) // 2 % 2
    splits = ["train" if row % 4 < 3 else "valid" for row in range(n_rows)]
    vectors = {}
    for number, name in enumerate(names):
        vectors[name] = generator.normal(size=(n_rows, 4)).astype(np.float32)
        vectors[name][:, number % 2] += 2 * codes - 1
    tasks = [
        Task(name, [f"{name} {row}" for row in range(n_rows)], codes.astype(str).tolist(), splits)
        for name in names
    ]
    return TaskSet(tasks), CountingEncoder(vectors)


class Recorder:
    """A rule that stops after so many rounds, and keeps what it was shown."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.seen: list[list[TransferScores]] = []

    def __call__(self, rounds: Sequence[TransferScores]) -> bool:
        self.seen.append(list(rounds))
        return len(rounds) == self.stop_after


class KeyRecorder(Runner):
    """Runs jobs in this process, and keeps their keys."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.n_shared = 0

    def share(self, data: Any) -> Shared:
        self.n_shared += 1
        return super().share(data)

    def run(self, stage: str, jobs: Sequence[Job], *rest: Any, **options: Any) -> list[Result | None]:
        self.calls.append([job.key for job in jobs])
        return super().run(stage, jobs, *rest, **options)


def refuse(rounds: Sequence[TransferScores]) -> bool:
    raise AssertionError(f"asked after {len(rounds)} rounds")


@pytest.mark.parametrize("n_tasks", [2, 50, 51, 60, 175, 300, 301, 1491, 20_000])
def test_rounds_grow_up_to_what_auto_measures(n_tasks: int) -> None:
    sizes = round_sizes(n_tasks)
    assert sizes[-1] == count_entries(n_tasks, "auto")
    assert (len(sizes) == 1) == (n_tasks <= 50)
    assert all(size % 2 == 0 for size in sizes)
    assert sizes[0] >= min(8 * n_tasks, sizes[-1])
    added = np.diff([0, *sizes])
    assert (added > 0).all()
    assert (np.diff(sizes) >= 0.25 * np.array(sizes[:-1])).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_rule_that_never_stops_changes_nothing(seed: int) -> None:
    tasks, encoder = vector_tasks()
    at_once = measure_transfer(tasks, encoder=encoder, random_state=seed)
    assert encoder.n_prepared == 1
    rule, runner = Recorder(), KeyRecorder()
    in_rounds = measure_transfer(tasks, encoder=encoder, stop=rule, runner=runner, random_state=seed)
    assert in_rounds == at_once
    assert in_rounds.content_hash == at_once.content_hash
    assert encoder.n_prepared == 2
    assert runner.n_shared == 1
    sizes = round_sizes(N_TASKS)
    # After the last round there is nothing left to decide.
    assert [len(rounds) for rounds in rule.seen] == list(range(1, len(sizes)))
    assert [len(one) for one in rule.seen[-1]] == np.diff([0, *sizes]).tolist()[:-1]
    keys = [key for call in runner.calls for key in call]
    assert len(set(keys)) == len(keys)
    assert {"transfer/round 1/round 2/t0", "transfer/round 2/t0"} <= set(keys)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_stopped_scores_are_those_of_the_same_pairs(n_workers: int) -> None:
    tasks, encoder = vector_tasks()
    sizes = round_sizes(N_TASKS)
    for stop_after in (1, 2) if n_workers == 1 else (2,):
        rule = Recorder(stop_after)
        stopped = measure_transfer(tasks, encoder=encoder, stop=rule, n_workers=n_workers, random_state=3)
        expected = measure_transfer(tasks, encoder=encoder, pairs=sizes[stop_after - 1], random_state=3)
        assert stopped == expected
        assert stopped.content_hash == expected.content_hash
        assert len(stopped) == sizes[stop_after - 1] < count_entries(N_TASKS, "auto")


def test_only_auto_is_stopped() -> None:
    tasks, encoder = vector_tasks()
    chosen = choose_pairs(tasks.names, 400, random_state=0)
    for pairs in ("all", 400, PairList(chosen.first, chosen.second)):
        scores = measure_transfer(tasks, encoder=encoder, pairs=pairs, stop=refuse)
        assert len(scores) == (count_entries(N_TASKS, "all") if pairs == "all" else 400)
    some = measure_transfer(tasks, encoder=encoder, pairs=400)
    more = measure_transfer(tasks, encoder=encoder, measured=some, stop=refuse)
    assert len(more) == count_entries(N_TASKS, "auto")


def test_few_tasks_and_trained_layers_are_measured_at_once() -> None:
    tasks, encoder = vector_tasks(10)
    assert len(measure_transfer(tasks, encoder=encoder, stop=refuse)) == 90
    tasks, encoder = vector_tasks(n_rows=8)
    scores = measure_transfer(tasks, encoder=encoder, kind="overlap", stop=refuse)
    assert len(scores) == count_entries(N_TASKS, "auto")
    runner = KeyRecorder()
    measure_transfer(tasks, encoder=encoder, kind="accuracy", stop=refuse, runner=runner)
    assert runner.calls == [[f"transfer/{name}" for name in tasks.names]]


@pytest.mark.parametrize("stop_after", [2, None])
def test_progress_is_one_bar(stop_after: int | None) -> None:
    tasks, encoder = vector_tasks()
    events: list[ProgressEvent] = []
    scores = measure_transfer(tasks, encoder=encoder, stop=Recorder(stop_after), progress=events.append)
    bar = [event for event in events if event.stage == "transfer"]
    assert (bar[0].done, bar[0].total, bar[0].unit) == (0, count_entries(N_TASKS, "auto"), "scores")
    assert (np.diff([event.done for event in bar]) >= 0).all()
    assert bar[-1].done == bar[-1].total == len(scores)


def test_the_cost_is_at_most_that() -> None:
    tasks, encoder = vector_tasks()
    cost = estimate_cost(tasks, encoder=encoder, stop=refuse)
    assert cost.at_most
    assert cost.n_scores == count_entries(N_TASKS, "auto")
    assert cost.describe().startswith("Measuring transfer: at most 2,652 scores, at most about ")
    others: list[dict[str, Any]] = [{}, {"stop": refuse, "pairs": 400}, {"stop": refuse, "kind": "accuracy"}]
    for options in others:
        cost = estimate_cost(tasks, encoder=encoder, **options)
        assert not cost.at_most
        assert "at most" not in cost.describe()


class Failing(KeyRecorder):
    """Gives up the jobs of some sources, as a run does with a job that keeps failing."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names

    def run(self, stage: str, jobs: Sequence[Job], *rest: Any, **options: Any) -> list[Result | None]:
        good = [job for job in jobs if job.tasks[0] not in self.names]
        results = iter(super().run(stage, good, *rest, **options))
        self.calls[-1] = [job.key for job in jobs]
        return [None if job.tasks[0] in self.names else next(results) for job in jobs]


def test_a_source_that_fails_is_tried_in_one_round_only() -> None:
    tasks, encoder = vector_tasks()
    runner = Failing({"t3"})
    with pytest.warns(DoubtWarning, match="left out: all scores of source 't3'$") as caught:
        scores = measure_transfer(tasks, encoder=encoder, stop=Recorder(), runner=runner)
    assert caught[0].filename == __file__
    assert [key for call in runner.calls for key in call if key.endswith("/t3")] == ["transfer/round 1/t3"]
    assert set(range(N_TASKS)) - set(scores.source.tolist()) == {3}
    assert 3 in scores.target
    with (
        pytest.warns(DoubtWarning, match="47 more"),
        pytest.raises(WorkError, match="no score could be measured"),
    ):
        measure_transfer(tasks, encoder=encoder, runner=Failing(set(tasks.names)))

"""Measuring in rounds as a part of a run: resumed to the same bytes, and what was saved is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_run

from robusttc.cli import main
from robusttc.clustering import StopRule
from robusttc.data import TaskSet, write_tasks
from robusttc.encoders import SentenceEncoder
from robusttc.jobs import Job, Runner, Stopped
from robusttc.run import Run
from robusttc.run.store import JobStore
from robusttc.transfer import measure_transfer, round_sizes

N_TASKS = 52


def many_tasks() -> TaskSet:
    return TaskSet(tiny_run.make_task(number) for number in range(N_TASKS))


class Dying(tiny_run.Inline):
    """Does so many units, and counts them."""

    def __init__(self, n_left: int) -> None:
        super().__init__()
        self.n_left = n_left
        self.done: list[str] = []

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:
        self.n_left -= 1
        self.done.append(job.key)
        super().submit(job, shared, time_limit)

    def is_dead(self) -> bool:
        return self.n_left <= 0


def test_a_run_that_was_killed_goes_on_to_the_same_scores(tmp_path: Path) -> None:
    tasks = many_tasks()
    encoder: Any = SentenceEncoder(tiny_run.tiny_model(), device="cpu")
    sizes = round_sizes(N_TASKS)
    bound = StopRule(min_gain=float("inf"))
    expected = measure_transfer(tasks, encoder=encoder, stop=bound)
    assert bound.stopped
    assert len(expected) in sizes[:-1]
    done: list[str] = []
    scores = None
    with JobStore(tmp_path / "jobs.sqlite") as store:
        # Killed in the middle of each of the four rounds.
        for n_left in (20, 52, 52, 52, 1000):
            executor = Dying(n_left)
            runner = Runner(executor, store, stop=executor.is_dead)
            rule = StopRule(min_gain=float("inf"))
            try:
                scores = measure_transfer(tasks, encoder=encoder, stop=rule, runner=runner)
            except Stopped:
                assert n_left < 1000
            done += executor.done
    assert scores == expected
    assert rule == bound
    n_redone = len(done) - len(set(done))
    assert n_redone <= 4 * 2  # what was under way when it was killed
    assert {key.split("/")[1] for key in done} == {"round 1", "round 2", "round 3", "round 4"}


def test_a_run_says_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("robusttc.run.fit.make_executor", lambda *_, **__: tiny_run.Inline())
    monkeypatch.setattr("robusttc.run.fit.StopRule", lambda: StopRule(min_gain=float("inf")))
    write_tasks(many_tasks(), tmp_path / "tasks")
    out = tmp_path / "run"
    assert main([*tiny_run.fit_options(tmp_path / "tasks"), "--out", str(out)]) == 0
    n_planned = 51 * 50  # one task is private
    n_scores = round_sizes(51)[3]
    sentence = (
        f"Measured {n_scores:,} of {n_planned:,} scores: more would hardly predict the rest better "
        f"({100 * (1 - n_scores / n_planned):.0f} % saved)."
    )
    assert sentence in capsys.readouterr().out
    summary = json.loads((out / "current" / "summary.json").read_text())
    assert summary["transfer"]["n_scores"] == n_scores
    assert summary["transfer"]["stopped_early"] == {
        "n_scores": n_scores,
        "n_planned": n_planned,
        "sentence": sentence,
    }
    assert (out / "current" / "scores.csv").read_text().count("\n") == n_scores + 1


def test_a_run_that_measures_everything_saves_nothing() -> None:
    summary = Run(tiny_run.finished_run()).summary
    assert summary["transfer"]["stopped_early"] is None


def test_measure_says_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("robusttc.clustering.stop_rule.StopRule", lambda: StopRule(min_gain=float("inf")))
    write_tasks(many_tasks(), tmp_path / "tasks")
    out = tmp_path / "scores.csv"
    words = ["measure", str(tmp_path / "tasks"), "--model", str(tiny_run.tiny_model()), "--out", str(out)]
    assert main(words) == 0
    captured = capsys.readouterr()
    n_planned, n_scores = N_TASKS * (N_TASKS - 1), round_sizes(N_TASKS)[3]
    assert f"at most {n_planned:,} scores" in captured.err
    assert f"Measured {n_scores:,} of {n_planned:,} scores: " in captured.out
    assert main([*words, "--pairs", "all", "--extend", str(out)]) == 0
    captured = capsys.readouterr()
    assert "at most" not in captured.err
    assert "saved" not in captured.out
    assert out.read_text().count("\n") == n_planned + 1

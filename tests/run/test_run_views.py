"""How a run is shown while it goes, and how it is stopped."""

from __future__ import annotations

import io
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from robusttc.cli import stopping
from robusttc.cli.adapt import show_adapted
from robusttc.cli.run_progress import Watch, draw, show_stages
from robusttc.cli.run_view import percent, show_run
from robusttc.cli.stopping import RunStoppedError, stop_on_signals
from robusttc.data import Task
from robusttc.progress import ProgressEvent
from robusttc.stats import Estimate


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def event(stage: str, done: int, total: int, unit: str = "tasks") -> ProgressEvent:
    return ProgressEvent(stage, done, total, unit)


def test_plain_lines_come_now_and_then() -> None:
    shown, clock = io.StringIO(), Clock()
    with show_stages(console=Console(file=shown), clock=clock) as progress:
        assert progress is not None
        progress(event("transfer", 0, 0))
        progress(event("transfer", 100, 1000))  # found in the store
        for done in range(100, 1000, 20):
            clock.seconds += 1
            progress(event("transfer", done, 1000))
        progress(event("cluster", 0, 1, "cluster\x1bings"))
        clock.seconds += 2
    lines = shown.getvalue().splitlines()
    assert lines[0] == "transfer …"
    # 9 steps of 20 in 10 seconds, since the first of them found nothing new.
    assert lines[1] == "transfer: 280 of 1,000 tasks, 18.0/s, 40 s left"
    assert len(lines) == 8
    assert lines[-3:] == [
        "transfer: done in 45 s",
        "cluster: 0 of 1 cluster\\x1bings",
        "cluster: done in 2 s",
    ]


def test_what_was_found_finished_does_not_count_as_speed() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.take(event("transfer", 500, 1000))
    clock.seconds = 10
    state = watch.take(event("transfer", 510, 1000))
    assert watch.rate(state) == 1.0
    # Another step of the stage has a pace of its own.
    assert watch.rate(watch.take(event("transfer", 3, 20, "models"))) is None
    clock.seconds = 14
    assert watch.rate(watch.take(event("transfer", 5, 20, "models"))) == 0.5


def test_a_terminal_gets_a_table_of_all_stages() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.take(event("encode", 0, 0))
    clock.seconds = 75
    watch.take(event("transfer", 0, 400))
    clock.seconds = 95
    watch.take(event("transfer", 100, 400))
    shown = io.StringIO()
    Console(file=shown, width=100).print(draw(watch))
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    assert lines[0] == "encode done 1:15"
    assert lines[1].startswith("transfer ━")
    assert lines[1].endswith("100/400 tasks 20 s, 5.0/s, 1:00 left")
    assert lines[2:6] == ["cluster", "multitask", "fewshot", "evaluate"]
    assert lines[6].startswith("1:35, ")
    assert lines[6].endswith("B in this process")
    drawn = io.StringIO()
    with show_stages(console=Console(file=drawn, force_terminal=True, width=100), clock=clock) as progress:
        assert progress is not None
        progress(event("encode", 1, 2))
    assert "done" in drawn.getvalue()


def test_quiet_shows_nothing() -> None:
    shown = io.StringIO()
    with show_stages(console=Console(file=shown), quiet=True) as progress:
        assert progress is None
    assert shown.getvalue() == ""


def test_the_first_signal_asks_and_the_second_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals(end=ended.append) as stop:
        assert not stop()
        signal.raise_signal(signal.SIGTERM)
        assert stop()
        assert ended == []
        signal.raise_signal(signal.SIGINT)
        assert ended == [130]
    assert signal.getsignal(signal.SIGTERM) is before
    assert capsys.readouterr().err == "Stopping: what is finished is kept …\n"


def test_a_signal_in_the_middle_of_a_line_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    printing = threading.Lock()
    printed: list[str] = []

    class BusyConsole:
        """Prints one line at a time, as a stream does."""

        def print(self, text: str, **_: object) -> None:
            if threading.current_thread() is threading.main_thread():
                raise RuntimeError("reentrant call")
            with printing:
                printed.append(text)

    monkeypatch.setattr(stopping, "error_console", BusyConsole)
    with stop_on_signals(end=lambda _: None) as stop:
        with printing:  # the main thread is in the middle of a line
            signal.raise_signal(signal.SIGINT)
        assert stop()
    assert len(printed) == 1


def test_work_that_does_not_notice_is_cut_short() -> None:
    ended: list[int] = []
    with stop_on_signals(quiet=True, patience=0.05, end=ended.append):
        signal.raise_signal(signal.SIGINT)
        deadline = time.monotonic() + 5
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ended == [130]


def test_a_stopped_run_has_the_code_of_the_shells() -> None:
    assert int(RunStoppedError(Path("run")).exit_code) == 130


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (None, ""),
        (Estimate(-0.0001, -0.02, 0.03, 4), "+0.0 [-2.0, +3.0]"),
        (Estimate(0.5, float("-inf"), float("inf"), 1), "+50.0 [?, ?]"),
    ],
)
def test_percent(estimate: Estimate | None, expected: str) -> None:
    assert percent(estimate, sign="+") == expected


def test_an_added_task_is_shown_with_its_clusters() -> None:
    def show(**facts: Any) -> str:
        values = {
            "name": "new",
            "label_names": ("x", "y"),
            "support_accuracy_": 0.5,
            "weights_": {0: 0.25, 2: 0.75},
            "out_of_cluster_": False,
            "nearest_tasks_": (),
        }
        shown = io.StringIO()
        task = Task("new", ["a", "b"], ["x", "y"])
        model: Any = SimpleNamespace(**{**values, **facts})
        opened: Any = SimpleNamespace(fewshot=SimpleNamespace(clusters_serve_=True))
        show_adapted(Console(file=shown, width=80), model, task, opened, Path("run"))
        return shown.getvalue()

    text = show()
    assert "50% of them are predicted right" in text
    assert "Clusters that it mixes: 2 (75%), 0 (25%)." in text
    assert "adapt again with --replace" in text
    assert "Most like it" not in text
    text = show(support_accuracy_=float("nan"), weights_={}, out_of_cluster_=True)
    assert "How well is not known" in text
    assert "Clusters that it mixes" not in text
    assert "a model of its own serves" in text
    assert "--replace" not in text


def test_what_went_wrong_is_shown() -> None:
    shown = io.StringIO()
    unit = {"stage": "transfer", "key": "transfer/a", "error": "poi\x1bson", "tasks": ["a"]}
    summary: dict[str, Any] = {
        "tasks": {"n": 3, "n_learned": 2, "n_private": 0, "n_rows": 30},
        "clusters": None,
        "transfer": None,
        "multitask": {"verdict": None},
        "fewshot": None,
        "evaluation": {"means": {}, "gains": {}, "tasks": []},
        "doubts": ["It is doubtful."],
        "quarantined": [{**unit, "key": f"transfer/{number}"} for number in range(7)],
        "costs": [],
    }
    show_run(Console(file=shown, width=80), Path("run"), summary)
    text = shown.getvalue()
    for words in (
        "No clusters: ",
        "No task has test rows to tell by.",
        "Doubtful: It is doubtful.",
        "Left out: 7 units of work (--retry tries again):",
        "  transfer/0: poi\\x1bson",
        "  … and 2 more in summary.json",
        "In run: models/, clusters.csv, summary.json.",
    ):
        assert words in text
    assert "robusttc adapt" not in text

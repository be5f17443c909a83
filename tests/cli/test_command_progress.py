"""How far a command is, and how it is stopped."""

from __future__ import annotations

import io
import signal
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from robusttc.cli import progress as cli_progress
from robusttc.cli.progress import FIT_STAGES, RunStoppedError, show_progress, stop_on_signals
from robusttc.progress import ProgressEvent


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
    with show_progress(console=Console(file=shown), clock=clock, seconds_between_lines=10) as progress:
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
    assert lines[1] == "transfer: 280 of 1,000 tasks, 10 s, 18.0/s, 40 s left"
    assert len(lines) == 8
    assert lines[-3:] == [
        "transfer: done in 45 s",
        "cluster: 0 of 1 cluster\\x1bings",
        "cluster: done in 2 s",
    ]


def test_there_is_no_silence_while_nothing_is_reported() -> None:
    shown = io.StringIO()
    deadline = time.monotonic() + 10
    with show_progress(console=Console(file=shown), seconds_between_lines=0.02) as progress:
        assert progress is not None
        progress(event("multitask", 3, 9, "models"))
        while shown.getvalue().count("multitask: 3 of 9 models") < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert shown.getvalue().count("multitask: 3 of 9 models") >= 4


def test_every_step_of_a_stage_has_a_pace_of_its_own() -> None:
    shown, clock = io.StringIO(), Clock()
    with show_progress(console=Console(file=shown), clock=clock, seconds_between_lines=4) as progress:
        assert progress is not None
        for seconds, one in (
            (0, event("transfer", 500, 1000)),
            (10, event("transfer", 510, 1000)),
            (11, event("transfer", 3, 20, "models")),
            (15, event("transfer", 5, 20, "models")),
        ):
            clock.seconds = seconds
            progress(one)
    assert shown.getvalue().splitlines() == [
        "transfer: 500 of 1,000 tasks",
        "transfer: 510 of 1,000 tasks, 10 s, 1.0/s, 8:10 left",
        "transfer: 5 of 20 models, 15 s, 0.5/s, 30 s left",
        "transfer: done in 15 s",
    ]


def test_a_terminal_gets_a_table_of_all_stages() -> None:
    clock, drawn = Clock(), io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=100, color_system=None)
    with show_progress(stages=FIT_STAGES, console=console, clock=clock) as progress:
        assert progress is not None
        progress(event("encode", 0, 0))
        clock.seconds = 75
        progress(event("trans\x1bfer", 0, 400))
        clock.seconds = 95
        progress(event("trans\x1bfer", 100, 400))
        deadline = time.monotonic() + 10
        while "1:00 left" not in drawn.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
    lines = [" ".join(line.split()) for line in drawn.getvalue().splitlines()]
    assert any("encode" in line and line.endswith("done 1:15") for line in lines)
    assert any("100 of 400 tasks 20 s, 5.0/s, 1:00 left" in line for line in lines)
    assert any(line.endswith("trans\\x1bfer done 20 s") for line in lines)
    assert {"cluster", "multitask", "fewshot", "evaluate"} <= set(lines)


def test_quiet_shows_nothing() -> None:
    shown = io.StringIO()
    with show_progress(console=Console(file=shown), quiet=True) as progress:
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

    monkeypatch.setattr(cli_progress, "error_console", BusyConsole)
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

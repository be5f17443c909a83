"""Progress events, the throttle in front of a callback, and the default bar."""

from __future__ import annotations

import dataclasses
import io
import sys
import types

import pytest

from robusttc import Task, TaskSet, measure_transfer, progress
from robusttc.errors import UsageError
from robusttc.progress import (
    ProgressBar,
    ProgressEvent,
    no_default_bar,
    report,
    resolve_progress,
)


def test_no_callback_is_silence(capsys: pytest.CaptureFixture[str]) -> None:
    report(None, "transfer", 1, 2, "tasks")
    assert capsys.readouterr() == ("", "")


def test_the_callback_gets_the_event() -> None:
    seen: list[ProgressEvent] = []
    report(seen.append, "transfer", 1, 2, "tasks", detail="acme")
    assert seen == [ProgressEvent("transfer", 1, 2, "tasks", "acme")]
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen[0].done = 2  # type: ignore[misc]


class Terminal(io.StringIO):
    """A terminal in memory."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)


def draw(events: list[ProgressEvent], stream: io.StringIO) -> ProgressBar:
    bar = ProgressBar(stream)
    for event in events:
        bar(event)
    return bar


def steps(stage: str, dones: list[int], total: int) -> list[ProgressEvent]:
    return [ProgressEvent(stage, done, total, "tasks") for done in dones]


def final_lines(stream: io.StringIO) -> list[str]:
    """Return all lines as they look in the end."""
    return [line.rpartition("\r")[2].strip() for line in stream.getvalue().strip("\n").split("\n")]


def test_bar_draws_one_line_per_stage() -> None:
    stream = Terminal()
    draw([*steps("transfer", [0, 50, 51, 100], 100), *steps("train", [0, 2, 4], 4)], stream)
    transfer, train = final_lines(stream)
    assert transfer.startswith("transfer: 100%|")
    assert "100/100" in transfer
    assert train.startswith("train: 100%|")


def test_stage_that_takes_no_time_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_SECONDS", 60.0)
    stream = Terminal()
    draw(steps("transfer", [0, 1, 2], 2), stream)
    assert stream.getvalue() == ""


def test_stage_that_is_not_finished_leaves_its_line() -> None:
    stream = Terminal()
    draw([*steps("train", [0, 1], 2), *steps("next", [0, 1, 2], 2)], stream)
    assert [line.split(":")[0] for line in final_lines(stream)] == ["train", "next"]


def test_two_bars_are_never_drawn_at_once() -> None:
    stream = Terminal()
    outer = draw(steps("outer", [0, 1], 3), stream)
    draw(steps("inner", [0, 1, 2], 2), stream)
    assert "inner" not in stream.getvalue()
    for event in steps("outer", [2, 3], 3):
        outer(event)
    draw(steps("inner", [0, 1, 2], 2), stream)
    assert [line.split(":")[0] for line in final_lines(stream)] == ["outer", "inner"]
    # One that an error has ended is no obstacle.
    draw(steps("lost", [0, 1], 3), stream)
    draw(steps("after", [0, 1, 2], 2), stream)
    assert "after" in stream.getvalue()


def test_terminal_that_is_gone_does_not_stop_the_work() -> None:
    stream = Terminal()
    bar = draw(steps("train", [0, 1], 3), stream)
    stream.close()
    bar(ProgressEvent("train", 2, 3, "tasks"))
    bar(ProgressEvent("train", 3, 3, "tasks"))


def test_default_bar_is_for_terminals_and_notebooks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert resolve_progress(True) is None
    notebook = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: notebook))
    assert isinstance(resolve_progress(True), ProgressBar)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert resolve_progress(True) is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(resolve_progress(True), ProgressBar)
    with no_default_bar():
        assert resolve_progress(True) is None
        assert resolve_progress(print) is print
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    assert resolve_progress(True) is None
    monkeypatch.setattr(sys, "stderr", None)
    assert resolve_progress(True) is None


def test_progress_can_be_off_or_a_callback() -> None:
    assert resolve_progress(None) is resolve_progress(False) is None
    assert resolve_progress(print) is print
    with pytest.raises(UsageError, match="progress cannot be used; got 'yes'; expected True, False"):
        resolve_progress("yes")  # type: ignore[arg-type]


def two_tasks() -> TaskSet:
    rows = (["hello", "good morning", "bye", "see you"] * 4, ["greet", "greet", "leave", "leave"] * 4)
    return TaskSet([Task(name, *rows) for name in "ab"])


def test_library_prints_nothing_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    measure_transfer(two_tasks(), encoder="cnn")
    assert capfd.readouterr() == ("", "")


def test_public_functions_draw_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    measure_transfer(two_tasks(), encoder="cnn", progress=False)
    assert stream.getvalue() == ""
    measure_transfer(two_tasks(), encoder="cnn")
    assert "transfer" in stream.getvalue()
    assert stream.getvalue().endswith("\n")

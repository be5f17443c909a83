"""Progress events, and the throttle in front of a callback."""

from __future__ import annotations

import dataclasses

import pytest

from robusttc.progress import ProgressEvent, at_most_every, report


def test_no_callback_is_silence(capsys: pytest.CaptureFixture[str]) -> None:
    report(None, "transfer", 1, 2, "tasks")
    assert capsys.readouterr() == ("", "")


def test_the_callback_gets_the_event() -> None:
    seen: list[ProgressEvent] = []
    report(seen.append, "transfer", 1, 2, "tasks", detail="acme")
    assert seen == [ProgressEvent("transfer", 1, 2, "tasks", "acme")]
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen[0].done = 2  # type: ignore[misc]


def run_throttled(times: list[float], events: list[ProgressEvent]) -> list[ProgressEvent]:
    seen: list[ProgressEvent] = []
    throttled = at_most_every(seen.append, 1.0, clock=iter(times).__next__)
    for event in events:
        throttled(event)
    return seen


def test_throttle_lets_first_last_and_due_ones_through() -> None:
    events = [ProgressEvent("train", done, 5, "steps") for done in range(6)]
    seen = run_throttled([0.0, 0.1, 0.9, 1.0, 1.9, 1.95], events)
    assert [event.done for event in seen] == [0, 3, 5]


def test_throttle_knows_a_new_stage() -> None:
    events = [
        ProgressEvent("encode", 0, 9, "texts"),
        ProgressEvent("encode", 8, 9, "texts"),
        ProgressEvent("train", 0, 9, "steps"),
        ProgressEvent("train", 1, 9, "steps"),
        ProgressEvent("encode", 9, 9, "texts"),
    ]
    seen = run_throttled([0.0, 0.1, 0.2, 0.3, 0.4], events)
    assert seen == [events[0], events[2], events[4]]


def test_throttle_with_the_real_clock() -> None:
    seen: list[ProgressEvent] = []
    throttled = at_most_every(seen.append, 3600.0)
    for done in range(1, 1001):
        report(throttled, "train", done, 1000, "steps")
    assert [event.done for event in seen] == [1, 1000]

"""What a worker does with one unit."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from robusttc.errors import DataError
from robusttc.work import performing
from robusttc.work.packing import unpack
from robusttc.work.performing import describe_error, failed, outcome_of, perform, revive
from robusttc.work.units import Payload


class NotTheSameError(Exception):
    """Can be pickled, but not made again."""

    def __init__(self, first: str, _second: str) -> None:
        super().__init__(first)


class NotPickledError(Exception):
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("no")


def add(data: float, argument: float) -> Payload:
    return Payload({"sum": data + argument}, {"array": np.arange(3) + argument})


def spend(_data: Any, argument: int) -> Payload:
    return Payload({"sum": sum(range(argument))})


def fail(_data: Any, argument: BaseException) -> Payload:
    raise argument


def test_result_is_packed_and_measured() -> None:
    report = perform(add, 2.0, 1.5)
    assert report.content is not None
    assert unpack(report.content).values == {"sum": 3.5}
    report = perform(spend, 1_000_000, None)
    assert report.error is None
    assert 0 < report.cpu_seconds <= report.seconds * 1.5
    assert 10_000_000 < report.peak_bytes < 100_000_000_000
    outcome = outcome_of(7, report)
    assert (outcome.ticket, outcome.kind, outcome.content) == (7, "done", report.content)


@pytest.mark.parametrize(
    "error", [ValueError("not so"), SystemExit(3), MemoryError(), DataError("bad", where="a:1")]
)
def test_error_travels(error: BaseException) -> None:
    report = perform(fail, error, None)
    outcome = outcome_of(1, report)
    assert outcome.kind == "raised"
    assert outcome.content is None
    assert type(outcome.exception) is type(error)
    assert str(outcome.exception) == str(error)
    assert any("in fail" in note for note in outcome.exception.__notes__)


def test_keyboard_interrupt_is_not_a_failure_of_the_unit() -> None:
    with pytest.raises(KeyboardInterrupt):
        perform(fail, KeyboardInterrupt(), None)


@pytest.mark.parametrize("error", [NotTheSameError("one", "two"), NotPickledError("x")])
def test_error_that_cannot_travel_keeps_its_words(error: Exception) -> None:
    outcome = outcome_of(1, pickle.loads(pickle.dumps(perform(fail, error, None))))  # noqa: S301
    assert outcome.exception is None
    assert outcome.error is not None
    assert outcome.error.startswith(type(error).__name__)


def test_what_is_no_error_is_not_revived() -> None:
    assert revive(pickle.dumps("words")) is None
    assert revive(b"\x80nonsense") is None
    assert revive(None) is None


def test_result_that_cannot_be_packed_is_an_error() -> None:
    def nonsense(_data: Any, _argument: Any) -> Payload:
        return Payload({"answer": float("nan")})

    report = perform(nonsense, None, None)
    assert report.error is not None
    assert "JSON" in report.error


def test_error_is_one_line_with_its_place() -> None:
    with pytest.raises(ValueError, match="one") as caught:
        fail(None, ValueError("one\n  two"))
    assert describe_error(caught.value).startswith("ValueError: one two (test_performing.py:")
    assert describe_error(caught.value).endswith("in fail)")
    assert describe_error(KeyError()) == "KeyError"
    assert describe_error(DataError("bad row", where="a.csv:3")) == "a.csv:3: bad row"
    assert failed(DataError("bad row")).error == "bad row"


def test_threads_are_pinned_when_libraries_were_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=2):
        monkeypatch.setattr(performing, "_n_modules_pinned", 0)
        if not any(library["num_threads"] == 2 for library in threadpool_info()):
            pytest.skip("no library here takes two threads")
        performing.pin_threads()
        assert {library["num_threads"] for library in threadpool_info()} == {1}
        monkeypatch.setattr(performing, "_n_modules_pinned", performing._n_modules_pinned)


def test_environment_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in performing.THREAD_VARIABLES:
        monkeypatch.setenv(name, "4")
    performing.pin_environment()
    assert {os.environ[name] for name in performing.THREAD_VARIABLES} == {"1"}

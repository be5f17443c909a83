"""Results as bytes, errors between processes, and one thread per job."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from robusttc.errors import DataError, StoreError, UsageError
from robusttc.jobs import Job, Result, pack, unpack
from robusttc.jobs import job as module
from robusttc.jobs.job import Outcome, describe_error, one_thread, run_job, run_pickled

ARRAYS = {
    "doubles": np.linspace(0, 1, 7).reshape(7, 1),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "every second": np.arange(10)[::2],
    "big-endian": np.arange(3, dtype=">i4"),
    "nan": np.array([np.nan, np.inf]),
    "empty": np.zeros((0, 3)),
    "scalar": np.array(2.5),
    "flags": np.array([True, False]),
}


def test_results_come_back_from_bytes() -> None:
    values = {"name": "größe", "list": [1, 2.5, None, True], "nested": {"a": {"b": 0}}}
    back = unpack(pack(Result(values, ARRAYS)))
    assert back.values == values
    assert back.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(back.arrays[name], array)
        assert back.arrays[name].flags.writeable
    assert unpack(pack(Result())).arrays == {}


def test_equal_results_have_equal_bytes() -> None:
    one = Result({"a": 1, "b": 2}, {"x": ARRAYS["columns"], "y": ARRAYS["scalar"]})
    other = Result({"b": 2, "a": 1}, {"y": ARRAYS["scalar"], "x": ARRAYS["columns"].copy(order="C")})
    assert pack(one) == pack(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes", np.float32(1)])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="JSON"):
        pack(Result({"value": value}))


def test_damaged_bytes_are_refused() -> None:
    content = pack(Result({"a": 1}, {"x": np.arange(5)}))
    damaged = [b"", content[:20], content[:-1], content.replace(b"values", b"valuex"), content + b"x"]
    damaged.append(content.replace(b'{"a":1}', b'["a",1]'))
    assert len({content, *damaged}) == 7
    for bad in damaged:
        with pytest.raises(StoreError, match="unit 7: a stored result is damaged"):
            unpack(bad, where="unit 7")


class NotTheSameError(Exception):
    """Can be pickled, but not restored."""

    def __init__(self, first: str, _second: str) -> None:
        super().__init__(first)


class NotPickledError(Exception):
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("no")


ERRORS: list[BaseException] = [NotTheSameError("one", "two"), NotPickledError("x")]


def fail(_data: Any, argument: BaseException | int) -> Result:
    raise ERRORS[argument] if isinstance(argument, int) else argument


def run_in_worker(argument: Any) -> Outcome:
    """Run a job as a worker does, and send its outcome as a worker does."""
    outcome = run_pickled("a", pickle.dumps(Job("a", fail, argument)), lambda: None)
    sent: Outcome = pickle.loads(pickle.dumps(outcome))  # noqa: S301
    return sent


@pytest.mark.parametrize(
    "error", [ValueError("not so"), SystemExit(3), MemoryError(), DataError("bad", where="a:1")]
)
def test_error_travels(error: BaseException) -> None:
    outcome = run_in_worker(error)
    assert (outcome.key, outcome.kind, outcome.content) == ("a", "raised", None)
    assert outcome.exception is not None
    assert type(outcome.exception) is type(error)
    assert str(outcome.exception) == str(error)
    assert any("in fail" in note for note in outcome.exception.__notes__)


@pytest.mark.parametrize("number", [0, 1])
def test_error_that_cannot_travel_keeps_its_words(number: int) -> None:
    outcome = run_in_worker(number)
    assert outcome.exception is None
    assert str(outcome.error).startswith(type(ERRORS[number]).__name__)


def test_what_is_no_job_is_a_failure() -> None:
    outcome = run_pickled("a", b"nonsense", lambda: None)
    assert "UnpicklingError" in str(outcome.error)


def test_interrupt_is_no_failure_of_the_job() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_job(Job("a", fail, KeyboardInterrupt()), None)


def test_error_is_one_line_with_its_place() -> None:
    with pytest.raises(ValueError, match="one") as caught:
        fail(None, ValueError("one\n  two"))
    assert describe_error(caught.value).startswith("ValueError: one two (test_job.py:")
    assert describe_error(caught.value).endswith("in fail)")
    assert describe_error(KeyError()) == "KeyError"
    assert describe_error(DataError("bad row", where="a.csv:3")) == "a.csv:3: bad row"


def test_threads_are_limited_inside_a_job_and_given_back() -> None:
    import torch

    before = torch.get_num_threads()
    with threadpool_limits(limits=2):
        if not any(library["num_threads"] == 2 for library in threadpool_info()):
            pytest.skip("no library here takes two threads")
        torch.set_num_threads(2)
        counts = {library["filepath"]: library["num_threads"] for library in threadpool_info()}
        try:
            with one_thread():
                assert {library["num_threads"] for library in threadpool_info()} == {1}
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 2
            assert counts == {library["filepath"]: library["num_threads"] for library in threadpool_info()}
        finally:
            torch.set_num_threads(before)


def test_environment_of_workers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in module.THREAD_VARIABLES:
        monkeypatch.setenv(name, "4")
    module.limit_environment()
    assert {os.environ[name] for name in module.THREAD_VARIABLES} == {"1"}

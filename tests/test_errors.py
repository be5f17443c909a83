"""The tree of errors and the shape of their messages."""

from __future__ import annotations

import inspect
import pickle

import pytest

from robusttc import errors
from robusttc.errors import (
    DataError,
    ExitCode,
    Problem,
    RobustTCError,
    StoreError,
    TaskFilesError,
    UnknownTaskError,
    UsageError,
    nearest_name,
    quote,
)


def test_every_error_is_in_the_tree_and_in_the_docstring() -> None:
    for name, value in inspect.getmembers(errors, inspect.isclass):
        if issubclass(value, Exception) and value.__module__ == errors.__name__:
            assert issubclass(value, RobustTCError | errors.RobustTCWarning)
            assert name in (errors.__doc__ or "")
            assert name in errors.__all__


@pytest.mark.parametrize(
    ("error", "built_in", "code"),
    [
        (UsageError("x"), ValueError, 2),
        (DataError("x"), ValueError, 4),
        (UnknownTaskError("a", ["b"]), KeyError, 4),
        (StoreError("x"), OSError, 5),
    ],
)
def test_built_in_parent_and_exit_code(error: RobustTCError, built_in: type, code: int) -> None:
    assert isinstance(error, built_in)
    assert error.exit_code == code


def test_message_has_all_parts_in_order() -> None:
    error = DataError("empty text", where="a.csv:3", got="''", expected="a text", todo="write one")
    assert str(error) == "a.csv:3: empty text; got ''; expected a text. Write one"


def test_unknown_task_names_the_nearest() -> None:
    message = str(UnknownTaskError("acmee", ["acme", "globex"]))
    assert message == "no task has this name; got 'acmee'; expected one of 2 task names. Did you mean 'acme'?"
    assert "did you mean" not in str(UnknownTaskError(3, ["acme"])).lower()


def test_twenty_problems_are_listed_and_the_rest_counted() -> None:
    problems = [Problem("a.csv", "empty text", line=number, todo="write one") for number in range(2, 27)]
    message = str(TaskFilesError(problems, 25, todo="mend them"))
    lines = message.splitlines()
    assert lines[0] == "25 problems in the task files:"
    assert lines[1] == "  a.csv:2: empty text. Write one"
    assert lines[2] == "  a.csv:3: empty text"  # the same advice is given once
    assert lines[20] == "  a.csv:21: empty text"
    assert lines[21:] == ["  … and 5 more", "What to do: mend them"]


def test_problem_places() -> None:
    assert Problem("a", "x").place == "a"
    assert Problem("a", "x", line=3).place == "a:3"
    assert Problem("a", "x", line=3, column=4).place == "a:3:4"
    assert Problem("a", "x", line=3, unit="row").place == "a:row 3"


def test_quote_is_one_short_line() -> None:
    assert quote("a\nb") == r"'a\nb'"
    assert len(quote("x" * 1000)) == 60


def test_nearest_name() -> None:
    assert nearest_name("tset", ["train", "test"]) == "test"
    assert nearest_name("zzz", ["train", "test"]) is None


def test_exit_codes_are_those_of_the_manual() -> None:
    assert [int(code) for code in ExitCode] == [0, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "error",
    [
        DataError("x", where="w", got="g", expected="e", todo="t"),
        UnknownTaskError("a", ["b"]),
        TaskFilesError([Problem("a", "x", line=1)], 3, todo="t"),
        StoreError("x", where="w"),
    ],
)
def test_errors_cross_process_borders(error: RobustTCError) -> None:
    # Workers hand their errors to the driver pickled; what is lost there is lost to the user.
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(back) is type(error)
    assert str(back) == str(error)

"""Parameter constraints: what they accept, and what the message says."""

from __future__ import annotations

import numpy as np
import pytest

from robusttc.errors import UsageError
from robusttc.params import Boolean, Choice, Constraint, Integer, Nothing, Number, check_param, check_params

POSITIVE = Number(0, excludes=("low",))


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Integer(1, 5), [1, 5, np.int64(3), np.uint8(2)], [0, 6, 2.0, True, "2", None, np.bool_(True)]),
        (Integer(), [-10, 0, 10**30], [0.5, float("nan")]),
        (Number(0, 1), [0, 1, 0.5, np.float32(0.5), np.int64(1)], [-0.1, 1.1, True, "0.5", None]),
        (POSITIVE, [1e-300, 3], [0, -1, float("inf"), float("nan"), np.nan]),
        (Number(0, 1, ("low", "high")), [0.5], [0, 1]),
        (Choice("auto", "never"), ["auto", "never"], ["Auto", None, 1, ["auto"], np.array(["auto"])]),
        (Boolean(), [True, False, np.bool_(True)], [0, 1, "yes", None]),
        (Nothing(), [None], [0, False, ""]),
    ],
)
def test_constraints(constraint: Constraint, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not constraint.accepts(value)] == []
    assert [value for value in bad if constraint.accepts(value)] == []


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Integer(1, 5000), "an integer from 1 to 5,000"),
        (Integer(high=3), "an integer up to 3"),
        (Integer(), "an integer"),
        (POSITIVE, "a positive number"),
        (Number(0), "a number from 0 up"),
        (Number(0, 1), "a number from 0 to 1"),
        (Number(0, 1, ("low",)), "a number above 0 and up to 1"),
        (Number(0, 1, ("low", "high")), "a number above 0 and below 1"),
        (Number(0, 1, ("high",)), "a number from 0 and below 1"),
        (Number(high=2), "a number up to 2"),
        (Number(), "a number"),
        (Choice("a"), "'a'"),
        (Choice("a", "b", "c"), "'a', 'b' or 'c'"),
    ],
)
def test_constraints_say_what_is_allowed(constraint: Constraint, words: str) -> None:
    assert str(constraint) == words


def test_the_message_names_parameter_value_and_the_nearest_choice() -> None:
    with pytest.raises(UsageError, match=r"rule cannot be used; got 'bth'; .*'both' or 'any'.*mean 'both'"):
        check_param("rule", "bth", Choice("both", "any"))
    with pytest.raises(UsageError, match="got nan; expected None or a positive number"):
        check_param("tol", float("nan"), Nothing(), POSITIVE)


def test_only_constrained_parameters_are_checked() -> None:
    check_params({"tol": 1, "other": object()}, {"tol": (POSITIVE,)})
    with pytest.raises(UsageError, match="tol cannot be used"):
        check_params({"tol": -1}, {"tol": (POSITIVE,)})

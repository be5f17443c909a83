"""Scores on their way into the store: what cannot come back as it was is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.errors import UnknownTaskError, UsageError
from robusttc.run.score_rows import ScoreRows, digest_scores, number_columns

NUMBERS = {"a": 0, "b": 1, "c": 2}


def test_columns_become_arrays_of_their_type() -> None:
    rows = ScoreRows("a", ["c", "b"], [1, 2], n_examples=np.array([3, 4], dtype=np.uint8))
    assert rows.score.dtype == np.float64
    assert rows.n_examples is not None
    assert rows.n_examples.dtype == np.int64
    assert rows.given == ("score", "n_examples")
    assert len(rows) == 2
    given = np.array([1.0, 2.0])
    kept = ScoreRows("a", ["c", "b"], given)
    given[:] = 9
    assert kept.score.tolist() == [1, 2]


def test_rows_are_numbered_in_the_order_of_targets() -> None:
    source, columns = number_columns(ScoreRows("b", ["c", "a"], [0.5, -0.0]), NUMBERS)
    assert source == 1
    assert columns["target"] is not None
    assert columns["score"] is not None
    assert columns["target"].tolist() == [0, 2]
    assert columns["score"].tobytes() == np.array([0.0, 0.5]).tobytes()  # no minus zero
    assert columns["n_examples"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"score": [0.5]},
        {"score": [[0.5, 0.5]]},
        {"score": [0.5, np.nan]},
        {"score": [0.5, np.inf]},
        {"score": ["0.5", "1"]},
        {"score": [True, False]},
        {"score": [0.5, 0.5], "n_examples": [1.5, 2.0]},
        {"score": [0.5, 0.5], "standard_error": [0.5]},
        {"score": [0.5, 0.5], "first_half": [0.5, None]},
    ],
)
def test_what_cannot_be_stored_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="cannot be stored"):
        ScoreRows("a", ["b", "c"], **arguments)


def test_a_pair_twice_and_a_strange_task_are_refused() -> None:
    with pytest.raises(UsageError, match="two scores"):
        ScoreRows("a", ["b", "b"], [0.5, 0.5])
    for rows in (ScoreRows("x", ["b"], [0.5]), ScoreRows("a", ["x"], [0.5])):
        with pytest.raises(UnknownTaskError, match="'x'"):
            number_columns(rows, NUMBERS)


def test_the_hash_tells_all_changes() -> None:
    given: dict[str, Any] = {
        "score": [0.5, 0.25],
        "n_examples": [1, 2],
        "first_half": [0.1, 0.2],
        "second_half": [0.3, 0.4],
    }
    rows = [
        ScoreRows("a", ["b", "c"], **given),
        ScoreRows("b", ["b", "c"], **given),
        ScoreRows("a", ["a", "c"], **given),
        *(ScoreRows("a", ["b", "c"], **{**given, name: values[::-1]}) for name, values in given.items()),
        ScoreRows("a", ["b", "c"], [0.5, 0.25]),
        ScoreRows("a", ["b", "c"], given["score"], standard_error=given["first_half"]),
    ]
    digests = {digest_scores("key", *number_columns(each, NUMBERS)) for each in rows}
    digests.add(digest_scores("other key", *number_columns(rows[0], NUMBERS)))
    assert len(digests) == len(rows) + 1
    turned = ScoreRows("a", ["c", "b"], **{name: values[::-1] for name, values in given.items()})
    assert digest_scores("key", *number_columns(turned, NUMBERS)) in digests

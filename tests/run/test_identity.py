"""What a run is a run of: what differs is told in plain words, and what does not differ is the same."""

from __future__ import annotations

import math
from typing import Any

import pytest

from robusttc.data import Task
from robusttc.errors import UsageError
from robusttc.run.identity import Identity, hash_task

CONFIGURATION: dict[str, Any] = {
    "seed": 0,
    "clusters": "auto",
    "encoder": {"name": "sentence", "sizes": (1, 2)},
}
TASKS = {"acme": "aa", "blue": "bb", "coral": "cc"}
VERSIONS = {"robusttc": "1.0", "numpy": "2.1"}
THEN = Identity(CONFIGURATION, TASKS, VERSIONS)


def test_the_same_is_the_same_whatever_the_order() -> None:
    again = Identity(
        dict(reversed(CONFIGURATION.items())), dict(reversed(TASKS.items())), dict(reversed(VERSIONS.items()))
    )
    assert THEN.differences(again) == []
    assert THEN.fingerprint == again.fingerprint
    assert list(again.tasks) == ["coral", "blue", "acme"]  # remembered all the same
    again.refuse_other(THEN, where="here")


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Identity({**CONFIGURATION, "seed": 1}, TASKS, VERSIONS), ["seed: 0 then, 1 now"]),
        (Identity({**CONFIGURATION, "seed": False}, TASKS, VERSIONS), ["seed: 0 then, False now"]),
        (
            Identity({**CONFIGURATION, "encoder": {"name": "cnn", "sizes": [1, 2]}}, TASKS, VERSIONS),
            ["encoder.name: 'sentence' then, 'cnn' now"],
        ),
        (
            Identity({**CONFIGURATION, "encoder": "cnn"}, TASKS, VERSIONS),
            ["encoder: {'name': 'sentence', 'sizes': [1, 2]} then, 'cnn' now"],
        ),
        (Identity({**CONFIGURATION, "new": None}, TASKS, VERSIONS), ["new: not there then, None now"]),
        (
            Identity({"seed": 0, "clusters": "auto"}, TASKS, VERSIONS),
            ["encoder: {'name': 'sentence', 'sizes': [1, 2]} then, not there now"],
        ),
        (
            Identity(CONFIGURATION, TASKS, {**VERSIONS, "numpy": "2.2"}),
            ["version of numpy: '2.1' then, '2.2' now"],
        ),
        (Identity(CONFIGURATION, {**TASKS, "blue": "xx"}, VERSIONS), ["task 'blue' has other rows"]),
        (
            Identity(CONFIGURATION, {"acme": "aa", "coral": "cc", "x": "1"}, VERSIONS),
            ["task 'blue' is gone", "task 'x' is new"],
        ),
    ],
)
def test_every_difference_is_told(now: Identity, words: list[str]) -> None:
    assert THEN.differences(now) == words
    assert THEN.fingerprint != now.fingerprint
    with pytest.raises(UsageError, match="cannot be resumed") as caught:
        THEN.refuse_other(now, where="the folder")
    assert all(f"\n  {line}\n" in str(caught.value) for line in words)
    assert str(caught.value).startswith("the folder: ")


def test_ten_differences_are_listed_and_the_rest_counted() -> None:
    now = Identity(CONFIGURATION, {f"task {number}": "0" for number in range(1500)}, VERSIONS)
    with pytest.raises(UsageError) as caught:
        THEN.refuse_other(now, where="the folder")
    lines = str(caught.value).splitlines()
    assert len(lines) == 13
    assert lines[11] == "  … and 1,493 more"
    assert "task 'acme' is gone" in lines[1]


def test_what_json_cannot_hold_is_refused() -> None:
    for value in (math.nan, object(), {1, 2}):
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            Identity({"a": value}, {}, {})


def test_the_hash_of_a_task_is_over_all_that_counts() -> None:
    task = Task("a", ["x", "y"], ["p", "q"], ["train", "valid"])
    others = [
        Task("a", ["x", "z"], ["p", "q"], ["train", "valid"]),
        Task("a", ["x", "y"], ["p", "p"], ["train", "valid"]),
        Task("a", ["x", "y"], ["p", "q"], ["train", "test"]),
        Task("a", ["x", "y"], ["p", "q"], ["train", "valid"], may_share=False),
        Task("a", ["y", "x"], ["q", "p"], ["valid", "train"]),
        Task("a", ["x", "y"], ["p", "q"], ["train", "valid"], splits_drawn=True),
    ]
    assert len({hash_task(each) for each in [task, *others]}) == 7
    assert hash_task(task) == hash_task(Task("a", ["x", "y"], ["p", "q"], ["train", "valid"]))

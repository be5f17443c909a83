"""Tasks from which others may not learn."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from robusttc.data import Task, TaskSet
from robusttc.errors import DataError, UnknownTaskError

TEXTS, LABELS, SPLITS = ["hi", "bye", "hello"], ["greet", "leave", "greet"], ["train", "valid", "own"]


def make(may_share: bool = True, name: str = "acme") -> Task:
    return Task(name, TEXTS, LABELS, SPLITS, other_splits=["own"], may_share=may_share)


def test_tasks_share_unless_told_otherwise() -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"])
    assert task.may_share
    assert task == make(True)
    assert repr(task) == "Task('acme', 3 rows, 2 labels)"
    assert repr(make(False)) == "Task('acme', 3 rows, 2 labels, may not share)"


def test_the_hash_tells_them_apart() -> None:
    assert make(False) != make(True)
    assert make(False).content_hash == make(False).content_hash
    assert make(False).with_sharing(True).content_hash == make(True).content_hash


@pytest.mark.parametrize("may_share", [True, False])
def test_whatever_is_made_of_a_task_keeps_it(may_share: bool) -> None:
    task = make(may_share)
    for made in (
        task.take([0, 1]),
        task.with_splits(["train"] * 3),
        pickle.loads(pickle.dumps(task)),  # noqa: S301 - as workers get them
        TaskSet([task]).subset(["acme"])["acme"],
    ):
        assert made.may_share is may_share
    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot assign"):
        make().may_share = False  # type: ignore[misc]


@pytest.mark.parametrize("value", ["no", 0, 1, None])
def test_only_booleans_are_taken(value: Any) -> None:
    with pytest.raises(DataError, match="task 'acme': may_share is not a boolean"):
        make(value)
    with pytest.raises(DataError, match="may_share"):
        make().with_sharing(value)


def test_a_set_keeps_some_tasks_private() -> None:
    tasks = TaskSet([make(name="b"), make(False, "a"), make(name="c")])
    private = tasks.keep_private(["c"])
    assert private.names == ("b", "a", "c")
    assert [task.may_share for task in private] == [True, False, False]
    assert private.shareable().names == ("b",)
    assert private["b"] is tasks["b"]
    assert tasks.shareable().names == ("b", "c")
    assert private != tasks
    assert tasks.keep_private([]) == tasks
    assert tasks.keep_private("b")["b"].may_share is False
    with pytest.raises(UnknownTaskError, match="'d'"):
        tasks.keep_private(["d"])

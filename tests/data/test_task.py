from __future__ import annotations

import pickle
from typing import Any

import pytest

from robusttc.data.task import Task
from robusttc.data.taskset import TaskSet
from robusttc.errors import DataError, UnknownTaskError, UsageError

TEXTS = ["hi", "bye", "hello", "ciao"]
LABELS = ["greet", "leave", "greet", "both"]
SPLITS = ["train", "valid", "own", "test"]


def test_labels_are_kept_and_coded_by_their_sorted_names() -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS)
    assert task.labels.tolist() == LABELS
    assert task.label_names == ("both", "greet", "leave")
    assert task.label_codes.tolist() == [1, 2, 1, 0]
    assert task.splits.tolist() == SPLITS
    assert task.split_names == ("train", "valid", "test", "own")


def test_without_splits_every_row_is_for_training() -> None:
    assert Task("acme", TEXTS, LABELS).rows("train").tolist() == [0, 1, 2, 3]


def test_rows_of_splits() -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS)
    assert task.rows("test", "train").tolist() == [0, 3]
    assert task.rows("own").tolist() == [2]
    with pytest.raises(UsageError, match="no such split"):
        task.rows("tset")


def test_take_forgets_labels_that_are_gone() -> None:
    part = Task("acme", TEXTS, LABELS, SPLITS).take([2, 0])
    assert (list(part.texts), part.label_names) == (["hello", "hi"], ("greet",))
    assert part.splits.tolist() == ["own", "train"]


def test_other_splits() -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS).with_splits(["test"] * 4)
    assert task.rows("test").tolist() == [0, 1, 2, 3]
    assert list(task.texts) == TEXTS


@pytest.mark.parametrize(
    "other",
    [
        Task("other", TEXTS, LABELS, SPLITS),
        Task("acme", [*TEXTS[:3], "ciao "], LABELS, SPLITS),
        Task("acme", TEXTS, ["greet", "leave", "greet", "greet"], SPLITS),
        Task("acme", TEXTS, LABELS, ["train", "valid", "own", "train"]),
        Task("acme", TEXTS[::-1], LABELS[::-1], SPLITS[::-1]),
    ],
)
def test_whatever_differs_changes_the_hash(other: Task) -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS)
    assert task != other
    assert task.content_hash != other.content_hash
    assert task == Task("acme", TEXTS, LABELS, SPLITS)
    assert hash(task) == hash(Task("acme", TEXTS, LABELS, SPLITS))


def test_the_hash_does_not_know_of_splits_without_rows() -> None:
    with_own = Task("acme", TEXTS, LABELS, SPLITS)
    assert with_own.take([0, 1]).content_hash == Task("acme", TEXTS[:2], LABELS[:2], SPLITS[:2]).content_hash


def test_the_hash_is_the_same_on_every_machine() -> None:
    # Recorded from the first version: runs on disk know their tasks by it.
    expected = "57f21d1c74f50b6b1f0a"
    found = Task("acme", TEXTS, LABELS, SPLITS).content_hash
    assert len(found) == 64
    assert found.startswith(expected)


def test_a_task_cannot_be_changed() -> None:
    task = Task("acme", TEXTS, LABELS)
    with pytest.raises(AttributeError, match="immutable"):
        task.name = "other"
    with pytest.raises(ValueError, match="read-only"):
        task.label_codes[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        task.split_codes[0] = 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", ["a"], ["x"]), "name of a task"),
        ((None, ["a"], ["x"]), "name of a task"),
        (("t", ["a", "b"], ["x"]), "differ in length"),
        (("t", ["a"], ["x"], ["train", "test"]), "differ in length"),
        (("t", ["a", " "], ["x", "x"]), "row 1: a text is not usable"),
        (("t", ["a"], [""]), "a label is not usable"),
        (("t", ["a"], [5]), "a label is not usable"),
        (("t", ["\ud800"], ["x"]), "a text is not usable"),
        (("t", ["a"], ["x"], [None]), "a split is not usable"),
    ],
)
def test_columns_that_make_no_task(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Task(*arguments)


def test_a_set_keeps_its_order_and_finds_by_name() -> None:
    tasks = TaskSet([Task("b", TEXTS, LABELS), Task("a", TEXTS, LABELS)])
    assert tasks.names == ("b", "a")
    assert [task.name for task in tasks] == ["b", "a"]
    assert tasks["a"].name == "a"
    assert "a" in tasks
    assert "c" not in tasks
    assert (len(tasks), tasks.n_rows, tasks.same_label_sets) == (2, 8, True)
    assert tasks.subset(["a"]).names == ("a",)
    assert list(tasks.content_hashes) == ["b", "a"]


def test_a_set_refuses_a_name_twice_and_an_unknown_one() -> None:
    with pytest.raises(DataError, match="same name"):
        TaskSet([Task("a", TEXTS, LABELS), Task("a", TEXTS, LABELS)])
    with pytest.raises(UnknownTaskError, match="Did you mean 'acme'"):
        TaskSet([Task("acme", TEXTS, LABELS)])["acne"]  # codespell:ignore acne


def test_sets_are_equal_by_content_and_order() -> None:
    first, second = Task("a", TEXTS, LABELS), Task("b", TEXTS, LABELS)
    assert TaskSet([first, second]) == TaskSet([first, second])
    assert hash(TaskSet([first])) == hash(TaskSet([first]))
    assert TaskSet([first, second]) != TaskSet([second, first])
    assert TaskSet([first]) != first


def test_tasks_cross_process_borders() -> None:
    tasks = TaskSet([Task("a", ["t", "ü"], ["x", "y"], ["train", "spare"]), Task("b", ["v"], ["z"])])
    back = pickle.loads(pickle.dumps(tasks))  # noqa: S301
    assert back == tasks
    assert back["a"].texts[1] == "ü"
    with pytest.raises(ValueError, match="read-only"):
        back["a"].label_codes[0] = 1

"""Tasks and sets of tasks, tasks from which others may not learn, and the splits of rows."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robusttc.data import SHARES, Task, TaskSet, split_rows
from robusttc.errors import DataError, UnknownTaskError, UsageError

TEXTS = ["hi", "bye", "hello", "ciao"]
LABELS = ["greet", "leave", "greet", "both"]
SPLITS = ["train", "valid", "own", "test"]
MANY_LABELS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=200)


def test_labels_are_kept_and_coded_by_their_sorted_names() -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"])
    assert task.labels.tolist() == LABELS
    assert task.label_names == ("both", "greet", "leave")
    assert task.label_codes.tolist() == [1, 2, 1, 0]
    assert task.splits.tolist() == SPLITS
    assert task.split_names == ("train", "valid", "test", "own")


def test_without_splits_every_row_is_for_training() -> None:
    assert Task("acme", TEXTS, LABELS).rows("train").tolist() == [0, 1, 2, 3]


def test_rows_of_splits() -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"])
    assert task.rows("test", "train").tolist() == [0, 3]
    assert task.rows("own").tolist() == [2]
    with pytest.raises(UsageError, match="no such split"):
        task.rows("tset")


def test_take_forgets_labels_that_are_gone() -> None:
    part = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"]).take([2, 0])
    assert (list(part.texts), part.label_names) == (["hello", "hi"], ("greet",))
    assert part.splits.tolist() == ["own", "train"]


def test_other_splits() -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"]).with_splits(["test"] * 4)
    assert task.rows("test").tolist() == [0, 1, 2, 3]
    assert list(task.texts) == TEXTS


@pytest.mark.parametrize(
    "other",
    [
        Task("other", TEXTS, LABELS, SPLITS, other_splits=["own"]),
        Task("acme", [*TEXTS[:3], "ciao "], LABELS, SPLITS, other_splits=["own"]),
        Task("acme", TEXTS, ["greet", "leave", "greet", "greet"], SPLITS, other_splits=["own"]),
        Task("acme", TEXTS, LABELS, ["train", "valid", "own", "train"], other_splits=["own"]),
        Task("acme", TEXTS[::-1], LABELS[::-1], SPLITS[::-1], other_splits=["own"]),
    ],
)
def test_whatever_differs_changes_the_hash(other: Task) -> None:
    task = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"])
    assert task != other
    assert task.content_hash != other.content_hash
    assert task == Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"])
    assert hash(task) == hash(Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"]))


def test_the_hash_does_not_know_of_splits_without_rows() -> None:
    with_own = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"])
    assert with_own.take([0, 1]).content_hash == Task("acme", TEXTS[:2], LABELS[:2], SPLITS[:2]).content_hash


def test_the_hash_is_the_same_on_every_machine() -> None:
    # Recorded from the first version: runs on disk know their tasks by it.
    expected = "57f21d1c74f50b6b1f0a"
    found = Task("acme", TEXTS, LABELS, SPLITS, other_splits=["own"]).content_hash
    assert len(found) == 64
    assert found.startswith(expected)


def test_a_task_cannot_be_changed() -> None:
    task = Task("acme", TEXTS, LABELS)
    with pytest.raises(AttributeError, match="cannot assign"):
        task.name = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        task.label_codes[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        task.split_codes[0] = 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", ["a"], ["x"]), "the task name is empty"),
        ((None, ["a"], ["x"]), "the task name is not a string"),
        (("a\nb", ["a"], ["x"]), "the task name contains a control character"),
        (("a" * 1_001, ["a"], ["x"]), "the task name is longer than 1,000"),
        (("t", "hello", "xyxyx"), "texts is not a list; got 'hello'"),
        (("t", ["a"], "x"), "labels is not a list"),
        (("t", b"ab", ["x", "y"]), "texts is not a list"),
        (("t", None, ["x", "y"]), "texts is not a list"),
        (("t", ["a"], ["x"], "train"), "splits is not a list"),
        (("t", ["a", "b"], ["x"]), "differ in length"),
        (("t", ["a"], ["x"], ["train", "test"]), "differ in length"),
        (("t", ["a", " "], ["x", "x"]), "row 1: the text is empty"),
        (("t", ["a", 5], ["x", "x"]), "row 1: the text is not a string"),
        (("t", ["a\0b"], ["x"]), "the text contains a NUL"),
        (("t", ["a" * 131_073], ["x"]), "the text is too long"),
        (("t", ["\ud800"], ["x"]), "the text is not Unicode"),
        (("t", ["a"], [""]), "the label is empty"),
        (("t", ["a", "b"], ["x", 5]), "row 1: the label is not a string"),
        (("t", ["a"], [["x"]]), "the label is not a string"),
        (("t", ["a"], ["x\ty"]), "the label contains a control character"),
        (("t", ["a"], ["x" * 1_001]), "the label is longer than 1,000"),
        (("t", ["a"], ["x"], [None]), "unknown split; got None"),
        (("t", ["a", "b"], ["x", "y"], ["train", "tset"]), "row 1: unknown split; got 'tset'"),
    ],
)
def test_columns_that_make_no_task(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Task(*arguments)


def test_splits_by_their_other_names() -> None:
    task = Task("acme", TEXTS, LABELS, ["train", "validation", "dev", "test"])
    assert task.splits.tolist() == ["train", "valid", "valid", "test"]


def test_other_splits_are_named() -> None:
    task = Task("acme", TEXTS, LABELS, ["train", "b", "a", "test"], other_splits=("b", "a"))
    assert task.split_names == ("train", "valid", "test", "a", "b")
    assert task.with_splits(["a"] * 4).rows("a").tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match="too many splits"):
        Task("acme", ["t"], ["x"], other_splits=[f"split {number}" for number in range(130)])


@pytest.mark.parametrize("kind", [tuple, np.array, pd.Series])
def test_columns_may_be_arrays_and_series(kind: Any) -> None:
    task = Task("acme", kind(TEXTS), kind(LABELS), kind(["train", "valid", "test", "test"]))
    assert task == Task("acme", TEXTS, LABELS, ["train", "valid", "test", "test"])
    assert {type(text) for text in task.texts} == {str}


def test_texts_of_rows() -> None:
    task = Task("acme", TEXTS, LABELS)
    assert task.texts_at([2, 0]) == ["hello", "hi"]
    assert task.texts_at(np.array([], dtype=int)) == []


def test_a_set_holds_tasks_alone() -> None:
    with pytest.raises(DataError, match="expected a Task"):
        TaskSet(["acme"])  # type: ignore[list-item]


def test_a_set_as_a_table_of_a_notebook() -> None:
    tasks = TaskSet(Task(f"<{number}>", TEXTS, LABELS, may_share=number > 0) for number in range(25))
    shown = tasks._repr_html_()
    assert "&lt;0&gt;" in shown
    assert "<0>" not in shown
    assert shown.count("private") == 1
    assert "… and 5 more" in shown


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
    tasks = TaskSet(
        [
            Task("a", ["t", "ü"], ["x", "y"], ["train", "spare"], other_splits=["spare"]),
            Task("b", ["v"], ["z"]),
        ]
    )
    back = pickle.loads(pickle.dumps(tasks))  # noqa: S301
    assert back == tasks
    assert back["a"].texts[1] == "ü"
    with pytest.raises(ValueError, match="read-only"):
        back["a"].label_codes[0] = 1


# --- Tasks from which others may not learn


def make(may_share: bool = True, name: str = "acme") -> Task:
    return Task(name, TEXTS[:3], LABELS[:3], SPLITS[:3], other_splits=["own"], may_share=may_share)


def test_tasks_share_unless_told_otherwise() -> None:
    task = Task("acme", TEXTS[:3], LABELS[:3], SPLITS[:3], other_splits=["own"])
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


# --- Splits


def distinct_texts(n_rows: int) -> list[str]:
    return [f"text {row}" for row in range(n_rows)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_rows", [50, 100, 1_000])
def test_the_shares_within_each_label(seed: int, n_rows: int) -> None:
    labels = ["a"] * n_rows + ["b"] * n_rows
    splits = split_rows("acme", distinct_texts(2 * n_rows), labels, seed)
    for label in "ab":
        found = Counter(split for split, of in zip(splits, labels, strict=True) if of == label)
        assert [found[split] for split in ("train", "valid", "test")] == [n_rows * share for share in SHARES]


@given(MANY_LABELS, st.integers(0, 2**63 - 1))
def test_every_label_has_a_training_row_and_no_more_than_rounding_is_lost(
    labels: list[str], seed: int
) -> None:
    splits = split_rows("acme", distinct_texts(len(labels)), labels, seed)
    n_labels = len(set(labels))
    for label, n_rows in Counter(labels).items():
        found = Counter(split for split, of in zip(splits, labels, strict=True) if of == label)
        assert found["train"] >= 1
        for split, share in zip(("train", "valid", "test"), SHARES, strict=True):
            assert abs(found[split] - share * n_rows) < 2
    for split, share in zip(("train", "valid", "test"), SHARES, strict=True):
        assert abs(splits.count(split) - share * len(labels)) <= n_labels


def test_many_tiny_labels_still_have_valid_and_test_rows() -> None:
    labels = [f"label {row // 3}" for row in range(300)]
    splits = split_rows("acme", distinct_texts(300), labels, 0)
    assert [splits.count(split) for split in ("train", "valid", "test")] == [192, 48, 60]


def test_labels_with_one_row_are_all_for_training() -> None:
    assert set(split_rows("acme", ["a", "b", "c"], ["x", "y", "z"], 0)) == {"train"}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy")), min_size=1), st.integers(0, 99))
def test_rows_of_one_text_and_label_stay_together(rows: list[tuple[str, str]], seed: int) -> None:
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    split_of: dict[tuple[str, str], str] = {}
    for row, split in zip(rows, split_rows("acme", texts, labels, seed), strict=True):
        assert split_of.setdefault(row, split) == split


def test_the_same_arguments_give_the_same_splits_and_others_do_not() -> None:
    texts, labels = distinct_texts(100), ["a", "b"] * 50
    splits = split_rows("acme", texts, labels, 0)
    assert splits == split_rows("acme", texts, labels, 0)
    assert splits != split_rows("acme", texts, labels, 1)
    assert splits != split_rows("other", texts, labels, 0)


def test_a_label_keeps_its_splits_where_another_is_added_behind_it() -> None:
    texts, labels = distinct_texts(100), ["a"] * 100
    more = split_rows("acme", [*texts, *distinct_texts(50)], [*labels, *["b"] * 50], 0)
    assert more[:100] == split_rows("acme", texts, labels, 0)


def test_nothing_to_split() -> None:
    assert split_rows("acme", [], [], 0) == []

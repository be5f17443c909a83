"""The few-shot protocol: which tasks are targets, and which rows they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.errors import DataError, UsageError
from robusttc.fewshot import choose_targets, choose_validation_tasks, few_shot_rows, make_few_shot

SEEDS = range(5)


def make_task(sizes: dict[str, int], name: str = "task") -> Task:
    texts, labels, splits = [], [], []
    for label, size in sizes.items():
        for row in range(size):
            texts.append(f"{label} {row}")
            labels.append(label)
            splits.append(("train", "train", "train", "valid", "test")[row % 5])
    return Task(name, texts, labels, splits)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_one_a_label_plus_twenty(seed: int) -> None:
    task = make_task({"a": 100, "b": 5, "c": 50})
    rows = few_shot_rows(task, random_state=seed)
    assert len(rows) == 23 == len(set(rows.tolist()))
    assert set(rows) <= set(task.rows("train"))
    assert set(task.labels[rows]) == {"a", "b", "c"}


@pytest.mark.parametrize("seed", SEEDS)
def test_k_shot_is_so_many_a_label_or_all_there_are(seed: int) -> None:
    task = make_task({"a": 100, "b": 5})
    rows = few_shot_rows(task, per_label=5, extra=0, random_state=seed)
    assert (task.labels[rows] == "a").sum() == 5
    assert (task.labels[rows] == "b").sum() == 3


def test_extra_rows_follow_the_labels_frequency() -> None:
    task = make_task({"a": 900, "b": 100})
    counts = [(task.labels[few_shot_rows(task, random_state=seed)] == "b").sum() for seed in range(200)]
    # One is sure, and 20 draws hit "b" with about one chance in ten.
    assert 2.5 < np.mean(counts) < 3.5


def test_rows_depend_on_seed_and_name_only() -> None:
    first, second = make_task({"a": 60, "b": 60}), make_task({"a": 60, "b": 60}, "other")
    same = few_shot_rows(first, random_state=1)
    assert (same == few_shot_rows(first, random_state=1)).all()
    assert not np.array_equal(same, few_shot_rows(first, random_state=2))
    assert not np.array_equal(same, few_shot_rows(second, random_state=1))


def test_few_shot_task_has_no_validation_rows_and_all_test_rows() -> None:
    task = make_task({"a": 100, "b": 20})
    few = make_few_shot(task, extra=3)
    assert len(few.rows("train")) == 5
    assert len(few.rows("valid")) == 0
    assert [few.texts[row] for row in few.rows("test")] == [task.texts[row] for row in task.rows("test")]


def test_targets_do_not_depend_on_the_order_of_tasks() -> None:
    tasks = TaskSet(make_task({"a": 5, "b": 5}, f"t{number}") for number in range(20))
    turned = tasks.subset(reversed(tasks.names))
    for seed in SEEDS:
        chosen = choose_targets(tasks, 6, random_state=seed)
        assert len(chosen) == 6
        assert set(chosen) == set(choose_targets(turned, 6, random_state=seed))
        assert chosen == tuple(name for name in tasks.names if name in chosen)
    assert set(choose_targets(tasks, 6)) != set(choose_validation_tasks(tasks, 6))


@pytest.mark.parametrize("n", [0, 20, 2.0, True, "3"])
def test_numbers_of_targets_that_leave_no_source_are_refused(n: Any) -> None:
    tasks = TaskSet(make_task({"a": 5, "b": 5}, f"t{number}") for number in range(20))
    with pytest.raises(UsageError, match="from 1 to 19"):
        choose_targets(tasks, n)


def test_bad_numbers_of_rows_are_refused() -> None:
    task = make_task({"a": 5, "b": 5})
    with pytest.raises(UsageError, match="per_label"):
        few_shot_rows(task, per_label=-1)
    with pytest.raises(UsageError, match="no rows are to be drawn"):
        few_shot_rows(task, per_label=0, extra=0)
    with pytest.raises(DataError, match="no training rows"):
        few_shot_rows(Task("t", ["x"], ["a"], ["test"]))

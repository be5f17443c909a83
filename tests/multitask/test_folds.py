"""Folds within the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.data import Task
from robusttc.errors import UsageError
from robusttc.multitask import deal_folds


def make_task(counts: list[int], name: str = "acme") -> Task:
    labels = [f"label {number}" for number, count in enumerate(counts) for _ in range(count)]
    return Task(name, [f"text {row}" for row in range(len(labels))], labels)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_labels_and_folds_are_as_even_as_can_be(seed: int, n_folds: int) -> None:
    counts = np.random.default_rng(seed).integers(2, 20, size=9).tolist()
    task = make_task(counts)
    folds = deal_folds(task, n_folds, seed)
    assert set(folds.tolist()) <= set(range(n_folds))
    for code in range(len(counts)):
        within = np.bincount(folds[task.label_codes == code], minlength=n_folds)
        assert within.max() - within.min() <= 1
    sizes = np.bincount(folds, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1


def test_the_only_row_of_a_label_is_never_held_out() -> None:
    task = make_task([1, 5, 1, 2])
    folds = deal_folds(task, 3, 0)
    assert folds[task.label_codes == 0].tolist() == [-1]
    assert folds[task.label_codes == 2].tolist() == [-1]
    # Every held-out row has a row of its label in training.
    for row in np.flatnonzero(folds >= 0):
        rest = (folds != folds[row]) & (task.label_codes == task.label_codes[row])
        assert rest.any()


@pytest.mark.parametrize("seed", range(5))
def test_copies_stay_together(seed: int) -> None:
    texts = ["a", "b", "a", "c", "d", "a", "e", "e"]
    task = Task("acme", texts, ["x"] * 6 + ["y"] * 2)
    folds = deal_folds(task, 2, seed)
    assert len(set(folds[[0, 2, 5]].tolist())) == 1
    assert set(folds[:6].tolist()) == {0, 1}
    # Two copies are one text: held out, no model would know the label.
    assert folds[6:].tolist() == [-1, -1]


def test_other_splits_are_left_alone() -> None:
    splits = ["train"] * 4 + ["valid", "valid", "test", "own"]
    task = Task("acme", list("abcdefgh"), ["x", "y"] * 4, splits, other_splits=["own"])
    folds = deal_folds(task, 2, 0)
    assert (folds[4:] == -1).all()
    assert sorted(folds[:4].tolist()) == [0, 0, 1, 1]


def test_the_seed_and_the_name_count() -> None:
    task = make_task([30, 30])
    assert np.array_equal(deal_folds(task, 3, 0), deal_folds(task, 3, 0))
    assert not np.array_equal(deal_folds(task, 3, 0), deal_folds(task, 3, 1))
    assert not np.array_equal(deal_folds(task, 3, 0), deal_folds(make_task([30, 30], "other"), 3, 0))


def test_a_label_does_not_move_another() -> None:
    # New rows of one label leave which rows of another go together as it was.
    first, second = make_task([12, 4]), make_task([12, 9])
    one, other = deal_folds(first, 3, 0)[:12], deal_folds(second, 3, 0)[:12]
    assert np.array_equal(one[:, None] == one, other[:, None] == other)


@pytest.mark.parametrize("n_folds", [1, 0, -1, 2.0, True, "3"])
def test_a_wrong_number_of_folds(n_folds: Any) -> None:
    with pytest.raises(UsageError, match="n_folds"):
        deal_folds(make_task([3, 3]), n_folds, 0)

"""Which rows are measured: never test, each text once where rows are left out, and something held out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import CnnEncoder, DenseInputs, FeatureEncoder, WordInputs, make_encoder
from robusttc.errors import DataError
from robusttc.transfer.pair_scores import TaskRows, TransferSettings, make_plan


class NumberedTexts:
    """An encoder whose vector of a text is the text itself, a number: then inputs can be told apart."""

    name = "numbered"
    fingerprint = "numbered"

    def __init__(self, tasks: TaskSet) -> None:
        from robusttc.encoders import PreparedTasks, distinct_texts

        texts, items = distinct_texts(tasks, ("train", "valid"))
        self.prepared = PreparedTasks(DenseInputs(np.array([[float(t)] for t in texts], np.float32)), items)


def make_task(name: str, rows: list[tuple[str, str, str]]) -> Task:
    texts, labels, splits = zip(*rows, strict=True)
    return Task(name, texts, labels, splits)


MIXED = make_task(
    "mixed",
    [
        ("7", "b", "valid"),
        ("1", "a", "train"),
        ("1", "a", "train"),
        ("1", "b", "train"),
        ("9", "z", "test"),
        ("2", "a", "valid"),
        ("1", "a", "valid"),
        ("3", "c", "valid"),
    ],
)
OTHER = make_task("other", [("4", "a", "train"), ("5", "b", "train"), ("4", "b", "valid")])


def test_pooled_rows_are_distinct_and_not_of_test() -> None:
    tasks = TaskSet([MIXED, OTHER])
    plan = make_plan(tasks, NumberedTexts(tasks).prepared, settings=TransferSettings(), seed=0)
    assert isinstance(plan.inputs, DenseInputs)
    assert sorted(plan.inputs.matrix.ravel().tolist()) == [1, 2, 3, 4, 5, 7]
    mixed, other = plan.rows
    values = plan.inputs.matrix[mixed.items, 0].tolist()
    assert list(zip(values, mixed.codes.tolist(), strict=True)) == [(1, 0), (1, 1), (7, 1), (2, 0), (3, 2)]
    assert (mixed.n_train, len(mixed.items), mixed.n_labels) == (2, 5, 3)
    assert (other.n_train, len(other.items), other.n_labels) == (2, 3, 2)
    assert sorted(mixed.order.tolist()) == list(range(5))
    assert not plan.same_labels


def test_rows_of_accuracy_are_all_rows_of_train_and_valid() -> None:
    tasks = TaskSet([MIXED, OTHER])
    settings = TransferSettings(kind="accuracy")
    plan = make_plan(tasks, NumberedTexts(tasks).prepared, settings=settings, seed=0)
    assert isinstance(plan.inputs, DenseInputs)
    mixed = plan.rows[0]
    assert plan.inputs.matrix[mixed.items, 0].tolist() == [1, 1, 1, 7, 2, 1, 3]
    assert mixed.codes.tolist() == [0, 0, 1, 1, 0, 0, 2]
    assert (mixed.n_train, len(mixed.items)) == (3, 7)


ACCURACY = TransferSettings(kind="accuracy", label_sets="different")


def rows_of(task: Task, settings: TransferSettings = ACCURACY, *, seed: int = 0) -> TaskRows:
    tasks = TaskSet([task])
    return make_plan(tasks, NumberedTexts(tasks).prepared, settings=settings, seed=seed).rows[0]


def test_without_valid_a_fifth_of_every_label_is_held_out() -> None:
    labels = ["a"] * 10 + ["b"] * 4 + ["c"]
    task = Task("t", [str(number) for number in range(15)], labels)
    rows = rows_of(task)
    assert (rows.n_train, len(rows.items)) == (12, 15)
    assert len(set(rows.items.tolist())) == 15
    assert Counter(rows.codes[rows.n_train :].tolist()) == {0: 2, 1: 1}
    np.testing.assert_array_equal(rows_of(task).items, rows.items)
    assert any(rows_of(task, seed=seed).items.tolist() != rows.items.tolist() for seed in range(1, 6))


def test_without_valid_nothing_is_held_out_where_it_is_not_needed() -> None:
    task = Task("t", ["1", "2", "3"], ["a", "b", "b"])
    for settings in (TransferSettings(), ACCURACY.replace(label_sets="identical")):
        rows = rows_of(task, settings)
        assert (rows.n_train, len(rows.items)) == (3, 3)


def test_nothing_to_hold_out() -> None:
    with pytest.raises(DataError, match=r"task 'tiny': the task has no valid rows.*nothing can be held out"):
        rows_of(Task("tiny", ["1", "2"], ["a", "b"]))


@pytest.mark.parametrize("settings", [TransferSettings(), ACCURACY])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("1", "a", "train"), ("2", "a", "train"), ("3", "b", "valid")], r"2 training rows, labels: 'a'"),
        ([("3", "b", "valid"), ("4", "a", "valid")], r"0 training rows, labels: none"),
    ],
)
def test_too_few_labels_in_train(
    rows: list[tuple[str, str, str]], message: str, settings: TransferSettings
) -> None:
    with pytest.raises(DataError, match=rf"task 'poor': .*fewer than two labels.*{message}"):
        rows_of(make_task("poor", rows), settings)


TWINS = ["where is my parcel", "Where is my parcel", "pay now", "Pay now", "pay NOW", "hello"]


@pytest.mark.parametrize("encoder", ["cnn", "sentence"])
def test_rows_that_the_encoder_cannot_tell_apart_count_once(encoder: str) -> None:
    """Upper case is nothing to either encoder: a row must not be predicted by its copy."""
    tasks = TaskSet([Task("t", TWINS, ["x", "x", "y", "y", "y", "x"])])
    prepared = make_encoder(encoder).prepare(tasks)
    rows = make_plan(tasks, prepared, settings=TransferSettings(), seed=0).rows[0]
    assert (rows.codes.tolist(), rows.n_train) == ([0, 1, 0], 3)
    every = make_plan(tasks, prepared, settings=ACCURACY.replace(label_sets="identical"), seed=0).rows[0]
    assert len(every.items) == len(TWINS)


def test_vectors_that_differ_in_the_last_bits_are_one_input() -> None:
    generator = np.random.default_rng(0)
    vectors = np.repeat(generator.normal(size=(20, 8)), 2, axis=0)
    vectors[1::2] *= 1 + 1e-7 * generator.normal(size=(20, 8))
    labels = [f"{number % 2}" for number in range(20) for _ in range(2)]
    tasks = TaskSet([Task("t", [str(number) for number in range(40)], labels)])
    prepared = FeatureEncoder({"t": vectors}).prepare(tasks)
    rows = make_plan(tasks, prepared, settings=TransferSettings(), seed=0).rows[0]
    assert rows.codes.tolist() == [0, 1] * 10


def label_tasks(*label_lists: str, test: str = "") -> TaskSet:
    return TaskSet(
        make_task(
            f"t{number}",
            [(str(place), label, "train") for place, label in enumerate(labels * 2)]
            + [("9", label, "test") for label in test[:number]],
        )
        for number, labels in enumerate(label_lists)
    )


@pytest.mark.parametrize(
    ("tasks", "kind", "label_sets", "expected"),
    [
        (label_tasks("ab", "ba"), "accuracy", "auto", True),
        (label_tasks("ab", "ba"), "accuracy", "identical", True),
        (label_tasks("ab", "ba"), "accuracy", "different", False),
        (label_tasks("ab", "abc"), "accuracy", "auto", False),
        (label_tasks("ab", "ba"), "brier", "identical", False),
        (label_tasks("ab", "ba", test="z"), "accuracy", "auto", True),
    ],
)
def test_label_sets(tasks: TaskSet, kind: str, label_sets: str, expected: bool) -> None:
    settings = TransferSettings(kind=kind, label_sets=label_sets)
    plan = make_plan(tasks, NumberedTexts(tasks).prepared, settings=settings, seed=0)
    assert plan.same_labels is expected
    assert {rows.n_labels for rows in plan.rows} <= {2, 3}


@pytest.mark.parametrize("kind", ["accuracy", "log_likelihood"])
def test_identical_label_sets_that_are_not_there(kind: str) -> None:
    tasks = label_tasks("ab", "ab", "abc")
    settings = TransferSettings(kind=kind, label_sets="identical")
    with pytest.raises(DataError, match=r"different label sets.*'t[01]' and 't2' differ.*label_sets='auto'"):
        make_plan(tasks, NumberedTexts(tasks).prepared, settings=settings, seed=0)


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [(True, "log_likelihood", True), (False, "log_likelihood", False), (False, "accuracy", True)],
)
def test_where_layers_are_trained(words: bool, kind: str, expected: bool) -> None:
    tasks = label_tasks("ab", "ab")
    features = {task.name: np.zeros((len(task), 2)) for task in tasks}
    prepared = CnnEncoder().prepare(tasks) if words else FeatureEncoder(features).prepare(tasks)
    plan = make_plan(tasks, prepared, settings=TransferSettings(kind=kind), seed=0)
    assert isinstance(plan.inputs, WordInputs) is words
    assert plan.trains_layers is expected

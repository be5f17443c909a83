"""The seam of all encoders: distinct texts, their rows, and what counts as an encoder."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders.cnn import CnnEncoder
from robusttc.encoders.encoder import Encoder, PreparedTasks, distinct_texts
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.inputs import DenseInputs
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.errors import UnknownTaskError, UsageError

TASKS = TaskSet(
    [
        Task("a", ["yo", "hi", "yo", "é"], ["x", "y", "y", "x"], ["train", "valid", "test", "train"]),
        Task("b", ["hi", "Hi", "bye"], ["z", "z", "w"], ["train", "test", "valid"]),
    ]
)


@pytest.mark.parametrize("splits", [None, ("train",), ("train", "valid"), ("test",)])
def test_distinct_texts_by_a_loop(splits: tuple[str, ...] | None) -> None:
    texts, items = distinct_texts(TASKS, splits)
    wanted = {
        text
        for task in TASKS
        for text, split in zip(task.texts, task.splits, strict=True)
        if splits is None or split in splits
    }
    assert texts == sorted(wanted)
    for task in TASKS:
        assert items[task.name].dtype == np.int64
        for row, (text, split) in enumerate(zip(task.texts, task.splits, strict=True)):
            if splits is None or split in splits:
                assert texts[items[task.name][row]] == text
            else:
                assert items[task.name][row] == -1


def test_order_of_tasks_changes_nothing() -> None:
    texts, items = distinct_texts(TASKS)
    moved_texts, moved_items = distinct_texts(TASKS.subset(["b", "a"]))
    assert moved_texts == texts
    for name in TASKS.names:
        np.testing.assert_array_equal(moved_items[name], items[name])


def test_a_split_that_no_task_has() -> None:
    with pytest.raises(UsageError, match="no such split"):
        distinct_texts(TASKS, ("tset",))


def test_prepared_tasks() -> None:
    texts, items = distinct_texts(TASKS)
    prepared = PreparedTasks(DenseInputs(np.arange(len(texts), dtype=np.float32)[:, None]), items)
    rows = np.array([2, 0])
    assert prepared.items_of("a", rows).tolist() == [texts.index("yo")] * 2
    found = prepared.inputs_of("b", np.array([1, 2]))
    assert isinstance(found, DenseInputs)
    assert found.matrix.ravel().tolist() == [texts.index("Hi"), texts.index("bye")]
    with pytest.raises(UnknownTaskError, match="c"):
        prepared.items_of("c", rows)


def test_rows_that_were_not_asked_for_are_not_there() -> None:
    texts, items = distinct_texts(TASKS, ("train",))
    prepared = PreparedTasks(DenseInputs(np.zeros((len(texts), 1), dtype=np.float32)), items)
    with pytest.raises(UsageError, match="the rows cannot be taken"):
        prepared.inputs_of("a", np.array([2]))


def test_what_is_an_encoder() -> None:
    for encoder in (CnnEncoder(), FeatureEncoder({"a": [[1.0]]})):
        assert isinstance(encoder, Encoder)
    assert not isinstance(object(), Encoder)


@pytest.mark.parametrize("encoder", [CnnEncoder(), SentenceEncoder(), FeatureEncoder({"a": [[1.0]]})])
def test_encoders_can_be_sent_to_another_process(encoder: Encoder) -> None:
    again = pickle.loads(pickle.dumps(encoder))  # noqa: S301 - our own bytes
    assert repr(again) == repr(encoder)

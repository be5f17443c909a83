"""Ready-made vectors: what is taken, what is refused, and the content that names them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, FeatureEncoder, load_encoder
from robusttc.errors import DataError, UsageError
from robusttc.progress import ProgressEvent

TASKS = TaskSet(
    [
        Task("b", ["same", "same", "two"], ["x", "y", "x"], ["train", "train", "test"]),
        Task("a", ["same", "one"], ["x", "y"]),
    ]
)
VECTORS: dict[str, Any] = {"a": [[1.0, 2.0], [3.0, 4.0]], "b": np.arange(6).reshape(3, 2)}


def check_rows(encoder: FeatureEncoder, tasks: TaskSet = TASKS) -> None:
    """Check that every row has its own vector, equal texts or not."""
    prepared = encoder.prepare(tasks)
    for task in tasks:
        inputs = prepared.inputs_of(task.name, np.arange(len(task)))
        assert isinstance(inputs, DenseInputs)
        assert inputs.matrix.dtype == np.float32
        np.testing.assert_array_equal(inputs.matrix, VECTORS[task.name])


def test_arrays_by_task() -> None:
    check_rows(FeatureEncoder(VECTORS))
    check_rows(FeatureEncoder(VECTORS), TASKS.subset(["a", "b"]))
    check_rows(FeatureEncoder(VECTORS), TASKS.subset(["a"]))


def test_fingerprint_is_the_content() -> None:
    first = FeatureEncoder(VECTORS).fingerprint
    assert FeatureEncoder({"b": VECTORS["b"].astype(np.float64), "a": VECTORS["a"]}).fingerprint == first
    others = [
        {**VECTORS, "a": [[1.0, 2.0], [3.0, 5.0]]},
        {**VECTORS, "a": [[1.0], [2.0], [3.0], [4.0]]},
        {"a": VECTORS["b"], "b": VECTORS["a"]},
        {"a": VECTORS["a"]},
    ]
    assert len({first, *(FeatureEncoder(other).fingerprint for other in others)}) == 5


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            [[1.0, 2.0]],
            r"task 'a': .*cannot be used.*shape \(1, 2\); expected numbers of shape \(2, dimensions\)",
        ),
        ([1.0, 2.0], r"task 'a': .*cannot be used"),
        ([["x"], ["y"]], r"task 'a': .*cannot be used.*<U1"),
        ([[1.0], [2.0, 3.0]], r"task 'a': .*cannot be used"),
        ([[True, False], [True, True]], r"task 'a': .*cannot be used.*bool"),
        ([[1j, 2], [3, 4]], r"task 'a': .*cannot be used.*complex"),
        ([[1.0, np.nan], [1.0, 2.0]], r"task 'a', row 0"),
        ([[1.0, 2.0], [np.inf, 2.0]], r"task 'a', row 1"),
        ([[1.0, 2.0], [1e300, 2.0]], r"task 'a', row 1"),
        ([[1.0], [2.0]], r"different lengths; got 2 in task 'b' and 1 in task 'a'"),
    ],
)
def test_arrays_that_cannot_be_used(array: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        FeatureEncoder({**VECTORS, "a": array}).prepare(TASKS)


def test_empty_vectors_and_missing_tasks() -> None:
    with pytest.raises(UsageError, match=r"shape \(5, 0\); expected .* at least one dimension"):
        FeatureEncoder({"a": np.zeros((2, 0)), "b": np.zeros((3, 0))}).prepare(TASKS)
    with pytest.raises(DataError, match=r"task 'a': the task has no feature vectors"):
        FeatureEncoder({"b": VECTORS["b"]}).prepare(TASKS)
    with pytest.raises(UsageError, match=r"one array per task.*np\.load"):
        FeatureEncoder("vectors.npy")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="dimension"):
        FeatureEncoder({}, dimension=0)
    with pytest.raises(UsageError, match="neither features nor a dimension"):
        FeatureEncoder({}).read([[1.0]])


def test_what_was_given_is_not_changed_nor_kept() -> None:
    array = np.ones((2, 2), dtype=np.float32)
    encoder = FeatureEncoder({"a": array})
    inputs = encoder.prepare(TASKS.subset(["a"])).inputs
    array[:] = 7.0
    assert isinstance(inputs, DenseInputs)
    assert (inputs.matrix == 1).all()


def test_progress() -> None:
    events: list[ProgressEvent] = []
    FeatureEncoder(VECTORS).prepare(TASKS, progress=events.append)
    assert [(event.stage, event.done, event.total) for event in events] == [
        ("features", 0, 5),
        ("features", 5, 5),
    ]


def test_repr() -> None:
    assert repr(FeatureEncoder(VECTORS)) == "FeatureEncoder()"


def test_new_vectors_are_read_as_they_are() -> None:
    encoder = FeatureEncoder({"a": np.ones((2, 4)), "b": np.zeros((3, 4))})
    new = encoder.for_new_texts(encoder.prepare(TASKS))
    settings, arrays = new.describe()
    matrix = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    for made in (encoder, new, load_encoder(json.loads(json.dumps(settings)), arrays)):
        inputs = made.read(matrix)  # type: ignore[arg-type]
        assert isinstance(inputs, DenseInputs)
        assert inputs.matrix.tobytes() == matrix.tobytes()
        one = made.read(matrix[2:3].tolist())
        assert isinstance(one, DenseInputs)
        assert one.matrix.tobytes() == matrix[2].tobytes()
        assert len(made.read([])) == 0
    assert repr(new) == "FeatureEncoder(dimension=4)"


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (["hello"], UsageError, r"cannot read texts.*shape \(rows, 4\).*Pass the vectors"),
        ("hello", UsageError, "cannot read texts"),
        (np.array(["hello"]), DataError, "cannot be used; got <U5"),
        ([None], DataError, "cannot be used; got object"),
        ([[1.0, 2.0]], DataError, r"shape \(1, 2\)"),
        ([1.0, 2.0, 3.0, 4.0], DataError, r"shape \(4,\)"),
        ([[1.0, 2.0], [1.0]], DataError, "cannot be used"),
        ([[1.0, 2.0, 3.0, float("nan")]], DataError, "not finite"),
        ([[1.0, 2.0, 3.0, 1e300]], DataError, "not finite"),
    ],
)
def test_what_is_not_a_vector_is_refused(given: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        FeatureEncoder({}, dimension=4).read(given)

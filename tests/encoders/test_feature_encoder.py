"""Ready-made vectors: what is taken, what is refused, and the content that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.inputs import DenseInputs
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


def test_folder_and_parquet(tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    for name, array in VECTORS.items():
        np.save(folder / f"{name}.npy", array)
    check_rows(FeatureEncoder(folder))
    check_rows(FeatureEncoder(str(folder)))
    rows = [*VECTORS["b"].tolist(), *VECTORS["a"]]
    swapped = [row[::-1] for row in rows]
    table = pa.table({"task": ["b"] * 3 + ["a"] * 2, "vector": rows, "swapped": swapped})
    path = tmp_path / "vectors.parquet"
    pq.write_table(table, path)
    check_rows(FeatureEncoder(path, column="vector"))
    # Two columns of one file are two encoders.
    prints = {FeatureEncoder(path, column=column).fingerprint for column in ("vector", "swapped")}
    assert len(prints) == 2


def test_fingerprint_is_the_content(tmp_path: Path) -> None:
    first = FeatureEncoder(VECTORS).fingerprint
    assert FeatureEncoder({"b": VECTORS["b"].astype(np.float64), "a": VECTORS["a"]}).fingerprint == first
    others = [
        {**VECTORS, "a": [[1.0, 2.0], [3.0, 5.0]]},
        {**VECTORS, "a": [[1.0], [2.0], [3.0], [4.0]]},
        {"a": VECTORS["b"], "b": VECTORS["a"]},
        {"a": VECTORS["a"]},
    ]
    assert len({first, *(FeatureEncoder(other).fingerprint for other in others)}) == 5
    np.save(tmp_path / "a.npy", VECTORS["a"])
    before = FeatureEncoder(tmp_path).fingerprint
    (tmp_path / "README.md").write_text("not a vector")
    (tmp_path / "folder").mkdir()
    assert FeatureEncoder(tmp_path).fingerprint == before
    np.save(tmp_path / "b.npy", VECTORS["b"])
    assert FeatureEncoder(tmp_path).fingerprint != before


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            [[1.0, 2.0]],
            r"task 'a': .*do not fit.*shape \(1, 2\); expected numbers of shape \(2, dimensions\)",
        ),
        ([1.0, 2.0], r"task 'a': .*do not fit"),
        ([["x"], ["y"]], r"task 'a': .*do not fit.*<U1"),
        ([[1.0], [2.0, 3.0]], r"task 'a': .*do not fit"),
        ([[True, False], [True, True]], r"task 'a': .*do not fit.*bool"),
        ([[1j, 2], [3, 4]], r"task 'a': .*do not fit.*complex"),
        ([[1.0, np.nan], [1.0, 2.0]], r"task 'a', row 0"),
        ([[1.0, 2.0], [np.inf, 2.0]], r"task 'a', row 1"),
        ([[1.0, 2.0], [1e300, 2.0]], r"task 'a', row 1"),
        ([[1.0], [2.0]], r"different lengths; got 2 in task 'b' and 1 in task 'a'"),
    ],
)
def test_arrays_that_cannot_be_used(array: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        FeatureEncoder({**VECTORS, "a": array}).prepare(TASKS)


def test_empty_vectors_and_missing_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="have no numbers"):
        FeatureEncoder({"a": np.zeros((2, 0)), "b": np.zeros((3, 0))}).prepare(TASKS)
    with pytest.raises(DataError, match=r"task 'a': the task has no feature vectors"):
        FeatureEncoder({"b": VECTORS["b"]}).prepare(TASKS)
    with pytest.raises(UsageError, match="no such file or folder"):
        FeatureEncoder(tmp_path / "nowhere").prepare(TASKS)


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
    assert repr(FeatureEncoder(VECTORS)) == "FeatureEncoder(...)"
    assert repr(FeatureEncoder("vectors.parquet")) == "FeatureEncoder('vectors.parquet')"


def test_fingerprint_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read; got No such file"):
        _ = FeatureEncoder(tmp_path / "none.parquet").fingerprint

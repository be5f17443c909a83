"""Feature vectors from files: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders.feature_files import load_features
from robusttc.errors import DataError, UsageError

TASKS = TaskSet(
    [Task("b", ["one", "two", "three"], ["x", "y", "x"]), Task("a/ü 1", ["four", "five"], ["x", "y"])]
)
SIMPLE = TaskSet(
    [Task("b", ["one", "two", "three"], ["x", "y", "x"]), Task("a", ["four", "five"], ["x", "y"])]
)
B = np.arange(12.0).reshape(3, 4)
A = -np.arange(8.0).reshape(2, 4)


def write_parquet(
    path: Path, names: list[str | None], vectors: object, kind: pa.DataType | None = None
) -> Path:
    kind = pa.list_(pa.float32()) if kind is None else kind
    pq.write_table(
        pa.table({"task": pa.array(names, pa.string()), "features": pa.array(vectors, kind)}), path
    )
    return path


def test_folder_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", B)
    np.save(tmp_path / "a.npy", A.astype(np.int16))
    (tmp_path / "README.md").write_text("not an array")
    features = load_features(tmp_path, SIMPLE)
    assert list(features) == ["b", "a"]
    np.testing.assert_array_equal(features["b"], B)
    np.testing.assert_array_equal(features["a"], A)
    assert {array.dtype for array in features.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float32(), 4), pa.list_(pa.int8())],
)
def test_parquet_in_any_order(tmp_path: Path, kind: pa.DataType) -> None:
    """Rows of the tasks may be mixed; within a task they are in the order of the file."""
    rows = [B[0], A[0], B[1], B[2], A[1]]
    path = write_parquet(
        tmp_path / "f.parquet", ["b", "a/ü 1", "b", "b", "a/ü 1"], [list(r) for r in rows], kind
    )
    features = load_features(path, TASKS)
    np.testing.assert_array_equal(features["b"], B)
    np.testing.assert_array_equal(features["a/ü 1"], A)


def test_named_column_in_several_row_groups(tmp_path: Path) -> None:
    table = pa.table(
        {"task": ["b"] * 3 + ["a"] * 2, "vector": [list(row) for row in [*B, *A]], "other": range(5)}
    )
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=2)
    np.testing.assert_array_equal(load_features(tmp_path / "f.parquet", SIMPLE, column="vector")["a"], A)
    with pytest.raises(
        DataError, match=r"does not have this column once; got 'vectro'.*Did you mean 'vector'"
    ):
        load_features(tmp_path / "f.parquet", SIMPLE, column="vectro")


def nan_in(array: np.ndarray, row: int, value: float) -> np.ndarray:
    changed = array.copy()
    changed[row, 1] = value
    return changed


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (B[:2], r"task 'b': the number of vectors is not the number of rows; got 2 vectors; expected 3"),
        (
            np.ones((3, 5)),
            r"task 'a': the vectors of the tasks differ in length; got 4; expected 5, as in task 'b'",
        ),
        (nan_in(B, 2, np.nan), r"task 'b', row 2, place 1: a number is not finite.*got nan"),
        (nan_in(B, 1, np.inf), r"task 'b', row 1, place 1: a number is not finite.*got inf"),
        (nan_in(B, 0, 1e300), r"task 'b', row 0, place 1: a number is not finite.*got inf"),
        (
            np.array([[{}]] * 3, dtype=object),
            r"b.npy: the array cannot be read.*pickled objects are not read",
        ),
        (np.array([["x"]] * 3), r"one vector a row; got <U1 of shape \(3, 1\)"),
        (B[:, 0], r"one vector a row; got float64 of shape \(3,\)"),
        (B.astype(complex), r"one vector a row; got complex128"),
        (np.ones((3, 0)), r"task 'b': the vectors are empty"),
    ],
)
def test_bad_arrays(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "b.npy", array, allow_pickle=True)
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(DataError, match=message):
        load_features(tmp_path, SIMPLE)


@pytest.mark.parametrize("content", [b"", b"junk", b"\x93NUMPY\x01\x00\xff\xff", b"PK\x03\x04 not a zip"])
def test_files_that_are_no_arrays(tmp_path: Path, content: bytes) -> None:
    np.save(tmp_path / "b.npy", B)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npy: the array cannot be read"):
        load_features(tmp_path, SIMPLE)


def test_array_cut_short(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", B)
    np.save(tmp_path / "a.npy", A)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-3])
    with pytest.raises(DataError, match=r"a\.npy: the array cannot be read"):
        load_features(tmp_path, SIMPLE)


def test_missing_and_unknown_tasks(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", B)
    with pytest.raises(DataError, match="nothing for task 'a'"):
        load_features(tmp_path, SIMPLE)
    np.save(tmp_path / "aa.npy", A)
    with pytest.raises(DataError, match=r"not in the set; got 'aa'.*[Dd]id you mean 'a'"):
        load_features(tmp_path, SIMPLE)


@pytest.mark.parametrize(
    ("names", "vectors", "message"),
    [
        (["b", "b", "b", "a"], [[1.0]] * 4, r"task 'a': the number of vectors.*got 1 vectors; expected 2"),
        (["b", "b", "b", "a", None], [[1.0]] * 5, r"row 4: a row has no task name; got None"),
        (["b", "b", "b", "a", "c"], [[1.0]] * 5, r"not in the set; got 'c'"),
        (["b"] * 3, [[1.0]] * 3, r"nothing for task 'a'"),
        (["b"] * 3 + ["a"] * 2, [[1.0]] * 4 + [None], r"task 'a', row 4 of the file: a row has no vector"),
        (
            ["b"] * 3 + ["a"] * 2,
            [[1.0]] * 4 + [[1.0, 2.0]],
            r"row 4 of the file: the vectors differ in length; got 2",
        ),
        (["b"] * 3 + ["a"] * 2, [[1.0, 2.0]] * 4 + [[None, 1.0]], r"row 4 of the file: a number is missing"),
        (
            ["b"] * 3 + ["a"] * 2,
            [[1.0]] * 4 + [[np.nan]],
            r"task 'a', row 1, place 0: a number is not finite",
        ),
        (["b"] * 3 + ["a"] * 2, [[]] * 5, r"task 'b': the vectors are empty"),
        ([], [], r"the file has no rows"),
    ],
)
def test_bad_parquet(tmp_path: Path, names: list[str | None], vectors: object, message: str) -> None:
    path = write_parquet(tmp_path / "f.parquet", names, vectors)
    with pytest.raises(DataError, match=message):
        load_features(path, SIMPLE)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.string()), pa.float32(), pa.list_(pa.list_(pa.int8()))]
)
def test_parquet_column_of_another_kind(tmp_path: Path, kind: pa.DataType) -> None:
    path = write_parquet(tmp_path / "f.parquet", ["b"], [None], kind)
    with pytest.raises(DataError, match="the column does not hold lists of numbers"):
        load_features(path, TaskSet([Task("b", ["one"], ["x"])]))


def test_parquet_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "f.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DataError, match="not a Parquet file, or it is damaged"):
        load_features(tmp_path / "f.parquet", SIMPLE)


def test_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        load_features(tmp_path / "nowhere", SIMPLE)
    with pytest.raises(UsageError, match="a folder of arrays has no columns"):
        load_features(tmp_path, SIMPLE, column="features")

"""Ready-made feature vectors from files, one vector a row of a task: of texts, pictures, or anything else.

Either a folder with one ``TASK.npy`` a task, or one Parquet file with a column ``task`` and a column of lists
of numbers. The vectors of a task are in the order of the task's rows.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.errors import DataError, UsageError, nearest_name, quote

__all__ = ["load_features"]

TASK_COLUMN = "task"
DEFAULT_COLUMN = "features"
ENDING = ".npy"


def load_features(
    path: str | PathLike[str], tasks: TaskSet, *, column: str | None = None
) -> dict[str, NDArray[np.float32]]:
    """Read the feature vectors of all tasks, by the name of the task.

    Parameters
    ----------
    path
        A folder with one ``TASK.npy`` of shape (rows, dimension) a task, or a Parquet file.
    tasks
        The tasks; every one must have vectors, one a row.
    column
        The column of a Parquet file that has the vectors; ``features`` if left out.

    Raises
    ------
    UsageError
        If there is no such file or folder, or `column` is given for a folder.
    DataError
        If a task has no vectors or another number of them, the file has a task that is not in the set,
        vectors differ in length, or a number is missing or not finite. Pickled arrays are refused.

    Examples
    --------
    >>> import tempfile
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("acme", ["hi", "bye"], ["greet", "leave"])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "acme.npy"), np.eye(2))
    ...     load_features(folder, tasks)["acme"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    path = Path(path)
    if path.is_dir():
        if column is not None:
            raise UsageError("a folder of arrays has no columns", where=str(path), got=quote(column))
        arrays = read_folder(path, tasks)
    elif path.is_file():
        arrays = read_parquet(path, tasks, DEFAULT_COLUMN if column is None else column)
    else:
        raise UsageError(
            "there is no such file or folder", got=quote(str(path)), expected="a folder or a Parquet file"
        )
    dimension = None
    for task in tasks:
        array = arrays[task.name]
        check_values(array, task.name, len(task), where=str(path))
        dimension = array.shape[1] if dimension is None else dimension
        if array.shape[1] != dimension:
            raise DataError(
                "the vectors of the tasks differ in length",
                where=f"{path}: task {quote(task.name)}",
                got=f"{array.shape[1]:,}",
                expected=f"{dimension:,}, as in task {quote(tasks.names[0])}",
            )
    return arrays


def check_values(array: NDArray[np.float32], task: str, n_rows: int, *, where: str) -> None:
    """Refuse an array that does not have one finite vector a row."""
    if len(array) != n_rows:
        raise DataError(
            "the number of vectors is not the number of rows",
            where=f"{where}: task {quote(task)}",
            got=f"{len(array):,} vectors",
            expected=f"{n_rows:,}",
        )
    if array.shape[1] == 0:
        raise DataError("the vectors are empty", where=f"{where}: task {quote(task)}")
    finite = np.isfinite(array)
    if not finite.all():
        row, place = (int(index) for index in np.argwhere(~finite)[0])
        raise DataError(
            "a number is not finite in single precision",
            where=f"{where}: task {quote(task)}, row {row}, place {place}",
            got=str(array[row, place]),
        )


def check_names(found: set[str], tasks: TaskSet, *, where: str) -> None:
    """Refuse vectors of a task that is not there, and a task without vectors."""
    unknown = sorted(found - set(tasks.names))
    if unknown:
        nearest = nearest_name(unknown[0], set(tasks.names) - found)
        raise DataError(
            "there are feature vectors of a task that is not in the set",
            where=where,
            got=quote(unknown[0]),
            todo=f"did you mean {quote(nearest)}?" if nearest else None,
        )
    missing = [name for name in tasks.names if name not in found]
    if missing:
        raise DataError(
            "a task has no feature vectors",
            where=where,
            got=f"nothing for task {quote(missing[0])}"
            + (f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""),
        )


def read_folder(folder: Path, tasks: TaskSet) -> dict[str, NDArray[np.float32]]:
    """Read one array a task."""
    files = {
        path.name.removesuffix(ENDING): path for path in sorted(folder.iterdir()) if path.suffix == ENDING
    }
    check_names(set(files), tasks, where=str(folder))
    return {name: read_array(files[name]) for name in tasks.names}


def read_array(path: Path) -> NDArray[np.float32]:
    """Read one array of numbers in two dimensions."""
    try:
        # One array a file: numpy.load would also open archives of several.
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError) as error:
        raise DataError(
            "the array cannot be read",
            where=str(path),
            got=quote(str(error)),
            expected="numbers, written by numpy.save; pickled objects are not read",
        ) from error
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise DataError(
            "the array does not hold one vector a row",
            where=str(path),
            got=f"{array.dtype} of shape {array.shape}",
            expected="numbers of shape (rows, dimension)",
        )
    return to_single(array)


def to_single(array: NDArray[Any]) -> NDArray[np.float32]:
    """Convert to single precision; what does not fit becomes infinite, and is refused later."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def read_parquet(path: Path, tasks: TaskSet, column: str) -> dict[str, NDArray[np.float32]]:
    """Read the vectors of all tasks from one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        known = pq.read_schema(path).names
        for name in (TASK_COLUMN, column):
            if known.count(name) != 1:
                nearest = nearest_name(name, known)
                raise DataError(
                    "the file does not have this column once",
                    where=str(path),
                    got=quote(name),
                    expected=f"one of {', '.join(known)}" if known else None,
                    todo=f"did you mean {quote(nearest)}?" if nearest and nearest != name else None,
                )
        table = pq.read_table(
            path, columns=[TASK_COLUMN, column], use_threads=False, page_checksum_verification=True
        )
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            "the file is not a Parquet file, or it is damaged", where=str(path), got=quote(str(error))
        ) from error
    if not len(table):
        raise DataError("the file has no rows", where=str(path))
    names = table[TASK_COLUMN].to_numpy()
    for row in [row for row, name in enumerate(names) if not isinstance(name, str)][:1]:
        raise DataError("a row has no task name", where=f"{path}: row {row}", got=quote(names[row]))
    check_names(set(names.tolist()), tasks, where=str(path))
    vectors = read_lists(table[column].combine_chunks(), names, where=str(path))
    rows_of: dict[str, list[int]] = {name: [] for name in tasks.names}
    for row, name in enumerate(names.tolist()):
        rows_of[name].append(row)
    return {name: vectors[rows] for name, rows in rows_of.items()}


def read_lists(lists: Any, names: NDArray[np.object_], *, where: str) -> NDArray[np.float32]:
    """Turn a column of lists of numbers into an array, and give the place of what does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    kind = lists.type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list or not (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)):
        raise DataError("the column does not hold lists of numbers", where=where, got=str(kind))

    def place(row: int) -> str:
        return f"{where}: task {quote(names[row])}, row {row} of the file"

    if lists.null_count:
        raise DataError("a row has no vector", where=place(int(np.argmin(lists.is_valid().to_numpy(False)))))
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    if (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise DataError(
            "the vectors differ in length",
            where=place(row),
            got=f"{lengths[row]:,}",
            expected=f"{lengths[0]:,}, as in the first row",
        )
    values = lists.flatten()
    if values.null_count:
        at = int(np.argmin(values.is_valid().to_numpy(False)))
        row = at // int(lengths[0])
        raise DataError("a number is missing in a vector", where=place(row), got="null")
    return to_single(values.to_numpy(zero_copy_only=False)).reshape(len(lists), int(lengths[0]))

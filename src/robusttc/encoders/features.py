"""Ready-made feature vectors, one a row: for pictures, tables, or vectors from anywhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import TaskSet
from robusttc.encoders.encoder import PreparedTasks
from robusttc.encoders.feature_files import load_features
from robusttc.encoders.inputs import DenseInputs
from robusttc.errors import DataError, quote
from robusttc.progress import Progress, report

__all__ = ["FeatureEncoder"]


class FeatureEncoder:
    """Rows as given vectors; the trained layer is dense. The texts of the tasks are not looked at.

    Parameters
    ----------
    features
        One array a task (rows, dimensions), by the task's name; or a file or folder of them, see
        `robusttc.encoders.feature_files.load_features`.
    column
        The column of a Parquet file that has the vectors.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["first", "second"], ["x", "y"])])
    >>> FeatureEncoder({"a": [[1.0, 2.0], [3.0, 4.0]]}).prepare(tasks).inputs.matrix.shape
    (2, 2)
    """

    name = "features"

    def __init__(
        self,
        features: Mapping[str, ArrayLike] | str | PathLike[str],
        *,
        column: str | None = None,
    ) -> None:
        self.features = features if isinstance(features, Mapping) else Path(features)
        self.column = column

    @property
    def fingerprint(self) -> str:
        """The content of all vectors; of a file, its bytes."""
        digest = hashlib.sha256(b"robusttc-features-1")
        if self.column is not None:
            digest.update(f"column {len(self.column)}:{self.column}:".encode())
        if isinstance(self.features, Mapping):
            for name in sorted(self.features):
                array = np.ascontiguousarray(self.features[name], dtype=np.float32)
                digest.update(f"{len(name)}:{name}:{array.shape}".encode())
                digest.update(array.tobytes())
            return digest.hexdigest()
        files = sorted(self.features.glob("*.npy")) if self.features.is_dir() else [self.features]
        for path in files:
            try:
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise DataError(
                    "the file of feature vectors cannot be read",
                    where=quote(str(path)),
                    got=error.strerror or str(error),
                ) from error
            digest.update(f"{len(path.name)}:{path.name}:{content}".encode())
        return digest.hexdigest()

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Put the vectors of all tasks under each other.

        Raises
        ------
        DataError
            If a task has no vectors, or not one a row, or they differ in length, or one is not finite.
        """
        del splits  # the vectors are there; taking some of them would save nothing
        report(progress, "features", 0, tasks.n_rows, "rows")
        if isinstance(self.features, Mapping):
            arrays = {task.name: self._check(task.name, len(task)) for task in tasks}
        else:
            arrays = load_features(self.features, tasks, column=self.column)
        dimensions = {array.shape[1]: name for name, array in arrays.items()}
        if len(dimensions) > 1:
            raise DataError(
                "the tasks have vectors of different lengths",
                got=" and ".join(f"{size:,} in task {quote(name)}" for size, name in dimensions.items()),
                expected="one length for all tasks",
            )
        ends = np.cumsum([0, *(len(array) for array in arrays.values())])
        items = {
            name: np.arange(start, end) for name, start, end in zip(arrays, ends[:-1], ends[1:], strict=True)
        }
        report(progress, "features", tasks.n_rows, tasks.n_rows, "rows")
        return PreparedTasks(DenseInputs(np.concatenate(list(arrays.values()))), items)

    def _check(self, name: str, n_rows: int) -> NDArray[np.float32]:
        assert isinstance(self.features, Mapping)  # noqa: S101 - a path has been turned away
        if name not in self.features:
            raise DataError("the task has no feature vectors", where=f"task {quote(name)}")
        try:
            array = np.asarray(self.features[name])
        except ValueError as error:  # rows of different lengths
            raise DataError(
                "the feature vectors do not fit the task", where=f"task {quote(name)}", got=str(error)
            ) from error
        if array.ndim != 2 or len(array) != n_rows or array.dtype.kind not in "fiu":
            raise DataError(
                "the feature vectors do not fit the task",
                where=f"task {quote(name)}",
                got=f"{array.dtype} of shape {array.shape}",
                expected=f"numbers of shape ({n_rows}, dimensions)",
            )
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)  # a copy: who changes the array later changes nothing here
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            row = int(np.flatnonzero(~finite)[0])
            raise DataError(
                "a feature vector has a number that is not finite, as a 32-bit number",
                where=f"task {quote(name)}, row {row}",
            )
        return array

    def __repr__(self) -> str:
        return (
            "FeatureEncoder(...)"
            if isinstance(self.features, Mapping)
            else f"FeatureEncoder({str(self.features)!r})"
        )

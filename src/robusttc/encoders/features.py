"""Ready-made vectors in place of texts: for images, tables, or embeddings from anywhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import TaskSet
from robusttc.encoders.base import Arrays, Encoder
from robusttc.encoders.inputs import DenseInputs, PreparedTasks
from robusttc.errors import DataError, UsageError, quote
from robusttc.params import Integer, Nothing, check_param
from robusttc.progress import Progress, report

__all__ = ["FeatureEncoder"]


class FeatureEncoder(Encoder):
    """Vectors that exist already, one per row of each task; texts are not read.

    Parameters
    ----------
    features
        One array of shape (rows, dimensions) per task, by the task's name. To predict, no task is needed.
    dimension
        The length of a vector, at least 1; None takes that of `features`.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["first", "second"], ["x", "y"])])
    >>> encoder = FeatureEncoder({"a": [[1.0, 2.0], [3.0, 4.0]]})
    >>> encoder.prepare(tasks).inputs.matrix.shape, encoder.read([[5.0, 6.0]]).matrix.tolist()
    ((2, 2), [[5.0, 6.0]])
    """

    name = "features"
    _options = ("dimension",)

    def __init__(self, features: Mapping[str, ArrayLike], *, dimension: int | None = None) -> None:
        if not isinstance(features, Mapping):
            raise UsageError(
                "features cannot be used",
                got=quote(features),
                expected="one array per task, by the task's name",
                todo="load a file of vectors with np.load first",
            )
        check_param("dimension", dimension, Integer(1), Nothing())
        self.features = features
        self.dimension = dimension

    @property
    def fingerprint(self) -> str:
        """The content of all vectors."""
        digest = hashlib.sha256(b"robusttc-features-1")
        for name in sorted(self.features):
            array = np.ascontiguousarray(self.features[name], dtype=np.float32)
            digest.update(f"{len(name)}:{name}:{array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def encode(self, texts: Any) -> NDArray[np.float32]:
        """Return vectors that are given in place of texts; refuse texts, and vectors of another length."""
        length = self._length()
        is_list = isinstance(texts, Sequence)
        if is_list and any(isinstance(text, str) for text in (texts, *texts)):
            raise UsageError(
                "this model was trained on ready-made vectors and cannot read texts",
                got=quote(texts),
                expected=f"an array of numbers of shape (rows, {length})",
                todo="pass the vectors of the texts, made in the same way as those in training",
            )
        if is_list and not texts:
            return np.zeros((0, length), dtype=np.float32)
        return to_floats(texts, length=length)

    def read(self, texts: Any) -> DenseInputs:
        """Check vectors that are given in place of texts; see `encode`."""
        return DenseInputs(self.encode(texts))

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Concatenate the vectors of all tasks; those of all splits, since they exist already.

        Raises
        ------
        DataError
            If a task has no vectors, or not one per row, or they differ in length, or one is not finite.
        """
        del splits
        report(progress, "features", 0, tasks.n_rows, "rows")
        arrays = []
        for task in tasks:
            where = f"task {quote(task.name)}"
            if task.name not in self.features:
                raise DataError("the task has no feature vectors", where=where)
            arrays.append(to_floats(self.features[task.name], where=where, n_rows=len(task)))
        dimensions = {array.shape[1]: name for name, array in zip(tasks.names, arrays, strict=True)}
        if len(dimensions) > 1:
            raise DataError(
                "the tasks have vectors of different lengths",
                got=" and ".join(f"{size:,} in task {quote(name)}" for size, name in dimensions.items()),
            )
        starts = np.cumsum([len(array) for array in arrays[:-1]])
        text_index = dict(zip(tasks.names, np.split(np.arange(tasks.n_rows), starts), strict=True))
        report(progress, "features", tasks.n_rows, tasks.n_rows, "rows")
        return PreparedTasks(DenseInputs(np.concatenate(arrays)), text_index)

    def for_new_texts(self, prepared: PreparedTasks) -> FeatureEncoder:
        """Return an encoder that checks new vectors; it has none of its own."""
        return FeatureEncoder({}, dimension=prepared.inputs.dimension)

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return the length of the vectors, which are not saved."""
        return {"encoder": "features", "dimension": self._length()}, {}

    def _length(self) -> int:
        if self.dimension is not None:
            return int(self.dimension)
        if not self.features:
            raise UsageError("there are neither features nor a dimension")
        return int(to_floats(next(iter(self.features.values()))).shape[1])


def to_floats(
    values: ArrayLike, *, where: str | None = None, n_rows: int | None = None, length: int | None = None
) -> NDArray[np.float32]:
    """Return a copy as a finite float32 matrix; a DataError says what is wrong with it."""
    try:
        array = np.asarray(values)
        got = f"{array.dtype} of shape {array.shape}"
        is_matrix = array.ndim == 2 and array.dtype.kind in "fiu"
    except ValueError as error:  # rows of different lengths
        got, is_matrix = str(error), False
    if not is_matrix or n_rows not in (None, len(array)) or length not in (None, array.shape[1]):
        expected = f"numbers of shape ({n_rows or 'rows'}, {length or 'dimensions'})"
        raise DataError("the vectors cannot be used", where=where, got=got, expected=expected)
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        row = f"row {int(finite.argmin())}"
        place = row if where is None else f"{where}, {row}"
        raise DataError("a vector has a number that is not finite, as a 32-bit number", where=place)
    return array

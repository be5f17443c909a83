"""What completion made of the scores: the similarity of all tasks, and what the measured pairs say.

In ``similarity.safetensors`` beside the clusters, for the report and for whoever wants to look further.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.clustering import RobustTaskClustering
from robusttc.errors import StoreError
from robusttc.files import explain_disk_errors, write_file
from robusttc.jobs import Result, pack, unpack
from robusttc.run.places import SIMILARITY

__all__ = ["Similarity", "read_similarity", "similarity_of", "write_similarity"]

Arrays = Mapping[str, NDArray[Any]]
MATRICES = ("same_group", "outliers")


@dataclass(frozen=True, slots=True, eq=False)
class Similarity:
    """The matrices of a clustering, in the order of its tasks.

    Attributes
    ----------
    task_names
        The tasks.
    points
        The tasks as points of length 1, from the factors of the completed similarity X (rows and columns
        centred): the similarity of two tasks is the product of their points, from -1 to 1.
    same_group
        The posterior probability that a measured pair belongs to one group, by its own scores (with the
        strategy ``paper``: Y of Eq. 1). A pair that is not stored was not measured. Symmetric.
    outliers
        What the robust loss clipped of the scores of a pair, in standard deviations (``paper``: E of Eq. 2);
        pairs that the completion fits are not stored. Symmetric.
    """

    task_names: tuple[str, ...]
    points: NDArray[np.float64]
    same_group: sparse.csr_array
    outliers: sparse.csr_array

    def dense(self) -> NDArray[np.float64]:
        """Return the similarity of all pairs."""
        return np.asarray(self.points @ self.points.T)

    def row(self, name: str) -> NDArray[np.float64]:
        """Return the similarity of one task to all tasks."""
        return np.asarray(self.points @ self.points[self.task_names.index(name)])

    def between(self, first: str, second: str) -> float:
        """Return the similarity of two tasks."""
        one, other = (self.points[self.task_names.index(name)] for name in (first, second))
        return float(one @ other)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays for `from_arrays`."""
        found: dict[str, NDArray[Any]] = {"points": self.points}
        for name in MATRICES:
            entries = getattr(self, name).tocoo()
            found[f"{name}/row"] = entries.row.astype(np.int32)
            found[f"{name}/column"] = entries.col.astype(np.int32)
            found[f"{name}/value"] = entries.data
        return found

    @classmethod
    def from_arrays(cls, task_names: tuple[str, ...], arrays: Arrays) -> Similarity:
        """Read what `arrays` returned."""
        n = len(task_names)
        matrices = [
            sparse.csr_array(
                (arrays[f"{name}/value"], (arrays[f"{name}/row"], arrays[f"{name}/column"])), shape=(n, n)
            )
            for name in MATRICES
        ]
        return cls(task_names, arrays["points"], *matrices)


def similarity_of(clustering: RobustTaskClustering) -> Similarity:
    """Return the matrices of a fitted clustering."""
    pairs = clustering.pairs_
    told, clipped = np.isfinite(pairs.same_group), pairs.outlier != 0
    n = len(clustering.task_names_)
    return Similarity(
        clustering.task_names_,
        clustering.embedding_,
        symmetric(n, pairs.first[told], pairs.second[told], pairs.same_group[told]),
        symmetric(n, pairs.first[clipped], pairs.second[clipped], pairs.outlier[clipped]),
    )


def symmetric(
    n: int, first: NDArray[np.int64], second: NDArray[np.int64], values: NDArray[np.float64]
) -> sparse.csr_array:
    """Return a sparse matrix with each value at both places of its pair."""
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    return sparse.csr_array((np.concatenate([values, values]), ends), shape=(n, n))


def write_similarity(folder: Path, similarity: Similarity) -> None:
    """Write the matrices of a run, with the names of the tasks."""
    payload = Result({"tasks": list(similarity.task_names)}, similarity.arrays())
    write_file(folder / SIMILARITY, pack(payload))


def read_similarity(folder: Path) -> Similarity:
    """Read the matrices of a run; whoever asks has checked the manifest.

    Raises
    ------
    StoreError
        If the file is missing or damaged.
    """
    path = folder / SIMILARITY
    with explain_disk_errors("the similarities cannot be read", path):
        content = path.read_bytes()
    payload = unpack(content, where=repr(str(path)))
    try:
        return Similarity.from_arrays(tuple(payload.values["tasks"]), payload.arrays)
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError("these are no similarities of a run", where=repr(str(path))) from error

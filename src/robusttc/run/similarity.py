"""What completion made of the scores (Eq. 2): X as factors, the errors E, and the verdicts of the filter.

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

from robusttc.clustering.filtering import Verdict
from robusttc.clustering.old.estimator import RobustTaskClustering
from robusttc.errors import StoreError
from robusttc.run.files import explained_files, write_file
from robusttc.run.places import SIMILARITY
from robusttc.work.packing import pack, unpack
from robusttc.work.units import Payload

__all__ = ["Similarity", "read_similarity", "similarity_of", "write_similarity"]

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Similarity:
    """The matrices of a clustering, in the order of its tasks.

    Attributes
    ----------
    task_names
        The tasks.
    eigenvalues, eigenvectors
        The completed similarity X as factors: ``eigenvectors @ diag(eigenvalues) @ eigenvectors.T``.
    errors
        The errors E on observed pairs; symmetric.
    verdicts
        What the filter (Eq. 1) says of measured pairs: 1 they belong together, -1 they do not; a pair that
        is not there was not measured, or cannot be told. Symmetric.
    """

    task_names: tuple[str, ...]
    eigenvalues: NDArray[np.float64]
    eigenvectors: NDArray[np.float64]
    errors: sparse.csr_array
    verdicts: sparse.csr_array

    def dense(self) -> NDArray[np.float64]:
        """Multiply X out."""
        X = (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T
        return np.asarray((X + X.T) / 2)

    def row(self, name: str) -> NDArray[np.float64]:
        """Give the similarity of one task to all tasks."""
        place = self.task_names.index(name)
        return np.asarray((self.eigenvectors[place] * self.eigenvalues) @ self.eigenvectors.T)

    def between(self, first: str, second: str) -> float:
        """Give the similarity of two tasks."""
        one, other = (self.eigenvectors[self.task_names.index(name)] for name in (first, second))
        return float((one * self.eigenvalues) @ other)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give it as arrays for `from_arrays`."""
        found: dict[str, NDArray[Any]] = {"eigenvalues": self.eigenvalues, "eigenvectors": self.eigenvectors}
        for name, matrix in (("errors", self.errors), ("verdicts", self.verdicts)):
            entries = matrix.tocoo()
            found[f"{name}/row"] = entries.row.astype(np.int32)
            found[f"{name}/column"] = entries.col.astype(np.int32)
            found[f"{name}/value"] = entries.data
        return found

    @classmethod
    def from_arrays(cls, task_names: tuple[str, ...], arrays: Arrays) -> Similarity:
        """Put it together again."""
        n = len(task_names)
        matrices = [
            sparse.csr_array(
                (arrays[f"{name}/value"], (arrays[f"{name}/row"], arrays[f"{name}/column"])), shape=(n, n)
            )
            for name in ("errors", "verdicts")
        ]
        return cls(task_names, arrays["eigenvalues"], arrays["eigenvectors"], *matrices)


def similarity_of(clustering: RobustTaskClustering) -> Similarity:
    """Give the matrices of a fitted clustering."""
    completed, filtered = clustering.similarity_, clustering.filtered_
    is_told = np.isin(filtered.verdict, (Verdict.SAME, Verdict.DIFFERENT))
    first, second = filtered.first[is_told], filtered.second[is_told]
    values = np.where(filtered.verdict[is_told] == Verdict.SAME, 1, -1).astype(np.int8)
    n = len(clustering.task_names_)
    verdicts = sparse.csr_array(
        (
            np.concatenate([values, values]),
            (np.concatenate([first, second]), np.concatenate([second, first])),
        ),
        shape=(n, n),
    )
    return Similarity(
        clustering.task_names_,
        np.asarray(completed.eigenvalues, dtype=np.float64),
        np.asarray(completed.eigenvectors, dtype=np.float64),
        completed.E,
        verdicts,
    )


def write_similarity(folder: Path, similarity: Similarity) -> None:
    """Write the matrices of a run, with the names of the tasks."""
    payload = Payload({"tasks": list(similarity.task_names)}, similarity.arrays())
    write_file(folder / SIMILARITY, pack(payload))


def read_similarity(folder: Path) -> Similarity:
    """Read the matrices of a run; whoever asks has checked the manifest.

    Raises
    ------
    StoreError
        If the file is missing or damaged.
    """
    path = folder / SIMILARITY
    with explained_files("the similarities cannot be read", path):
        content = path.read_bytes()
    payload = unpack(content, where=repr(str(path)))
    try:
        return Similarity.from_arrays(tuple(payload.values["tasks"]), payload.arrays)
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError("these are no similarities of a run", where=repr(str(path))) from error

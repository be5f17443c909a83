"""The matrices that the report draws, tasks ordered by cluster: measured, verdicts, completed, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.report.task_space import TaskSpace

__all__ = ["MatrixLayers", "find_boundaries", "make_layers"]

# Beyond this nobody sees single tasks, and the completed matrix alone would take a gigabyte.
MAX_TASKS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class MatrixLayers:
    """The layers of one square picture: rows are sources, columns targets.

    Attributes
    ----------
    task_names
        The tasks in the order of rows and columns: by cluster, the surest of each first; those in no cluster
        come last.
    boundaries
        Where each cluster begins; its end is the next boundary, or the last task. Tasks in no cluster have
        a boundary too.
    measured, raw, verdicts, errors
        See `robusttc.report.task_space.TaskSpace`. What is not stored is not known.
    completed
        The completed similarity X, multiplied out.
    clusters
        The cluster of each boundary; -1 for none.
    """

    task_names: tuple[str, ...]
    boundaries: tuple[int, ...]
    measured: sparse.csr_array
    raw: sparse.csr_array
    verdicts: sparse.csr_array
    completed: NDArray[np.float32]
    errors: sparse.csr_array
    clusters: tuple[int, ...] = ()


def make_layers(space: TaskSpace | None) -> MatrixLayers | None:
    """Give the layers of a picture; None where there is nothing to draw, or too much."""
    if space is None or not 2 <= len(space.names) <= MAX_TASKS:
        return None
    labels = space.labels.tolist()
    boundaries = find_boundaries(labels)
    return MatrixLayers(
        space.names,
        boundaries,
        space.measured,
        space.raw,
        space.verdicts,
        space.similarity(slice(None)).astype(np.float32),
        space.errors,
        tuple(labels[place] for place in boundaries),
    )


def find_boundaries(labels: Sequence[int]) -> tuple[int, ...]:
    """Give the places where a new cluster begins.

    >>> find_boundaries([0, 0, 3, -1, -1])
    (0, 2, 3)
    """
    return tuple(place for place, label in enumerate(labels) if place == 0 or labels[place - 1] != label)

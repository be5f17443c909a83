"""Which source tasks are most like a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.losses import sum_rows, unit_rows
from robusttc.fewshot.spaces import Space

__all__ = ["Landmarks", "find_nearest", "make_landmarks"]

Floats = NDArray[np.float32]
N_NEAREST = 5


@dataclass(frozen=True, slots=True, eq=False)
class Landmarks:
    """The mean of each label of each source task, in the shared space.

    Attributes
    ----------
    names
        The names of the tasks.
    n_labels
        How many rows of `means` belong to each.
    means
        Unit vectors, task after task.
    """

    names: tuple[str, ...]
    n_labels: NDArray[np.int64]
    means: Floats


def make_landmarks(space: Space, inputs: FrozenInputs, sources: Sequence[SourceRows]) -> Landmarks:
    """Take the mean of every label of the sources that occurs."""
    vectors = space.directions(inputs)
    means, n_labels = [], []
    for source in sources:
        present, codes = np.unique(source.codes, return_inverse=True)
        means.append(unit_rows(sum_rows(vectors[source.items], codes, len(present))))
        n_labels.append(len(present))
    names = tuple(source.name for source in sources)
    return Landmarks(names, np.array(n_labels, dtype=np.int64), np.concatenate(means).astype(np.float32))


def find_nearest(
    landmarks: Landmarks, support: Floats, *, without: str = ""
) -> tuple[tuple[str, float], ...]:
    """Give the five tasks most like a support set, the most similar first.

    The similarity is the mean, over the support rows, of the cosine to the nearest label of the task.

    Parameters
    ----------
    landmarks
        The labels of the sources.
    support
        Unit vectors of the support set, in the shared space.
    without
        A name that is passed over: that of the task itself.

    Examples
    --------
    >>> landmarks = Landmarks(("a", "b"), np.array([1, 1]), np.eye(2, dtype=np.float32))
    >>> find_nearest(landmarks, np.array([[0, 1]], dtype=np.float32))
    (('b', 1.0), ('a', 0.0))
    """
    starts = np.cumsum([0, *landmarks.n_labels[:-1].tolist()])
    has_labels = landmarks.n_labels > 0
    similarity = np.full(len(landmarks.names), -np.inf)
    best = np.maximum.reduceat(support @ landmarks.means.T, starts[has_labels], axis=1)
    similarity[has_labels] = best.mean(axis=0)
    order = sorted(
        (place for place, name in enumerate(landmarks.names) if name != without and has_labels[place]),
        key=lambda place: (-similarity[place], landmarks.names[place]),
    )
    return tuple((landmarks.names[place], float(similarity[place])) for place in order[:N_NEAREST])

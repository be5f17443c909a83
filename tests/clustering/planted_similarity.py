"""Planted clusters: similarities of tasks, of which some pairs are measured, and some of those wrongly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Planted:
    """Dense matrices, and the truth."""

    Y: NDArray[np.float64]
    observed: NDArray[np.bool_]
    labels: NDArray[np.intp]


def plant(sizes: list[int], *, degree: float, flips: float, seed: int, diagonal: bool = True) -> Planted:
    """Measure `degree` partners a task on average, chosen at random; a share `flips` of them is wrong."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n = len(labels)
    above = np.triu(generator.random((n, n)) < degree / max(n - 1, 1), 1)
    wrong = np.triu(generator.random((n, n)) < flips, 1)
    observed = above | above.T
    truth = labels[:, None] == labels[None, :]
    Y = np.where(observed, truth ^ (wrong | wrong.T), False).astype(np.float64)
    if diagonal:
        observed |= np.eye(n, dtype=bool)
        np.fill_diagonal(Y, 1.0)
    return Planted(Y, observed, labels)

"""Scores of tasks whose clusters are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.transfer import TransferScores


@dataclass(frozen=True)
class PlantedScores:
    scores: TransferScores
    labels: NDArray[np.intp]


def planted_scores(
    n: int,
    k: int,
    density: float = 1.0,
    noise: float = 0.05,
    seed: int = 0,
    *,
    gain: float = 0.2,
    between: bool = True,
) -> PlantedScores:
    """Make scores: the level of the target, a gain if source and target are of one cluster, and noise.

    A share `density` of the pairs is measured, both ways; with `between` also those between clusters.
    """
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.arange(n) % k)
    same = labels[:, None] == labels
    level = generator.uniform(0.4, 0.7, size=n)
    S = level + gain * same + generator.normal(0, noise, size=(n, n))
    measured = np.triu(generator.random((n, n)) < density, 1)
    if not between:
        measured &= same
    measured |= measured.T
    names = [f"task-{number:04d}" for number in range(n)]
    return PlantedScores(TransferScores.from_matrix(S, names, observed=measured), labels)

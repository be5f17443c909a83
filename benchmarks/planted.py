"""Planted clusters of any size: uniformly chosen pairs of tasks, of which a share is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True)
class Planted:
    """A partial similarity matrix, what of it is observed, and the true clusters."""

    Y: sparse.csr_array
    observed: sparse.csr_array
    labels: NDArray[np.intp]


def plant(
    n: int,
    k: int,
    degree: float,
    flips: float | tuple[float, float],
    seed: int,
    *,
    sizes: Sequence[int] | None = None,
    only_positives: bool = False,
) -> Planted:
    """Plant clusters.

    Parameters
    ----------
    n, k
        How many tasks and clusters; task i is in cluster i % k unless `sizes` is given.
    degree
        The mean number of observed partners of a task.
    flips
        The share of wrong pairs; or one share within clusters and one between them.
    seed
        The seed.
    sizes
        The sizes of the clusters.
    only_positives
        Whether only the pairs that look alike are observed.
    """
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % k if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    n_pairs = round(n * degree / 2)
    places = np.zeros(0, dtype=np.int64)
    while len(places) < n_pairs:
        ends = generator.integers(0, n, size=(2, n_pairs + n_pairs // 4))
        first, second = ends.min(axis=0), ends.max(axis=0)
        places = np.unique(np.concatenate([places, (first * n + second)[first != second]]))
    places = generator.permutation(places)[:n_pairs]
    first, second = places // n, places % n
    alike = labels[first] == labels[second]
    within, between = flips if isinstance(flips, tuple) else (flips, flips)
    values = alike ^ (generator.random(n_pairs) < np.where(alike, within, between))
    if only_positives:
        first, second, values = first[values], second[values], values[values]
    diagonal = np.arange(n)
    rows = np.concatenate([first, second, diagonal])
    columns = np.concatenate([second, first, diagonal])
    entries = np.concatenate([values, values, np.ones(n, dtype=bool)]).astype(np.float64)
    observed = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)).tocsr()
    return Planted(sparse.coo_array((entries, (rows, columns)), shape=(n, n)).tocsr(), observed, labels)

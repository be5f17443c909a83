"""From the name of a label to where its texts are: a linear map learned over all labels of the sources.

A name is not a text of its label: "order status" is near what people write about their orders, but not in the
midst of it. In which direction texts differ from names is much the same in all tasks. So with rows of unit
vectors, names N and label means M of the sources, A minimises ||N (I + A) - M||^2 + strength ||A||^2, and
a name n of a new task stands at n (I + A). On intent tasks this is worth about one point of accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.losses import sum_rows, unit_rows

__all__ = ["fit_name_map", "place_names"]

Floats = NDArray[np.float32]
# The labels of the sources must be some hundreds before a full matrix can be learned from them; below this
# number names stay where they are.
LEAST_LABELS = 30
# The mean of a label hardly moves after so many rows.
ROWS_A_LABEL = 20


def fit_name_map(
    represent: Callable[[NDArray[np.int64]], Floats], sources: Sequence[SourceRows], *, strength: float
) -> Floats | None:
    """Learn A from the labels of some tasks; None where too few labels have names.

    The result does not depend on the order of the tasks.

    Parameters
    ----------
    represent
        Gives the unit vectors of items.
    sources
        The tasks.
    strength
        How strongly A is held back.

    Examples
    --------
    >>> vectors = unit_rows(np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32))
    >>> source = SourceRows("a", np.arange(40, 80), np.arange(40), np.arange(40))
    >>> fit_name_map(lambda items: vectors[items], [source], strength=1.0).shape
    (4, 4)
    """
    names, means = [], []
    for source in sorted(sources, key=lambda source: source.name):
        rows = first_rows(source.codes)
        known = (source.name_items >= 0) & (np.bincount(source.codes, minlength=len(source.name_items)) > 0)
        if known.any():
            sums = sum_rows(represent(source.items[rows]), source.codes[rows], len(known))
            means.append(unit_rows(sums[known]))
            names.append(represent(source.name_items[known]))
    if sum(len(part) for part in names) < LEAST_LABELS:
        return None
    inputs = np.concatenate(names).astype(np.float64)
    outputs = np.concatenate(means).astype(np.float64) - inputs
    gram = inputs.T @ inputs
    gram[np.diag_indices_from(gram)] += strength
    return np.linalg.solve(gram, inputs.T @ outputs).astype(np.float32)


def first_rows(codes: NDArray[np.int64]) -> NDArray[np.intp]:
    """Give the first rows of each label, as many as its mean needs."""
    order = np.argsort(codes, kind="stable")
    rank = np.arange(len(codes)) - np.searchsorted(codes[order], codes[order])
    return np.sort(order[rank < ROWS_A_LABEL])


def place_names(names: Floats, name_map: Floats | None) -> Floats:
    """Give the unit vectors that stand for labels, from those of their names.

    Examples
    --------
    >>> place_names(np.eye(2, dtype=np.float32), None).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    moved = names if name_map is None else names + names @ name_map
    return np.asarray(unit_rows(moved), dtype=np.float32)

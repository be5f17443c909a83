"""Fewer tasks in the matrices than there are: beyond some thousands nobody sees one, and files grow."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from robusttc.report.matrices import MatrixLayers

__all__ = ["thin_layers"]


def thin_layers(layers: MatrixLayers, most: int) -> MatrixLayers:
    """Leave out tasks evenly, but no cluster, until about `most` are left; give fewer tasks as they are.

    Parameters
    ----------
    layers
        The matrices of all tasks.
    most
        How many tasks are enough. There may be more: every cluster keeps its first task, the surest.
    """
    n = len(layers.task_names)
    if n <= most:
        return layers
    kept = np.union1d(np.linspace(0, n - 1, most).astype(np.intp), np.array(layers.boundaries, dtype=np.intp))
    group = [bisect_right(layers.boundaries, place) for place in kept.tolist()]
    return type(layers)(
        tuple(layers.task_names[place] for place in kept),
        tuple(place for place in range(len(kept)) if place == 0 or group[place] != group[place - 1]),
        layers.measured[kept][:, kept],
        layers.raw[kept][:, kept],
        layers.verdicts[kept][:, kept],
        layers.completed[np.ix_(kept, kept)],
        layers.errors[kept][:, kept],
        layers.clusters,
    )

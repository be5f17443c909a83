"""The spaces that a new task is looked at in: the shared metric and those of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.errors import UsageError, quote
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.losses import unit_rows
from robusttc.fewshot.name_map import fit_name_map, place_names
from robusttc.fewshot.settings import FewShotSettings
from robusttc.models import Layer

__all__ = ["Metrics", "Space", "make_space"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """A metric, and where the names of labels stand in it.

    Attributes
    ----------
    layer
        The metric; None for ready vectors as they are.
    name_map
        See `robusttc.fewshot.name_map`; None leaves names where they are.
    """

    layer: Layer | None
    name_map: Floats | None = None

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Give the representation of every item, as it is."""
        if self.layer is not None:
            return self.layer.represent(inputs)
        if not isinstance(inputs, DenseInputs):
            raise UsageError("words have no vector of their own", got=quote(inputs), expected="ready vectors")
        return inputs.matrix

    def directions(self, inputs: FrozenInputs) -> Floats:
        """Give the representation of every item, at length 1."""
        return np.asarray(unit_rows(self.represent(inputs)), dtype=np.float32)

    def place_names(self, inputs: FrozenInputs) -> Floats:
        """Give unit vectors that stand for labels, from the inputs of their names."""
        return place_names(self.directions(inputs), self.name_map)


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """All that the sources taught.

    Attributes
    ----------
    frozen
        Ready vectors as they are; None for words, which have none.
    shared
        The metric of all sources.
    clusters
        The metric of each cluster, by its number; a cluster that no episode can be drawn from has none.
    """

    frozen: Space | None
    shared: Space
    clusters: dict[int, Space]


def make_space(
    layer: Layer | None, inputs: FrozenInputs, sources: Sequence[SourceRows], settings: FewShotSettings
) -> Space:
    """Learn where names stand in a metric, from all sources that have some."""
    space = Space(layer)
    if not any((source.name_items >= 0).any() for source in sources):
        return space

    def represent(items: NDArray[np.int64]) -> Floats:
        return space.directions(inputs.take(items))

    return Space(layer, fit_name_map(represent, sources, strength=settings.name_strength))

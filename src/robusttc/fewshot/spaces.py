"""The spaces that a new task is looked at in: the shared metric and those of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.inputs import DenseInputs, FrozenInputs
from robusttc.encoders.layer import Layer
from robusttc.errors import UsageError, quote
from robusttc.fewshot.episodes import SourceRows, usable_sources
from robusttc.fewshot.losses import unit_rows
from robusttc.fewshot.metric import train_metric
from robusttc.fewshot.name_map import fit_name_map, place_names
from robusttc.fewshot.settings import FewShotSettings
from robusttc.progress import Progress, report

__all__ = ["Metrics", "Space", "train_metrics"]

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


def train_metrics(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    clusters: Mapping[int, Sequence[str]],
    *,
    settings: FewShotSettings,
    shared: Space | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Metrics:
    """Train the shared metric, and one a cluster.

    Parameters
    ----------
    inputs
        The frozen inputs of all rows and names.
    sources
        The tasks.
    clusters
        The names of the tasks of each cluster; tasks that are not among `sources` are passed over.
    settings
        How to train.
    shared
        The shared metric, where it is trained already.
    seed
        The seed of the run.
    progress
        Told after every metric.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.
    """
    n_metrics = 1 + len(clusters)
    with_names = any((source.name_items >= 0).any() for source in sources)
    common = {"layer_settings": settings.layer, "seed": seed}
    if shared is None:
        layer = train_metric(inputs, sources, settings=settings.metric, **common)  # type: ignore[arg-type]
        shared = make_space(layer, inputs, sources, settings, with_names)
    report(progress, "metrics", 1, n_metrics, "metrics")
    frozen = (
        make_space(None, inputs, sources, settings, with_names) if isinstance(inputs, DenseInputs) else None
    )
    by_name = {source.name: source for source in sources}
    spaces: dict[int, Space] = {}
    own_settings = settings.metric
    if settings.cluster_steps is not None:
        own_settings = own_settings.replace(steps=settings.cluster_steps)
    for done, (number, names) in enumerate(sorted(clusters.items()), start=2):
        own = [by_name[name] for name in names if name in by_name]
        if usable_sources(own):
            start = None if settings.cluster_steps is None else shared.layer
            layer = train_metric(inputs, own, settings=own_settings, start=start, **common)  # type: ignore[arg-type]
            # Names are few in a cluster: how texts differ from names is learned from all sources.
            spaces[number] = make_space(layer, inputs, sources, settings, with_names)
        report(progress, "metrics", done, n_metrics, "metrics")
    return Metrics(frozen, shared, spaces)


def make_space(
    layer: Layer | None,
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    settings: FewShotSettings,
    with_names: bool,
) -> Space:
    """Learn where names stand in a metric."""
    space = Space(layer)
    if not with_names:
        return space

    def represent(items: NDArray[np.int64]) -> Floats:
        return space.directions(inputs.take(items))

    return Space(layer, fit_name_map(represent, sources, strength=settings.name_strength))

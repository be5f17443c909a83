"""Few-shot training cut into units: one a metric, one a pooled classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.metric import train_metric
from robusttc.fewshot.parts import (
    LinearPart,
    describe_layer,
    describe_part,
    layer_from,
    part_from,
    take_prefix,
)
from robusttc.fewshot.pooled import train_pooled
from robusttc.fewshot.settings import FewShotSettings
from robusttc.fewshot.spaces import Space, make_space
from robusttc.jobs import Job, Result
from robusttc.models import name_tasks

__all__ = ["STAGE", "Material", "MetricOrder", "Order", "PoolOrder", "make_unit", "pool_from", "space_from"]

STAGE = "fewshot"


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What all units see.

    Attributes
    ----------
    inputs, sources
        The frozen inputs of all rows and names, and the tasks, by name.
    rounds
        The names of the tasks that are learned from together: all, or those that are not held out.
    settings, seed
        How to train.
    n_labels
        How many labels pooled classifiers tell apart; 0 where labels differ.
    starts
        The shared metric of each round, where those of clusters start from it.
    """

    inputs: FrozenInputs
    sources: Mapping[str, SourceRows]
    rounds: Mapping[str, tuple[str, ...]]
    settings: FewShotSettings
    seed: int
    n_labels: int = 0
    starts: Mapping[str, Result] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricOrder:
    """A metric to be trained.

    Attributes
    ----------
    round
        Whose tasks tell how names differ from texts.
    names
        The tasks that it is trained on, in the order of their names.
    is_cluster
        Whether it is that of a cluster, which may start from the shared one.
    """

    round: str
    names: tuple[str, ...]
    is_cluster: bool


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """A pooled classifier to be trained; see `MetricOrder`."""

    round: str
    names: tuple[str, ...]


Order = MetricOrder | PoolOrder


def make_unit(order: Order) -> Job:
    """Make the unit of an order; its key has the tasks, so the same tasks are the same work."""
    work: Callable[[Any, Any], Result]
    if isinstance(order, PoolOrder):
        kind, work = "pool", train_pool_unit
    else:
        kind, work = "cluster metric" if order.is_cluster else "shared metric", train_metric_unit
    return Job("/".join([STAGE, order.round, kind, name_tasks(order.names)]), work, order, order.names)


def train_metric_unit(material: Material, order: MetricOrder) -> Result:
    """Do a unit: train a metric, and learn where names stand in it."""
    settings, metric_settings, start = material.settings, material.settings.metric, None
    if order.is_cluster and settings.cluster_steps is not None:
        metric_settings = metric_settings.replace(steps=settings.cluster_steps)
        start = space_from(material.starts[order.round]).layer
    layer = train_metric(
        material.inputs,
        [material.sources[name] for name in order.names],
        settings=metric_settings,
        layer_settings=settings.layer,
        start=start,
        seed=material.seed,
    )
    # Names are few in a cluster: how texts differ from names is learned from all sources.
    sources = [material.sources[name] for name in material.rounds[order.round]]
    return describe_space(make_space(layer, material.inputs, sources, settings))


def train_pool_unit(material: Material, order: PoolOrder) -> Result:
    """Do a unit: train a pooled classifier."""
    part = train_pooled(
        material.inputs,
        [material.sources[name] for name in order.names],
        n_labels=material.n_labels,
        settings=material.settings,
        seed=material.seed,
    )
    if part is None:
        return Result({"part": None})
    settings, arrays = describe_part(part)
    return Result({"part": settings}, arrays)


def describe_space(space: Space) -> Result:
    """Give a space as a result of a unit."""
    settings, layer = describe_layer(space.layer)
    arrays: dict[str, NDArray[Any]] = {f"layer/{name}": array for name, array in layer.items()}
    if space.name_map is not None:
        arrays["name_map"] = space.name_map
    return Result({"layer": settings}, arrays)


def space_from(payload: Result) -> Space:
    """Make a space again from the result of a unit."""
    layer = layer_from(payload.values["layer"], take_prefix(payload.arrays, "layer/"))
    return Space(layer, payload.arrays.get("name_map"))


def pool_from(payload: Result) -> LinearPart | None:
    """Make a pooled classifier again; None where the tasks have rows of fewer than two labels."""
    if payload.values["part"] is None:
        return None
    part = part_from(payload.values["part"], payload.arrays)
    assert isinstance(part, LinearPart)  # noqa: S101 - pooled classifiers are linear
    return part

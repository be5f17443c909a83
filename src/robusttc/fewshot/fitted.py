"""All that fitting `ClusterFewShot` leaves behind, and its form on disk."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeVar

from numpy.typing import NDArray

from robusttc.encoders import Encoder, load_encoder
from robusttc.errors import RobustTCError, StoreError, quote
from robusttc.fewshot.gate import Gate, Marks
from robusttc.fewshot.knowledge import Knowledge
from robusttc.fewshot.nearest import Landmarks
from robusttc.fewshot.parts import (
    LinearPart,
    describe_layer,
    describe_part,
    layer_from,
    part_from,
    take_prefix,
)
from robusttc.fewshot.settings import FewShotSettings, MetricSettings
from robusttc.fewshot.spaces import Metrics, Space
from robusttc.fewshot.trusting import Trust
from robusttc.models import ScopeModel, TrainingSettings, Verdict, read_model_folder, write_model_folder

__all__ = ["Fitted", "load_fitted", "save_fitted"]

KIND, VERSION = "few-shot", 1
Arrays = dict[str, NDArray[Any]]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What fitting leaves behind.

    Attributes
    ----------
    knowledge
        What the sources taught.
    reader
        How texts become frozen inputs.
    landmarks
        The labels of the sources.
    clusters
        The names of the source tasks of each cluster.
    temperatures
        By the number of a cluster; -1 for that of all.
    scope, verdict, trust
        What the rehearsal told; None where it did not.
    use_label_names
        Whether names of labels are used.
    """

    knowledge: Knowledge
    reader: Encoder
    landmarks: Landmarks
    clusters: dict[int, tuple[str, ...]]
    temperatures: dict[int, float]
    scope: ScopeModel | None
    verdict: Verdict
    trust: Trust | None
    use_label_names: bool


def save_fitted(fitted: Fitted, folder: str | PathLike[str]) -> None:
    """Write what fitting left behind to a folder."""
    knowledge = fitted.knowledge
    reader, arrays = fitted.reader.describe()
    arrays = {f"reader/{name}": array for name, array in arrays.items()}
    arrays |= {"landmarks/means": fitted.landmarks.means, "landmarks/n_labels": fitted.landmarks.n_labels}
    if knowledge.marks is not None:
        arrays |= {f"marks/{name}": array for name, array in knowledge.marks.arrays().items()}
    if fitted.scope is not None:
        arrays |= {f"scope/{name}": array for name, array in fitted.scope.arrays().items()}
    spaces: dict[str, Space] = {"shared": knowledge.metrics.shared}
    if knowledge.metrics.frozen is not None:
        spaces["frozen"] = knowledge.metrics.frozen
    spaces |= {f"cluster{number}": space for number, space in knowledge.metrics.clusters.items()}
    pools = {f"pool{number}": pool for number, pool in knowledge.pools.items()}
    if knowledge.shared_pool is not None:
        pools["pool"] = knowledge.shared_pool
    space_settings, pool_settings = {}, {}
    for name, space in spaces.items():
        layer, own = describe_layer(space.layer)
        space_settings[name] = {"layer": layer, "has_map": space.name_map is not None}
        arrays |= {f"{name}/layer/{key}": array for key, array in own.items()}
        if space.name_map is not None:
            arrays[f"{name}/map"] = space.name_map
    for name, pool in pools.items():
        pool_settings[name], own = describe_part(pool)
        arrays |= {f"{name}/{key}": array for key, array in own.items()}
    settings = {
        "strategy": knowledge.strategy,
        "settings": dataclasses.asdict(knowledge.settings),
        "threshold": knowledge.threshold,
        "seed": knowledge.seed,
        "clusters_serve": knowledge.clusters_serve,
        "shared_labels": None if knowledge.shared_labels is None else list(knowledge.shared_labels),
        "spaces": space_settings,
        "pools": pool_settings,
        "has_marks": knowledge.marks is not None,
        "gate": None if knowledge.gate is None else list(knowledge.gate.strengths),
        "reader": reader,
        "landmarks": list(fitted.landmarks.names),
        "clusters": [[number, list(names)] for number, names in fitted.clusters.items()],
        "temperatures": [[number, value] for number, value in fitted.temperatures.items()],
        "has_scope": fitted.scope is not None,
        "verdict": fitted.verdict.to_dict(),
        "trust": None if fitted.trust is None else fitted.trust.to_dict(),
        "use_label_names": fitted.use_label_names,
    }
    write_model_folder(folder, kind=KIND, version=VERSION, settings=settings, arrays=arrays)


def load_fitted(folder: str | PathLike[str], *, device: str = "cpu") -> Fitted:
    """Read what `save_fitted` wrote.

    Raises
    ------
    StoreError
        If something is missing, damaged, or from a later version.
    """
    settings, arrays = read_model_folder(folder, kind=KIND, version=VERSION)
    try:
        return make_fitted(settings, arrays, device)
    except StoreError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RobustTCError) as error:
        raise StoreError(
            "the saved few-shot learner is damaged", where=quote(str(folder)), got=quote(error)
        ) from error


def make_fitted(settings: dict[str, Any], arrays: Arrays, device: str) -> Fitted:
    """Put together what was read."""
    spaces = {
        name: Space(
            layer_from(one["layer"], take_prefix(arrays, f"{name}/layer/")),
            arrays[f"{name}/map"] if one["has_map"] else None,
        )
        for name, one in settings["spaces"].items()
    }
    pools: dict[str, LinearPart] = {}
    for name, one in settings["pools"].items():
        part = part_from(one, take_prefix(arrays, f"{name}/"))
        if not isinstance(part, LinearPart):
            raise StoreError("a pooled classifier is damaged", where=name)
        pools[name] = part
    labels, trust = settings["shared_labels"], settings["trust"]
    knowledge = Knowledge(
        settings["strategy"],
        settings_from(settings["settings"]),
        float(settings["threshold"]),
        int(settings["seed"]),
        bool(settings["clusters_serve"]),
        Metrics(spaces.get("frozen"), spaces["shared"], numbered(spaces, "cluster")),
        None if labels is None else tuple(labels),
        pools.get("pool"),
        numbered(pools, "pool"),
        Marks.from_arrays(take_prefix(arrays, "marks/")) if settings["has_marks"] else None,
        None if settings["gate"] is None else Gate(tuple(float(one) for one in settings["gate"])),
    )
    means, n_labels = arrays["landmarks/means"], arrays["landmarks/n_labels"]
    return Fitted(
        knowledge,
        load_encoder(settings["reader"], take_prefix(arrays, "reader/"), device=device),
        Landmarks(tuple(settings["landmarks"]), n_labels, means),
        {int(number): tuple(names) for number, names in settings["clusters"]},
        {int(number): float(value) for number, value in settings["temperatures"]},
        ScopeModel.from_arrays(take_prefix(arrays, "scope/")) if settings["has_scope"] else None,
        Verdict.from_dict(settings["verdict"]),
        None if trust is None else Trust.from_dict(trust),
        bool(settings["use_label_names"]),
    )


def numbered(values: dict[str, Value], prefix: str) -> dict[int, Value]:
    """Give those that are named by a prefix and a number, by their numbers."""
    found = {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
    return {int(number): found[number] for number in sorted(found) if number}


def settings_from(values: dict[str, Any]) -> FewShotSettings:
    """Make settings from their values in JSON."""
    nested = {"metric": MetricSettings(**values["metric"]), "layer": TrainingSettings(**values["layer"])}
    return FewShotSettings(**{**values, **nested})

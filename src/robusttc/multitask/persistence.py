"""A trained multi-task model in a folder: numbers in safetensors, the rest in JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import load_encoder
from robusttc.errors import RobustTCError, StoreError, quote
from robusttc.models import ScopeModel, TrustReport, Verdict, read_model_folder, write_model_folder
from robusttc.multitask.choosing import Choice
from robusttc.multitask.components import Shared, describe_own, own_from_description
from robusttc.multitask.familiar import FamiliarTexts
from robusttc.multitask.serving import CLUSTER_ONLY, OWN_ONLY, ServedTask, Serving
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.shared_model import SharedModel
from robusttc.multitask.weighing import Weights
from robusttc.stats import Estimate

__all__ = ["KIND", "VERSION", "Fitted", "load_fitted", "save_fitted"]

KIND = "robusttc-multitask"
VERSION = 1
Arrays = dict[str, NDArray[Any]]
Right = dict[str, dict[str, NDArray[np.bool_]]]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """All that a training leaves behind.

    Attributes
    ----------
    serving
        The models.
    strategy, settings, seed
        How they were trained.
    weights, starts, verdict, components, right, label_power
        What was decided and on what, see `robusttc.multitask.choosing.Choice`.
    trust
        How far probabilities can be trusted.
    without_validation
        Clusters whose tasks have no rows in ``valid``.
    """

    serving: Serving
    strategy: str
    settings: MultiTaskSettings
    seed: int
    weights: Weights
    starts: dict[int, str]
    verdict: Verdict | None
    components: dict[str, Estimate]
    right: Right
    trust: TrustReport
    without_validation: tuple[int, ...]
    label_power: float = 0.0

    @classmethod
    def of(
        cls,
        serving: Serving,
        choice: Choice | None,
        trust: TrustReport,
        *,
        settings: MultiTaskSettings,
        strategy: str,
        seed: int,
        without_validation: tuple[int, ...] = (),
    ) -> Fitted:
        """Put together what a training made and decided; without a choice only one kind of model serves."""
        only = CLUSTER_ONLY if strategy == "paper" else OWN_ONLY
        weights = only if choice is None else choice.weights
        start = "scratch" if choice is None else choice.start
        return cls(
            serving,
            strategy,
            settings,
            seed,
            weights,
            dict.fromkeys(sorted(serving.clusters), start),
            None if choice is None else choice.verdict,
            {} if choice is None else choice.components,
            {} if choice is None else choice.right,
            trust,
            without_validation,
            0.0 if choice is None else choice.label_power,
        )

    @property
    def temperatures(self) -> dict[int, float]:
        """The temperature of every cluster of tasks that may share."""
        tasks = self.serving.tasks.values()
        found = {task.cluster: task.temperature for task in tasks if task.may_share}
        return {cluster: found[cluster] for cluster in sorted(found)}


def save_fitted(fitted: Fitted, folder: str | PathLike[str]) -> None:
    """Write all of it; see `robusttc.models.write_model_folder`."""
    serving = fitted.serving
    arrays: Arrays = {}

    def put(prefix: str, own: Mapping[str, NDArray[Any]]) -> None:
        arrays.update({f"{prefix}/{name}": array for name, array in own.items()})

    def put_shared(prefix: str, shared: Shared) -> list[dict[str, Any]]:
        described = [copy.describe() for copy in shared.copies]
        for number, (_, own) in enumerate(described):
            put(f"{prefix}/{number}", own)
        return [values for values, _ in described]

    reader, reader_arrays = serving.reader.describe()
    put("reader", reader_arrays)
    private_readers = {}
    for number, (name, own_reader) in enumerate(sorted(serving.private_readers.items())):
        private_readers[name], own_arrays = own_reader.describe()
        put(f"private reader/{number}", own_arrays)
    names = list(serving.tasks)
    for name, own in serving.own.items():
        put(f"own/{names.index(name)}", describe_own(own))
    for name, reference in serving.references.items():
        arrays[f"reference/{names.index(name)}"] = reference
    for name, kinds in fitted.right.items():
        put(f"right/{names.index(name)}", kinds)
    familiar = None
    if serving.familiar is not None:
        familiar, own_arrays = serving.familiar.describe()
        put("familiar", own_arrays)
    if serving.scope is not None:
        put("scope", serving.scope.arrays())
    settings = {
        "strategy": fitted.strategy,
        "settings": dataclasses.asdict(fitted.settings),
        "seed": fitted.seed,
        "weights": dataclasses.asdict(fitted.weights),
        "starts": {str(cluster): start for cluster, start in fitted.starts.items()},
        "verdict": None if fitted.verdict is None else fitted.verdict.to_dict(),
        "components": {name: estimate.to_dict() for name, estimate in fitted.components.items()},
        "trust": fitted.trust.to_dict(),
        "without_validation": list(fitted.without_validation),
        "label_power": fitted.label_power,
        "tasks": [dataclasses.asdict(task) for task in serving.tasks.values()],
        "familiar": familiar,
        "reader": reader,
        "private_readers": private_readers,
        "shared": None if serving.shared is None else put_shared("shared", serving.shared),
        "clusters": {str(key): put_shared(f"cluster/{key}", own) for key, own in serving.clusters.items()},
        "alone": {name: put_shared(f"alone/{names.index(name)}", own) for name, own in serving.alone.items()},
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
        return fitted_from(settings, arrays, device=device)
    except StoreError:
        raise
    # The bytes are those that were written; then only another program can have written nonsense.
    except (RobustTCError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StoreError(
            "the model cannot be read", where=quote(str(folder)), got=quote(str(error)), todo="train it again"
        ) from error


def fitted_from(settings: Mapping[str, Any], arrays: Arrays, *, device: str) -> Fitted:
    """Make all of it again from its description."""
    grouped = group(arrays)
    tasks = {
        values["name"]: ServedTask(
            **{
                **values,
                "label_names": tuple(values["label_names"]),
                "weights": weights_from(values["weights"]),
                "offsets": tuple(values.get("offsets", ())),
            }
        )
        for values in settings["tasks"]
    }
    names = list(tasks)

    def get_shared(prefix: str, described: list[dict[str, Any]]) -> Shared:
        return Shared(
            [
                SharedModel.from_description(values, grouped[f"{prefix}/{number}"])
                for number, values in enumerate(described)
            ]
        )

    serving = Serving(
        tasks,
        load_encoder(settings["reader"], grouped.get("reader", {}), device=device),
        {
            name: load_encoder(values, grouped.get(f"private reader/{number}", {}), device=device)
            for number, (name, values) in enumerate(sorted(settings["private_readers"].items()))
        },
        {
            name: own_from_description(grouped[f"own/{number}"])
            for number, name in enumerate(names)
            if f"own/{number}" in grouped
        },
        {name: get_shared(f"alone/{names.index(name)}", own) for name, own in settings["alone"].items()},
        None if settings["shared"] is None else get_shared("shared", settings["shared"]),
        {int(key): get_shared(f"cluster/{key}", own) for key, own in settings["clusters"].items()},
        None
        if settings["familiar"] is None
        else FamiliarTexts.from_description(settings["familiar"], grouped["familiar"]),
        ScopeModel.from_arrays(grouped["scope"]) if "scope" in grouped else None,
        {names[int(number)]: array for number, array in grouped.get("reference", {}).items()},
    )
    right = {
        name: dict(grouped[f"right/{number}"])
        for number, name in enumerate(names)
        if f"right/{number}" in grouped
    }
    return Fitted(
        serving,
        settings["strategy"],
        MultiTaskSettings(**settings["settings"]),
        settings["seed"],
        weights_from(settings["weights"]),
        {int(cluster): start for cluster, start in settings["starts"].items()},
        None if settings["verdict"] is None else Verdict.from_dict(settings["verdict"]),
        {name: Estimate.from_dict(values) for name, values in settings["components"].items()},
        right,
        TrustReport.from_dict(settings["trust"]),
        tuple(settings["without_validation"]),
        settings.get("label_power", 0.0),
    )


def weights_from(values: Mapping[str, Any]) -> Weights:
    """Make weights again from their description."""
    return Weights(tuple(values["new"]), tuple(values["familiar"]))


def group(arrays: Arrays) -> dict[str, Arrays]:
    """Put arrays together that belong together: all whose names are the same up to the last stroke."""
    grouped: dict[str, Arrays] = {}
    for name, array in arrays.items():
        prefix, _, rest = name.rpartition("/")
        grouped.setdefault(prefix, {})[rest] = array
    return grouped

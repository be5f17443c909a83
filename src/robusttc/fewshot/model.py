"""A model of one few-shot task."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.encoders import Encoder, load_encoder
from robusttc.errors import StoreError, UsageError, quote
from robusttc.fewshot.parts import (
    Part,
    describe_layer,
    describe_part,
    layer_from,
    mix_parts,
    part_from,
    take_prefix,
)
from robusttc.fewshot.spaces import Space
from robusttc.models import (
    ScopeModel,
    apply_temperature,
    check_threshold,
    pick_labels,
    read_model_folder,
    write_model_folder,
)

__all__ = ["FewShotModel"]

KIND, VERSION = "few-shot task", 1


class FewShotModel:
    """What `ClusterFewShot.adapt` gives: a predictor for one task, which needs nothing else.

    Attributes
    ----------
    name
        The name of the task.
    label_names
        Its labels, in the order of the columns of `predict_proba`: those of the support set. A label that
        has no support row is not known to the model, and is never predicted.
    weights_
        The weight alpha of each cluster (Eq. 3), by its number; empty without clusters.
    support_accuracy_
        The leave-one-out accuracy on the support set; NaN where no row can be judged, because no label has
        two rows and names are not used.
    out_of_cluster_
        Whether no source is enough like the task, so that its own model serves.
    nearest_tasks_
        The names of the source tasks that are most like it, with the similarity of each, from -1 to 1.
    temperature_
        The temperature of the probabilities, borrowed from held-out tasks of the clusters.
    """

    def __init__(
        self,
        name: str,
        label_names: tuple[str, ...],
        *,
        parts: tuple[Part, ...],
        shares: tuple[float, ...],
        reader: Encoder,
        weights: dict[int, float],
        support_accuracy: float,
        out_of_cluster: bool,
        nearest_tasks: tuple[tuple[str, float], ...],
        temperature: float,
        space: Space,
        reference: NDArray[np.float32],
        scope: ScopeModel | None,
    ) -> None:
        self.name = name
        self.label_names = label_names
        self.weights_ = weights
        self.support_accuracy_ = support_accuracy
        self.out_of_cluster_ = out_of_cluster
        self.nearest_tasks_ = nearest_tasks
        self.temperature_ = temperature
        self._parts = parts
        self._shares = shares
        self._reader = reader
        self._space = space
        self._reference = reference
        self._scope = scope

    def predict_proba(self, texts: Any) -> NDArray[np.float64]:
        """Give the probability of every label for every text, shape (texts, labels).

        Parameters
        ----------
        texts
            A list of texts, which may be empty; for ready-made features, their vectors.

        Raises
        ------
        UsageError, DataError
            If these are no texts.
        """
        with threadpool_limits(1):
            inputs = self._reader.read(texts)
            return apply_temperature(mix_parts(self._parts, self._shares, inputs), self.temperature_)

    def predict(self, texts: Any, *, abstain_below: float | None = None) -> NDArray[np.object_]:
        """Give the most probable label of every text, as it is written in the task.

        Parameters
        ----------
        texts
            As in `predict_proba`.
        abstain_below
            Where the highest probability is below this number, the answer is None.
        """
        threshold = check_threshold(abstain_below)
        return pick_labels(self.predict_proba(texts), self.label_names, threshold=threshold)

    def scope_score(self, texts: Any) -> NDArray[np.float64]:
        """Give for every text how likely it is to belong to none of the labels, from 0 to 1.

        What is out of scope was learned from held-out source tasks.

        Raises
        ------
        UsageError
            If there were too few source tasks to learn it from.
        """
        return self._answer(texts)[1]

    def _answer(self, texts: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give what `predict_proba` and `scope_score` give; the texts are encoded once."""
        if self._scope is None:
            raise UsageError(
                "there is no out-of-scope score", expected="at least twelve source tasks to learn it from"
            )
        with threadpool_limits(1):
            inputs = self._reader.read(texts)
            mixed = mix_parts(self._parts, self._shares, inputs)
            scope = self._scope.score(self._reference, self._space.directions(inputs))
            return apply_temperature(mixed, self.temperature_), scope

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder; see `load`.

        Raises
        ------
        UsageError
            If the folder holds something else, or the encoder is one that cannot be saved.
        StoreError
            If the disk does not take it.
        """
        reader, reader_arrays = self._reader.describe()
        space, space_arrays = describe_layer(self._space.layer)
        described = [describe_part(part) for part in self._parts]
        settings = {
            "name": self.name,
            "label_names": list(self.label_names),
            "weights": [[number, weight] for number, weight in self.weights_.items()],
            "support_accuracy": None if np.isnan(self.support_accuracy_) else self.support_accuracy_,
            "out_of_cluster": self.out_of_cluster_,
            "nearest_tasks": [list(pair) for pair in self.nearest_tasks_],
            "temperature": self.temperature_,
            "shares": list(self._shares),
            "parts": [one for one, _ in described],
            "space": space,
            "has_scope": self._scope is not None,
            "reader": reader,
        }
        arrays: dict[str, NDArray[Any]] = {"reference": self._reference}
        arrays |= {f"reader/{name}": array for name, array in reader_arrays.items()}
        arrays |= {f"space/{name}": array for name, array in space_arrays.items()}
        for number, (_, own) in enumerate(described):
            arrays |= {f"part{number}/{name}": array for name, array in own.items()}
        if self._scope is not None:
            arrays |= {f"scope/{name}": array for name, array in self._scope.arrays().items()}
        write_model_folder(folder, kind=KIND, version=VERSION, settings=settings, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> FewShotModel:
        """Read a model that `save` wrote; it predicts the same, bit for bit.

        Raises
        ------
        StoreError
            If something is missing, damaged, or from a later version.
        """
        settings, arrays = read_model_folder(folder, kind=KIND, version=VERSION)
        try:
            accuracy = settings["support_accuracy"]
            return cls(
                settings["name"],
                tuple(settings["label_names"]),
                parts=tuple(
                    part_from(one, take_prefix(arrays, f"part{number}/"))
                    for number, one in enumerate(settings["parts"])
                ),
                shares=tuple(settings["shares"]),
                reader=load_encoder(settings["reader"], take_prefix(arrays, "reader/"), device=device),
                weights={int(number): float(weight) for number, weight in settings["weights"]},
                support_accuracy=float("nan") if accuracy is None else float(accuracy),
                out_of_cluster=bool(settings["out_of_cluster"]),
                nearest_tasks=tuple((str(name), float(value)) for name, value in settings["nearest_tasks"]),
                temperature=float(settings["temperature"]),
                space=Space(layer_from(settings["space"], take_prefix(arrays, "space/"))),
                reference=arrays["reference"],
                scope=ScopeModel.from_arrays(take_prefix(arrays, "scope/"))
                if settings["has_scope"]
                else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                "the saved few-shot model is damaged", where=quote(str(folder)), got=quote(error)
            ) from error

    def __repr__(self) -> str:
        return f"FewShotModel({self.name!r}, {len(self.label_names):,} labels)"

"""A model of one few-shot task, as `ClusterFewShot.adapt` returns it, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.encoders import Encoder, FrozenInputs, load_encoder
from robusttc.errors import RobustTCError, StoreError, UsageError, quote
from robusttc.fewshot.adaptation import Adapted, Component, FittedMetrics, LinearComponent, MatchingComponent
from robusttc.fewshot.metric import Metric, SourceRows, sum_rows, unit_rows
from robusttc.fewshot.training import describe_component, linear_from
from robusttc.models import (
    ScopeModel,
    apply_temperature,
    arrays_under,
    check_threshold,
    multiply_rows,
    pick_labels,
    read_model_folder,
    write_model_folder,
)

__all__ = ["Examples", "FewShotModel", "LabelMeans", "LearnedLayers", "NearestExample"]

KIND, VERSION = "few-shot task", 2
N_NEAREST = 5

Floats = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class LabelMeans:
    """The mean of each label of each source task, under the metric in which tasks are compared.

    Attributes
    ----------
    names
        The names of the tasks.
    n_labels
        How many rows of `means` belong to each.
    means
        Unit vectors, task after task.
    """

    names: tuple[str, ...]
    n_labels: NDArray[np.int64]
    means: Floats

    @classmethod
    def of(cls, metric: Metric | None, inputs: FrozenInputs, sources: Mapping[str, SourceRows]) -> LabelMeans:
        """Take the mean of every label of the sources that occurs; without a metric, of none."""
        means, n_labels = [np.zeros((0, 0), np.float32)], []
        vectors = None if metric is None else metric.directions(inputs)
        for source in sources.values():
            present, codes = np.unique(source.codes, return_inverse=True)
            n_labels.append(0 if vectors is None else len(present))
            if vectors is not None:
                means.append(unit_rows(sum_rows(vectors[source.items], codes, len(present))))
        stacked = np.concatenate(means[1:]) if len(means) > 1 else means[0]
        return cls(tuple(sources), np.array(n_labels, dtype=np.int64), stacked.astype(np.float32))

    def nearest(self, support: Floats, *, without: str = "") -> tuple[tuple[str, float], ...]:
        """Return the five tasks most similar to a support set, the most similar first.

        The similarity is the mean, over the support rows, of the cosine to the nearest label of the task.

        Parameters
        ----------
        support
            Unit vectors of the support set, under the same metric.
        without
            A name that is passed over: that of the task itself.

        Examples
        --------
        >>> means = LabelMeans(("a", "b"), np.array([1, 1]), np.eye(2, dtype=np.float32))
        >>> means.nearest(np.array([[0, 1]], dtype=np.float32))
        (('b', 1.0), ('a', 0.0))
        """
        has_labels = self.n_labels > 0
        if not has_labels.any():
            return ()
        starts = np.cumsum([0, *self.n_labels[:-1].tolist()])
        similarity = np.full(len(self.names), -np.inf)
        best = np.maximum.reduceat(support @ self.means.T, starts[has_labels], axis=1)
        similarity[has_labels] = best.mean(axis=0)
        order = sorted(
            (place for place, name in enumerate(self.names) if name != without and has_labels[place]),
            key=lambda place: (-similarity[place], self.names[place]),
        )
        return tuple((self.names[place], float(similarity[place])) for place in order[:N_NEAREST])


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """The support set of a task: its texts, their labels, and unit vectors in 16 bits."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]
    vectors: NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class NearestExample:
    """The support example that is most similar to a text."""

    text: str
    label: str
    similarity: float


@dataclass(frozen=True, slots=True, eq=False)
class LearnedLayers:
    """What the models of many tasks have in common: the learner's metrics, and how texts are read.

    Attributes
    ----------
    metrics, classifiers
        By name, as `FittedMetrics.metrics` and `FittedMetrics.classifiers` return them.
    reference
        The name of the metric in which texts are compared with examples; None where there is none.
    reader
        What turns texts into frozen inputs.
    scope
        The out-of-scope model; None where there were too few source tasks to learn one from.
    fingerprint
        The hash of the learner's metrics.
    """

    metrics: Mapping[str, Metric]
    classifiers: Mapping[str, LinearComponent]
    reference: str | None
    reader: Encoder
    scope: ScopeModel | None
    fingerprint: str

    @classmethod
    def of(cls, fitted: FittedMetrics, reader: Encoder, scope: ScopeModel | None) -> LearnedLayers:
        """Take those of a learner."""
        metrics = fitted.metrics()
        reference = next((name for name in ("shared", "vectors") if name in metrics), None)
        return cls(metrics, fitted.classifiers(), reference, reader, scope, fitted.fingerprint())


class FewShotModel:
    """What `ClusterFewShot.adapt` returns: a predictor for one task.

    It refers to the metrics of the learner that made it and holds only what is the task's own.

    Attributes
    ----------
    name
        The name of the task.
    label_names
        Its labels, in the order of the columns of `predict_proba`: those of the support set. A label that
        has no support row is not known to the model, and is never predicted.
    weights_
        The weight alpha of each cluster that serves (Eq. 3), by its number; empty without clusters.
    support_accuracy_
        The leave-one-out accuracy of what serves on the support set; NaN where no row can be judged, because
        no label has two rows and names are not used.
    out_of_cluster_
        Whether no cluster suits the task, so that its own model serves.
    nearest_tasks_
        The names of the source tasks that are most similar, with the similarity of each, from -1 to 1.
    temperature_
        The temperature of the probabilities, fitted on held-out tasks; 1 for a task's own model.
    scope_
        The out-of-scope model; None where there were too few source tasks to learn one from.
    """

    def __init__(
        self,
        name: str,
        label_names: tuple[str, ...],
        adapted: Adapted,
        *,
        layers: LearnedLayers,
        examples: Examples,
        temperature: float,
        nearest_tasks: tuple[tuple[str, float], ...],
    ) -> None:
        self.name = name
        self.label_names = label_names
        self.adapted_ = adapted
        self.weights_ = adapted.weights
        self.support_accuracy_ = adapted.support_accuracy
        self.out_of_cluster_ = adapted.out_of_cluster
        self.nearest_tasks_ = nearest_tasks
        self.temperature_ = temperature
        self.scope_ = layers.scope if layers.reference is not None else None
        self.examples_ = examples
        self.layers_ = layers

    def read(self, texts: Any) -> FrozenInputs:
        """Encode texts; several models of one learner can predict from the same result.

        Parameters
        ----------
        texts
            The texts, as a list, array or iterator; for ready-made features, their vectors.

        Raises
        ------
        UsageError, DataError
            If these are not texts.
        """
        # An iterator can be read only once.
        asked = texts if isinstance(texts, str | bytes) or hasattr(texts, "__len__") else list(texts)
        return self.layers_.reader.read(asked)

    def probabilities(self, inputs: FrozenInputs) -> NDArray[np.float64]:
        """Return the probability of every label for texts that were read, shape (texts, labels)."""
        return apply_temperature(self.adapted_.probabilities(inputs), self.temperature_)

    def predict_proba(self, texts: Any) -> NDArray[np.float64]:
        """Return the probability of every label for every text, shape (texts, labels).

        Parameters
        ----------
        texts
            As in `read`; there may be none.
        """
        with threadpool_limits(1):
            return self.probabilities(self.read(texts))

    def predict(self, texts: Any, *, abstain_below: float | None = None) -> NDArray[np.object_]:
        """Return the most probable label of every text, as it is written in the task.

        Parameters
        ----------
        texts
            As in `read`.
        abstain_below
            Where the highest probability is below this number, the label is None.
        """
        threshold = check_threshold(abstain_below)
        return pick_labels(self.predict_proba(texts), self.label_names, threshold=threshold)

    def scope_score(self, texts: Any) -> NDArray[np.float64]:
        """Return for every text how likely it is to belong to none of the labels, from 0 to 1.

        What is out of scope was learned from held-out source tasks.

        Raises
        ------
        UsageError
            If there were too few source tasks to learn it from.
        """
        with threadpool_limits(1):
            return self.score_scope(self.read(texts))

    def score_scope(self, inputs: FrozenInputs) -> NDArray[np.float64]:
        """Return what `scope_score` does, for texts that were read."""
        if self.scope_ is None:
            raise UsageError(
                "there is no out-of-scope score",
                expected="at least six source tasks to learn it from",
                todo="fit on more tasks with two labels of at least two rows each",
            )
        return self.scope_.score(self.examples_.vectors.astype(np.float32), self._directions(inputs))

    def predict_with_scope(self, texts: Any) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return what `predict_proba` and `scope_score` return, None for the latter where it is not known.

        The texts are encoded once.
        """
        with threadpool_limits(1):
            inputs = self.read(texts)
            scope = None if self.scope_ is None else self.score_scope(inputs)
            return self.probabilities(inputs), scope

    def nearest_example(self, texts: Any) -> list[NearestExample]:
        """Return the most similar support example of every text.

        Raises
        ------
        UsageError
            If there is no metric to compare texts with (``paper`` on words).
        """
        if self.layers_.reference is None:
            raise UsageError("texts cannot be compared with examples", expected="a metric of all sources")
        with threadpool_limits(1):
            directions = self._directions(self.read(texts))
            cosines = multiply_rows(directions, self.examples_.vectors.astype(np.float32).T)
        return [
            NearestExample(
                self.examples_.texts[place],
                self.label_names[self.examples_.codes[place]],
                float(row[place]),
            )
            for row, place in zip(
                cosines, cosines.argmax(axis=1).tolist() if len(cosines) else [], strict=True
            )
        ]

    def _directions(self, inputs: FrozenInputs) -> Floats:
        assert self.layers_.reference is not None  # noqa: S101 - checked by the callers
        return self.layers_.metrics[self.layers_.reference].directions(inputs)

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return what is the task's own as values for JSON and arrays; see `ClusterFewShot.restore`."""
        names = {id(metric): name for name, metric in self.layers_.metrics.items()}
        pools = {id(pool): name for name, pool in self.layers_.classifiers.items()}
        arrays: Arrays = {"codes": self.examples_.codes, "vectors": self.examples_.vectors}
        components = []
        for place, component in enumerate(self.adapted_.components):
            values, own = describe_part(component, names, pools)
            components.append(values)
            arrays |= {f"component {place}/{name}": array for name, array in own.items()}
        accuracy, best = self.support_accuracy_, self.adapted_.best_accuracy
        return {
            "learner": self.layers_.fingerprint,
            "name": self.name,
            "label_names": list(self.label_names),
            "texts": list(self.examples_.texts),
            "weights": [[number, weight] for number, weight in self.weights_.items()],
            "support_accuracy": None if np.isnan(accuracy) else accuracy,
            "best_accuracy": None if np.isnan(best) else best,
            "out_of_cluster": self.out_of_cluster_,
            "nearest_tasks": [list(pair) for pair in self.nearest_tasks_],
            "temperature": self.temperature_,
            "shares": list(self.adapted_.shares),
            "components": components,
        }, arrays

    @classmethod
    def from_description(
        cls, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], layers: LearnedLayers
    ) -> FewShotModel:
        """Rebuild a model from what `describe` returned.

        Raises
        ------
        StoreError
            If it is damaged, or of another learner.
        """
        try:
            if values["learner"] != layers.fingerprint:
                raise StoreError(
                    "the few-shot model belongs to another learner",
                    where=f"task {quote(values['name'])}",
                    todo="adapt to the task again",
                )
            accuracy, best = values["support_accuracy"], values["best_accuracy"]
            adapted = Adapted(
                tuple(
                    part_from(one, arrays_under(arrays, f"component {place}/"), layers)
                    for place, one in enumerate(values["components"])
                ),
                tuple(float(share) for share in values["shares"]),
                {int(number): float(weight) for number, weight in values["weights"]},
                float("nan") if accuracy is None else float(accuracy),
                float("nan") if best is None else float(best),
                bool(values["out_of_cluster"]),
            )
            return cls(
                values["name"],
                tuple(values["label_names"]),
                adapted,
                layers=layers,
                examples=Examples(tuple(values["texts"]), arrays["codes"], arrays["vectors"]),
                temperature=float(values["temperature"]),
                nearest_tasks=tuple((str(name), float(value)) for name, value in values["nearest_tasks"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError("the few-shot model is damaged", got=quote(error)) from error

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder, with the metrics that it uses; see `load`.

        Raises
        ------
        UsageError
            If the folder holds something else, or the encoder is one that cannot be saved.
        StoreError
            If the disk does not take it.
        """
        values, arrays = self.describe()
        reader, reader_arrays = self.layers_.reader.describe()
        arrays |= {f"reader/{name}": array for name, array in reader_arrays.items()}
        used = {one.get("metric") for one in values["components"]} | {self.layers_.reference}
        metrics = {name: metric for name, metric in self.layers_.metrics.items() if name in used}
        pools = {one.get("classifier") for one in values["components"]}
        classifiers = {name: pool for name, pool in self.layers_.classifiers.items() if name in pools}
        described: dict[str, Any] = {}
        for name, metric in metrics.items():
            # Where label names stand is needed for adapting only.
            described[name], own = Metric(metric.layer).describe()
            arrays |= {f"metric {name}/{key}": array for key, array in own.items()}
        described_pools: dict[str, Any] = {}
        for name, pool in classifiers.items():
            described_pools[name], own = describe_component(pool)
            arrays |= {f"{name}/{key}": array for key, array in own.items()}
        values |= {
            "reader": reader,
            "metrics": described,
            "classifiers": described_pools,
            "reference": self.layers_.reference,
            "has_scope": self.layers_.scope is not None,
        }
        if self.layers_.scope is not None:
            arrays |= {f"scope/{name}": array for name, array in self.layers_.scope.arrays().items()}
        write_model_folder(folder, kind=KIND, version=VERSION, settings=values, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> FewShotModel:
        """Read a model that `save` wrote; it predicts the same, bit for bit.

        Raises
        ------
        StoreError
            If something is missing, damaged, or from a later version.
        """
        values, arrays = read_model_folder(folder, kind=KIND, version=VERSION)
        try:
            layers = LearnedLayers(
                {
                    name: Metric.from_description(one, arrays_under(arrays, f"metric {name}/"))
                    for name, one in values["metrics"].items()
                },
                {
                    name: linear_from(one, arrays_under(arrays, f"{name}/"))
                    for name, one in values["classifiers"].items()
                },
                values["reference"],
                load_encoder(values["reader"], arrays_under(arrays, "reader/"), device=device),
                ScopeModel.from_arrays(arrays_under(arrays, "scope/")) if values["has_scope"] else None,
                values["learner"],
            )
            return cls.from_description(values, arrays, layers)
        except (KeyError, TypeError, ValueError, AttributeError, RobustTCError) as error:
            raise StoreError(
                "the saved few-shot model is damaged", where=quote(str(folder)), got=quote(str(error))
            ) from error

    def __repr__(self) -> str:
        return f"FewShotModel({self.name!r}, {len(self.label_names):,} labels)"


def describe_part(
    component: Component, metrics: Mapping[int, str], pools: Mapping[int, str]
) -> tuple[dict[str, Any], Arrays]:
    """Return a component as values and arrays; what is the learner's is named, not copied."""
    if id(component) in pools:
        return {"kind": "classifier", "classifier": pools[id(component)]}, {}
    metric = metrics.get(id(component.metric))
    if isinstance(component, MatchingComponent):
        values: dict[str, Any] = {"kind": "matching", "metric": metric, "n_labels": component.n_labels}
        return values, {"support": component.support, "codes": component.codes}
    if metric is None:
        described, arrays = describe_component(component)
        return {"kind": "own", "own": described}, arrays
    arrays = {"weight": component.weight, "bias": component.bias}
    return {"kind": "linear", "metric": metric, "unit": component.unit}, arrays


def part_from(values: Mapping[str, Any], arrays: Arrays, layers: LearnedLayers) -> Component:
    """Rebuild a component from what `describe_part` returned."""
    if values["kind"] == "classifier":
        return layers.classifiers[values["classifier"]]
    if values["kind"] == "own":
        return linear_from(values["own"], arrays)
    metric = layers.metrics[values["metric"]]
    if values["kind"] == "matching":
        return MatchingComponent(metric, arrays["support"], arrays["codes"], int(values["n_labels"]))
    return LinearComponent(metric, bool(values["unit"]), arrays["weight"], arrays["bias"])

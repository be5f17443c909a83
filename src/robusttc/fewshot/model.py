"""A model of one few-shot task, as `ClusterFewShot.adapt` returns it, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.encoders import FrozenInputs
from robusttc.errors import StoreError, UsageError, quote
from robusttc.fewshot.adaptation import Adapted
from robusttc.fewshot.components import FittedMetrics, component_from, describe_component
from robusttc.fewshot.metric import Floats, Metric, SourceRows, sum_rows, unit_rows
from robusttc.models import (
    REJECTED,
    ScopeModel,
    apply_temperature,
    check_threshold,
    join_arrays,
    multiply_rows,
    pick_labels,
    read_model_folder,
    rebuilding,
    split_arrays,
    write_model_folder,
)

__all__ = ["Examples", "FewShotModel", "LabelMeans", "NearestExample"]

KIND, VERSION = "few-shot task", 3
N_NEAREST = 5


@dataclass(frozen=True, slots=True, eq=False)
class LabelMeans:
    """The mean of each label of each source task: unit vectors, task after task, `n_labels` of each."""

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

        The similarity is the mean, over the support rows, of the cosine to the nearest label of the task; the
        task `without` is passed over.

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


class FewShotModel:
    """What `ClusterFewShot.adapt` returns: a predictor for one task.

    It refers to the metrics of the learner that made it, and holds only what is the task's own.

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
        metrics: FittedMetrics,
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
        self.scope_ = metrics.scope
        self.examples_ = examples
        self.metrics_ = metrics

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
        assert self.metrics_.reader is not None  # noqa: S101 - a learner that was fitted has one
        return self.metrics_.reader.read(asked)

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
        return self._find_scope().score(self.examples_.vectors.astype(np.float32), self._directions(inputs))

    def scope_threshold(self, *, rejects: float = REJECTED) -> float:
        """Return the `scope_score` above which such a share of the task's own new texts is expected.

        The share is that of held-out source tasks, whose support sets have a row a label and twenty more.
        """
        with threadpool_limits(1):
            return self._find_scope().threshold(self.examples_.vectors.astype(np.float32), rejects=rejects)

    def _find_scope(self) -> ScopeModel:
        if self.scope_ is None:
            raise UsageError(
                "there is no out-of-scope score",
                expected="at least six source tasks to learn it from",
                todo="fit on more tasks with two labels of at least two rows each",
            )
        return self.scope_

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
        with threadpool_limits(1):
            return self.find_nearest(self.read(texts))

    def find_nearest(self, inputs: FrozenInputs) -> list[NearestExample]:
        """Return what `nearest_example` does, for texts that were read."""
        cosines = multiply_rows(self._directions(inputs), self.examples_.vectors.astype(np.float32).T)
        found = cosines.argmax(axis=1).tolist() if len(cosines) else []
        return [
            NearestExample(
                self.examples_.texts[place],
                self.label_names[self.examples_.codes[place]],
                float(row[place]),
            )
            for row, place in zip(cosines, found, strict=True)
        ]

    def _directions(self, inputs: FrozenInputs) -> Floats:
        if self.metrics_.reference is None:
            raise UsageError("texts cannot be compared with examples", expected="a metric of all sources")
        return self.metrics_.reference.directions(inputs)

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what is the task's own as values for JSON and arrays; see `ClusterFewShot.restore`."""
        return split_arrays(self._content())

    def _content(self) -> dict[str, Any]:
        names = {id(metric): name for name, metric in self.metrics_.metrics.items()}
        pools = {id(pool): name for name, pool in self.metrics_.pools.items()}
        adapted = self.adapted_
        return {
            "learner": self.metrics_.fingerprint,
            "name": self.name,
            "label_names": self.label_names,
            "texts": self.examples_.texts,
            "codes": self.examples_.codes,
            "vectors": self.examples_.vectors,
            "weights": list(self.weights_.items()),
            "support_accuracy": to_json(self.support_accuracy_),
            "best_accuracy": to_json(adapted.best_accuracy),
            "out_of_cluster": self.out_of_cluster_,
            "nearest_tasks": self.nearest_tasks_,
            "temperature": self.temperature_,
            "shares": adapted.shares,
            "components": [
                pools.get(id(component)) or describe_component(component, names)
                for component in adapted.components
            ],
        }

    @classmethod
    def from_description(cls, content: Mapping[str, Any], metrics: FittedMetrics) -> FewShotModel:
        """Rebuild a model from what `describe` returned, its arrays in their places.

        Raises
        ------
        StoreError
            If it is of another learner.
        """
        if content["learner"] != metrics.fingerprint:
            raise StoreError(
                "the few-shot model belongs to another learner",
                where=f"task {quote(content['name'])}",
                todo="adapt to the task again",
            )
        components = tuple(
            metrics.pools[one] if isinstance(one, str) else component_from(one, metrics.metrics)
            for one in content["components"]
        )
        adapted = Adapted(
            components,
            tuple(float(share) for share in content["shares"]),
            {int(number): float(weight) for number, weight in content["weights"]},
            from_json(content["support_accuracy"]),
            from_json(content["best_accuracy"]),
            bool(content["out_of_cluster"]),
        )
        return cls(
            content["name"],
            tuple(content["label_names"]),
            adapted,
            metrics=metrics,
            examples=Examples(tuple(content["texts"]), content["codes"], content["vectors"]),
            temperature=float(content["temperature"]),
            nearest_tasks=tuple((str(name), float(value)) for name, value in content["nearest_tasks"]),
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder, with the metrics that it uses; see `load`.

        Raises
        ------
        UsageError
            If the folder holds something else, or the encoder is one that cannot be saved.
        StoreError
            If the disk does not take it.
        """
        used = {id(metric) for one in self.adapted_.components for metric in one.metrics}
        metrics = {name for name, metric in self.metrics_.metrics.items() if id(metric) in used}
        reference = "shared" if "shared" in self.metrics_.metrics else "vectors"
        pools = {id(one) for one in self.adapted_.components}
        learner = self.metrics_.only(
            sorted(metrics | {reference}),
            sorted(name for name, pool in self.metrics_.pools.items() if id(pool) in pools),
        )
        content = {"model": self._content(), "learner": learner.describe()}
        values, arrays = split_arrays(content)
        write_model_folder(folder, kind=KIND, version=VERSION, settings=values, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> FewShotModel:
        """Read a model that `save` wrote; it predicts the same, bit for bit.

        Raises
        ------
        StoreError
            If something is missing, damaged, or from a later version.
        """
        content = join_arrays(*read_model_folder(folder, kind=KIND, version=VERSION))
        with rebuilding(folder, todo="adapt to the task again"):
            metrics = FittedMetrics.from_description(content["learner"], device=device)
            return cls.from_description(content["model"], metrics)

    def __repr__(self) -> str:
        return f"FewShotModel({self.name!r}, {len(self.label_names):,} labels)"


def to_json(value: float) -> float | None:
    """Return a number as JSON has it, which has no NaN: that becomes None."""
    return None if np.isnan(value) else value


def from_json(value: float | None) -> float:
    """Return a number that `to_json` returned."""
    return float("nan") if value is None else float(value)

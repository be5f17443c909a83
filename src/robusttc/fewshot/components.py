"""What predictions are made of: classifiers under a metric, and the fitted metrics of a learner."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import Encoder, FrozenInputs, load_encoder
from robusttc.fewshot.metric import Floats, Metric, softmax_rows
from robusttc.fewshot.settings import FewShotSettings, Strategy, settings_from
from robusttc.files import encode_json
from robusttc.models import ScopeModel, multiply_rows, split_arrays

__all__ = [
    "ClusterSummary",
    "Component",
    "FittedMetrics",
    "LinearComponent",
    "MatchingComponent",
    "component_from",
    "describe_component",
    "match",
    "mix",
    "side_by_side",
    "sum_by_label",
]

# What vectors as they are contribute to cosines beside those under a metric.
VECTORS_SHARE = 0.3

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class LinearComponent:
    """A softmax classifier under a metric; with `unit`, on unit vectors, those of a second one beside."""

    metrics: tuple[Metric, ...]
    unit: bool
    weight: NDArray[np.floating]
    bias: NDArray[np.floating]

    def probabilities(self, inputs: FrozenInputs) -> Doubles:
        """Return the probability of every label for every item; it depends on the item alone."""
        if self.unit:
            vectors = side_by_side([metric.directions(inputs) for metric in self.metrics])
        else:
            vectors = self.metrics[0].represent(inputs)
        logits = multiply_rows(vectors, np.asarray(self.weight, dtype=np.float32))
        return softmax_rows(logits.astype(np.float64) + self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class MatchingComponent:
    """Matching with the representations of a support set under a metric (Eq. 4)."""

    metrics: tuple[Metric, ...]
    support: Floats
    codes: Codes
    n_labels: int

    def probabilities(self, inputs: FrozenInputs) -> Doubles:
        """Return the probability of every label for every item; it depends on the item alone."""
        queries = self.metrics[0].represent(inputs)
        return match(queries, self.support, self.codes, n_labels=self.n_labels)


Component = LinearComponent | MatchingComponent


def side_by_side(directions: Sequence[Floats]) -> Floats:
    """Return unit vectors under a metric, and those as they are beside them, as one unit vector."""
    if len(directions) == 1:
        return directions[0]
    shares = np.sqrt([1 - VECTORS_SHARE, VECTORS_SHARE]).astype(np.float32)
    return np.concatenate([share * one for share, one in zip(shares, directions, strict=True)], axis=1)


def match(queries: Floats, support: Floats, codes: Codes, *, n_labels: int) -> Doubles:
    """Return P(y | x) of Eq. 4: the sum, over the support examples l of label y, of the softmax of z_l . z.

    Bit for bit, the result of a query does not depend on the other queries. A label without a support row has
    probability 0.

    Examples
    --------
    >>> support = np.array([[2, 0], [0, 2], [0, 2]], dtype=np.float32)
    >>> match(support[:1], support, np.array([0, 1, 1]), n_labels=2).round(3).tolist()
    [[0.965, 0.035]]
    """
    logits = multiply_rows(queries, np.ascontiguousarray(support.T)).astype(np.float64)
    return sum_by_label(softmax_rows(logits), codes, n_labels)


def sum_by_label(shares: Doubles, codes: Codes, n_labels: int) -> Doubles:
    """Add up the columns of each label."""
    result = np.zeros((len(shares), n_labels))
    np.add.at(result.T, codes, shares.T)
    return result


def mix(tables: Sequence[Doubles], shares: Sequence[float]) -> Doubles:
    """Return a weighted mean of probabilities (Eq. 3), with rows of sum 1."""
    total = np.asarray(sum(share * table for share, table in zip(shares, tables, strict=True)))
    # Rounding must not leave a sum a little off 1.
    return np.asarray(total / total.sum(axis=1, keepdims=True), dtype=np.float64)


def describe_component(component: Component, names: Mapping[int, str]) -> dict[str, Any]:
    """Return what a component is rebuilt from; metrics that have a name (by `id`) are not copied."""
    metrics = [names.get(id(metric)) or metric.describe() for metric in component.metrics]
    fields = {one.name: getattr(component, one.name) for one in dataclasses.fields(component)}
    return {**fields, "metrics": metrics}


def component_from(content: Mapping[str, Any], metrics: Mapping[str, Metric]) -> Component:
    """Rebuild a component from what `describe_component` returned."""
    found = tuple(
        metrics[one] if isinstance(one, str) else Metric.from_description(one) for one in content["metrics"]
    )
    fields: dict[str, Any] = {**content, "metrics": found}
    return MatchingComponent(**fields) if "support" in fields else LinearComponent(**fields)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSummary:
    """What the tasks of a cluster look like: unit vectors of their label names, and of their mean texts."""

    names: Floats
    texts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class FittedMetrics:
    """All that was learned from the sources; the models of adapted tasks refer to it.

    Attributes
    ----------
    strategy, settings, seed
        How a task is adapted to.
    threshold
        The leave-one-out accuracy below which a task is in no cluster; None for no such fallback.
    metrics
        ``vectors``, ready-made vectors as they are; ``shared``, that of all sources (not for ``paper``); and
        those of clusters that serve, ``cluster 0`` and so on.
    pools
        Where the labels of all sources are identical, the pooled classifiers, by the same names.
    summaries
        What weighs clusters besides the support set.
    shared_labels
        The labels that all sources have; None where they differ.
    reader
        What turns texts into frozen inputs; None while only held-out tasks are evaluated.
    scope
        The out-of-scope model; None where there were too few source tasks to learn one from.
    fingerprint
        A hash of all metrics and pooled classifiers.
    """

    strategy: Strategy
    settings: FewShotSettings
    seed: int
    threshold: float | None
    metrics: Mapping[str, Metric]
    pools: Mapping[str, LinearComponent] = field(default_factory=dict)
    summaries: Mapping[int, ClusterSummary] = field(default_factory=dict)
    shared_labels: tuple[str, ...] | None = None
    reader: Encoder | None = None
    scope: ScopeModel | None = None
    fingerprint: str = ""

    @property
    def vectors(self) -> Metric | None:
        """Ready-made vectors as they are; None for words, which have none."""
        return self.metrics.get("vectors")

    @property
    def reference(self) -> Metric | None:
        """The metric in which texts and tasks are compared; None where there is none of all tasks."""
        return self.metrics.get("shared", self.vectors)

    def of_clusters(self, kind: str = "metrics") -> dict[int, Any]:
        """Return the metrics or ``pools`` of clusters that serve, by the number of the cluster."""
        found = {name.partition(" ")[2]: one for name, one in getattr(self, kind).items()}
        return {int(number): found[number] for number in sorted(filter(None, found), key=int)}

    def only(self, metrics: Iterable[str], pools: Iterable[str]) -> FittedMetrics:
        """Return the same with some metrics and pooled classifiers only, to predict and not to adapt."""
        kept = {
            name: dataclasses.replace(self.metrics[name], name_map=None)
            for name in metrics
            if name in self.metrics
        }
        kept_pools = {name: self.pools[name] for name in pools if name in self.pools}
        return dataclasses.replace(self, metrics=kept, pools=kept_pools, summaries={})

    def complete(self, reader: Encoder, scope: ScopeModel | None) -> FittedMetrics:
        """Return the same with what adapted tasks need besides, and a fingerprint."""
        digest = hashlib.sha256()
        values, arrays = split_arrays(self.describe())
        digest.update(encode_json(values).encode())
        for array in arrays.values():
            digest.update(np.ascontiguousarray(array).tobytes())
        return dataclasses.replace(self, reader=reader, scope=scope, fingerprint=digest.hexdigest())

    def describe(self) -> dict[str, Any]:
        """Return what it is rebuilt from: values for JSON, and arrays."""
        return {
            "strategy": self.strategy,
            "settings": dataclasses.asdict(self.settings),
            "seed": self.seed,
            "threshold": self.threshold,
            "shared_labels": self.shared_labels,
            "metrics": {name: metric.describe() for name, metric in self.metrics.items()},
            "pools": {name: describe_component(pool, {}) for name, pool in self.pools.items()},
            "summaries": {str(number): [one.names, one.texts] for number, one in self.summaries.items()},
            "scope": None if self.scope is None else self.scope.arrays(),
            "reader": None if self.reader is None else self.reader.describe(),
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_description(cls, content: Mapping[str, Any], *, device: str) -> FittedMetrics:
        """Rebuild it from what `describe` returned."""
        labels, scope = content["shared_labels"], content["scope"]
        pools = {name: component_from(one, {}) for name, one in content["pools"].items()}
        return cls(
            content["strategy"],
            settings_from(content["settings"]),
            int(content["seed"]),
            content["threshold"],
            {name: Metric.from_description(one) for name, one in content["metrics"].items()},
            {name: pool for name, pool in pools.items() if isinstance(pool, LinearComponent)},
            {int(number): ClusterSummary(*one) for number, one in content["summaries"].items()},
            None if labels is None else tuple(labels),
            load_encoder(*content["reader"], device=device),
            None if scope is None else ScopeModel.from_arrays(scope),
            content["fingerprint"],
        )

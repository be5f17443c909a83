"""Adaptation to a new task: from its support set to a predictor.

Leave-one-out predictions for the support set weigh the metrics of clusters (Eq. 3) and show whether the task
belongs to any cluster at all. A row whose label has no other example, and no name that stands for it, cannot
be judged; where no row can be judged, the support set weighs all clusters alike and the fallback does not
apply.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.errors import DataError, UsageError, quote
from robusttc.fewshot.metric import (
    Metric,
    SourceRows,
    mean_direction,
    softmax_rows,
    sum_rows,
    unit_rows,
)
from robusttc.fewshot.settings import FewShotSettings, Strategy
from robusttc.models import fit_softmax, multiply_rows, train_model
from robusttc.random import numpy_generator

__all__ = [
    "Adapted",
    "ClusterSummary",
    "Component",
    "FittedMetrics",
    "LinearComponent",
    "MatchingComponent",
    "Support",
    "accuracy",
    "adapt",
    "fit_own",
    "learn_mixture",
    "leave_one_out_matching",
    "leave_one_out_prototypes",
    "match",
    "mix",
    "scorable_rows",
    "summarise_clusters",
    "weigh_clusters",
]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

# A cluster of less weight is left out of the predictor: it would cost a fit and change nothing.
LEAST_WEIGHT = 0.02
# No weight of Eq. 3 is taken for less where its logarithm counts.
LEAST_ALPHA = 1e-3
# Deviation: the paper has no prior on alpha. This one counts as much as so many support rows, spread evenly
# over the clusters: without it, a handful of rows would put all weight on one cluster.
PRIOR_ROWS = 2.0
MAX_ITERATIONS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """The support set of a new task.

    Attributes
    ----------
    name
        The name of the task.
    inputs, codes
        Its rows, and their labels from 0 up to `n_labels` - 1; every label occurs.
    n_labels
        The number of labels.
    names
        The frozen inputs of the label names, one per label; None where they are not used.
    """

    name: str
    inputs: FrozenInputs
    codes: Codes
    n_labels: int
    names: FrozenInputs | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LinearComponent:
    """A softmax classifier on the representation of a metric, brought to length 1 if `unit`."""

    metric: Metric
    unit: bool
    weight: Floats
    bias: Floats

    def probabilities(self, inputs: FrozenInputs) -> Doubles:
        """Return the probability of every label for every item; it depends on the item alone."""
        vectors = self.metric.directions(inputs) if self.unit else self.metric.represent(inputs)
        return softmax_rows(multiply_rows(vectors, self.weight).astype(np.float64) + self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class MatchingComponent:
    """Matching with the representations of a support set under a metric (Eq. 4)."""

    metric: Metric
    support: Floats
    codes: Codes
    n_labels: int

    def probabilities(self, inputs: FrozenInputs) -> Doubles:
        """Return the probability of every label for every item; it depends on the item alone."""
        return match(self.metric.represent(inputs), self.support, self.codes, n_labels=self.n_labels)


Component = LinearComponent | MatchingComponent


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSummary:
    """What the tasks of a cluster look like: unit vectors of their label names, and of their mean texts."""

    names: Floats
    texts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class FittedMetrics:
    """All that adaptation needs of what was learned from the sources.

    Attributes
    ----------
    strategy, settings, seed
        How a task is adapted to.
    threshold
        The leave-one-out accuracy below which a task is in no cluster; None for no such fallback.
    vectors
        Ready-made vectors as they are; None for words, which have none.
    shared
        The metric of all sources; None for ``paper``, which has none.
    clusters
        The metrics of clusters that serve, by the number of the cluster.
    summaries
        What weighs them besides the support set.
    shared_labels
        The labels that all sources have; None where they differ.
    shared_pool, pools
        The pooled classifier of all sources and those of clusters that serve, where labels are identical.
    """

    strategy: Strategy
    settings: FewShotSettings
    seed: int
    threshold: float | None
    vectors: Metric | None
    shared: Metric | None
    clusters: Mapping[int, Metric] = field(default_factory=dict)
    summaries: Mapping[int, ClusterSummary] = field(default_factory=dict)
    shared_labels: tuple[str, ...] | None = None
    shared_pool: LinearComponent | None = None
    pools: Mapping[int, LinearComponent] = field(default_factory=dict)

    @property
    def reference(self) -> Metric | None:
        """The metric in which tasks are compared; None where there is none of all tasks."""
        return self.shared or self.vectors

    def without_clusters(self) -> FittedMetrics:
        """Return the same with what all sources share alone."""
        return dataclasses.replace(self, clusters={}, summaries={}, pools={})

    def metrics(self) -> dict[str, Metric]:
        """Return all metrics, by names for a file."""
        found = {"vectors": self.vectors, "shared": self.shared}
        found |= {f"cluster {number}": metric for number, metric in self.clusters.items()}
        return {name: metric for name, metric in found.items() if metric is not None}

    def classifiers(self) -> dict[str, LinearComponent]:
        """Return all pooled classifiers, by names for a file."""
        found = {f"pool {number}": pool for number, pool in self.pools.items()}
        return found if self.shared_pool is None else {**found, "pool": self.shared_pool}

    def fingerprint(self) -> str:
        """Return a hash of all metrics and pooled classifiers."""
        digest = hashlib.sha256()
        layers = self.metrics() | {name: pool.metric for name, pool in self.classifiers().items()}
        for name, metric in sorted(layers.items()):
            digest.update(name.encode())
            for array in (metric.layer.parameters() if metric.layer is not None else {}).values():
                digest.update(np.ascontiguousarray(array).tobytes())
        for pool in self.classifiers().values():
            digest.update(pool.weight.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """A predictor for a task: a weighted mean of components.

    Attributes
    ----------
    components, shares
        What is averaged, and with which weights.
    weights
        The weight alpha of each cluster (Eq. 3); empty without clusters.
    support_accuracy
        The leave-one-out accuracy of what serves on the support set, NaN if no row can be judged.
    best_accuracy
        The highest one of any cluster, or of the shared metric.
    out_of_cluster
        Whether the task's own model serves, because no cluster suits it.
    """

    components: tuple[Component, ...]
    shares: tuple[float, ...]
    weights: dict[int, float]
    support_accuracy: float
    best_accuracy: float
    out_of_cluster: bool = False

    def probabilities(self, inputs: FrozenInputs) -> Doubles:
        """Return the weighted mean of the probabilities of all components (Eq. 3)."""
        tables = [component.probabilities(inputs) for component in self.components]
        return mix(tables, self.shares)


def mix(tables: Sequence[Doubles], shares: Sequence[float]) -> Doubles:
    """Return a weighted mean of probabilities, with rows of sum 1."""
    total = np.asarray(sum(share * table for share, table in zip(shares, tables, strict=True)))
    # Rounding must not leave a sum a little off 1.
    return np.asarray(total / total.sum(axis=1, keepdims=True), dtype=np.float64)


def adapt(metrics: FittedMetrics, support: Support, label_names: Sequence[str]) -> Adapted:
    """Make a predictor for a support set.

    A task with the labels of all sources has pooled classifiers, which know more than metrics can. A task
    with other labels where there are no metrics (``paper``, sources of identical labels) is in no cluster.

    Parameters
    ----------
    metrics
        What was learned from the sources.
    support
        The support set.
    label_names
        Its labels.
    """
    if metrics.classifiers() and tuple(label_names) == metrics.shared_labels:
        return adapt_pooled(metrics, support)
    if metrics.strategy == "blend":
        return adapt_blend(metrics, support)
    return adapt_paper(metrics, support)


def adapt_paper(metrics: FittedMetrics, support: Support) -> Adapted:
    """Mix the clusters' matching networks (Eq. 3 and 4); below the threshold, take the task's own model.

    Deviation: the paper compares with the accuracy "on training data", where an example would match itself;
    here it is left out. A task is out of all clusters below 20 %; in the paper, at 20 % too.
    """
    if not metrics.clusters:
        return fall_back(metrics, support, {}, float("nan"))
    judged = scorable_rows(support.codes)
    rows = {number: metric.represent(support.inputs) for number, metric in sorted(metrics.clusters.items())}
    tables = [leave_one_out_matching(own, support.codes, n_labels=support.n_labels) for own in rows.values()]
    components = [
        MatchingComponent(metrics.clusters[number], own, support.codes, support.n_labels)
        for number, own in rows.items()
    ]
    return mix_clusters(metrics, support, list(rows), components, tables, judged)


def adapt_pooled(metrics: FittedMetrics, support: Support) -> Adapted:
    """Mix the clusters' pooled classifiers (Eq. 3), for a task with the labels of all sources.

    They have not seen the support set, so every row is judged.
    """
    pools = dict(sorted(metrics.pools.items()))
    if not pools and metrics.shared_pool is not None:
        pools = {0: metrics.shared_pool}
    tables = [pool.probabilities(support.inputs) for pool in pools.values()]
    judged = np.ones(len(support.codes), dtype=np.bool_)
    return mix_clusters(metrics, support, list(pools), list(pools.values()), tables, judged)


def mix_clusters(
    metrics: FittedMetrics,
    support: Support,
    numbers: Sequence[int],
    components: Sequence[Component],
    tables: Sequence[Doubles],
    judged: NDArray[np.bool_],
) -> Adapted:
    """Mix components by their predictions for the support set; below the threshold, fall back."""
    alpha = mixture_of(tables, support.codes, judged)
    weights = dict(zip(numbers, alpha.tolist(), strict=True)) if len(numbers) > 1 else {}
    best = max(accuracy(table, support.codes, judged) for table in tables)
    if metrics.threshold is not None and best < metrics.threshold:
        return fall_back(metrics, support, weights, best)
    served = accuracy(mix(tables, alpha.tolist()), support.codes, judged)
    return Adapted(tuple(components), tuple(alpha.tolist()), weights, served, best)


def adapt_blend(metrics: FittedMetrics, support: Support) -> Adapted:
    """Fit softmax regression in the shared metric, and in those of clusters that serve.

    The weights of clusters come from the support set and from what the clusters' tasks look like. Where
    there is a threshold (words) and no metric reaches it, the task's own model serves.
    """
    shared, settings = metrics.shared, metrics.settings
    assert shared is not None  # noqa: S101 - blend has one
    judged = scorable_rows(support.codes, with_names=support.names is not None)
    left_out = leave_one_out(shared, support, settings)
    best = accuracy(left_out, support.codes, judged)
    components: list[Component] = [fit_component(shared, support, settings)]
    shares, weights = [1.0], {}
    if metrics.clusters:
        tables = {
            number: leave_one_out(metric, support, settings)
            for number, metric in sorted(metrics.clusters.items())
        }
        alpha = mixture_of(list(tables.values()), support.codes, judged)
        weights = weigh_clusters(metrics, support, dict(zip(tables, alpha.tolist(), strict=True)))
        best = max(best, *(accuracy(table, support.codes, judged) for table in tables.values()))
        share = settings.cluster_share
        kept = {number: weight for number, weight in weights.items() if weight >= LEAST_WEIGHT}
        shares = [1 - share, *(share * weight / sum(kept.values()) for weight in kept.values())]
        components += [fit_component(metrics.clusters[number], support, settings) for number in kept]
        left_out = mix([left_out, *(tables[number] for number in kept)], shares)
    if metrics.threshold is not None and best < metrics.threshold:
        return fall_back(metrics, support, weights, best)
    served = accuracy(left_out, support.codes, judged)
    return Adapted(tuple(components), tuple(shares), weights, served, best)


def fall_back(metrics: FittedMetrics, support: Support, weights: dict[int, float], best: float) -> Adapted:
    """Return the predictor of a task that is out of all clusters: its own model.

    Its accuracy on the support set is known by prototypes of ready-made vectors, and not known for words.
    """
    found = float("nan")
    if metrics.vectors is not None:
        names = support.names if metrics.strategy == "blend" else None
        table = leave_one_out(Metric(None), dataclasses.replace(support, names=names), metrics.settings)
        found = accuracy(table, support.codes, scorable_rows(support.codes, with_names=names is not None))
    return Adapted((fit_own(metrics, support),), (1.0,), weights, found, best, out_of_cluster=True)


def fit_own(metrics: FittedMetrics, support: Support) -> LinearComponent:
    """Train a model on the support set alone: regression on ready-made vectors, or a convolution on words.

    Deviation: on ready-made vectors the paper's single-task model has a layer of its own, which a few rows
    cannot train; here it is class-balanced softmax regression.
    """
    if metrics.vectors is not None:
        # Where names stand is learned from other tasks; here they stay where they are.
        names = support.names if metrics.strategy == "blend" else None
        return fit_component(Metric(None), dataclasses.replace(support, names=names), metrics.settings)
    model = train_model(
        support.inputs,
        support.codes,
        n_labels=support.n_labels,
        # A few rows cannot train the vectors of their words.
        settings=metrics.settings.layer.replace(embeddings="frozen"),
        generator=numpy_generator(metrics.seed, "model", [support.name]),
    )
    return LinearComponent(Metric(model.layer), False, model.head_weight, model.head_bias)


def fit_component(metric: Metric, support: Support, settings: FewShotSettings) -> LinearComponent:
    """Fit softmax regression on a support set under a metric, every label weighing the same.

    The name of a label is one more example of it. That tells apart labels of one example, and makes
    leave-one-out possible for them.
    """
    vectors, codes = metric.directions(support.inputs), support.codes
    if support.names is not None:
        vectors = np.concatenate([vectors, metric.place_names(support.names)])
        codes = np.concatenate([codes, np.arange(support.n_labels)])
    fitted = fit_softmax(vectors, codes, n_labels=support.n_labels, C=settings.C, balanced=True)
    weight = np.ascontiguousarray(fitted.weight, dtype=np.float32)
    return LinearComponent(metric, True, weight, fitted.bias.astype(np.float32))


def leave_one_out(metric: Metric, support: Support, settings: FewShotSettings) -> Doubles:
    """Return leave-one-out probabilities of the support set under a metric, by prototypes.

    Softmax regression would have to be fitted anew for every row; prototypes rank metrics alike, in closed
    form.
    """
    names = None if support.names is None else metric.place_names(support.names)
    return leave_one_out_prototypes(
        metric.directions(support.inputs),
        support.codes,
        n_labels=support.n_labels,
        scale=settings.metric.scale,
        names=names,
    )


def leave_one_out_prototypes(
    support: Floats, codes: Codes, *, n_labels: int, scale: float, names: Floats | None = None
) -> Doubles:
    """Return the probabilities of every support row by label means made without it, in closed form.

    A row whose label has no other vector has probability 0 of its own label and cannot be judged.

    Parameters
    ----------
    support, codes
        Unit vectors, and their labels.
    n_labels
        The number of labels.
    scale
        The factor of the cosines.
    names
        One unit vector per label, that of its name.

    Examples
    --------
    >>> vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    >>> left_out = leave_one_out_prototypes(vectors, np.array([0, 0, 1]), n_labels=2, scale=4.0)
    >>> left_out.round(2).tolist()
    [[0.98, 0.02], [0.98, 0.02], [1.0, 0.0]]
    """
    sums = sum_rows(support, codes, n_labels)
    sums = (sums if names is None else sums + names).astype(np.float64)
    vectors = support.astype(np.float64)
    logits = scale * vectors @ unit_rows(sums).T
    without = unit_rows(sums[codes] - vectors)
    n_vectors = np.bincount(codes, minlength=n_labels) + (names is not None)
    own = scale * (vectors * without).sum(axis=1)
    logits[np.arange(len(codes)), codes] = np.where(n_vectors[codes] >= 2, own, -np.inf)
    return softmax_rows(logits).astype(np.float64)


def match(queries: Floats, support: Floats, codes: Codes, *, n_labels: int) -> Doubles:
    """Return P(y | x) of Eq. 4: the sum, over the support examples l of label y, of the softmax of z_l . z.

    Bit for bit, the result of a query does not depend on the other queries.

    Parameters
    ----------
    queries, support
        Representations, shapes (queries, width) and (support rows, width).
    codes
        The label of every support row.
    n_labels
        The number of labels; one without a support row has probability 0.

    Examples
    --------
    >>> support = np.array([[2, 0], [0, 2], [0, 2]], dtype=np.float32)
    >>> match(support[:1], support, np.array([0, 1, 1]), n_labels=2).round(3).tolist()
    [[0.965, 0.035]]
    """
    logits = multiply_rows(queries, np.ascontiguousarray(support.T)).astype(np.float64)
    return sum_by_label(softmax_rows(logits), codes, n_labels)


def leave_one_out_matching(support: Floats, codes: Codes, *, n_labels: int) -> Doubles:
    """Return P(y | x) for every support row from all the others: an example must not match itself.

    Rows of a label without another example have probability 0 of their own label, so they cannot be judged;
    see `scorable_rows`. For a support set of one row, all labels are alike.

    Examples
    --------
    >>> support = np.array([[2, 0], [2, 0], [0, 2]], dtype=np.float32)
    >>> leave_one_out_matching(support, np.array([0, 0, 1]), n_labels=2).round(3).tolist()
    [[0.982, 0.018], [0.982, 0.018], [1.0, 0.0]]
    """
    if len(support) == 1:
        return np.full((1, n_labels), 1 / n_labels)
    logits = multiply_rows(support, np.ascontiguousarray(support.T)).astype(np.float64)
    np.fill_diagonal(logits, -np.inf)
    return sum_by_label(softmax_rows(logits), codes, n_labels)


def sum_by_label(shares: Doubles, codes: Codes, n_labels: int) -> Doubles:
    """Add up the columns of each label."""
    result = np.zeros((len(shares), n_labels))
    for column, code in enumerate(codes.tolist()):
        result[:, code] += shares[:, column]
    return result


def scorable_rows(codes: Codes, *, with_names: bool = False) -> NDArray[np.bool_]:
    """Return which rows leave-one-out can judge: their label has another row, or its name stands for it.

    Examples
    --------
    >>> scorable_rows(np.array([0, 1, 1])).tolist()
    [False, True, True]
    """
    if with_names:
        return np.ones(len(codes), dtype=np.bool_)
    return np.asarray(np.bincount(codes)[codes] >= 2)


def accuracy(table: Doubles, codes: Codes, judged: NDArray[np.bool_]) -> float:
    """Return the share of judged rows whose label is the most probable one; NaN if there are none."""
    return float((table.argmax(axis=1) == codes)[judged].mean()) if judged.any() else float("nan")


def mixture_of(tables: Sequence[Doubles], codes: Codes, judged: NDArray[np.bool_]) -> Doubles:
    """Learn the weights of some predictors from their probabilities for the rows that can be judged."""
    rows = np.flatnonzero(judged)
    return learn_mixture(np.stack([table[rows, codes[rows]] for table in tables], axis=1))


def learn_mixture(
    likelihoods: NDArray[np.floating], *, prior_rows: float = PRIOR_ROWS, tol: float = 1e-9
) -> Doubles:
    """Learn alpha of Eq. 3 on the simplex: what makes the labels of the support set most likely.

    Maximises sum_i log(sum_k alpha_k p_ik) + (prior_rows / K) sum_k log(alpha_k), which is concave, by the EM
    algorithm, which climbs to its one maximum.

    Parameters
    ----------
    likelihoods
        p_ik, shape (support rows, components): the probability that component k gives to the true label of
        row i, by a predictor that has not seen row i. Without rows the weights are even.
    prior_rows
        The strength of the prior towards even weights, in rows; 0 for none.
    tol
        The iteration ends where no weight changes by more than this.

    Returns
    -------
    numpy.ndarray
        Shape (components,), from 0 up, with sum 1.

    Raises
    ------
    DataError
        If a likelihood is negative or not finite.
    UsageError
        If there is no component, or the prior is negative.

    Examples
    --------
    >>> learn_mixture(np.array([[0.9, 0.1], [0.8, 0.1], [0.9, 0.3]])).round(2).tolist()
    [0.77, 0.23]
    """
    table = np.asarray(likelihoods, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] == 0:
        raise UsageError("there is nothing to mix", got=f"shape {table.shape}", expected="(rows, components)")
    if not (np.isfinite(prior_rows) and prior_rows >= 0):
        raise UsageError("prior_rows cannot be used", got=quote(prior_rows), expected="a number from 0 up")
    if not np.isfinite(table).all() or (table < 0).any():
        raise DataError("a likelihood cannot be used", expected="finite numbers from 0 up")
    n_components = table.shape[1]
    even = np.full(n_components, 1 / n_components)
    # A row that no component gives any chance does not tell which one is better.
    table = table[table.max(axis=1) > 0]
    if len(table) == 0 or n_components == 1:
        return even
    table = table / table.max(axis=1, keepdims=True)
    weights = even
    for _ in range(MAX_ITERATIONS):
        shares = table * weights
        shares /= shares.sum(axis=1, keepdims=True)
        updated = (shares.sum(axis=0) + prior_rows * even) / (len(table) + prior_rows)
        change = float(np.abs(updated - weights).max())
        weights = updated
        if change <= tol:
            break
    return np.asarray(weights / weights.sum())


def summarise_clusters(
    metric: Metric,
    inputs: FrozenInputs,
    sources: Mapping[str, SourceRows],
    clusters: Mapping[int, Sequence[str]],
) -> dict[int, ClusterSummary]:
    """Return what the tasks of each cluster look like under a metric; a cluster without sources has nothing."""
    found = {}
    for number, members in sorted(clusters.items()):
        own = [sources[name] for name in sorted(members) if name in sources]
        if own:
            items = np.concatenate([source.name_items for source in own])
            texts = [mean_direction(metric, inputs.take(source.items)) for source in own]
            names = metric.directions(inputs.take(items[items >= 0]))
            found[number] = ClusterSummary(names, np.concatenate(texts))
    return found


# The weights of: log alpha_k; the similarity of label names; that of texts; the log of the number of tasks.
EVIDENCE_WEIGHTS = (1.0, 10.0, 10.0, 0.5)


def weigh_clusters(metrics: FittedMetrics, support: Support, alpha: Mapping[int, float]) -> dict[int, float]:
    """Return the weight of each cluster for a task, from Eq. 3 and from what the cluster's tasks look like.

    Eq. 3 learns the weights from the support set alone, and a handful of rows says little. Known besides is
    how similar the names of the labels are to those in the cluster, and the mean text to that of the
    cluster's nearest task. The weight is proportional to

        alpha_k^a exp(b names_k + c texts_k) size_k^d.

    Deviation: the paper has alpha alone. On planted tasks of mixed kinds the weight of the true cluster rises
    from 0.4 to 0.8.
    """
    space = metrics.vectors or metrics.shared
    if space is None or not alpha.keys() <= metrics.summaries.keys():
        return dict(alpha)
    mean = mean_direction(space, support.inputs)
    names = None if support.names is None else space.directions(support.names)
    evidence = []
    for number, weight in alpha.items():
        known = metrics.summaries[number]
        has_names = names is not None and len(known.names)
        of_names = float((names @ known.names.T).max(axis=1).mean()) if has_names else 0.0
        of_texts = float((mean @ known.texts.T).max())
        evidence.append([np.log(max(weight, LEAST_ALPHA)), of_names, of_texts, np.log(len(known.texts))])
    scores = np.array(evidence) @ np.array(EVIDENCE_WEIGHTS)
    return dict(zip(alpha, softmax_rows(scores[None])[0].tolist(), strict=True))

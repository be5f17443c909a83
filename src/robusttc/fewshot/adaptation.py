"""Adaptation to a new task: from its support set to a predictor.

Leave-one-out predictions for the support set weigh the metrics of clusters (Eq. 3) and show whether the task
belongs to any cluster at all. A row whose label has no other example, and no name that stands for it, cannot
be judged; where no row can be judged, the support set weighs all clusters alike and the fallback does not
apply.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.errors import DataError, UsageError, quote
from robusttc.fewshot.components import (
    ClusterSummary,
    Codes,
    Component,
    Doubles,
    FittedMetrics,
    LinearComponent,
    MatchingComponent,
    mix,
    side_by_side,
    sum_by_label,
)
from robusttc.fewshot.metric import (
    Floats,
    Metric,
    SourceRows,
    mean_direction,
    softmax_rows,
    sum_rows,
    unit_rows,
)
from robusttc.models import fit_softmax, multiply_rows, train_model
from robusttc.random import numpy_generator

__all__ = [
    "Adapted",
    "Support",
    "adapt",
    "fit_own",
    "learn_mixture",
    "leave_one_out_matching",
    "leave_one_out_prototypes",
    "scorable_rows",
    "summarise_clusters",
]

# A cluster of less weight is left out of the predictor: it would cost a fit and change nothing.
LEAST_WEIGHT = 0.02
# No weight of Eq. 3 is taken for less where its logarithm counts.
LEAST_ALPHA = 1e-3
# How strongly the similarity of label names, and that of texts, weighs clusters.
NAME_EVIDENCE, TEXT_EVIDENCE = 10.0, 10.0
# Deviation: the paper has no prior on alpha. This one counts as much as so many support rows, spread evenly
# over the clusters: without it, a handful of rows would put all weight on one cluster.
PRIOR_ROWS = 2.0
MAX_ITERATIONS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """The support set of a new task: its rows, their labels, all of which occur, and the labels' names.

    `names` are the frozen inputs of the names, one per label; None where they are not used.
    """

    name: str
    inputs: FrozenInputs
    codes: Codes
    n_labels: int
    names: FrozenInputs | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """A predictor for a task: a weighted mean of components (Eq. 3).

    Attributes
    ----------
    components, shares
        What is averaged, and with which weights.
    weights
        The weight alpha of each cluster; empty without clusters.
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
        """Return the probability of every label for every item."""
        return mix([component.probabilities(inputs) for component in self.components], self.shares)


def adapt(metrics: FittedMetrics, support: Support, label_names: Sequence[str]) -> Adapted:
    """Make a predictor for a support set with these labels.

    A task with the labels of all sources has pooled classifiers, which know more than metrics can. A task
    with other labels where there are no metrics (``paper``, sources of identical labels) is in no cluster.
    """
    if metrics.pools and tuple(label_names) == metrics.shared_labels:
        return adapt_pooled(metrics, support)
    return adapt_blend(metrics, support) if metrics.strategy == "blend" else adapt_paper(metrics, support)


def adapt_paper(metrics: FittedMetrics, support: Support) -> Adapted:
    """Mix the clusters' matching networks (Eq. 3 and 4); below the threshold, take the task's own model.

    Deviation: the paper compares with the accuracy "on training data", where an example would match itself;
    here it is left out. A task is out of all clusters below 20 %; in the paper, at 20 % too.
    """
    components: dict[int, Component] = {}
    tables = {}
    for number, metric in metrics.of_clusters().items():
        rows = metric.represent(support.inputs)
        tables[number] = leave_one_out_matching(rows, support.codes, n_labels=support.n_labels)
        components[number] = MatchingComponent((metric,), rows, support.codes, support.n_labels)
    return mix_clusters(metrics, support, components, tables, scorable_rows(support.codes))


def adapt_pooled(metrics: FittedMetrics, support: Support) -> Adapted:
    """Mix the clusters' pooled classifiers (Eq. 3), for a task with the labels of all sources.

    They have not seen the support set, so every row is judged.
    """
    pools: dict[int, LinearComponent] = metrics.of_clusters("pools") or {0: metrics.pools["shared"]}
    tables = {number: pool.probabilities(support.inputs) for number, pool in pools.items()}
    return mix_clusters(metrics, support, pools, tables, np.ones(len(support.codes), dtype=np.bool_))


def mix_clusters(
    metrics: FittedMetrics,
    support: Support,
    components: Mapping[int, Component],
    tables: Mapping[int, Doubles],
    judged: NDArray[np.bool_],
) -> Adapted:
    """Mix components by their predictions for the support set; below the threshold, fall back."""
    if not components:
        return fall_back(metrics, support, {}, float("nan"))
    alpha = mixture_of(tables, support.codes, judged)
    weights = alpha if len(alpha) > 1 else {}
    best = max(accuracy(table, support.codes, judged) for table in tables.values())
    if metrics.threshold is not None and best < metrics.threshold:
        return fall_back(metrics, support, weights, best)
    shares = tuple(alpha.values())
    served = accuracy(mix(list(tables.values()), shares), support.codes, judged)
    return Adapted(tuple(components.values()), shares, weights, served, best)


def adapt_blend(metrics: FittedMetrics, support: Support) -> Adapted:
    """Fit softmax regression under the shared metric, and under those of clusters that serve.

    The weights of clusters come from the support set and from what the clusters' tasks look like. Where
    there is a threshold (words) and no metric reaches it, the task's own model serves.
    """
    shared, share = metrics.metrics["shared"], metrics.settings.cluster_share
    judged = scorable_rows(support.codes, with_names=support.names is not None)
    left_out = leave_one_out(shared, support, metrics)
    best = accuracy(left_out, support.codes, judged)
    components, shares, weights = [fit_component(shared, support, metrics)], [1.0], {}
    clusters: dict[int, Metric] = metrics.of_clusters()
    if clusters:
        tables = {number: leave_one_out(metric, support, metrics) for number, metric in clusters.items()}
        weights = weigh_clusters(metrics, support, mixture_of(tables, support.codes, judged))
        best = max(best, *(accuracy(table, support.codes, judged) for table in tables.values()))
        kept = {number: weight for number, weight in weights.items() if weight >= LEAST_WEIGHT}
        shares = [1 - share, *(share * weight / sum(kept.values()) for weight in kept.values())]
        components += [fit_component(clusters[number], support, metrics) for number in kept]
        left_out = mix([left_out, *(tables[number] for number in kept)], shares)
    if metrics.threshold is not None and best < metrics.threshold:
        return fall_back(metrics, support, weights, best)
    served = accuracy(left_out, support.codes, judged)
    return Adapted(tuple(components), tuple(shares), weights, served, best)


def fall_back(metrics: FittedMetrics, support: Support, weights: dict[int, float], best: float) -> Adapted:
    """Return the predictor of a task that is out of all clusters: its own model.

    Its accuracy on the support set is known by label means of ready-made vectors, and not known for words.
    """
    found = float("nan")
    if metrics.vectors is not None:
        judged = scorable_rows(support.codes, with_names=support.names is not None)
        found = accuracy(leave_one_out(Metric(None), support, metrics), support.codes, judged)
    return Adapted((fit_own(metrics, support),), (1.0,), weights, found, best, out_of_cluster=True)


def fit_own(metrics: FittedMetrics, support: Support) -> LinearComponent:
    """Train a model on the support set alone: regression on ready-made vectors, or a convolution on words.

    Deviation: on ready-made vectors the paper's single-task model has a layer of its own, which a few rows
    cannot train; here it is class-balanced softmax regression.
    """
    if metrics.vectors is not None:
        # Where names stand is learned from other tasks; here they stay where they are.
        return fit_component(Metric(None), support, dataclasses.replace(metrics, metrics={}))
    model = train_model(
        support.inputs,
        support.codes,
        n_labels=support.n_labels,
        # A few rows cannot train the vectors of their words.
        settings=metrics.settings.layer.replace(embeddings="frozen"),
        generator=numpy_generator(metrics.seed, "model", [support.name]),
    )
    return LinearComponent((Metric(model.layer),), False, model.head_weight, model.head_bias)


def fit_component(metric: Metric, support: Support, metrics: FittedMetrics) -> LinearComponent:
    """Fit softmax regression on a support set under a metric, every label weighing the same.

    Ready-made vectors as they are stand beside the metric, which has forgotten what the sources do not need.
    The name of a label is one more example of it; the map of names is that of the metric alone. That tells
    apart labels of one example, and makes leave-one-out possible for them.
    """
    beside = (metric,) if metrics.vectors is None else (metric, metrics.vectors)
    vectors, codes = side_by_side([one.directions(support.inputs) for one in beside]), support.codes
    if support.names is not None:
        names = side_by_side([one.place_names(support.names) for one in beside])
        vectors = np.concatenate([vectors, names])
        codes = np.concatenate([codes, np.arange(support.n_labels)])
    fitted = fit_softmax(vectors, codes, n_labels=support.n_labels, C=metrics.settings.C, balanced=True)
    # 16 bits: models of many tasks are kept in memory, and no probability changes in its third digit.
    return LinearComponent(beside, True, fitted.weight.astype(np.float16), fitted.bias.astype(np.float32))


def leave_one_out(metric: Metric, support: Support, metrics: FittedMetrics) -> Doubles:
    """Return leave-one-out probabilities of the support set under a metric, by label means.

    Softmax regression would have to be fitted anew for every row; label means rank metrics alike, in closed
    form.
    """
    names = None if support.names is None else metric.place_names(support.names)
    return leave_one_out_prototypes(
        metric.directions(support.inputs),
        support.codes,
        n_labels=support.n_labels,
        scale=metrics.settings.metric.scale,
        names=names,
    )


def leave_one_out_prototypes(
    support: Floats, codes: Codes, *, n_labels: int, scale: float, names: Floats | None = None
) -> Doubles:
    """Return the probabilities of every support row by label means made without it, in closed form.

    A row whose label has no other vector has probability 0 of its own label and cannot be judged. `names` has
    one unit vector per label.

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


def mixture_of(tables: Mapping[int, Doubles], codes: Codes, judged: NDArray[np.bool_]) -> dict[int, float]:
    """Learn the weights of some predictors from their probabilities for the rows that can be judged."""
    rows = np.flatnonzero(judged)
    likelihoods = np.stack([table[rows, codes[rows]] for table in tables.values()], axis=1)
    return dict(zip(tables, learn_mixture(likelihoods).tolist(), strict=True))


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
    """Return what the tasks of each cluster look like under a metric; without sources, nothing."""
    found = {}
    for number, members in sorted(clusters.items()):
        own = [sources[name] for name in sorted(members) if name in sources]
        if own:
            items = np.concatenate([source.name_items for source in own])
            texts = [mean_direction(metric, inputs.take(source.items)) for source in own]
            names = metric.directions(inputs.take(items[items >= 0]))
            found[number] = ClusterSummary(names, np.concatenate(texts))
    return found


def weigh_clusters(metrics: FittedMetrics, support: Support, alpha: Mapping[int, float]) -> dict[int, float]:
    """Return the weight of each cluster for a task, from Eq. 3 and from what the cluster's tasks look like.

    Eq. 3 learns the weights alpha from the support set alone, and a handful of rows says little. Known
    besides is how similar the names of the labels are to those in the cluster, and the mean text to that of
    the cluster's nearest task: the weight is proportional to alpha_k exp(b names_k + c texts_k).
    Deviation: the paper has alpha alone.
    """
    space = metrics.vectors or metrics.metrics["shared"]
    mean = mean_direction(space, support.inputs)
    names = None if support.names is None else space.directions(support.names)
    scores = []
    for number, weight in alpha.items():
        known = metrics.summaries[number]
        score = np.log(max(weight, LEAST_ALPHA)) + TEXT_EVIDENCE * float((mean @ known.texts.T).max())
        if names is not None and len(known.names):
            score += NAME_EVIDENCE * float((names @ known.names.T).max(axis=1).mean())
        scores.append(score)
    return dict(zip(alpha, softmax_rows(np.array([scores]))[0].tolist(), strict=True))

"""Adapting to a new task: from its support set to a predictor (Eq. 3), or to the task's own model.

Each space judges the support set by leave-one-out, which gives the weights of the mixture and tells whether
the task is like any source at all. A row whose label has no other example, and no name that stands for it,
cannot be judged; where no row can be judged, the support set weighs all clusters alike and the task's own
model is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.gate import Evidence, Gate, Marks, find_evidence
from robusttc.fewshot.heads import fit_prototypes, fit_regression, leave_one_out_prototypes
from robusttc.fewshot.matching import leave_one_out_matching, scorable_rows
from robusttc.fewshot.mixture import learn_mixture
from robusttc.fewshot.parts import LinearPart, MatchingPart, Part
from robusttc.fewshot.settings import FewShotSettings
from robusttc.fewshot.spaces import Metrics, Space
from robusttc.models import train_model
from robusttc.random import numpy_generator

__all__ = ["Adapted", "Support", "adapt_blend", "adapt_paper", "adapt_pooled"]

# A cluster of less weight is left out of the predictor: it would cost a fit and change nothing.
LEAST_WEIGHT = 0.02
# Below this number of judged rows, one lucky row is too much of a lead.
LEAST_JUDGED = 10


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
        How many labels there are.
    names
        The frozen inputs of the labels' names, one a label; None where they are not used.
    """

    name: str
    inputs: FrozenInputs
    codes: NDArray[np.int64]
    n_labels: int
    names: FrozenInputs | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """A predictor for a task, and how it came about.

    Attributes
    ----------
    parts, shares
        What is averaged, and with which weights.
    weights
        The weight alpha of each cluster in the mixture over clusters; empty without clusters.
    support_accuracy
        The leave-one-out accuracy of the mixture on the support set, NaN if no row can be judged.
    best_accuracy
        The leave-one-out accuracy of the best component alone; NaN likewise.
    out_of_cluster
        Whether the task's own model serves.
    evidence
        What the gate goes by, a row a cluster of `weights`; None without a gate's marks.
    """

    parts: tuple[Part, ...]
    shares: tuple[float, ...]
    weights: dict[int, float]
    support_accuracy: float
    best_accuracy: float
    out_of_cluster: bool
    evidence: Evidence | None = None


def adapt_blend(
    support: Support,
    metrics: Metrics,
    *,
    settings: FewShotSettings,
    threshold: float,
    clusters_serve: bool = True,
    marks: Marks | None = None,
    gate: Gate | None = None,
    seed: int = 0,
) -> Adapted:
    """Fit classifiers in the shared space, and in those of clusters where they serve, and average them.

    The weights of clusters are learned in any case: they tell what the task is like. With a gate they come
    from it (see `robusttc.fewshot.gate`), without one from the support set alone.

    The task's own model serves only where it leads clearly: with ready vectors, by `clear_lead` in
    leave-one-out accuracy; with words, where no space reaches `threshold`.
    """
    judged = scorable_rows(support.codes, with_names=support.names is not None)
    left_out = leave_out(metrics.shared, support, settings)
    parts: list[Part] = [fit_heads(metrics.shared, support, settings)]
    shares, weights = [1.0], {}
    evidence: Evidence | None = None
    best = accuracy(left_out, support.codes, judged)
    if metrics.clusters:
        numbers = sorted(metrics.clusters)
        tables = [leave_out(metrics.clusters[number], support, settings) for number in numbers]
        alpha = mix(tables, support.codes, judged, settings)
        weights = dict(zip(numbers, alpha.tolist(), strict=True))
        if marks is not None:
            space = metrics.shared if metrics.frozen is None else metrics.frozen
            evidence = find_evidence(space, marks, weights, texts=support.inputs, names=support.names)
            if gate is not None:
                alpha = gate.weigh(evidence)
                weights = dict(zip(numbers, alpha.tolist(), strict=True))
    if metrics.clusters and clusters_serve:
        best = max(best, *(accuracy(table, support.codes, judged) for table in tables))
        share = settings.cluster_share
        mixed = sum(weight * table for weight, table in zip(alpha, tables, strict=True))
        left_out = (1 - share) * left_out + share * np.asarray(mixed)
        kept = {number: weight for number, weight in weights.items() if weight >= LEAST_WEIGHT}
        shares = [1 - share, *(share * weight / sum(kept.values()) for weight in kept.values())]
        parts += [fit_heads(metrics.clusters[number], support, settings) for number in kept]
    own_accuracy = accuracy(left_out, support.codes, judged)
    if metrics.frozen is None:
        is_out = best < threshold
    else:
        frozen = accuracy(leave_out(metrics.frozen, support, settings), support.codes, judged)
        is_out = bool(judged.sum() >= LEAST_JUDGED and frozen - own_accuracy > settings.clear_lead)
    if is_out:
        parts, shares = [own_model(support, metrics.frozen, settings, seed)], [1.0]
    return Adapted(tuple(parts), tuple(shares), weights, own_accuracy, best, is_out, evidence)


def adapt_paper(
    support: Support,
    metrics: Metrics,
    *,
    settings: FewShotSettings,
    threshold: float,
    clusters_serve: bool = True,
    seed: int = 0,
) -> Adapted:
    """Mix the clusters' matching networks (Eq. 3 and 4); below the threshold, take the task's own model.

    Without clusters that serve, the shared metric is the only component. Names are not used.
    """
    judged = scorable_rows(support.codes)
    is_mixed = bool(metrics.clusters) and clusters_serve
    spaces = metrics.clusters if is_mixed else {0: metrics.shared}
    numbers = sorted(spaces)
    rows = {number: spaces[number].represent(support.inputs) for number in numbers}
    tables = [
        leave_one_out_matching(rows[number], support.codes, n_labels=support.n_labels) for number in numbers
    ]
    alpha = mix(tables, support.codes, judged, settings)
    weights = dict(zip(numbers, alpha.tolist(), strict=True))
    mixed = np.asarray(sum(weight * table for weight, table in zip(alpha, tables, strict=True)))
    best = max(accuracy(table, support.codes, judged) for table in tables)
    is_out = best < threshold
    parts: list[Part] = [
        MatchingPart(spaces[number].layer, rows[number], support.codes, support.n_labels)
        for number in numbers
    ]
    shares = alpha.tolist()
    if is_out:
        parts, shares = [own_model(support, metrics.frozen, settings, seed, with_names=False)], [1.0]
    own_accuracy = accuracy(mixed, support.codes, judged)
    return Adapted(tuple(parts), tuple(shares), weights if is_mixed else {}, own_accuracy, best, is_out)


def adapt_pooled(
    support: Support,
    pools: dict[int, LinearPart],
    *,
    settings: FewShotSettings,
    threshold: float,
    frozen: Space | None,
    rest: Adapted | None = None,
    seed: int = 0,
) -> Adapted:
    """Mix the clusters' pooled classifiers (Eq. 3), for a task with the labels of all sources.

    They have not seen the support set, so every row is judged. With `rest`, the predictor made without
    pooled classifiers, the prediction is the mean of both, by `pooled_share`.
    """
    numbers = sorted(pools)
    tables = [pools[number].probabilities(support.inputs) for number in numbers]
    judged = np.ones(len(support.codes), dtype=np.bool_)
    alpha = mix(tables, support.codes, judged, settings)
    weights = dict(zip(numbers, alpha.tolist(), strict=True))
    mixed = np.asarray(sum(weight * table for weight, table in zip(alpha, tables, strict=True)))
    best = max(accuracy(table, support.codes, judged) for table in tables)
    parts: list[Part] = [pools[number] for number in numbers]
    shares = alpha.tolist()
    is_out = best < threshold
    if is_out:
        parts, shares = [own_model(support, frozen, settings, seed, with_names=False)], [1.0]
    elif rest is not None:
        parts = [*parts, *rest.parts]
        pooled = settings.pooled_share
        shares = [*(pooled * share for share in shares), *((1 - pooled) * share for share in rest.shares)]
    return Adapted(tuple(parts), tuple(shares), weights, accuracy(mixed, support.codes, judged), best, is_out)


def fit_heads(space: Space, support: Support, settings: FewShotSettings) -> LinearPart:
    """Fit prototypes and softmax regression in a space, each if it has a share."""
    vectors = space.directions(support.inputs)
    names = None if support.names is None else space.place_names(support.names)
    heads, shares = [], []
    if settings.prototype_share > 0:
        heads.append(
            fit_prototypes(
                vectors,
                support.codes,
                n_labels=support.n_labels,
                scale=settings.metric.scale,
                names=names,
            )
        )
        shares.append(settings.prototype_share)
    if settings.prototype_share < 1:
        heads.append(
            fit_regression(vectors, support.codes, n_labels=support.n_labels, C=settings.C, names=names)
        )
        shares.append(1 - settings.prototype_share)
    return LinearPart(space.layer, True, tuple(shares), tuple(heads))


def leave_out(space: Space, support: Support, settings: FewShotSettings) -> NDArray[np.float64]:
    """Give the leave-one-out probabilities of prototypes in a space.

    Softmax regression would have to be fitted anew for every row; prototypes rank spaces alike, in closed
    form.
    """
    names = None if support.names is None else space.place_names(support.names)
    return leave_one_out_prototypes(
        space.directions(support.inputs),
        support.codes,
        n_labels=support.n_labels,
        scale=settings.metric.scale,
        names=names,
    )


def mix(
    tables: list[NDArray[np.float64]],
    codes: NDArray[np.int64],
    judged: NDArray[np.bool_],
    settings: FewShotSettings,
) -> NDArray[np.float64]:
    """Learn the weights of some predictors from their probabilities on the rows that can be judged."""
    rows = np.flatnonzero(judged)
    likelihoods = np.stack([table[rows, codes[rows]] for table in tables], axis=1)
    return learn_mixture(likelihoods, prior_rows=settings.prior_rows)


def accuracy(table: NDArray[np.float64], codes: NDArray[np.int64], judged: NDArray[np.bool_]) -> float:
    """Give the share of judged rows whose label is the most probable one; NaN if there are none."""
    if not judged.any():
        return float("nan")
    return float((table.argmax(axis=1) == codes)[judged].mean())


def own_model(
    support: Support,
    frozen: Space | None,
    settings: FewShotSettings,
    seed: int,
    *,
    with_names: bool = True,
) -> LinearPart:
    """Train a model on the support set alone: regression on ready vectors, or a convolution on words."""
    if frozen is not None:
        names = support.names if with_names else None
        # Where names stand is learned from other tasks; here they stay where they are.
        alone = Support(support.name, support.inputs, support.codes, support.n_labels, names)
        return fit_heads(Space(None), alone, settings.replace(prototype_share=0.0))
    model = train_model(
        support.inputs,
        support.codes,
        n_labels=support.n_labels,
        # A few rows cannot teach the vectors of their words anything.
        settings=settings.layer.replace(embeddings="frozen"),
        generator=numpy_generator(seed, "model", [support.name]),
    )
    return LinearPart(model.layer, False, (1.0,), ((model.head_weight, model.head_bias),))

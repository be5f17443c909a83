"""The paper's few-shot baselines that learn from source tasks: a matching network, and a mixture of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.base import Predictor, SourceBaseline, codes_of
from robusttc.data import Task, TaskSet
from robusttc.encoders import FrozenInputs, PreparedTasks, WordInputs
from robusttc.fewshot import (
    FewShotSettings,
    SourceRows,
    default_settings,
    learn_mixture,
    leave_one_out_matching,
    match,
    scorable_rows,
    train_metric,
)
from robusttc.models import Layer, TrainedModel, TrainingSettings, train_single_task
from robusttc.progress import Progress, report

Floats = NDArray[np.float64]

# Components of the smallest weights, of so much together, are left out: of hundreds most have hardly any, and
# each costs a pass over the texts.
PRUNED_WEIGHT = 0.01


@dataclass(repr=False, eq=False)
class MatchingNetworkBaseline(SourceBaseline):
    """A matching network (Vinyals et al. 2016) trained on episodes of all source tasks; Eq. 4 predicts.

    It is what `robusttc.ClusterFewShot` with ``strategy="paper"`` would be with one cluster of all sources,
    but it never falls back to the task's own model, and it matches where label sets are identical too.
    Deviation: Vinyals et al. compare by cosines and may let the whole support set change an embedding; the
    paper's Eq. 4 has plain inner products, and so has this.

    Parameters
    ----------
    settings
        How the metric is trained (`FewShotSettings`); None takes those of ``strategy="paper"``.
    encoder, vectors, model, device, random_state
        See `robusttc.baselines.base.Baseline`; the paper's encoder is ``cnn``.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["a", "b"] * 8, ["x", "y"] * 8) for name in ("one", "two"))
    >>> vectors = dict.fromkeys(tasks.names, np.tile(np.eye(2), (8, 1))) | {"new": np.eye(2)}
    >>> baseline = MatchingNetworkBaseline(FeatureEncoder(vectors)).fit(tasks)
    >>> baseline.adapt(Task("new", ["a", "b"], ["yes", "no"])).predict(np.eye(2)).tolist()
    ['yes', 'no']
    """

    _: KW_ONLY
    settings: FewShotSettings | None = None
    metric_: Layer = field(init=False)

    def _fit_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        sources = []
        for task in tasks:
            rows = task.rows("train", "valid")
            no_names = np.full(len(task.label_names), -1, dtype=np.int64)
            items = prepared.items_of(task.name, rows)
            sources.append(SourceRows(task.name, items, codes_of(task, rows), no_names))
        settings = self.settings or default_settings("paper", words=isinstance(prepared.inputs, WordInputs))
        self.metric_ = train_metric(
            prepared.inputs,
            sources,
            settings=settings.metric,
            layer_settings=settings.layer,
            seed=seed,
            progress=progress,
        )

    def _fit_task(self, inputs: FrozenInputs, codes: NDArray[np.int64], task: Task) -> Predictor:
        support = self.metric_.represent(inputs)
        return partial(match_support, self.metric_, support, codes, len(task.label_names))


@dataclass(repr=False, eq=False)
class TaskMixtureBaseline(SourceBaseline):
    """A mixture over the single-task models of all source tasks: as many clusters as there are tasks.

    The paper's ablation: Eq. 3 with a single-task model from each source task in place of cluster models.
    Where the target has the labels of all sources, P(y | x) comes directly from each source's model. Where
    label sets differ, the encoder of each model serves as the metric of Eq. 4. The weights alpha are learned
    from the target's rows; in Eq. 4 by leave-one-out, because an example must not match itself.

    Deviation: components that have the smallest weights, 1 % together, are left out. The representations
    enter Eq. 4 as they are, though encoders that were trained under a classifier have no scale of their own
    that suits a dot product: on real intent tasks none of the scales that were tried (mean square lengths of
    3 to 100) was better.

    Parameters
    ----------
    settings
        How single-task models are trained; None takes the defaults of `TrainingSettings`.
    encoder, vectors, model, device, random_state
        See `robusttc.baselines.base.Baseline`; the paper's encoder is ``cnn``.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["a", "b"] * 8, ["x", "y"] * 8) for name in ("one", "two"))
    >>> vectors = dict.fromkeys(tasks.names, np.tile(np.eye(2), (8, 1))) | {"new": np.eye(2)}
    >>> baseline = TaskMixtureBaseline(FeatureEncoder(vectors)).fit(tasks)
    >>> baseline.adapt(Task("new", ["a", "b"], ["yes", "no"])).predict(np.eye(2)).tolist()
    ['yes', 'no']
    """

    _: KW_ONLY
    settings: TrainingSettings | None = None
    source_models_: dict[str, TrainedModel] = field(init=False)

    def _fit_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        settings = self.settings or TrainingSettings()
        self.source_models_ = {}
        for task in tasks:
            self.source_models_[task.name] = train_single_task(task, prepared, settings=settings, seed=seed)
            report(progress, "models", len(self.source_models_), len(tasks), "tasks", task.name)
        self._label_sets = {task.label_names for task in tasks}

    def _fit_task(self, inputs: FrozenInputs, codes: NDArray[np.int64], task: Task) -> Predictor:
        # By name, so that the order of the sources does not change a sum.
        models = [self.source_models_[name] for name in sorted(self.source_models_)]
        n_labels = len(task.label_names)
        components: list[Predictor] = []
        tables: list[NDArray[Any]] = []  # the probabilities of the target's rows, by each component
        if self._label_sets == {task.label_names}:
            scored = np.arange(len(codes))
            for model in models:
                components.append(model.probabilities)
                tables.append(model.probabilities(inputs))
        else:
            scored = np.flatnonzero(scorable_rows(codes))
            for model in models:
                support = model.layer.represent(inputs)
                components.append(partial(match_support, model.layer, support, codes, n_labels))
                tables.append(leave_one_out_matching(support, codes, n_labels=n_labels))
        likelihoods = np.stack([table[scored, codes[scored]] for table in tables], axis=1)
        kept, weights = prune_weights(learn_mixture(likelihoods))
        return partial(mix, [components[place] for place in kept], weights)


def match_support(
    metric: Layer, support: NDArray[np.float32], codes: NDArray[np.int64], n_labels: int, inputs: FrozenInputs
) -> Floats:
    """Return the probabilities of matching a support set under a metric (Eq. 4)."""
    return match(metric.represent(inputs), support, codes, n_labels=n_labels)


def mix(components: Sequence[Predictor], weights: Floats, inputs: FrozenInputs) -> Floats:
    """Return the probabilities of a mixture of predictors of the same labels (Eq. 3)."""
    pairs = zip(weights, components, strict=True)
    return np.asarray(sum(weight * predict(inputs) for weight, predict in pairs))


def prune_weights(weights: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Leave out the smallest weights, `PRUNED_WEIGHT` together; return the others' places and shares."""
    order = np.argsort(weights, kind="stable")
    n_pruned = int(np.searchsorted(np.cumsum(weights[order]), PRUNED_WEIGHT * (1 + 1e-9), side="right"))
    kept = np.sort(order[n_pruned:]).astype(np.int64)
    return kept, np.asarray(weights[kept] / weights[kept].sum())

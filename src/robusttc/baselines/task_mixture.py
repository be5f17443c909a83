"""The mixture of Eq. 3 over single-task models: few-shot learning as in the paper, without clustering."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.source_encoder import SourceBaseline
from robusttc.baselines.task_model import Floats
from robusttc.data import Task, TaskSet
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.layer import Layer
from robusttc.encoders.model import TrainedModel
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.single_task import HEAD_C, train_single_task
from robusttc.errors import UsageError, quote
from robusttc.fewshot.matching import leave_one_out_matching, match, scorable_rows
from robusttc.fewshot.mixture import learn_mixture
from robusttc.progress import Progress, report
from robusttc.random import RandomState

__all__ = ["TaskMixtureBaseline"]

# Components of the smallest weights, of so much together, are left out: of hundreds most have hardly any, and
# each costs a pass over the texts.
LEFT_OUT = 0.01


class TaskMixtureBaseline(SourceBaseline):
    """A mixture over the single-task models of all source tasks: as many clusters as there are tasks.

    The paper's ablation: Eq. 3 with a single-task model from each source task in place of cluster models.
    Where the target has the labels of all sources, P(y | x) comes directly from each source's model. Where
    label sets differ, the encoder of each model serves as the metric of Eq. 4. The weights alpha are learned
    from the target's rows; in Eq. 4 by leave-one-out, because an example must not match itself.

    Deviation: components that have the smallest weights, 1 % together, are left out. The representations
    enter Eq. 4 as they are, though encoders that were trained under a classifier have no scale of their own
    that suits a dot product; `scale` is there to see what that costs. On real intent tasks none of those that
    were tried (3 to 100) was better than to leave them alone.

    Parameters
    ----------
    encoder
        ``cnn`` as in the paper, ``sentence``, or an encoder.
    settings
        How single-task models are trained; None takes `TrainingSettings`'s default values.
    scale
        What the mean square length of each encoder's representations of the target's rows is brought to; None
        leaves them as they are.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        The seed.

    Attributes
    ----------
    source_models_
        The single-task models, by the names of their tasks.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["a", "b"] * 8, ["x", "y"] * 8) for name in ("one", "two"))
    >>> vectors = dict.fromkeys(tasks.names, np.tile(np.eye(2), (8, 1))) | {"new": np.eye(2)}
    >>> baseline = TaskMixtureBaseline(FeatureEncoder(vectors)).fit(tasks)
    >>> model = baseline.adapt(Task("new", ["a", "b"], ["yes", "no"]))
    >>> model.predict(np.eye(2)).tolist(), model.predictor.weights.round(2).tolist()
    (['yes', 'no'], [0.5, 0.5])
    """

    def __init__(
        self,
        encoder: str | Encoder = "cnn",
        *,
        settings: TrainingSettings | None = None,
        scale: float | None = None,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(encoder, vectors=vectors, model=model, device=device, random_state=random_state)
        self.settings = settings
        self.scale = scale

    def _learn_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise UsageError(
                "scale cannot be used", got=quote(self.scale), expected="a number above 0, or None"
            )
        settings = TrainingSettings() if self.settings is None else self.settings
        self.source_models_: dict[str, TrainedModel] = {}
        for task in tasks:
            self.source_models_[task.name] = train_single_task(
                task, prepared, settings=settings, seed=seed, head_c=HEAD_C, device=self.device
            )
            report(progress, "models", len(self.source_models_), len(tasks), "tasks", task.name)
        self._label_sets = {task.label_names for task in tasks}

    def _learn_task(
        self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64]
    ) -> ModelMixture | MatchingMixture:
        # By name, so that the order of the sources does not change a sum.
        models = [self.source_models_[name] for name in sorted(self.source_models_)]
        rows = np.arange(len(codes))
        if self._label_sets == {task.label_names}:
            direct = [model.probabilities(inputs)[rows, codes] for model in models]
            kept, weights = keep_largest(learn_mixture(np.stack(direct, axis=1)))
            return ModelMixture(tuple(models[place] for place in kept), weights)
        judged = scorable_rows(codes)
        n_labels = len(task.label_names)
        factors = np.ones(len(models), dtype=np.float32)
        supports, likelihoods = [], []
        for place, model in enumerate(models):
            support = model.layer.represent(inputs)
            square = float((support.astype(np.float64) ** 2).sum(axis=1).mean())
            if self.scale is not None and square > 0:
                factors[place] = np.sqrt(self.scale / square)
            support = np.asarray(support * factors[place], dtype=np.float32)
            table = leave_one_out_matching(support, codes, n_labels=n_labels)
            supports.append(support)
            likelihoods.append(table[rows, codes][judged])
        kept, weights = keep_largest(learn_mixture(np.stack(likelihoods, axis=1)))
        return MatchingMixture(
            tuple(models[place].layer for place in kept),
            factors[kept],
            tuple(supports[place] for place in kept),
            codes,
            n_labels,
            weights,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ModelMixture:
    """Models of the same labels, and the weight of each."""

    models: tuple[TrainedModel, ...]
    weights: Floats

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item (Eq. 3)."""
        tables = (model.probabilities(inputs) for model in self.models)
        return np.asarray(sum(weight * table for weight, table in zip(self.weights, tables, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class MatchingMixture:
    """Metrics, what their representations are multiplied with, the support set under each, and weights."""

    layers: tuple[Layer, ...]
    factors: NDArray[np.float32]
    supports: tuple[NDArray[np.float32], ...]
    codes: NDArray[np.int64]
    n_labels: int
    weights: Floats

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item (Eq. 3 and 4)."""
        total = np.zeros((len(inputs), self.n_labels))
        parts = zip(self.layers, self.factors, self.supports, self.weights, strict=True)
        for layer, factor, support, weight in parts:
            queries = np.asarray(layer.represent(inputs) * factor, dtype=np.float32)
            total += weight * match(queries, support, self.codes, n_labels=self.n_labels)
        return total


def keep_largest(weights: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Leave out the smallest weights, `LEFT_OUT` together; give the places of the others, and their shares.

    Examples
    --------
    >>> places, shares = keep_largest(np.array([0.004, 0.6, 0.006, 0.39]))
    >>> places.tolist(), shares.round(3).tolist()
    ([1, 3], [0.606, 0.394])
    """
    order = np.argsort(weights, kind="stable")
    n_left_out = int(np.searchsorted(np.cumsum(weights[order]), LEFT_OUT * (1 + 1e-9), side="right"))
    kept = np.sort(order[n_left_out:]).astype(np.int64)
    return kept, np.asarray(weights[kept] / weights[kept].sum())

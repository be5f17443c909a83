"""Holistic multi-task learning: one shared model of all tasks, without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.base import POSITIVE, Baseline, Predictor, SourceBaseline
from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, FrozenInputs, PreparedTasks
from robusttc.errors import UsageError, quote
from robusttc.models import Layer, TrainedModel, fit_softmax
from robusttc.multitask import PAPER, ClusterMultiTask, MultiTaskSettings, TrainingData, train_jointly
from robusttc.params import check_param
from robusttc.progress import Progress
from robusttc.random import numpy_generator


@dataclass(repr=False, eq=False)
class HolisticBaseline(Baseline):
    """Holistic MTL-CNN: one shared encoder of all tasks, and one classifier a task.

    The paper trains one MTL-CNN on all tasks, with early stopping on the mean validation accuracy. So it is
    `robusttc.ClusterMultiTask` with ``strategy="paper"`` and one cluster of all tasks. With `targets` it is
    the paper's "target only": the one model is trained on these tasks alone.

    Parameters
    ----------
    targets
        The names of the tasks to train on; None takes all.
    settings
        How to train; None takes the paper's settings.
    encoder, vectors, model, device, random_state
        See `robusttc.baselines.base.Baseline`; the paper's encoder is ``cnn``.

    Examples
    --------
    >>> import numpy as np
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["a", "b"] * 8, ["x", "y"] * 8) for name in ("one", "two", "three"))
    >>> encoder = FeatureEncoder(dict.fromkeys(tasks.names, np.tile(np.eye(2), (8, 1))))
    >>> holistic = HolisticBaseline(encoder, targets=["two", "one"]).fit(tasks)
    >>> holistic.predict("one", np.eye(2)).tolist(), holistic.task_names_
    (['x', 'y'], ('two', 'one'))
    """

    encoder: str | Encoder = "cnn"
    _: KW_ONLY
    targets: Sequence[str] | None = None
    settings: MultiTaskSettings | None = None
    estimator_: ClusterMultiTask = field(init=False)

    def fit(self, tasks: TaskSet, *, progress: Progress | None = None) -> Self:
        """Train the one model; a task that may not be shared gets a model of its own."""
        if isinstance(self.targets, str):
            raise UsageError(
                "targets is a single string", got=quote(self.targets), expected="a list of names"
            )
        estimator = ClusterMultiTask(
            self.encoder,
            strategy="paper",
            settings=self.settings,
            vectors=self.vectors,
            model=self.model,
            device=self.device,
            random_state=self.random_state,
        )
        chosen = tasks if self.targets is None else tasks.subset(self.targets)
        self.estimator_ = estimator.fit(chosen, progress=progress)
        return self

    @property
    def task_names_(self) -> tuple[str, ...]:
        """The tasks that it can predict for."""
        return self._fitted().task_names_

    def label_names(self, task_name: str) -> tuple[str, ...]:
        """Return the labels of a task, in the order of the columns of `predict_proba`."""
        return self._fitted().label_names(task_name)

    def predict_proba(self, task_name: str, texts: Any) -> NDArray[np.float64]:
        """Return the probability of every label of the task for every text."""
        return self._fitted().predict_proba(task_name, texts)

    def predict(self, task_name: str, texts: Any) -> NDArray[np.object_]:
        """Return the most probable label of the task for every text."""
        return self._fitted().predict(task_name, texts)

    def _fitted(self) -> ClusterMultiTask:
        self._require_fitted("estimator_")
        return self.estimator_


@dataclass(repr=False, eq=False)
class FineTunedHolisticBaseline(SourceBaseline):
    """Holistic MTL on the source tasks; for a target, only a classifier layer is learned on top.

    The paper trains one MTL-CNN on all source tasks, and fine-tunes the classifier layer on the few rows of a
    target; the encoder stays. Deviation: the classifier is fitted to convergence, with a penalty and with
    labels that count alike, in place of some steps of gradient descent, whose number would have to be chosen.

    Parameters
    ----------
    settings
        How the holistic model is trained; None takes the paper's settings.
    C
        The inverse strength of the classifier's penalty.
    encoder, vectors, model, device, random_state
        See `robusttc.baselines.base.Baseline`; the paper's encoder is ``cnn``.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["a", "b"] * 8, ["x", "y"] * 8) for name in ("one", "two"))
    >>> vectors = dict.fromkeys(tasks.names, np.tile(np.eye(2), (8, 1))) | {"new": np.eye(2)}
    >>> baseline = FineTunedHolisticBaseline(FeatureEncoder(vectors)).fit(tasks)
    >>> model = baseline.adapt(Task("new", ["a", "b"], ["yes", "no"]))
    >>> model.predict(np.eye(2)).tolist()
    ['yes', 'no']
    """

    _: KW_ONLY
    settings: MultiTaskSettings | None = None
    C: float = 30.0
    layer_: Layer = field(init=False)

    def _fit_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        check_param("C", self.C, POSITIVE)
        del progress
        names = sorted(tasks.names)
        data = TrainingData(tasks, prepared, {}, None)
        self.layer_ = train_jointly(
            prepared.inputs,
            [data.rows(name, tasks[name].rows("train"), valid=True) for name in names],
            settings=self.settings or PAPER,
            # The draws of a cluster of all sources in `ClusterMultiTask(strategy="paper")`.
            generator=numpy_generator(seed, "cluster, copy 0", names),
            stop_early=True,
        ).layer

    def _fit_task(self, inputs: FrozenInputs, codes: NDArray[np.int64], task: Task) -> Predictor:
        representation = self.layer_.represent(inputs).astype(np.float64)
        fitted = fit_softmax(representation, codes, n_labels=len(task.label_names), C=self.C, balanced=True)
        weight, bias = fitted.weight.astype(np.float32), fitted.bias.astype(np.float32)
        return TrainedModel(self.layer_, weight, bias).probabilities

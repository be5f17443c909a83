"""Fine-tuned holistic multi-task learning: the shared encoder of the sources, a new classifier a target."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.source_encoder import SourceBaseline
from robusttc.baselines.task_model import Floats, normalise_shares
from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, FrozenInputs, PreparedTasks
from robusttc.models import Layer, fit_softmax, multiply_rows
from robusttc.multitask import MultiTaskSettings, TrainingData, paper_settings, train_jointly
from robusttc.progress import Progress
from robusttc.random import RandomState, numpy_generator

__all__ = ["FineTunedHolisticBaseline"]

Layers = tuple[Layer, ...]


class FineTunedHolisticBaseline(SourceBaseline):
    """Holistic MTL on the source tasks; for a target, only a classifier layer is learned on top.

    The paper trains one MTL-CNN on all source tasks, and fine-tunes the classifier layer on the few rows of a
    target; the encoder stays. Deviation: the classifier is fitted to convergence, with a penalty and with
    labels that count alike, in place of some steps of gradient descent, whose number would have to be chosen.

    Parameters
    ----------
    encoder
        ``cnn`` as in the paper, ``sentence``, or an encoder.
    settings
        How the holistic model is trained; None takes the paper's settings.
    C
        The inverse strength of the classifier's penalty.
    vectors, model, device
        See `robusttc.encoders.make_encoder`.
    random_state
        The seed.

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

    def __init__(
        self,
        encoder: str | Encoder = "cnn",
        *,
        settings: MultiTaskSettings | None = None,
        C: float = 30.0,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(encoder, vectors=vectors, model=model, device=device, random_state=random_state)
        self.settings = settings
        self.C = C

    def _learn_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        del progress
        names = sorted(tasks.names)
        data = TrainingData(tasks, prepared, {}, None)
        shared = train_jointly(
            prepared.inputs,
            [data.rows(name, tasks[name].rows("train"), valid=True) for name in names],
            settings=paper_settings(prepared.inputs) if self.settings is None else self.settings,
            generator=numpy_generator(seed, "cluster, copy 0", names),
            stop_early=True,
        )
        self.layers_: Layers = (shared.layer,)

    def _learn_task(self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64]) -> LayeredPredictor:
        weights, biases = [], []
        for layer in self.layers_:
            representation = layer.represent(inputs).astype(np.float64)
            fitted = fit_softmax(
                representation, codes, n_labels=len(task.label_names), C=self.C, balanced=True
            )
            weights.append(fitted.weight.astype(np.float32))
            biases.append(fitted.bias.astype(np.float32))
        return LayeredPredictor(self.layers_, tuple(weights), tuple(biases))


@dataclass(frozen=True, slots=True, eq=False)
class LayeredPredictor:
    """Shared layers, one a copy of the holistic model, with a classifier each; their mean predicts."""

    layers: Layers
    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item."""
        tables = [
            normalise_shares(multiply_rows(layer.represent(inputs), weight) + bias)
            for layer, weight, bias in zip(self.layers, self.weights, self.biases, strict=True)
        ]
        return np.asarray(sum(tables[1:], start=tables[0]) / len(tables))

"""The single-task model of the paper: a convolution, or a layer on sentence vectors, for every task alone."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.own_task import OwnTaskBaseline
from robusttc.data import Task
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.model import TrainedModel
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.single_task import HEAD_C, train_single_task
from robusttc.errors import UsageError, quote
from robusttc.random import RandomState

__all__ = ["SingleTaskBaseline"]


class SingleTaskBaseline(OwnTaskBaseline):
    """Single-task CNN (encoder ``cnn``), or a single-task layer on sentence vectors (``sentence``).

    The paper trains a convolution of window 5 and 200 filters for every task on its own, from GloVe vectors,
    with early stopping. Deviation: there is no early stopping, and a second classifier is fitted to
    convergence on the trained representation; on small tasks both are clearly better, and a weak baseline
    would make every gain an illusion (see `robusttc.encoders.single_task`; ``head_c=None`` leaves the second
    classifier out).

    Parameters
    ----------
    encoder
        ``cnn``, ``sentence``, or an encoder.
    settings
        How to train; None takes `TrainingSettings`'s default values. `robusttc.encoders.tuning.tune` chooses
        them on validation rows.
    head_c
        The inverse strength of the penalty of the second classifier; None leaves it out.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        The seed. The model of a task depends on it and the task's own rows.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> encoder = FeatureEncoder({"acme": np.eye(2)})
    >>> model = SingleTaskBaseline(encoder, settings=TrainingSettings(width=8)).adapt(task)
    >>> model.predict(np.eye(2, dtype=np.float32)).tolist()
    ['greet', 'leave']
    """

    def __init__(
        self,
        encoder: str | Encoder = "cnn",
        *,
        settings: TrainingSettings | None = None,
        head_c: float | None = HEAD_C,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(
            encoder, few_shot=False, vectors=vectors, model=model, device=device, random_state=random_state
        )
        self.settings = settings
        self.head_c = head_c

    def _values(self) -> tuple[Any, ...]:
        if self.settings is not None and not isinstance(self.settings, TrainingSettings):
            raise UsageError("this is no setting", got=quote(self.settings), expected="TrainingSettings")
        return (TrainingSettings() if self.settings is None else self.settings,)

    def _learn(
        self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64], value: Any, seed: int
    ) -> TrainedModel:
        del codes  # those of the same rows, which the training takes from the task itself
        rows = task.rows("train")
        items = np.full(len(task), -1, dtype=np.int64)
        items[rows] = np.arange(len(rows))
        return train_single_task(
            task,
            PreparedTasks(inputs, {task.name: items}),
            settings=value,
            seed=seed,
            head_c=self.head_c,
            device=self.device,
        )

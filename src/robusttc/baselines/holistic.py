"""Holistic multi-task learning: one shared encoder for all tasks, without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Self

from robusttc.baselines.own_task import TaskBaseline
from robusttc.baselines.served import serve_tasks
from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.errors import UsageError, quote
from robusttc.multitask import ClusterMultiTask, MultiTaskSettings
from robusttc.progress import Progress
from robusttc.random import RandomState

__all__ = ["HolisticBaseline"]


class HolisticBaseline(TaskBaseline):
    """Holistic MTL-CNN: one shared encoder of all tasks, and one classifier a task.

    The paper trains one MTL-CNN on all tasks, with early stopping on the mean validation accuracy. So it is
    `robusttc.multitask.ClusterMultiTask` with ``strategy="paper"`` and one cluster of all tasks.
    With `targets` it is the paper's "target only": the one model is trained on these tasks alone.

    Parameters
    ----------
    encoder
        ``cnn`` as in the paper, ``sentence``, or an encoder.
    targets
        The names of the tasks to train on; None takes all.
    settings
        How to train; None takes the paper's settings.
    vectors, model, device
        See `robusttc.encoders.make_encoder`.
    random_state
        The seed.

    Attributes
    ----------
    estimator_
        The estimator behind.

    Examples
    --------
    >>> import numpy as np
    >>> from robusttc.data import Task
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["a", "b"] * 8, ["x", "y"] * 8) for name in ("one", "two", "three"))
    >>> encoder = FeatureEncoder(dict.fromkeys(tasks.names, np.tile(np.eye(2), (8, 1))))
    >>> holistic = HolisticBaseline(encoder, targets=["two", "one"]).fit(tasks)
    >>> holistic.predict("one", np.eye(2)).tolist(), holistic.task_names_
    (['x', 'y'], ('two', 'one'))
    """

    estimator_: ClusterMultiTask

    def __init__(
        self,
        encoder: str | Encoder = "cnn",
        *,
        targets: Sequence[str] | None = None,
        settings: MultiTaskSettings | None = None,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.encoder = encoder
        self.targets = targets
        self.settings = settings
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    def fit(
        self, tasks: TaskSet, labels: Sequence[int] | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Train the one model.

        Parameters
        ----------
        tasks
            The tasks; one that may not be shared gets a model of its own.
        labels
            Clusters; they have no effect.
        progress
            Is told how far it is.

        Raises
        ------
        UsageError
            If a parameter cannot be used.
        UnknownTaskError
            If a target is not one of the tasks.
        DataError
            If a task has fewer than two labels in ``train``.
        """
        del labels
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
        self.models_ = serve_tasks(self.estimator_)
        return self

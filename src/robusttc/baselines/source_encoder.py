"""What few-shot baselines have in common that learn an encoder, or several, from source tasks."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.baselines.task_model import Predictor, TaskModel, training_part
from robusttc.data import Task, TaskSet
from robusttc.encoders.choosing import make_encoder
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.reading import Reader, WordReader, reader_of
from robusttc.errors import DataError, UsageError
from robusttc.progress import Progress
from robusttc.random import RandomState, run_seed

__all__ = ["SourceBaseline"]


class SourceBaseline(ABC):
    """``fit(tasks)`` learns from source tasks, ``adapt(task)`` from the few rows of a new one.

    Words of a new task that no source has are unknown words. Tasks that may not be shared are no sources.

    Attributes
    ----------
    source_names_
        The tasks that were learned from.
    """

    source_names_: tuple[str, ...]

    def __init__(
        self,
        encoder: str | Encoder,
        *,
        vectors: str | PathLike[str] | None,
        model: str | PathLike[str] | None,
        device: str,
        random_state: RandomState,
    ) -> None:
        self.encoder = encoder
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    @abstractmethod
    def _learn_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        """Learn from the source tasks."""

    @abstractmethod
    def _learn_task(self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64]) -> Predictor:
        """Learn a new task from its training rows."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters by their names, as they were given."""
        del deep  # scikit-learn's signature; no parameter has parameters of its own
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def fit(
        self, tasks: TaskSet, labels: Sequence[int] | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Learn from the source tasks.

        Parameters
        ----------
        tasks
            The source tasks.
        labels
            Clusters; they have no effect.
        progress
            Is told how far it is.

        Raises
        ------
        DataError
            If no task may be shared, or one has fewer than two labels in ``train``.
        UsageError
            If a parameter cannot be used.
        """
        del labels
        sources = tasks.shareable()
        if len(sources) == 0:
            raise DataError("there is no source task that may be shared", expected="at least one")
        encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
        with threadpool_limits(limits=1):
            prepared = encoder.prepare(sources, splits=("train", "valid"), progress=progress)
            for task in sources:
                training_part(task, prepared)  # refuses a task that cannot be learned, before hours of work
            self._learn_sources(sources, prepared, run_seed(self.random_state), progress)
        self._ready: tuple[Encoder, Reader] = encoder, reader_of(encoder, prepared)
        self.source_names_ = sources.names
        return self

    def adapt(self, task: Task) -> TaskModel:
        """Learn a new task from its rows in ``train``.

        Raises
        ------
        UsageError
            If `fit` was not called.
        DataError
            If the task has fewer than two labels in ``train``.
        """
        if not hasattr(self, "_ready"):
            raise UsageError(f"this {type(self).__name__} is not fitted", todo="call fit(source_tasks) first")
        encoder, reader = self._ready
        alone = TaskSet([task])
        if isinstance(reader, WordReader):
            rows = task.rows("train")
            items = np.full(len(task), -1, dtype=np.int64)
            items[rows] = np.arange(len(rows))
            prepared = PreparedTasks(reader.read(list(task.texts_at(rows))), {task.name: items})
        else:
            prepared = encoder.prepare(alone, splits=("train",))
        inputs, codes = training_part(task, prepared)
        with threadpool_limits(limits=1):
            return TaskModel(task.label_names, reader, self._learn_task(task, inputs, codes))

"""What all baselines have in common that learn every task from its own rows alone.

They serve in both manners. Multi-task: ``fit(tasks)``, then ``predict(task_name, texts)``. Few-shot:
``adapt(task)``, which needs no source tasks; where a method has a number to choose (a penalty, a count of
neighbours), `fit` on source tasks chooses it, and `adapt` takes it from there. With ``few_shot`` that is all
that `fit` does: the sources themselves are not learned.

Such a number is chosen once for all tasks, by the mean over tasks of the accuracy on their validation rows:
chosen for every task by its own few rows it would be chosen by chance.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.baselines.task_model import Floats, Predictor, TaskModel, training_part
from robusttc.data import Task, TaskSet
from robusttc.encoders.choosing import make_encoder
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.reading import reader_of
from robusttc.errors import UnknownTaskError, UsageError, quote
from robusttc.progress import Progress, report
from robusttc.random import RandomState, run_seed

__all__ = ["AUTO", "OwnTaskBaseline", "TaskBaseline", "check_values", "prepare_tasks"]

AUTO = "auto"


class TaskBaseline(ABC):
    """Predicting by the name of a task, from the `models_` that `fit` has made."""

    models_: dict[str, TaskModel]

    @abstractmethod
    def fit(
        self, tasks: TaskSet, labels: Sequence[int] | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Learn the tasks."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters by their names, as they were given."""
        del deep  # scikit-learn's signature; no parameter has parameters of its own
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @property
    def task_names_(self) -> tuple[str, ...]:
        """The tasks that can be predicted for."""
        return tuple(self._fitted_models())

    def _fitted_models(self) -> dict[str, TaskModel]:
        if not hasattr(self, "models_"):
            raise UsageError(f"this {type(self).__name__} is not fitted", todo="call fit(tasks) first")
        return self.models_

    def model_of(self, task_name: str) -> TaskModel:
        """Give the model of a task.

        Raises
        ------
        UnknownTaskError
            If no task of this name was learned.
        """
        models = self._fitted_models()
        if not isinstance(task_name, str) or task_name not in models:
            raise UnknownTaskError(task_name, tuple(models))
        return models[task_name]

    def label_names(self, task_name: str) -> tuple[str, ...]:
        """Give the labels of a task, in the order of the columns of `predict_proba`."""
        return self.model_of(task_name).label_names

    def predict_proba(self, task_name: str, texts: Sequence[str] | NDArray[Any]) -> Floats:
        """Give the probability of every label of the task for every text."""
        return self.model_of(task_name).predict_proba(texts)

    def predict(self, task_name: str, texts: Sequence[str] | NDArray[Any]) -> NDArray[np.object_]:
        """Give the most probable label of the task for every text."""
        return self.model_of(task_name).predict(texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"


class OwnTaskBaseline(TaskBaseline):
    """Learning every task from its own rows; see the module.

    Attributes
    ----------
    value_
        The number that was chosen, or given; None for methods that have none.
    tuning_
        The mean accuracy on validation rows of every value that was tried; empty where none was.
    """

    value_: Any
    tuning_: dict[Any, float]

    def __init__(
        self,
        encoder: str | Encoder,
        *,
        few_shot: bool,
        vectors: str | PathLike[str] | None,
        model: str | PathLike[str] | None,
        device: str,
        random_state: RandomState,
    ) -> None:
        self.encoder = encoder
        self.few_shot = few_shot
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state
        self._made: Encoder | None = None
        self._seed: int | None = None

    @abstractmethod
    def _values(self) -> tuple[Any, ...]:
        """Give the values to choose from, the preferred one first; a single one is taken as it is."""

    @abstractmethod
    def _learn(
        self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64], value: Any, seed: int
    ) -> Predictor:
        """Learn a task from these rows of it."""

    def fit(
        self, tasks: TaskSet, labels: Sequence[int] | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Choose the value that is to be chosen, and learn every task; with `few_shot`, choose only.

        Parameters
        ----------
        tasks
            The tasks. One that may not be shared has no part in the choice.
        labels
            Clusters; they have no effect.
        progress
            Is told after every model.

        Raises
        ------
        DataError
            If a task has fewer than two labels in ``train``.
        UsageError
            If a parameter cannot be used.
        """
        del labels
        values = self._values()
        self._seed = run_seed(self.random_state)
        encoder = self._make_encoder()
        shared = tasks.shareable()
        groups = [shared] if len(shared) else []
        groups += [TaskSet([task]) for task in tasks if not task.may_share]
        self.value_, self.tuning_ = values[0], {}
        models: dict[str, TaskModel] = {}
        with threadpool_limits(limits=1):
            for group in groups:
                prepared = prepare_tasks(encoder, group, progress=progress)
                reader = reader_of(encoder, prepared)
                if group is shared and len(values) > 1:
                    self._choose(group, prepared, values, progress)
                for task in () if self.few_shot else group:
                    models[task.name] = TaskModel(task.label_names, reader, self._learn_own(task, prepared))
                    report(progress, "models", len(models), len(tasks), "tasks", task.name)
        self.models_ = {name: models[name] for name in tasks.names if name in models}
        return self

    def adapt(self, task: Task) -> TaskModel:
        """Learn one more task; `fit` need not have been called.

        Raises
        ------
        DataError
            If it has fewer than two labels in ``train``.
        UsageError
            If a parameter cannot be used.
        """
        encoder = self._make_encoder()
        prepared = prepare_tasks(encoder, TaskSet([task]))
        with threadpool_limits(limits=1):
            predictor = self._learn_own(task, prepared)
        return TaskModel(task.label_names, reader_of(encoder, prepared), predictor)

    def _make_encoder(self) -> Encoder:
        # Kept: a sentence model takes seconds to load, and few-shot tasks come one by one.
        if self._made is None:
            self._made = make_encoder(
                self.encoder, vectors=self.vectors, model=self.model, device=self.device
            )
        return self._made

    def _learn_own(self, task: Task, prepared: PreparedTasks) -> Predictor:
        inputs, codes = training_part(task, prepared)
        seed = run_seed(self.random_state) if self._seed is None else self._seed
        value = self.value_ if hasattr(self, "value_") else self._values()[0]
        return self._learn(task, inputs, codes, value, seed)

    def _choose(
        self, tasks: TaskSet, prepared: PreparedTasks, values: Sequence[Any], progress: Progress | None
    ) -> None:
        """Set `value_` to that of the highest mean accuracy; of equal ones the first."""
        seed = 0 if self._seed is None else self._seed
        accuracies: list[list[float]] = []
        # By name: the means of equal tasks are then equal to the last bit, in whatever order they come.
        ordered = sorted(tasks, key=lambda task: task.name)
        usable = [task for task in ordered if len(task.rows("valid")) and has_two_labels(task)]
        for number, task in enumerate(usable, start=1):
            rows, judged = self._tuning_rows(task, seed), task.rows("valid")
            own = task.label_codes[rows].astype(np.int64)
            inputs = prepared.inputs_of(task.name, rows)
            queries, codes = prepared.inputs_of(task.name, judged), task.label_codes[judged]
            predictors = (self._learn(task, inputs, own, value, seed) for value in values)
            accuracies.append(
                [float((p.probabilities(queries).argmax(axis=1) == codes).mean()) for p in predictors]
            )
            report(progress, "choosing", number, len(usable), "tasks", task.name)
        if accuracies:
            means = np.mean(accuracies, axis=0)
            self.tuning_ = dict(zip(values, means.tolist(), strict=True))
            self.value_ = values[int(means.argmax())]

    def _tuning_rows(self, task: Task, seed: int) -> NDArray[np.intp]:
        if not self.few_shot:
            return task.rows("train")
        from robusttc.fewshot.protocol import few_shot_rows

        return np.asarray(few_shot_rows(task, random_state=seed), dtype=np.intp)


def prepare_tasks(encoder: Encoder, tasks: TaskSet, *, progress: Progress | None = None) -> PreparedTasks:
    """Compute the frozen part of what is learned from.

    Of words all rows are taken: fixed word vectors are there for every word of a language, and a vocabulary
    of the training rows alone would hide them from the rows to predict. Nothing else of these rows is used.
    """
    splits = None if encoder.name == "cnn" else ("train", "valid")
    return encoder.prepare(tasks, splits=splits, progress=progress)


def has_two_labels(task: Task) -> bool:
    """Tell whether the training rows of a task have at least two labels."""
    return len(np.unique(task.label_codes[task.rows("train")])) > 1


def check_values(
    name: str, value: object, *, default: tuple[Any, ...], whole: bool = False
) -> tuple[Any, ...]:
    """Give the values to choose from: the default ones, if any, for ``auto``, else the one that was given.

    Raises
    ------
    UsageError
        If it is neither ``auto`` nor a finite number above 0 (a whole one, if asked).
    """
    if default and isinstance(value, str) and value == AUTO:
        return default
    allowed = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if not isinstance(value, allowed) or isinstance(value, bool) or not (np.isfinite(value) and value > 0):
        expected = f"'{AUTO}', or " if default else ""
        expected += "an integer from 1 up" if whole else "a number above 0"
        raise UsageError(f"{name} cannot be used", got=quote(value), expected=expected)
    return (int(value) if whole else float(value),)

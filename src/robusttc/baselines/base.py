"""What the baselines share: an encoder, models of single tasks, and two ways to be used.

A `TaskBaseline` is fitted to tasks and predicts for them by name (multi-task learning). A `SourceBaseline` is
fitted to source tasks and then adapts to new ones (few-shot learning).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders import (
    DEFAULT_ENCODER,
    DenseInputs,
    Encoder,
    FrozenInputs,
    PreparedTasks,
    WordEncoder,
    make_encoder,
)
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.models import multiply_rows, training_rows
from robusttc.params import Number
from robusttc.progress import Progress
from robusttc.random import RandomState, run_seed

Floats = NDArray[np.float64]
# From the inputs of items to the probability of every label; an item's depend on the item alone.
Predictor = Callable[[FrozenInputs], NDArray[Any]]
FilePath = str | PathLike[str] | None

AUTO = "auto"
POSITIVE = Number(0, excludes=("low",))


@dataclass(frozen=True, slots=True, eq=False)
class TaskModel:
    """The fitted model of one task."""

    label_names: tuple[str, ...]  # in the order of the columns of `predict_proba`
    reader: Encoder  # of texts to predict
    predictor: Predictor  # from what the encoder returns to probabilities

    def predict_proba(self, texts: Any) -> Floats:
        """Return the probability of every label for every text."""
        shares = np.asarray(self.predictor(self.reader.read(texts)), dtype=np.float64)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict(self, texts: Any) -> NDArray[np.object_]:
        """Return the most probable label of every text; of equal ones the first."""
        names = np.array(self.label_names, dtype=object)
        return np.asarray(names[self.predict_proba(texts).argmax(axis=1)])


@dataclass(repr=False, eq=False)
class Baseline(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all baselines, each an estimator in the sense of scikit-learn.

    Its parameters are the fields of a dataclass, which writes the constructor. A parameter that is changed
    after `fit` takes effect at the next `fit`.

    Parameters
    ----------
    encoder, vectors, model, device
        See `robusttc.encoders.make_encoder`.
    random_state
        The seed.
    """

    encoder: str | Encoder = DEFAULT_ENCODER
    _: KW_ONLY
    vectors: FilePath = None
    model: FilePath = None
    device: str = "cpu"
    random_state: RandomState = 0

    def _load_encoder(self) -> Encoder:
        """Return the encoder of the parameters, the same one until they change: loading takes seconds."""
        asked = (self.encoder, self.vectors, self.model, self.device)
        if getattr(self, "_loaded", (None,))[0] != asked:
            encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
            self._loaded = asked, encoder
        return self._loaded[1]

    def _require_fitted(self, attribute: str) -> None:
        if not hasattr(self, attribute):
            raise UsageError(f"this {type(self).__name__} is not fitted", todo="call fit(tasks) first")


@dataclass(repr=False, eq=False)
class TaskBaseline(Baseline):
    """A baseline that predicts by the name of a task, from the `models_` that `fit` made."""

    models_: dict[str, TaskModel] = field(init=False)

    @property
    def task_names_(self) -> tuple[str, ...]:
        """The tasks that it can predict for."""
        self._require_fitted("models_")
        return tuple(self.models_)

    def model_of(self, task_name: str) -> TaskModel:
        """Return the model of a task that it was fitted to."""
        self._require_fitted("models_")
        if not isinstance(task_name, str) or task_name not in self.models_:
            raise UnknownTaskError(task_name, tuple(self.models_))
        return self.models_[task_name]

    def label_names(self, task_name: str) -> tuple[str, ...]:
        """Return the labels of a task, in the order of the columns of `predict_proba`."""
        return self.model_of(task_name).label_names

    def predict_proba(self, task_name: str, texts: Any) -> Floats:
        """Return the probability of every label of the task for every text."""
        return self.model_of(task_name).predict_proba(texts)

    def predict(self, task_name: str, texts: Any) -> NDArray[np.object_]:
        """Return the most probable label of the task for every text."""
        return self.model_of(task_name).predict(texts)


@dataclass(repr=False, eq=False)
class SourceBaseline(Baseline):
    """A baseline that is fitted to source tasks (`fit`), and then to a few rows of a new task (`adapt`).

    Words of a new task that no source has are unknown words. Tasks that may not be shared are no sources.
    """

    encoder: str | Encoder = "cnn"
    source_names_: tuple[str, ...] = field(init=False)
    _encoder: Encoder = field(init=False)
    _reader: Encoder = field(init=False)

    @abstractmethod
    def _fit_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        """Learn from the source tasks."""

    @abstractmethod
    def _fit_task(self, inputs: FrozenInputs, codes: NDArray[np.int64], task: Task) -> Predictor:
        """Return the predictor of a new task, from its training rows."""

    def fit(self, tasks: TaskSet, *, progress: Progress | None = None) -> Self:
        """Learn from the source tasks that may be shared."""
        sources = tasks.shareable()
        if len(sources) == 0:
            raise DataError("there is no source task that may be shared", expected="at least one")
        for task in sources:
            training_rows(task)  # raises before hours of work
        encoder = self._load_encoder()
        with threadpool_limits(limits=1):
            prepared = encoder.prepare(sources, splits=("train", "valid"), progress=progress)
            self._fit_sources(sources, prepared, run_seed(self.random_state), progress)
        self._encoder, self._reader = encoder, encoder.for_new_texts(prepared)
        self.source_names_ = sources.names
        return self

    def adapt(self, task: Task) -> TaskModel:
        """Return the model of a new task, fitted to its rows in ``train``."""
        self._require_fitted("source_names_")
        rows = training_rows(task)
        # The numbers of words are those of the sources.
        encoder = self._reader if isinstance(self._reader, WordEncoder) else self._encoder
        with threadpool_limits(limits=1):
            inputs = encoder.prepare(TaskSet([task]), splits=("train",)).inputs_of(task.name, rows)
            predictor = self._fit_task(inputs, codes_of(task, rows), task)
        return TaskModel(task.label_names, self._reader, predictor)


def prepare_tasks(encoder: Encoder, tasks: TaskSet, *, progress: Progress | None = None) -> PreparedTasks:
    """Encode the rows that a baseline learns from.

    Of words all rows are taken: fixed word vectors are there for every word of a language, and a vocabulary
    of the training rows alone would hide them from the rows to predict. Nothing else of these rows is used.
    """
    splits = None if encoder.name == "cnn" else ("train", "valid")
    return encoder.prepare(tasks, splits=splits, progress=progress)


def codes_of(task: Task, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the labels of some rows as numbers."""
    return task.label_codes[rows].astype(np.int64)


def vectors_of(inputs: FrozenInputs) -> NDArray[np.float32]:
    """Return the vectors of the items; raise a UsageError if the items are words."""
    if not isinstance(inputs, DenseInputs):
        raise UsageError(
            "this baseline needs one vector a text",
            got="words (encoder 'cnn')",
            todo="take encoder='sentence', or a FeatureEncoder",
        )
    return inputs.matrix


def linear_predictor(weight: NDArray[Any], bias: NDArray[Any]) -> Predictor:
    """Return the softmax classifier on vectors with these weights, shapes (d, labels) and (labels,)."""
    return partial(classify, weight.astype(np.float32), bias.astype(np.float32))


def classify(weight: NDArray[np.float32], bias: NDArray[np.float32], inputs: FrozenInputs) -> Floats:
    """Return the probabilities of a linear softmax classifier."""
    logits = multiply_rows(vectors_of(inputs), weight) + bias
    return np.asarray(softmax(logits.astype(np.float64), axis=1))

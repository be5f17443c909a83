"""The models that a prediction is made of: a task's own, that of all tasks, that of its cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.errors import UsageError
from robusttc.models import (
    HEAD_C,
    ConvolutionLayer,
    TrainedModel,
    TrainingSettings,
    add_converged_head,
    fit_softmax,
    layer_from_parameters,
    multiply_rows,
    train_model,
)
from robusttc.multitask.joint import TaskPart, train_jointly
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.shared_model import SharedModel, softmax
from robusttc.progress import Progress
from robusttc.random import numpy_generator

__all__ = [
    "COMPONENTS",
    "LinearModel",
    "OwnModel",
    "Shared",
    "blank_own",
    "fit_own",
    "own_from_description",
    "train_copies",
]

Floats = NDArray[np.float32]
Probabilities = NDArray[np.float64]

# In the order in which they are averaged.
COMPONENTS = ("own", "shared", "cluster")


@runtime_checkable
class OwnModel(Protocol):
    """A task's own model."""

    def probabilities(self, inputs: FrozenInputs) -> NDArray[np.floating]:
        """Give the probability of every label for every item; an item's depend on the item alone."""


class LinearModel:
    """Softmax regression on the frozen vectors themselves.

    Examples
    --------
    >>> model = LinearModel(np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32))
    >>> model.probabilities(DenseInputs(np.eye(2, dtype=np.float32))).round(2).tolist()
    [[0.73, 0.27], [0.27, 0.73]]
    """

    def __init__(self, weight: Floats, bias: Floats) -> None:
        self.weight = np.ascontiguousarray(weight, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)

    def probabilities(self, inputs: FrozenInputs) -> Probabilities:
        """Give the probability of every label for every item."""
        if not isinstance(inputs, DenseInputs) or inputs.dimension != len(self.weight):
            raise UsageError(
                "the inputs do not fit the model",
                got=repr(inputs),
                expected=f"vectors of {len(self.weight)} numbers",
            )
        return softmax(multiply_rows(inputs.matrix, self.weight) + self.bias)


def fit_own(
    inputs: FrozenInputs, part: TaskPart, *, settings: MultiTaskSettings, seed: int, stage: str
) -> OwnModel:
    """Fit the model of one task alone, on its training rows.

    On vectors it is class-balanced softmax regression, converged; on words a convolution of its own (see
    `robusttc.models.training`). Nothing but these rows has an influence.

    Examples
    --------
    >>> inputs = DenseInputs(np.eye(2, dtype=np.float32))
    >>> part = TaskPart("a", 2, np.array([0, 1]), np.array([1, 0]))
    >>> model = fit_own(inputs, part, settings=MultiTaskSettings(), seed=0, stage="own")
    >>> model.probabilities(inputs).argmax(axis=1).tolist()
    [1, 0]
    """
    own = inputs.take(part.items)
    if isinstance(own, DenseInputs):
        fitted = fit_softmax(own.matrix, part.codes, n_labels=part.n_labels, C=settings.own_c, balanced=True)
        return LinearModel(fitted.weight.astype(np.float32), fitted.bias.astype(np.float32))
    model = train_model(
        own,
        part.codes,
        n_labels=part.n_labels,
        settings=own_training(settings),
        generator=numpy_generator(seed, stage, [part.name]),
    )
    return add_converged_head(model, own, part.codes, HEAD_C, True)


def blank_own(inputs: FrozenInputs, n_labels: int) -> OwnModel:
    """Give an own model that has no opinion: all labels are equally probable.

    Examples
    --------
    >>> inputs = DenseInputs(np.eye(2, dtype=np.float32))
    >>> blank_own(inputs, 4).probabilities(inputs).tolist()
    [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """
    bias = np.zeros(n_labels, dtype=np.float32)
    if isinstance(inputs, DenseInputs):
        return LinearModel(np.zeros((inputs.dimension, n_labels), dtype=np.float32), bias)
    filters = np.zeros((1, 1, inputs.dimension), dtype=np.float32)
    layer = ConvolutionLayer(filters, np.zeros(1, dtype=np.float32))
    return TrainedModel(layer, np.zeros((1, n_labels), dtype=np.float32), bias)


def own_training(settings: MultiTaskSettings) -> TrainingSettings:
    """Give how a convolution of one task alone is trained: as well as it can be, with frozen vectors."""
    return TrainingSettings(width=settings.width, window=settings.window)


def describe_own(model: OwnModel) -> dict[str, Floats]:
    """Give the arrays of a task's own model."""
    if isinstance(model, LinearModel):
        return {"weight": model.weight, "bias": model.bias}
    assert isinstance(model, TrainedModel)  # noqa: S101 - fit_own makes these two
    arrays = {f"layer.{name}": array for name, array in model.layer.parameters().items()}
    return {**arrays, "weight": model.head_weight, "bias": model.head_bias}


def own_from_description(arrays: Mapping[str, NDArray[Any]]) -> OwnModel:
    """Make a task's own model again from its arrays."""
    parameters = {
        name.removeprefix("layer."): array for name, array in arrays.items() if name.startswith("layer.")
    }
    if not parameters:
        return LinearModel(arrays["weight"], arrays["bias"])
    layer = layer_from_parameters(parameters, settings=TrainingSettings())
    return TrainedModel(layer, arrays["weight"], arrays["bias"])


class Shared:
    """Several copies of a shared model, trained from different draws, whose probabilities are averaged.

    Parameters
    ----------
    copies
        The models; all know the same tasks.
    """

    def __init__(self, copies: Sequence[SharedModel]) -> None:
        self.copies = tuple(copies)

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks that it knows."""
        return self.copies[0].names

    def probabilities(self, name: str, inputs: FrozenInputs) -> Probabilities:
        """Give the probability of every label of a task for every item."""
        total = self.copies[0].probabilities(name, inputs)
        for copy in self.copies[1:]:
            total = total + copy.probabilities(name, inputs)
        return total / len(self.copies)


def train_copies(
    inputs: FrozenInputs,
    parts: Iterable[TaskPart],
    *,
    settings: MultiTaskSettings,
    seed: int,
    stage: str,
    start: Shared | None = None,
    stop_early: bool = False,
    progress: Progress | None = None,
    title: str = "shared model",
) -> Shared:
    """Train the copies of one shared model; copy number n starts from copy number n of `start`."""
    ordered = sorted(parts, key=lambda part: part.name)
    names = [part.name for part in ordered]
    return Shared(
        [
            train_jointly(
                inputs,
                ordered,
                settings=settings,
                generator=numpy_generator(seed, f"{stage}, copy {number}", names),
                start=None if start is None else start.copies[number],
                stop_early=stop_early,
                progress=progress,
                stage=title,
            )
            for number in range(settings.n_copies)
        ]
    )

"""The trained layer, as training loops, transfer, multi-task and few-shot learning see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs, WordInputs
from robusttc.encoders.adam import Gradients
from robusttc.encoders.convolution import ConvolutionLayer
from robusttc.encoders.dense import DenseLayer
from robusttc.encoders.residual import ResidualLayer
from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import DataError, quote

__all__ = ["Layer", "layer_from_parameters", "new_layer"]

Floats = NDArray[np.float32]


@runtime_checkable
class Layer(Protocol):
    """A trained layer: frozen inputs to representations.

    It has a workspace of its own for training, so one layer is trained by one thread at a time; `represent`
    does not touch the workspace, and threads may share it.
    """

    @property
    def width(self) -> int:
        """How many numbers a representation has."""

    def parameters(self) -> dict[str, Floats]:
        """Give the live arrays of all parameters, by name: who writes to them changes the layer."""

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Give the representation of every item, shape (items, width).

        Bit for bit, the result of an item does not depend on the other items of the call.
        """

    def forward(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> Floats:
        """Give the representation of a batch, shape (rows, width), and keep what `backward` needs."""

    def backward(self, gradient: Floats) -> Gradients:
        """Give the gradients of all parameters, from that of the last `forward`'s representation.

        The arrays are the workspace's and are valid until the next call.
        """

    def clone(self) -> Self:
        """Make a layer of its own with the same parameters."""


def new_layer(
    inputs: FrozenInputs, *, settings: TrainingSettings, generator: np.random.Generator
) -> ConvolutionLayer | DenseLayer | ResidualLayer:
    """Make the layer for a kind of inputs, with random weights.

    That is a convolution for words, and for vectors a dense layer, or a residual one if the settings say so.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> from robusttc.random import numpy_generator
    >>> inputs = DenseInputs(np.eye(3, dtype=np.float32))
    >>> layer = new_layer(inputs, settings=TrainingSettings(width=4), generator=numpy_generator(0, "layer"))
    >>> layer.represent(inputs).shape
    (3, 4)
    """
    if isinstance(inputs, WordInputs):
        return ConvolutionLayer.new(inputs, settings=settings, generator=generator)
    if settings.activation == "residual":
        return ResidualLayer.new(inputs, settings=settings, generator=generator)
    return DenseLayer.new(inputs, settings=settings, generator=generator)


def layer_from_parameters(
    parameters: Mapping[str, Floats], *, settings: TrainingSettings
) -> ConvolutionLayer | DenseLayer | ResidualLayer:
    """Make a layer from what `Layer.parameters` gave, for instance after it was kept in a file.

    Raises
    ------
    DataError
        If the names are not those of a layer.
    UsageError
        If the shapes do not fit each other.

    Examples
    --------
    >>> layer = DenseLayer(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))
    >>> layer_from_parameters(layer.parameters(), settings=TrainingSettings()).width
    2
    """
    names = set(parameters)
    if names == {"weight", "bias"}:
        return DenseLayer(parameters["weight"], parameters["bias"], settings.activation)
    if names == {"weight", "bias", "output"} and settings.activation == "residual":
        return ResidualLayer(parameters["weight"], parameters["bias"], parameters["output"])
    if names in ({"filters", "bias"}, {"filters", "bias", "vectors"}):
        return ConvolutionLayer(parameters["filters"], parameters["bias"], parameters.get("vectors"))
    raise DataError(
        "these are not the parameters of a layer",
        got=quote(sorted(names)),
        expected="weight and bias, with or without output, or filters and bias, with or without vectors",
    )

"""The trained layer on top of one vector an item, for instance a sentence vector."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.encoders.adam import Gradients
from robusttc.encoders.products import multiply_rows
from robusttc.encoders.settings import Activation, TrainingSettings, check_choice
from robusttc.errors import UsageError, quote

__all__ = ["DenseLayer"]

Floats = NDArray[np.float32]


class DenseLayer:
    """activation(x W + b).

    Parameters
    ----------
    weight
        Shape (dimension, width).
    bias
        Shape (width,).
    activation
        ``relu``, or ``linear`` for none.

    Raises
    ------
    UsageError
        If the shapes do not fit each other, or there is no such activation.

    Examples
    --------
    >>> layer = DenseLayer(np.array([[1.0, -1.0]], np.float32), np.zeros(2, np.float32))
    >>> layer.represent(DenseInputs(np.array([[2.0]], np.float32))).tolist()
    [[2.0, 0.0]]
    """

    def __init__(self, weight: Floats, bias: Floats, activation: Activation = "relu") -> None:
        if weight.ndim != 2 or bias.shape != weight.shape[1:]:
            raise UsageError(
                "the parameters of a dense layer do not fit each other",
                got=f"weight of shape {weight.shape}, bias of shape {bias.shape}",
                expected="(dimension, width) and (width,)",
            )
        check_choice("activation", activation, ("relu", "linear"))
        self.weight = np.ascontiguousarray(weight, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)
        self.activation = activation

    @classmethod
    def new(
        cls, inputs: DenseInputs, *, settings: TrainingSettings, generator: np.random.Generator
    ) -> DenseLayer:
        """Make a layer with random weights, from one draw."""
        bound = (6 / (inputs.dimension + settings.width)) ** 0.5
        weight = generator.uniform(-bound, bound, (inputs.dimension, settings.width)).astype(np.float32)
        return cls(weight, np.zeros(settings.width, dtype=np.float32), settings.activation)

    @property
    def width(self) -> int:
        """How many numbers a representation has."""
        return int(self.weight.shape[1])

    def parameters(self) -> dict[str, Floats]:
        """Give the live arrays of all parameters, by name."""
        return {"weight": self.weight, "bias": self.bias}

    def clone(self) -> DenseLayer:
        """Make a layer of its own with the same parameters."""
        return DenseLayer(self.weight.copy(), self.bias.copy(), self.activation)

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Give the representation of every item; bit for bit, it depends on the item alone."""
        return self._activate(multiply_rows(self._matrix_of(inputs), self.weight))

    def forward(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> Floats:
        """Give the representation of a batch, and keep what `backward` needs."""
        self._batch = self._matrix_of(inputs)[rows]
        # The library's product: a batch is a batch here, and its rows may know of each other.
        self._representation = self._activate(self._batch @ self.weight)
        return self._representation

    def backward(self, gradient: Floats) -> Gradients:
        """Give the gradients of the parameters for the batch of the last `forward`."""
        if self.activation == "relu":
            gradient = gradient * (self._representation > 0)
        return {"weight": self._batch.T @ gradient, "bias": gradient.sum(axis=0)}

    def _activate(self, product: Floats) -> Floats:
        product += self.bias
        if self.activation == "relu":
            np.maximum(product, 0.0, out=product)
        return product

    def _matrix_of(self, inputs: FrozenInputs) -> Floats:
        if not isinstance(inputs, DenseInputs) or inputs.dimension != len(self.weight):
            raise UsageError(
                "the inputs do not fit the dense layer",
                got=quote(inputs),
                expected=f"vectors of {len(self.weight)} numbers",
            )
        return inputs.matrix

"""A trained layer that begins as what it is given: the vector itself, plus a correction that is learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.encoders.adam import Gradients
from robusttc.encoders.products import multiply_rows
from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import UsageError, quote

__all__ = ["ResidualLayer"]

Floats = NDArray[np.float32]


class ResidualLayer:
    """x + relu(x W + b) U, with U zero at the start.

    A good sentence vector is good for tasks that nobody has seen yet. A plain layer with random weights has
    to learn again what the vector knew; this one can only add to it.

    Parameters
    ----------
    weight
        W, shape (dimension, hidden).
    bias
        b, shape (hidden,).
    output
        U, shape (hidden, dimension).

    Raises
    ------
    UsageError
        If the shapes do not fit each other.

    Examples
    --------
    >>> one = np.ones((1, 1), np.float32)
    >>> layer = ResidualLayer(one, np.zeros(1, np.float32), 2 * one)
    >>> layer.represent(DenseInputs(np.array([[3.0], [-3.0]], np.float32))).tolist()
    [[9.0], [-3.0]]
    """

    activation = "residual"

    def __init__(self, weight: Floats, bias: Floats, output: Floats) -> None:
        if weight.ndim != 2 or bias.shape != weight.shape[1:] or output.shape != weight.shape[::-1]:
            raise UsageError(
                "the parameters of a residual layer do not fit each other",
                got=f"weight of shape {weight.shape}, bias of {bias.shape}, output of {output.shape}",
                expected="(dimension, hidden), (hidden,) and (hidden, dimension)",
            )
        self.weight = np.ascontiguousarray(weight, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)
        self.output = np.ascontiguousarray(output, dtype=np.float32)

    @classmethod
    def new(
        cls, inputs: DenseInputs, *, settings: TrainingSettings, generator: np.random.Generator
    ) -> ResidualLayer:
        """Make a layer that hands on its input, from one draw; ``settings.width`` is the hidden width."""
        dimension, hidden = inputs.dimension, settings.width
        bound = (6 / (dimension + hidden)) ** 0.5
        weight = generator.uniform(-bound, bound, (dimension, hidden)).astype(np.float32)
        return cls(weight, np.zeros(hidden, np.float32), np.zeros((hidden, dimension), np.float32))

    @property
    def width(self) -> int:
        """How many numbers a representation has: as many as the input."""
        return len(self.weight)

    @property
    def hidden(self) -> int:
        """How many numbers there are between input and correction."""
        return int(self.weight.shape[1])

    def parameters(self) -> dict[str, Floats]:
        """Give the live arrays of all parameters, by name."""
        return {"weight": self.weight, "bias": self.bias, "output": self.output}

    def clone(self) -> ResidualLayer:
        """Make a layer of its own with the same parameters."""
        return ResidualLayer(self.weight.copy(), self.bias.copy(), self.output.copy())

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Give the representation of every item; bit for bit, it depends on the item alone."""
        matrix = self._matrix_of(inputs)
        hidden = multiply_rows(matrix, self.weight)
        hidden += self.bias
        np.maximum(hidden, 0.0, out=hidden)
        represented = multiply_rows(hidden, self.output)
        represented += matrix
        return represented

    def forward(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> Floats:
        """Give the representation of a batch, and keep what `backward` needs."""
        self._batch = self._matrix_of(inputs)[rows]
        hidden: Floats = self._batch @ self.weight
        hidden += self.bias
        self._hidden = np.maximum(hidden, 0.0, out=hidden)
        represented: Floats = self._hidden @ self.output
        represented += self._batch
        return represented

    def backward(self, gradient: Floats) -> Gradients:
        """Give the gradients of the parameters for the batch of the last `forward`."""
        flowing = gradient @ self.output.T
        flowing *= self._hidden > 0
        return {
            "weight": self._batch.T @ flowing,
            "bias": flowing.sum(axis=0),
            "output": self._hidden.T @ gradient,
        }

    def _matrix_of(self, inputs: FrozenInputs) -> Floats:
        if not isinstance(inputs, DenseInputs) or inputs.dimension != self.width:
            raise UsageError(
                "the inputs do not fit the residual layer",
                got=quote(inputs),
                expected=f"vectors of {self.width} numbers",
            )
        return inputs.matrix

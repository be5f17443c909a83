"""Trained layers on vectors, the heads of one or many tasks, and what every layer has in common.

A layer maps the features of an encoder to a representation; a head is the softmax classifier of a task on top
of it. `robusttc.models.convolution` has the layer for words, `robusttc.models.training` the loop.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numba as nb
import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.errors import UsageError, quote
from robusttc.params import Choice, check_param

if TYPE_CHECKING:
    from robusttc.models.training import Activation, TrainingSettings

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
LARGEST_ROUNDING = 5e-4  # of half precision, to the largest weight
Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(function: Kernel) -> Kernel:
    """Compile with numba, cached on disk; in every process anew where no cache can be written.

    Without fast mathematics, so sums are added in the order in which they are written. Division by zero gives
    infinity, as in NumPy: the check for it would keep loops from being vectorised.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        result: Any = nb.njit(cache=True, **options)(function)
    except RuntimeError:
        result = nb.njit(**options)(function)
    return cast(Kernel, result)


def multiply_rows(matrix: Floats, weight: Floats) -> Floats:
    """Multiply (n, inner) by (inner, columns); bit for bit, a row of the result depends on its own row only.

    BLAS sums in an order that depends on the number of rows and on a row's place among them. Here every
    number is summed over the inner dimension from first to last, at 0.5 to 0.8 of the speed of BLAS.
    """
    matrix, weight = (np.ascontiguousarray(array, dtype=np.float32) for array in (matrix, weight))
    if weight.shape[0] % 2:
        matrix, weight = np.pad(matrix, ((0, 0), (0, 1))), np.pad(weight, ((0, 1), (0, 0)))
    n_rows, n_whole = len(matrix), len(matrix) // 4 * 4
    result = np.empty((n_rows, weight.shape[1]), dtype=np.float32)
    multiply_fours(matrix[:n_whole], weight, result[:n_whole])
    if n_whole < n_rows:
        last, product = np.zeros((4, matrix.shape[1]), np.float32), np.empty((4, weight.shape[1]), np.float32)
        last[: n_rows - n_whole] = matrix[n_whole:]
        multiply_fours(last, weight, product)
        result[n_whole:] = product[: n_rows - n_whole]
    return result


def to_half(weight: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return weights in half precision, which models of many tasks are kept in, if rounding changes little.

    Weights of features that are very large or very small stay as they are.

    Examples
    --------
    >>> to_half(np.array([0.1, -3.0], np.float32)).dtype, to_half(np.array([1e7, 3.0], np.float32)).dtype
    (dtype('float16'), dtype('float32'))
    """
    if weight.dtype == np.float16:
        return weight
    with np.errstate(over="ignore"):
        half = weight.astype(np.float16)
    error = np.abs(half.astype(np.float32) - weight).max(initial=0.0)
    return half if error <= LARGEST_ROUNDING * np.abs(weight).max(initial=0.0) else weight


@compiled
def multiply_fours(matrix: Floats, weight: Floats, result: Floats) -> None:
    """Write the product, four rows and two steps of the inner sum at a time: the loop stays in the cache."""
    for row in range(0, len(matrix), 4):
        sums_0, sums_1, sums_2, sums_3 = result[row], result[row + 1], result[row + 2], result[row + 3]
        result[row : row + 4] = np.float32(0.0)
        for k in range(0, len(weight), 2):
            a_0, a_1, a_2, a_3 = matrix[row, k], matrix[row + 1, k], matrix[row + 2, k], matrix[row + 3, k]
            b_0, b_1 = matrix[row, k + 1], matrix[row + 1, k + 1]
            b_2, b_3 = matrix[row + 2, k + 1], matrix[row + 3, k + 1]
            first, second = weight[k], weight[k + 1]
            for c in range(weight.shape[1]):
                sums_0[c] = (sums_0[c] + a_0 * first[c]) + b_0 * second[c]
                sums_1[c] = (sums_1[c] + a_1 * first[c]) + b_1 * second[c]
                sums_2[c] = (sums_2[c] + a_2 * first[c]) + b_2 * second[c]
                sums_3[c] = (sums_3[c] + a_3 * first[c]) + b_3 * second[c]


@dataclass(frozen=True, slots=True, eq=False)
class RowGradients:
    """The gradient of a matrix of which a batch touched some rows only."""

    rows: NDArray[np.int32]  # each once
    values: Floats


Gradients = dict[str, Floats | RowGradients]


class Layer(ABC):
    """A trained layer: features to representations.

    A layer has a workspace for training, so one thread at a time may train it; `represent` does not touch the
    workspace and is safe to call from several threads.
    """

    names: ClassVar[tuple[str, ...]]  # of the attributes that are trained

    @property
    @abstractmethod
    def width(self) -> int:
        """The width of a representation."""

    def parameters(self) -> dict[str, Floats]:
        """Return the live arrays of all parameters by name: writing to them changes the layer."""
        arrays = {name: getattr(self, name) for name in self.names}
        return {name: array for name, array in arrays.items() if array is not None}

    def clone(self) -> Self:
        """Return an independent layer with the same parameters."""
        return copy.deepcopy(self)

    @abstractmethod
    def represent(self, inputs: FrozenInputs) -> Floats:
        """Return the representation of every item, shape (items, width).

        Bit for bit, the representation of an item does not depend on the other items of the call.
        """

    @abstractmethod
    def forward(self, inputs: FrozenInputs, rows: Numbers) -> Floats:
        """Return the representation of a batch, shape (rows, width), and keep what `backward` needs."""

    @abstractmethod
    def backward(self, gradient: Floats) -> Gradients:
        """Return the gradients of all parameters, given that of the last `forward`'s representation.

        The arrays belong to the workspace and are valid until the next call.
        """


class DenseLayer(Layer):
    """activation(x W + b), with W of shape (dimension, width); the activation is ``relu`` or ``linear``.

    Examples
    --------
    >>> layer = DenseLayer(np.array([[1.0, -1.0]], np.float32), np.zeros(2, np.float32))
    >>> layer.represent(DenseInputs(np.array([[2.0]], np.float32))).tolist()
    [[2.0, 0.0]]
    """

    names = ("weight", "bias")

    def __init__(self, weight: Floats, bias: Floats, activation: Activation = "relu") -> None:
        if weight.ndim != 2 or bias.shape != weight.shape[1:]:
            raise UsageError(
                "the parameters of a dense layer do not fit each other",
                got=f"weight of shape {weight.shape}, bias of shape {bias.shape}",
                expected="(dimension, width) and (width,)",
            )
        check_param("activation", activation, Choice("relu", "linear"))
        self.weight = np.ascontiguousarray(weight, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)
        self.activation = activation

    @classmethod
    def new(
        cls, inputs: DenseInputs, *, settings: TrainingSettings, generator: np.random.Generator
    ) -> DenseLayer:
        """Return a layer with random weights, from one draw."""
        weight = glorot_uniform((inputs.dimension, settings.width), generator)
        return cls(weight, np.zeros(settings.width, dtype=np.float32), settings.activation)

    @property
    def width(self) -> int:
        """The width of a representation."""
        return int(self.weight.shape[1])

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Return the representation of every item; bit for bit, it depends on the item alone."""
        return self._activate(multiply_rows(vectors_of(inputs, len(self.weight), "dense"), self.weight))

    def forward(self, inputs: FrozenInputs, rows: Numbers) -> Floats:
        """Return the representation of a batch, and keep what `backward` needs."""
        self._batch = vectors_of(inputs, len(self.weight), "dense")[rows]
        self._representation = self._activate(self._batch @ self.weight)
        return self._representation

    def backward(self, gradient: Floats) -> Gradients:
        """Return the gradients of the parameters for the batch of the last `forward`."""
        if self.activation == "relu":
            gradient = gradient * (self._representation > 0)
        return {"weight": self._batch.T @ gradient, "bias": gradient.sum(axis=0)}

    def _activate(self, product: Floats) -> Floats:
        product += self.bias
        return np.maximum(product, 0.0, out=product) if self.activation == "relu" else product


class ResidualLayer(Layer):
    """x + relu(x W + b) U, with U zero at the start; W is (dimension, hidden), U (hidden, dimension).

    A good sentence vector serves tasks that nobody has seen yet. A dense layer with random weights has to
    learn again what the vector contains; this one only adds to it.

    Examples
    --------
    >>> one = np.ones((1, 1), np.float32)
    >>> layer = ResidualLayer(one, np.zeros(1, np.float32), 2 * one)
    >>> layer.represent(DenseInputs(np.array([[3.0], [-3.0]], np.float32))).tolist()
    [[9.0], [-3.0]]
    """

    activation = "residual"
    names = ("weight", "bias", "output")

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
        """Return a layer that passes its input on, from one draw; ``settings.width`` is the hidden width."""
        dimension, hidden = inputs.dimension, settings.width
        weight = glorot_uniform((dimension, hidden), generator)
        return cls(weight, np.zeros(hidden, np.float32), np.zeros((hidden, dimension), np.float32))

    @property
    def width(self) -> int:
        """The width of a representation: that of the input."""
        return len(self.weight)

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Return the representation of every item; bit for bit, it depends on the item alone."""
        matrix = vectors_of(inputs, self.width, "residual")
        hidden = multiply_rows(matrix, self.weight)
        hidden += self.bias
        represented = multiply_rows(np.maximum(hidden, 0.0, out=hidden), self.output)
        represented += matrix
        return represented

    def forward(self, inputs: FrozenInputs, rows: Numbers) -> Floats:
        """Return the representation of a batch, and keep what `backward` needs."""
        self._batch = vectors_of(inputs, self.width, "residual")[rows]
        hidden: Floats = self._batch @ self.weight
        hidden += self.bias
        self._hidden = np.maximum(hidden, 0.0, out=hidden)
        represented: Floats = self._hidden @ self.output
        represented += self._batch
        return represented

    def backward(self, gradient: Floats) -> Gradients:
        """Return the gradients of the parameters for the batch of the last `forward`."""
        hidden_gradient = gradient @ self.output.T
        hidden_gradient *= self._hidden > 0
        return {
            "weight": self._batch.T @ hidden_gradient,
            "bias": hidden_gradient.sum(axis=0),
            "output": self._hidden.T @ gradient,
        }


def vectors_of(inputs: FrozenInputs, dimension: int, layer: str) -> Floats:
    """Return the matrix of the inputs; refuse words and vectors of another dimension."""
    if not isinstance(inputs, DenseInputs) or inputs.dimension != dimension:
        raise UsageError(
            f"the inputs do not fit the {layer} layer",
            got=quote(inputs),
            expected=f"vectors of {dimension} numbers",
        )
    return inputs.matrix


def glorot_uniform(shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    """Return a random weight of a shape, from one draw."""
    bound = (6 / sum(shape)) ** 0.5
    return generator.uniform(-bound, bound, shape).astype(np.float32)


def new_head(width: int, n_labels: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the weight (width, n_labels) and the bias of a new softmax classifier, from one draw."""
    return glorot_uniform((width, n_labels), generator), np.zeros(n_labels, dtype=np.float32)


@compiled
def head_gradients(
    representation: Floats,
    row_starts: Numbers,
    label_starts: Numbers,
    label_ends: Numbers,
    codes: Numbers,
    weight: Floats,
    bias: Floats,
) -> tuple[float, Floats, NDArray[np.int32], Floats, Floats]:
    """Return the mean cross-entropy of a batch whose rows belong to one or many tasks, and its gradients.

    The representation, after dropout, has shape (rows, width); the rest is as in `robusttc.models.Batch` and
    `robusttc.models.Heads`. Returned are the loss, the gradient of the representation, the labels of the
    tasks in the batch, and the gradients of their weights and biases.
    """
    n_rows, width = representation.shape
    n_labels = np.sum(label_ends - label_starts)
    gradient = np.empty((n_rows, width), dtype=np.float32)
    labels = np.empty(n_labels, dtype=np.int32)
    weight_gradient = np.empty((n_labels, width), dtype=np.float32)
    bias_gradient = np.zeros(n_labels, dtype=np.float32)
    loss = 0.0
    place = 0
    for task in range(len(label_starts)):
        first, last = row_starts[task], row_starts[task + 1]
        start, end = label_starts[task], label_ends[task]
        n_own = end - start
        own = representation[first:last]
        # `shares` are first the logits, then the probabilities, then the gradient of the logits.
        shares = np.dot(own, weight[start:end].T)
        for row in range(last - first):
            highest = np.float32(-np.inf)
            for label in range(n_own):
                shares[row, label] += bias[start + label]
                highest = max(highest, shares[row, label])
            total = np.float32(0.0)
            for label in range(n_own):
                shares[row, label] = np.exp(shares[row, label] - highest)
                total += shares[row, label]
            code = codes[first + row]
            for label in range(n_own):
                shares[row, label] /= total
            loss -= np.log(max(shares[row, code], np.float32(1e-30)))
            shares[row, code] -= np.float32(1.0)
            for label in range(n_own):
                shares[row, label] /= np.float32(n_rows)
                bias_gradient[place + label] += shares[row, label]
        for label in range(n_own):
            labels[place + label] = start + label
        gradient[first:last] = np.dot(shares, weight[start:end])
        weight_gradient[place : place + n_own] = np.dot(shares.T, own)
        place += n_own
    return loss / n_rows, gradient, labels, weight_gradient, bias_gradient

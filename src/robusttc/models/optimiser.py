"""Adam, on whole arrays and on the rows of a matrix that a batch touched."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from robusttc.models.layers import RowGradients, compiled

Floats = NDArray[np.float32]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam on named arrays, which it changes in place, in 32-bit floats.

    With gradient g at step t: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, and the parameter moves by
    -rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon).

    Deviation: of a matrix with `RowGradients` only the touched rows move, and only their averages decay (the
    paper's Adam would move every word vector at every step); the number of steps counts all steps. A step
    then costs what the batch's words cost, not what the vocabulary costs.

    `parameters` are live contiguous arrays; `learning_rate` may be changed between steps.

    Examples
    --------
    >>> weight = np.zeros(2, dtype=np.float32)
    >>> Adam({"weight": weight}, learning_rate=0.5).step({"weight": np.array([3.0, -0.1], np.float32)})
    >>> weight.round(4).tolist()
    [-0.5, 0.5]
    """

    def __init__(self, parameters: Mapping[str, Floats], *, learning_rate: float) -> None:
        self.parameters = dict(parameters)
        self.learning_rate = learning_rate
        self.n_steps = 0
        self._first = {name: np.zeros_like(array) for name, array in parameters.items()}
        self._second = {name: np.zeros_like(array) for name, array in parameters.items()}

    def step(self, gradients: Mapping[str, Floats | RowGradients]) -> None:
        """Move the parameters that have a gradient."""
        self.n_steps += 1
        root = (1 - BETA_2**self.n_steps) ** 0.5
        # The corrections of m and v, moved out of the loops: the same formula with fewer operations.
        rate = np.float32(self.learning_rate * root / (1 - BETA_1**self.n_steps))
        epsilon = np.float32(EPSILON * root)
        for name, gradient in gradients.items():
            parameter, first, second = self.parameters[name], self._first[name], self._second[name]
            if isinstance(gradient, RowGradients):
                move_rows(parameter, first, second, gradient.rows, gradient.values, rate, epsilon)
            else:
                parameter, first, second = (array.reshape(-1) for array in (parameter, first, second))
                move_all(parameter, first, second, gradient.reshape(-1), rate, epsilon)


@compiled
def move_all(
    parameter: Floats, first: Floats, second: Floats, gradient: Floats, rate: np.float32, epsilon: np.float32
) -> None:
    """Make one step with a flat array."""
    keep_1, add_1 = np.float32(BETA_1), np.float32(1 - BETA_1)
    keep_2, add_2 = np.float32(BETA_2), np.float32(1 - BETA_2)
    for i in range(len(parameter)):
        g = gradient[i]
        m = keep_1 * first[i] + add_1 * g
        v = keep_2 * second[i] + add_2 * g * g
        first[i] = m
        second[i] = v
        parameter[i] -= rate * m / (np.sqrt(v) + epsilon)


@compiled
def move_rows(
    parameter: Floats,
    first: Floats,
    second: Floats,
    rows: NDArray[np.int32],
    values: Floats,
    rate: np.float32,
    epsilon: np.float32,
) -> None:
    """Make one step with some rows of a matrix."""
    for i in range(len(rows)):
        row = rows[i]
        move_all(parameter[row], first[row], second[row], values[i], rate, epsilon)

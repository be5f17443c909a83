"""The steps of the quick softmax classifier, compiled; `robusttc.encoders.softmax_quick` has the problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled_freely
from robusttc.encoders.softmax_kernels import BLOCK, Codes, exponential_constants
from robusttc.encoders.softmax_look import look, move, start_at
from robusttc.encoders.softmax_workspace import Workspace

__all__ = ["take_steps"]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

MEMORY = 10
MAX_LOOKS = 10
# A full step is taken as it is if it leaves no more than this share of the slope.
ENOUGH_DESCENT = 0.5
SHORTENING = 0.3
CONSTANTS = exponential_constants(np.dtype(np.float32))
WORKSPACE = Workspace()


def take_steps(
    rows: Floats,
    codes: Codes,
    cost: float,
    curvature: float,
    point: Floats,
    tol: float,
    max_iter: int,
) -> tuple[int, bool]:
    """Take limited-memory quasi-Newton steps from `point`, in place.

    Parameters
    ----------
    rows
        R of the module, with the column of the bias, shape (n, r + 1).
    codes
        The label of every row.
    cost
        What every cross-entropy is multiplied with.
    curvature
        The h C of the module.
    point
        V of the module, shape (n_labels, r + 1).
    tol
        Stop where a step promises less than this share of the objective.
    max_iter
        The largest number of steps.

    Returns
    -------
    n_steps, converged
        The number of steps, and whether `tol` was reached.
    """
    (n_rows, width), n_labels = rows.shape, len(point)
    memory = (min(MEMORY, max_iter), point.size)
    large = (n_labels, n_rows)
    columns, logits, change, residuals, gradient, direction, steps, changes = WORKSPACE.arrays(
        (width, n_rows), large, large, large, point.shape, point.shape, memory, memory
    )
    columns[:] = rows.T
    exponents = np.zeros(BLOCK, dtype=np.int32)
    n_steps, converged = descend_quickly(
        rows, columns, codes, np.float32(cost), np.float32(curvature), point,
        logits, change, residuals, gradient, direction, steps, changes,
        CONSTANTS, exponents, exponents.view(np.float32), tol, max_iter,
    )  # fmt: skip
    return int(n_steps), bool(converged)


@compiled_freely
def descend_quickly(
    rows: Floats,
    columns: Floats,
    codes: Codes,
    cost: np.float32,
    curvature: np.float32,
    point: Floats,
    logits: Floats,
    change: Floats,
    residuals: Floats,
    gradient: Floats,
    direction: Floats,
    steps: Floats,
    changes: Floats,
    constants: Floats,
    exponents: NDArray[np.int32],
    powers: Floats,
    tol: float,
    max_iter: int,
) -> tuple[int, bool]:
    """Do the work of `take_steps`; `columns` are the rows, transposed, and the arrays after `point` empty."""
    size, memory = point.size, len(steps)
    products = np.empty(memory)
    flat_point, flat_gradient, flat_direction = point.ravel(), gradient.ravel(), direction.ravel()
    sums = np.empty(3)
    value = start_at(rows, codes, cost, point, logits, gradient)
    count = 0
    for n_steps in range(max_iter):
        downhill(flat_gradient, steps, changes, products, count, flat_direction)
        slope_here = inner(flat_gradient, flat_direction)
        if -slope_here <= tol * value:
            return n_steps, True
        np.dot(direction, columns, change)
        across, along = inner(flat_point, flat_direction), inner(flat_direction, flat_direction)
        squared = inner(flat_point, flat_point)
        length = 1.0
        for number in range(MAX_LOOKS):
            look(
                logits, change, np.float32(length), codes, cost, curvature,
                constants, exponents, powers, residuals, sums,
            )  # fmt: skip
            new_value = sums[0] + 0.5 * squared + length * across + 0.5 * length**2 * along
            slope = sums[1] + across + length * along
            if new_value < value:
                if number > 0 or abs(slope) <= -ENOUGH_DESCENT * slope_here:
                    break
                # Newton's method along the line: not much more than this is to be had from it.
                length -= slope / (sums[2] + along)
            elif number == MAX_LOOKS - 1:
                return n_steps, False
            else:
                length *= SHORTENING
        value = new_value
        place = count % memory
        step, difference = steps[place], changes[place]
        for i in range(size):
            difference[i] = -flat_gradient[i]
            step[i] = np.float32(length) * flat_direction[i]
            flat_point[i] += step[i]
        move(logits, change, np.float32(length))
        np.dot(residuals, rows, gradient)
        for i in range(size):
            flat_gradient[i] += flat_point[i]
            difference[i] += flat_gradient[i]
        products[place] = inner(step, difference)
        if products[place] > 0:
            count += 1
    return max_iter, False


@compiled_freely
def downhill(
    gradient: Floats, steps: Floats, changes: Floats, products: Doubles, count: int, result: Floats
) -> None:
    """Write the limited-memory quasi-Newton direction to `result`; the memory is a ring of `count` steps."""
    memory = len(steps)
    factors = np.zeros(memory)
    oldest = max(0, count - memory)
    for i in range(result.shape[0]):
        result[i] = -gradient[i]
    for number in range(count - 1, oldest - 1, -1):
        place = number % memory
        factors[place] = inner(steps[place], result) / products[place]
        add(result, changes[place], np.float32(-factors[place]))
    if count > 0:
        latest = (count - 1) % memory
        scale = np.float32(products[latest] / inner(changes[latest], changes[latest]))
        for i in range(result.shape[0]):
            result[i] *= scale
    for number in range(oldest, count):
        place = number % memory
        factor = factors[place] - inner(changes[place], result) / products[place]
        add(result, steps[place], np.float32(factor))


@compiled_freely
def inner(left: Floats, right: Floats) -> float:
    """Give the inner product of two vectors: in single precision by pieces, their sum in double."""
    total = 0.0
    for start in range(0, left.shape[0], BLOCK):
        one, other = left[start : start + BLOCK], right[start : start + BLOCK]
        piece = np.float32(0)
        for i in range(one.shape[0]):
            piece += one[i] * other[i]
        total += np.float64(piece)
    return total


@compiled_freely
def add(to: Floats, vector: Floats, factor: np.float32) -> None:
    """Add a multiple of one vector to another, in place."""
    for i in range(to.shape[0]):
        to[i] += factor * vector[i]

"""The descent of the softmax classifier: limited-memory quasi-Newton steps over a matrix of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled_freely
from robusttc.encoders.softmax_kernels import (
    Codes,
    Floats,
    curvature_of,
    direction_of,
    dot,
    evaluate,
)

__all__ = ["descend"]

# The steps before which the diagonal of the curvature is taken anew: it costs as much as half a step.
REFRESH_STEPS = (3, 8, 15, 30, 60, 120, 240, 480)
MAX_LOOKS = 25
# A full step is taken as it is if it leaves no more than this share of the slope.
ENOUGH_DESCENT = 0.3
SHORTENING = 0.3
SMALLEST_CURVATURE = 1e-3


@compiled_freely
def descend(
    rows: Floats,
    penalty: Floats,
    point: Floats,
    logits: Floats,
    scale: Floats,
    steps: Floats,
    changes: Floats,
    count: int,
    codes: Codes,
    costs: Floats,
    constants: Floats,
    exponents: NDArray[Any],
    powers: Floats,
    tol: float,
    max_iter: int,
) -> tuple[int, int, bool]:
    """Minimise the costs of the cross-entropies plus half the penalty times the squares of the point.

    The steps are those of the limited-memory BFGS method, whose first guess is a diagonal: each label's own
    curvature, renewed as the probabilities change. Along the line one product with the rows is enough for any
    number of looks, since logits are linear in the step; Newton's method finds the length in one or two.

    Parameters
    ----------
    rows, penalty
        Shapes (n_rows, width) and (width,).
    point, logits
        Shapes (n_labels, width) and (n_labels, n_rows); where to start, and where the descent ended.
    scale
        Shape (n_labels * width,), the first guess of the curvature; an empty one is taken from the start.
    steps, changes, count
        The memory of `direction_of`, which is filled further.
    codes, costs, constants, exponents, powers
        As for `evaluate`.
    tol
        Stop where the squared length of the gradient, measured with the inverse curvature, is at most this
        share of the objective.
    max_iter
        The largest number of steps.

    Returns
    -------
    n_steps, count, converged
        The number of steps taken here; the memory's new count; whether `tol` was reached.
    """
    change, residuals = np.zeros_like(logits), np.empty_like(logits)
    gradient = np.empty_like(point)
    squares = np.empty((0, 0), dtype=rows.dtype)
    products = products_of(steps, changes)
    step = np.zeros(1, dtype=rows.dtype)
    loss, _, _ = evaluate(logits, change, step, codes, costs, constants, exponents, powers, residuals)
    np.dot(residuals, rows, gradient)
    penalised = 0.5 * penalty_product(penalty, point, point)
    add_penalty(gradient, penalty, point)
    n_steps = 0
    while True:
        if scale.shape[0] == 0 or n_steps in REFRESH_STEPS:
            squares = squares_of(rows, squares)
            scale = diagonal(squares, curvature_of(residuals, codes, costs), penalty)
        uphill = direction_of(gradient.ravel(), scale, steps, changes, products, count)
        decrement = dot(uphill, gradient.ravel())
        converged = decrement <= tol * (loss + penalised)
        if converged or n_steps >= max_iter:
            return n_steps, count, converged
        direction = uphill.reshape(point.shape)
        np.dot(direction, rows.T, change)

        slope_there = penalty_product(penalty, point, direction)
        curvature_there = penalty_product(penalty, direction, direction)
        value = loss + penalised
        length = -1.0
        looks = 0
        while True:
            looks += 1
            step[0] = length
            loss, slope, curvature = evaluate(
                logits, change, step, codes, costs, constants, exponents, powers, residuals
            )
            new_penalised = penalised + length * slope_there + 0.5 * length**2 * curvature_there
            if loss + new_penalised <= value:
                slope += slope_there + length * curvature_there
                if looks > 1 or abs(slope) <= ENOUGH_DESCENT * decrement:
                    break
                bend = curvature + curvature_there
                if bend <= 0.0:
                    # Rows that are all separated for good are flat at the end of the precision.
                    break
                length -= slope / bend
            elif looks == MAX_LOOKS:
                # At the end of the precision no length goes down any more.
                return n_steps, count, False
            else:
                length *= SHORTENING
        penalised = new_penalised
        n_steps += 1

        place = count % len(steps)
        changes[place] = -gradient.ravel()
        np.multiply(uphill, step[0], steps[place])
        point += steps[place].reshape(point.shape)
        np.multiply(change, step[0], change)
        logits += change
        np.dot(residuals, rows, gradient)
        add_penalty(gradient, penalty, point)
        changes[place] += gradient.ravel()
        products[place] = dot(steps[place], changes[place])
        if products[place] <= 0:
            # At the end of the precision a step changes the gradient no more; and its place in the memory may
            # have been that of an older one, which is gone.
            return n_steps, count, False
        count += 1


@compiled_freely
def products_of(steps: Floats, changes: Floats) -> NDArray[np.float64]:
    """Give the inner product of each step and its change."""
    result = np.zeros(steps.shape[0])
    for place in range(steps.shape[0]):
        result[place] = dot(steps[place], changes[place])
    return result


@compiled_freely
def squares_of(rows: Floats, squares: Floats) -> Floats:
    """Give the squares of the rows: those of before, or new ones if they are still empty."""
    if squares.shape[0] > 0:
        return squares
    result = np.empty_like(rows)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            result[i, j] = rows[i, j] * rows[i, j]
    return result


@compiled_freely
def penalty_product(penalty: Floats, left: Floats, right: Floats) -> float:
    """Give the inner product of two points in which every column counts with its penalty."""
    total = 0.0
    for label in range(left.shape[0]):
        for j in range(left.shape[1]):
            total += np.float64(penalty[j] * left[label, j]) * np.float64(right[label, j])
    return total


@compiled_freely
def add_penalty(gradient: Floats, penalty: Floats, point: Floats) -> None:
    """Add the gradient of the penalty, in place."""
    for label in range(point.shape[0]):
        for j in range(point.shape[1]):
            gradient[label, j] += penalty[j] * point[label, j]


@compiled_freely
def diagonal(squares: Floats, curvature: Floats, penalty: Floats) -> Floats:
    """Give the diagonal of the curvature of the objective, as one vector."""
    n_labels, width = curvature.shape[0], squares.shape[1]
    result: Floats = np.dot(curvature, squares)
    for label in range(n_labels):
        for j in range(width):
            result[label, j] = max(result[label, j] + penalty[j], SMALLEST_CURVATURE)
    flat: Floats = result.ravel()
    return flat

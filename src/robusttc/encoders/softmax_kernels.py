"""The inner loops of the softmax classifier, compiled: passes over rows, and the limited-memory direction.

Everything that has one value for each label and row is stored with the labels first (n_labels x n_rows): the
loops then run along the rows, which are many, and not along the labels, which may be two. They go through the
rows in blocks that stay in the cache, in the type of the features, with sums in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled_freely

__all__ = ["curvature_of", "direction_of", "dot", "evaluate", "exponential_constants"]

Floats = NDArray[Any]  # float32 or float64, all alike in one call
Codes = NDArray[np.int64]

BLOCK = 128
# Below 2**-126 a probability is zero for all purposes, and single precision has no normal numbers left.
SMALLEST_POWER = -126.0


def exponential_constants(dtype: np.dtype[Any]) -> Floats:
    """Give the numbers that `exponentials` needs, in its type: 1/k! up to 10!, and four more."""
    coefficients = 1.0 / np.cumprod([1.0, *range(1, 11)])
    return np.array([*coefficients, 1 / np.log(2), np.log(2), SMALLEST_POWER, 0.5], dtype=dtype)


@compiled_freely
def exponentials(values: Floats, exponents: NDArray[Any], powers: Floats, constants: Floats) -> None:
    """Replace every value (at most 0) by its exponential: 2**k, made from its bits, times a polynomial.

    `powers` is the memory of `exponents` read as floating point numbers. Vector instructions do this an order
    of magnitude faster than the exponential of the C library; the relative error is below 1e-12.
    """
    single = values.itemsize == 4
    bias = 127 if single else 1023
    shift = 23 if single else 52
    log2_e, ln_2, lowest, half = constants[11], constants[12], constants[13], constants[14]
    one, c2, c3, c4, c5 = constants[0], constants[2], constants[3], constants[4], constants[5]
    c6, c7, c8, c9, c10 = constants[6], constants[7], constants[8], constants[9], constants[10]
    for i in range(values.shape[0]):
        x = max(values[i] * log2_e, lowest)
        k = np.floor(x + half)
        exponents[i] = (np.int32(k) + bias) << shift
        values[i] = (x - k) * ln_2
    for i in range(values.shape[0]):
        r = values[i]
        p = c6 + r * (c7 + r * (c8 + r * (c9 + r * c10)))
        values[i] = powers[i] * (one + r * (one + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * p))))))


@compiled_freely
def evaluate(
    logits: Floats,
    change: Floats,
    step: Floats,
    codes: Codes,
    costs: Floats,
    constants: Floats,
    exponents: NDArray[Any],
    powers: Floats,
    residuals: Floats,
) -> tuple[float, float, float]:
    """Look at the loss where the logits are `logits + step * change`.

    Parameters
    ----------
    logits, change
        Shape (n_labels, n_rows).
    step
        One number, as an array of shape (1,), which keeps its type.
    codes, costs
        The label of every row, and what its cross-entropy is multiplied with.
    constants
        Those of `exponential_constants`.
    exponents, powers
        Workspace of `BLOCK` numbers; see `exponentials`.
    residuals
        Shape (n_labels, n_rows); gets the gradient in the logits, ``costs * (probability - is the label)``.

    Returns
    -------
    loss, slope, curvature
        The sum of costs times cross-entropies, and its first and second derivative in `step`.
    """
    n_labels, n_rows = logits.shape
    top, total = np.empty_like(powers), np.empty_like(powers)
    first, second = np.empty_like(powers), np.empty_like(powers)
    loss, slope, curvature = 0.0, 0.0, 0.0
    for start in range(0, n_rows, BLOCK):
        stop = min(start + BLOCK, n_rows)
        width = stop - start
        move_logits(logits, change, step[0], start, stop, residuals, top)
        for i in range(width):
            # Taken before the exponentials overwrite it.
            loss += costs[start + i] * np.float64(top[i] - residuals[codes[start + i], start + i])
        total[:], first[:], second[:] = 0.0, 0.0, 0.0
        for label in range(n_labels):
            # Sliced in one go, a row is known to be contiguous, and its loops use vector instructions.
            value, dz = residuals[label, start:stop], change[label, start:stop]
            for i in range(width):
                value[i] -= top[i]
            exponentials(value, exponents, powers, constants)
            for i in range(width):
                total[i] += value[i]
                first[i] += value[i] * dz[i]
                second[i] += value[i] * dz[i] * dz[i]
        for i in range(width):
            cost, whole = np.float64(costs[start + i]), np.float64(total[i])
            mean = first[i] / whole
            loss += cost * np.log(whole)
            slope += cost * (mean - change[codes[start + i], start + i])
            curvature += cost * (second[i] / whole - mean * mean)
            total[i] = costs[start + i] / total[i]
        finish_residuals(residuals, total, codes, costs, start, stop)
    return loss, slope, curvature


@compiled_freely
def move_logits(
    logits: Floats, change: Floats, step: float, start: int, stop: int, result: Floats, top: Floats
) -> None:
    """Write the moved logits of a block of rows to `result`, and the largest of every row to `top`."""
    for label in range(logits.shape[0]):
        z, dz, value = logits[label, start:stop], change[label, start:stop], result[label, start:stop]
        for i in range(stop - start):
            value[i] = z[i] + step * dz[i]
        if label == 0:
            top[: stop - start] = value
        for i in range(stop - start):
            top[i] = max(top[i], value[i])


@compiled_freely
def finish_residuals(
    values: Floats, factors: Floats, codes: Codes, costs: Floats, start: int, stop: int
) -> None:
    """Turn the exponentials of a block of rows into residuals, in place."""
    for label in range(values.shape[0]):
        value = values[label, start:stop]
        for i in range(stop - start):
            value[i] *= factors[i]
    for i in range(start, stop):
        values[codes[i], i] -= costs[i]


@compiled_freely
def curvature_of(residuals: Floats, codes: Codes, costs: Floats) -> Floats:
    """Give ``costs * p * (1 - p)`` for every label and row, shape (n_labels, n_rows), from the residuals."""
    n_labels, n_rows = residuals.shape
    result = np.empty_like(residuals)
    inverse = 1 / costs
    for label in range(n_labels):
        for i in range(n_rows):
            result[label, i] = residuals[label, i] * (costs[i] - residuals[label, i]) * inverse[i]
    for i in range(n_rows):
        # A label's own residual r is costs * (p - 1), so that costs * p * (1 - p) is -r * (1 + r / costs).
        own = residuals[codes[i], i]
        result[codes[i], i] = -own * (costs[i] + own) * inverse[i]
    return result


@compiled_freely
def direction_of(
    gradient: Floats, scale: Floats, steps: Floats, changes: Floats, products: NDArray[np.float64], count: int
) -> Floats:
    """Give the limited-memory quasi-Newton direction (with its sign turned: it points uphill).

    Parameters
    ----------
    gradient, scale
        Vectors; the first guess of the curvature is the diagonal `scale`.
    steps, changes
        Shape (memory, size): the latest steps and what they changed in the gradient, as a ring.
    products
        The inner product of each step and its change.
    count
        How many steps have been remembered in all; the latest is in place ``(count - 1) % memory``.
    """
    memory = steps.shape[0]
    result = gradient.copy()
    factors = np.zeros(memory)
    oldest = max(0, count - memory)
    for number in range(count - 1, oldest - 1, -1):
        place = number % memory
        if products[place] > 0:  # a step that changed nothing at all, by rounding, tells nothing
            factors[place] = dot(steps[place], result) / products[place]
            add(result, changes[place], -factors[place])
    for i in range(result.shape[0]):
        result[i] /= scale[i]
    for number in range(oldest, count):
        place = number % memory
        if products[place] > 0:
            add(result, steps[place], factors[place] - dot(changes[place], result) / products[place])
    return result


@compiled_freely
def dot(left: Floats, right: Floats) -> float:
    """Give the inner product of two vectors, summed up in double precision."""
    total = 0.0
    for i in range(left.shape[0]):
        total += np.float64(left[i]) * np.float64(right[i])
    return total


@compiled_freely
def add(to: Floats, vector: Floats, factor: float) -> None:
    """Add a multiple of one vector to another, in place."""
    typed = np.empty(1, dtype=to.dtype)
    typed[0] = factor
    multiple = typed[0]
    for i in range(to.shape[0]):
        to[i] += multiple * vector[i]

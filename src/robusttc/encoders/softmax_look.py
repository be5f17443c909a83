"""What the steps of the quick softmax classifier look at, compiled: passes over logits.

Logits are stored with the labels first (n_labels x n_rows), and passed in blocks of rows that stay in the
cache; `robusttc.encoders.softmax_quick` has the problem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled_freely
from robusttc.encoders.softmax_kernels import BLOCK, Codes, exponentials

__all__ = ["look", "move", "start_at"]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

# Below all logits.
NEVER = -1e30


@compiled_freely
def start_at(
    rows: Floats, codes: Codes, cost: np.float32, point: Floats, logits: Floats, gradient: Floats
) -> float:
    """Fill the logits and the gradient of a point that is the bias alone, and give its value.

    There the probabilities are the shares of the labels, for which the gradient of the bias is zero, and rows
    have mean zero: the gradient of a label is the sum of its own rows. This saves two products.
    """
    n_labels, width = point.shape
    gradient[:] = 0.0
    loss = 0.0
    for label in range(n_labels):
        logits[label] = point[label, width - 1] * rows[0, width - 1]
    for i in range(rows.shape[0]):
        own, row = gradient[codes[i]], rows[i]
        for j in range(width - 1):
            own[j] -= cost * row[j]
        loss -= np.float64(logits[codes[i], i])
    return np.float64(cost) * loss


@compiled_freely
def look(
    logits: Floats,
    change: Floats,
    length: np.float32,
    codes: Codes,
    cost: np.float32,
    curvature: np.float32,
    constants: Floats,
    exponents: NDArray[np.int32],
    powers: Floats,
    residuals: Floats,
    sums: Doubles,
) -> None:
    """Look at the objective without ||V||^2 / 2 where the logits are ``logits + length * change``.

    `residuals` gets its gradient in the logits; `sums` its value and its two derivatives in `length`.
    """
    n_labels, n_rows = logits.shape
    top, total = np.empty_like(powers), np.empty_like(powers)
    first, second = np.empty_like(powers), np.empty_like(powers)
    loss, slope, bend, squares, crossed, changed = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for start in range(0, n_rows, BLOCK):
        stop = min(start + BLOCK, n_rows)
        # The three are sums here, and get the memory of those that are needed later.
        shift(logits, change, length, start, stop, residuals, top, total, first, second)
        for i in range(stop - start):
            own = codes[start + i]
            loss += np.float64(top[i] - residuals[own, start + i])
            slope -= np.float64(change[own, start + i])
            squares += np.float64(total[i])
            crossed += np.float64(first[i])
            changed += np.float64(second[i])
        total[:], first[:], second[:] = 0.0, 0.0, 0.0
        for label in range(n_labels):
            dz, moved = change[label, start:stop], residuals[label, start:stop]
            for i in range(stop - start):
                moved[i] -= top[i]
            exponentials(moved, exponents, powers, constants)
            for i in range(stop - start):
                total[i] += moved[i]
                first[i] += moved[i] * dz[i]
                second[i] += moved[i] * dz[i] * dz[i]
        for i in range(stop - start):
            whole = np.float64(total[i])
            mean = np.float64(first[i]) / whole
            loss += np.log(whole)
            slope += mean
            bend += np.float64(second[i]) / whole - mean * mean
            total[i] = cost / total[i]
        finish(logits, change, length, curvature, start, stop, residuals, total)
        for i in range(start, stop):
            residuals[codes[i], i] -= cost
    sums[0] = cost * loss - 0.5 * curvature * squares
    sums[1] = cost * slope - curvature * crossed
    sums[2] = cost * bend - curvature * changed


@compiled_freely
def shift(
    logits: Floats,
    change: Floats,
    length: np.float32,
    start: int,
    stop: int,
    result: Floats,
    top: Floats,
    squares: Floats,
    crossed: Floats,
    changed: Floats,
) -> None:
    """Write the moved logits of a block of rows to `result`; of each row the largest, and sums of squares."""
    top[:] = np.float32(NEVER)
    squares[:], crossed[:], changed[:] = 0.0, 0.0, 0.0
    for label in range(logits.shape[0]):
        # Sliced in one go, a row is known to be contiguous, and its loop uses vector instructions.
        z, dz, moved = logits[label, start:stop], change[label, start:stop], result[label, start:stop]
        for i in range(stop - start):
            here = z[i] + length * dz[i]
            moved[i] = here
            top[i] = max(top[i], here)
            squares[i] += here * here
            crossed[i] += here * dz[i]
            changed[i] += dz[i] * dz[i]


@compiled_freely
def finish(
    logits: Floats,
    change: Floats,
    length: np.float32,
    curvature: np.float32,
    start: int,
    stop: int,
    values: Floats,
    factors: Floats,
) -> None:
    """Turn the exponentials of a block of rows into probabilities times cost, less the penalty's part."""
    for label in range(values.shape[0]):
        z, dz, value = logits[label, start:stop], change[label, start:stop], values[label, start:stop]
        for i in range(stop - start):
            value[i] = value[i] * factors[i] - curvature * (z[i] + length * dz[i])


@compiled_freely
def move(logits: Floats, change: Floats, length: np.float32) -> None:
    """Move the logits, in place."""
    for label in range(logits.shape[0]):
        z, dz = logits[label], change[label]
        for i in range(z.shape[0]):
            z[i] += length * dz[i]

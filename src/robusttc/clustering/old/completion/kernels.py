"""The inner loops of the factored solver, compiled: sums over the observed entries, row by row.

Everything here works on X = U diag(s) U^T, given as its factor U (n x r) and the signs s (r), on the observed
entries of a symmetric matrix in CSR form, and never forms an n x n array. A loop takes a range of rows, so
that threads can share the rows; what it sums up over its rows it returns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled_freely

__all__ = ["curvature_blocks", "gradient_rows", "hessian_rows", "loss_rows", "values_at"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Columns = NDArray[np.int32]


@compiled_freely
def gradient_rows(
    start: int,
    stop: int,
    indptr: Places,
    indices: Columns,
    Y: Floats,
    weight: Floats,
    Q: Floats,
    U: Floats,
    signs: Floats,
    mu: float,
    new_Q: Floats,
    gradient: Floats,
) -> float:
    """Take one look at the augmented Lagrangian: its value, its gradient in U, and the next multipliers.

    For every observed entry, with residual r = Y - X: the error E that minimises
    weight |E| + Q (r - E) + mu/2 (r - E)^2 is soft(r + Q/mu, weight/mu), and the multiplier that goes with it
    is Q+ = clip(Q + mu r, -weight, weight). The gradient of the whole is 2 (U - Q+ U diag(s)); half of it is
    written to `gradient`.
    """
    r = U.shape[1]
    value = 0.0
    for i in range(start, stop):
        for c in range(r):
            gradient[i, c] = U[i, c]
            value += U[i, c] * U[i, c]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            x = 0.0
            for c in range(r):
                x += signs[c] * U[i, c] * U[j, c]
            residual = Y[p] - x
            shifted = Q[p] + mu * residual
            q = min(max(shifted, -weight[p]), weight[p])
            error = (shifted - q) / mu
            rest = residual - error
            value += weight[p] * abs(error) + Q[p] * rest + 0.5 * mu * rest * rest
            new_Q[p] = q
            for c in range(r):
                gradient[i, c] -= q * signs[c] * U[j, c]
    return value


@compiled_freely
def hessian_rows(
    start: int,
    stop: int,
    indptr: Places,
    indices: Columns,
    weight: Floats,
    new_Q: Floats,
    U: Floats,
    signs: Floats,
    V: Floats,
    mu: float,
    product: Floats,
) -> None:
    """Write half of the Hessian of the augmented Lagrangian in U, applied to V, to `product`.

    An entry whose multiplier is strictly inside its box has curvature mu; the others have none.
    """
    r = U.shape[1]
    for i in range(start, stop):
        for c in range(r):
            product[i, c] = V[i, c]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            q = new_Q[p]
            slope = 0.0
            if -weight[p] < q < weight[p]:
                for c in range(r):
                    slope += signs[c] * (V[i, c] * U[j, c] + U[i, c] * V[j, c])
                slope *= mu
            for c in range(r):
                product[i, c] += signs[c] * (slope * U[j, c] - q * V[j, c])


@compiled_freely
def curvature_blocks(
    start: int,
    stop: int,
    indptr: Places,
    indices: Columns,
    weight: Floats,
    new_Q: Floats,
    U: Floats,
    mu: float,
    ridge: float,
    blocks: Floats,
) -> None:
    """Write the r x r blocks on the diagonal of the curvature, plus `ridge` on their own diagonal."""
    r = U.shape[1]
    for i in range(start, stop):
        for a in range(r):
            for b in range(r):
                blocks[i, a, b] = 0.0
            blocks[i, a, a] = ridge
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if -weight[p] < new_Q[p] < weight[p]:
                for a in range(r):
                    scaled = mu * U[j, a]
                    for b in range(r):
                        blocks[i, a, b] += scaled * U[j, b]


@compiled_freely
def loss_rows(
    start: int,
    stop: int,
    indptr: Places,
    indices: Columns,
    Y: Floats,
    weight: Floats,
    U: Floats,
    signs: Floats,
) -> float:
    """Sum weight |Y - X| over the observed entries of the rows."""
    total = 0.0
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            x = 0.0
            for c in range(U.shape[1]):
                x += signs[c] * U[i, c] * U[j, c]
            total += weight[p] * abs(Y[p] - x)
    return total


@compiled_freely
def values_at(
    start: int,
    stop: int,
    indptr: Places,
    indices: Columns,
    U: Floats,
    signs: Floats,
    values: Floats,
) -> None:
    """Write X at the observed entries of the rows to `values`."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            x = 0.0
            for c in range(U.shape[1]):
                x += signs[c] * U[i, c] * U[j, c]
            values[p] = x

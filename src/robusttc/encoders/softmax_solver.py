"""The solver of the softmax classifier: first the few directions that matter, then all of them.

The problem, for n rows x_i with mean zero, labels y_i and costs c_i, over W (K x d) and b (K):

    minimise  sum_i c_i * cross_entropy(softmax(W x_i + b), y_i) + 1/2 ||W||^2.

The curvature of a label is about M = h X' diag(c) X + I, where h is half the mean of p (1 - p) over the
labels at the start. Features of ReLU units have a few directions of large variance and many of small: in most
of them M is next to the identity, and a method that starts from the identity spends its steps on the few.

1. The main directions V (d x r): where h X' diag(c) X exceeds `MAIN_SHARE`. They are found by two rounds of
   subspace iteration from fixed random numbers; where those miss too much, by a full eigenvalue
   decomposition.
2. Descent within them, in coordinates that make M the identity; a step costs n r K instead of n d K.
3. Descent over everything: the same coordinates, and beside them the rest of the features, X - X V V'. What
   the first descent learned about the curvature is kept. A few steps are enough, and only these decide when
   to stop, so that nothing but the time depends on how good the main directions are.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from robusttc.encoders.softmax_descent import descend
from robusttc.encoders.softmax_kernels import BLOCK, Codes, Floats, exponential_constants
from robusttc.random import numpy_generator

__all__ = ["minimise"]

MEMORY = 10
# How many directions are looked for: more pay off where there are many rows.
SKETCH, SKETCH_OF_MANY = 32, 64
MANY_ROWS = 400
# Directions whose share in M beside the identity is smaller are left to the second descent.
MAIN_SHARE = 0.03
# If the sketch ends with a share above this, it has missed too much.
LARGEST_MISSED_SHARE = 0.3
# The rows that are enough to find the main directions.
MAX_SKETCHED_ROWS = 800
# The first descent may stop much earlier than the second.
FIRST_TOLERANCE = 10.0
# What the descent measures is 1 to 2 times the excess of the objective where the curvature is well known, and
# can be a small part of it where it is not.
SAFETY = 0.1


def minimise(
    features: Floats, codes: Codes, costs: Floats, *, n_labels: int, tol: float, max_iter: int
) -> tuple[Floats, Floats, int, bool]:
    """Solve the problem of this module.

    Parameters
    ----------
    features
        Shape (n, d), their mean weighted by the costs is zero.
    codes
        Labels from 0 to ``n_labels - 1``, all of which occur.
    costs
        One positive number a row, of the type of the features.
    n_labels, tol, max_iter
        See `robusttc.encoders.softmax.fit_softmax`.

    Returns
    -------
    weight, bias, n_iterations, converged
        The weight has shape (n_labels, d).
    """
    dtype = features.dtype
    sums = np.bincount(codes, weights=costs, minlength=n_labels)
    total_cost = float(sums.sum())
    shares = sums / total_cost
    curvature = 0.5 * float(np.mean(shares * (1 - shares)))
    directions, values = main_directions(features, costs * dtype.type(curvature))
    rank, width = len(values), features.shape[1]
    contraction = (1 / np.sqrt(1 + values)).astype(dtype)
    penalty = np.ones(rank + 1 + width, dtype=dtype)
    penalty[:rank] = contraction**2
    penalty[rank] = 0
    everything = np.ones((len(features), rank + 1 + width), dtype=dtype)
    projected = features @ directions
    everything[:, :rank] = projected * contraction
    np.subtract(features, projected @ directions.T, out=everything[:, rank + 1 :])

    point = np.zeros((n_labels, rank + 1 + width), dtype=dtype)
    point[:, rank] = np.log(shares)
    logits = np.repeat(point[:, rank : rank + 1], len(features), axis=1)
    exponents = np.zeros(BLOCK, dtype=np.int32 if dtype == np.float32 else np.int64)
    rest = (codes, costs, exponential_constants(dtype), exponents, exponents.view(dtype))

    main = np.ascontiguousarray(everything[:, : rank + 1])
    start = np.ascontiguousarray(point[:, : rank + 1])
    scale = np.ones((n_labels, rank + 1), dtype=dtype)
    scale[:, rank] = curvature * total_cost
    steps = np.zeros((MEMORY, start.size), dtype=dtype)
    changes = np.zeros_like(steps)
    first, count, _ = descend(
        main, penalty[: rank + 1], start, logits, scale.ravel(), steps, changes, 0,
        *rest, FIRST_TOLERANCE * SAFETY * tol, max_iter,
    )  # fmt: skip
    point[:, : rank + 1] = start
    second, _, converged = descend(
        everything, penalty, point, logits, np.empty(0, dtype=dtype),
        widen(steps, point), widen(changes, point), count,
        *rest, SAFETY * tol, max_iter - first,
    )  # fmt: skip
    weight: Floats = (point[:, :rank] * contraction) @ directions.T + point[:, rank + 1 :]
    return weight, point[:, rank].copy(), first + second, bool(converged)


def widen(memory: Floats, point: Floats) -> Floats:
    """Put zeros where the second descent has coordinates that the first did not have."""
    before = memory.reshape(len(memory), len(point), -1)
    after = np.zeros((len(memory), *point.shape), dtype=memory.dtype)
    after[:, :, : before.shape[2]] = before
    return after.reshape(len(memory), -1)


def main_directions(features: Floats, weights: Floats) -> tuple[Floats, NDArray[np.float64]]:
    """Give orthonormal directions (d, r), and the share of each in M beside the identity.

    Parameters
    ----------
    features
        Shape (n, d).
    weights
        The curvature at the start times the costs, shape (n,).
    """
    stride = max(1, len(features) // MAX_SKETCHED_ROWS)
    chosen = features[::stride]
    scaled = chosen * np.sqrt(weights[::stride] * (len(features) / len(chosen)))[:, None].astype(
        features.dtype
    )
    # The decomposition of the smaller of the two products gives the same directions.
    by_rows = scaled.shape[0] < scaled.shape[1]
    products = (scaled @ scaled.T if by_rows else scaled.T @ scaled).astype(np.float64)
    n_columns = SKETCH if len(features) < MANY_ROWS else SKETCH_OF_MANY
    values, vectors = np.zeros(0), np.zeros((len(products), 0))
    if len(products) > n_columns + 8:
        values, vectors = sketch_eigen(products, n_columns)
    if len(values) == 0 or values[0] > LARGEST_MISSED_SHARE:
        values, vectors = np.linalg.eigh(products)
    first = int(np.searchsorted(values, MAIN_SHARE))
    values, vectors = values[first:], vectors[:, first:]
    if by_rows:
        return scaled.T @ (vectors / np.sqrt(values)).astype(features.dtype), values
    return np.ascontiguousarray(vectors, dtype=features.dtype), values


def sketch_eigen(
    products: NDArray[np.float64], n_columns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give about the largest eigenvalues of a symmetric matrix, smallest first, and their vectors."""
    basis = orthonormal(products @ random_numbers(len(products), n_columns))
    basis = orthonormal(products @ basis)
    values, mixing = np.linalg.eigh(basis.T @ (products @ basis))
    return values, basis @ mixing


def orthonormal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give an orthonormal basis of the columns; columns that depend on others come out short."""
    products = matrix.T @ matrix
    products[np.diag_indices_from(products)] += 1e-12 * np.trace(products) + np.finfo(np.float64).tiny
    inverse, _ = dtrtri(np.linalg.cholesky(products), lower=1)
    result: NDArray[np.float64] = matrix @ inverse.T
    return result


@lru_cache(maxsize=64)
def random_numbers(n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Give the same random numbers at every call."""
    return numpy_generator(0, "main directions of features").normal(size=(n_rows, n_columns))

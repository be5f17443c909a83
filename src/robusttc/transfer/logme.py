"""LogME: how well frozen features suit labels, by the evidence of a Bayesian linear model, without training.

For one column y of the labels (1 for the rows of the label, else 0) and features F (n x d):

    y = F m + noise,   m ~ N(0, I / alpha),   noise ~ N(0, I / beta).

The evidence log p(y | F), at the alpha and beta that make it largest, divided by n, is the score of the
column; the score of the features is the mean over the labels. Larger is better; features are taken as they
are, not centred. With the singular value decomposition F = U diag(sqrt(s)) V' and z = U' y, everything
depends on the ratio t = alpha / beta alone: for a given t the best beta is n / E, where
E = sum_j z_j^2 t / (t + s_j) + the part of |y|^2 outside U, and the evidence is

    n/2 log beta - n/2 - n/2 log(2 pi) - 1/2 sum_j log(1 + s_j / t).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UsageError
from robusttc.models import check_problem, compiled

__all__ = ["logme"]

Floats = NDArray[np.float64]

MAX_STEPS = 2000
# The evidence is flat at its top: this change of log t moves it by about the square.
SMALLEST_CHANGE = 1e-5
# Where the features explain nothing (or everything), t runs away; the evidence has long reached its limit.
LARGEST_LOG_RATIO = 30.0
# Squared singular values below this share of the largest are rounding errors.
RANK_CUTOFF = 1e-12


def logme(features: NDArray[np.float32] | Floats, codes: ArrayLike, n_labels: int) -> float:
    """Give the LogME score of features for labels.

    Parameters
    ----------
    features
        Shape (n, d).
    codes
        The label of every row, from 0 to ``n_labels - 1``.
    n_labels
        The number of labels; those that do not occur do not count.

    Raises
    ------
    DataError
        If features or codes cannot be used, or fewer than two labels occur.
    UsageError
        If `n_labels` is below two.

    Examples
    --------
    >>> features = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> logme(features, [0, 0, 1, 1], 2) > logme(features, [0, 1, 0, 1], 2)
    True
    """
    if n_labels < 2:
        raise UsageError("n_labels cannot be used", got=str(n_labels), expected="at least 2")
    matrix, labels = check_problem(np.asarray(features, dtype=np.float64), codes, n_labels)
    n_rows, width = matrix.shape
    present, own = np.unique(labels, return_inverse=True)
    if len(present) < 2:
        raise DataError(
            "the score needs at least two labels", got=f"{n_rows} rows of {len(present)} label(s)"
        )
    counts = np.bincount(own).astype(np.float64)
    # The decomposition comes from the smaller of the two products of F with itself.
    squares, vectors = np.linalg.eigh(matrix @ matrix.T if n_rows <= width else matrix.T @ matrix)
    kept = squares > RANK_CUTOFF * max(squares[-1], np.finfo(np.float64).tiny)
    squares, vectors = squares[kept], vectors[:, kept]
    if n_rows > width:
        vectors = (matrix @ vectors) / np.sqrt(squares)
    products = np.zeros((len(present), len(squares)))
    np.add.at(products, own, vectors)
    scores = best_evidences(np.ascontiguousarray(squares), products**2, counts, n_rows)
    return float(scores.mean() / n_rows)


@compiled
def best_evidences(squares: Floats, products: Floats, lengths: Floats, n_rows: int) -> Floats:
    """Give the largest evidence of each column.

    Parameters
    ----------
    squares
        The squared singular values s, shape (r,).
    products
        The squares of z, shape (n_labels, r).
    lengths
        The squared lengths of the columns.
    n_rows
        The number of rows n.
    """
    result = np.empty(len(products))
    for label in range(len(products)):
        outside = max(lengths[label] - products[label].sum(), 0.0)
        log_ratio = 0.0
        for _ in range(MAX_STEPS):
            ratio = np.exp(log_ratio)
            fitted, error, norm = 0.0, outside, 0.0
            for j in range(len(squares)):
                whole = ratio + squares[j]
                fitted += squares[j] / whole
                error += products[label, j] * (ratio / whole) ** 2
                norm += products[label, j] * squares[j] / whole**2
            # MacKay's fixed point: alpha = fitted / |m|^2 and beta = (n - fitted) / |F m - y|^2.
            above = fitted * error
            below = (n_rows - fitted) * norm
            if above <= 0.0 or below <= 0.0:
                break
            change = np.log(above) - np.log(below) - log_ratio
            log_ratio = min(max(log_ratio + change, -LARGEST_LOG_RATIO), LARGEST_LOG_RATIO)
            if abs(change) < SMALLEST_CHANGE or abs(log_ratio) == LARGEST_LOG_RATIO:
                break
        ratio = np.exp(log_ratio)
        energy, volume = outside, 0.0
        for j in range(len(squares)):
            energy += products[label, j] * ratio / (ratio + squares[j])
            volume += np.log1p(squares[j] / ratio)
        result[label] = 0.5 * (n_rows * (np.log(n_rows / energy) - 1 - np.log(2 * np.pi)) - volume)
    return result

"""A softmax classifier in a few steps: for thousands of accuracies, where the last digits do not count.

The objective is that of `robusttc.encoders.softmax`. For rows x_i with mean zero, its curvature at the start
is about M = h X' C X + I for every label, where h is half the mean of p (1 - p) over the labels. In
coordinates V = W M^(1/2), in which M is the identity, limited-memory quasi-Newton steps go most of the way at
once. With R = X M^(-1/2), any square root will do: a Cholesky factor, or where rows are few the decomposition
of their products. The penalty needs no product of its own, for

    ||W||^2 = ||V||^2 - h C ||R V'||^2,

and R V' are the logits, without the bias. The bias is one more column of R, as long as it takes to make its
penalty zero: then all this holds with it too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dtrtri, spotrf, strtri

from robusttc.encoders.softmax import NEVER, SoftmaxClassifier, check_options, check_problem
from robusttc.encoders.softmax_solver import orthonormal, random_numbers
from robusttc.encoders.softmax_steps import take_steps
from robusttc.encoders.softmax_workspace import Workspace
from robusttc.errors import DataError

__all__ = ["fit_softmax_quickly"]

Floats = NDArray[np.float32]

# Rows times labels up to which a problem is small, and above which it is large.
SMALL, LARGE = 2_000, 20_000
# The tolerance and the number of steps of small problems, of others, and of large ones.
EFFORTS = ((1e-5, 60), (2e-3, 16), (2e-3, 8))
# Fewer rows than this share of the features: the decomposition of the rows' products is cheaper.
FEW_ROWS = 0.5
# Directions with less than this share of the largest variance are rounding errors.
SMALLEST_SHARE = 1e-6
# Where so many directions have so much of the variance, large problems leave out the others: the penalty lets
# them do little. Narrower features are taken as they are.
N_DIRECTIONS, MAIN_VARIANCE = 80, 0.94
LEAST_WIDTH = 160
WORKSPACE = Workspace()


def fit_softmax_quickly(
    features: Floats,
    codes: ArrayLike,
    *,
    n_labels: int,
    C: float = 1.0,
    tol: float | None = None,
    max_iter: int | None = None,
) -> SoftmaxClassifier:
    """Fit an L2-regularised softmax classifier, about; see the module.

    Equal inputs give equal results: nothing is random, and no other problem has an influence.

    Parameters
    ----------
    features
        Shape (n, d); the work is done in single precision.
    codes
        The label of every row, from 0 to ``n_labels - 1``.
    n_labels
        How many labels the classifier has; some may be absent from `codes`.
    C
        The inverse strength of the penalty.
    tol
        Stop where a step promises less than this share of the objective; None takes 1e-5 where rows times
        labels are at most 2,000, and 2e-3 else.
    max_iter
        The largest number of steps; None takes 60 where rows times labels are at most 2,000, 16 up to 20,000,
        and 8 beyond. After 8 steps the objective can be far above its minimum (a fifth, where labels are as
        good as separable), while predictions hardly change any more.

    Raises
    ------
    DataError
        If features or codes cannot be used, or fewer than two labels occur.
    UsageError
        If an option cannot be used.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [3.0], [4.0]], dtype=np.float32)
    >>> fit_softmax_quickly(features, [0, 0, 2, 2], n_labels=3).predict_codes(features).tolist()
    [0, 0, 2, 2]
    """
    size = len(features) * n_labels
    usual_tol, usual_steps = EFFORTS[(size > SMALL) + (size > LARGE)]
    tol = usual_tol if tol is None else tol
    max_iter = usual_steps if max_iter is None else max_iter
    check_options(n_labels=n_labels, C=C, tol=tol, max_iter=max_iter)
    matrix, labels = check_problem(features, codes, n_labels)
    matrix = matrix.astype(np.float32, copy=False)
    counts = np.bincount(labels, minlength=n_labels)
    present = np.flatnonzero(counts)
    if len(present) < 2:
        raise DataError(
            "a classifier needs at least two labels",
            got=f"{len(labels)} rows of {len(present)} label(s)",
            todo="leave the task out, or give it rows of another label",
        )
    place_of = np.zeros(n_labels, dtype=np.int64)
    place_of[present] = np.arange(len(present))
    shares = counts[present] / len(labels)
    cost = C / 2 if len(present) == 2 else C
    curvature = 0.5 * cost * float(np.mean(shares * (1 - shares)))

    centre = matrix.mean(axis=0)
    centred, rows = WORKSPACE.arrays(matrix.shape, (len(matrix), matrix.shape[1] + 1))
    np.subtract(matrix, centre, out=centred)
    rows, back = whiten(centred, curvature, rows, narrow=size > LARGE)
    # As long as this, the penalty of the bias is zero.
    length = 1 / np.sqrt(curvature * len(rows))
    rows[:, -1] = length
    point = np.zeros((len(present), rows.shape[1]), dtype=np.float32)
    point[:, -1] = np.log(shares) / length
    n_steps, converged = take_steps(rows, place_of[labels], cost, curvature, point, tol, max_iter)

    own_weight = back @ point[:, :-1].T
    weight = np.zeros((matrix.shape[1], n_labels), dtype=np.float32)
    bias = np.full(n_labels, NEVER, dtype=np.float32)
    weight[:, present] = own_weight
    bias[present] = point[:, -1] * np.float32(length) - centre @ own_weight
    return SoftmaxClassifier(weight, bias, n_steps, converged)


def whiten(centred: Floats, curvature: float, memory: Floats, *, narrow: bool) -> tuple[Floats, Floats]:
    """Change to the coordinates of the module; `memory` (n, d + 1) may be used for the result.

    If `narrow`, directions of little variance are left out; see `main_directions`.

    Returns
    -------
    rows, back
        R, with an empty column at the end, shape (n, r + 1); and the matrix (d, r) that takes V' to W'.
    """
    n_rows, width = centred.shape
    if n_rows < FEW_ROWS * width:
        values, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64))
        first = int(np.searchsorted(values, SMALLEST_SHARE * values[-1], side="right"))
        values, vectors = values[first:], vectors[:, first:]
        contraction = 1 / np.sqrt(1 + curvature * values)
        rows = np.empty((n_rows, len(values) + 1), dtype=np.float32)
        rows[:, :-1] = vectors * (np.sqrt(values) * contraction)
        return rows, centred.T @ (vectors * (contraction / np.sqrt(values))).astype(np.float32)
    moments = centred.T @ centred
    moments *= np.float32(curvature)
    directions = main_directions(moments) if narrow and width >= LEAST_WIDTH else None
    if directions is None:
        moments.ravel()[:: width + 1] += 1
        back = inverse_root(moments)
        np.matmul(centred, back, out=memory[:, :-1])
        return memory, back
    within = directions.T @ moments @ directions
    within.ravel()[:: len(within) + 1] += 1
    back = directions @ inverse_root(within)
    rows = np.empty((n_rows, back.shape[1] + 1), dtype=np.float32)
    np.matmul(centred, back, out=rows[:, :-1])
    return rows, back


def main_directions(moments: Floats) -> Floats | None:
    """Give orthonormal directions (d, `N_DIRECTIONS`) that have nearly all of the variance, if there are.

    They are those of two rounds of subspace iteration from fixed random numbers.
    """
    doubles = moments.astype(np.float64)
    basis = orthonormal(doubles @ random_numbers(len(moments), N_DIRECTIONS))
    basis = orthonormal(doubles @ basis)
    captured = float(np.einsum("ij,ij->", basis, doubles @ basis))
    if captured < MAIN_VARIANCE * np.trace(doubles):
        return None
    return basis.astype(np.float32)


def inverse_root(matrix: Floats) -> Floats:
    """Give T with T' matrix T = I, for a symmetric matrix that is at least the identity."""
    # Transposed, the memory is in the order of the library, and the upper half is its lower one.
    factor, failed = spotrf(matrix.T, lower=1, clean=1, overwrite_a=0)
    if not failed:
        inverse, _ = strtri(factor, lower=1, overwrite_c=1)
    else:
        # The largest eigenvalue is above 1e6 or so: single precision lost the identity.
        inverse, _ = dtrtri(np.linalg.cholesky(matrix.astype(np.float64)), lower=1)
    result: Floats = np.ascontiguousarray(inverse.T, dtype=np.float32)
    return result

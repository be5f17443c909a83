"""Softmax classifiers on frozen features, trained to convergence; made for thousands of small problems.

The objective is that of scikit-learn's LogisticRegression, with the same C:

    C * sum_i w_i * cross_entropy_i + 1/2 ||W||^2,      the bias is not penalised,

where w_i is 1, or n / (number of labels * rows of the label) if `balanced`. For two labels scikit-learn
penalises the one vector w = W_1 - W_0, and so do we: with W_1 = -W_0 that is 1/2 ||w||^2 = ||W||^2, which is
the problem above with C / 2.

How it is solved is told in `robusttc.encoders.softmax_solver`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.encoders.softmax_solver import minimise
from robusttc.errors import DataError, UsageError, quote

__all__ = ["NEVER", "SoftmaxClassifier", "fit_softmax"]

Floats = NDArray[np.float32] | NDArray[np.float64]

# The bias of a label that no row has: as good as minus infinity, but sums with it stay finite.
NEVER = -1e30


@dataclass(frozen=True, slots=True)
class SoftmaxClassifier:
    """A fitted classifier.

    Parameters
    ----------
    weight, bias
        Shapes (d, n_labels) and (n_labels,), of the type of the features. A label that did not occur has
        weight 0 and bias `NEVER`: it is never predicted.
    n_iterations
        How many steps were taken.
    converged
        Whether the stopping rule was met.
    """

    weight: Floats
    bias: Floats
    n_iterations: int
    converged: bool

    def logits(self, features: Floats) -> Floats:
        """Give the logits of every row, shape (n, n_labels)."""
        if features.ndim != 2 or features.shape[1] != len(self.weight):
            raise UsageError(
                "the features do not fit the classifier",
                got=f"shape {features.shape}",
                expected=f"(n, {len(self.weight)})",
            )
        result: Floats = features @ self.weight + self.bias
        return result

    def predict_codes(self, features: Floats) -> NDArray[np.int64]:
        """Give the most probable label of every row; of equal ones the first."""
        codes: NDArray[np.int64] = np.argmax(self.logits(features), axis=1)
        return codes

    def probabilities(self, features: Floats) -> Floats:
        """Give the probability of every label for every row, shape (n, n_labels)."""
        logits = self.logits(features)
        result: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
        result /= result.sum(axis=1, keepdims=True)
        return result


def fit_softmax(
    features: Floats,
    codes: ArrayLike,
    *,
    n_labels: int,
    C: float = 1.0,
    balanced: bool = False,
    tol: float = 1e-4,
    max_iter: int = 200,
) -> SoftmaxClassifier:
    """Fit an L2-regularised softmax classifier; see the module for the objective.

    Equal inputs give equal results: nothing is random, and no other problem has an influence.

    Parameters
    ----------
    features
        Shape (n, d), float32 or float64. The work is done in this type; float32 is twice as fast and exact
        enough for `tol` down to about 1e-6.
    codes
        The label of every row, from 0 to ``n_labels - 1``.
    n_labels
        How many labels the classifier has; some may be absent from `codes`.
    C
        The inverse strength of the penalty.
    balanced
        Whether every label counts alike, as with scikit-learn's ``class_weight="balanced"``.
    tol
        How far above its minimum the objective may be, as a share of itself, by an estimate: the fit stops
        where the squared length of the gradient, measured with the approximate inverse of the curvature (the
        Newton decrement), is at most 0.1 `tol` of the objective. Where features are large and separate the
        labels well, the excess can be a little above `tol`.
    max_iter
        The largest number of steps.

    Raises
    ------
    DataError
        If features or codes cannot be used, or fewer than two labels occur.
    UsageError
        If an option cannot be used.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> classifier = fit_softmax(features, [0, 0, 2, 2], n_labels=3, C=10.0)
    >>> classifier.converged, classifier.predict_codes(features).tolist()
    (True, [0, 0, 2, 2])
    """
    check_options(n_labels=n_labels, C=C, tol=tol, max_iter=max_iter)
    matrix, labels = check_problem(features, codes, n_labels)
    present, own_codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(present) < 2:
        raise DataError(
            "a classifier needs at least two labels",
            got=f"{len(labels)} rows of {len(present)} label(s)",
            todo="leave the task out, or give it rows of another label",
        )
    costs = np.full(len(labels), C / 2 if len(present) == 2 else float(C))
    if balanced:
        costs *= (len(labels) / (len(present) * counts))[own_codes]
    own_weight, own_bias, n_iterations, converged = fit_present(
        matrix, own_codes.astype(np.int64), costs, n_labels=len(present), tol=tol, max_iter=max_iter
    )
    weight = np.zeros((matrix.shape[1], n_labels), dtype=matrix.dtype)
    bias = np.full(n_labels, NEVER, dtype=matrix.dtype)
    weight[:, present] = own_weight
    bias[present] = own_bias
    return SoftmaxClassifier(weight, bias, n_iterations, converged)


def fit_present(
    features: Floats,
    codes: NDArray[np.int64],
    costs: NDArray[np.float64],
    *,
    n_labels: int,
    tol: float,
    max_iter: int,
) -> tuple[Floats, Floats, int, bool]:
    """Solve a checked problem all of whose labels occur; the weight has shape (d, n_labels)."""
    centre = (costs @ features / costs.sum()).astype(features.dtype)
    centred = features - centre
    solution, bias, n_iterations, converged = minimise(
        centred, codes, costs.astype(features.dtype), n_labels=n_labels, tol=tol, max_iter=max_iter
    )
    weight = solution.T
    return weight, bias - centre @ weight, n_iterations, converged


def check_options(*, n_labels: int, C: float, tol: float, max_iter: int) -> None:
    """Refuse options that make no problem."""
    allowed = {
        "n_labels": (n_labels, n_labels >= 2, "at least 2"),
        "C": (C, np.isfinite(C) and C > 0, "a positive number"),
        "tol": (tol, np.isfinite(tol) and tol > 0, "a positive number"),
        "max_iter": (max_iter, max_iter >= 1, "at least 1"),
    }
    for name, (value, is_allowed, expected) in allowed.items():
        if not is_allowed:
            raise UsageError(f"{name} cannot be used", got=quote(value), expected=expected)


def check_problem(features: Any, codes: ArrayLike, n_labels: int) -> tuple[Floats, NDArray[np.int64]]:
    """Refuse features and codes that cannot be used, and give them as arrays."""
    matrix, labels = np.asarray(features), np.asarray(codes)
    if matrix.dtype not in (np.float32, np.float64) or matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            "the features cannot be used",
            got=f"{matrix.dtype} of shape {matrix.shape}",
            expected="float32 or float64 of shape (n, d), neither empty",
        )
    if labels.dtype.kind not in "iu" or labels.shape != matrix.shape[:1]:
        raise DataError(
            "the codes cannot be used",
            got=f"{labels.dtype} of shape {labels.shape}",
            expected=f"integers of shape ({len(matrix)},)",
        )
    if labels.min() < 0 or labels.max() >= n_labels:
        raise DataError(
            "a code is not one of the labels",
            got=f"{labels.min()} to {labels.max()}",
            expected=f"0 to {n_labels - 1}",
        )
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise DataError(
            "a feature is not finite", where=f"row {row}, column {column}", got=quote(matrix[row, column])
        )
    # One order in memory: sums in another order would differ in the last bit.
    return np.ascontiguousarray(matrix), labels.astype(np.int64)

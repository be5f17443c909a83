"""L2-regularised softmax regression on fixed features, solved to a given accuracy.

The objective is that of scikit-learn's LogisticRegression, with the same C:

    minimise over W (d, K) and b (K):   sum_i c_i * cross_entropy(softmax(x_i W + b), y_i) + 1/2 ||W||^2,

where c_i is C, or C n / (K n_label) for the rows of a label with n_label rows if `balanced`; the bias is not
penalised. For two labels scikit-learn penalises the single vector w = W_1 - W_0, and so do we: with
W_1 = -W_0 that is 1/2 ||w||^2 = ||W||^2, which is the problem above with C / 2.

The solver whitens the features once and then runs L-BFGS. The curvature of a label is about
M = h X' diag(c) X + I, with h half the mean of p (1 - p) at the start. In coordinates that turn M into the
identity, the scale and the correlation of the features no longer matter: a feature of size 10,000 needs as
many iterations as one of size 1. Logits are linear in the parameters, so a line search needs no product with
the features. All of it is done in double precision, but for the products with whitened float32 features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from robusttc.errors import DataError, UsageError, quote
from robusttc.params import Boolean, Constraint, Integer, Number, check_params

Floats = NDArray[np.float32] | NDArray[np.float64]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
# A step of L-BFGS, the change of the gradient, and their inner product.
Update = tuple[Doubles, Doubles, float]

# The bias of a label without rows: practically minus infinity, but sums with it stay finite.
NEVER = -1e30

CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "n_labels": (Integer(2),),
    "C": (Number(0, excludes=("low",)),),
    "balanced": (Boolean(),),
    "tol": (Number(0, excludes=("low",)),),
    "max_iter": (Integer(1),),
}
# How many steps L-BFGS remembers.
MEMORY = 10
# The Newton decrement is an estimate of the excess, and a low one where the curvature is not yet known well.
SAFETY = 0.03
MAX_TRIALS = 12  # of a step length
SHORTENING = 0.3
# The first step length is accepted if the slope has fallen to this share; else one Newton step corrects it.
ENOUGH_DESCENT = 0.5
# Below this `tol`, products in single precision are not exact enough.
SMALLEST_SINGLE_TOL = 1e-6


@dataclass(frozen=True, slots=True)
class SoftmaxClassifier:
    """A fitted classifier; a label without rows has weight 0 and bias `NEVER`, so it is never predicted."""

    weight: Floats  # (d, n_labels)
    bias: Floats
    n_iterations: int  # steps of L-BFGS
    converged: bool  # whether the stopping rule was met

    def logits(self, features: Floats) -> Floats:
        """Return the logits, shape (n, n_labels)."""
        if features.ndim != 2 or features.shape[1] != len(self.weight):
            raise UsageError(
                "the features do not fit the classifier",
                got=f"shape {features.shape}",
                expected=f"(n, {len(self.weight)})",
            )
        result: Floats = features @ self.weight + self.bias
        return result

    def predict_codes(self, features: Floats) -> Codes:
        """Return the most probable label of every row; the first one of equal ones."""
        codes: Codes = np.argmax(self.logits(features), axis=1)
        return codes

    def probabilities(self, features: Floats) -> Floats:
        """Return the probabilities of all labels, shape (n, n_labels)."""
        result: Floats = softmax(self.logits(features), axis=1)
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
    near: tuple[Floats, Floats] | None = None,
) -> SoftmaxClassifier:
    """Fit an L2-regularised softmax classifier; see the module for the objective.

    Deterministic: equal inputs give equal results.

    Parameters
    ----------
    features, codes
        Shape (n, d), float32 or float64, of any scale; the label of every row, from 0 to ``n_labels - 1``.
    n_labels
        Number of labels, at least 2; some may be absent from `codes`.
    C, balanced
        Inverse strength of the penalty, and whether all labels weigh the same, as in scikit-learn.
    tol
        How far above its minimum the objective may be, relative to its value, by an estimate: the fit stops
        when the Newton decrement (the squared length of the gradient, measured with the approximate inverse
        of the curvature) is at most 0.03 `tol` of the objective.
    max_iter
        Largest number of steps.
    near
        Weight and bias that the classifier is drawn to, in place of zero: then the distance from them is
        penalised, by the same C for two labels as for more, and labels without rows can be predicted.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> classifier = fit_softmax(features, [0, 0, 2, 2], n_labels=3, C=10.0)
    >>> classifier.converged, classifier.predict_codes(features).tolist()
    (True, [0, 0, 2, 2])
    """
    check_params(locals(), CONSTRAINTS)
    matrix = check_features(features)
    labels = check_codes(codes, n_rows=len(matrix), n_labels=n_labels)
    present, own_codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    costs = np.full(len(labels), float(C) / 2 if len(present) == 2 and near is None else float(C))
    if balanced:
        costs *= (len(labels) / (len(present) * counts))[own_codes]
    offset = None
    if near is not None:
        present, own_codes = np.arange(n_labels), labels
        offset = np.asarray(matrix @ near[0] + near[1], dtype=np.float64)
    centred = matrix.astype(np.float64)
    centre = costs @ centred / costs.sum()
    centred -= centre
    own_weight, own_bias, n_iterations, converged = minimise(
        centred,
        own_codes,
        costs,
        n_labels=len(present),
        offset=offset,
        tol=float(tol),
        max_iter=int(max_iter),
        product_type=matrix.dtype if tol >= SMALLEST_SINGLE_TOL else np.dtype(np.float64),
    )
    weight = np.zeros((matrix.shape[1], n_labels), dtype=matrix.dtype)
    bias = np.full(n_labels, NEVER, dtype=matrix.dtype)
    weight[:, present] = own_weight
    bias[present] = own_bias - centre @ own_weight
    if near is not None:
        weight, bias = (weight + near[0]).astype(matrix.dtype), (bias + near[1]).astype(matrix.dtype)
    return SoftmaxClassifier(weight, bias, n_iterations, converged)


def check_features(features: Any) -> Floats:
    """Return the features as an array; raise a DataError if they cannot be used."""
    matrix = np.asarray(features)
    if matrix.dtype not in (np.float32, np.float64) or matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            "the features cannot be used",
            got=f"{matrix.dtype} of shape {matrix.shape}",
            expected="float32 or float64 of shape (n, d), neither empty",
        )
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise DataError(
            "a feature is not finite", where=f"row {row}, column {column}", got=quote(matrix[row, column])
        )
    # One order in memory: sums in another order would differ in the last bit.
    return np.ascontiguousarray(matrix)


def check_codes(codes: ArrayLike, *, n_rows: int, n_labels: int) -> Codes:
    """Return the label of every row as an array; raise a DataError if nothing can be learned from them."""
    labels = np.asarray(codes)
    if n_rows == 0 or labels.dtype.kind not in "iu" or labels.shape != (n_rows,):
        raise DataError(
            "the labels cannot be used",
            got=f"{labels.dtype} of shape {labels.shape}",
            expected=f"one integer for each of {n_rows:,} rows, at least one",
        )
    low, high = labels.min(), labels.max()
    if low < 0 or high >= n_labels:
        raise DataError(
            "a label is out of range", got=f"{low} to {high}", expected=f"numbers from 0 to {n_labels - 1}"
        )
    if low == high:
        raise DataError(
            "all rows have the same label, so there is nothing to learn",
            got=f"label {low} in all of {n_rows:,} rows",
            todo="add rows of another label, or leave the task out",
        )
    return labels.astype(np.int64)


def minimise(
    features: Doubles,
    codes: Codes,
    costs: Doubles,
    *,
    n_labels: int,
    offset: Doubles | None,
    tol: float,
    max_iter: int,
    product_type: np.dtype[Any],
) -> tuple[Doubles, Doubles, int, bool]:
    """Solve the problem for centred features: weight, bias, steps, converged; `offset` is added to logits."""
    shares = np.bincount(codes, weights=costs, minlength=n_labels) / costs.sum()
    curvature = 0.5 * float(np.mean(shares * (1 - shares)))
    rows, penalty, back = whiten(features, curvature * costs)
    bias_scale = 1 / np.sqrt(curvature * costs.sum())
    rows = np.column_stack([rows, np.full(len(rows), bias_scale)]).astype(product_type)
    problem = WhitenedProblem(rows, np.append(penalty, 0.0)[:, None], codes, costs)
    point = np.zeros((rows.shape[1], n_labels))
    if offset is None:
        point[-1] = np.log(shares) / bias_scale
        offset = np.repeat(np.log(shares)[None], len(rows), axis=0)
    logits = offset
    value, probabilities = problem.loss(logits)  # no penalty yet: the weight is zero
    gradient = problem.gradient(point, probabilities)
    memory: list[Update] = []
    n_steps = 0
    while True:
        uphill = apply_inverse_curvature(gradient.ravel(), memory).reshape(point.shape)
        decrement = float(np.vdot(uphill, gradient))
        converged = decrement <= SAFETY * tol * value
        if converged or n_steps == max_iter:
            break
        change = rows @ -uphill.astype(product_type)
        found = problem.search_line(point, -uphill, logits, change, value, decrement)
        if found is None:
            break
        length, value, probabilities = found
        step = -length * uphill
        point = point + step
        logits += length * change
        n_steps += 1
        before, gradient = gradient, problem.gradient(point, probabilities)
        difference = (gradient - before).ravel()
        product = float(difference @ step.ravel())
        if product <= 0:
            break  # at the end of the precision a step does not change the gradient any more
        memory = [*memory[1 - MEMORY :], (step.ravel(), difference, product)]
    return back @ point[:-1], point[-1] * bias_scale, n_steps, converged


@dataclass(frozen=True, slots=True, eq=False)
class WhitenedProblem:
    """The objective at a point (r + 1, n_labels), for rows (n, r + 1) and a penalty (r + 1, 1)."""

    rows: Floats
    penalty: Doubles
    codes: Codes
    costs: Doubles

    def loss(self, logits: Doubles) -> tuple[float, Doubles]:
        """Return the loss and the probabilities."""
        top = logits.max(axis=1, keepdims=True)
        probabilities = np.exp(logits - top)
        total = probabilities.sum(axis=1, keepdims=True)
        probabilities /= total
        return float(self.costs @ ((np.log(total) + top)[:, 0] - self.of_codes(logits))), probabilities

    def gradient(self, point: Doubles, probabilities: Doubles) -> Doubles:
        """Return the gradient, of the shape of the point."""
        residuals = probabilities * self.costs[:, None]
        residuals[np.arange(len(self.codes)), self.codes] -= self.costs
        result: Doubles = self.rows.T @ residuals.astype(self.rows.dtype) + self.penalty * point
        return result

    def search_line(
        self,
        point: Doubles,
        direction: Doubles,
        logits: Doubles,
        change: Doubles,
        value: float,
        decrement: float,
    ) -> tuple[float, float, Doubles] | None:
        """Return a step length, the value and the probabilities there; None if no length goes down."""
        penalised = 0.5 * float(np.vdot(self.penalty * point, point))
        penalty_slope = float(np.vdot(self.penalty * point, direction))
        penalty_bend = float(np.vdot(self.penalty * direction, direction))
        length = 1.0
        for trial in range(MAX_TRIALS):
            loss, probabilities = self.loss(logits + length * change)
            there = loss + penalised + length * (penalty_slope + 0.5 * length * penalty_bend)
            if there > value:
                length *= SHORTENING
                continue
            weighted = probabilities * change
            means = weighted.sum(axis=1)
            slope = (
                float(self.costs @ (means - self.of_codes(change))) + penalty_slope + length * penalty_bend
            )
            if trial > 0 or abs(slope) <= ENOUGH_DESCENT * decrement:
                return length, there, probabilities
            bend = float(self.costs @ ((weighted * change).sum(axis=1) - means**2)) + penalty_bend
            if bend <= 0:
                return length, there, probabilities
            length = max(length - slope / bend, 0.1 * length)
        return None

    def of_codes(self, values: Doubles) -> Doubles:
        """Return the value at each row's own label."""
        own: Doubles = values[np.arange(len(self.codes)), self.codes]
        return own


def whiten(features: Doubles, costs: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Change to coordinates in which X' diag(costs) X + I is the identity.

    Returns the features in them, shape (n, r) with r at most d; the penalty of each coordinate; and the
    matrix (d, r) that leads back. With fewer rows than features the weight is in the span of the rows.
    """
    n, width = features.shape
    span: Doubles | None = None
    if n < 0.8 * width:  # else the decomposition below costs less than this one
        span, triangle = np.linalg.qr(features.T)
        features = np.ascontiguousarray(triangle.T)
    weighted = features * np.sqrt(costs)[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ weighted)
    penalty = 1 / (1 + np.maximum(values, 0.0))
    vectors = vectors * np.sqrt(penalty)
    return features @ vectors, penalty, vectors if span is None else span @ vectors


def apply_inverse_curvature(gradient: Doubles, memory: list[Update]) -> Doubles:
    """Multiply a gradient by the inverse curvature that L-BFGS knows; the identity while it knows nothing."""
    result = gradient.copy()
    shares = []
    for step, difference, product in reversed(memory):
        shares.append(step @ result / product)
        result -= shares[-1] * difference
    if memory:
        _, difference, product = memory[-1]
        result *= product / (difference @ difference)
    for (step, difference, product), share in zip(memory, reversed(shares), strict=True):
        result += (share - difference @ result / product) * step
    return result

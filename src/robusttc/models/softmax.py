"""L2-regularised softmax regression on fixed features, solved to a given accuracy.

The objective is that of scikit-learn's LogisticRegression, with the same C:

    minimise over W (d, K) and b (K):   sum_i c_i * cross_entropy(softmax(x_i W + b), y_i) + 1/2 ||W||^2,

where c_i is C, or C n / (K n_label) for the rows of a label with n_label rows if `balanced`; the bias is not
penalised. For two labels scikit-learn penalises the single vector w = W_1 - W_0, and so do we: with
W_1 = -W_0 that is 1/2 ||w||^2 = ||W||^2, which is the problem above with C / 2.

The solver is L-BFGS, preconditioned by one Cholesky factor. The curvature of a label is about
M = h X' diag(c) X + I, with h half the mean of p (1 - p) at the start; steps are measured by M, so that the
scale and the correlation of the features hardly matter: a feature of size 10,000 needs as many iterations as
one of size 1. With fewer rows than features the weight is X' A, and all is done with A and the Gram matrix
of the rows, where M^-1 X' is X' (X X' + diag(h c)^-1)^-1 diag(h c)^-1. Logits are linear in the parameters,
so a line search needs no product with the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.special import softmax

from robusttc.errors import DataError, UsageError, quote
from robusttc.params import Boolean, Constraint, Integer, Number, check_params

Floats = NDArray[np.float32] | NDArray[np.float64]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

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
LARGEST_SINGLE_CURVATURE = 1e5  # the trace of what can be inverted in single precision
LEAST_DIAGONAL = 1e-13  # to the trace of what it is added to
LARGEST_SIZE = 1e8  # of the square of a row, to what the penalty sets against it, for inner products
ROW_FEATURE = 1e-12  # the square of a feature that is a row's own, to that of all others
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
    n, width = features.shape
    # Where features are so large that the penalty hardly counts, small ones would be lost in inner products.
    size = curvature * float(costs.max()) * float(np.square(features).sum()) / n
    space: FeatureCoordinates | GramCoordinates
    if n < width and size <= LARGEST_SIZE:
        space = GramCoordinates(features, curvature * costs)
    else:
        space = FeatureCoordinates(features, curvature * costs, product_type)
    objective = Objective(codes, costs)
    point = space.zeros(n_labels)
    if offset is None:
        point[:, -1] = np.log(shares)
        offset = np.repeat(np.log(shares)[None], n, axis=0)
    logits = offset
    value, probabilities = objective.loss(logits)  # no penalty yet: the weight is zero
    gradient = space.gradient(point, objective.residuals(probabilities))
    uphill = space.precondition(gradient)
    memory: list[Update] = []
    n_steps = 0
    while True:
        direction = -apply_inverse_curvature(gradient, uphill, memory)
        decrement = -pair(direction, gradient)
        converged = decrement <= SAFETY * tol * value
        if converged or n_steps == max_iter:
            break
        change = space.logits(direction)
        found = objective.search_line(point, direction, logits, change, value, decrement)
        if found is None:
            break
        length, value, probabilities = found
        step = length * direction
        point = point + step
        logits += length * change
        n_steps += 1
        before, uphill_before = gradient, uphill
        gradient = space.gradient(point, objective.residuals(probabilities))
        uphill = space.precondition(gradient)
        difference = gradient - before
        product = pair(step, difference)
        if product <= 0:
            break  # at the end of the precision a step does not change the gradient any more
        kept = [vector.astype(space.kept_type) for vector in (step, difference, uphill - uphill_before)]
        memory = [*memory[1 - MEMORY :], Update(kept[0], kept[1], kept[2], product)]
    return space.weight(point), point[0, -1], n_steps, converged


# A vector of parameters has shape (1 or 2, coordinates + 1, labels), with the bias last: its coordinates and,
# if these are multiples of the rows, what the inner product with a gradient (coordinates + 1, labels) needs.


def pair(vector: NDArray[Any], gradient: NDArray[Any]) -> float:
    """Return by how much the objective changes along a vector."""
    return float(np.vdot(vector[-1], gradient))


def penalise(first: Doubles, second: Doubles) -> float:
    """Return the inner product of the weights of two vectors."""
    return float(np.vdot(first[0, :-1], second[-1, :-1]))


class FeatureCoordinates:
    """Weights as they are; M is factored in the space of the features."""

    def __init__(self, features: Doubles, costs: Doubles, product_type: np.dtype[Any]) -> None:
        self.rows = features.astype(product_type)
        self.kept_type = product_type  # of what L-BFGS remembers
        self.bias_curvature = costs.sum()
        sizes = np.square(features).sum(axis=1)
        is_small = float(costs @ sizes) <= LARGEST_SINGLE_CURVATURE
        # M measures steps, it is no part of the minimum: far from singular, single precision will do.
        single = product_type if is_small else np.dtype(np.float64)
        weighted = (features * np.sqrt(costs)[:, None]).astype(single)
        curvature = (weighted.T @ weighted).astype(np.float64)
        self.inverse = invert_safely(curvature, np.ones(features.shape[1]))[0].astype(single)

    def zeros(self, n_labels: int) -> Doubles:
        """Return the vector of zeros."""
        return np.zeros((1, self.rows.shape[1] + 1, n_labels))

    def gradient(self, point: Doubles, residuals: Doubles) -> Doubles:
        """Return the gradient of loss and penalty; `residuals` is that of the loss by logits."""
        weight = self.rows.T @ residuals.astype(self.rows.dtype) + point[0, :-1]
        return np.vstack([weight, residuals.sum(axis=0)])

    def precondition(self, gradient: Doubles) -> Doubles:
        """Multiply a gradient by M^-1."""
        weight = self.inverse @ gradient[:-1].astype(self.inverse.dtype)
        return np.vstack([weight, gradient[-1] / self.bias_curvature])[None]

    def logits(self, vector: Doubles) -> Doubles:
        """Return the logits of all rows."""
        product = self.rows @ vector[0, :-1].astype(self.rows.dtype)
        return np.asarray(product + vector[0, -1], dtype=np.float64)

    def weight(self, vector: Doubles) -> Doubles:
        """Return the weight (features, labels)."""
        return np.asarray(vector[0, :-1])


class GramCoordinates:
    """Weights as multiples of rows; the same steps as with `FeatureCoordinates`, up to rounding."""

    def __init__(self, features: Doubles, costs: Doubles) -> None:
        self.rows, self.gram = features, features @ features.T
        # Multiples of rows and what they stand for must agree to the last digit.
        self.kept_type = np.dtype(np.float64)
        # As if each row had a small feature of its own: multiples that make no difference cannot grow.
        self.gram += np.diag(np.full(len(costs), ROW_FEATURE * float(np.trace(self.gram)) / len(costs)))
        self.bias_curvature = costs.sum()
        self.inverse, self.inverse_costs = invert_safely(self.gram, 1 / costs)

    def zeros(self, n_labels: int) -> Doubles:
        """Return the vector of zeros."""
        return np.zeros((2, len(self.rows) + 1, n_labels))

    def gradient(self, point: Doubles, residuals: Doubles) -> Doubles:
        """Return the gradient of loss and penalty; `residuals` is that of the loss by logits."""
        return np.vstack([residuals + point[0, :-1], residuals.sum(axis=0)])

    def precondition(self, gradient: Doubles) -> Doubles:
        """Multiply a gradient by M^-1."""
        multiples = self.inverse @ (self.inverse_costs[:, None] * gradient[:-1])
        bias = gradient[-1] / self.bias_curvature
        return np.stack([np.vstack([multiples, bias]), np.vstack([self.gram @ multiples, bias])])

    def logits(self, vector: Doubles) -> Doubles:
        """Return the logits of all rows."""
        return np.asarray(vector[1, :-1] + vector[1, -1])

    def weight(self, vector: Doubles) -> Doubles:
        """Return the weight (features, labels)."""
        return np.asarray(self.rows.T @ vector[0, :-1])


def invert_safely(matrix: Doubles, diagonal: Doubles) -> tuple[Doubles, Doubles]:
    """Return the inverse of a matrix plus a diagonal, and the diagonal that was added.

    A diagonal below rounding of the matrix is raised: that makes steps shorter, and moves no minimum.
    """
    diagonal = np.maximum(diagonal, LEAST_DIAGONAL * float(np.trace(matrix)))
    factor, _ = dpotrf(matrix + np.diag(diagonal), lower=1, overwrite_a=1)
    lower, _ = dpotri(factor, lower=1, overwrite_c=1)
    lower = np.tril(lower)
    return lower + np.tril(lower, -1).T, diagonal


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What L-BFGS remembers of a step: the change of the gradient, and that multiplied by M^-1."""

    step: NDArray[Any]
    difference: NDArray[Any]
    uphill: NDArray[Any]
    product: float  # of the step and the change


def apply_inverse_curvature(gradient: Doubles, uphill: Doubles, memory: list[Update]) -> Doubles:
    """Multiply a gradient by the inverse curvature that L-BFGS knows; `uphill` is M^-1 times the gradient."""
    if not memory:
        return uphill
    # Remembered vectors may be in single precision.
    left, result = (array.astype(memory[-1].step.dtype) for array in (gradient, uphill))
    shares = []
    for update in reversed(memory):
        shares.append(pair(update.step, left) / update.product)
        left -= shares[-1] * update.difference
        result -= shares[-1] * update.uphill
    result *= memory[-1].product / pair(memory[-1].uphill, memory[-1].difference)
    for update, share in zip(memory, reversed(shares), strict=True):
        result += (share - pair(result, update.difference) / update.product) * update.step
    return np.asarray(result, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """The loss of rows of some labels and costs, and the search along a line."""

    codes: Codes
    costs: Doubles

    def loss(self, logits: Doubles) -> tuple[float, Doubles]:
        """Return the loss and the probabilities."""
        top = logits.max(axis=1, keepdims=True)
        probabilities = np.exp(logits - top)
        total = probabilities.sum(axis=1, keepdims=True)
        probabilities /= total
        return float(self.costs @ ((np.log(total) + top)[:, 0] - self.of_codes(logits))), probabilities

    def residuals(self, probabilities: Doubles) -> Doubles:
        """Return the gradient of the loss by logits."""
        found = probabilities * self.costs[:, None]
        found[np.arange(len(self.codes)), self.codes] -= self.costs
        return found

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
        penalised = 0.5 * penalise(point, point)
        penalty_slope, penalty_bend = penalise(point, direction), penalise(direction, direction)
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

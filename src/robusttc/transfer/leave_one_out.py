"""Leave-one-out predictions of a ridge classifier, in closed form.

On the representation r_i (centred) of the n rows of a task, with one-hot labels y_i, ridge regression with an
unpenalised intercept predicts, for a row that it has not seen,

    p_i = y_i - (y_i - mean(y) - B' r_i) / (1 - h_i),    B = (R'R + ridge I)^-1 R'Y,
    h_i = 1/n + r_i' (R'R + ridge I)^-1 r_i,

exactly what n fits with one row left out would give. Two scores of a row are made of it, higher is better:

* `brier`: minus the squared distance of p_i from y_i;
* `log_likelihood`: the log-probability of the row's label under softmax(t p_i), with the one temperature t
  that makes the rows of the task likeliest (found on some hundred of them, and last on all). One
  number flatters next to nothing, and without it the numbers of a ridge classifier, which are no log-odds,
  would be punished for their scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.models import compiled

__all__ = ["leave_one_out_brier", "leave_one_out_log_likelihood", "leave_one_out_predictions"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# The temperature is found by Newton's method, within these bounds: beyond them softmax hardly changes.
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-2, 1e3
MAX_NEWTON_STEPS = 30
# The likelihood is flat at its top: a temperature this near to the best (relative) changes it by a millionth.
TEMPERATURE_TOLERANCE = 1e-3
# Most steps need no more rows than this; those on all rows end with one that is shorter than the tolerance,
# after which what is left is about its square.
MAX_TEMPERATURE_ROWS = 256
LAST_STEP_TOLERANCE = 0.03
GOLDEN_RATIO = (5**0.5 - 1) / 2
# For `exponentials`: 1/k! from k = 2 to 10; below 2**-126 a probability is zero for all purposes.
FACTORIALS = tuple(1.0 / np.cumprod(np.arange(1.0, 11.0))[1:])
LN_2, SMALLEST_POWER = float(np.log(2)), -126.0


@compiled
def exponentials(values: Floats) -> Floats:
    """Return the exponentials of numbers up to 0: 2**k, made from its bits, times a polynomial.

    Vector instructions do this an order of magnitude faster than the exponential of the C library; the
    relative error is below 1e-12.
    """
    c2, c3, c4, c5, c6, c7, c8, c9, c10 = FACTORIALS
    exponents = np.empty(len(values), dtype=np.int64)
    result = np.empty(len(values))
    for i in range(len(values)):
        x = max(values[i] / LN_2, SMALLEST_POWER)
        k = np.floor(x + 0.5)
        exponents[i] = (np.int64(k) + 1023) << 52
        result[i] = (x - k) * LN_2
    powers = exponents.view(np.float64)
    for i in range(len(values)):
        r = result[i]
        p = c6 + r * (c7 + r * (c8 + r * (c9 + r * c10)))
        result[i] = powers[i] * (1.0 + r * (1.0 + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * p))))))
    return result


@compiled
def standardise(features: NDArray[np.float32]) -> Floats:
    """Centre the features, and scale them together so that a row's mean squared length is their number."""
    n, width = features.shape
    centred = np.empty((n, width))
    mean = np.zeros(width)
    for row in range(n):
        for column in range(width):
            mean[column] += features[row, column]
    mean /= n
    total = 0.0
    for row in range(n):
        for column in range(width):
            value = features[row, column] - mean[column]
            centred[row, column] = value
            total += value * value
    if total > 0.0:
        centred *= np.sqrt(n * width / total)
    return centred


@compiled
def solve_ridge(centred: Floats, codes: Codes, n_labels: int, ridge: float) -> tuple[Floats, Floats]:
    """Give B, shape (width, labels), and the leverage h of every row."""
    n, width = centred.shape
    gram = np.dot(centred.T, centred)
    for column in range(width):
        gram[column, column] += ridge
    inverse = np.linalg.inv(gram)
    sums = np.zeros((width, n_labels))
    for row in range(n):
        for column in range(width):
            sums[column, codes[row]] += centred[row, column]
    projected = np.dot(centred, inverse)
    leverage = np.empty(n)
    for row in range(n):
        total = 1.0 / n
        for column in range(width):
            total += projected[row, column] * centred[row, column]
        leverage[row] = total
    return np.dot(inverse, sums), leverage


@compiled
def label_shares(codes: Codes, n_labels: int) -> Floats:
    """Give the share of every label."""
    shares = np.zeros(n_labels)
    for code in codes:
        shares[code] += 1.0
    return shares / len(codes)


@compiled
def leave_one_out_predictions(
    features: NDArray[np.float32], codes: Codes, n_labels: int, ridge: float
) -> Floats:
    """Give the leave-one-out predictions p, shape (rows, labels); see the module.

    Examples
    --------
    >>> features = np.array([[0.0], [0.1], [1.0], [0.9]], dtype=np.float32)
    >>> leave_one_out_predictions(features, np.array([0, 0, 1, 1]), 2, 0.1).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    centred = standardise(features)
    coefficients, leverage = solve_ridge(centred, codes, n_labels, ridge)
    shares = label_shares(codes, n_labels)
    predictions: Floats = np.dot(centred, coefficients)
    for row in range(len(codes)):
        left = 1.0 - leverage[row]
        for label in range(n_labels):
            truth = 1.0 if label == codes[row] else 0.0
            predictions[row, label] = truth - (truth - predictions[row, label] - shares[label]) / left
    return predictions


@compiled
def leave_one_out_brier(features: NDArray[np.float32], codes: Codes, n_labels: int, ridge: float) -> Floats:
    """Give minus the squared error of every row, without ever writing down a row of predictions.

    The squared length of a prediction is a quadratic form of the representation, so a row costs width**2
    whatever the number of labels is.
    """
    centred = standardise(features)
    n, width = centred.shape
    coefficients, leverage = solve_ridge(centred, codes, n_labels, ridge)
    shares = label_shares(codes, n_labels)
    square = np.dot(coefficients, coefficients.T)
    linear = 2.0 * np.dot(coefficients, shares)
    constant = np.dot(shares, shares)
    form = np.dot(centred, square)
    scores = np.empty(n)
    for row in range(n):
        code = codes[row]
        own, length = shares[code], constant
        for column in range(width):
            value = centred[row, column]
            own += value * coefficients[column, code]
            length += value * (linear[column] + form[row, column])
        left = 1.0 - leverage[row]
        scores[row] = -(1.0 - 2.0 * own + length) / (left * left)
    return scores


def leave_one_out_log_likelihood(
    features: NDArray[np.float32], codes: Codes, n_labels: int, ridge: float
) -> Floats:
    """Give the log-probability of every row's label; see the module."""
    predictions = leave_one_out_predictions(features, codes, n_labels, ridge)
    return log_probabilities(predictions, codes)


@compiled
def log_probabilities(predictions: Floats, codes: Codes) -> Floats:
    """Give the log-probability of every row's label at the likeliest temperature; changes `predictions`."""
    n, n_labels = predictions.shape
    # The largest prediction is taken off every row once: then no exponential overflows, at any temperature.
    for row in range(n):
        predictions[row] -= predictions[row].max()
    temperature = likeliest_temperature(predictions, codes)
    weights = exponentials(predictions.ravel() * temperature)
    scores = np.empty(n)
    for row in range(n):
        total = weights[row * n_labels : (row + 1) * n_labels].sum()
        scores[row] = temperature * predictions[row, codes[row]] - np.log(total)
    return scores


@compiled
def likeliest_temperature(predictions: Floats, codes: Codes) -> float:
    """Find the temperature by Newton's method, on some rows, and then by the last steps on all of them."""
    n = len(predictions)
    rows = np.arange(n)
    if n > MAX_TEMPERATURE_ROWS:
        # Multiples of the golden ratio are spread evenly over the task, and fall in step with no order of its
        # rows: every second row, say, may be all of one label.
        rows = (np.arange(MAX_TEMPERATURE_ROWS) * GOLDEN_RATIO % 1.0 * n).astype(np.int64)
    chosen, truth = predictions[rows], codes[rows]
    temperature: float = 3.0
    for _ in range(MAX_NEWTON_STEPS):
        before = temperature
        temperature = step_temperature(chosen, truth, temperature)
        if abs(temperature / before - 1.0) < TEMPERATURE_TOLERANCE:
            break
    for _ in range(MAX_NEWTON_STEPS if n > len(rows) else 0):
        before = temperature
        temperature = step_temperature(predictions, codes, temperature)
        if abs(temperature / before - 1.0) < LAST_STEP_TOLERANCE:
            break
    return float(temperature)


@compiled
def step_temperature(predictions: Floats, codes: Codes, temperature: float) -> float:
    """Give the temperature after one step of Newton's method in its logarithm."""
    n, n_labels = predictions.shape
    values = predictions.ravel()
    weights = exponentials(values * temperature)
    slope, curvature = 0.0, 0.0
    for row in range(n):
        total, first, second = 0.0, 0.0, 0.0
        for place in range(row * n_labels, (row + 1) * n_labels):
            weighted = weights[place] * values[place]
            total += weights[place]
            first += weighted
            second += weighted * values[place]
        mean = first / total
        slope += predictions[row, codes[row]] - mean
        curvature += second / total - mean * mean
    if curvature <= 0.0:
        return float(temperature)
    # In the logarithm of the temperature no step leaves the positive numbers; a long one, which Newton's
    # method gets wrong, is shortened.
    move = slope / (temperature * curvature)
    if abs(move) > 0.5:
        move /= 1.0 + 0.5 * abs(move)
    return float(min(max(temperature * np.exp(move), LOWEST_TEMPERATURE), HIGHEST_TEMPERATURE))

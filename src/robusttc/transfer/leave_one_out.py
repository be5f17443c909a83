"""Leave-one-out predictions of a ridge classifier, in closed form.

On the representation r_i (centred) of the n rows of a task, with one-hot labels y_i, ridge regression with an
unpenalised intercept predicts, for a row that it has not seen,

    p_i = y_i - (y_i - mean(y) - B' r_i) / (1 - h_i),    B = (R'R + ridge I)^-1 R'Y,
    h_i = 1/n + r_i' (R'R + ridge I)^-1 r_i,

exactly what n fits with one row left out each would predict. Two scores of a row, higher is better:

* Brier score: minus the squared distance of p_i from y_i;
* log-likelihood: the log-probability of the row's label under softmax(t p_i), with the one temperature t
  that maximises the likelihood of the task's rows. Predictions of a ridge classifier are not log-odds, and
  without a temperature they would be punished for their scale.
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
ROUNDING = 1e-24  # of a squared length
GOLDEN_RATIO = (5**0.5 - 1) / 2
LN_2 = float(np.log(2))
SMALLEST_POWER = -1000.0  # 2**-1000: zero for all purposes


@compiled
def leave_one_out_predictions(
    features: NDArray[np.float32], codes: Codes, n_labels: int, ridge: float
) -> Floats:
    """Return the leave-one-out predictions p, shape (rows, labels); see the module.

    Features are centred, and scaled together so that the mean squared length of a row is their number. Loops
    take less than half the time of array expressions: 14 and 36 microseconds for 400 rows and 13 labels.
    """
    n, width = features.shape
    centred = np.empty((n, width))
    means = np.zeros(width)
    for row in range(n):
        for column in range(width):
            means[column] += features[row, column]
    means /= n
    total, length = 0.0, 0.0
    for row in range(n):
        for column in range(width):
            centred[row, column] = features[row, column] - means[column]
            total += centred[row, column] ** 2
            length += float(features[row, column]) ** 2
    # What is left of constant features is rounding error, which must not be scaled up.
    centred *= np.sqrt(n * width / total) if total > ROUNDING * length else 0.0
    inverse = np.linalg.inv(np.dot(centred.T, centred) + ridge * np.eye(width))
    projected = np.dot(centred, inverse)  # (rows, width)
    shares = np.zeros(n_labels)
    sums = np.zeros((width, n_labels))  # R'Y
    leverage = np.full(n, 1.0 / n)
    for row in range(n):
        shares[codes[row]] += 1.0 / n
        for column in range(width):
            sums[column, codes[row]] += centred[row, column]
            leverage[row] += projected[row, column] * centred[row, column]
    predictions: Floats = np.dot(projected, sums)
    for row in range(n):
        scale = 1.0 / (1.0 - leverage[row])
        for label in range(n_labels):
            truth = 1.0 if label == codes[row] else 0.0
            predictions[row, label] = truth - scale * (truth - predictions[row, label] - shares[label])
    return predictions


def leave_one_out_brier(features: NDArray[np.float32], codes: Codes, n_labels: int, ridge: float) -> Floats:
    """Return minus the squared error of every row's prediction."""
    predictions = leave_one_out_predictions(features, codes, n_labels, ridge)
    predictions[np.arange(len(codes)), codes] -= 1.0
    return np.asarray(-(predictions**2).sum(axis=1))


@compiled
def leave_one_out_log_likelihood(
    features: NDArray[np.float32], codes: Codes, n_labels: int, ridge: float
) -> Floats:
    """Return the log-probability of every row's label, at the temperature that suits the task best."""
    predictions = leave_one_out_predictions(features, codes, n_labels, ridge)
    n = len(codes)
    # With the largest prediction subtracted from every row no exponential overflows, at any temperature.
    for row in range(n):
        predictions[row] -= predictions[row].max()
    temperature = find_temperature(predictions, codes)
    weights = exponentials(temperature * predictions.ravel()).reshape(predictions.shape)
    scores = np.empty(n)
    for row in range(n):
        scores[row] = temperature * predictions[row, codes[row]] - np.log(weights[row].sum())
    return scores


@compiled
def exponentials(values: Floats) -> Floats:
    """Return the exponentials of numbers up to 0: 2**k, made from its bits, times a polynomial.

    The compiler turns these loops into vector instructions. With np.exp, the log-likelihood of 400 rows and
    13 labels takes 2.0 times as long, and S of 60 bots 1.3 times.
    """
    bits = np.empty(len(values), dtype=np.int64)
    rest = np.empty(len(values))
    for i in range(len(values)):
        x = max(values[i] * (1.0 / LN_2), SMALLEST_POWER)
        k = np.floor(x + 0.5)
        bits[i] = (np.int64(k) + 1023) << 52
        rest[i] = (x - k) * LN_2
    powers = bits.view(np.float64)
    for i in range(len(values)):
        r = rest[i]
        series = 1.0
        for divisor in (11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0):
            series = 1.0 + series * r * (1.0 / divisor)
        rest[i] = powers[i] * series
    return rest


@compiled
def find_temperature(predictions: Floats, codes: Codes) -> float:
    """Return the temperature of the highest likelihood, found on some rows, with the last steps on all."""
    n = len(predictions)
    rows = np.arange(n)
    if n > MAX_TEMPERATURE_ROWS:
        # Multiples of the golden ratio are spread evenly over the task and do not follow any order of its
        # rows: every second row, say, may be of one label.
        rows = (np.arange(MAX_TEMPERATURE_ROWS) * GOLDEN_RATIO % 1.0 * n).astype(np.int64)
    chosen, truth = predictions[rows], codes[rows]
    temperature = 3.0
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
    return temperature


@compiled
def step_temperature(predictions: Floats, codes: Codes, temperature: float) -> float:
    """Return the temperature after one step of Newton's method in its logarithm."""
    n, n_labels = predictions.shape
    weights = exponentials(temperature * predictions.ravel()).reshape(predictions.shape)
    slope, curvature = 0.0, 0.0
    for row in range(n):
        total, first, second = 0.0, 0.0, 0.0
        for label in range(n_labels):
            value, weight = predictions[row, label], weights[row, label]
            total += weight
            first += weight * value
            second += weight * value * value
        mean = first / total
        slope += predictions[row, codes[row]] - mean
        curvature += second / total - mean * mean
    if curvature <= 0.0:
        return temperature
    # In the logarithm of the temperature no step leaves the positive numbers; a long one, which Newton's
    # method gets wrong, is shortened.
    move = slope / (temperature * curvature)
    if abs(move) > 0.5:
        move /= 1.0 + 0.5 * abs(move)
    return float(min(max(temperature * np.exp(move), LOWEST_TEMPERATURE), HIGHEST_TEMPERATURE))

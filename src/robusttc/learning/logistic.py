"""A logistic regression of few features and weighted rows, to convergence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_logistic", "squash"]

# On features of unit variance: it keeps the slopes finite where the two classes are apart.
PENALTY = 1e-3
MAX_STEPS = 100
SMALLEST_GRADIENT = 1e-10


def fit_logistic(
    features: NDArray[np.float64], targets: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Minimise the weighted log-loss, by Newton's method with halved steps; give slopes and intercept.

    ``sum_i weights[i] * log_loss_i + 1/2 * 1e-3 * ||slopes * spread||^2``, with ``spread`` the standard
    deviation of every feature; the intercept is not penalised.

    Parameters
    ----------
    features
        Shape (rows, features).
    targets
        0 or 1 a row.
    weights
        What a row counts, with sum 1.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> slopes, intercept = fit_logistic(features, np.array([0.0, 1.0, 0.0, 1.0]), np.full(4, 0.25))
    >>> bool(slopes[0] > 0), round(float(slopes[0] * 1.5 + intercept), 6)
    (True, 0.0)
    """
    centre = weights @ features
    spread = np.sqrt(weights @ (features - centre) ** 2)
    spread[spread < 1e-9] = 1.0
    design = np.column_stack([(features - centre) / spread, np.ones(len(features))])
    penalty = np.array([PENALTY] * features.shape[1] + [0.0])
    solution = np.zeros(design.shape[1])

    def loss(candidate: NDArray[np.float64]) -> float:
        logits = design @ candidate
        log_loss = np.logaddexp(0.0, logits) - targets * logits
        return float(weights @ log_loss + candidate @ (penalty * candidate) / 2)

    for _ in range(MAX_STEPS):
        probability = squash(design @ solution)
        gradient = design.T @ (weights * (probability - targets)) + penalty * solution
        if np.abs(gradient).max() < SMALLEST_GRADIENT:
            break
        spreads = weights * probability * (1.0 - probability)
        step = np.linalg.solve((design * spreads[:, None]).T @ design + np.diag(penalty), gradient)
        length, before = 1.0, loss(solution)
        while loss(solution - length * step) > before and length > 1e-6:
            length /= 2
        solution = solution - length * step
    slopes = solution[:-1] / spread
    return slopes, float(solution[-1] - slopes @ centre)


def squash(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the logistic function, without overflow on either side.

    >>> squash(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    small = np.exp(-np.abs(values))
    return np.where(values >= 0.0, 1.0 / (1.0 + small), small / (1.0 + small))

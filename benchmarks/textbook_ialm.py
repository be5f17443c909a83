"""The plain way to complete: textbook inexact ALM with a full SVD a round (Lin, Chen and Ma), rho = 1.5.

Missing entries are treated as usual: their errors are free. It stops, as usual, when Y - X - E is small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def textbook_ialm(
    Y: Matrix,
    observed: NDArray[np.bool_],
    lam: float,
    *,
    rho: float = 1.5,
    tol: float = 1e-7,
    max_iter: int = 500,
) -> tuple[Matrix, int]:
    """Give X and the number of rounds."""
    D = np.where(observed, Y, 0.0)
    spectral = float(np.linalg.norm(D, 2))
    multiplier = D / max(spectral, float(np.abs(D).max()) / lam)
    mu = 1.25 / spectral
    highest = mu * 1e7
    X, E = np.zeros_like(D), np.zeros_like(D)
    rounds = 0
    while rounds < max_iter:
        rounds += 1
        left, values, right = np.linalg.svd(D - E + multiplier / mu)
        values = np.maximum(values - 1 / mu, 0.0)
        X = (left * values) @ right
        target = D - X + multiplier / mu
        E = np.where(observed, np.sign(target) * np.maximum(np.abs(target) - lam / mu, 0.0), target)
        rest = D - X - E
        multiplier = multiplier + mu * rest
        mu = min(rho * mu, highest)
        if np.linalg.norm(rest) <= tol * np.linalg.norm(D):
            break
    return X, rounds

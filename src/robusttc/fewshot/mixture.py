"""The mixture weights of Eq. 3: how far each cluster's predictor serves a new task."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import DataError, UsageError, quote

__all__ = ["PRIOR_ROWS", "learn_mixture"]

# The prior counts as much as so many support rows, dealt evenly to the components: without it, a handful of
# rows would put all weight on one cluster.
PRIOR_ROWS = 2.0
MAX_ITERATIONS = 20_000


def learn_mixture(
    likelihoods: NDArray[np.floating], *, prior_rows: float = PRIOR_ROWS, tol: float = 1e-9
) -> NDArray[np.float64]:
    """Learn alpha on the simplex: what makes the labels of the support set most likely.

    Maximises sum_i log(sum_k alpha_k p_ik) + (prior_rows / K) sum_k log(alpha_k), which is concave, by the EM
    algorithm, which climbs to its one maximum.

    Parameters
    ----------
    likelihoods
        p_ik, shape (support rows, components): the probability that component k gives to the true label of
        row i, by a predictor that has not seen row i. No rows: the weights are even.
    prior_rows
        The strength of the prior towards even weights, in rows; 0 for none.
    tol
        The climb ends where no weight moves by more than this in a step.

    Returns
    -------
    numpy.ndarray
        Shape (components,), from 0 up, with sum 1.

    Raises
    ------
    DataError
        If a likelihood is negative or not finite.
    UsageError
        If there is no component, or the prior is negative.

    Examples
    --------
    >>> learn_mixture(np.array([[0.9, 0.1], [0.8, 0.1], [0.9, 0.3]])).round(2).tolist()
    [0.77, 0.23]
    """
    table = np.asarray(likelihoods, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] == 0:
        raise UsageError("there is nothing to mix", got=f"shape {table.shape}", expected="(rows, components)")
    if not (np.isfinite(prior_rows) and prior_rows >= 0):
        raise UsageError("prior_rows cannot be used", got=quote(prior_rows), expected="a number from 0 up")
    if not np.isfinite(table).all() or (table < 0).any():
        raise DataError("a likelihood cannot be used", expected="finite numbers from 0 up")
    n_components = table.shape[1]
    even = np.full(n_components, 1 / n_components)
    # A row that no component gives any chance says nothing about which one is better.
    table = table[table.max(axis=1) > 0]
    if len(table) == 0 or n_components == 1:
        return even
    table = table / table.max(axis=1, keepdims=True)
    weights = even
    for _ in range(MAX_ITERATIONS):
        shares = table * weights
        shares /= shares.sum(axis=1, keepdims=True)
        moved = (shares.sum(axis=0) + prior_rows * even) / (len(table) + prior_rows)
        change = float(np.abs(moved - weights).max())
        weights = moved
        if change <= tol:
            break
    return np.asarray(weights / weights.sum())

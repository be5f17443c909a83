r"""A softmax classifier on dense and sparse features side by side, fitted to convergence.

The objective is that of `robusttc.models.softmax`, with the same C and the same weights of labels:

.. math:: C \sum_i c_i\, \mathrm{cross\ entropy}_i + \frac12 \|W\|^2,

for two labels with C / 2. That module takes dense features; those of n-grams have thousands of columns,
nearly all of them zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from robusttc.models import NEVER

__all__ = ["fit_sparse_softmax"]

Floats = NDArray[np.float64]


def fit_sparse_softmax(
    dense: Floats,
    thin: sparse.csr_array,
    codes: NDArray[np.int64],
    *,
    n_labels: int,
    C: float,
    balanced: bool,
    tol: float = 1e-7,
) -> tuple[Floats, Floats, Floats]:
    """Fit the classifier; at least two labels must occur.

    Parameters
    ----------
    dense, thin
        Both parts of the features, shapes (n, d) and (n, s).
    codes
        The label of every row.
    n_labels
        How many labels there are; one that does not occur gets the bias `NEVER`.
    C
        The inverse strength of the penalty.
    balanced
        Whether every label counts alike.
    tol
        The fit stops where a step lowers the objective by less than this share of it.

    Returns
    -------
    dense_weight, thin_weight, bias
        Shapes (d, n_labels), (s, n_labels) and (n_labels,).

    Examples
    --------
    >>> rows = np.array([[-1.0], [1.0]])
    >>> weight, _, bias = fit_sparse_softmax(
    ...     rows, sparse.csr_array((2, 0)), np.array([0, 1]), n_labels=2, C=1.0, balanced=False
    ... )
    >>> (rows @ weight + bias).argmax(axis=1).tolist()
    [0, 1]
    """
    present, own, counts = np.unique(codes, return_inverse=True, return_counts=True)
    n_rows, n_own = len(codes), len(present)
    costs = np.full(n_rows, C / 2 if n_own == 2 else C)
    if balanced:
        costs *= (n_rows / (n_own * counts))[own]
    # The bias takes up the mean, and without it the columns are less alike.
    centre = costs @ dense / costs.sum()
    columns = sparse.csr_array(np.hstack([dense - centre, np.ones((n_rows, 1))]))
    features = sparse.csr_array(sparse.hstack([columns, thin]))
    penalty = np.ones(features.shape[1])
    penalty[dense.shape[1]] = 0.0
    # In these coordinates every column has about the same curvature, and few steps are needed.
    curvature = (n_own - 1) / n_own**2
    scale = 1 / np.sqrt(penalty + curvature * (features.multiply(features).T @ costs))
    scaled = sparse.csr_array(features.multiply(scale[None, :]))
    turned = sparse.csr_array(scaled.T)
    own_penalty = (penalty * scale**2)[:, None]
    rows = np.arange(n_rows)

    def objective(point: Floats) -> tuple[float, Floats]:
        weight = point.reshape(-1, n_own)
        logits = scaled @ weight
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits)
        sums = shares.sum(axis=1)
        loss = float(costs @ (np.log(sums) - logits[rows, own]))
        shares /= sums[:, None]
        shares[rows, own] -= 1.0
        gradient = turned @ (shares * costs[:, None]) + own_penalty * weight
        return loss + float((own_penalty * weight**2).sum()) / 2, gradient.ravel()

    result = optimize.minimize(
        objective,
        np.zeros(features.shape[1] * n_own),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": tol, "gtol": 1e-8, "maxcor": 10},
    )
    solution = result.x.reshape(-1, n_own) * scale[:, None]
    width = dense.shape[1]
    weight, bias = np.zeros((features.shape[1] - 1, n_labels)), np.full(n_labels, NEVER)
    weight[:, present] = np.delete(solution, width, axis=0)
    bias[present] = solution[width] - centre @ solution[:width]
    return weight[:width], weight[width:], bias

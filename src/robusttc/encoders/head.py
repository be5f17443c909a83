"""The softmax classifier on top of a batch of representations: its loss and all gradients in one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled

__all__ = ["head_gradients"]

Floats = NDArray[np.float32]


@compiled
def head_gradients(
    representation: Floats,
    kept: NDArray[np.bool_],
    dropout: float,
    codes: NDArray[np.int64],
    weight: Floats,
    bias: Floats,
) -> tuple[float, Floats, Floats, Floats]:
    """Give the mean cross-entropy of a batch, and its gradients.

    Parameters
    ----------
    representation
        Shape (rows, width), before dropout.
    kept, dropout
        What is kept of it, same shape; what is kept is divided by 1 - `dropout`.
    codes
        The label of every row.
    weight, bias
        Shapes (width, labels) and (labels,).

    Returns
    -------
    loss, representation_gradient, weight_gradient, bias_gradient
        The gradients have the shapes of what they belong to.
    """
    n_rows, width = representation.shape
    n_labels = len(bias)
    scale = np.float32(1.0 / (1.0 - dropout))
    dropped = np.empty((n_rows, width), dtype=np.float32)
    for row in range(n_rows):
        for f in range(width):
            dropped[row, f] = representation[row, f] * scale if kept[row, f] else np.float32(0.0)
    # From here on `shares` are the logits, the probabilities, and then the gradient of the logits.
    shares = np.dot(dropped, weight)
    bias_gradient = np.zeros(n_labels, dtype=np.float32)
    loss = 0.0
    for row in range(n_rows):
        highest = np.float32(-np.inf)
        for label in range(n_labels):
            shares[row, label] += bias[label]
            highest = max(highest, shares[row, label])
        total = np.float32(0.0)
        for label in range(n_labels):
            shares[row, label] = np.exp(shares[row, label] - highest)
            total += shares[row, label]
        loss -= np.log(max(shares[row, codes[row]] / total, np.float32(1e-30)))
        for label in range(n_labels):
            shares[row, label] /= total
        shares[row, codes[row]] -= np.float32(1.0)
        for label in range(n_labels):
            shares[row, label] /= np.float32(n_rows)
            bias_gradient[label] += shares[row, label]
    weight_gradient = np.dot(dropped.T, shares)
    representation_gradient = np.dot(shares, weight.T)
    for row in range(n_rows):
        for f in range(width):
            kept_share = representation_gradient[row, f] * scale
            representation_gradient[row, f] = kept_share if kept[row, f] else np.float32(0.0)
    return loss / n_rows, representation_gradient, weight_gradient, bias_gradient

"""The softmax classifiers of several tasks on one batch: their loss and all gradients in one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled

__all__ = ["classifier_gradients"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


@compiled
def classifier_gradients(
    representation: Floats,
    row_starts: Numbers,
    label_starts: Numbers,
    label_ends: Numbers,
    codes: Numbers,
    weight: Floats,
    bias: Floats,
    smoothing: float,
) -> tuple[float, Floats, NDArray[np.int32], Floats, Floats]:
    """Give the mean cross-entropy of a batch whose rows belong to several tasks, and its gradients.

    Parameters
    ----------
    representation
        Shape (rows, width), after dropout; the rows of one task stand together.
    row_starts
        Where the rows of each task begin, and where the last ones end, shape (tasks + 1,).
    label_starts, label_ends
        The labels of each task among all labels; no task is there twice.
    codes
        The label of every row, counted within its task.
    weight, bias
        The classifiers of all tasks under each other, shapes (all labels, width) and (all labels,).
    smoothing
        The share of the right label that is spread over all labels of the task.

    Returns
    -------
    loss, representation_gradient, labels, weight_gradient, bias_gradient
        ``labels`` are those of the tasks in the batch; the gradients of the classifiers are theirs.
    """
    n_rows, width = representation.shape
    n_tasks = len(label_starts)
    n_labels = np.sum(label_ends - label_starts)
    gradient = np.empty((n_rows, width), dtype=np.float32)
    labels = np.empty(n_labels, dtype=np.int32)
    weight_gradient = np.empty((n_labels, width), dtype=np.float32)
    bias_gradient = np.zeros(n_labels, dtype=np.float32)
    loss = 0.0
    place = 0
    for task in range(n_tasks):
        first, last = row_starts[task], row_starts[task + 1]
        start, end = label_starts[task], label_ends[task]
        n_own = end - start
        own = representation[first:last]
        # From here on `shares` are the logits, the probabilities, and then the gradient of the logits.
        shares = np.dot(own, weight[start:end].T)
        low = np.float32(smoothing / n_own)
        for row in range(last - first):
            highest = np.float32(-np.inf)
            for label in range(n_own):
                shares[row, label] += bias[start + label]
                highest = max(highest, shares[row, label])
            total = np.float32(0.0)
            for label in range(n_own):
                shares[row, label] = np.exp(shares[row, label] - highest)
                total += shares[row, label]
            code = codes[first + row]
            for label in range(n_own):
                shares[row, label] /= total
            loss -= np.log(max(shares[row, code], np.float32(1e-30)))
            shares[row, code] -= np.float32(1.0 - smoothing)
            for label in range(n_own):
                shares[row, label] = (shares[row, label] - low) / np.float32(n_rows)
                bias_gradient[place + label] += shares[row, label]
        for label in range(n_own):
            labels[place + label] = start + label
        gradient[first:last] = np.dot(shares, weight[start:end])
        weight_gradient[place : place + n_own] = np.dot(shares.T, own)
        place += n_own
    return loss / n_rows, gradient, labels, weight_gradient, bias_gradient

"""Weighted products of several models' probabilities, with weights learned across tasks.

``p(y) ~ product over models c of p_c(y)^w[c]``, the weighted mean of log-probabilities. A weight says two
things at once: how much a model is to be trusted, and how over- or under-confident it is. An average of the
probabilities cannot express the second, and follows whichever model is the most confident. The frequency of
a label is one more component of the product (`label_prior`).

The weights are learned on held-out predictions of all tasks together. Learned per task, on a few dozen rows,
they would fit noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UsageError, quote

# A model that is sure of a wrong label must not outvote all others for good.
SMALLEST_PROBABILITY = 1e-6
LARGEST_WEIGHT = 20.0
SUM_TOLERANCE = 1e-3

Table = NDArray[np.float64]


def learn_weights(
    components: Sequence[Sequence[NDArray[np.floating]]],
    codes: Sequence[NDArray[np.integer]],
    *,
    lowest: ArrayLike = 0.0,
    near: ArrayLike | None = None,
    strength: float = 0.0,
) -> NDArray[np.float64]:
    """Return the weights that minimise the log-loss of the product; every task counts the same.

    The program, with ``p[c, t, i]`` the probabilities that component c gives to the labels of row i of task
    t, ``y[t, i]`` the right one, and ``n[t]`` the rows of the task::

        minimise over w   mean over t of  1/n[t] sum over i of
                              log sum over y of  exp(sum over c of  w[c] log p[c, t, i](y))
                              - sum over c of  w[c] log p[c, t, i](y[t, i])
        subject to        lowest <= w <= 20

    It is convex (a log-sum-exp of linear functions less a linear one), and is solved by L-BFGS-B.

    With `near`, weights are drawn to given ones: ``strength / (2 n) * ||w - near||^2`` is added, n the number
    of rows, as if `strength` rows had been seen before.

    Probabilities below 1e-6 count as 1e-6, and a task without rows does not count. The sum of the weights
    need not be 1: under-confident models get more.

    Examples
    --------
    >>> right = np.array([[0.7, 0.3], [0.3, 0.7], [0.4, 0.6]])
    >>> wrong = np.array([[0.2, 0.8], [0.7, 0.3], [0.3, 0.7]])
    >>> weights = learn_weights([[right], [wrong]], [np.array([0, 1, 0])])
    >>> bool(weights[0] > 0), float(weights[1])
    (True, 0.0)
    """
    from scipy.optimize import minimize

    tables, rights = gather(components, codes)
    centre = np.zeros(len(components)) if near is None else np.asarray(near, dtype=np.float64)
    pull = strength / sum(map(len, rights))
    bounds = [(low, LARGEST_WEIGHT) for low in np.broadcast_to(lowest, len(components)).tolist()]

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        total, gradient = 0.0, np.zeros(len(weights))
        change = weights - centre
        for table, right in zip(tables, rights, strict=True):
            rows = np.arange(len(right))
            logits = np.tensordot(weights, table, axes=1)
            logits -= logits.max(axis=1, keepdims=True)
            shares = np.exp(logits)
            sums = shares.sum(axis=1, keepdims=True)
            total += float((np.log(sums[:, 0]) - logits[rows, right]).mean())
            expected = (table * (shares / sums)).sum(axis=2)
            gradient += (expected - table[:, rows, right]).mean(axis=1)
        total, gradient = total / len(tables), gradient / len(tables)
        return total + pull * float(change @ change) / 2, gradient + pull * change

    # From below: a component that makes no difference gets no weight.
    start = np.array([low for low, _ in bounds]) if near is None else centre
    options: Any = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 1000}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x, dtype=np.float64)


def gather(
    components: Sequence[Sequence[NDArray[np.floating]]], codes: Sequence[NDArray[np.integer]]
) -> tuple[list[Table], list[NDArray[np.intp]]]:
    """Return the log-probabilities of each task that has rows, (components, rows, labels), and its codes."""
    if len(components) == 0 or any(len(component) != len(codes) for component in components):
        raise UsageError(
            "the probabilities are not of the same tasks",
            got=f"{[len(component) for component in components]} tasks a component, {len(codes)} with codes",
            expected="for every component, one array of probabilities a task",
        )
    tables, rights = [], []
    for task, right in enumerate(codes):
        checked = [
            check_probabilities(component[task], right, where=f"component {number}, task {task}")
            for number, component in enumerate(components)
        ]
        shapes = {table.shape for table in checked}
        if len(shapes) > 1:
            raise UsageError(
                "the components have different labels", where=f"task {task}", got=quote(sorted(shapes))
            )
        if len(right):
            tables.append(np.log(np.maximum(np.stack(checked), SMALLEST_PROBABILITY)))
            rights.append(np.asarray(right, dtype=np.intp))
    if not tables:
        raise DataError("no task has held-out rows", expected="at least one row", todo="give equal weights")
    return tables, rights


def check_probabilities(
    probabilities: ArrayLike, codes: ArrayLike, *, where: str | None = None
) -> NDArray[np.float64]:
    """Refuse what is not one distribution per row with the code of a label beside it."""
    table, right = np.asarray(probabilities, dtype=np.float64), np.asarray(codes)
    if table.ndim != 2 or right.shape != table.shape[:1]:
        raise UsageError(
            "the probabilities do not fit the codes",
            where=where,
            got=f"shapes {table.shape} and {right.shape}",
            expected="(rows, labels) and (rows,)",
        )
    if len(table) == 0:
        return table
    if right.dtype.kind not in "iu" or right.min() < 0 or right.max() >= table.shape[1]:
        raise DataError(
            "a code is not that of a label",
            where=where,
            got=quote(right.min() if right.min() < 0 else right.max()),
            expected=f"whole numbers from 0 to {table.shape[1] - 1}",
        )
    # A comparison with NaN is false, so NaN is refused too.
    is_right = (table >= 0.0).all(axis=1) & (np.abs(table.sum(axis=1) - 1.0) <= SUM_TOLERANCE)
    if not is_right.all():
        row = int(np.flatnonzero(~is_right)[0])
        raise DataError(
            "a row does not have probabilities",
            where=f"{where}, row {row}" if where else f"row {row}",
            got=quote(table[row].tolist()),
            expected="numbers from 0 up with sum 1",
        )
    return table


def blend(probabilities: Sequence[NDArray[np.floating]], weights: ArrayLike) -> NDArray[np.float64]:
    """Multiply the probabilities of several models, each to the power of its weight, and scale to sum 1.

    A model of weight 0 is ignored. Every number of the result depends on its own row alone, bit for bit.

    Examples
    --------
    >>> blend([np.array([[0.8, 0.2]]), np.array([[0.5, 0.5]])], [1.0, 1.0]).round(3).tolist()
    [[0.8, 0.2]]
    """
    powers = np.asarray(weights, dtype=np.float64)
    shapes = {np.shape(table) for table in probabilities}
    if powers.shape != (len(probabilities),) or len(shapes) != 1:
        raise UsageError(
            "the probabilities cannot be blended",
            got=f"{len(probabilities)} arrays of shapes {sorted(shapes)}, weights of shape {powers.shape}",
            expected="arrays of one shape, and one weight each",
        )
    if not ((powers >= 0.0).all() and np.isfinite(powers).all() and powers.any()):
        raise UsageError(
            "the weights cannot be used", got=quote(powers.tolist()), expected="from 0 up, one above 0"
        )
    total = np.zeros(next(iter(shapes)), dtype=np.float64)
    for power, table in zip(powers.tolist(), probabilities, strict=True):
        if power > 0.0:
            total += power * np.log(np.maximum(np.asarray(table, dtype=np.float64), SMALLEST_PROBABILITY))
    if total.size:
        total = np.exp(total - total.max(axis=1, keepdims=True))
        total /= total.sum(axis=1, keepdims=True)
    return total


def label_prior(codes: NDArray[np.integer], n_labels: int, n_rows: int = 1) -> NDArray[np.float64]:
    """Return the share of each label among a task's rows, once per row to predict: a component of a blend.

    One row more is counted for each label, so that none has share 0.

    Examples
    --------
    >>> label_prior(np.array([0, 0, 0, 0, 1]), 3).tolist()
    [[0.625, 0.25, 0.125]]
    """
    counts = np.bincount(codes, minlength=n_labels) + 1.0
    return np.tile(counts / counts.sum(), (n_rows, 1))

"""Which lambda: the window in which clusters are neither lost nor drowned in noise.

A cluster survives in X only if its agreeing entries can carry it: a task's observed partners within its
cluster, d_c of them with a share p_c of ones, push with lambda d_c (p_c w_1 - (1 - p_c) w_0), and that must
reach 1. Noise stays out of X as long as the dual's norm beyond the range of X is below 1. With a rate tau of
wrong entries among d partners that norm is predicted as 2 lambda sqrt(d tau / (1 - tau)); once Eq. 2 is
solved for one lambda it is measured, and since it grows in proportion to lambda the upper limit follows. (The
paper's interval for lambda is in terms of incoherences that nobody can compute.)
"""

from __future__ import annotations

import numpy as np

from robusttc.clustering.old.completion.problem import Problem
from robusttc.clustering.old.completion.result import LambdaWindow
from robusttc.clustering.old.start import Start, counts_by_cluster

__all__ = ["choose_lambda", "predict_window", "smallest_lambda"]

KEEP_CLEAR = 0.8  # noise was seen to enter at 0.6 to 0.9 of the predicted limit
ABOVE_LOW = 1.02


def predict_window(problem: Problem, start: Start, weights: tuple[float, float]) -> LambdaWindow:
    """Predict the window from the first clustering."""
    flip_rate = min(max(start.rates.flip_rate, 1e-6), 0.499)
    noise = float(np.sqrt(max(problem.mean_degree, 1.0) * flip_rate / (1 - flip_rate)))
    heavier = max(weights)
    return LambdaWindow(
        low=lowest_lambda(problem, start, weights),
        high=1.0 / (2.0 * noise * heavier),
        high_is_measured=False,
        flip_rate=start.rates.flip_rate,
        smallest_cluster=int(np.bincount(start.labels).min()),
    )


def lowest_lambda(problem: Problem, start: Start, weights: tuple[float, float]) -> float:
    """Give the lambda below which the weakest cluster cannot be carried by its entries; may be infinite."""
    ones, zeros = counts_by_cluster(problem, start.labels)
    own = np.arange(problem.n), start.labels
    push = weights[0] * ones[own] - weights[1] * zeros[own]
    # The diagonal, where it is observed, pushes too.
    diagonal = problem.on_diagonal
    signs = np.where(problem.Y[diagonal] >= 0.5, problem.factor[diagonal], -problem.factor[diagonal])
    push[problem.rows[diagonal]] += signs
    members = np.bincount(start.labels)
    mean_push = np.bincount(start.labels, weights=push) / members
    # A cluster of one task has nothing but its diagonal: it is left out, unless there is no other.
    carried = mean_push[members > 1] if members.max() > 1 else mean_push
    return float(1.0 / carried.min()) if carried.min() > 0 else float("inf")


def choose_lambda(window: LambdaWindow) -> float:
    """Choose the lambda in the middle, on the scale of ratios, well below where noise is predicted."""
    safe_high = KEEP_CLEAR * window.high
    return max(float(np.sqrt(window.low * safe_high)), ABOVE_LOW * window.low)


def smallest_lambda(problem: Problem) -> float:
    """Give a lambda up to which X = 0 is an answer for sure; infinite where no observed entry is above 0.

    Q = weight on the entries that are not zero is a dual that proves X = 0, as long as its norm is at most 1.
    The norm of a symmetric matrix is at most its largest row sum.
    """
    matrix = problem.matrix(np.where(problem.Y > 0, problem.factor, 0.0))
    largest = float((matrix @ np.ones(problem.n)).max())
    return 1.0 / largest if largest > 0 else float("inf")

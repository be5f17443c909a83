"""How frequent labels are, and how much that is to count.

Models that see all labels alike are better where a task has many labels, most of them rare. Where one label
is far the commonest, as in reviews, they give it too seldom. So the probability of a label is multiplied by
its share of the task's training rows, raised to a power that is the same for all tasks: 0 leaves it alone, 1
takes it at its word. A power above 0 must have proved to pay on out-of-fold rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from robusttc.multitask.joint_steps import TaskPart
from robusttc.stats import difference_interval

__all__ = ["POWERS", "choose_power", "find_offsets", "log_shares", "shares_by_fold", "tilt"]

POWERS = (0.25, 0.5, 0.75, 1.0)

Numbers = NDArray[np.int64]
Probabilities = NDArray[np.float64]


def log_shares(codes: Numbers, n_labels: int) -> NDArray[np.float64]:
    """Give the logarithm of the share of each label; one row more is counted for each, so that none is lost.

    Examples
    --------
    >>> np.exp(log_shares(np.array([0, 0, 0, 0, 1]), 3)).round(3).tolist()
    [0.625, 0.25, 0.125]
    """
    counts = np.bincount(codes, minlength=n_labels) + 1.0
    return np.asarray(np.log(counts / counts.sum()))


def shares_by_fold(folds: Iterable[tuple[TaskPart, int]]) -> NDArray[np.float64]:
    """Give `log_shares` for every held-out row of a task, from what its fold was trained on.

    Parameters
    ----------
    folds
        The training rows of each fold, and how many rows it holds out.
    """
    return np.concatenate(
        [np.tile(log_shares(part.codes, part.n_labels), (n_held, 1)) for part, n_held in folds]
    )


def find_offsets(part: TaskPart, power: float) -> tuple[float, ...]:
    """Give what is to be added to the log-probabilities of a task's labels; nothing for a power of 0."""
    return tuple((power * log_shares(part.codes, part.n_labels)).tolist()) if power > 0 else ()


def tilt(probabilities: Probabilities, offsets: NDArray[np.float64]) -> Probabilities:
    """Add offsets to log-probabilities, one a label or one a row and label, and let them sum to 1 again.

    Examples
    --------
    >>> tilt(np.array([[0.5, 0.5], [0.2, 0.8]]), np.log([0.8, 0.2])).round(2).tolist()
    [[0.8, 0.2], [0.5, 0.5]]
    """
    tilted = probabilities * np.exp(offsets)
    return np.asarray(tilted / tilted.sum(axis=1, keepdims=True))


def choose_power(
    served: Mapping[str, Probabilities],
    shares: Mapping[str, NDArray[np.float64]],
    codes: Mapping[str, Numbers],
    *,
    seed: int = 0,
) -> float:
    """Give the power with the highest mean accuracy over tasks; 0 unless it is clearly better than that.

    Clearly: the 95 % interval over tasks of the paired difference is above zero.

    Parameters
    ----------
    served
        Held-out probabilities, by task.
    shares
        What `log_shares` says of the rows that the models of each held-out row were trained on.
    codes
        The labels of these rows.
    seed
        The seed of the interval.
    """
    names = sorted(codes)
    if not names:
        return 0.0

    def measure(power: float) -> NDArray[np.float64]:
        answers = (np.log(np.maximum(served[name], 1e-300)) + power * shares[name] for name in names)
        return np.array(
            [
                float((said.argmax(axis=1) == codes[name]).mean())
                for name, said in zip(names, answers, strict=True)
            ]
        )

    plain = measure(0.0)
    found = {power: measure(power) for power in POWERS}
    best = max(found, key=lambda power: (float(found[power].mean()), -power))
    return best if difference_interval(found[best], plain, seed=seed).above_zero else 0.0

"""From probabilities to answers, and the silence where they are not sure enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import UsageError, quote

__all__ = ["check_threshold", "pick_labels"]


def check_threshold(abstain_below: float | None) -> float:
    """Give the probability below which there is no answer, 0 for None.

    Raises
    ------
    UsageError
        If it is not a number from 0 to 1.
    """
    if abstain_below is None:
        return 0.0
    is_number = isinstance(abstain_below, int | float) and not isinstance(abstain_below, bool)
    if not is_number or not 0 <= abstain_below <= 1:
        raise UsageError(
            "abstain_below cannot be used", got=quote(abstain_below), expected="a number from 0 to 1"
        )
    return float(abstain_below)


def pick_labels(
    probabilities: NDArray[np.float64], label_names: Sequence[str], *, threshold: float = 0.0
) -> NDArray[np.object_]:
    """Give the most probable label of every row; None where its probability is below the threshold.

    Examples
    --------
    >>> pick_labels(np.array([[0.9, 0.1], [0.4, 0.6]]), ["x", "y"], threshold=0.7).tolist()
    ['x', None]
    """
    found: NDArray[np.object_] = np.array(label_names, dtype=object)[probabilities.argmax(axis=1)]
    found[probabilities.max(axis=1, initial=0.0) < threshold] = None
    return found

"""Classifiers of many tasks whose labels of one name share a part.

The weight of label l of task t is ``V[name of l] + D[t, l]``: V is shared by all labels of that name in the
tasks that are trained together, D is the task's own. Both start small and are trained by Adam, V with the
full step size and D with a share of it, so what tasks agree on goes to V. A name means the same thing to
tasks of one cluster far more often than to all tasks ("1" of two sentiment tasks, "inform" of two dialogues).

Deviation: in the paper tasks of a cluster share the encoder only. Half the labels of real intent tasks, and
nearly all of sentiment and dialogue-act tasks, have namesakes in other tasks, and sharing them is worth more
than sharing the encoder.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.models import Adam, Heads, RowGradients, compiled, label_key

__all__ = ["SharedLabels", "label_groups"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


def label_groups(label_names: Sequence[str]) -> Numbers:
    """Give the same number to labels of the same words, or, without words, of the same characters.

    Examples
    --------
    >>> label_groups(["thank_you", "ThankYou", "1", "-1", "1"]).tolist()
    [2, 2, 1, 0, 1]
    """
    keys = [label_key(name) for name in label_names]
    _, groups = np.unique(np.array(keys, dtype=object).astype(str), return_inverse=True)
    return groups.astype(np.int64)


class SharedLabels(Heads):
    """The classifiers of all tasks as sums of a shared and an own part, and the state of their training.

    Parameters
    ----------
    groups
        Which labels share a part, see `label_groups`; one number a label of every task.
    weight, bias
        The live classifiers of all tasks under each other, shapes (labels, width) and (labels,). They are the
        sums, and kept so by `refresh`.
    own_rate
        The step size of the own parts, as a share of that of the shared ones.
    """

    def __init__(self, groups: Numbers, weight: Floats, bias: Floats, *, own_rate: float) -> None:
        n_groups = int(groups.max()) + 1
        self.groups = groups
        self.weight, self.bias = weight, bias
        self.own_rate = own_rate
        self.shared = {
            "weight": np.zeros((n_groups, weight.shape[1]), dtype=np.float32),
            "bias": np.zeros((n_groups, 1), dtype=np.float32),
        }
        self.own = {"weight": weight.copy(), "bias": bias[:, None].copy()}
        self._shared_optimiser = Adam(self.shared, learning_rate=0.0)
        self._own_optimiser = Adam(self.own, learning_rate=0.0)

    def refresh(self, start: int, end: int) -> None:
        """Bring the sums of some labels up to date: others of their names may have moved meanwhile."""
        groups = self.groups[start:end]
        self.weight[start:end] = self.shared["weight"][groups] + self.own["weight"][start:end]
        self.bias[start:end] = (self.shared["bias"][groups] + self.own["bias"][start:end])[:, 0]

    def step(self, labels: NDArray[np.int32], weight: Floats, bias: Floats, *, learning_rate: float) -> None:
        """Move both parts by the gradients of some labels' sums."""
        touched, places = np.unique(self.groups[labels], return_inverse=True)
        rows = touched.astype(np.int32)
        column = bias[:, None]
        self._shared_optimiser.learning_rate = learning_rate
        self._shared_optimiser.step(
            {
                "weight": RowGradients(rows, add_up(weight, places, len(rows))),
                "bias": RowGradients(rows, add_up(column, places, len(rows))),
            }
        )
        self._own_optimiser.learning_rate = learning_rate * self.own_rate
        self._own_optimiser.step(
            {"weight": RowGradients(labels, weight), "bias": RowGradients(labels, column)}
        )


@compiled
def add_up(values: Floats, places: Numbers, n_places: int) -> Floats:
    """Add the rows that go to the same place."""
    total = np.zeros((n_places, values.shape[1]), dtype=np.float32)
    for row in range(len(values)):
        total[places[row]] += values[row]
    return total

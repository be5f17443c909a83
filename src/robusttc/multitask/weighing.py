"""Weights of models, one set for texts that other tasks have too and one for all others.

On a familiar text the model of many tasks has seen the answer, on any other it has not. One set of weights
for both would be too bold on new texts and too shy on familiar ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.models import blend, learn_weights

__all__ = ["FEWEST_FAMILIAR", "Weights", "learn", "mix", "weigh"]

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]
Table = Mapping[str, NDArray[np.float64]]

# With fewer held-out familiar (or other) texts than this, one set of weights serves both.
FEWEST_FAMILIAR = 200


@dataclass(frozen=True, slots=True)
class Weights:
    """One weight a component, for new texts and for familiar ones; see `robusttc.models.blending`."""

    new: tuple[float, ...]
    familiar: tuple[float, ...]


def learn(
    tables: Sequence[Table], codes: Mapping[str, Numbers], familiar: Mapping[str, Truths] | None = None
) -> Weights:
    """Give the weights that are best over all tasks; where nothing is held out, equal ones.

    Parameters
    ----------
    tables
        The held-out probabilities of each component, by task.
    codes
        The labels of these rows.
    familiar
        Which of them other tasks have too; None if that cannot be told.

    Examples
    --------
    >>> sure = {"a": np.array([[0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])}
    >>> flat = {"a": np.full((3, 2), 0.5)}
    >>> weights = learn([sure, flat], {"a": np.array([0, 1, 0])})
    >>> weights.new == weights.familiar, weights.new[0] > 0
    (True, True)
    """
    equal = (1.0 / len(tables),) * len(tables)
    if not codes:
        return Weights(equal, equal)
    everything = {name: np.ones(len(right), dtype=np.bool_) for name, right in codes.items()}
    common = learn_side(tables, codes, everything) or equal
    if familiar is None:
        return Weights(common, common)
    sides = {True: common, False: common}
    n_familiar = sum(int(familiar[name].sum()) for name in codes)
    n_rows = sum(len(right) for right in codes.values())
    if min(n_familiar, n_rows - n_familiar) >= FEWEST_FAMILIAR:
        for side in sides:
            chosen = {name: familiar[name] == side for name in codes}
            sides[side] = learn_side(tables, codes, chosen) or common
    return Weights(sides[False], sides[True])


def learn_side(
    tables: Sequence[Table], codes: Mapping[str, Numbers], chosen: Mapping[str, Truths]
) -> tuple[float, ...] | None:
    """Give the weights that are best on some rows; None where no model knows anything."""
    names = sorted(codes)
    weights = learn_weights(
        [[table[name][chosen[name]] for name in names] for table in tables],
        [codes[name][chosen[name]] for name in names],
    )
    return tuple(float(weight) for weight in weights) if weights.any() else None


def weigh(
    tables: Sequence[NDArray[np.float64]], weights: Weights, familiar: Truths | None
) -> NDArray[np.float64]:
    """Blend the predictions for some rows, familiar ones with their weights and others with theirs.

    Examples
    --------
    >>> one, other = np.array([[0.8, 0.2]] * 2), np.array([[0.4, 0.6]] * 2)
    >>> weights = Weights((1.0, 0.0), (0.0, 1.0))
    >>> weigh([one, other], weights, np.array([True, False])).round(2).tolist()
    [[0.4, 0.6], [0.8, 0.2]]
    """
    blended = blend(tables, weights.new)
    if familiar is not None and familiar.any():
        blended[familiar] = blend([table[familiar] for table in tables], weights.familiar)
    return blended


def mix(
    tables: Sequence[Table], weights: Weights, familiar: Mapping[str, Truths] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Blend the predictions of every task."""
    return {
        name: weigh([table[name] for table in tables], weights, None if familiar is None else familiar[name])
        for name in tables[0]
    }

"""What serves a task that joined later: with what weights, at what temperature, and what is to be expected.

The weights are those that were learned across tasks: one task's rows are too few to choose better ones. Its
held-out rows answer another question: is it one of the few that sharing does not pay for?
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from robusttc.multitask.components import COMPONENTS
from robusttc.multitask.persistence import Fitted
from robusttc.multitask.serving import CLUSTER_ONLY, OWN_ONLY
from robusttc.multitask.weighing import Weights, weigh
from robusttc.stats import Estimate, mean_interval

__all__ = ["expected_gain", "pays", "usable_weights", "weigh_kinds"]

Right = NDArray[np.bool_]
Table = NDArray[np.float64]


def usable_weights(weights: Weights, kinds: set[str], *, strategy: str = "blend") -> Weights:
    """Give the weights of those models that a task has.

    What the others would have weighed goes to these, so that the sum, and with it how sure the blend is of
    itself, stays the same.

    Examples
    --------
    >>> learned = Weights((0.6, 0.2, 0.4), (0.0, 0.9, 0.3))
    >>> usable_weights(learned, {"own", "shared"}).new
    (0.9, 0.3, 0.0)
    >>> usable_weights(learned, {"own"}) == OWN_ONLY
    True
    """
    if strategy == "paper":
        return CLUSTER_ONLY if "cluster" in kinds else OWN_ONLY
    if kinds <= {"own"}:
        return OWN_ONLY
    sides: list[tuple[float, ...]] = []
    for side in (weights.new, weights.familiar):
        kept = [weight if kind in kinds else 0.0 for kind, weight in zip(COMPONENTS, side, strict=True)]
        if not any(kept):
            return OWN_ONLY
        factor = sum(side) / sum(kept)
        sides.append(tuple(round(weight * factor, 12) for weight in kept))
    return Weights(sides[0], sides[1])


def weigh_kinds(tables: Mapping[str, Table], weights: Weights, familiar: Right | None) -> Table:
    """Blend what the models of a task say."""
    used = [
        place for place in range(len(COMPONENTS)) if weights.new[place] > 0 or weights.familiar[place] > 0
    ]
    chosen = Weights(
        tuple(weights.new[place] for place in used), tuple(weights.familiar[place] for place in used)
    )
    return weigh([tables[COMPONENTS[place]] for place in used], chosen, familiar)


def expected_gain(served: Right, own: Right) -> Estimate:
    """Give how many more of the held-out rows are right with sharing, of all; rows are paired.

    Examples
    --------
    >>> gain = expected_gain(np.ones(40, dtype=bool), np.arange(40) % 4 > 0)
    >>> gain.mean, gain.above_zero
    (0.25, True)
    """
    gain = mean_interval(served.astype(np.float64) - own.astype(np.float64))
    if gain.n < 2:
        return gain
    return Estimate(gain.mean, max(-1.0, gain.low), min(1.0, gain.high), gain.n)


def pays(fitted: Fitted, served: Right, own: Right) -> bool:
    """Tell whether sharing is expected to pay for a task.

    A task's own rows are few and the tasks of the run many, so both are heard: the gain of the task is drawn
    towards the mean gain of the run's tasks, the more the fewer rows it has and the less tasks differ. Where
    nothing was held out in the run, sharing does not pay if the task's own interval is below zero.
    """
    difference = served.astype(np.float64) - own.astype(np.float64)
    known = [
        kinds["served"].astype(np.float64) - kinds["own"].astype(np.float64)
        for kinds in fitted.right.values()
        if "served" in kinds and len(kinds["own"])
    ]
    if len(known) < 2:
        return not expected_gain(served, own).below_zero
    means = np.array([rows.mean() for rows in known])
    noise = np.array([error_of(rows) for rows in known])
    spread = max(float(means.var(ddof=1) - noise.mean()), 1e-6)
    own_noise = error_of(difference)
    expected = (difference.mean() * spread + means.mean() * own_noise) / (spread + own_noise)
    return bool(expected >= 0)


def error_of(rows: NDArray[np.float64]) -> float:
    """Give the squared standard error of a mean of differences; a row is added, so that none is certain."""
    return float((rows.var() + 1.0 / len(rows)) / len(rows))

"""What is decided by a rehearsal: whether clusters serve, and the threshold of the paper's fallback."""

from __future__ import annotations

import numpy as np

from robusttc.fewshot.rehearsal import Rehearsal
from robusttc.models import Verdict, make_verdict

__all__ = ["THRESHOLD", "judge", "tune_threshold"]

# The paper's.
THRESHOLD = 0.2
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def judge(rehearsal: Rehearsal, seed: int) -> Verdict:
    """Say whether clusters helped the held-out tasks."""
    shared = rehearsal.accuracies("shared")
    ways = rehearsal.played[0].probabilities if rehearsal.played else {}
    draws = [rehearsal.accuracies(way) for way in ways if way.startswith("random")]
    random = [values for values in draws if values is not None]
    return make_verdict(
        "fewshot",
        cluster=rehearsal.accuracies("cluster") if rehearsal.played else None,
        shared=np.zeros(0) if shared is None else shared,
        random=np.stack(random) if random else None,
        seed=seed,
    )


def tune_threshold(rehearsal: Rehearsal, way: str) -> float:
    """Give the threshold with which held-out tasks are best served: their own model below, the mixture above.

    Of equal ones the one nearest to the paper's 20 % is taken.
    """
    best, chosen = -1.0, THRESHOLD
    for threshold in sorted(THRESHOLDS, key=lambda value: abs(value - THRESHOLD)):
        values = []
        for one in rehearsal.played:
            mixed = float((one.probabilities[way].argmax(axis=1) == one.codes).mean())
            is_out = one.best_accuracy[way] < threshold
            values.append(one.own_accuracy if is_out and one.own_accuracy is not None else mixed)
        if values and float(np.mean(values)) > best + 1e-12:
            best, chosen = float(np.mean(values)), threshold
    return chosen

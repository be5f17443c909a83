"""When enough pairs are measured: the stop rule for measuring transfer in rounds.

The pairs of the latest round are held out from all earlier ones. They are predicted twice, with and without
the round before the latest: the difference is what that round was worth. Measuring stops when it was worth
little.

Few scores hide what many would show: with d scores a task, completion finds a part of the scores only if it
explains more than about 1/d of their variance, and until then there is no gain. So the rule waits, the longer
the less is explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from robusttc.clustering.completion import Setting, problem_of, solve_roughly
from robusttc.clustering.problem import Factors, Floats, Labels
from robusttc.clustering.standardise import Standardised, standardise
from robusttc.transfer import TransferScores, row_means

__all__ = ["StopRule"]

# The penalties of completion that are tried; the one that predicts best counts.
TAUS = (1.7, 0.9, 0.5, 0.3)
DELTA = 1.0  # of the Huber loss
# Partners of a task before measuring may stop: where so large a share of the variance is explained, and else.
MUCH_EXPLAINED = 0.25
MIN_PARTNERS, MIN_PARTNERS_UNEXPLAINED = 20, 50


@dataclass
class StopRule:
    """Stop measuring when a further round no longer improves the prediction of held-out pairs.

    Pass it to `robusttc.measure_transfer` as `stop`. A decision depends on the scores alone, so a run that
    is resumed decides as before.

    Parameters
    ----------
    min_gain
        Measuring stops when twice the scores raise the share of the variance of held-out scores that is
        explained by less than this.

    Attributes
    ----------
    explained
        After each decision: the share of the variance of the latest round's scores that all earlier rounds
        explain.
    gains
        How much of it is owed to the last of them, for each doubling of the scores.
    stopped
        Whether measuring was stopped.

    Examples
    --------
    >>> import robusttc as rtc
    >>> tasks = rtc.make_planted_tasks(n_tasks=12, random_state=0).tasks
    >>> rule = StopRule()
    >>> scores = rtc.measure_transfer(tasks, encoder="cnn", stop=rule)
    >>> len(scores), rule.stopped  # up to 50 tasks, everything is measured
    (132, False)
    """

    min_gain: float = 0.06
    explained: list[float] = field(default_factory=list, init=False)
    gains: list[float] = field(default_factory=list, init=False)
    stopped: bool = field(default=False, init=False)

    def __call__(self, rounds: Sequence[TransferScores]) -> bool:
        """Decide from the scores of each round so far; it takes three rounds to see a gain."""
        self.stopped = False
        if len(rounds) < 3:
            self.explained, self.gains = [], []
            return False
        fewer = reduce(TransferScores.merged_with, rounds[:-2])
        more, latest = fewer.merged_with(rounds[-2]), rounds[-1]
        unit = standardise(more.merged_with(latest))
        with threadpool_limits(limits=1):  # so that sums are rounded in the same order every time
            before, now = (share_explained(known, latest, unit) for known in (fewer, more))
        gain = (now - before) / float(np.log2(len(more) / len(fewer)))
        self.explained.append(now)
        self.gains.append(gain)
        min_partners = MIN_PARTNERS if now >= MUCH_EXPLAINED else MIN_PARTNERS_UNEXPLAINED
        self.stopped = gain < self.min_gain and len(more) >= min_partners * more.n_tasks
        return self.stopped

    def summary(self, n_scores: int, n_planned: int) -> dict[str, Any] | None:
        """Return what was saved: the two numbers and a sentence; None if measuring was not stopped.

        Examples
        --------
        >>> rule = StopRule()
        >>> rule.stopped = True
        >>> rule.summary(12_000, 30_450)["sentence"]
        'Measured 12,000 of 30,450 scores: more would hardly predict the rest better (61 % saved).'
        """
        if not self.stopped:
            return None
        saved = 100 * (1 - n_scores / n_planned)
        sentence = (
            f"Measured {n_scores:,} of {n_planned:,} scores: more would hardly predict the rest better "
            f"({saved:.0f} % saved)."
        )
        return {"n_scores": n_scores, "n_planned": n_planned, "sentence": sentence}


def share_explained(known: TransferScores, latest: TransferScores, unit: Standardised) -> float:
    """Return the share of the variance of the latest scores that known ones explain; NaN if none can be.

    It is the variance within targets: which sources serve a target better. How high the scores of a target
    are altogether has no part in clusters.
    """
    values = unit.apply(latest.target, latest.score)
    found = []
    for predicted in predict_latest(known, latest, unit.method):
        predicted = unit.apply(latest.target, predicted)
        usable = np.isfinite(values) & np.isfinite(predicted)
        target = latest.target[usable]
        truth, guess = centred(values[usable], target), centred(predicted[usable], target)
        if len(target):
            found.append(1.0 - float(np.sum((truth - guess) ** 2)) / max(float(np.sum(truth**2)), 1e-12))
    return max(found, default=float("nan"))


def centred(values: Floats, target: Labels) -> Floats:
    """Return values less the mean of their target."""
    return np.asarray(values - row_means(target, values, 0)[target])


def predict_latest(known: TransferScores, latest: TransferScores, method: str) -> list[Floats]:
    """Predict the latest scores from known ones, once with each penalty; NaN for targets without a unit."""
    data = standardise(known, method=method)
    if not len(data.values):
        return []
    problem = problem_of(data, None, Setting(TAUS[0]))
    found: list[Floats] = []
    factors: Factors | None = None
    for tau in TAUS:
        factors = solve_roughly(problem, Setting(tau).penalties(problem, DELTA), start=factors).factors
        found.append(data.to_scores(latest.target, factors.predict(latest.source, latest.target)))
    return found

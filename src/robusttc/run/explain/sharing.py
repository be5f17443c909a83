"""What sharing gave one task, and the sources of negative transfer where it took something away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import FeatureEncoder, WordEncoder
from robusttc.multitask import COMPONENTS, find_sources, sharing_with
from robusttc.run.evaluation import KINDS, judge_part
from robusttc.run.explain.place import MeasuredPair
from robusttc.stats import Estimate

if TYPE_CHECKING:
    from robusttc.run.run import Run

__all__ = ["HarmfulSource", "Sharing", "explain_sharing", "harmful_sources", "sharing_of"]

Method = Literal["gradients", "scores", "none"]
Figures = Mapping[str, Mapping[str, Estimate]]

# A loss of so much is worth a look even where chance may have made it.
DOUBTFUL_LOSS = 0.01
HELD_OUT = "held-out training rows"
MAX_SOURCES = 5
# Standard deviations below the average source from which on a source counts as harmful: that of Eq. 1.
HARMFUL = -0.5
# So many tasks share a model that is trained again in a few seconds.
MAX_MATES = 24


@dataclass(frozen=True, slots=True)
class HarmfulSource:
    """A task that works against another.

    `effect` is below zero: the cosine of the two tasks' gradients, or how far the score of its encoder is
    from that of the average source, in standard deviations; see `Sharing.method`.
    """

    task: str
    effect: float


@dataclass(frozen=True, slots=True)
class Sharing:
    """What sharing gave a task.

    Figures are of ``all`` rows and, where there are both, of ``novel`` texts, which no other task has, and of
    those ``seen`` in another task: the accuracy of each kind of model that the task has, and the ``gain``,
    the paired difference of what serves and the own model.
    """

    test: Figures  # on test rows; empty where it was not evaluated
    held_out: Figures  # on training rows that models had not seen; empty where nothing was held out
    expected_gain: Estimate | None  # of a task that was added, what held-out training rows promised
    is_harmed: (
        bool  # the interval of the difference to its own model is below zero (test rows, or held-out ones)
    )
    is_doubtful: bool  # it seems to lose at least a point, which may be chance
    sources: tuple[HarmfulSource, ...]  # the tasks that work against it, the worst first
    method: Method  # how they were found; none if they were not looked for
    weights: Mapping[str, float]  # of its own, the shared and the cluster model on novel texts, where known
    sentence: str  # all this in words


def explain_sharing(
    test: Figures,
    held_out: Figures,
    *,
    shares: bool,
    weights: Mapping[str, float] | None = None,
    expected_gain: Estimate | None = None,
    sources: Sequence[HarmfulSource] = (),
    method: Method = "none",
) -> Sharing:
    """Put together what test rows and held-out rows say.

    `shares` says whether models of several tasks help to serve it; for the others see `Sharing`.

    Examples
    --------
    >>> explain_sharing({}, {}, shares=True).sentence
    'No row tells what sharing gave it.'
    """
    on_test, on_held_out = (figures.get("all", {}).get("gain") for figures in (test, held_out))
    gain = on_test or on_held_out or expected_gain
    is_harmed = shares and gain is not None and gain.below_zero
    is_doubtful = shares and not is_harmed and gain is not None and gain.mean <= -DOUBTFUL_LOSS
    rows = HELD_OUT if on_test is None else "test rows"
    sentence = sharing_sentence(gain, rows) if shares else own_sentence(expected_gain)
    return Sharing(
        test,
        held_out,
        expected_gain,
        is_harmed,
        is_doubtful,
        tuple(sources),
        method,
        dict(weights or {}),
        sentence,
    )


def sharing_sentence(gain: Estimate | None, rows: str) -> str:
    """Say what sharing gave."""
    if gain is None or gain.n < 2:
        return "No row tells what sharing gave it."
    found = "Whether sharing helps it cannot be told"
    if gain.above_zero:
        found = "Sharing helps it"
    if gain.below_zero:
        found = "Sharing harms it"
    return f"{found}: {format_gain(gain, rows)}."


def own_sentence(expected: Estimate | None) -> str:
    """Say what a task forgoes that its own model alone serves."""
    if expected is None or expected.n < 2:
        return "Its own model alone serves it: sharing gives and takes nothing."
    return f"Its own model alone serves it: sharing would have given {format_gain(expected, HELD_OUT)}."


def format_gain(gain: Estimate, rows: str) -> str:
    """Return a difference in points with its interval.

    >>> format_gain(Estimate(-0.0001, -0.02, 0.03, 40), "test rows")
    '+0.0 points [-2.0, +3.0] on 40 test rows'
    """
    # Without the sum, a difference that rounds to zero could show as -0.0.
    points, low, high = (round(100 * value, 1) + 0.0 for value in (gain.mean, gain.low, gain.high))
    return f"{points:+.1f} points [{low:+.1f}, {high:+.1f}] on {gain.n:,} {rows}"


def sharing_of(
    run: Run, name: str, pairs: Sequence[MeasuredPair], *, n_folds: int | None, by_gradients: bool = False
) -> Sharing:
    """Say what sharing gave a task of a run, and where it took something away look for the sources.

    `n_folds` is None where the encoder has seen all training rows. Gradients need a model that is trained
    half again. Where more than 24 tasks share it, that takes minutes: the scores are looked at in its place,
    unless `by_gradients`. In a model of words, or of given features, they always are.
    """
    predictor, added = run.multitask.predictor_, run.added.get(name)
    test, held_out = figures_of(run, name), held_out_figures(run, name)
    if added is not None or name not in predictor.tasks:
        gain, shares = (None, True) if added is None else (added.expected_gain, added.shares)
        return explain_sharing(test, held_out, shares=shares, expected_gain=gain)
    served = predictor.tasks[name]
    weights = dict(zip(COMPONENTS, served.weights.novel, strict=True))
    sharing = explain_sharing(test, held_out, shares=served.shares, weights=weights)
    if not (sharing.is_harmed or sharing.is_doubtful):
        return sharing
    sources, method = find_harmful(run, name, pairs, n_folds=n_folds, by_gradients=by_gradients)
    return explain_sharing(
        test, held_out, shares=served.shares, weights=weights, sources=sources, method=method
    )


def figures_of(run: Run, name: str) -> Figures:
    """Return what the test rows of a task say."""
    for one in run.evaluation.tasks:
        if one.task == name:
            found = {kind: getattr(one, kind) for kind in (*KINDS, "gain")}
            parts = {"novel": one.novel, "seen": one.seen}
            whole = {kind: share for kind, share in found.items() if share is not None}
            return {"all": whole, **(parts if all(parts.values()) else {})}
    return {}


def held_out_figures(run: Run, name: str) -> Figures:
    """Return what the rows say that were held out while the models of a task were trained."""
    predictor, held_out = run.multitask.predictor_, run.multitask.held_out_.get(name)
    if held_out is None:
        return {}
    everything = {"all": judge_part(held_out.right, np.ones(len(held_out.rows), dtype=np.bool_))}
    if predictor.seen is None or not predictor.find(name).may_share:
        return everything
    seen = predictor.seen.find(name, run.rows_of(name).texts_at(held_out.rows))
    parts = {"novel": judge_part(held_out.right, ~seen), "seen": judge_part(held_out.right, seen)}
    return {**everything, **parts} if all(parts.values()) else everything


def find_harmful(
    run: Run, name: str, pairs: Sequence[MeasuredPair], *, n_folds: int | None, by_gradients: bool
) -> tuple[tuple[HarmfulSource, ...], Method]:
    """Return the tasks that work against one task, by gradients where that is quick, else by the scores."""
    model = run.multitask
    mates = sharing_with(model.predictor_, name)
    # Gradients of words or of given features would need inputs that the run does not keep.
    has_vectors = not isinstance(model.predictor_.reader, WordEncoder | FeatureEncoder)
    if has_vectors and n_folds is not None and (by_gradients or len(mates) <= MAX_MATES):
        tasks = TaskSet([run.rows_of(other) for other in (name, *mates)])
        with threadpool_limits(1):
            found = find_sources(model.predictor_, tasks, [name], settings=model.settings_, seed=model.seed_)
        return tuple(HarmfulSource(one.name, -one.blame) for one in found[name][:MAX_SOURCES]), "gradients"
    effects = {pair.other: pair.to_task.above_average for pair in pairs if pair.to_task is not None}
    return harmful_sources({other: effects[other] for other in mates if other in effects}), "scores"


def harmful_sources(effects: Mapping[str, float], *, n: int = MAX_SOURCES) -> tuple[HarmfulSource, ...]:
    """Return the sources that were measured to serve a task clearly worse than the average one does.

    `effects` says how far the score of every source that shares a model with the task is from that of the
    average source, in standard deviations. At most `n` are returned, the worst first.

    Examples
    --------
    >>> harmful_sources({"a": -0.7, "b": 0.3, "c": -1.5})
    (HarmfulSource(task='c', effect=-1.5), HarmfulSource(task='a', effect=-0.7))
    """
    found = [HarmfulSource(task, effect) for task, effect in effects.items() if effect < HARMFUL]
    return tuple(sorted(found, key=lambda source: (source.effect, source.task))[:n])

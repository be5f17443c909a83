"""How few-shot learning is set: one value that training and adaptation get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from robusttc.encoders import Encoder, PairedEncoder, SentenceEncoder
from robusttc.models import TrainingSettings
from robusttc.params import Choice, Constraint, Integer, Number, Settings

__all__ = [
    "FewShotSettings",
    "Loss",
    "MetricSettings",
    "Strategy",
    "Tuned",
    "default_settings",
    "find_tuning",
]

Loss = Literal["prototype", "matching"]
Strategy = Literal["blend", "paper"]
Tuned = Literal["alone", "paired"]

POSITIVE = (Number(0, excludes=("low",)),)
NOT_NEGATIVE = (Number(0),)
METRIC_CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "loss": (Choice(*get_args(Loss)),),
    "steps": (Integer(0),),
    **dict.fromkeys(("learning_rate", "scale", "pull"), NOT_NEGATIVE),
    "names": (Number(0, 1),),
}
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "C": POSITIVE,
    "name_strength": NOT_NEGATIVE,
    "cluster_share": (Number(0, 1),),
    "held_out": (Number(0, 0.5),),
    "draws": (Integer(1),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSettings(Settings):
    """How a metric is trained on episodes; checked when it is made, never changed after that.

    Parameters
    ----------
    loss
        ``prototype`` or ``matching``; see `robusttc.fewshot.metric`.
    steps
        The number of steps, of four episodes each.
    learning_rate
        Adam's step size at the start; it falls to 0 along half a cosine.
    scale
        The factor of cosines in the prototype loss; for matching of ready-made vectors, the square of the
        factor that the initial metric multiplies them with, so that both begin with the same logits.
    pull
        The strength of the pull towards the initial metric, for metrics of ready-made vectors.
    names
        The share of episodes in which label names are support examples too, where there are names.

    Examples
    --------
    >>> MetricSettings(steps=100).replace(loss="matching").loss
    'matching'
    """

    loss: Loss = "prototype"
    steps: int = 300
    learning_rate: float = 1e-3
    scale: float = 16.0
    pull: float = 1e-3
    names: float = 0.5

    def __post_init__(self) -> None:
        self._check(METRIC_CONSTRAINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotSettings(Settings):
    """How source tasks are learned from and how a new task is adapted to; never changed after it is made.

    Parameters
    ----------
    metric
        How the shared metric, and that of each cluster, is trained.
    layer
        The shape of a convolution, and how the single-task model of words is trained.
    C
        The inverse penalty of softmax regression on the support set.
    name_strength
        The penalty of the map from label names to label means; see `robusttc.fewshot.metric.fit_name_map`.
    cluster_share
        The weight of the clusters' metrics in a prediction where they serve; the rest is the shared one's.
    held_out
        The share of source tasks that are held out at a time, to judge clusters and to fit the temperature;
        0 holds out one at a time.
    draws
        How many support sets of each held-out task are drawn.

    Examples
    --------
    >>> FewShotSettings(C=10.0).metric.loss
    'prototype'
    """

    metric: MetricSettings = field(default_factory=MetricSettings)
    layer: TrainingSettings = field(default_factory=TrainingSettings)
    C: float = 30.0
    name_strength: float = 0.5
    cluster_share: float = 0.7
    held_out: float = 1 / 3
    draws: int = 2

    def __post_init__(self) -> None:
        self._check(CONSTRAINTS)


def default_settings(strategy: Strategy, *, words: bool, tuned: Tuned | None = None) -> FewShotSettings:
    """Return the settings that are used where the caller gives none.

    All values were chosen on source tasks that were held out from some hundred others.
    Deviation: the paper leaves open the step size, which is 3e-3 for words, and has no pull of a metric of
    ready-made vectors to the vectors as they are; without one, 300 steps on small clusters over-fit.

    Parameters
    ----------
    strategy
        ``blend`` or ``paper``.
    words
        Whether texts are words under a convolution, and not ready-made vectors.
    tuned
        ``alone`` if the encoder itself was tuned on many tasks: little is left to a metric then. ``paired``
        if the original encoder stands beside it.

    Examples
    --------
    >>> default_settings("paper", words=True).metric.loss
    'matching'
    """
    if words and strategy == "paper":
        # A convolution begins at random, and inner products are slow to learn.
        metric = MetricSettings(loss="matching", names=0.0, steps=1000, learning_rate=3e-3)
        return FewShotSettings(metric=metric, layer=TrainingSettings(embeddings="pretrained"))
    if words:
        return FewShotSettings(metric=MetricSettings(learning_rate=3e-3), C=10.0)
    if strategy == "paper":
        # The paper's metric has neither names nor cosines.
        return FewShotSettings(metric=MetricSettings(loss="matching", names=0.0), C=10.0)
    if tuned == "alone":
        metric = MetricSettings(steps=100, learning_rate=3e-4)
        return FewShotSettings(metric=metric, C=100.0, name_strength=5.0)
    if tuned == "paired":
        return FewShotSettings(name_strength=5.0)
    return FewShotSettings()


def find_tuning(encoder: Encoder) -> Tuned | None:
    """Return whether an encoder is a sentence encoder that was fine-tuned, or a pair with such a one."""
    if isinstance(encoder, PairedEncoder):
        return "paired" if any(find_tuning(one) for one in (encoder.first, encoder.second)) else None
    is_tuned = isinstance(encoder, SentenceEncoder) and encoder.weight_delta is not None
    return "alone" if is_tuned else None


def settings_from(values: Mapping[str, Any]) -> FewShotSettings:
    """Rebuild settings from their dictionary."""
    nested = {"metric": MetricSettings(**values["metric"]), "layer": TrainingSettings(**values["layer"])}
    return FewShotSettings(**{**values, **nested})

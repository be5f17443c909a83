"""How few-shot learning is set: one value that training and adapting get."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from robusttc.errors import UsageError, quote
from robusttc.models import TrainingSettings
from robusttc.params import Choice, Settings, check_param

__all__ = ["FewShotSettings", "Loss", "MetricSettings", "Strategy", "Tuned", "default_settings"]

Loss = Literal["prototype", "matching"]
Strategy = Literal["blend", "paper"]
Tuned = Literal["alone", "paired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSettings(Settings):
    """How a metric is trained on episodes; checked when it is made, never changed after that.

    Parameters
    ----------
    loss
        ``prototype`` or ``matching``; see `robusttc.fewshot.losses`.
    steps
        How many steps.
    tasks_a_step
        How many episodes, each of another draw of a task, a step has.
    max_labels, max_queries
        The greatest number of labels and of queries of an episode.
    extra
        How many support rows an episode has besides one a label.
    learning_rate
        Adam's step size at the start; it falls to 0 along half a cosine.
    scale
        The factor of cosines in the prototype loss; for matching of ready vectors, the square of the factor
        that the first metric multiplies them with, so that both begin with the same logits.
    pull
        The strength of the pull towards the first metric, for metrics of ready vectors.
    names
        The share of episodes in which the labels' names are support items too, where there are names.

    Examples
    --------
    >>> MetricSettings(steps=100).replace(loss="matching").loss
    'matching'
    """

    loss: Loss = "prototype"
    steps: int = 300
    tasks_a_step: int = 4
    max_labels: int = 50
    max_queries: int = 64
    extra: int = 20
    learning_rate: float = 1e-3
    scale: float = 16.0
    pull: float = 1e-3
    names: float = 0.5

    def __post_init__(self) -> None:
        check_param("loss", self.loss, Choice(*get_args(Loss)))
        for name, smallest in (
            ("steps", 0),
            ("tasks_a_step", 1),
            ("max_labels", 2),
            ("max_queries", 1),
            ("extra", 0),
        ):
            check_integer(name, getattr(self, name), smallest)
        for name, largest in (
            ("learning_rate", math.inf),
            ("scale", math.inf),
            ("pull", math.inf),
            ("names", 1.0),
        ):
            check_number(name, getattr(self, name), largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotSettings(Settings):
    """How source tasks are learned from and how a new task is adapted to; never changed after it is made.

    Parameters
    ----------
    metric
        How the shared metric, and each cluster's, is trained.
    layer
        The shape of a convolution, and how a task's own model is trained where it has words and not vectors.
    C
        The inverse strength of the penalty of softmax regression on the support set.
    prototype_share
        How much of a prediction comes from prototypes; the rest comes from softmax regression.
    name_strength
        How strongly names are held where they are; see `robusttc.fewshot.name_map`.
    cluster_share
        How much of a prediction comes from the clusters' metrics where they serve; the rest comes from the
        shared one.
    pooled_share
        How much of a prediction comes from pooled classifiers where all labels are identical; the rest comes
        from the support set.
    cluster_steps
        How many steps a cluster's metric takes from the shared one; None trains it from its own beginning,
        with as many steps as the shared one.
    prior_rows
        The strength of the prior towards even weights of clusters, in support rows.
    clear_lead
        By how much the task's own model must be better in leave-one-out accuracy to be taken.
    held_out
        The share of source tasks that rehearse a few-shot task at a time, to judge clusters and to fit
        temperatures; 0 holds out one at a time.
    rehearsals
        How many support sets each of these draws.

    Examples
    --------
    >>> FewShotSettings(C=30.0).metric.loss
    'prototype'
    """

    metric: MetricSettings = field(default_factory=MetricSettings)
    layer: TrainingSettings = field(default_factory=TrainingSettings)
    C: float = 10.0
    prototype_share: float = 0.0
    name_strength: float = 0.5
    cluster_share: float = 0.7
    pooled_share: float = 0.8
    cluster_steps: int | None = None
    prior_rows: float = 2.0
    clear_lead: float = 0.15
    held_out: float = 1 / 3
    rehearsals: int = 2

    def __post_init__(self) -> None:
        for name, largest in (
            ("C", math.inf),
            ("prototype_share", 1.0),
            ("name_strength", math.inf),
            ("cluster_share", 1.0),
            ("pooled_share", 1.0),
            ("prior_rows", math.inf),
            ("clear_lead", 1.0),
            ("held_out", 0.5),
        ):
            check_number(name, getattr(self, name), largest)
        check_integer("rehearsals", self.rehearsals, 1)
        if self.cluster_steps is not None:
            check_integer("cluster_steps", self.cluster_steps, 0)
        if self.C == 0:
            raise UsageError("C cannot be used", got="0", expected="a number above 0")


def default_settings(strategy: Strategy, *, words: bool, tuned: Tuned | None = None) -> FewShotSettings:
    """Give what is used where the caller gives no settings.

    All values were chosen on source tasks that were held out from some hundred others.

    Parameters
    ----------
    strategy
        ``blend`` or ``paper``.
    words
        Whether texts are words under a convolution, and not ready vectors.
    tuned
        ``alone`` if the encoder itself was tuned on many tasks: little is left to a metric then. ``paired``
        if the encoder as it came stands beside it.

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
        return FewShotSettings(metric=MetricSettings(learning_rate=3e-3))
    if strategy == "paper":
        # The paper's metric has neither names nor cosines.
        return FewShotSettings(metric=MetricSettings(loss="matching", names=0.0))
    if tuned == "alone":
        metric = MetricSettings(steps=100, learning_rate=3e-4)
        return FewShotSettings(metric=metric, C=100.0, name_strength=5.0)
    if tuned == "paired":
        return FewShotSettings(C=30.0, name_strength=5.0)
    return FewShotSettings()


def check_integer(name: str, value: object, smallest: int) -> None:
    """Refuse what is not an integer from `smallest` up."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < smallest:
        raise UsageError(
            f"{name} cannot be used", got=quote(value), expected=f"an integer from {smallest} up"
        )


def check_number(name: str, value: object, largest: float) -> None:
    """Refuse what is not a finite number from 0 to `largest`."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= largest or value == math.inf:  # type: ignore[operator]
        raise UsageError(
            f"{name} cannot be used", got=quote(value), expected=f"a finite number from 0 to {largest:g}"
        )

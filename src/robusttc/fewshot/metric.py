"""The training of a metric: a layer under which examples of a label are near each other.

Each step draws a few episodes and descends the mean loss of their queries, with gradients through support and
queries alike. A metric of ready vectors (sentence vectors) is one full linear map that begins at the identity
and is pulled back to it; a metric of words is a convolution that begins at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.errors import DataError
from robusttc.fewshot.episodes import Episode, SourceRows, draw_episode, usable_sources
from robusttc.fewshot.losses import matching_loss, prototype_loss
from robusttc.fewshot.settings import MetricSettings
from robusttc.models import Adam, DenseLayer, Layer, TrainingSettings, new_layer
from robusttc.progress import Progress, report
from robusttc.random import numpy_generator

__all__ = ["check_usable", "first_metric", "train_metric"]

Floats = NDArray[np.float32]


def first_metric(
    inputs: FrozenInputs,
    *,
    settings: MetricSettings,
    layer_settings: TrainingSettings,
    generator: np.random.Generator,
) -> Layer:
    """Make the metric that training begins with.

    For ready vectors it is the identity, times the root of the scale where the loss takes plain inner
    products. Deviation: the paper's matching has no scale; unit vectors have inner products of at most 1, and
    a softmax of those over fifty examples is flat. For words it is a convolution with random weights.

    Examples
    --------
    >>> inputs = DenseInputs(np.eye(3, dtype=np.float32))
    >>> metric = first_metric(
    ...     inputs,
    ...     settings=MetricSettings(),
    ...     layer_settings=TrainingSettings(),
    ...     generator=np.random.default_rng(0),
    ... )
    >>> bool((metric.represent(inputs) == inputs.matrix).all())
    True
    """
    if not isinstance(inputs, DenseInputs):
        return new_layer(inputs, settings=layer_settings, generator=generator)
    factor = 1.0 if settings.loss == "prototype" else math.sqrt(settings.scale)
    weight = np.float32(factor) * np.eye(inputs.dimension, dtype=np.float32)
    return DenseLayer(weight, np.zeros(inputs.dimension, dtype=np.float32), "linear")


def train_metric(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    *,
    settings: MetricSettings,
    layer_settings: TrainingSettings | None = None,
    start: Layer | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Layer:
    """Train a metric on the episodes of some source tasks.

    Every task is drawn as often as any other, however many rows it has. The draws depend on the seed and on
    the names of the tasks, not on their order.

    Parameters
    ----------
    inputs
        The frozen inputs of all rows.
    sources
        The tasks; those without two labels of two rows are left out.
    settings
        How to train.
    layer_settings
        The shape of a convolution; ready vectors have no use for it.
    start
        The metric to begin with (and to be pulled to); None takes `first_metric`.
    seed
        The seed of the run.
    progress
        Told after every step.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> vectors = generator.normal(size=(40, 4)).astype(np.float32)
    >>> source = SourceRows("a", np.arange(40), (vectors[:, 0] > 0).astype(np.int64), np.array([-1, -1]))
    >>> metric = train_metric(DenseInputs(vectors), [source], settings=MetricSettings(steps=200, pull=0.0))
    >>> bool(abs(metric.parameters()["weight"][0]).sum() > abs(metric.parameters()["weight"][1]).sum())
    True
    """
    usable = sorted(check_usable(sources), key=lambda source: source.name)
    generator = numpy_generator(seed, "metric", [source.name for source in usable])
    if start is None:
        layer = first_metric(
            inputs,
            settings=settings,
            layer_settings=layer_settings or TrainingSettings(),
            generator=generator,
        )
    else:
        layer = start.clone()
    parameters = layer.parameters()
    anchor = parameters["weight"].copy() if isinstance(layer, DenseLayer) else None
    optimiser = Adam(parameters, learning_rate=settings.learning_rate)
    queue: list[int] = []
    with threadpool_limits(1):
        for step in range(settings.steps):
            optimiser.learning_rate = (
                settings.learning_rate * (1 + math.cos(math.pi * step / settings.steps)) / 2
            )
            while len(queue) < settings.tasks_a_step:
                # Rounds of all tasks, each in a new order: every task is seen as often as any other.
                queue.extend(generator.permutation(len(usable)).tolist())
            chosen, queue = queue[: settings.tasks_a_step], queue[settings.tasks_a_step :]
            episodes = [draw(usable[number], settings, generator) for number in chosen]
            rows = np.concatenate([part for one in episodes for part in (one.support, one.queries)])
            gradient = episode_gradients(layer.forward(inputs, rows), episodes, settings)[1]
            gradients = layer.backward(gradient)
            weight_gradient = gradients.get("weight")
            if anchor is not None and isinstance(weight_gradient, np.ndarray):
                weight_gradient += np.float32(settings.pull) * (parameters["weight"] - anchor)
            optimiser.step(gradients)
            report(progress, "metric", step + 1, settings.steps, "steps")
    return layer


def check_usable(sources: Sequence[SourceRows]) -> tuple[SourceRows, ...]:
    """Give the tasks that episodes can be drawn from.

    Raises
    ------
    DataError
        If there are none.
    """
    usable = usable_sources(sources)
    if not usable:
        raise DataError(
            "no task can be played as a few-shot task",
            got=f"{len(sources):,} tasks",
            expected="a task with two labels of at least two rows each",
        )
    return usable


def draw(source: SourceRows, settings: MetricSettings, generator: np.random.Generator) -> Episode:
    """Draw an episode as the settings want it."""
    return draw_episode(
        source,
        generator=generator,
        max_labels=settings.max_labels,
        max_queries=settings.max_queries,
        extra=settings.extra,
        with_names=bool(generator.random() < settings.names),
    )


def episode_gradients(
    representation: Floats, episodes: Sequence[Episode], settings: MetricSettings
) -> tuple[float, Floats]:
    """Give the mean loss of episodes that stand below each other, and its gradient.

    `representation` has the rows of each episode's support, then of its queries, episode after episode.
    """
    gradient = np.empty_like(representation)
    total, start = 0.0, 0
    for episode in episodes:
        middle = start + len(episode.support)
        end = middle + len(episode.queries)
        support, queries = representation[start:middle], representation[middle:end]
        codes = (episode.support_codes, episode.query_codes)
        if settings.loss == "matching":
            loss, for_support, for_queries = matching_loss(support, codes[0], queries, codes[1])
        else:
            loss, for_support, for_queries = prototype_loss(
                support, codes[0], queries, codes[1], n_labels=episode.n_labels, scale=settings.scale
            )
        gradient[start:middle], gradient[middle:end] = for_support, for_queries
        total, start = total + loss, end
    gradient /= np.float32(len(episodes))
    return total / len(episodes), gradient

"""Metric training on episodes: a layer under which examples of a label are near each other.

An episode treats a source task as a few-shot target: it takes some of its labels, a support set such as a
target has (one row per label and twenty more), and queries among the other rows of these labels. The loss is
the mean cross-entropy of the queries, by

* *matching* (Eq. 4): P(y | x) is the sum, over the support examples l of label y, of the softmax over l of
  z_l . z;
* *prototypes*: P(y | x) is the softmax over y of s cos(c_y, z), where c_y is the mean of the label's support
  vectors, each of unit length.

A metric of ready-made vectors (sentence vectors) is one full linear map that begins at the identity and is
pulled back to it; a metric of words is a convolution that begins at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.errors import DataError, UsageError, quote
from robusttc.fewshot.protocol import EXTRA_ROWS, pick_rows
from robusttc.fewshot.settings import FewShotSettings, MetricSettings
from robusttc.models import (
    Adam,
    DenseLayer,
    Layer,
    TrainingSettings,
    layer_from_parameters,
    new_layer,
)
from robusttc.progress import Progress, report
from robusttc.random import numpy_generator

__all__ = [
    "Episode",
    "Floats",
    "Metric",
    "SourceRows",
    "check_usable",
    "draw_episode",
    "episode_gradients",
    "fit_name_map",
    "make_metric",
    "mean_direction",
    "softmax_rows",
    "sum_rows",
    "train_metric",
    "unit_rows",
    "usable_sources",
]

Floats = NDArray[np.float32]
Matrix = TypeVar("Matrix", NDArray[np.float32], NDArray[np.float64])
Codes = NDArray[np.int64]

EPISODES_A_STEP = 4
MAX_LABELS, MAX_QUERIES = 50, 64
# Below this length a vector has no direction; it stays as it is.
TINY = 1e-12
# A full matrix from names to label means takes some hundred labels; with fewer than these there is none.
LEAST_LABELS = 30
# The mean of a label hardly changes after so many rows.
ROWS_A_LABEL = 20


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """The rows of a source task: items of the frozen inputs, their labels, and the items of label names.

    A name that carries no words has item -1.
    """

    name: str
    items: Codes
    codes: Codes
    name_items: Codes


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One small few-shot problem: items and labels of support set and queries; labels count from 0.

    Names of labels that are used stand among the support items.
    """

    support: Codes
    support_codes: Codes
    queries: Codes
    query_codes: Codes
    n_labels: int


def usable_sources(sources: Sequence[SourceRows]) -> tuple[SourceRows, ...]:
    """Return the tasks that an episode can be drawn from: at least two labels have two rows or more.

    Examples
    --------
    >>> one = SourceRows("a", np.arange(3), np.array([0, 0, 1]), np.array([-1, -1]))
    >>> len(usable_sources([one]))
    0
    """
    return tuple(source for source in sources if (np.bincount(source.codes) >= 2).sum() >= 2)


def check_usable(sources: Sequence[SourceRows]) -> tuple[SourceRows, ...]:
    """Return the tasks that an episode can be drawn from, or raise an error if there are none."""
    usable = usable_sources(sources)
    if not usable:
        raise DataError(
            "no task can serve as a few-shot task to train on",
            got=f"{len(sources):,} tasks",
            expected="a task with two labels of at least two rows each",
        )
    return usable


def draw_episode(source: SourceRows, generator: np.random.Generator, *, with_names: bool = False) -> Episode:
    """Draw an episode of a usable source; `with_names`, a label's name is one more support item of the label.

    Labels of a single row are left out: it cannot be support and query at once. At most half of the rows
    beyond one per label go to the support set, so that small tasks have queries too.

    Examples
    --------
    >>> source = SourceRows("a", np.arange(10), np.repeat([0, 1], 5), np.array([-1, -1]))
    >>> episode = draw_episode(source, np.random.default_rng(0))
    >>> len(episode.support), len(episode.queries), episode.n_labels
    (6, 4, 2)
    """
    counts = np.bincount(source.codes)
    labels = np.flatnonzero(counts >= 2)
    if len(labels) > MAX_LABELS:
        labels = np.sort(generator.permutation(labels)[:MAX_LABELS])
    place_of = np.full(len(counts), -1, dtype=np.int64)
    place_of[labels] = np.arange(len(labels))
    rows = np.flatnonzero(place_of[source.codes] >= 0)
    codes = place_of[source.codes[rows]]
    n_extra = min(EXTRA_ROWS, (len(rows) - len(labels)) // 2)
    picked = pick_rows(codes, per_label=1, extra=n_extra, generator=generator)
    is_query = np.ones(len(rows), dtype=np.bool_)
    is_query[picked] = False
    queries = np.flatnonzero(is_query)
    if len(queries) > MAX_QUERIES:
        queries = generator.permutation(queries)[:MAX_QUERIES]
    support, support_codes = source.items[rows[picked]], codes[picked]
    if with_names:
        names = source.name_items[labels]
        support = np.concatenate([support, names[names >= 0]])
        support_codes = np.concatenate([support_codes, np.flatnonzero(names >= 0)])
    return Episode(support, support_codes, source.items[rows[queries]], codes[queries], len(labels))


def train_metric(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    *,
    settings: MetricSettings,
    layer_settings: TrainingSettings | None = None,
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
        The shape of a convolution; ready-made vectors have no use for it.
    seed
        The seed of the run.
    progress
        Progress callback, counted in steps.

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
    layer = initial_layer(inputs, settings, layer_settings or TrainingSettings(), generator)
    parameters = layer.parameters()
    anchor = parameters["weight"].copy() if isinstance(layer, DenseLayer) else None
    optimiser = Adam(parameters, learning_rate=settings.learning_rate)
    queue: list[int] = []
    with threadpool_limits(1):
        for step in range(settings.steps):
            decay = (1 + math.cos(math.pi * step / settings.steps)) / 2
            optimiser.learning_rate = settings.learning_rate * decay
            while len(queue) < EPISODES_A_STEP:
                # Rounds of all tasks, each in a new order: every task is seen as often as any other.
                queue.extend(generator.permutation(len(usable)).tolist())
            chosen, queue = queue[:EPISODES_A_STEP], queue[EPISODES_A_STEP:]
            episodes = [
                draw_episode(usable[number], generator, with_names=bool(generator.random() < settings.names))
                for number in chosen
            ]
            rows = np.concatenate([part for one in episodes for part in (one.support, one.queries)])
            _, gradient = episode_gradients(layer.forward(inputs, rows), episodes, settings)
            gradients = layer.backward(gradient)
            of_weight = gradients.get("weight")
            if anchor is not None and isinstance(of_weight, np.ndarray):
                of_weight += np.float32(settings.pull) * (parameters["weight"] - anchor)
            optimiser.step(gradients)
            report(progress, "metric", step + 1, settings.steps, "steps")
    return layer


def initial_layer(
    inputs: FrozenInputs,
    settings: MetricSettings,
    layer_settings: TrainingSettings,
    generator: np.random.Generator,
) -> Layer:
    """Return the layer that training begins with.

    Deviation: the paper's matching has no scale; unit vectors have inner products of at most 1, and a softmax
    of those over fifty examples is flat. So for matching the identity is multiplied by the root of the scale.
    """
    if not isinstance(inputs, DenseInputs):
        return new_layer(inputs, settings=layer_settings, generator=generator)
    factor = 1.0 if settings.loss == "prototype" else math.sqrt(settings.scale)
    weight = np.float32(factor) * np.eye(inputs.dimension, dtype=np.float32)
    return DenseLayer(weight, np.zeros(inputs.dimension, dtype=np.float32), "linear")


def episode_gradients(
    representation: Matrix, episodes: Sequence[Episode], settings: MetricSettings
) -> tuple[float, Matrix]:
    """Return the mean loss of some episodes, and its gradient with respect to the representation.

    `representation` has the rows of each episode's support, then of its queries, episode after episode.
    """
    gradient = np.empty_like(representation)
    total, start = 0.0, 0
    for episode in episodes:
        middle = start + len(episode.support)
        end = middle + len(episode.queries)
        support, queries = representation[start:middle], representation[middle:end]
        if settings.loss == "matching":
            found = matching_loss(support, queries, episode)
        else:
            found = prototype_loss(support, queries, episode, settings.scale)
        loss, gradient[start:middle], gradient[middle:end] = found
        total, start = total + loss, end
    gradient /= representation.dtype.type(len(episodes))
    return total / len(episodes), gradient


def matching_loss(support: Matrix, queries: Matrix, episode: Episode) -> tuple[float, Matrix, Matrix]:
    """Return the loss of matching (Eq. 4) and its gradients with respect to support and queries."""
    shares = softmax_rows(queries @ support.T)
    own = episode.support_codes[None, :] == episode.query_codes[:, None]
    right = np.maximum((shares * own).sum(axis=1), 1e-30)
    # d(-log sum of own shares) / d logits = shares - own shares / their sum
    of_logits = (shares - shares * own / right[:, None].astype(shares.dtype)) / len(queries)
    of_logits = of_logits.astype(shares.dtype)
    return float(-np.log(right).mean()), of_logits.T @ queries, of_logits @ support


def prototype_loss(
    support: Matrix, queries: Matrix, episode: Episode, scale: float
) -> tuple[float, Matrix, Matrix]:
    """Return the loss of prototypes and its gradients with respect to support and queries."""
    unit_support, unit_queries = unit_rows(support), unit_rows(queries)
    factor = support.dtype.type(scale)
    member = np.zeros((episode.n_labels, len(support)), dtype=support.dtype)
    member[episode.support_codes, np.arange(len(support))] = 1.0
    member /= member.sum(axis=1, keepdims=True)
    means = member @ unit_support
    prototypes = unit_rows(means)
    shares = softmax_rows(factor * (unit_queries @ prototypes.T))
    places = np.arange(len(queries))
    loss = float(-np.log(np.maximum(shares[places, episode.query_codes], 1e-30)).mean())
    shares[places, episode.query_codes] -= 1.0
    of_logits: Matrix = shares * (factor / support.dtype.type(len(queries)))
    of_prototypes = unit_gradient(means, prototypes, of_logits.T @ unit_queries)
    of_support = unit_gradient(support, unit_support, member.T @ of_prototypes)
    return loss, of_support, unit_gradient(queries, unit_queries, of_logits @ prototypes)


def unit_rows(matrix: Matrix) -> Matrix:
    """Scale every row to length 1; a row of zeros stays one.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.sqrt((matrix * matrix).sum(axis=1, keepdims=True))
    result: Matrix = matrix / np.maximum(lengths, TINY).astype(matrix.dtype)
    return result


def unit_gradient(matrix: Matrix, unit: Matrix, gradient: Matrix) -> Matrix:
    """Return the gradient with respect to rows, given that with respect to the unit rows."""
    lengths = np.maximum(np.sqrt((matrix * matrix).sum(axis=1, keepdims=True)), TINY).astype(matrix.dtype)
    along = (unit * gradient).sum(axis=1, keepdims=True)
    result: Matrix = (gradient - unit * along) / lengths
    return result


def softmax_rows(logits: Matrix) -> Matrix:
    """Return the softmax of every row."""
    shares: Matrix = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def sum_rows(matrix: Floats, codes: Codes, n_labels: int) -> Floats:
    """Add up the rows of each label, in their order; a label without rows has zeros.

    Examples
    --------
    >>> sum_rows(np.array([[1], [2], [4]], dtype=np.float32), np.array([2, 0, 2]), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    sums = np.zeros((n_labels, matrix.shape[1]), dtype=np.float32)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    if len(present):
        sums[present] = np.add.reduceat(matrix[order], starts, axis=0)
    return sums


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric, and where label names stand in it.

    Attributes
    ----------
    layer
        The trained layer; None for ready-made vectors as they are.
    name_map
        See `fit_name_map`; None leaves names where they are.
    split
        Where vectors are those of two encoders: how many columns the first one has. Each half then has a
        metric of its own, and counts the same. 0 for one encoder.
    """

    layer: Layer | None
    name_map: Floats | None = None
    split: int = 0

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Return the representation of every item, as it is."""
        if self.layer is not None:
            return self.layer.represent(inputs)
        if not isinstance(inputs, DenseInputs):
            raise UsageError("words have no vector of their own", got=quote(inputs), expected="vectors")
        return inputs.matrix

    def directions(self, inputs: FrozenInputs) -> Floats:
        """Return the representation of every item, at length 1."""
        return unit_halves(self.represent(inputs), self.split)

    def place_names(self, names: FrozenInputs) -> Floats:
        """Return unit vectors that stand for labels, from the inputs of their names."""
        vectors = self.directions(names)
        return unit_halves(
            vectors if self.name_map is None else vectors + vectors @ self.name_map, self.split
        )

    def describe(self) -> dict[str, Any]:
        """Return what it is rebuilt from: values for JSON, and arrays."""
        layer = None
        if self.layer is not None:
            activation = self.layer.activation if isinstance(self.layer, DenseLayer) else "relu"
            layer = {"activation": activation, "parameters": self.layer.parameters()}
        return {"layer": layer, "name_map": self.name_map, "split": self.split}

    @classmethod
    def from_description(cls, content: Mapping[str, Any]) -> Metric:
        """Rebuild it from what `describe` returned."""
        layer, described = None, content["layer"]
        if described is not None:
            settings = TrainingSettings(activation=described["activation"])
            layer = layer_from_parameters(described["parameters"], settings=settings)
        return cls(layer, content["name_map"], int(content["split"]))


def unit_halves(matrix: Floats, split: int) -> Floats:
    """Scale every row to length 1, each half by itself if there are two."""
    if not split:
        return np.asarray(unit_rows(matrix), dtype=np.float32)
    halves = [unit_rows(matrix[:, :split]), unit_rows(matrix[:, split:])]
    return np.asarray(np.concatenate(halves, axis=1) / np.sqrt(2), dtype=np.float32)


def mean_direction(metric: Metric, inputs: FrozenInputs) -> Floats:
    """Return the direction of the mean of some items, shape (1, dimension)."""
    mean = metric.directions(inputs).mean(axis=0, keepdims=True, dtype=np.float64)
    return np.asarray(unit_rows(mean.astype(np.float32)), dtype=np.float32)


def make_metric(
    layers: Sequence[Layer],
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    settings: FewShotSettings,
    split: int = 0,
) -> Metric:
    """Make a metric of a layer, or of one per encoder, with a map of names that all sources have."""
    layer = layers[0] if len(layers) == 1 else join_layers(layers)
    metric = Metric(layer, split=split)
    if not any((source.name_items >= 0).any() for source in sources):
        return metric
    maps = []
    for part in [slice(None)] if not split else [slice(split), slice(split, None)]:

        def represent(items: Codes, part: slice = part) -> Floats:
            return np.asarray(unit_rows(metric.represent(inputs.take(items))[:, part]), dtype=np.float32)

        maps.append(fit_name_map(represent, sources, strength=settings.name_strength))
    found = [one for one in maps if one is not None]
    return Metric(layer, block_diagonal(found) if found else None, split)


def join_layers(layers: Sequence[Layer]) -> DenseLayer:
    """Return one layer of those of two encoders, each for its own columns."""
    parameters = [layer.parameters() for layer in layers]
    bias = np.concatenate([one["bias"] for one in parameters])
    return DenseLayer(block_diagonal([one["weight"] for one in parameters]), bias, "linear")


def block_diagonal(blocks: Sequence[Floats]) -> Floats:
    """Return matrices along the diagonal of one."""
    from scipy.linalg import block_diag

    return np.asarray(block_diag(*blocks), dtype=np.float32)


def fit_name_map(
    represent: Callable[[Codes], Floats], sources: Sequence[SourceRows], *, strength: float
) -> Floats | None:
    """Learn A, the way from the name of a label to its texts; None where too few labels have names.

    A name is not a text of its label: "order status" is near what people write about orders, but not in
    the midst of it. In which direction texts differ from names is much the same in all tasks. So with rows of
    unit vectors, names N and label means M of the sources, A minimises
    ||N (I + A) - M||^2 + strength ||A||^2, and a name n of a new task stands at n (I + A).

    Parameters
    ----------
    represent
        Returns the unit vectors of items.
    sources
        The tasks, in any order.
    strength
        The penalty of A.

    Examples
    --------
    >>> vectors = unit_rows(np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32))
    >>> source = SourceRows("a", np.arange(40, 80), np.arange(40), np.arange(40))
    >>> fit_name_map(lambda items: vectors[items], [source], strength=1.0).shape
    (4, 4)
    """
    names, means = [], []
    for source in sorted(sources, key=lambda source: source.name):
        order = np.argsort(source.codes, kind="stable")
        rank = np.arange(len(order)) - np.searchsorted(source.codes[order], source.codes[order])
        rows = np.sort(order[rank < ROWS_A_LABEL])
        known = (source.name_items >= 0) & (np.bincount(source.codes, minlength=len(source.name_items)) > 0)
        if known.any():
            sums = sum_rows(represent(source.items[rows]), source.codes[rows], len(known))
            means.append(unit_rows(sums[known]))
            names.append(represent(source.name_items[known]))
    if sum(len(part) for part in names) < LEAST_LABELS:
        return None
    inputs = np.concatenate(names).astype(np.float64)
    outputs = np.concatenate(means).astype(np.float64) - inputs
    gram = inputs.T @ inputs
    gram[np.diag_indices_from(gram)] += strength
    return np.linalg.solve(gram, inputs.T @ outputs).astype(np.float32)

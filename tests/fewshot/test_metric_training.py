"""Losses against finite differences, and metrics that find planted directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import TokenArray
from robusttc.encoders.adam import RowGradients
from robusttc.encoders.dense import DenseLayer
from robusttc.encoders.inputs import DenseInputs, WordInputs
from robusttc.encoders.layer import Layer, new_layer
from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import DataError, UsageError
from robusttc.fewshot.episodes import Episode, SourceRows, draw_episode, usable_sources
from robusttc.fewshot.losses import matching_loss, prototype_loss
from robusttc.fewshot.metric import episode_gradients, train_metric
from robusttc.fewshot.settings import FewShotSettings, MetricSettings

Floats = NDArray[np.float64]
SEEDS = [0, 1, 2]


def difference(function: Any, array: Floats, place: Any, step: float) -> Any:
    moved = array.copy()
    moved[place] += step
    up = function(moved)
    moved[place] -= 2 * step
    return (up - function(moved)) / (2 * step)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["matching", "prototype"])
def test_gradients_of_losses_are_those_of_finite_differences(seed: int, kind: str) -> None:
    generator = np.random.default_rng(seed)
    support, queries = generator.normal(size=(7, 4)), generator.normal(size=(5, 4))
    support_codes, query_codes = np.array([0, 1, 2, 0, 1, 1, 2]), np.array([0, 1, 2, 2, 1])

    def loss(support: Floats, queries: Floats) -> Any:
        if kind == "matching":
            return matching_loss(support, support_codes, queries, query_codes)
        return prototype_loss(support, support_codes, queries, query_codes, n_labels=3, scale=5.0)

    _, for_support, for_queries = loss(support, queries)
    for place in np.ndindex(support.shape):
        expected = difference(lambda moved: loss(moved, queries)[0], support, place, 1e-6)
        assert for_support[place] == pytest.approx(expected, abs=1e-7)
    for place in np.ndindex(queries.shape):
        expected = difference(lambda moved: loss(support, moved)[0], queries, place, 1e-6)
        assert for_queries[place] == pytest.approx(expected, abs=1e-7)


def make_layer(kind: str, generator: np.random.Generator) -> tuple[Layer, DenseInputs | WordInputs]:
    if kind == "dense":
        inputs = DenseInputs(generator.normal(size=(12, 5)).astype(np.float32))
        return DenseLayer(
            generator.normal(size=(5, 5)).astype(np.float32), np.zeros(5, np.float32), "linear"
        ), inputs
    vectors = generator.normal(size=(9, 3)).astype(np.float32)
    vectors[0] = 0
    lengths = generator.integers(1, 6, size=12)
    tokens = TokenArray(
        generator.integers(1, 9, size=lengths.sum()).astype(np.int32),
        np.concatenate([[0], np.cumsum(lengths)]),
    )
    words = WordInputs(tokens, vectors)
    settings = TrainingSettings(width=6, window=3, embeddings="pretrained")
    return new_layer(words, settings=settings, generator=generator), words


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["dense", "words"])
@pytest.mark.parametrize("loss", ["matching", "prototype"])
def test_gradients_reach_the_layer_through_support_and_queries(seed: int, kind: str, loss: Any) -> None:
    generator = np.random.default_rng(seed)
    layer, inputs = make_layer(kind, generator)
    settings = MetricSettings(loss=loss, scale=4.0)
    episodes = [
        Episode(np.array([0, 1, 2]), np.array([0, 1, 0]), np.array([3, 4]), np.array([1, 0]), 2),
        Episode(np.array([5, 6, 7]), np.array([0, 1, 2]), np.array([8, 9, 10]), np.array([2, 0, 1]), 3),
    ]
    rows = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])

    def value() -> float:
        return episode_gradients(layer.forward(inputs, rows).astype(np.float64), episodes, settings)[0]

    gradient = episode_gradients(layer.forward(inputs, rows), episodes, settings)[1]
    gradients = layer.backward(gradient)
    checked = 0
    for name, array in layer.parameters().items():
        given = gradients[name]
        dense = np.zeros_like(array)
        if isinstance(given, RowGradients):
            dense[given.rows] = given.values
        else:
            dense[...] = given
        for place in list(np.ndindex(array.shape))[:: max(1, array.size // 15)]:
            if name == "vectors" and place[0] == 0:
                continue
            before = array[place]
            array[place] = before + 2e-3
            up = value()
            array[place] = before - 2e-3
            down = value()
            array[place] = before
            # Steps of 32-bit numbers; a maximum over time may switch its place within one.
            assert dense[place] == pytest.approx((up - down) / 4e-3, abs=0.02, rel=0.05)
            checked += 1
    assert checked > 20


def planted_sources(seed: int, n_tasks: int = 8) -> tuple[DenseInputs, list[SourceRows]]:
    """Labels depend on the first 4 of 16 directions; the others are noise of three times the size."""
    generator = np.random.default_rng(seed)
    parts, sources = [], []
    for number in range(n_tasks):
        centres = generator.normal(size=(4, 4))
        codes = np.repeat(np.arange(4), 12)
        rows = np.concatenate(
            [centres[codes] + 0.3 * generator.normal(size=(48, 4)), 1.5 * generator.normal(size=(48, 12))],
            axis=1,
        )
        parts.append(rows)
        sources.append(SourceRows(f"t{number}", np.arange(48) + 48 * number, codes, np.full(4, -1)))
    return DenseInputs(np.concatenate(parts).astype(np.float32)), sources


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", ["matching", "prototype"])
def test_a_metric_turns_to_the_directions_that_tell_labels_apart(seed: int, loss: Any) -> None:
    inputs, sources = planted_sources(seed)
    settings = MetricSettings(
        loss=loss, steps=150, scale=1.0 if loss == "matching" else 8.0, learning_rate=1e-2
    )
    weight = train_metric(inputs, sources, settings=settings, seed=seed).parameters()["weight"]
    strength = np.linalg.norm(weight, axis=1)
    assert strength[:4].min() > strength[4:].max()


def test_metric_depends_on_neither_order_nor_calls_before() -> None:
    inputs, sources = planted_sources(0)
    settings = MetricSettings(steps=20)
    first = train_metric(inputs, sources, settings=settings, seed=3).parameters()["weight"]
    second = train_metric(inputs, sources[::-1], settings=settings, seed=3).parameters()["weight"]
    other = train_metric(inputs, sources, settings=settings, seed=4).parameters()["weight"]
    assert (first == second).all()
    assert not (first == other).all()


def test_a_strong_pull_keeps_the_first_metric() -> None:
    inputs, sources = planted_sources(0)
    weights = [
        train_metric(inputs, sources, settings=MetricSettings(steps=100, pull=pull)).parameters()["weight"]
        for pull in (0.0, 100.0)
    ]
    distances = [float(np.abs(weight - np.eye(16)).mean()) for weight in weights]
    assert distances[1] < 0.2 * distances[0]


def test_training_from_a_given_metric_leaves_it_as_it_was() -> None:
    inputs, sources = planted_sources(0)
    start = train_metric(inputs, sources, settings=MetricSettings(steps=5))
    before = start.parameters()["weight"].copy()
    moved = train_metric(inputs, sources, settings=MetricSettings(steps=5), start=start)
    assert (start.parameters()["weight"] == before).all()
    assert not (moved.parameters()["weight"] == before).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_episodes_have_every_label_in_the_support_and_no_row_twice(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = np.array([0] * 30 + [1] * 2 + [2] + [3] * 15)
    source = SourceRows("a", np.arange(48) + 100, codes, np.array([200, 201, 202, -1]))
    for with_names in (False, True):
        episode = draw_episode(
            source, generator=generator, max_labels=10, max_queries=8, extra=20, with_names=with_names
        )
        assert episode.n_labels == 3  # the label of a single row is out
        assert set(episode.support_codes) == {0, 1, 2}
        assert len(episode.queries) == 8
        assert not set(episode.support) & set(episode.queries)
        place_of = {0: 0, 1: 1, 3: 2}
        for items, own in ((episode.support, episode.support_codes), (episode.queries, episode.query_codes)):
            rows = items < 200
            assert [place_of[codes[item - 100]] for item in items[rows]] == own[rows].tolist()
        assert ((episode.support >= 200).sum() == 2) == with_names


def test_episodes_draw_some_labels_of_many() -> None:
    source = SourceRows("a", np.arange(60), np.repeat(np.arange(20), 3), np.full(20, -1))
    episode = draw_episode(source, generator=np.random.default_rng(0), max_labels=5, max_queries=64)
    assert episode.n_labels == 5
    assert len(episode.support) + len(episode.queries) == 15


def test_tasks_without_episodes_are_refused() -> None:
    lonely = SourceRows("a", np.arange(3), np.array([0, 0, 1]), np.full(2, -1))
    assert usable_sources([lonely]) == ()
    with pytest.raises(DataError, match="no task can be played"):
        train_metric(DenseInputs(np.eye(3, dtype=np.float32)), [lonely], settings=MetricSettings())


@pytest.mark.parametrize(
    "change",
    [
        {"steps": -1},
        {"steps": 1.5},
        {"loss": "triplet"},
        {"names": 2.0},
        {"pull": float("nan")},
        {"max_labels": 1},
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(change))):
        MetricSettings(**change)


@pytest.mark.parametrize(
    "change", [{"C": 0}, {"C": float("inf")}, {"held_out": 0.9}, {"rehearsals": 0}, {"cluster_steps": -1}]
)
def test_few_shot_settings_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(change))):
        FewShotSettings(**change)

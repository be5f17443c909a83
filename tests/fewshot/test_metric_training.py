"""Losses against finite differences, and metrics that find planted directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.data import TokenArray
from robusttc.encoders import DenseInputs, WordInputs
from robusttc.errors import DataError, UsageError
from robusttc.fewshot import (
    FewShotSettings,
    Metric,
    MetricSettings,
    SourceRows,
    fit_name_map,
    train_metric,
)
from robusttc.fewshot.metric import (
    MAX_LABELS,
    MAX_QUERIES,
    Episode,
    draw_episode,
    episode_gradients,
    unit_rows,
)
from robusttc.models import DenseLayer, Layer, RowGradients, TrainingSettings, new_layer

SEEDS = [0, 1, 2]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", ["matching", "prototype"])
def test_gradients_of_losses_are_those_of_finite_differences(seed: int, loss: Any) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(12, 4))
    support_codes, query_codes = np.array([0, 1, 2, 0, 1, 1, 2]), np.array([0, 1, 2, 2, 1])
    episode = Episode(np.arange(7), support_codes, np.arange(7, 12), query_codes, 3)
    settings = MetricSettings(loss=loss, scale=5.0)
    _, gradient = episode_gradients(rows, [episode], settings)
    for place in np.ndindex(rows.shape):
        values = []
        for step in (1e-6, -1e-6):
            moved = rows.copy()
            moved[place] += step
            values.append(episode_gradients(moved, [episode], settings)[0])
        assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


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


@pytest.mark.parametrize("seed", SEEDS)
def test_episodes_have_every_label_in_the_support_and_no_row_twice(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = np.array([0] * 90 + [1] * 2 + [2] + [3] * 15)
    source = SourceRows("a", np.arange(108) + 100, codes, np.array([300, 301, 302, -1]))
    for with_names in (False, True):
        episode = draw_episode(source, generator, with_names=with_names)
        assert episode.n_labels == 3  # the label of a single row is out
        assert set(episode.support_codes) == {0, 1, 2}
        assert len(episode.queries) == MAX_QUERIES
        assert not set(episode.support) & set(episode.queries)
        place_of = {0: 0, 1: 1, 3: 2}
        for items, own in ((episode.support, episode.support_codes), (episode.queries, episode.query_codes)):
            rows = items < 300
            assert [place_of[codes[item - 100]] for item in items[rows]] == own[rows].tolist()
        assert ((episode.support >= 300).sum() == 2) == with_names


def test_episodes_draw_some_labels_of_many() -> None:
    source = SourceRows("a", np.arange(120), np.repeat(np.arange(60), 2), np.full(60, -1))
    episode = draw_episode(source, np.random.default_rng(0))
    assert episode.n_labels == MAX_LABELS
    assert len(episode.support) + len(episode.queries) == 2 * MAX_LABELS


def test_tasks_without_episodes_are_refused() -> None:
    lonely = SourceRows("a", np.arange(3), np.array([0, 0, 1]), np.full(2, -1))
    with pytest.raises(DataError, match="no task can serve as a few-shot task"):
        train_metric(DenseInputs(np.eye(3, dtype=np.float32)), [lonely], settings=MetricSettings())


@pytest.mark.parametrize(
    "change",
    [
        {"steps": -1},
        {"steps": 1.5},
        {"loss": "triplet"},
        {"names": 2.0},
        {"pull": float("nan")},
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(change))):
        MetricSettings(**change)


@pytest.mark.parametrize("change", [{"C": 0}, {"C": float("inf")}, {"held_out": 0.9}, {"draws": 0}])
def test_few_shot_settings_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(change))):
        FewShotSettings(**change)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_name_map_learns_a_planted_turn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    names: Any = unit_rows(generator.normal(size=(300, 8)).astype(np.float32))
    turn = np.linalg.qr(generator.normal(size=(8, 8)))[0].astype(np.float32)
    texts = unit_rows(names @ turn + 0.05 * generator.normal(size=(300, 8)).astype(np.float32))
    vectors = np.concatenate([names, texts])
    sources = [
        SourceRows(
            f"t{number}", 300 + np.arange(10) + 10 * number, np.arange(10), np.arange(10) + 10 * number
        )
        for number in range(25)
    ]
    name_map = fit_name_map(lambda items: vectors[items], sources, strength=0.1)
    again = fit_name_map(lambda items: vectors[items], sources[::-1], strength=0.1)
    assert name_map is not None
    assert (name_map == again).all()
    # On the 50 labels that were not shown.
    held = DenseInputs(names[250:])
    placed = (Metric(None, name_map).place_names(held) * texts[250:]).sum(axis=1)
    plain = (Metric(None).place_names(held) * texts[250:]).sum(axis=1)
    assert placed.mean() > 0.95 > plain.mean()


def test_few_or_no_names_leave_names_where_they_are() -> None:
    vectors = np.eye(8, dtype=np.float32)
    few = SourceRows("a", np.arange(4), np.arange(4), np.arange(4, 8))
    none = SourceRows("b", np.arange(4), np.arange(4), np.full(4, -1))
    assert fit_name_map(lambda items: vectors[items], [few, none], strength=1.0) is None

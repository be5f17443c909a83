"""The training loop and its settings: against torch, numerical gradients, and what cannot be learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.torch_training import train_with_torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import TokenArray
from robusttc.encoders import DenseInputs, FrozenInputs, WordInputs
from robusttc.errors import DataError, RobustTCError, UsageError
from robusttc.models import (
    Adam,
    Batch,
    Heads,
    RowGradients,
    TrainingSettings,
    draw_batches,
    head_gradients,
    new_layer,
    train_model,
    train_steps,
)
from robusttc.models.optimiser import BETA_1, BETA_2, EPSILON
from robusttc.random import numpy_generator


def make_task(kind: str, seed: int, n_rows: int = 60) -> tuple[FrozenInputs, NDArray[np.int64]]:
    """Make a task that can be learned: three labels, each with a word or a direction of its own."""
    generator = np.random.default_rng(seed)
    codes = np.arange(n_rows) % 3
    if kind == "dense":
        matrix = generator.normal(size=(n_rows, 10))
        matrix[np.arange(n_rows), codes] += 4
        return DenseInputs(matrix.astype(np.float32)), codes
    vectors = generator.normal(size=(30, 10)).astype(np.float32)
    vectors[0] = 0
    lengths = generator.integers(1, 7, n_rows)
    tokens = [
        np.append(generator.integers(4, 30, length), code + 1)
        for length, code in zip(lengths, codes, strict=True)
    ]
    offsets = np.concatenate([[0], np.cumsum(lengths + 1)])
    return WordInputs(TokenArray(np.concatenate(tokens), offsets), vectors), codes


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["dense", "words"])
def test_a_learnable_task_is_learned(kind: str, seed: int) -> None:
    inputs, codes = make_task(kind, seed, 120)
    settings = TrainingSettings(width=24)
    train, held_out = np.arange(90), np.arange(90, 120)
    model = train_model(
        inputs.take(train),
        codes[train],
        n_labels=3,
        settings=settings,
        generator=numpy_generator(seed, "train"),
    )
    assert (model.predict_codes(inputs.take(held_out)) == codes[held_out]).mean() > 0.85
    probabilities = model.probabilities(inputs)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(probabilities.argmax(axis=1), model.predict_codes(inputs))


@pytest.mark.parametrize("embeddings", ["frozen", "pretrained", "random"])
def test_the_same_arguments_give_the_same_model(embeddings: Any) -> None:
    inputs, codes = make_task("words", 0)
    settings = TrainingSettings(width=16, epochs=3, min_steps=0, embeddings=embeddings)
    models = [
        train_model(inputs, codes, n_labels=3, settings=settings, generator=numpy_generator(seed, "train"))
        for seed in (0, 0, 1)
    ]
    first, again, other = (
        {**model.layer.parameters(), "head": model.head_weight, "head_bias": model.head_bias}
        for model in models
    )
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["filters"], other["filters"])


def test_only_the_words_of_the_task_move() -> None:
    inputs, codes = make_task("words", 0)
    assert isinstance(inputs, WordInputs)
    vectors = np.concatenate([inputs.vectors, np.ones((5, 10), np.float32)])
    more = WordInputs(inputs.tokens, vectors)
    before = vectors.copy()
    settings = TrainingSettings(width=8, epochs=2, min_steps=0, embeddings="pretrained")
    model = train_model(more, codes, n_labels=3, settings=settings, generator=numpy_generator(0, "train"))
    trained = model.layer.parameters()["vectors"]
    moved = (trained != before).any(axis=1)
    assert not moved[0]
    assert not moved[30:].any()
    assert moved[1:4].all()
    assert np.array_equal(vectors, before), "the caller's vectors are not touched"


@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        ([0, 0, 0], DataError, "same label"),
        ([0, 1, 2], DataError, "out of range"),
        ([0, 1, -1], DataError, "out of range"),
        ([0, 1], DataError, "labels cannot be used"),
        ([0.0, 1.0, 0.0], DataError, "labels cannot be used"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(
    codes: Any, error: type[RobustTCError], message: str
) -> None:
    inputs = DenseInputs(np.eye(3, dtype=np.float32))
    with pytest.raises(error, match=message):
        train_model(inputs, codes, n_labels=2, settings=TrainingSettings(), generator=numpy_generator(0, "x"))


def test_no_rows_are_refused() -> None:
    inputs = DenseInputs(np.zeros((0, 3), dtype=np.float32))
    with pytest.raises(DataError, match="expected one integer for each of 0 rows, at least one"):
        train_model(inputs, [], n_labels=2, settings=TrainingSettings(), generator=numpy_generator(0, "x"))


def test_batches_are_all_rows_in_a_new_order_every_epoch() -> None:
    settings = TrainingSettings(batch_size=4, epochs=3, min_steps=0)
    codes = np.arange(10) % 3
    batches = list(draw_batches(codes, n_labels=3, settings=settings, generator=numpy_generator(0, "x")))
    assert [len(batch.items) for batch in batches] == [4, 4, 2] * 3
    assert all(np.array_equal(batch.codes, codes[batch.items]) for batch in batches)
    epochs = [np.concatenate([batch.items for batch in batches[i : i + 3]]) for i in (0, 3, 6)]
    assert all(sorted(epoch.tolist()) == list(range(10)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1])


def test_adam_is_adam() -> None:
    generator = np.random.default_rng(0)
    parameter = generator.normal(size=(6, 3)).astype(np.float32)
    expected = parameter.astype(float)
    first = second = np.zeros_like(expected)
    optimiser = Adam({"p": parameter}, learning_rate=0.01)
    for step in range(1, 30):
        gradient = generator.normal(size=(6, 3)).astype(np.float32)
        first = BETA_1 * first + (1 - BETA_1) * gradient
        second = BETA_2 * second + (1 - BETA_2) * gradient.astype(float) ** 2
        corrected = np.sqrt(second / (1 - BETA_2**step)) + EPSILON
        expected = expected - 0.01 * first / (1 - BETA_1**step) / corrected
        optimiser.step({"p": gradient})
    np.testing.assert_allclose(parameter, expected, atol=1e-5)


def test_adam_by_rows_leaves_the_others_alone() -> None:
    generator = np.random.default_rng(0)
    whole = generator.normal(size=(6, 3)).astype(np.float32)
    part, before = whole.copy(), whole.copy()
    rows = np.array([4, 1], dtype=np.int32)
    for_whole, for_part = Adam({"p": whole}, learning_rate=0.1), Adam({"p": part}, learning_rate=0.1)
    for _ in range(5):
        values = generator.normal(size=(2, 3)).astype(np.float32)
        dense = np.zeros((6, 3), dtype=np.float32)
        dense[rows] = values
        for_whole.step({"p": dense})
        for_part.step({"p": RowGradients(rows, values)})
    assert np.array_equal(part, whole)
    assert np.array_equal(part[[0, 2, 3, 5]], before[[0, 2, 3, 5]])


def test_head_gradients_are_numerical_gradients() -> None:
    """Two tasks of two and three labels, of five in all; a third task is not in the batch."""
    generator = np.random.default_rng(0)
    representation = generator.normal(size=(5, 7)).astype(np.float32)
    weight = generator.normal(size=(9, 7)).astype(np.float32)
    bias = generator.normal(size=9).astype(np.float32)
    codes, row_starts = np.array([0, 1, 2, 1, 0]), np.array([0, 2, 5])
    starts, ends = np.array([0, 6]), np.array([2, 9])

    def loss(r: Any, w: Any, b: Any) -> float:
        total = 0.0
        for task in range(2):
            own, labels = slice(*row_starts[task : task + 2]), slice(starts[task], ends[task])
            logits = r[own] @ w[labels].T + b[labels]
            logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            total -= logs[np.arange(len(logs)), codes[own]].sum()
        return total / 5

    value, *gradients, labels, weight_rows, bias_rows = head_gradients(
        representation, row_starts, starts, ends, codes, weight, bias
    )
    assert labels.tolist() == [0, 1, 6, 7, 8]
    weight_gradient, bias_gradient = np.zeros_like(weight), np.zeros_like(bias)
    weight_gradient[labels], bias_gradient[labels] = weight_rows, bias_rows
    arrays = [array.astype(float) for array in (representation, weight, bias)]
    assert value == pytest.approx(loss(*arrays), abs=1e-5)
    for array, gradient in zip(arrays, [*gradients, weight_gradient, bias_gradient], strict=True):
        for place in np.ndindex(array.shape):
            array[place] += 1e-5
            above = loss(*arrays)
            array[place] -= 2e-5
            slope = (above - loss(*arrays)) / 2e-5
            array[place] += 1e-5
            assert slope == pytest.approx(float(gradient[place]), abs=1e-4)


def test_heads_survive_huge_logits() -> None:
    representation = np.array([[1e4, -1e4]], dtype=np.float32)
    weight, bias = np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32)
    all_rows, first, last = np.array([0, 1]), np.array([0]), np.array([2])
    found = head_gradients(representation, all_rows, first, last, np.array([1]), weight, bias)
    assert all(np.isfinite(part).all() for part in found)


def test_one_loop_trains_many_tasks() -> None:
    """Two tasks on the same rows with opposite labels: one layer, a head each."""
    inputs, codes = make_task("dense", 0)
    generator = numpy_generator(0, "train")
    settings = TrainingSettings(width=16)
    layer = new_layer(inputs, settings=settings, generator=generator)
    both = np.concatenate([codes, 2 - codes])
    batch = Batch(np.tile(np.arange(60), 2), both, np.array([0, 60, 120]), np.array([0, 3]), np.array([3, 6]))
    heads = Heads(np.zeros((6, 16), dtype=np.float32), np.zeros(6, dtype=np.float32))
    rates = []

    def rate_at(n_steps: int) -> float:
        rates.append(n_steps)
        return 0.01

    train_steps(
        inputs,
        layer,
        heads,
        [batch] * 100,
        optimiser=Adam(layer.parameters(), learning_rate=1.0),
        dropout=0.2,
        generator=generator,
        rate_at=rate_at,
    )
    logits = layer.represent(inputs) @ heads.weight.T + heads.bias
    assert (logits[:, :3].argmax(axis=1) == codes).mean() > 0.95
    assert (logits[:, 3:].argmax(axis=1) == 2 - codes).mean() > 0.95
    assert rates == list(range(100))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("words", {}),
        ("words", {"embeddings": "pretrained"}),
        ("words", {"embeddings": "random"}),
        ("words", {"window": 4, "dropout": 0.0}),
        ("dense", {}),
        ("dense", {"activation": "linear", "dropout": 0.0}),
        ("dense", {"activation": "residual"}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_torch_makes_the_same_model(kind: str, changes: dict[str, Any], seed: int) -> None:
    inputs, codes = make_task(kind, seed)
    settings = TrainingSettings(width=20, epochs=5, min_steps=0, batch_size=16).replace(**changes)
    with threadpool_limits(1):
        ours, reference = (
            train(inputs, codes, n_labels=3, settings=settings, generator=numpy_generator(seed, "train"))
            for train in (train_model, train_with_torch)
        )
    untrained = new_layer(inputs, settings=settings, generator=numpy_generator(seed, "train")).parameters()
    for name, array in ours.layer.parameters().items():
        np.testing.assert_allclose(array, reference.layer.parameters()[name], atol=1e-3)
        assert np.abs(array - untrained[name]).max() > 0.01, "it was trained"
    np.testing.assert_allclose(ours.head_weight, reference.head_weight, atol=1e-3)
    np.testing.assert_allclose(ours.head_bias, reference.head_bias, atol=1e-3)
    assert np.array_equal(ours.predict_codes(inputs), reference.predict_codes(inputs))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("width", 2.0),
        ("window", True),
        ("epochs", -1),
        ("min_steps", -1),
        ("batch_size", "32"),
        ("learning_rate", 0),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("learning_rate", "fast"),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("dropout", False),
        ("embeddings", "glove"),
        ("activation", None),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be used"):
        TrainingSettings(**{name: value})


def test_a_misspelt_word_or_name_is_told() -> None:
    with pytest.raises(UsageError, match="Did you mean 'frozen'"):
        TrainingSettings(embeddings="frozn")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Did you mean 'learning_rate'"):
        TrainingSettings().replace(learning_rat=1)


def test_fingerprint_depends_on_values_alone() -> None:
    plain = TrainingSettings()
    assert plain.fingerprint == TrainingSettings(width=np.int64(200), dropout=np.float32(0.5)).fingerprint  # type: ignore[arg-type]
    assert len({plain.replace(width=n).fingerprint for n in range(1, 50)}) == 49
    assert len(plain.fingerprint) == 64
    assert {plain: 1}[TrainingSettings()] == 1
    assert plain.replace(learning_rate=1) == plain.replace(learning_rate=1.0)


def test_small_tasks_get_whole_epochs_until_min_steps() -> None:
    settings = TrainingSettings(epochs=40, min_steps=200, batch_size=32)
    assert settings.count_epochs(10) == 200
    assert settings.count_epochs(33) == 100
    assert settings.count_epochs(1000) == 40

"""The training loop: it learns, it repeats itself, and it refuses what cannot be learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import TokenArray
from robusttc.encoders.adam import BETA_1, BETA_2, EPSILON, Adam, RowGradients
from robusttc.encoders.head import head_gradients
from robusttc.encoders.inputs import DenseInputs, FrozenInputs, WordInputs
from robusttc.encoders.schedule import draw_batches
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.training import train_model
from robusttc.errors import DataError, RobustTCError, UsageError
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
        ([0, 1], UsageError, "do not fit"),
        ([0.0, 1.0, 0.0], UsageError, "do not fit"),
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
    with pytest.raises(DataError, match="no rows"):
        train_model(inputs, [], n_labels=2, settings=TrainingSettings(), generator=numpy_generator(0, "x"))


def test_batches_are_all_rows_in_a_new_order_every_epoch() -> None:
    settings = TrainingSettings(batch_size=4, epochs=3, min_steps=0, width=1000, dropout=0.3)
    batches = list(draw_batches(10, settings=settings, generator=numpy_generator(0, "x")))
    assert [len(rows) for rows, _ in batches] == [4, 4, 2] * 3
    epochs = [np.concatenate([rows for rows, _ in batches[i : i + 3]]) for i in (0, 3, 6)]
    assert all(sorted(epoch.tolist()) == list(range(10)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1])
    assert np.concatenate([kept for _, kept in batches]).mean() == pytest.approx(0.7, abs=0.02)


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
    generator = np.random.default_rng(0)
    representation = generator.normal(size=(5, 7)).astype(np.float32)
    kept = generator.random((5, 7)) > 0.4
    weight, bias = (
        generator.normal(size=(7, 4)).astype(np.float32),
        generator.normal(size=4).astype(np.float32),
    )
    codes = np.array([0, 3, 3, 1, 2])

    def loss(r: Any, w: Any, b: Any) -> float:
        logits = (r * kept / 0.6) @ w + b
        return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(5), codes]).mean())

    found = head_gradients(representation, kept, 0.4, codes, weight, bias)
    arrays = [array.astype(float) for array in (representation, weight, bias)]
    assert found[0] == pytest.approx(loss(*arrays), abs=1e-5)
    for array, gradient in zip(arrays, found[1:], strict=True):
        for place in np.ndindex(array.shape):
            array[place] += 1e-5
            above = loss(*arrays)
            array[place] -= 2e-5
            slope = (above - loss(*arrays)) / 2e-5
            array[place] += 1e-5
            assert slope == pytest.approx(float(gradient[place]), abs=1e-4)


def test_head_survives_huge_scores() -> None:
    representation = np.array([[1e4, -1e4]], dtype=np.float32)
    kept = np.ones((1, 2), dtype=np.bool_)
    weight, bias = np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32)
    found = head_gradients(representation, kept, 0.0, np.array([1]), weight, bias)
    assert all(np.isfinite(part).all() for part in found)

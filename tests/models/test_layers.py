"""Layers on vectors, the product whose rows are independent of each other, and compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.data import TokenArray
from robusttc.encoders import DenseInputs, WordInputs
from robusttc.errors import DataError, UsageError
from robusttc.models import (
    Activation,
    DenseLayer,
    Layer,
    ResidualLayer,
    TrainingSettings,
    compiled,
    layer_from_parameters,
    multiply_rows,
    new_layer,
    train_model,
)

RESIDUAL = TrainingSettings(width=7, activation="residual", epochs=5, min_steps=0, batch_size=8)


@pytest.mark.parametrize(
    ("n_rows", "inner", "n_columns"),
    [(1, 1, 1), (7, 3, 5), (33, 100, 130), (5, 384, 200), (0, 4, 3), (3, 5, 300)],
)
def test_product_is_the_product(n_rows: int, inner: int, n_columns: int) -> None:
    generator = np.random.default_rng(n_rows)
    matrix = generator.normal(size=(n_rows, inner)).astype(np.float32)
    weight = generator.normal(size=(inner, n_columns)).astype(np.float32)
    expected = matrix.astype(float) @ weight.astype(float)
    np.testing.assert_allclose(multiply_rows(matrix, weight), expected, atol=1e-4)


@pytest.mark.parametrize(("inner", "n_columns"), [(101, 210), (384, 6), (2, 1)])
def test_rows_of_a_product_are_independent(inner: int, n_columns: int) -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(37, inner)).astype(np.float32)
    weight = generator.normal(size=(inner, n_columns)).astype(np.float32)
    whole = multiply_rows(matrix, weight)
    for n_rows in (1, 2, 3, 5, 8, 36):
        for start in (0, 1, 37 - n_rows):
            part = multiply_rows(matrix[start : start + n_rows], weight)
            assert np.array_equal(part, whole[start : start + n_rows])


def test_a_product_takes_arrays_of_any_order() -> None:
    generator = np.random.default_rng(0)
    matrix, weight = generator.normal(size=(9, 5)), generator.normal(size=(5, 7))
    plain = multiply_rows(matrix.astype(np.float32), weight.astype(np.float32))
    turned = multiply_rows(
        np.asfortranarray(matrix, dtype=np.float32), np.asfortranarray(weight, dtype=np.float32)
    )
    assert np.array_equal(plain, turned)


def test_functions_are_compiled_in_every_process_where_nothing_can_be_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse_to_cache(*, cache: bool = False, **_: object) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr("numba.njit", refuse_to_cache)
    assert compiled(len) is len


@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_layer_and_its_gradients(activation: Activation) -> None:
    generator = np.random.default_rng(1)
    inputs = DenseInputs(generator.normal(size=(20, 6)).astype(np.float32))
    settings = TrainingSettings(width=9, activation=activation)
    layer = new_layer(inputs, settings=settings, generator=generator)
    assert isinstance(layer, DenseLayer)
    assert isinstance(layer, Layer)
    layer.bias[:] = generator.normal(size=9)
    product = inputs.matrix @ layer.weight + layer.bias
    expected = np.maximum(product, 0) if activation == "relu" else product
    np.testing.assert_allclose(layer.represent(inputs), expected, atol=1e-5)
    rows = np.array([3, 3, 11])
    np.testing.assert_allclose(layer.forward(inputs, rows), expected[rows], atol=1e-5)
    gradient = generator.normal(size=(3, 9)).astype(np.float32)
    flowing = gradient * (product[rows] > 0) if activation == "relu" else gradient
    found = layer.backward(gradient)
    np.testing.assert_allclose(np.asarray(found["weight"]), inputs.matrix[rows].T @ flowing, atol=1e-5)
    np.testing.assert_allclose(np.asarray(found["bias"]), flowing.sum(axis=0), atol=1e-5)


def test_clone_and_parameters_round_trip() -> None:
    inputs = DenseInputs(np.eye(4, dtype=np.float32))
    settings = TrainingSettings(width=3, activation="linear")
    layer = DenseLayer.new(inputs, settings=settings, generator=np.random.default_rng(0))
    copy = layer.clone()
    made = layer_from_parameters(
        {name: array.copy() for name, array in layer.parameters().items()}, settings=settings
    )
    represented = layer.represent(inputs)
    layer.parameters()["weight"][:] = 0
    assert not layer.represent(inputs).any()
    assert np.array_equal(copy.represent(inputs), represented)
    assert np.array_equal(made.represent(inputs), represented)


def test_what_does_not_fit_is_refused() -> None:
    layer = DenseLayer(np.ones((2, 3), np.float32), np.zeros(3, np.float32))
    with pytest.raises(UsageError, match="do not fit the dense layer"):
        layer.represent(DenseInputs(np.ones((1, 3), np.float32)))
    with pytest.raises(UsageError, match="do not fit the dense layer"):
        layer.represent(WordInputs(TokenArray([], [0]), np.zeros((1, 2), np.float32)))
    with pytest.raises(UsageError, match="do not fit each other"):
        DenseLayer(np.ones((2, 3), np.float32), np.zeros(2, np.float32))
    with pytest.raises(UsageError, match="activation"):
        DenseLayer(np.ones((2, 3), np.float32), np.zeros(3, np.float32), "tanh")  # type: ignore[arg-type]


def make_residual(seed: int, dimension: int = 5, hidden: int = 7) -> ResidualLayer:
    generator = np.random.default_rng(seed)
    return ResidualLayer(
        generator.normal(size=(dimension, hidden)).astype(np.float32),
        generator.normal(size=hidden).astype(np.float32),
        generator.normal(size=(hidden, dimension)).astype(np.float32),
    )


def make_vectors(seed: int, n_rows: int = 20, dimension: int = 5) -> DenseInputs:
    return DenseInputs(np.random.default_rng(seed).normal(size=(n_rows, dimension)).astype(np.float32))


def test_residual_new_layer_hands_on_its_input() -> None:
    inputs = make_vectors(0)
    layer = new_layer(inputs, settings=RESIDUAL, generator=np.random.default_rng(0))
    assert isinstance(layer, ResidualLayer)
    assert isinstance(layer, Layer)
    assert (layer.width, layer.weight.shape) == (5, (5, 7))
    assert np.array_equal(layer.represent(inputs), inputs.matrix)


@pytest.mark.parametrize("seed", range(3))
def test_residual_represents_by_its_formula(seed: int) -> None:
    layer, inputs = make_residual(seed), make_vectors(seed)
    x = inputs.matrix.astype(float)
    expected = x + np.maximum(x @ layer.weight + layer.bias, 0) @ layer.output
    np.testing.assert_allclose(layer.represent(inputs), expected, atol=1e-4)
    rows = np.array([3, 3, 11])
    np.testing.assert_allclose(layer.forward(inputs, rows), expected[rows], atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_residual_gradients_are_those_of_finite_differences(seed: int) -> None:
    layer, inputs = make_residual(seed), make_vectors(seed)
    rows = np.array([1, 4, 4, 9])
    weights = np.random.default_rng(seed).normal(size=(4, 5))

    def loss(parameters: dict[str, np.ndarray]) -> float:
        x = inputs.matrix[rows].astype(float)
        hidden = np.maximum(x @ parameters["weight"] + parameters["bias"], 0)
        return float(((x + hidden @ parameters["output"]) * weights).sum())

    layer.forward(inputs, rows)
    gradients = layer.backward(weights.astype(np.float32))
    exact = {name: array.astype(float) for name, array in layer.parameters().items()}
    for name, array in exact.items():
        for place in np.ndindex(array.shape):
            moved = [{**exact, name: array.copy()} for _ in range(2)]
            moved[0][name][place] += 1e-5
            moved[1][name][place] -= 1e-5
            expected = (loss(moved[0]) - loss(moved[1])) / 2e-5
            assert np.asarray(gradients[name])[place] == pytest.approx(expected, abs=1e-3)


def test_residual_rows_do_not_know_each_other() -> None:
    layer, inputs = make_residual(1, 33, 50), make_vectors(1, 21, 33)
    whole = layer.represent(inputs)
    for rows in ([0], [20], [3, 4, 5], list(range(1, 21))):
        assert np.array_equal(layer.represent(inputs.take(rows)), whole[rows])


def test_residual_clone_and_parameters_round_trip() -> None:
    layer, inputs = make_residual(2), make_vectors(2)
    copy = layer.clone()
    made = layer_from_parameters(
        {name: array.copy() for name, array in layer.parameters().items()}, settings=RESIDUAL
    )
    represented = layer.represent(inputs)
    layer.parameters()["output"][:] = 0
    assert np.array_equal(layer.represent(inputs), inputs.matrix)
    assert np.array_equal(copy.represent(inputs), represented)
    assert np.array_equal(made.represent(inputs), represented)


def test_a_residual_layer_learns_what_no_linear_classifier_can() -> None:
    inputs = make_vectors(3, 60)
    codes = (inputs.matrix[:, 0] * inputs.matrix[:, 1] > 0).astype(np.int64)
    settings = RESIDUAL.replace(width=32, epochs=200, dropout=0.1, learning_rate=1e-2)
    model = train_model(inputs, codes, n_labels=2, settings=settings, generator=np.random.default_rng(0))
    assert (model.predict_codes(inputs) == codes).mean() > 0.95


def test_residual_what_does_not_fit_is_refused() -> None:
    layer = make_residual(0)
    with pytest.raises(UsageError, match="do not fit the residual layer"):
        layer.represent(make_vectors(0, 2, 4))
    with pytest.raises(UsageError, match="do not fit the residual layer"):
        layer.represent(WordInputs(TokenArray([], [0]), np.zeros((1, 5), np.float32)))
    with pytest.raises(UsageError, match="do not fit each other"):
        ResidualLayer(layer.weight, layer.bias, layer.weight)
    with pytest.raises(DataError, match="not the parameters of a layer"):
        layer_from_parameters(layer.parameters(), settings=TrainingSettings())
    with pytest.raises(UsageError, match="activation"):
        DenseLayer(layer.weight, layer.bias, "residual")

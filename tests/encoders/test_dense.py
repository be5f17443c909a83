"""The dense layer, and the product whose rows do not know of each other."""

from __future__ import annotations

import numpy as np
import pytest

from robusttc.data import TokenArray
from robusttc.encoders.dense import DenseLayer
from robusttc.encoders.inputs import DenseInputs, WordInputs
from robusttc.encoders.layer import Layer, layer_from_parameters, new_layer
from robusttc.encoders.products import multiply_rows
from robusttc.encoders.settings import Activation, TrainingSettings
from robusttc.errors import UsageError


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


def test_product_rows_do_not_know_each_other() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(37, 101)).astype(np.float32)
    weight = generator.normal(size=(101, 210)).astype(np.float32)
    whole = multiply_rows(matrix, weight)
    for n_rows in (1, 2, 3, 5, 8, 36):
        for start in (0, 1, 37 - n_rows):
            part = multiply_rows(matrix[start : start + n_rows], weight)
            assert np.array_equal(part, whole[start : start + n_rows])


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

"""The residual layer: it begins as what it is given, and its gradients are those of its formula."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robusttc.data import TokenArray
from robusttc.encoders.dense import DenseLayer
from robusttc.encoders.inputs import DenseInputs, WordInputs
from robusttc.encoders.layer import Layer, layer_from_parameters, new_layer
from robusttc.encoders.residual import ResidualLayer
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.single_task import load_model, save_model
from robusttc.encoders.torch_training import train_with_torch
from robusttc.encoders.training import train_model
from robusttc.errors import DataError, StoreError, UsageError

SETTINGS = TrainingSettings(width=7, activation="residual", epochs=5, min_steps=0, batch_size=8)


def make_layer(seed: int, dimension: int = 5, hidden: int = 7) -> ResidualLayer:
    generator = np.random.default_rng(seed)
    return ResidualLayer(
        generator.normal(size=(dimension, hidden)).astype(np.float32),
        generator.normal(size=hidden).astype(np.float32),
        generator.normal(size=(hidden, dimension)).astype(np.float32),
    )


def make_inputs(seed: int, n_rows: int = 20, dimension: int = 5) -> DenseInputs:
    return DenseInputs(np.random.default_rng(seed).normal(size=(n_rows, dimension)).astype(np.float32))


def test_new_layer_hands_on_its_input() -> None:
    inputs = make_inputs(0)
    layer = new_layer(inputs, settings=SETTINGS, generator=np.random.default_rng(0))
    assert isinstance(layer, ResidualLayer)
    assert isinstance(layer, Layer)
    assert (layer.width, layer.hidden) == (5, 7)
    assert np.array_equal(layer.represent(inputs), inputs.matrix)


@pytest.mark.parametrize("seed", range(3))
def test_represents_by_its_formula(seed: int) -> None:
    layer, inputs = make_layer(seed), make_inputs(seed)
    x = inputs.matrix.astype(float)
    expected = x + np.maximum(x @ layer.weight + layer.bias, 0) @ layer.output
    np.testing.assert_allclose(layer.represent(inputs), expected, atol=1e-4)
    rows = np.array([3, 3, 11])
    np.testing.assert_allclose(layer.forward(inputs, rows), expected[rows], atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_finite_differences(seed: int) -> None:
    layer, inputs = make_layer(seed), make_inputs(seed)
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


def test_rows_do_not_know_each_other() -> None:
    layer, inputs = make_layer(1, 33, 50), make_inputs(1, 21, 33)
    whole = layer.represent(inputs)
    for rows in ([0], [20], [3, 4, 5], list(range(1, 21))):
        assert np.array_equal(layer.represent(inputs.take(rows)), whole[rows])


def test_clone_and_parameters_round_trip() -> None:
    layer, inputs = make_layer(2), make_inputs(2)
    copy = layer.clone()
    made = layer_from_parameters(
        {name: array.copy() for name, array in layer.parameters().items()}, settings=SETTINGS
    )
    represented = layer.represent(inputs)
    layer.parameters()["output"][:] = 0
    assert np.array_equal(layer.represent(inputs), inputs.matrix)
    assert np.array_equal(copy.represent(inputs), represented)
    assert np.array_equal(made.represent(inputs), represented)


def test_trains_and_is_kept_in_a_file(tmp_path: Path) -> None:
    inputs = make_inputs(3, 60)
    codes = (inputs.matrix[:, 0] * inputs.matrix[:, 1] > 0).astype(np.int64)  # no linear classifier can
    settings = SETTINGS.replace(width=32, epochs=200, dropout=0.1, learning_rate=1e-2)
    model = train_model(inputs, codes, n_labels=2, settings=settings, generator=np.random.default_rng(0))
    assert (model.predict_codes(inputs) == codes).mean() > 0.95
    save_model(model, tmp_path / "model", settings=settings)
    again, found = load_model(tmp_path / "model")
    assert found == settings
    assert np.array_equal(again.logits(inputs), model.logits(inputs))
    with pytest.raises(UsageError, match="does not fit the settings"):
        save_model(model, tmp_path / "other", settings=settings.replace(width=31))
    with pytest.raises(UsageError, match="does not fit the settings"):
        save_model(model, tmp_path / "other", settings=settings.replace(activation="relu"))
    with pytest.raises(StoreError):
        load_model(tmp_path / "other")


def test_torch_makes_the_same_model() -> None:
    inputs = make_inputs(4, 30)
    codes = (inputs.matrix[:, 0] > 0).astype(np.int64)
    ours = train_model(inputs, codes, n_labels=2, settings=SETTINGS, generator=np.random.default_rng(0))
    theirs = train_with_torch(
        inputs, codes, n_labels=2, settings=SETTINGS, generator=np.random.default_rng(0)
    )
    assert isinstance(theirs.layer, ResidualLayer)
    np.testing.assert_allclose(ours.logits(inputs), theirs.logits(inputs), atol=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    layer = make_layer(0)
    with pytest.raises(UsageError, match="do not fit the residual layer"):
        layer.represent(make_inputs(0, 2, 4))
    with pytest.raises(UsageError, match="do not fit the residual layer"):
        layer.represent(WordInputs(TokenArray([], [0]), np.zeros((1, 5), np.float32)))
    with pytest.raises(UsageError, match="do not fit each other"):
        ResidualLayer(layer.weight, layer.bias, layer.weight)
    with pytest.raises(DataError, match="not the parameters of a layer"):
        layer_from_parameters(layer.parameters(), settings=TrainingSettings())
    with pytest.raises(UsageError, match="activation"):
        DenseLayer(layer.weight, layer.bias, "residual")

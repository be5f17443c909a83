"""The convolution: against plain loops, against numerical gradients, and row by row."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import TokenArray
from robusttc.encoders import convolution, convolution_encoding
from robusttc.encoders.adam import RowGradients
from robusttc.encoders.convolution import ConvolutionLayer
from robusttc.encoders.convolution_encoding import encode_texts, find_distinct_rows
from robusttc.encoders.inputs import DenseInputs, WordInputs
from robusttc.encoders.layer import Layer, layer_from_parameters, new_layer
from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import DataError, UsageError

Floats = NDArray[np.float32]


def make_inputs(seed: int, *, n_rows: int = 40, n_words: int = 30, dimension: int = 7) -> WordInputs:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 9, n_rows)
    lengths[:3] = 0, 1, 2  # the corners
    ids = generator.integers(0, n_words, lengths.sum())
    vectors = generator.normal(size=(n_words, dimension)).astype(np.float32)
    vectors[0] = 0
    return WordInputs(TokenArray(ids, np.concatenate([[0], np.cumsum(lengths)])), vectors)


def make_layer(
    inputs: WordInputs, seed: int, *, window: int = 5, width: int = 11, trained: bool = False
) -> ConvolutionLayer:
    generator = np.random.default_rng(seed)
    settings = TrainingSettings(window=window, width=width, embeddings="pretrained" if trained else "frozen")
    layer = ConvolutionLayer.new(inputs, settings=settings, generator=generator)
    layer.bias[:] = generator.normal(size=width)
    return layer


def brute_force(inputs: WordInputs, layer: ConvolutionLayer) -> Floats:
    """Convolve every text by itself, in 64-bit floats."""
    window, width, dimension = layer.filters.shape
    result = np.zeros((len(inputs), width))
    for row, ids in enumerate(inputs.tokens):
        n_positions = max(1, len(ids))
        padded = np.zeros((n_positions + window - 1, dimension))
        padded[window // 2 : window // 2 + len(ids)] = inputs.vectors[ids]
        values = [
            np.einsum("jfd,jd->f", layer.filters.astype(float), padded[p : p + window]) + layer.bias
            for p in range(n_positions)
        ]
        result[row] = np.maximum(np.max(values, axis=0), 0)
    return result.astype(np.float32)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("width", [1, 11, 90])
def test_represent_and_forward_are_the_convolution(window: int, width: int) -> None:
    inputs = make_inputs(window)
    layer = make_layer(inputs, 1, window=window, width=width)
    expected = brute_force(inputs, layer)
    np.testing.assert_allclose(layer.represent(inputs), expected, atol=1e-5)
    rows = np.random.default_rng(2).permutation(len(inputs))
    np.testing.assert_allclose(layer.forward(inputs, rows), expected[rows], atol=1e-5)


@pytest.mark.parametrize("window", [4, 5])
def test_a_row_does_not_know_the_others(window: int) -> None:
    inputs = make_inputs(3)
    layer = make_layer(inputs, 4, window=window)
    whole = layer.represent(inputs)
    one_by_one = [layer.represent(inputs.take([row]))[0] for row in range(len(inputs))]
    assert np.array_equal(whole, one_by_one)
    shuffled = np.random.default_rng(0).permutation(len(inputs))
    assert np.array_equal(layer.represent(inputs.take(shuffled)), whole[shuffled])
    assert np.array_equal(layer.represent(inputs.take([5, 5, 9, 5, 5])), whole[[5, 5, 9, 5, 5]])


def test_small_tables_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(5)
    layer = make_layer(inputs, 6, width=90)
    whole = layer.represent(inputs)
    rows = np.arange(len(inputs))
    batch = layer.forward(inputs, rows).copy()
    monkeypatch.setattr(convolution_encoding, "MAX_TABLE_BYTES", 4 * 5 * 16 * 10)  # ten words
    monkeypatch.setattr(convolution, "MAX_TABLE_BYTES", 4 * 5 * 7 * 31)  # seven filters
    monkeypatch.setattr(convolution_encoding, "GOOD_TABLE_BYTES", 4 * 5 * 16 * 10 * 2)
    assert np.array_equal(layer.represent(inputs), whole)
    np.testing.assert_allclose(layer.forward(inputs, rows), batch, atol=1e-6)


def test_a_text_of_100_000_words() -> None:
    generator = np.random.default_rng(0)
    ids = generator.integers(1, 30, 100_000)
    inputs = WordInputs(TokenArray(ids, [0, len(ids)]), make_inputs(0).vectors)
    layer = make_layer(inputs, 1)
    represented = layer.represent(inputs)
    np.testing.assert_allclose(represented, layer.forward(inputs, np.array([0])), atol=1e-5)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(inputs.vectors[ids], ((2, 2), (0, 0))), 5, axis=0
    )
    values = np.tensordot(windows, layer.filters, axes=([1, 2], [2, 0])).max(axis=0) + layer.bias
    np.testing.assert_allclose(represented[0], np.maximum(values, 0), atol=1e-5)


def test_no_rows_and_no_words() -> None:
    inputs = make_inputs(0)
    layer = make_layer(inputs, 1)
    assert layer.represent(inputs.take([])).shape == (0, 11)
    empty = WordInputs(TokenArray([], [0, 0, 0]), inputs.vectors)
    expected = np.maximum(np.stack([layer.bias] * 2), 0)
    assert np.array_equal(layer.represent(empty), expected)
    assert np.array_equal(layer.forward(empty, np.array([0, 1])), expected)
    gradients = layer.backward(np.ones((2, 11), dtype=np.float32))
    assert not np.asarray(gradients["filters"]).any()


@pytest.mark.parametrize("window", [2, 5])
def test_gradients_are_those_of_the_sum(window: int) -> None:
    inputs = make_inputs(7, n_rows=8)
    layer = make_layer(inputs, 8, window=window, trained=True)
    rows = np.array([0, 3, 4, 4, 7])
    weights = np.random.default_rng(0).normal(size=(5, 11)).astype(np.float32)
    layer.forward(inputs, rows)
    gradients = layer.backward(weights)
    words = gradients["vectors"]
    assert isinstance(words, RowGradients)
    assert 0 not in words.rows
    found = {name: np.asarray(gradients[name]).astype(float) for name in ("filters", "bias")}
    found["vectors"] = np.zeros(inputs.vectors.shape)
    found["vectors"][words.rows] = words.values
    parameters = layer.parameters()

    def loss() -> float:
        swapped = WordInputs(inputs.tokens, parameters["vectors"])
        return float((brute_force(swapped, layer)[rows].astype(float) * weights).sum())

    generator = np.random.default_rng(1)
    for name, gradient in found.items():
        places = [place for place in np.ndindex(gradient.shape) if name != "vectors" or place[0] != 0]
        for place in generator.permutation(np.array(places))[:25]:
            at = tuple(place)
            before, step = parameters[name][at], np.float32(1e-3)
            parameters[name][at] = before + step
            above = loss()
            parameters[name][at] = before - step
            slope = (above - loss()) / (2e-3)
            parameters[name][at] = before
            assert slope == pytest.approx(gradient[at], abs=5e-3)


def test_distinct_rows_are_those_of_a_dictionary() -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 4, 2000)
    tokens = TokenArray(generator.integers(0, 5, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))
    firsts, places = find_distinct_rows(tokens.ids, tokens.offsets)
    seen: dict[tuple[int, ...], int] = {}
    expected = [seen.setdefault(tuple(row.tolist()), len(seen)) for row in tokens]
    assert places.tolist() == expected
    assert [tuple(tokens[int(first)].tolist()) for first in firsts] == list(seen)


def test_clone_and_parameters_round_trip() -> None:
    inputs = make_inputs(1)
    for trained in (False, True):
        layer = make_layer(inputs, 2, trained=trained)
        assert isinstance(layer, Layer)
        copy, made = layer.clone(), layer_from_parameters(layer.parameters(), settings=TrainingSettings())
        represented = layer.represent(inputs)
        layer.filters[:] = 0
        assert np.array_equal(copy.represent(inputs), represented)
        assert isinstance(made, ConvolutionLayer)
        assert set(made.parameters()) == set(layer.parameters())


def test_what_does_not_fit_is_refused() -> None:
    inputs = make_inputs(1)
    layer = make_layer(inputs, 2, trained=True)
    with pytest.raises(UsageError, match="do not fit the convolution"):
        layer.represent(DenseInputs(inputs.vectors))
    with pytest.raises(UsageError, match="another vocabulary"):
        layer.represent(WordInputs(TokenArray([], [0]), inputs.vectors[:5]))
    with pytest.raises(UsageError, match="do not fit each other"):
        ConvolutionLayer(layer.filters, layer.bias[:3])
    with pytest.raises(UsageError, match="do not fit the filters"):
        ConvolutionLayer(layer.filters, layer.bias, np.zeros((3, 99), np.float32))
    with pytest.raises(DataError, match="not the parameters"):
        layer_from_parameters({"filter": layer.filters}, settings=TrainingSettings())


def test_random_embeddings_do_not_look_at_the_given_ones() -> None:
    inputs = make_inputs(1)
    settings = TrainingSettings(width=4, embeddings="random")
    layers = [
        new_layer(given, settings=settings, generator=np.random.default_rng(0))
        for given in (inputs, WordInputs(inputs.tokens, inputs.vectors * 2))
    ]
    first, second = (layer.parameters()["vectors"] for layer in layers)
    assert np.array_equal(first, second)
    assert not first[0].any()
    assert np.abs(first).max() <= 0.25


def test_other_windows_go_the_same_way_as_five() -> None:
    """The special way for five words gives the very numbers of the general one."""
    inputs = make_inputs(9)
    layer = make_layer(inputs, 9)
    special = encode_texts(inputs.tokens, inputs.vectors, layer.filters, layer.bias)
    # A window of seven whose outer places are zero is a window of five.
    wider = np.zeros((7, *layer.filters.shape[1:]), dtype=np.float32)
    wider[1:6] = layer.filters
    assert np.array_equal(encode_texts(inputs.tokens, inputs.vectors, wider, layer.bias), special)

"""Temperatures, calibration error and coverage."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from robusttc.errors import DataError, UsageError
from robusttc.models import apply_temperature, coverage_at, expected_calibration_error, fit_temperature

Table = NDArray[np.float64]


def draw_tasks(
    seed: int, temperature: float, n_tasks: int = 5, n_rows: int = 80
) -> tuple[list[Table], list[NDArray[np.int64]]]:
    """Draw labels from p and give p ** temperature: sharpening by that gives p back."""
    generator = np.random.default_rng(seed)
    tables, codes = [], []
    for _ in range(n_tasks):
        truth = generator.dirichlet(np.ones(4), n_rows)
        codes.append((generator.random((n_rows, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(0, 3))
        given_ = truth**temperature
        tables.append(given_ / given_.sum(axis=1, keepdims=True))
    return tables, codes


def loss_of(temperature: float, tables: list[Table], codes: list[NDArray[np.int64]]) -> float:
    losses = []
    for table, right in zip(tables, codes, strict=True):
        scaled = table ** (1 / temperature)
        scaled /= scaled.sum(axis=1, keepdims=True)
        losses.append(-np.log(scaled[np.arange(len(right)), right]).mean())
    return float(np.mean(losses))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("planted", [0.5, 1.0, 3.0])
def test_no_temperature_on_a_grid_is_better(seed: int, planted: float) -> None:
    tables, codes = draw_tasks(seed, planted)
    found = fit_temperature(tables, codes)
    grid = np.geomspace(0.05, 20, 2000)
    losses = [loss_of(float(temperature), tables, codes) for temperature in grid]
    assert loss_of(found, tables, codes) <= min(losses) + 1e-12
    assert found == pytest.approx(grid[int(np.argmin(losses))], rel=0.01)


@pytest.mark.parametrize("planted", [0.4, 1.0, 2.5])
def test_a_planted_temperature_is_found(planted: float) -> None:
    tables, codes = draw_tasks(0, planted, n_tasks=8, n_rows=4000)
    assert fit_temperature(tables, codes) == pytest.approx(planted, rel=0.03)


def test_every_task_counts_alike() -> None:
    sure = np.array([[0.9, 0.1]])
    # A hundred rows that are all right, and two tasks of one row each that are wrong.
    tables = [np.repeat(sure, 100, axis=0), sure, sure]
    codes = [np.zeros(100, int), np.ones(1, int), np.ones(1, int)]
    assert fit_temperature(tables, codes) == 20.0
    assert fit_temperature(tables[:2], codes[:2]) == 20.0
    assert fit_temperature([np.concatenate(tables)], [np.concatenate(codes)]) < 1.0


def test_the_ends_of_the_range() -> None:
    sure = np.array([[0.9, 0.1]] * 5)
    assert fit_temperature([sure], [np.zeros(5, int)]) == 0.05
    assert fit_temperature([sure], [np.ones(5, int)]) == 20.0


def test_nothing_to_learn_from() -> None:
    assert fit_temperature([], []) == 1.0
    assert fit_temperature([np.zeros((0, 3))], [np.zeros(0, int)]) == 1.0
    assert fit_temperature([np.full((4, 2), 0.5)], [np.zeros(4, int)]) == 1.0
    assert fit_temperature([np.ones((4, 1))], [np.zeros(4, int)]) == 1.0


def test_a_sure_mistake_is_survived() -> None:
    table = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    assert 1.0 < fit_temperature([table], [np.array([0, 0, 1])]) <= 20.0


@pytest.mark.parametrize(
    ("tables", "codes", "error"),
    [
        ([np.ones((1, 1))], [], UsageError),
        ([np.array([[0.5, 0.5]])], [np.array([2])], DataError),
        ([np.array([[0.5, float("nan")]])], [np.array([0])], DataError),
        ([np.array([0.5, 0.5])], [np.array([0])], UsageError),
    ],
)
def test_what_cannot_be_used_is_refused(tables: Any, codes: Any, error: Any) -> None:
    with pytest.raises(error):
        fit_temperature(tables, codes)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 20.0), st.floats(0.01, 3.0))
def test_sharpening_keeps_the_first_choice(seed: int, temperature: float, spread: float) -> None:
    table = np.random.default_rng(seed).dirichlet(np.full(5, spread), 20)
    sharp = apply_temperature(table, temperature)
    assert np.array_equal(sharp.argmax(axis=1), table.argmax(axis=1))
    assert sharp.sum(axis=1) == pytest.approx(1.0)


def test_a_lead_of_one_bit_stays_a_lead() -> None:
    even = np.full((1, 3), 1 / 3)
    even[0, 2] = np.nextafter(1 / 3, 1)
    for temperature in (0.05, 0.7, 3.0, 20.0):
        assert apply_temperature(even, temperature).argmax() == 2


def test_sharpening_by_hand() -> None:
    table = np.array([[0.64, 0.32, 0.04], [1.0, 0.0, 0.0]])
    assert apply_temperature(table, 2.0)[0] == pytest.approx(np.sqrt(table[0]) / np.sqrt(table[0]).sum())
    assert apply_temperature(table, 2.0)[1].tolist() == [1.0, 0.0, 0.0]
    same = apply_temperature(table, 1.0)
    assert np.array_equal(same, table)
    assert same is not table
    assert apply_temperature(np.zeros((0, 3)), 2.0).shape == (0, 3)
    # A row alone is the row in company.
    assert np.array_equal(apply_temperature(table[:1], 0.3)[0], apply_temperature(table, 0.3)[0])


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf, "1"])
def test_wrong_temperatures(temperature: Any) -> None:
    with pytest.raises(UsageError, match="temperature"):
        apply_temperature(np.full((1, 2), 0.5), temperature)
    with pytest.raises(UsageError, match=r"shape \(2,\)"):
        apply_temperature(np.full(2, 0.5), 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_calibration_error_by_the_definition(seed: int) -> None:
    generator = np.random.default_rng(seed)
    confidence = np.append(generator.random(300), [0.0, 1.0, 0.2])
    right = generator.random(len(confidence)) < confidence**2
    total = 0.0
    for number in range(10):
        low, high = number / 10, (number + 1) / 10
        inside = (confidence > low) & (confidence <= high) | ((number == 0) & (confidence == 0.0))
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    assert expected_calibration_error(confidence, right, n_bins=10) == pytest.approx(total)


def test_calibration_errors_of_known_size() -> None:
    assert expected_calibration_error([1.0] * 4, [True] * 4) == 0.0
    assert expected_calibration_error([1.0] * 4, [False] * 4) == 1.0
    tables, codes = draw_tasks(1, 3.0, n_rows=2000)
    temperature = fit_temperature(tables, codes)

    def error(scale: float) -> float:
        sharp = np.concatenate([apply_temperature(table, scale) for table in tables])
        return expected_calibration_error(sharp.max(axis=1), sharp.argmax(axis=1) == np.concatenate(codes))

    assert error(temperature) < 0.03 < 0.1 < error(1.0)


def test_coverage() -> None:
    confidence, right = [0.2, 0.5, 0.7, 0.9], [False, True, False, True]
    half, all_, none = coverage_at(confidence, right, [0.5, 0.0, 0.95])
    assert half.coverage == 0.75
    assert half.accuracy == pytest.approx(2 / 3)
    assert (all_.coverage, all_.accuracy) == (1.0, 0.5)
    assert none.coverage == 0.0
    assert math.isnan(none.accuracy)
    assert json.dumps(none.to_dict()) == '{"threshold": 0.95, "coverage": 0.0, "accuracy": null}'
    assert half.to_dict()["accuracy"] == half.accuracy


@pytest.mark.parametrize(
    ("confidence", "right", "error"),
    [
        ([], [], UsageError),
        ([0.5], [True, False], UsageError),
        ([1.5], [True], DataError),
        ([float("nan")], [True], DataError),
        ([0.5], [0.5], DataError),
    ],
)
def test_wrong_confidences(confidence: Any, right: Any, error: Any) -> None:
    with pytest.raises(error):
        coverage_at(confidence, right, [0.5])
    with pytest.raises(error):
        expected_calibration_error(confidence, right)


def test_wrong_bins() -> None:
    with pytest.raises(UsageError, match="n_bins"):
        expected_calibration_error([0.5], [True], n_bins=0)

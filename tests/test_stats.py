"""Means over tasks with intervals: against the formula, and by how often they hold the truth."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from robusttc.errors import DataError, UsageError
from robusttc.stats import Estimate, difference_interval, mean_interval, share_interval


@pytest.mark.parametrize("seed", range(4))
def test_for_many_tasks_the_interval_is_that_of_the_normal_distribution(seed: int) -> None:
    values = np.random.default_rng(seed).normal(0.1, 0.05, 300)
    estimate = mean_interval(values, seed=seed)
    half = 1.96 * values.std(ddof=1) / math.sqrt(len(values))
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.12 * half)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.12 * half)
    assert estimate.n == 300


@pytest.mark.parametrize(("n_tasks", "least"), [(10, 0.88), (40, 0.92)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(n_tasks: int, least: float) -> None:
    generator = np.random.default_rng(0)
    samples = generator.normal(0.3, 0.1, (400, n_tasks))
    estimates = [mean_interval(sample, n_draws=400) for sample in samples]
    hits = np.mean([estimate.low <= 0.3 <= estimate.high for estimate in estimates])
    assert least <= hits <= 0.98


def test_the_order_of_tasks_changes_nothing() -> None:
    values = np.random.default_rng(1).normal(size=50)
    first, second = mean_interval(values), mean_interval(values[::-1])
    assert (first.low, first.high) == pytest.approx((second.low, second.high), abs=1e-15)
    assert mean_interval(values, seed=1) != mean_interval(values, seed=2)
    assert mean_interval(values, seed=1) == mean_interval(values, seed=1)


def test_pairs_are_kept() -> None:
    # Tasks differ widely, the difference does not: only a paired interval is narrow.
    hard = np.random.default_rng(2).uniform(0.2, 0.9, 60)
    gain = difference_interval(hard + 0.01 + 0.001 * np.arange(60) / 60, hard)
    assert gain.above_zero
    assert gain.high - gain.low < 0.001
    assert difference_interval(hard, hard + 0.01).below_zero
    with pytest.raises(UsageError, match="60 first and 59 second"):
        difference_interval(hard, hard[1:])


def test_one_task_has_no_interval() -> None:
    estimate = mean_interval([0.5])
    assert (estimate.low, estimate.high, estimate.above_zero) == (-math.inf, math.inf, False)
    assert not estimate.below_zero


@pytest.mark.parametrize(("n_right", "n"), [(0, 7), (7, 7), (3, 10), (88, 100), (1, 1), (0, 1)])
def test_shares_have_wilsons_interval(n_right: int, n: int) -> None:
    estimate = share_interval(n_right, n)
    reference = binomtest(n_right, n).proportion_ci(0.95, method="wilson")
    assert estimate.low == pytest.approx(reference.low, abs=1e-9)
    assert estimate.high == pytest.approx(reference.high, abs=1e-9)
    assert estimate.low <= estimate.mean <= estimate.high


def test_wrong_shares() -> None:
    for n_right, n in [(3, 2), (-1, 2)]:
        with pytest.raises(UsageError, match="share"):
            share_interval(n_right, n)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([], "no values"),
        ([0.1, float("nan")], "place 1.*nan"),
        ([[0.1, 0.2]], "not a number"),
        ([float("inf")], "not finite"),
    ],
)
def test_what_has_no_mean_is_refused(values: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        mean_interval(values)


def test_too_few_draws() -> None:
    with pytest.raises(UsageError, match="n_draws"):
        mean_interval([0.1, 0.2], n_draws=10)


@pytest.mark.parametrize(
    "estimate", [Estimate(0.1, 0.05, 0.2, 7), Estimate(0.1, -math.inf, math.inf, 1), share_interval(0, 0)]
)
def test_estimates_go_through_json(estimate: Estimate) -> None:
    again = Estimate.from_dict(json.loads(json.dumps(estimate.to_dict(), allow_nan=False)))
    assert repr(again) == repr(estimate)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"mean": 1, "low": 0, "high": 2},
        {"mean": "1", "low": 0, "high": 2, "n": 1},
        {"mean": 1, "n": None},
    ],
)
def test_damaged_estimates_are_refused(values: Any) -> None:
    with pytest.raises(DataError, match="estimate cannot be read"):
        Estimate.from_dict(values)

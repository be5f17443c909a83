"""Matching and the mixture weights against slow references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import minimize

from robusttc.errors import DataError, UsageError
from robusttc.fewshot import learn_mixture, leave_one_out_matching, match, scorable_rows
from robusttc.fewshot.adaptation import leave_one_out_prototypes

Floats = NDArray[np.float64]
SEEDS = [0, 1, 2]


def slow_match(query: Any, support: Any, codes: NDArray[np.int64], n_labels: int) -> Any:
    weights = [np.exp(float(np.dot(one, query))) for one in support.astype(float)]
    return [
        sum(weight for weight, code in zip(weights, codes, strict=True) if code == label) / sum(weights)
        for label in range(n_labels)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_matching_is_equation_4(seed: int) -> None:
    generator = np.random.default_rng(seed)
    support = generator.normal(size=(6, 5)).astype(np.float32)
    queries = generator.normal(size=(4, 5)).astype(np.float32)
    codes = np.array([0, 2, 2, 1, 0, 2])
    expected = [slow_match(query.astype(float), support, codes, 4) for query in queries]
    np.testing.assert_allclose(match(queries, support, codes, n_labels=4), expected, atol=1e-6)
    assert (
        match(queries[2:3], support, codes, n_labels=4) == match(queries, support, codes, n_labels=4)[2]
    ).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_leave_one_out_is_matching_without_the_row(seed: int) -> None:
    generator = np.random.default_rng(seed)
    support, codes = generator.normal(size=(7, 5)).astype(np.float32), np.array([0, 1, 1, 0, 2, 1, 0])
    left_out = leave_one_out_matching(support, codes, n_labels=3)
    for row in range(7):
        others = np.arange(7) != row
        expected = match(support[row : row + 1], support[others], codes[others], n_labels=3)[0]
        np.testing.assert_allclose(left_out[row], expected, atol=1e-6)
    assert left_out[4, 2] == 0  # the only example of its label
    assert scorable_rows(codes).tolist() == [True] * 4 + [False] + [True] * 2
    assert scorable_rows(codes, with_names=True).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("with_names", [False, True])
def test_leave_one_out_prototypes_are_label_means_without_the_row(seed: int, with_names: bool) -> None:
    generator = np.random.default_rng(seed)
    rows: Any = generator.normal(size=(13, 6)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors, names, codes = rows[:9], rows[9:], np.array([0, 1, 1, 2, 2, 2, 0, 3, 1])
    left_out = leave_one_out_prototypes(
        vectors, codes, n_labels=4, scale=7.0, names=names if with_names else None
    )
    for row in range(len(codes)):
        logits = np.full(4, -np.inf)
        for label in range(4):
            own = vectors[(np.arange(9) != row) & (codes == label)]
            own = np.concatenate([own, names[[label]]]) if with_names else own
            if len(own):
                mean = own.sum(axis=0)
                logits[label] = 7.0 * vectors[row] @ mean / np.linalg.norm(mean)
        expected = np.exp(logits - logits.max())
        np.testing.assert_allclose(left_out[row], expected / expected.sum(), atol=1e-5)


def test_leave_one_out_of_a_single_row_knows_nothing() -> None:
    assert leave_one_out_matching(np.ones((1, 2), np.float32), np.array([0]), n_labels=2).tolist() == [
        [0.5, 0.5]
    ]


def objective(weights: Floats, table: Floats, prior_rows: float) -> Any:
    total = np.log(np.maximum(table @ weights, 1e-300)).sum()
    return total + prior_rows / len(weights) * np.log(np.maximum(weights, 1e-300)).sum()


@settings(max_examples=30, deadline=None)
@given(
    table=arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(2, 4)), elements=st.floats(0.01, 1.0)),
    prior_rows=st.sampled_from([0.5, 2.0]),
)
def test_weights_reach_the_maximum_of_another_solver(table: Floats, prior_rows: float) -> None:
    weights = learn_mixture(table, prior_rows=prior_rows)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    n = table.shape[1]

    def loss(logits: Floats) -> Any:
        shares = np.exp(logits - logits.max())
        return -objective(shares / shares.sum(), table, prior_rows)

    reference = minimize(loss, np.zeros(n), method="BFGS")
    assert objective(weights, table, prior_rows) >= -reference.fun - 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_follow_a_permutation_of_the_components_and_ignore_the_order_of_rows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    table = generator.uniform(0.05, 1, size=(15, 4))
    weights = learn_mixture(table)
    order = generator.permutation(4)
    np.testing.assert_allclose(learn_mixture(table[:, order]), weights[order], atol=1e-7)
    np.testing.assert_allclose(learn_mixture(table[::-1]), weights, atol=1e-7)


def test_the_prior_keeps_a_better_component_from_taking_all() -> None:
    table = np.tile([0.9, 0.3], (5, 1))
    free, held = learn_mixture(table, prior_rows=0.0), learn_mixture(table, prior_rows=2.0)
    assert free[0] > 0.999
    assert 0.6 < held[0] < 0.95


def test_weights_without_evidence_are_even() -> None:
    assert learn_mixture(np.zeros((0, 3))).tolist() == pytest.approx([1 / 3] * 3)
    assert learn_mixture(np.zeros((4, 2))).tolist() == [0.5, 0.5]
    assert learn_mixture(np.ones((4, 1))).tolist() == [1.0]


def test_tables_that_are_no_likelihoods_are_refused() -> None:
    with pytest.raises(DataError, match="likelihood"):
        learn_mixture(np.array([[0.5, -0.1]]))
    with pytest.raises(DataError, match="likelihood"):
        learn_mixture(np.array([[0.5, np.nan]]))
    with pytest.raises(UsageError, match="nothing to mix"):
        learn_mixture(np.zeros((3, 0)))
    with pytest.raises(UsageError, match="prior_rows"):
        learn_mixture(np.ones((3, 2)), prior_rows=-1)

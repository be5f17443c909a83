"""Weights of a product: against a general solver, planted weights, and the laws of the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from robusttc.errors import DataError, UsageError
from robusttc.models import blend, learn_weights

Table = NDArray[np.float64]


def draw_problem(
    seed: int, n_components: int = 4, n_tasks: int = 6
) -> tuple[list[list[Table]], list[NDArray[np.int64]]]:
    generator = np.random.default_rng(seed)
    codes, components = [], [[] for _ in range(n_components)]  # type: ignore[var-annotated]
    for _ in range(n_tasks):
        n_rows, n_labels = int(generator.integers(5, 60)), int(generator.integers(2, 7))
        right = generator.integers(n_labels, size=n_rows)
        codes.append(right)
        for number, component in enumerate(components):
            skill = number * 0.8 * np.eye(n_labels)[right]
            logits = generator.normal(size=(n_rows, n_labels)) * 1.5 + skill
            table = np.exp(logits)
            component.append(table / table.sum(axis=1, keepdims=True))
    return components, codes


def loss_of(weights: Table, components: list[list[Table]], codes: list[NDArray[np.int64]]) -> float:
    losses = []
    for task, right in enumerate(codes):
        powers = [component[task] ** w for w, component in zip(weights, components, strict=True)]
        product = np.prod(powers, axis=0)
        losses.append(-np.log(product[np.arange(len(right)), right] / product.sum(axis=1)).mean())
    return float(np.mean(losses))


@pytest.mark.parametrize("seed", range(12))
def test_no_general_solver_finds_better_weights(seed: int) -> None:
    components, codes = draw_problem(seed)
    weights = learn_weights(components, codes)
    assert (weights >= 0).all()
    solve: Any = minimize
    reference = solve(
        loss_of,
        np.full(4, 0.25),
        args=(components, codes),
        method="L-BFGS-B",
        bounds=[(0, 20)] * 4,
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500},
    )
    assert loss_of(weights, components, codes) <= reference.fun + 1e-9
    assert weights == pytest.approx(reference.x, abs=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_planted_weights_are_found(seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth = np.array([1.4, 0.5, 0.0])
    components: list[list[Table]] = [[generator.dirichlet(np.ones(4) * 0.9, 30_000)] for _ in truth]
    mixed = blend([component[0] for component in components], truth)
    codes = (generator.random((len(mixed), 1)) > mixed.cumsum(axis=1)).sum(axis=1)
    assert learn_weights(components, [codes]) == pytest.approx(truth, abs=0.04)


def test_a_model_that_is_too_unsure_gets_a_weight_above_one() -> None:
    generator = np.random.default_rng(0)
    truth = generator.dirichlet(np.ones(3), 20_000)
    codes = (generator.random((len(truth), 1)) > truth.cumsum(axis=1)).sum(axis=1)
    unsure = truth**0.5 / (truth**0.5).sum(axis=1, keepdims=True)
    assert learn_weights([[unsure]], [codes])[0] == pytest.approx(2.0, abs=0.06)


def test_every_task_counts_alike() -> None:
    # The large task prefers the first component, two small ones the second.
    good, bad = np.array([[0.9, 0.1]]), np.array([[0.4, 0.6]])
    components = [[np.repeat(good, 900, 0), bad, bad], [np.repeat(bad, 900, 0), good, good]]
    weights = learn_weights(components, [np.zeros(900, int), np.zeros(1, int), np.zeros(1, int)])
    assert weights[1] > weights[0]


def test_copies_of_a_row_and_the_order_of_tasks_change_nothing() -> None:
    components, codes = draw_problem(3)
    weights = learn_weights(components, codes)
    doubled = [[np.repeat(table, 2, axis=0) for table in component] for component in components]
    assert learn_weights(doubled, [np.repeat(right, 2) for right in codes]) == pytest.approx(
        weights, abs=1e-5
    )
    turned = [component[::-1] for component in components]
    assert learn_weights(turned, codes[::-1]) == pytest.approx(weights, abs=1e-5)
    assert learn_weights(components[::-1], codes) == pytest.approx(weights[::-1], abs=1e-5)


def test_equal_components_share_their_weight() -> None:
    components, codes = draw_problem(0, n_components=1)
    alone = float(learn_weights(components, codes)[0])
    assert learn_weights([components[0], components[0]], codes) == pytest.approx([alone / 2] * 2, abs=1e-6)


def test_a_component_that_rules_out_the_truth_is_survived() -> None:
    sure = np.array([[1.0, 0.0], [1.0, 0.0]])
    even = np.full((2, 2), 0.5)
    weights = learn_weights([[sure], [even]], [np.array([0, 1])])
    assert np.isfinite(weights).all()
    assert learn_weights([[sure], [sure]], [np.array([1, 1])]).tolist() == [0.0, 0.0]


def test_a_task_without_rows_counts_for_nothing() -> None:
    components, codes = draw_problem(5, n_tasks=2)
    with_empty = [[*component, np.zeros((0, 3))] for component in components]
    weights = learn_weights(with_empty, [*codes, np.zeros(0, int)])
    assert np.array_equal(weights, learn_weights(components, codes))


EVEN = np.full((2, 2), 0.5)
NAN = float("nan")


@pytest.mark.parametrize(
    ("components", "codes", "error", "match"),
    [
        ([], [np.array([0])], UsageError, "not of the same tasks"),
        ([[EVEN]], [], UsageError, "not of the same tasks"),
        ([[EVEN]], [np.array([0])], UsageError, r"component 0, task 0.*\(2, 2\) and \(1,\)"),
        ([[EVEN[0]]], [np.array([0])], UsageError, "do not fit"),
        ([[EVEN]], [np.array([0, 2])], DataError, "got.*2.*from 0 to 1"),
        ([[EVEN]], [np.array([0, -1])], DataError, "not that of a label"),
        ([[EVEN]], [np.array([0.0, 1.0])], DataError, "not that of a label"),
        ([[EVEN], [np.array([[0.5, 0.5], [NAN, 0.5]])]], [np.array([0, 1])], DataError, "component 1.*row 1"),
        ([[np.array([[1.5, -0.5]])]], [np.array([0])], DataError, "row 0"),
        ([[np.array([[0.5, 0.4]])]], [np.array([0])], DataError, "sum 1"),
        ([[EVEN], [np.full((2, 3), 1 / 3)]], [np.array([0, 1])], UsageError, "different labels"),
        ([[np.zeros((0, 2))]], [np.zeros(0, int)], DataError, "no task has held-out rows"),
    ],
)
def test_what_cannot_be_used_is_refused(components: Any, codes: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        learn_weights(components, codes)


def test_blends() -> None:
    first, second = np.array([[0.2, 0.8], [1.0, 0.0]]), np.array([[0.6, 0.4], [0.5, 0.5]])
    product = first**0.5 * second**2
    expected = product / product.sum(axis=1, keepdims=True)
    assert blend([first, second], [0.5, 2.0]) == pytest.approx(expected, abs=1e-3)
    # What has no weight is not looked at, not even where it is not a number.
    assert blend([first, np.full((2, 2), NAN)], [1.0, 0.0]) == pytest.approx(first, abs=2e-6)


def test_a_row_alone_is_the_row_in_company() -> None:
    components, _ = draw_problem(1, n_tasks=1)
    tables = [component[0] for component in components]
    whole = blend(tables, [0.1, 0.2, 0.3, 0.4])
    for row in range(len(whole)):
        assert np.array_equal(blend([t[row : row + 1] for t in tables], [0.1, 0.2, 0.3, 0.4])[0], whole[row])


@pytest.mark.parametrize(
    ("tables", "weights"),
    [
        ([EVEN, EVEN], [1.0]),
        ([EVEN, EVEN[:1]], [0.5, 0.5]),
        ([EVEN], [0.0]),
        ([EVEN], [NAN]),
        ([EVEN, EVEN], [1.5, -0.5]),
        ([], []),
    ],
)
def test_wrong_blends_are_refused(tables: Any, weights: Any) -> None:
    with pytest.raises(UsageError):
        blend(tables, weights)

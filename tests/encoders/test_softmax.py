"""The softmax classifier against scikit-learn, and the laws that it keeps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from robusttc.encoders.softmax import NEVER, SoftmaxClassifier, fit_softmax
from robusttc.encoders.softmax_kernels import (
    BLOCK,
    curvature_of,
    evaluate,
    exponential_constants,
    exponentials,
)
from robusttc.encoders.softmax_quick import fit_softmax_quickly, inverse_root, whiten
from robusttc.encoders.softmax_workspace import MAX_KEPT_BYTES, Workspace
from robusttc.errors import DataError, UsageError

Matrix = NDArray[Any]
TYPES = [np.float32, np.float64]
# Rows, features, labels: fewer rows than features, about as many, many more, two labels, many labels.
SHAPES = [(40, 60, 5), (150, 60, 2), (450, 30, 4), (250, 50, 8), (120, 15, 30)]


def relu_problem(n_rows: int, width: int, n_labels: int, seed: int = 0) -> tuple[Matrix, NDArray[np.int64]]:
    """Features of a random ReLU layer, all positive and far from the same in size, and learnable labels."""
    generator = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_labels), generator.integers(n_labels, size=n_rows - n_labels)])
    hidden = generator.normal(size=(n_labels, 10))[codes] + generator.normal(size=(n_rows, 10))
    features = np.maximum(hidden @ generator.normal(size=(10, width)) + generator.normal(size=width), 0)
    return features * generator.gamma(1.0, size=width), codes


def objective(
    classifier: SoftmaxClassifier, features: Matrix, codes: Matrix, *, C: float, balanced: bool = False
) -> float:
    """The objective of the module, by hand, in double precision."""
    labels, counts = np.unique(codes, return_counts=True)
    weight = classifier.weight.astype(np.float64)[:, labels]
    logits = features.astype(np.float64) @ weight + classifier.bias.astype(np.float64)[labels]
    own = np.searchsorted(labels, codes)
    top = logits.max(axis=1)
    losses = top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - logits[np.arange(len(codes)), own]
    weights = (len(codes) / (len(labels) * counts))[own] if balanced else np.ones(len(codes))
    factor = 1.0 if len(labels) == 2 else 0.5
    return float(C * (weights * losses).sum() + factor * (weight**2).sum())


def reference(features: Matrix, codes: Matrix, *, C: float, balanced: bool = False) -> SoftmaxClassifier:
    """Scikit-learn's solution, converged much further than by default."""
    model = LogisticRegression(
        C=C, tol=1e-8, max_iter=20_000, solver="lbfgs", class_weight="balanced" if balanced else None
    )
    model.fit(features.astype(np.float64), codes)
    weight, bias = model.coef_.T, model.intercept_
    if weight.shape[1] == 1:
        weight, bias = np.hstack([-weight / 2, weight / 2]), np.array([-bias[0] / 2, bias[0] / 2])
    return SoftmaxClassifier(weight, bias, 0, True)


@lru_cache(maxsize=32)
def reference_of(shape: tuple[int, int, int], C: float, balanced: bool) -> SoftmaxClassifier:
    """The reference of a problem, which several tests need."""
    return reference(*relu_problem(*shape), C=C, balanced=balanced)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("C", "balanced", "excess"),
    [(0.1, False, 1e-4), (0.03, True, 1e-4), (1.0, False, 1e-4), (3.0, False, 3e-4)],
)
def test_objective_is_that_of_scikit_learn(
    shape: tuple[int, int, int], dtype: Any, C: float, balanced: bool, excess: float
) -> None:
    """The last C makes problems that are much harder than real ones: the labels are as good as separable."""
    features, codes = relu_problem(*shape)
    found = fit_softmax(features.astype(dtype), codes, n_labels=shape[2], C=C, balanced=balanced)
    best = reference_of(shape, C, balanced)
    least = objective(best, features, codes, C=C, balanced=balanced)
    assert found.converged
    assert found.weight.dtype == found.bias.dtype == dtype
    assert objective(found, features, codes, C=C, balanced=balanced) <= least * (1 + excess)
    agreeing = found.predict_codes(features.astype(dtype)) == best.predict_codes(features)
    assert agreeing.mean() >= 0.97


@pytest.mark.parametrize("shape", SHAPES)
def test_a_small_tolerance_finds_the_same_weights(shape: tuple[int, int, int]) -> None:
    features, codes = relu_problem(*shape)
    found = fit_softmax(features, codes, n_labels=shape[2], tol=1e-12, max_iter=1000)
    best = reference_of(shape, 1.0, False)
    np.testing.assert_allclose(found.weight, best.weight, atol=2e-4)
    np.testing.assert_allclose(found.probabilities(features), best.probabilities(features), atol=1e-4)


def test_absent_labels_change_nothing_and_are_never_predicted() -> None:
    features, codes = relu_problem(120, 20, 3)
    dense = fit_softmax(features, codes, n_labels=3)
    sparse = fit_softmax(features, np.array([1, 4, 5])[codes], n_labels=7)
    np.testing.assert_array_equal(sparse.weight[:, [1, 4, 5]], dense.weight)
    assert not sparse.weight[:, [0, 2, 3, 6]].any()
    assert (sparse.bias[[0, 2, 3, 6]] == NEVER).all()
    assert set(sparse.predict_codes(-features).tolist()) <= {1, 4, 5}
    probabilities = sparse.probabilities(features)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert not probabilities[:, 0].any()


@pytest.mark.parametrize("dtype", TYPES)
def test_equal_inputs_give_equal_results(dtype: Any) -> None:
    features, codes = relu_problem(250, 40, 6)
    features = features.astype(dtype)
    first = fit_softmax(features, codes, n_labels=6)
    fit_softmax(features[:100] * 2, codes[:100], n_labels=6)
    second = fit_softmax(np.asfortranarray(features), codes.astype(np.int8), n_labels=6)
    np.testing.assert_array_equal(first.weight, second.weight)
    np.testing.assert_array_equal(first.bias, second.bias)


def test_inputs_stay_as_they_are() -> None:
    features, codes = relu_problem(60, 10, 3)
    before = features.copy(), codes.copy()
    fit_softmax(features, codes, n_labels=3)
    np.testing.assert_array_equal(features, before[0])
    np.testing.assert_array_equal(codes, before[1])


@pytest.mark.parametrize("dtype", TYPES)
def test_hard_features(dtype: Any) -> None:
    """Constant, repeated and huge columns, equal rows with unequal labels: still a minimum."""
    features, codes = relu_problem(80, 12, 4)
    features = np.hstack(
        [features, features, np.zeros((80, 3)), np.full((80, 1), 50.0), features[:, :1] * 100]
    )
    features[40:60] = features[:20]
    found = fit_softmax(features.astype(dtype), codes, n_labels=4)
    least = objective(reference(features, codes, C=1.0), features, codes, C=1.0)
    assert found.converged
    assert objective(found, features, codes, C=1.0) <= least * (1 + 2e-4)


def test_constant_features_give_the_shares_of_the_labels() -> None:
    classifier = fit_softmax(np.ones((10, 3)), [0, 0, 0, 1, 1, 1, 1, 2, 2, 2], n_labels=3)
    np.testing.assert_allclose(classifier.probabilities(np.ones((1, 3))), [[0.3, 0.4, 0.3]], atol=1e-6)


def test_too_few_steps_are_told() -> None:
    features, codes = relu_problem(200, 30, 5)
    classifier = fit_softmax(features, codes, n_labels=5, max_iter=2)
    assert (classifier.n_iterations, classifier.converged) == (2, False)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"C": 0.0}, UsageError, "C cannot be used"),
        ({"C": float("nan")}, UsageError, "C cannot be used"),
        ({"tol": 0.0}, UsageError, "tol cannot be used"),
        ({"max_iter": 0}, UsageError, "max_iter cannot be used"),
        ({"n_labels": 1}, UsageError, "n_labels cannot be used"),
        ({"codes": [1, 1, 1]}, DataError, "at least two labels"),
        ({"codes": [0, 1, 2]}, DataError, "not one of the labels"),
        ({"codes": [0, 1, -1]}, DataError, "not one of the labels"),
        ({"codes": [0, 1]}, DataError, "codes cannot be used"),
        ({"codes": [0.0, 1.0, 1.0]}, DataError, "codes cannot be used"),
        (
            {"features": np.array([[1.0], [np.nan], [0.0]])},
            DataError,
            "row 1, column 0: a feature is not finite",
        ),
        ({"features": np.ones((3, 0))}, DataError, "features cannot be used"),
        ({"features": np.ones((3, 1), dtype=int)}, DataError, "features cannot be used"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"features": np.arange(3.0)[:, None], "codes": [0, 1, 1], "n_labels": 2}
    with pytest.raises(error, match=message):
        fit_softmax(**{**arguments, **changes})


def test_features_of_another_width_are_refused() -> None:
    classifier = fit_softmax(np.arange(4.0)[:, None], [0, 0, 1, 1], n_labels=2)
    with pytest.raises(UsageError, match="do not fit"):
        classifier.logits(np.ones((2, 3)))


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_exponentials(dtype: Any, error: float) -> None:
    values = -np.linspace(0, 80, BLOCK).astype(dtype)
    expected = np.exp(values.astype(np.float64))
    exponents = np.zeros(BLOCK, dtype=np.int32 if dtype == np.float32 else np.int64)
    exponentials(values, exponents, exponents.view(dtype), exponential_constants(np.dtype(dtype)))
    # In single precision the argument itself is known to 80 * 6e-8.
    np.testing.assert_allclose(values, expected, rtol=error * (20 if dtype == np.float32 else 1))


def test_evaluate_and_curvature_against_plain_numpy() -> None:
    generator = np.random.default_rng(0)
    n_labels, n_rows = 4, 300
    logits, change = generator.normal(size=(2, n_labels, n_rows)) * 3
    codes, costs = generator.integers(n_labels, size=n_rows), generator.uniform(0.5, 2, size=n_rows)
    exponents, residuals = np.zeros(BLOCK, dtype=np.int64), np.empty_like(logits)
    constants = exponential_constants(logits.dtype)
    workspace = (constants, exponents, exponents.view(np.float64), residuals)
    loss, slope, curvature = evaluate(logits, change, np.array([0.7]), codes, costs, *workspace)
    shares = np.exp(logits + 0.7 * change)
    shares /= shares.sum(axis=0)
    hits = np.arange(n_labels)[:, None] == codes
    means = (shares * change).sum(axis=0)
    assert loss == pytest.approx(-(costs * np.log(shares[codes, np.arange(n_rows)])).sum())
    assert slope == pytest.approx((costs * ((shares - hits) * change).sum(axis=0)).sum())
    assert curvature == pytest.approx((costs * ((shares * change**2).sum(axis=0) - means**2)).sum())
    np.testing.assert_allclose(residuals, costs * (shares - hits), atol=1e-10)
    np.testing.assert_allclose(
        curvature_of(residuals, codes, costs), costs * shares * (1 - shares), atol=1e-10
    )


@pytest.mark.parametrize("shape", [*SHAPES, (30, 90, 2)])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_many_quick_steps_reach_the_minimum(shape: tuple[int, int, int], C: float) -> None:
    """Then the change of coordinates, the penalty and the gradient are right.

    The penalty is a difference of two larger numbers: where labels are as good as separable, single precision
    ends the descent a little early.
    """
    features, codes = relu_problem(*shape)
    single = features.astype(np.float32)
    found = fit_softmax_quickly(single, codes, n_labels=shape[2], C=C, tol=1e-6, max_iter=500)
    best = reference_of(shape, C, False)
    least = objective(best, features, codes, C=C)
    assert objective(found, features, codes, C=C) <= least * (1 + 5e-3)
    assert (found.predict_codes(single) == best.predict_codes(features)).mean() >= 0.98


@pytest.mark.parametrize("shape", SHAPES)
def test_a_quick_fit_predicts_like_scikit_learn(shape: tuple[int, int, int]) -> None:
    n_rows, width, n_labels = shape
    features, codes = relu_problem(2 * n_rows, width, n_labels)
    single = features.astype(np.float32)
    found = fit_softmax_quickly(single[:n_rows], codes[:n_rows], n_labels=n_labels)
    best = reference(features[:n_rows], codes[:n_rows], C=1.0)
    ours, theirs = found.predict_codes(single[n_rows:]), best.predict_codes(features[n_rows:])
    assert 1 <= found.n_iterations <= (60 if n_rows * n_labels <= 2000 else 16)
    assert abs((ours == codes[n_rows:]).mean() - (theirs == codes[n_rows:]).mean()) <= 0.05


def test_quick_fits_do_not_know_of_each_other() -> None:
    problems = [relu_problem(*shape) for shape in SHAPES]

    def fit(number: int) -> SoftmaxClassifier:
        features, codes = problems[number]
        return fit_softmax_quickly(features.astype(np.float32), codes, n_labels=SHAPES[number][2])

    alone = [fit(number) for number in range(len(problems))]
    order = [4, 2, 0, 1, 3, 3, 1, 0, 2, 4] * 3
    with ThreadPoolExecutor(3) as pool:
        for number, found in zip(order, pool.map(fit, order), strict=True):
            np.testing.assert_array_equal(found.weight, alone[number].weight)
            np.testing.assert_array_equal(found.bias, alone[number].bias)


def test_quick_fits_with_absent_labels_and_kept_inputs() -> None:
    features, codes = relu_problem(120, 20, 3)
    single = features.astype(np.float32)
    before = single.copy()
    dense = fit_softmax_quickly(single, codes, n_labels=3)
    sparse = fit_softmax_quickly(single, np.array([1, 4, 5])[codes], n_labels=7)
    np.testing.assert_array_equal(single, before)
    np.testing.assert_array_equal(sparse.weight[:, [1, 4, 5]], dense.weight)
    assert not sparse.weight[:, [0, 2, 3, 6]].any()
    assert (sparse.bias[[0, 2, 3, 6]] == NEVER).all()


@pytest.mark.parametrize("factor", [0.0, 1e-3, 1e4])
@pytest.mark.parametrize("n_rows", [8, 60])
def test_quick_fits_of_any_scale_are_finite(factor: float, n_rows: int) -> None:
    features, codes = relu_problem(n_rows, 20, 3)
    found = fit_softmax_quickly((features * factor).astype(np.float32), codes, n_labels=3)
    assert np.isfinite(found.weight).all()
    assert np.isfinite(found.bias).all()
    if factor == 0.0:
        shares = np.bincount(codes) / n_rows
        np.testing.assert_allclose(found.probabilities(np.zeros((1, 20))), [shares], atol=1e-5)


def test_a_quick_fit_of_one_label_is_refused() -> None:
    with pytest.raises(DataError, match="at least two labels"):
        fit_softmax_quickly(np.ones((3, 2), dtype=np.float32), [1, 1, 1], n_labels=2)
    with pytest.raises(UsageError, match="max_iter cannot be used"):
        fit_softmax_quickly(np.ones((2, 2), dtype=np.float32), [0, 1], n_labels=2, max_iter=0)


@pytest.mark.parametrize("n_rows", [10, 100])
def test_whitened_rows_have_the_curvature_of_the_identity(n_rows: int) -> None:
    features = relu_problem(n_rows, 30, 3)[0].astype(np.float32)
    centred = features - features.mean(axis=0)
    rows, back = whiten(centred, 0.2, np.empty((n_rows, 31), dtype=np.float32), narrow=False)
    np.testing.assert_allclose(rows[:, :-1], centred @ back, atol=1e-3)
    curvature = 0.2 * rows[:, :-1].T @ rows[:, :-1] + back.T @ back
    np.testing.assert_allclose(curvature, np.eye(len(curvature)), atol=1e-3)


@pytest.mark.parametrize(("decay", "expected"), [(0.5, 80), (0.0, 200)])
def test_large_problems_leave_out_directions_of_little_variance(decay: float, expected: int) -> None:
    """Where the directions differ; if all are alike, none is left out."""
    generator = np.random.default_rng(0)
    scales = np.maximum(10 * np.arange(1.0, 201.0) ** (-2 * decay), 1e-2)
    turned = np.linalg.qr(generator.normal(size=(200, 200)))[0]
    centred = ((generator.normal(size=(400, 200)) * scales) @ turned).astype(np.float32)
    centred -= centred.mean(axis=0)
    rows, back = whiten(centred, 0.1, np.empty((400, 201), dtype=np.float32), narrow=True)
    assert back.shape == (200, expected)
    curvature = 0.1 * rows[:, :-1].T @ rows[:, :-1] + back.T @ back
    np.testing.assert_allclose(curvature, np.eye(expected), atol=1e-3)


@pytest.mark.parametrize("largest", [1e2, 1e9])
def test_inverse_root_in_both_precisions(largest: float) -> None:
    generator = np.random.default_rng(0)
    turned = np.linalg.qr(generator.normal(size=(12, 12)))[0]
    matrix = ((turned * np.geomspace(1, largest, 12)) @ turned.T).astype(np.float32)
    matrix = (matrix + matrix.T) / 2
    root = inverse_root(matrix).astype(np.float64)
    assert np.isfinite(root).all()
    if largest < 1e6:
        np.testing.assert_allclose(root.T @ matrix @ root, np.eye(12), atol=1e-3)


def test_a_workspace_is_kept_unless_it_is_large() -> None:
    workspace = Workspace()
    (first,) = workspace.arrays((100, 10))
    again, other = workspace.arrays((10, 10), (30,))
    assert np.shares_memory(first, again)
    assert not np.shares_memory(again, other)
    (large,) = workspace.arrays((MAX_KEPT_BYTES // 4 + 1,))
    assert not np.shares_memory(large, workspace.arrays((10,))[0])

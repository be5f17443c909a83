"""The softmax classifier against scikit-learn, and the laws that it keeps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from robusttc.errors import DataError, UsageError
from robusttc.models import NEVER, SoftmaxClassifier, fit_softmax

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


def test_too_few_steps_are_reported() -> None:
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
        ({"n_labels": 2.0}, UsageError, "n_labels cannot be used"),
        ({"balanced": "yes"}, UsageError, "balanced cannot be used"),
        ({"codes": [1, 1, 1]}, DataError, "same label"),
        ({"codes": [0, 1, 2]}, DataError, "out of range"),
        ({"codes": [0, 1, -1]}, DataError, "out of range"),
        ({"codes": [0, 1]}, DataError, "labels cannot be used"),
        ({"codes": [0.0, 1.0, 1.0]}, DataError, "labels cannot be used"),
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


@pytest.mark.parametrize("scale", [1e-3, 1e2, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_converged_means_converged_whatever_the_scale(scale: float, n_labels: int) -> None:
    for seed in range(4):
        generator = np.random.default_rng(seed)
        features = generator.normal(size=(60, 20))
        codes = np.concatenate([np.arange(n_labels), generator.integers(n_labels, size=60 - n_labels)])
        found = fit_softmax((scale * features).astype(np.float32), codes, n_labels=n_labels)
        best = fit_softmax(scale * features, codes, n_labels=n_labels, tol=1e-12, max_iter=1000)
        assert found.converged
        assert best.converged
        least = objective(best, scale * features, codes, C=1.0)
        assert objective(found, scale * features, codes, C=1.0) <= least * (1 + 1e-4)
        # A check that does not come from the solver: at the minimum the gradient vanishes.
        shares = best.probabilities(scale * features)
        shares[np.arange(60), codes] -= 1
        factor = 2.0 if n_labels == 2 else 1.0
        gradient = scale * features.T @ shares + factor * best.weight
        assert np.abs(gradient).max() <= 1e-3 * scale
        assert np.abs(shares.sum(axis=0)).max() <= 1e-4


@pytest.mark.parametrize("n_rows", [15, 80])
def test_columns_of_very_different_scale(n_rows: int) -> None:
    """The column that carries the label is 10 million times smaller than one of noise."""
    generator = np.random.default_rng(0)
    codes = np.arange(n_rows) % 2
    features = np.column_stack([1e7 * generator.normal(size=n_rows), *generator.normal(size=(20, n_rows))])
    features[:, 3] += 8 * codes
    found = fit_softmax(features, codes, n_labels=2)
    assert found.converged
    assert (found.predict_codes(features) == codes).all()
    assert abs(found.weight[3, 1]) > 0.1


def test_numpy_numbers_are_numbers() -> None:
    features = np.arange(4.0)[:, None]
    options: dict[str, Any] = {"n_labels": np.int64(2), "C": np.float32(2), "max_iter": np.int32(50)}
    found = fit_softmax(features, [0, 0, 1, 1], **options)
    assert found.converged
    np.testing.assert_array_equal(found.weight, fit_softmax(features, [0, 0, 1, 1], n_labels=2, C=2).weight)


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 100.0])
def test_separated_labels_are_fitted(scale: float) -> None:
    """The curvature vanishes at the end of the precision."""
    for seed in range(40):
        generator = np.random.default_rng(seed)
        n_labels, dimension, n_rows = (int(generator.integers(*ends)) for ends in ((2, 5), (12, 30), (5, 40)))
        n_rows = max(n_rows, n_labels)
        codes = np.arange(n_rows) % n_labels
        centres = scale * generator.normal(size=(n_labels, dimension))
        features = (centres[codes] + generator.normal(size=(n_rows, dimension))).astype(np.float32)
        for inverse_penalty in (1.0, 30.0, 300.0):
            fitted = fit_softmax(features, codes, n_labels=n_labels, C=inverse_penalty, balanced=True)
            assert np.isfinite(fitted.weight).all()
            if scale >= 3:
                assert (fitted.predict_codes(features) == codes).all()


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("width", [5, 50])
def test_a_classifier_can_be_drawn_to_another(n_labels: int, width: int) -> None:
    generator = np.random.default_rng(n_labels)
    features = generator.normal(size=(30, width))
    codes = np.arange(30) % max(2, n_labels - 1)  # of four labels one has no rows
    near = generator.normal(size=(width, n_labels)), generator.normal(size=n_labels)
    costs = 3.0 * 30 / (len(set(codes)) * np.bincount(codes))[codes]

    def objective(flat: NDArray[np.float64]) -> float:
        weight, bias = flat[:-n_labels].reshape(width, n_labels), flat[-n_labels:]
        logs = log_softmax(features @ weight + bias, axis=1)
        return float(-(costs * logs[np.arange(30), codes]).sum() + ((weight - near[0]) ** 2).sum() / 2)

    fitted = fit_softmax(features, codes, n_labels=n_labels, C=3.0, balanced=True, tol=1e-8, near=near)
    assert fitted.converged
    found = np.concatenate([fitted.weight.ravel(), fitted.bias])
    best = minimize(objective, np.concatenate([near[0].ravel(), near[1]]), tol=1e-9).fun
    assert objective(found) == pytest.approx(best, rel=1e-5)

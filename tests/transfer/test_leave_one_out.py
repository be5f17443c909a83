"""Leave-one-out predictions against explicit refits, and the two scores that are made of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from robusttc.transfer.leave_one_out import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    leave_one_out_brier,
    leave_one_out_log_likelihood,
    leave_one_out_predictions,
)

Floats = NDArray[np.float64]
Case = tuple[NDArray[np.float32], NDArray[np.int64], int]


def random_case(seed: int, *, n: int = 23, width: int = 4, n_labels: int = 3) -> Case:
    generator = np.random.default_rng(seed)
    features = generator.normal(2.0, 3.0, size=(n, width)).astype(np.float32)
    codes = generator.integers(n_labels, size=n)
    codes[:n_labels] = np.arange(n_labels)
    features[:, 0] += 3 * codes
    return features, codes, n_labels


def label_without_rows() -> Case:
    features, codes, n_labels = random_case(3)
    return features, np.where(codes == 1, 3, codes), n_labels + 2


def one_row_a_label() -> Case:
    features, _, _ = random_case(4, n=5)
    return features, np.arange(5), 5


def constant_features() -> Case:
    _, codes, n_labels = random_case(5)
    return np.full((len(codes), 3), 0.7, dtype=np.float32), codes, n_labels


def duplicates() -> Case:
    features, codes, n_labels = random_case(6, n=8)
    return np.repeat(features, 3, axis=0), np.repeat(codes, 3), n_labels


def wider_than_rows() -> Case:
    return random_case(7, n=6, width=15, n_labels=2)


CASES = {
    "random": random_case(0),
    "other seed": random_case(1, n=40, width=6, n_labels=7),
    "label without rows": label_without_rows(),
    "one row a label": one_row_a_label(),
    "constant features": constant_features(),
    "duplicates": duplicates(),
    "wider than rows": wider_than_rows(),
    "two rows": (np.array([[0.0], [1.0]], dtype=np.float32), np.array([0, 1]), 2),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def refit(features: NDArray[np.float32], codes: NDArray[np.int64], n_labels: int, ridge: float) -> Floats:
    """Fit without each row in its turn; the scale of the features is that of all rows."""
    centred = features - features.mean(axis=0, dtype=np.float64)
    n, width = centred.shape
    if centred.any():
        centred *= np.sqrt(width / (centred**2).sum(axis=1).mean())
    truth = np.eye(n_labels)[codes]
    predictions = np.empty((n, n_labels))
    for row in range(n):
        rest = np.arange(n) != row
        top = np.column_stack([np.ones(n - 1), centred[rest]])
        penalty = np.column_stack([np.zeros(width), np.sqrt(ridge) * np.eye(width)])
        right = np.vstack([truth[rest], np.zeros((width, n_labels))])
        fitted = np.linalg.lstsq(np.vstack([top, penalty]), right, rcond=None)[0]
        predictions[row] = np.concatenate([[1.0], centred[row]]) @ fitted
    return predictions


def best_likelihood(predictions: Floats, codes: NDArray[np.int64]) -> tuple[Floats, float]:
    """Give the log-likelihoods at the best temperature, found by search, and that temperature."""
    rows = np.arange(len(codes))

    def scores(log_temperature: float) -> Floats:
        chosen: Floats = log_softmax(np.exp(log_temperature) * predictions, axis=1)[rows, codes]
        return chosen

    bounds = (float(np.log(LOWEST_TEMPERATURE)), float(np.log(HIGHEST_TEMPERATURE)))
    found = minimize_scalar(
        lambda value: -scores(value).sum(), bounds=bounds, method="bounded", options={"xatol": 1e-10}
    )
    return scores(found.x), float(np.exp(found.x))


@every_case
@pytest.mark.parametrize("ridge", [0.05, 1.0, 30.0])
def test_predictions_equal_refits(case: Case, ridge: float) -> None:
    features, codes, n_labels = case
    found = leave_one_out_predictions(features, codes, n_labels, ridge)
    np.testing.assert_allclose(found, refit(features, codes, n_labels, ridge), atol=1e-9)


@every_case
@pytest.mark.parametrize("ridge", [0.05, 1.0])
def test_brier_is_minus_the_squared_distance(case: Case, ridge: float) -> None:
    features, codes, n_labels = case
    wrong = refit(features, codes, n_labels, ridge) - np.eye(n_labels)[codes]
    found = leave_one_out_brier(features, codes, n_labels, ridge)
    np.testing.assert_allclose(found, -(wrong**2).sum(axis=1), atol=1e-9)


@every_case
@pytest.mark.parametrize("ridge", [0.05, 1.0])
def test_log_likelihood_at_the_best_temperature(case: Case, ridge: float) -> None:
    features, codes, n_labels = case
    predictions = refit(features, codes, n_labels, ridge)
    expected, temperature = best_likelihood(predictions, codes)
    found = leave_one_out_log_likelihood(features, codes, n_labels, ridge)
    # The sum is flat in the temperature, the single rows are not.
    assert found.sum() == pytest.approx(expected.sum(), abs=1e-5)
    np.testing.assert_allclose(found, expected, atol=2e-3 * (1 + np.abs(predictions).max() * temperature))
    assert (found <= 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_temperature_is_found_from_near_and_far(seed: int) -> None:
    """Labels that are easy, hard and hopeless to tell apart want very different temperatures."""
    generator = np.random.default_rng(seed)
    codes = np.repeat([0, 1], 20)
    for strength in (0.0, 0.1, 1.0, 5.0, 100.0):
        features = (generator.normal(size=(40, 3)) + strength * codes[:, None]).astype(np.float32)
        expected, _ = best_likelihood(refit(features, codes, 2, 1.0), codes)
        found = leave_one_out_log_likelihood(features, codes, 2, 1.0)
        assert found.mean() == pytest.approx(expected.mean(), abs=1e-5)


@pytest.mark.parametrize("n", [300, 600, 1024, 2000])
@pytest.mark.parametrize("period", [0, 2, 3, 4])
def test_temperature_of_many_rows_in_any_order(n: int, period: int) -> None:
    """Some rows stand for all: they must, also where the labels come in turns or one after the other."""
    generator = np.random.default_rng(n)
    codes = np.arange(n) % period % 2 if period else np.sort(generator.integers(2, size=n))
    features = generator.normal(size=(n, 3)) + codes[:, None]
    features[codes == 1] *= 3.0
    single = features.astype(np.float32)
    expected, _ = best_likelihood(leave_one_out_predictions(single, codes, 2, 1.0), codes)
    found = leave_one_out_log_likelihood(single, codes, 2, 1.0)
    assert found.mean() == pytest.approx(expected.mean(), abs=1e-4)
    order = generator.permutation(n)
    moved = leave_one_out_log_likelihood(single[order], codes[order], 2, 1.0)
    assert moved.mean() == pytest.approx(expected.mean(), abs=1e-4)


@pytest.mark.parametrize(
    "rule", [leave_one_out_predictions, leave_one_out_brier, leave_one_out_log_likelihood]
)
def test_permuted_rows_and_labels_permute(rule: object) -> None:
    assert callable(rule)
    features, codes, n_labels = random_case(8)
    found = rule(features, codes, n_labels, 1.0)
    order = np.random.default_rng(0).permutation(len(codes))
    np.testing.assert_allclose(rule(features[order], codes[order], n_labels, 1.0), found[order], atol=1e-9)
    renamed = np.array([2, 0, 1])
    expected = found[:, np.argsort(renamed)] if found.ndim == 2 else found
    np.testing.assert_allclose(rule(features, renamed[codes], n_labels, 1.0), expected, atol=1e-9)


@pytest.mark.parametrize("rule", [leave_one_out_brier, leave_one_out_log_likelihood])
def test_shift_scale_and_rotation_change_nothing(rule: object) -> None:
    assert callable(rule)
    features, codes, n_labels = random_case(9)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    moved = (7.0 * features.astype(np.float64) @ rotation - 3.0).astype(np.float32)
    np.testing.assert_allclose(
        rule(moved, codes, n_labels, 1.0), rule(features, codes, n_labels, 1.0), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("rule", [leave_one_out_brier, leave_one_out_log_likelihood])
@pytest.mark.parametrize("seed", range(5))
def test_telling_features_score_higher_than_noise(rule: object, seed: int) -> None:
    assert callable(rule)
    generator = np.random.default_rng(seed)
    codes = generator.permutation(np.repeat([0, 1, 2], 10))
    noise = generator.normal(size=(30, 3)).astype(np.float32)
    telling = (noise + 4 * np.eye(3)[codes]).astype(np.float32)
    assert rule(telling, codes, 3, 1.0).mean() > rule(noise, codes, 3, 1.0).mean()

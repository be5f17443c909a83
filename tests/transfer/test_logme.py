"""LogME against the evidence written out by hand and maximised by a general optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from robusttc.errors import DataError, UsageError
from robusttc.transfer.logme import logme

Matrix = NDArray[np.float64]


def evidence(features: Matrix, column: Matrix, log_alpha: float, log_beta: float) -> float:
    """log N(y; 0, I / beta + F F' / alpha), from the definition, by the covariance of y."""
    n = len(column)
    covariance = np.eye(n) / np.exp(log_beta) + features @ features.T / np.exp(log_alpha)
    sign, volume = np.linalg.slogdet(covariance)
    assert sign > 0
    return float(-0.5 * (n * np.log(2 * np.pi) + volume + column @ np.linalg.solve(covariance, column)))


def brute_force(features: Matrix, codes: NDArray[np.int64]) -> float:
    return float(np.mean([best_evidence(features, (codes == label) * 1.0) for label in np.unique(codes)]))


def best_evidence(features: Matrix, column: Matrix) -> float:
    """The largest evidence of a column divided by n, from three starts."""

    def negative(point: Matrix) -> float:
        return -evidence(features, column, float(point[0]), float(point[1]))

    ends = [
        minimize(
            negative,
            np.array(start),
            method="Nelder-Mead",
            bounds=[(-20.0, 20.0)] * 2,
            options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 2000},
        ).fun
        for start in ([0.0, 0.0], [3.0, 3.0], [0.0, 5.0])
    ]
    return -float(min(ends)) / len(column)


def make(n_rows: int, width: int, n_labels: int, noise: float, seed: int) -> tuple[Matrix, NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    codes = generator.permutation(np.arange(n_rows) % n_labels)
    features = generator.normal(size=(n_labels, width))[codes] + noise * generator.normal(
        size=(n_rows, width)
    )
    return np.maximum(features, 0), codes


@pytest.mark.parametrize("shape", [(40, 6, 3), (30, 8, 2), (20, 35, 4), (25, 25, 3)])
@pytest.mark.parametrize("noise", [0.3, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_brute_force(shape: tuple[int, int, int], noise: float, seed: int) -> None:
    features, codes = make(*shape, noise, seed)
    assert logme(features, codes, shape[2]) == pytest.approx(brute_force(features, codes), abs=1e-5)


def test_features_that_say_less_score_less() -> None:
    scores = [logme(*make(200, 20, 5, noise, 0), 5) for noise in (0.2, 0.5, 1.0, 2.0, 5.0)]
    assert scores == sorted(scores, reverse=True)


def test_a_rotation_or_zero_columns_change_nothing() -> None:
    features, codes = make(60, 10, 3, 0.5, 0)
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(10, 10)))
    expected = logme(features, codes, 3)
    assert logme(features @ rotation, codes, 3) == pytest.approx(expected, abs=1e-8)
    # A column of zeros adds a weight with a prior but without a say.
    assert logme(np.hstack([features, np.zeros((60, 70))]), codes, 3) == pytest.approx(expected, abs=1e-8)
    assert logme(features, codes * 2, 7) == pytest.approx(expected, abs=1e-12)
    assert logme(features.astype(np.float32), codes, 3) == pytest.approx(expected, abs=1e-5)


def test_features_of_zeros_have_a_score() -> None:
    """Nothing is explained: the evidence of pure noise."""
    codes = np.array([0, 0, 1, 1])
    # The variance of the noise is the mean square of a column, 1/2.
    expected = -0.5 * (np.log(0.5) + 1 + np.log(2 * np.pi))
    assert logme(np.zeros((4, 3)), codes, 2) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("features", "codes", "n_labels", "error", "message"),
    [
        (np.ones((3, 2)), [0, 0, 0], 2, DataError, "at least two labels"),
        (np.ones((3, 2)), [0, 1, 2], 2, DataError, "not one of the labels"),
        (np.ones((3, 2)), [0, 1], 2, DataError, "codes cannot be used"),
        (np.ones((3, 0)), [0, 1, 1], 2, DataError, "features cannot be used"),
        (np.full((3, 2), np.nan), [0, 1, 1], 2, DataError, "row 0, column 0: a feature is not finite"),
        (np.ones((3, 2)), [0, 1, 1], 1, UsageError, "n_labels cannot be used"),
    ],
)
def test_bad_input_is_refused(
    features: Any, codes: Any, n_labels: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        logme(features, codes, n_labels)

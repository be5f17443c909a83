"""Narrow encoders against the generalised eigenproblem that defines them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import eigh

from robusttc.transfer.pair_scores import discriminant_projection

Features = NDArray[np.float32]
Codes = NDArray[np.int64]


def random_rows(seed: int, *, n: int = 40, dimension: int = 6, n_labels: int = 4) -> tuple[Features, Codes]:
    generator = np.random.default_rng(seed)
    codes = generator.integers(n_labels, size=n)
    codes[:n_labels] = np.arange(n_labels)
    centres = generator.normal(size=(n_labels, dimension))
    scales = np.linspace(0.5, 2.0, dimension)
    return (centres[codes] + scales * generator.normal(size=(n, dimension))).astype(np.float32), codes


def spreads(features: Features, codes: Codes, shrinkage: float) -> tuple[NDArray[np.float64], ...]:
    """Give the spread between and within labels, by loops."""
    rows = features.astype(np.float64)
    n, dimension = rows.shape
    centre = rows.mean(axis=0)
    between, within = np.zeros((dimension, dimension)), np.zeros((dimension, dimension))
    for code in np.unique(codes):
        own = rows[codes == code]
        mean = own.mean(axis=0)
        between += len(own) / n * np.outer(mean - centre, mean - centre)
        for row in own:
            within += np.outer(row - mean, row - mean) / n
    variance = np.trace(within) / dimension
    return between, (1 - shrinkage) * within + shrinkage * variance * np.eye(dimension)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize(("n_labels", "dimension"), [(4, 6), (2, 5), (9, 3)])
def test_equals_the_generalised_eigenproblem(
    seed: int, shrinkage: float, n_labels: int, dimension: int
) -> None:
    features, codes = random_rows(seed, n_labels=n_labels, dimension=dimension)
    between, within = spreads(features, codes, shrinkage)
    values, vectors = eigh(between, within)
    n_directions = min(n_labels - 1, dimension)
    values, vectors = values[::-1][:n_directions], vectors[:, ::-1][:, :n_directions]
    found = discriminant_projection(features, codes, n_labels=n_labels, width=99, shrinkage=shrinkage)
    assert found.shape == (dimension, n_directions)
    assert found.dtype == np.float32
    # SciPy's vectors have length one by S_within; ours are as long as they tell.
    expected = vectors * np.sqrt(values)
    signs = np.sign((expected * found).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("width", "n_labels", "dimension", "expected"),
    [(6, 4, 6, 3), (2, 4, 6, 2), (1, 4, 6, 1), (6, 2, 6, 1), (6, 9, 3, 3), (6, 9, 1, 1)],
)
def test_number_of_directions(width: int, n_labels: int, dimension: int, expected: int) -> None:
    features, codes = random_rows(0, n_labels=n_labels, dimension=dimension)
    found = discriminant_projection(features, codes, n_labels=n_labels, width=width, shrinkage=0.9)
    assert found.shape == (dimension, expected)


def test_fewer_directions_are_the_first_of_more() -> None:
    features, codes = random_rows(1)
    all_of_them = discriminant_projection(features, codes, n_labels=4, width=3, shrinkage=0.5)
    one = discriminant_projection(features, codes, n_labels=4, width=1, shrinkage=0.5)
    np.testing.assert_array_equal(one, all_of_them[:, :1])
    # The best is the one by which the labels differ most, in units of their spread.
    between, within = spreads(features, codes, 0.5)
    told = [float(w @ between @ w / (w @ within @ w)) for w in all_of_them.T.astype(np.float64)]
    assert told == sorted(told, reverse=True)


def test_a_label_without_rows_changes_nothing() -> None:
    features, codes = random_rows(2, n_labels=3)
    found = discriminant_projection(features, 2 * codes, n_labels=7, width=6, shrinkage=0.9)
    expected = discriminant_projection(features, codes, n_labels=3, width=6, shrinkage=0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_planted_direction_is_found(seed: int) -> None:
    generator = np.random.default_rng(seed)
    planted = generator.normal(size=12)
    planted /= np.linalg.norm(planted)
    codes = np.repeat([0, 1], 60)
    features = generator.normal(size=(120, 12)) + 6 * codes[:, None] * planted
    found = discriminant_projection(
        features.astype(np.float32), codes, n_labels=2, width=6, shrinkage=0.9
    ).ravel()
    assert abs(found @ planted) / np.linalg.norm(found) > 0.97


@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_labels_does_not_matter(seed: int) -> None:
    features, codes = random_rows(seed)
    expected = discriminant_projection(features, codes, n_labels=4, width=6, shrinkage=0.9)
    order = np.random.default_rng(seed).permutation(len(codes))
    renamed = np.array([2, 0, 3, 1])[codes]
    for rows, labels in ((features[order], codes[order]), (features, renamed)):
        found = discriminant_projection(rows, labels, n_labels=4, width=6, shrinkage=0.9)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shrinkage", [0.0, 0.9])
def test_all_rows_of_a_label_equal(shrinkage: float) -> None:
    centres = np.array([[0.1, 2.0, 0.3], [5.1, 2.0, 0.3], [0.1, 2.0, 1.3]], dtype=np.float32)
    codes = np.repeat([0, 1, 2], 7)
    found = discriminant_projection(centres[codes], codes, n_labels=3, width=6, shrinkage=shrinkage)
    assert found.shape == (3, 2)
    assert np.isfinite(found).all()
    narrow = centres @ found
    assert len(np.unique(narrow.round(3), axis=0)) == 3
    np.testing.assert_allclose(found[1], 0, atol=1e-6)


def test_all_rows_equal_have_no_direction_but_do_no_harm() -> None:
    features, codes = np.full((6, 3), 0.1, dtype=np.float32), np.repeat([0, 1], 3)
    found = discriminant_projection(features, codes, n_labels=2, width=6, shrinkage=0.9)
    assert found.shape[0] == 3
    assert np.isfinite(found).all()


@pytest.mark.parametrize("seed", range(10))
def test_no_shrinkage_with_few_rows(seed: int) -> None:
    """The covariance is singular then; what is found still tells the labels apart, in any order of rows."""
    generator = np.random.default_rng(seed)
    features, codes = generator.normal(size=(8, 20)).astype(np.float32), np.repeat([0, 1, 2], [3, 3, 2])
    found = discriminant_projection(features, codes, n_labels=3, width=6, shrinkage=0.0)
    assert found.shape == (20, 2)
    assert np.isfinite(found).all()
    narrow = features @ found
    means = np.stack([narrow[codes == code].mean(axis=0) for code in range(3)])
    distance = np.linalg.norm(narrow[:, None] - means, axis=2)
    assert (distance.argmin(axis=1) == codes).all()
    order = generator.permutation(8)
    moved = discriminant_projection(features[order], codes[order], n_labels=3, width=6, shrinkage=0.0)
    np.testing.assert_allclose(moved, found, atol=1e-3 * np.abs(found).max())

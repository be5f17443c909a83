"""Spectral clustering from factors, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering.old.completion.problem import Floats
from robusttc.clustering.old.spectral import cluster_factors, cluster_points, embed_factors


def planted_factors(n: int, k: int, noise: float, seed: int) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """The k + 2 leading eigenvectors of a noisy block matrix."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(k, size=n)
    labels[:k] = np.arange(k)
    X = (labels[:, None] == labels) + noise * generator.standard_normal((n, n))
    values, vectors = np.linalg.eigh((X + X.T) / 2)
    leading = np.argsort(-np.abs(values))[: k + 2]
    return vectors[:, leading], values[leading], labels


def multiply_out(vectors: Floats, values: Floats, tau: float) -> Floats:
    X = (vectors * values) @ vectors.T
    return np.asarray(X + tau * X.mean())


@pytest.mark.parametrize("tau", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_points_are_those_of_the_dense_matrix(seed: int, tau: float) -> None:
    k = 4
    vectors, values, _ = planted_factors(40, k, 0.1, seed)
    A = multiply_out(vectors, values, tau)
    scale = 1 / np.sqrt(A.sum(axis=1))
    dense = np.linalg.eigh(scale[:, None] * A * scale)[1][:, -k:]
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    points = embed_factors(vectors, values, k, tau=tau)
    assert points.shape == (40, k)
    # Products of points do not depend on the basis of the eigenspace.
    np.testing.assert_allclose(points @ points.T, dense @ dense.T, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_those_of_scikit_learn(seed: int) -> None:
    k = 5
    vectors, values, labels = planted_factors(80, k, 0.15, seed)
    affinity = np.maximum(multiply_out(vectors, values, 1.0), 0.0)
    reference = SpectralClustering(k, affinity="precomputed", random_state=seed).fit_predict(affinity)
    found = cluster_factors(vectors, values, k, seed=seed)
    assert adjusted_rand_score(reference, found) == 1
    assert adjusted_rand_score(labels, found) == 1


def test_signs_and_rotations_of_eigenvectors_do_not_matter() -> None:
    vectors, values, _ = planted_factors(60, 3, 0.1, 0)
    signs = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
    expected = embed_factors(vectors, values, 3)
    turned = embed_factors(vectors * signs, values, 3)
    np.testing.assert_allclose(turned @ turned.T, expected @ expected.T, atol=1e-10)
    first, second = cluster_factors(vectors, values, 3), cluster_factors(vectors * signs, values, 3)
    assert adjusted_rand_score(first, second) == 1
    # Columns that are not orthonormal are factors as well: X = F F^T.
    F = vectors[:, values > 0] * np.sqrt(values[values > 0])
    third = cluster_factors(F, np.ones(F.shape[1]), 3)
    assert adjusted_rand_score(first, third) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_permutation_of_tasks_permutes_the_clusters(seed: int) -> None:
    vectors, values, _ = planted_factors(50, 4, 0.1, seed)
    permutation = np.random.default_rng(seed).permutation(50)
    straight = cluster_factors(vectors, values, 4, seed=seed)
    permuted = cluster_factors(vectors[permutation], values, 4, seed=seed)
    assert adjusted_rand_score(straight[permutation], permuted) == 1


def test_the_same_seed_gives_the_same_labels() -> None:
    vectors, values, _ = planted_factors(50, 4, 0.5, 0)
    first, second = (cluster_factors(vectors, values, 7, seed=2**62) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_tasks_of_degree_zero_do_not_take_clusters_for_themselves() -> None:
    labels = np.repeat([0, 1, 2], 10)
    # Three clusters, a little alike, and five tasks that are like nobody.
    vectors = np.zeros((35, 9))
    vectors[:30, :3] = np.eye(3)[labels]
    vectors[:30, 3] = np.sqrt(0.05)
    vectors[30:, 4:] = 0.2 * np.eye(5)
    plain = cluster_factors(vectors, np.ones(9), 3, tau=0.0)
    regular = cluster_factors(vectors, np.ones(9), 3)
    assert adjusted_rand_score(labels, plain[:30]) < 1
    assert adjusted_rand_score(labels, regular[:30]) == 1


@pytest.mark.parametrize("k", [1, 2, 5, 6])
def test_every_cluster_is_used_whatever_the_factors_are(k: int) -> None:
    for vectors, values in [
        (np.zeros((6, 0)), np.zeros(0)),
        (np.ones((6, 1)) / np.sqrt(6), np.array([6.0])),
        (np.ones((6, 1)) / np.sqrt(6), np.array([-6.0])),
        (np.eye(6), np.ones(6)),
    ]:
        labels = cluster_factors(vectors, values, k)
        assert sorted(set(labels.tolist())) == list(range(k))


def test_points_of_no_length_stay_where_they_are() -> None:
    points = embed_factors(np.array([[1.0], [1.0], [0.0]]), np.ones(1), 2, tau=0.0)
    assert np.isfinite(points).all()
    assert points[2].tolist() == [0.0]


def test_few_distinct_points_still_make_many_clusters() -> None:
    labels = cluster_points(np.repeat([[0.0], [1.0]], 5, axis=0), 4, seed=0)
    assert sorted(set(labels.tolist())) == [0, 1, 2, 3]

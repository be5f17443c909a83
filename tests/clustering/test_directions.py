"""Directions of the completed similarity, and the tree of the tasks in them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering import spectral
from robusttc.clustering.spectral import (
    MAX_DIRECTIONS,
    build_tree,
    cluster_spectrally,
    cut,
    find_directions,
)

Matrix = NDArray[np.float64]


def planted_factor(n: int, k: int, seed: int, *, noise: float = 0.2) -> tuple[Matrix, NDArray[np.int64]]:
    """A factor U of a similarity with k groups of different sizes, and the groups."""
    generator = np.random.default_rng(seed)
    sizes = generator.dirichlet(np.full(k, 5.0))
    group = np.concatenate([np.arange(k), generator.choice(k, n - k, p=sizes)])
    group = generator.permutation(group)
    axes = np.linalg.qr(generator.normal(size=(k + 4, k)))[0].T
    return axes[group] + noise / np.sqrt(k) * generator.normal(size=(n, k + 4)), group


@pytest.mark.parametrize("seed", range(4))
def test_directions_are_those_of_the_centred_similarity(seed: int) -> None:
    U = planted_factor(30, 4, seed)[0]
    found = find_directions(U)
    centring = np.eye(30) - 1 / 30
    np.testing.assert_allclose(found @ found.T, centring @ U @ U.T @ centring, atol=1e-10)
    products = found.T @ found
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-10)
    assert (np.diff(np.diag(products)) <= 1e-10).all()


def test_directions_of_nothing_and_of_much() -> None:
    assert find_directions(np.zeros((5, 0))).tolist() == [[0.0]] * 5
    U = np.random.default_rng(0).normal(size=(100, 90))
    found = find_directions(U)
    assert found.shape == (100, MAX_DIRECTIONS)
    sizes = np.linalg.svd(U - U.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), sizes[:MAX_DIRECTIONS])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [2, 3, 6])
def test_planted_groups_are_cut_from_the_tree(k: int, seed: int) -> None:
    U, group = planted_factor(60, k, seed)
    labels = cut(build_tree(find_directions(U), k), k)
    assert adjusted_rand_score(group, labels) == 1
    assert set(labels.tolist()) == set(range(k))


def test_only_the_leading_directions_count() -> None:
    U, group = planted_factor(60, 3, 0)
    directions = find_directions(U)
    noisy = directions.copy()
    noisy[:, 3:] = 50 * np.random.default_rng(0).normal(size=noisy[:, 3:].shape)
    np.testing.assert_array_equal(cut(build_tree(noisy, 3), 3), cut(build_tree(directions, 3), 3))
    assert adjusted_rand_score(group, cut(build_tree(noisy, noisy.shape[1]), 3)) < 0.5


def test_one_cluster_and_nothing_to_tell_apart() -> None:
    directions = find_directions(planted_factor(20, 3, 0)[0])
    assert not cut(build_tree(directions, 1), 1).any()
    for points in (np.zeros((20, 4)), directions[:1], directions[:0]):
        tree = build_tree(points, 3)
        assert tree.links is None
        assert not cut(tree, 3).any()
        assert len(cut(tree, 3)) == len(points)
    assert len(set(cut(build_tree(directions[:4], 3), 9).tolist())) == 4  # no more clusters than tasks


@pytest.mark.parametrize("seed", range(4))
def test_many_tasks_are_joined_to_small_groups_first(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    U, group = planted_factor(200, 4, seed)
    directions = find_directions(U)
    whole = build_tree(directions, 4)
    assert whole.links is not None
    assert len(whole.links) == 199
    monkeypatch.setattr(spectral, "MAX_LEAVES", 80)
    few = build_tree(directions, 4, seed)
    assert few.links is not None
    assert len(few.links) < 20
    assert len(few.leaf_of) == 200
    assert adjusted_rand_score(cut(few, 4), cut(whole, 4)) == adjusted_rand_score(group, cut(few, 4)) == 1


@pytest.mark.parametrize("seed", range(6))
def test_rounding_does_not_place_tasks_that_nothing_is_known_of(seed: int) -> None:
    U = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [8, 8, 6], axis=0)
    U += 1e-17 * np.random.default_rng(seed).normal(size=U.shape)
    labels = cluster_spectrally(U, np.ones(2), 3)
    assert adjusted_rand_score(np.repeat([0, 1, 2], [8, 8, 6]), labels) == 1

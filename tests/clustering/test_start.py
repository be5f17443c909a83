"""The first clustering: planted clusters are found, noise is called noise."""

from __future__ import annotations

import numpy as np
import pytest
from planted_similarity import plant
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering.old.completion.problem import Problem, make_problem
from robusttc.clustering.old.start import (
    counts_by_cluster,
    description_length,
    estimate_rates,
    fill_empty,
    first_clustering,
    keep_clusters,
    refine_labels,
)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("sizes", "degree", "flips"),
    [
        ([30, 30, 30], 30, 0.1),
        ([60, 25, 15], 40, 0.05),
        ([80] * 5, 60, 0.1),
        ([250, 250], 20, 0.1),
        ([40] * 9, 90, 0.03),
        ([15] * 16, 200, 0.0),  # more clear eigenvalues than are looked for at first
    ],
)
def test_planted_clusters_and_their_number_are_found(
    sizes: list[int], degree: float, flips: float, seed: int
) -> None:
    data = plant(sizes, degree=degree, flips=flips, seed=seed)
    start = first_clustering(make_problem(data.Y, data.observed), None, seed)
    assert start.n_clusters == len(sizes)
    assert adjusted_rand_score(data.labels, start.labels) > 0.97
    assert start.rates.flip_rate == pytest.approx(flips, abs=0.03)
    assert {1, len(sizes), len(sizes) + 1} <= {candidate.n_clusters for candidate in start.candidates}
    lengths = {candidate.n_clusters: candidate.description_length for candidate in start.candidates}
    assert min(lengths, key=lambda k: lengths[k]) == len(sizes)
    assert "eigenvalues stand clear" in start.reason
    for candidate in start.candidates:
        assert len(np.unique(candidate.labels)) == candidate.n_clusters


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("n", "degree", "ones"), [(40, 15, 0.5), (150, 20, 0.3), (300, 12, 0.5), (300, 60, 0.2)]
)
def test_pure_noise_is_one_cluster(n: int, degree: float, ones: float, seed: int) -> None:
    data = plant([n], degree=degree, flips=1 - ones, seed=seed)
    start = first_clustering(make_problem(data.Y, data.observed), None, seed)
    assert start.n_clusters == 1
    assert not start.labels.any()


@pytest.mark.parametrize("seed", range(5))
def test_only_positives_are_clustered_by_what_is_observed(seed: int) -> None:
    data = plant([100, 100, 100], degree=60, flips=0.0, seed=seed)
    observed = data.observed & (data.Y == 1)
    start = first_clustering(make_problem(data.Y, observed), 3, seed)
    assert adjusted_rand_score(data.labels, start.labels) == 1


def random_problem(seed: int, n: int) -> Problem:
    data = plant([n - n // 2, n // 2], degree=0.4 * n, flips=0.3, seed=seed)
    return make_problem(data.Y, data.observed)


@pytest.mark.parametrize("seed", range(60))
def test_refinement_keeps_the_number_and_never_describes_worse(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 25))
    problem = random_problem(seed, n)
    k = int(generator.integers(1, n + 1))
    labels = generator.permutation(np.arange(n) % k)
    before = labels.copy()
    refined = refine_labels(problem, labels)
    assert np.array_equal(labels, before)
    assert len(np.unique(refined)) == k
    lengths = [description_length(estimate_rates(problem, found), found) for found in (labels, refined)]
    assert lengths[1] <= lengths[0]


def test_a_chain_of_moves_empties_no_cluster() -> None:
    before = np.array([0, 1, 2])
    # Task 0 went to cluster 1, and task 1 on to cluster 2: putting task 0 back leaves cluster 1 empty.
    assert keep_clusters(np.array([1, 2, 2]), before).tolist() == [0, 1, 2]
    assert keep_clusters(np.array([1, 1, 2]), before).tolist() == [0, 1, 2]
    assert keep_clusters(np.array([1, 0, 2]), before).tolist() == [1, 0, 2]


def test_empty_clusters_are_filled_from_the_largest() -> None:
    filled = fill_empty(np.array([0, 0, 0, 2]), 4)
    assert sorted(np.bincount(filled)) == [1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_plain_loops(seed: int) -> None:
    data = plant([7, 5], degree=6, flips=0.2, seed=seed, diagonal=seed % 2 == 0)
    labels = np.random.default_rng(seed).integers(0, 3, size=12)
    labels[0] = 2
    ones, zeros = counts_by_cluster(make_problem(data.Y, data.observed), labels)
    expected = np.zeros((2, 12, 3))
    for i in range(12):
        for j in range(12):
            if i != j and data.observed[i, j]:
                expected[1 - int(data.Y[i, j]), i, labels[j]] += 1
    assert np.array_equal(ones, expected[0])
    assert np.array_equal(zeros, expected[1])


@pytest.mark.parametrize("n", [30, 230])
def test_a_given_number_is_kept(n: int) -> None:
    problem = random_problem(0, n)
    for k in (1, 2, 7, n):
        start = first_clustering(problem, k, 0)
        assert start.n_clusters == k
        assert len(np.unique(start.labels)) == k
        assert start.reason == "given"
    assert first_clustering(problem, n + 9, 0).n_clusters == n


def test_same_seed_same_clusters() -> None:
    data = plant([100] * 4, degree=20, flips=0.15, seed=0)
    problem = make_problem(data.Y, data.observed)
    first, second = (first_clustering(problem, None, 7) for _ in range(2))
    assert np.array_equal(first.labels, second.labels)
    assert np.array_equal(first.eigenvalues, second.eigenvalues)

"""The number of clusters, by predictions of held-out pairs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering import RobustTaskClustering, make_planted_scores
from robusttc.clustering.completion import complete_scores
from robusttc.clustering.n_clusters import (
    choose_n_clusters,
    fit_line,
    fit_two_groups,
    maximise_likelihood,
    predict_by_blocks,
)
from robusttc.transfer import TransferScores

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


def names_of(n: int) -> list[str]:
    return [f"task {number:02d}" for number in range(n)]


def noise_scores(n: int, seed: int) -> TransferScores:
    return TransferScores.from_matrix(np.random.default_rng(seed).normal(size=(n, n)), names_of(n))


@pytest.mark.parametrize("seed", range(4))
def test_six_planted_groups_are_six(seed: int) -> None:
    scores = make_planted_scores(names_of(36), np.arange(36) % 6, random_state=seed)
    completion = complete_scores(scores, seed=seed)
    chosen, gain = choose_n_clusters(completion.folds, 36, seed)
    assert chosen == 6
    assert tuple(gain)[:8] == (1, 2, 3, 4, 5, 6, 7, 8)
    assert gain[1] == 0
    assert gain[6] >= 0.8 * max(gain.values()) > max(gain[number] for number in range(1, 6))
    model = RobustTaskClustering(random_state=seed).fit(scores)
    assert model.n_clusters_ == 6
    assert "fewer clusters predict" in model.n_clusters_reason_


def test_noise_is_one_cluster() -> None:
    models = [RobustTaskClustering(random_state=seed).fit(noise_scores(24, seed)) for seed in range(8)]
    assert sum(model.n_clusters_ == 1 for model in models) >= 6
    for model in models:
        if model.n_clusters_ == 1:
            assert model.n_clusters_reason_ == "no division into clusters predicts held-out pairs better"
            assert not model.verdict_.supported


def sparse_pairs(n: int, k: int, gap: float, seed: int) -> tuple[Labels, tuple[Labels, Labels, Matrix]]:
    """Draw a third of the pairs of k groups, values `gap` higher within a group, with noise of 1."""
    generator = np.random.default_rng(seed)
    groups = np.arange(n) % k
    first, second = np.triu_indices(n, 1)
    kept = generator.random(len(first)) < 0.35
    first, second = first[kept], second[kept]
    values = gap * (groups[first] == groups[second]) + generator.normal(size=len(first))
    return groups, (first, second, values)


@pytest.mark.parametrize("seed", range(4))
def test_clear_pairs_move_tasks_to_their_groups(seed: int) -> None:
    groups, pairs = sparse_pairs(30, 5, 6.0, seed)
    wrong = groups.copy()
    wrong[np.random.default_rng(seed).choice(30, 8, replace=False)] = 0
    found, values = maximise_likelihood(wrong, *pairs, seed)
    assert adjusted_rand_score(groups, found) > adjusted_rand_score(groups, wrong) + 0.2
    assert adjusted_rand_score(groups, found) > 0.9
    assert values.overlap < 0.05
    # No single move makes the pairs likelier.
    best = fit_two_groups(pairs[2], found[pairs[0]] == found[pairs[1]]).deviation
    for task in range(30):
        for cluster in range(5):
            moved = np.where(np.arange(30) == task, cluster, found)
            other = fit_two_groups(pairs[2], moved[pairs[0]] == moved[pairs[1]]).deviation
            assert other > best - 1e-6


def test_pairs_that_overlap_move_nothing() -> None:
    groups, pairs = sparse_pairs(30, 5, 2.0, 0)
    found, values = maximise_likelihood(groups, *pairs, 0)
    assert found is groups
    assert values.overlap > 0.05


def test_a_task_without_a_cluster_keeps_none() -> None:
    groups, pairs = sparse_pairs(30, 5, 6.0, 1)
    left_out = np.where(np.arange(30) == 3, -1, groups)
    found, _ = maximise_likelihood(left_out, *pairs, 0)
    assert found[3] == -1
    assert (found[np.arange(30) != 3] >= 0).all()


def test_few_pairs_of_planted_groups_are_enough() -> None:
    families = np.arange(36) % 6
    agreed = [
        adjusted_rand_score(families, RobustTaskClustering(6).fit(scores).labels_)
        for seed in range(200, 206)
        for scores in [make_planted_scores(names_of(36), families, density=0.4, random_state=seed)]
    ]
    assert np.mean(agreed) > 0.85  # 0.76 by the tree alone


def direct_block_means(labels: NDArray[np.int64], train: Matrix, known: NDArray[np.bool_]) -> Matrix:
    """Block means of the known upper triangle, shrunk to those within and between clusters, by loops."""
    n, k = len(labels), int(labels.max()) + 1
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if known[i, j]]
    blocks: dict[frozenset[int], list[float]] = {}
    for i, j in pairs:
        blocks.setdefault(frozenset((int(labels[i]), int(labels[j]))), []).append(train[i, j])
    base = {}
    for is_within in (True, False):
        own = [value for key, values in blocks.items() if (len(key) == 1) == is_within for value in values]
        base[is_within] = float(np.mean(own)) if own else float(np.mean([train[i, j] for i, j in pairs]))
    left = {key: np.array(values) - base[len(key) == 1] for key, values in blocks.items()}
    noise = float(np.mean(np.concatenate(list(left.values())) ** 2))
    real = sum(float(own.sum()) ** 2 / len(own) for own in left.values()) - noise * len(left)
    variance = max(real / len(pairs), 1e-6)
    means = np.empty((k, k))
    for one in range(k):
        for other in range(k):
            block = left.get(frozenset((one, other)), np.zeros(0))
            means[one, other] = base[one == other] + block.sum() / (len(block) + noise / variance)
    return np.asarray(means[np.ix_(labels, labels)])


@pytest.mark.parametrize("seed", range(6))
def test_block_predictions_against_loops(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n, k = 20, 2 + seed % 4
    labels = np.concatenate([np.arange(k), generator.integers(0, k, n - k)])
    blocks = generator.normal(size=(k, k)) + 2 * np.eye(k)
    matrix = (blocks + blocks.T)[np.ix_(labels, labels)] + generator.normal(size=(n, n))
    known = generator.random((n, n)) < (0.15 if seed % 2 else 0.6)
    first, second = np.nonzero(np.triu(known, 1))
    held_first, held_second = np.nonzero(np.triu(~known, 1))
    if seed % 3 == 0:  # the order of a pair does not matter
        held_first, held_second = held_second, held_first
    found = predict_by_blocks(labels, first, second, matrix[first, second], held_first, held_second)
    expected = direct_block_means(labels, matrix, known)
    np.testing.assert_allclose(found, expected[held_first, held_second], atol=1e-10)


def test_one_block_predicts_the_mean() -> None:
    values = np.random.default_rng(0).normal(size=15)
    first, second = np.triu_indices(6, 1)
    found = predict_by_blocks(np.zeros(6, dtype=np.int64), first, second, values, first, second)
    np.testing.assert_allclose(found, values.mean(), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_line_against_least_squares(seed: int) -> None:
    generator = np.random.default_rng(seed)
    predicted = generator.normal(size=50)
    values = 0.4 * predicted + 3.0 + generator.normal(size=50)
    slope, level = np.polyfit(predicted, values, 1)
    left = values - slope * predicted - level
    expected = norm.logpdf(left, 0.0, np.sqrt(np.mean(left**2)))
    np.testing.assert_allclose(fit_line(predicted, values), expected, atol=1e-10)
    # Predictions that are twice as sure of themselves are as good, and those of the wrong sign worth nothing.
    np.testing.assert_allclose(fit_line(5 + 2 * predicted, values), expected, atol=1e-10)
    alone = norm.logpdf(values, values.mean(), values.std())
    np.testing.assert_allclose(fit_line(-predicted, values), alone, atol=1e-10)
    np.testing.assert_allclose(fit_line(np.ones(50), values), alone, atol=1e-10)

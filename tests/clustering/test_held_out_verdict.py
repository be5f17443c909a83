"""The verdict on held-out pairs: yes where there are groups, no where there are only effects and noise."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.clustering import RobustTaskClustering, make_planted_scores
from robusttc.clustering.n_clusters import candidates, fit_two_groups, pair_means
from robusttc.clustering.verdict import (
    HeldOutPairs,
    contrast,
    explained_by_blocks,
    judge_clusters,
    remove_effects,
)
from robusttc.transfer import TransferScores

Matrix = NDArray[np.float64]


def names_of(n: int) -> list[str]:
    return [f"task {number:02d}" for number in range(n)]


def effects_matrix(n: int, seed: int, *, donors: float = 1.0) -> Matrix:
    """Good and bad sources, hard and easy targets, and noise; no groups."""
    generator = np.random.default_rng(seed)
    matrix = donors * generator.normal(size=n)[:, None] + generator.normal(size=n)
    return np.asarray(matrix + generator.normal(size=(n, n)))


def held_pairs(n: int, seed: int, gamma: float) -> HeldOutPairs:
    """Effects, noise, and gamma more within each of two groups; both directions of half of the pairs."""
    generator = np.random.default_rng(seed)
    group = generator.permutation(n) % 2
    matrix = effects_matrix(n, seed + 1000) + gamma * (group[:, None] == group)
    kept = np.triu(generator.random((n, n)) < 0.5, 1)
    rows, columns = np.nonzero(kept | kept.T)
    return HeldOutPairs(rows, columns, matrix[rows, columns], group[rows] == group[columns])


def test_row_and_column_effects_are_no_groups() -> None:
    supported = []
    for seed in range(12):
        matrix = effects_matrix(20, seed, donors=0.4 if seed % 2 else 1.5)
        if seed % 3 == 0:
            kept = np.triu(np.random.default_rng(seed).random((20, 20)) < 0.6, 1)
            matrix = np.where(kept | kept.T, matrix, np.nan)
        model = RobustTaskClustering().fit(TransferScores.from_matrix(matrix, names_of(20)))
        supported.append(model.verdict_.supported)
        assert model.verdict_.supported == (model.verdict_.p_value < 0.05)
    assert sum(supported) <= 2


def test_given_clusters_of_noise_are_not_supported() -> None:
    p_values = []
    for seed in range(8):
        scores = TransferScores.from_matrix(effects_matrix(16, seed), names_of(16))
        p_values.append(RobustTaskClustering(3).fit(scores).verdict_.p_value)
    # Where nothing predicts held-out pairs X is zero, and there are no clusters to test.
    assert np.isfinite(p_values).sum() >= 2
    assert np.sum(np.array(p_values) < 0.05) <= 2


@pytest.mark.parametrize("strategy", ["default", "paper"])
@pytest.mark.parametrize("seed", range(2))
def test_planted_families_are_supported(strategy: str, seed: int) -> None:
    scores = make_planted_scores(names_of(20), np.arange(20) % 2, random_state=seed)
    verdict = RobustTaskClustering(2, strategy=strategy).fit(scores).verdict_
    assert verdict.supported
    assert verdict.p_value < 0.001
    assert verdict.difference > 0
    assert verdict.advice == ()
    assert 0 < verdict.explained <= 1
    assert 0 < verdict.n_pairs <= 190
    assert "p < 0.001" in verdict.sentence
    assert "2 clusters" in verdict.sentence
    json.dumps(verdict.as_dict(), allow_nan=False)


def test_p_values_without_groups_are_uniform() -> None:
    p_values = []
    for seed in range(200):
        found = held_pairs(16, seed, gamma=0.0)
        labels = np.zeros(16, dtype=np.int64)
        labels[:8] = 1
        p_values.append(judge_clusters([found], np.eye(16), labels, held_out=0.0, n_measured=60).p_value)
    for level in (0.05, 0.2, 0.5, 0.8):
        assert abs(np.mean(np.array(p_values) < level) - level) < 3.5 * np.sqrt(level * (1 - level) / 200)


@pytest.mark.parametrize("seed", range(5))
def test_the_difference_is_that_of_least_squares(seed: int) -> None:
    held = held_pairs(14, seed, gamma=0.8)
    rows, columns = held.rows, held.columns
    design = np.column_stack([np.eye(14)[rows], np.eye(14)[columns], held.same])
    expected = np.linalg.lstsq(design, held.values, rcond=None)[0][-1]
    found = contrast(held, 14)
    assert found.total / found.size == pytest.approx(expected, abs=1e-6)
    pairs = {(min(pair), max(pair)) for pair in zip(rows.tolist(), columns.tolist(), strict=True)}
    assert found.n_pairs == len(pairs)
    assert 1 <= found.freedom <= len(pairs)
    # Effects do not change it.
    shifted = contrast(HeldOutPairs(rows, columns, held.values + 5.0 * rows - 3.0 * columns, held.same), 14)
    assert shifted.total == pytest.approx(found.total, abs=1e-4)
    assert shifted.deviation == pytest.approx(found.deviation, rel=1e-4)


def test_effects_leave_nothing_of_themselves() -> None:
    generator = np.random.default_rng(0)
    rows, columns = np.nonzero(generator.random((12, 12)) < 0.5)
    values = generator.normal(size=12)[rows] + generator.normal(size=12)[columns]
    assert np.abs(remove_effects(values, rows, columns, 12)).max() < 1e-6


def test_a_contrast_without_content_is_not_supported() -> None:
    held = held_pairs(10, 0, gamma=1.0)
    everything = HeldOutPairs(held.rows, held.columns, held.values, np.ones(len(held.rows), dtype=np.bool_))
    verdict = judge_clusters([everything], np.eye(10), np.arange(10) % 2, held_out=0.1, n_measured=18)
    assert not verdict.supported
    assert verdict.p_value >= 0.5
    assert len(verdict.advice) == 1


def test_what_cannot_be_tested_is_said() -> None:
    U = np.ones((6, 1))
    for labels, n_measured in ((np.zeros(6, dtype=np.int64), 15), (np.arange(6) % 2, 3)):
        verdict = judge_clusters([], U, labels, held_out=float("nan"), n_measured=n_measured)
        assert not verdict.supported
        assert np.isnan(verdict.p_value)
        assert verdict.as_dict()["p_value"] is None
        assert verdict.sentence.endswith(".")
        json.dumps(verdict.as_dict(), allow_nan=False)
    few = judge_clusters([], U[:3], np.arange(3), held_out=float("nan"), n_measured=3)
    assert "3 tasks" in few.sentence


def test_blocks_explain_all_of_a_block_matrix() -> None:
    labels = np.arange(12) % 3
    assert explained_by_blocks(np.eye(3)[labels], labels) == pytest.approx(1)
    generator = np.random.default_rng(0)
    assert explained_by_blocks(generator.normal(size=(12, 8)), labels) < 0.7
    with_none = np.where(np.arange(12) == 4, -1, labels)
    assert explained_by_blocks(np.eye(3)[labels], with_none) == pytest.approx(1)


@pytest.mark.parametrize("n", [3, 4, 5, 10, 40, 200, 5_000])
def test_numbers_to_try(n: int) -> None:
    tried = candidates(n)
    assert tried[0] == 1
    assert tried[1] == 2
    assert all(one < other for one, other in pairwise(tried))
    assert tried[-1] < n
    assert tried[-1] <= 60


def test_pair_means_and_two_groups() -> None:
    first, second, means = pair_means(
        np.array([0, 2, 1, 3]), np.array([2, 0, 3, 2]), np.array([1.0, 3.0, 5.0, 7.0]), 4
    )
    assert list(zip(first, second, means, strict=True)) == [(0, 2, 2.0), (1, 3, 5.0), (2, 3, 7.0)]
    groups = fit_two_groups(np.array([1.0, 3.0, -1.0, -3.0]), np.array([True, True, False, False]))
    assert (groups.within_mean, groups.between_mean, groups.share_within) == (2.0, -2.0, 0.5)
    assert groups.deviation == 1.0
    posterior = groups.posterior(np.array([-3.0, 0.0, 3.0]))
    assert posterior[0] < 0.01
    assert posterior[1] == pytest.approx(0.5)
    assert posterior[2] > 0.99

"""Scores to comparable values, target by target."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.clustering import make_planted_scores
from robusttc.clustering.completion import complete_scores, standardise_whole
from robusttc.clustering.standardise import CLIP, Standardised, choose_method, standardise
from robusttc.transfer import TransferScores

Matrix = NDArray[np.float64]


def scores_of(matrix: Matrix) -> TransferScores:
    return TransferScores.from_matrix(matrix, [f"task {number:02d}" for number in range(len(matrix))])


def random_matrix(n: int, seed: int, *, skewed: bool = False, density: float = 0.8) -> Matrix:
    generator = np.random.default_rng(seed)
    matrix = generator.normal(0.6, 0.1, (n, n))
    if skewed:
        matrix = np.exp(2.5 * generator.normal(size=(n, n)))
    matrix[generator.random((n, n)) > density] = np.nan
    return matrix


def as_matrix(found: Standardised) -> Matrix:
    out = np.full((found.n, found.n), np.nan)
    out[found.rows, found.columns] = found.values
    return out


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["auto", "standard", "rank"])
@pytest.mark.parametrize("skewed", [False, True])
def test_unit_and_level_of_a_column_change_nothing(seed: int, method: str, skewed: bool) -> None:
    matrix = random_matrix(14, seed, skewed=skewed)
    changed = matrix.copy()
    changed[:, 2] += 5.0
    changed[:, 3] *= 40.0
    changed[:, 4] = 1e-3 * changed[:, 4] - 7.0
    before, after = (standardise(scores_of(one), method=method) for one in (matrix, changed))
    assert before.method == after.method
    np.testing.assert_allclose(as_matrix(before), as_matrix(after), atol=1e-8)
    np.testing.assert_array_equal(before.usable, after.usable)


@pytest.mark.parametrize("seed", range(4))
def test_columns_have_mean_zero_and_deviation_one(seed: int) -> None:
    matrix = random_matrix(40, seed)  # with so many normal scores none is wild
    found = standardise(scores_of(matrix), method="standard")
    values = as_matrix(found)
    assert np.isnan(np.diag(values)).all()
    np.fill_diagonal(matrix, np.nan)
    inner = np.abs(values) < CLIP
    expected = (matrix - np.nanmean(matrix, axis=0)) / np.nanstd(matrix, axis=0)
    np.testing.assert_allclose(values[inner], expected[inner], atol=1e-10)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(matrix))
    assert np.abs(found.values).max() <= CLIP


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wild", [1e3, -1e6, 40.0])
@pytest.mark.parametrize("method", ["standard", "rank"])
def test_a_wild_score_hardly_changes_the_others(seed: int, wild: float, method: str) -> None:
    matrix = random_matrix(20, seed, density=1.0)
    changed = matrix.copy()
    changed[1, 6] = wild
    before, after = (as_matrix(standardise(scores_of(one), method=method)) for one in (matrix, changed))
    others = np.ones(matrix.shape, dtype=np.bool_)
    np.fill_diagonal(others, False)
    others[1, 6] = False
    assert np.abs(before - after)[others].max() < 0.6
    assert np.abs(np.delete(before - after, 6, axis=1)[~np.isnan(np.delete(before, 6, axis=1))]).max() == 0
    assert abs(after[1, 6]) <= CLIP
    assert np.sign(after[1, 6]) == np.sign(wild)


def test_columns_that_cannot_be_standardised() -> None:
    matrix = random_matrix(10, 0, density=1.0)
    matrix[:, 1] = 0.7
    matrix[:, 2] = np.nan
    matrix[[0, 4], 2] = 0.2, 0.9
    matrix[:, 3] = np.nan
    matrix[[0, 4, 5], 4] = 0.2, 0.9, 0.4  # (4, 4) is on the diagonal and does not count
    matrix[[1, 2, 3, 6, 7, 8, 9], 4] = np.nan
    matrix[:, 5] = np.nan
    matrix[[0, 1, 2], 5] = 0.2, 0.9, 0.4
    for method in ("standard", "rank", "auto"):
        found = standardise(scores_of(matrix), method=method)
        assert np.flatnonzero(~found.usable).tolist() == [1, 2, 3, 4]
        assert not np.isin(found.columns, [1, 2, 3, 4]).any()
        assert (found.columns == 5).sum() == 3
        assert np.isnan(found.apply(np.array([1, 2]), np.array([0.7, 0.2]))).all()
        assert np.isnan(found.to_scores(np.array([1, 2]), np.array([0.0, 1.0]))).all()


@pytest.mark.parametrize("seed", range(6))
def test_skewed_scores_go_by_rank(seed: int) -> None:
    skewed, plain = (random_matrix(20, seed, skewed=one, density=1.0) for one in (True, False))
    assert choose_method(scores_of(skewed)) == "rank"
    assert choose_method(scores_of(plain)) == "standard"
    found = standardise(scores_of(skewed))
    assert found.method == "rank"
    # Ranks are all that counts: any increasing change of a column leaves the values as they are.
    logarithm = standardise(scores_of(np.log(skewed)), method="rank")
    np.testing.assert_allclose(found.values, logarithm.values, atol=1e-12)
    for column in range(20):
        own = found.columns == column
        scores = skewed[found.rows[own], column]
        assert (np.argsort(found.values[own]) == np.argsort(scores)).all()
        assert abs(found.values[own].mean()) < 1e-9
        assert found.values[own].std() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["standard", "rank"])
def test_to_scores_inverts_apply(seed: int, method: str) -> None:
    matrix = random_matrix(16, seed, skewed=method == "rank")
    found = standardise(scores_of(matrix), method=method)
    scores = matrix[found.rows, found.columns]
    values = found.apply(found.columns, scores)
    np.testing.assert_allclose(values, found.values, atol=1e-10)
    inside = np.abs(values) < CLIP
    back = found.to_scores(found.columns, values)
    np.testing.assert_allclose(back[inside], scores[inside], rtol=1e-9)
    # Between the measured scores, too.
    between = 0.5 * (scores + found.center[found.columns])
    again = found.to_scores(found.columns, found.apply(found.columns, between))
    np.testing.assert_allclose(again, between, rtol=1e-9)


def test_equal_scores_have_equal_ranks() -> None:
    matrix = random_matrix(9, 0, density=1.0)
    matrix[:, 0] = [9.0, 0.1, 0.1, 0.5, 0.5, 0.5, 0.7, 0.8, 0.9]
    found = standardise(scores_of(matrix), method="rank")
    values = as_matrix(found)[:, 0]
    assert values[1] == values[2] < values[3] == values[4] == values[5] < values[6]
    np.testing.assert_allclose(
        found.to_scores(np.zeros(8, dtype=np.int64), values[1:]), matrix[1:, 0], rtol=1e-12
    )


def test_only_some_places() -> None:
    scores = scores_of(random_matrix(12, 1))
    places = np.flatnonzero(np.random.default_rng(0).random(len(scores)) < 0.6)
    found = standardise(scores, method="standard", places=places)
    assert set(found.places.tolist()) <= set(places.tolist())
    np.testing.assert_array_equal(scores.source[found.places], found.rows)
    np.testing.assert_array_equal(scores.target[found.places], found.columns)
    part = TransferScores(
        scores.task_names,
        source=scores.source[places],
        target=scores.target[places],
        score=scores.score[places],
    )
    np.testing.assert_array_equal(standardise(part, method="standard").values, found.values)


def test_uncertain_scores_weigh_less() -> None:
    matrix = random_matrix(12, 2, density=1.0)
    errors = np.full(matrix.shape, 0.02)
    errors[3] = 0.5
    names = [f"task {number:02d}" for number in range(12)]
    found = standardise(TransferScores.from_matrix(matrix, names, standard_error=errors))
    assert found.weights.mean() == pytest.approx(1)
    assert found.weights[found.rows == 3].max() < 0.2 * found.weights[found.rows != 3].min()
    assert (standardise(scores_of(matrix)).weights == 1).all()


def names_of(n: int) -> list[str]:
    return [f"task {number:02d}" for number in range(n)]


@pytest.mark.parametrize("seed", range(4))
def test_with_all_sources_measured_there_is_little_to_adjust(seed: int) -> None:
    scores = make_planted_scores(names_of(30), np.arange(30) % 3, random_state=seed)
    plain, whole = standardise(scores, method="standard"), standardise_whole(scores, "standard")
    np.testing.assert_array_equal(plain.places, whole.places)
    np.testing.assert_allclose(whole.center, plain.center, atol=1e-3 * plain.spread.min())
    ratio = whole.spread / plain.spread
    assert 0.92 < ratio.min() <= ratio.max() < 1.08


def test_a_target_measured_with_good_sources_is_not_taken_for_an_easy_one() -> None:
    n, before, after, spreads = 40, [], [], []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        worth = generator.normal(size=n)
        matrix = worth[:, None] + generator.normal(size=n) + 0.3 * generator.normal(size=(n, n))
        np.fill_diagonal(matrix, np.nan)
        known = generator.random((n, n)) < 0.5
        best = np.argsort(-worth)
        known[:, 0] = np.isin(np.arange(n), best[best != 0][:12])
        scores = scores_of(np.where(known, matrix, np.nan))
        plain, whole = standardise(scores, method="standard"), standardise_whole(scores, "standard")
        truth, deviation = np.nanmean(matrix[:, 0]), np.nanstd(matrix[:, 0])
        before.append(plain.center[0] - truth)
        after.append(whole.center[0] - truth)
        spreads.append((plain.spread[0] / deviation, whole.spread[0] / deviation))
        # The others, measured with sources of all sorts, are right as they are.
        others = np.abs(whole.center - plain.center)[1:] / plain.spread[1:]
        assert others.max() < 0.5
    assert np.mean(before) > 0.9
    assert all(0 < new < old for old, new in zip(before, after, strict=True))
    assert np.mean(after) < 0.6 * np.mean(before)
    # The best twelve differ less than all sources do: so does the scale.
    assert np.mean(spreads, axis=0)[0] < np.mean(spreads, axis=0)[1] < 1


@pytest.mark.parametrize("seed", range(2))
def test_adjusted_values_are_those_of_the_scores_in_the_new_unit(seed: int) -> None:
    scores = make_planted_scores(names_of(20), np.arange(20) % 2, density=0.5, random_state=seed)
    found = standardise_whole(scores, "standard")
    score = scores.score[found.places]
    plain = (score - found.center[found.columns]) / found.spread[found.columns]
    np.testing.assert_allclose(found.values, np.clip(plain, -CLIP, CLIP), atol=1e-12)
    np.testing.assert_allclose(found.apply(found.columns, score), found.values, atol=1e-12)
    assert standardise_whole(scores, "rank").method == "rank"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.4, 1.0])
def test_a_completion_does_not_depend_on_units_and_levels(seed: int, density: float) -> None:
    n = 20
    scores = make_planted_scores(names_of(n), np.arange(n) % 2, density=density, random_state=seed)
    generator = np.random.default_rng(seed)
    level, unit = generator.normal(0, 10, n), np.exp(generator.normal(0, 3, n))
    changed = TransferScores(
        scores.task_names,
        source=scores.source,
        target=scores.target,
        score=level[scores.target] + unit[scores.target] * scores.score,
    )
    before, after = (complete_scores(one, method="standard") for one in (scores, changed))
    assert before.setting == after.setting
    np.testing.assert_allclose(after.data.values, before.data.values, atol=1e-6)
    np.testing.assert_allclose(after.data.spread, unit * before.data.spread, rtol=1e-6)
    rows, columns = np.divmod(np.arange(n * n), n)
    np.testing.assert_allclose(
        after.factors.predict(rows, columns), before.factors.predict(rows, columns), atol=1e-4
    )

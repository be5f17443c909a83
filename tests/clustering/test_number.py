"""The number of clusters."""

from __future__ import annotations

import numpy as np
import pytest
from planted_scores import planted_scores

from robusttc.clustering.old.number import PairValues, measure_pairs, score_length
from robusttc.clustering.old.start import Labels
from robusttc.scores import TransferScores


def all_pairs(values: dict[tuple[int, int], float]) -> PairValues:
    first, second = np.array(list(values), dtype=np.int64).T
    return PairValues(first, second, np.array(list(values.values())))


def as_labels(*labels: int) -> Labels:
    return np.array(labels, dtype=np.intp)


def test_pairs_are_standardised_without_the_effect_of_donors_and_averaged() -> None:
    scores = planted_scores(12, 2, 0.6, 0.1, seed=0).scores
    S = scores.to_matrix()
    Z = (S - np.nanmean(S, axis=0)) / np.nanstd(S, axis=0)
    Z -= np.nanmean(Z, axis=1, keepdims=True)
    pairs = measure_pairs(scores)
    np.testing.assert_allclose(pairs.value, ((Z + Z.T) / 2)[pairs.first, pairs.second], atol=1e-12)
    assert len(pairs.value) == np.count_nonzero(~np.isnan(S)) / 2


def test_one_direction_counts_and_a_column_without_spread_does_not() -> None:
    S = np.array([[np.nan, 1.0, 5.0], [3.0, np.nan, 5.0], [1.0, 2.0, np.nan]])
    pairs = measure_pairs(TransferScores.from_matrix(S, ["a", "b", "c"]))
    assert list(zip(pairs.first, pairs.second, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    # Column c says nothing. Rows a and b have one entry left each, which is their mean; in row c the entries
    # are -1 and 1.
    np.testing.assert_allclose(pairs.value, [0, -1, 1])
    nothing = measure_pairs(TransferScores.from_matrix(np.ones((3, 3)), ["a", "b", "c"]))
    assert len(nothing.value) == 0


def test_restricted_pairs_are_numbered_anew() -> None:
    pairs = all_pairs({(0, 1): 1.0, (1, 3): 2.0, (2, 3): 3.0})
    part = pairs.restrict(np.array([3, 1]), 4)
    assert (part.first.tolist(), part.second.tolist(), part.value.tolist()) == ([1], [0], [2.0])


def test_the_length_is_that_of_two_normal_levels() -> None:
    generator = np.random.default_rng(0)
    labels = as_labels(*[0] * 5, *[1] * 5)
    values = {
        (i, j): float(labels[i] == labels[j]) + generator.normal(0, 0.3) for i in range(10) for j in range(i)
    }
    pairs = all_pairs(values)
    same = labels[pairs.first] == labels[pairs.second]
    left = sum(((pairs.value[part] - pairs.value[part].mean()) ** 2).sum() for part in (same, ~same))
    total = ((pairs.value - pairs.value.mean()) ** 2).sum()
    expected = 45 / 2 * np.log(left / total) + 10 * np.log(2) + np.log(45) / 2
    assert score_length(pairs, labels) == pytest.approx(expected)
    assert score_length(pairs, np.zeros(10, dtype=np.intp)) == pytest.approx(0)
    # Only differences count, and no unit.
    scaled = PairValues(pairs.first, pairs.second, 100 * pairs.value - 7)
    assert score_length(scaled, labels) == pytest.approx(expected)
    upside_down = PairValues(pairs.first, pairs.second, -pairs.value)
    assert score_length(upside_down, labels) == np.inf


def test_lengths_are_numbers_without_pairs_and_without_noise() -> None:
    labels = as_labels(0, 0, 1, 1)
    nothing = PairValues(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    assert score_length(nothing, labels) == pytest.approx(4 * np.log(2))
    exact = all_pairs({(i, j): float(labels[i] == labels[j]) for i in range(4) for j in range(i)})
    assert -np.inf < score_length(exact, labels) < score_length(exact, np.zeros(4, dtype=np.intp))
    equal = all_pairs({(i, j): 0.0 for i in range(4) for j in range(i)})
    assert score_length(equal, np.zeros(4, dtype=np.intp)) == 0
    # No pair within clusters, so nothing is told by them.
    assert score_length(exact, np.arange(4)) == pytest.approx(4 * np.log(4))

"""Eq. 1: the laws it keeps, a plain reference, and what it does where the paper is silent."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from robusttc.clustering.filtering import (
    OUTCOMES,
    TEXT_OF_REASON,
    FilteredScores,
    Reason,
    Verdict,
    filter_scores,
)
from robusttc.errors import UsageError
from robusttc.scores import TransferScores

NAN = float("nan")
Matrix = NDArray[np.float64]
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


def from_matrix(matrix: Any) -> TransferScores:
    return TransferScores.from_matrix(matrix, [f"t{number}" for number in range(len(matrix))])


def dense(filtered: FilteredScores) -> Matrix:
    """Y with NaN where it is not observed."""
    return np.where(filtered.observed.toarray(), filtered.Y.toarray(), np.nan)


def planted(seed: int, n: int = 24, density: float = 0.6) -> Matrix:
    random = np.random.default_rng(seed)
    kind = np.arange(n) % 3
    S: Matrix = (
        0.5
        + 0.2 * (kind[:, None] == kind)
        + 0.1 * random.normal(size=(n, n))
        + 0.1 * random.normal(size=(1, n))
    )
    S[random.random((n, n)) > density] = np.nan
    return S


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Small sparse matrices of whole numbers: many ties, constant columns, empty columns."""
    n = draw(st.integers(1, 9))
    largest = draw(st.sampled_from([1, 3, 100]))
    cell = st.one_of(st.none(), st.integers(0, largest))
    cells = draw(st.lists(cell, min_size=n * n, max_size=n * n))
    return np.array([np.nan if value is None else value for value in cells], dtype=float).reshape(n, n)


# The reference: written from the paper's formula, one pair after the other, in fractions


def column_of(S: Matrix, j: int) -> list[Fraction]:
    return [Fraction(S[i, j]) for i in range(len(S)) if i != j and not np.isnan(S[i, j])]


def stands(S: Matrix, i: int, j: int, rule: str, p: Fraction, q: Fraction, least: int) -> str:
    """How S_ij stands to the thresholds of column j, without a square root and so without rounding."""
    if np.isnan(S[i, j]):
        return "unmeasured"
    column = column_of(S, j)
    if len(column) < least or len(set(column)) == 1:
        return "unusable"
    mu = sum(column, Fraction()) / len(column)
    variance = sum(((value - mu) ** 2 for value in column), Fraction()) / len(column)
    distance = Fraction(S[i, j]) - mu
    if rule == "any":
        return "high" if distance >= 0 else "low"
    if distance > 0 and distance**2 > p**2 * variance:
        return "high"
    if distance < 0 and distance**2 > q**2 * variance:
        return "low"
    return "middling"


def reference(S: Matrix, rule: str, p: Fraction, q: Fraction, least: int) -> Matrix:
    n = len(S)
    Y = np.full((n, n), np.nan)
    for i in range(n):
        Y[i, i] = 1
        for j in range(n):
            if i == j:
                continue
            two = {stands(S, i, j, rule, p, q, least), stands(S, j, i, rule, p, q, least)}
            if rule == "both":
                if two == {"high"}:
                    Y[i, j] = 1
                elif two == {"low"}:
                    Y[i, j] = 0
            elif "high" in two:
                Y[i, j] = 1
            elif "low" in two:
                Y[i, j] = 0
    return Y


SHARES = st.sampled_from([Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2)])


@settings(max_examples=400)
@given(matrices(), st.sampled_from(["both", "any"]), SHARES, SHARES, st.integers(2, 4))
def test_agrees_with_the_reference(S: Matrix, rule: str, p: Fraction, q: Fraction, least: int) -> None:
    found = filter_scores(from_matrix(S), rule=rule, p_high=float(p), p_low=float(q), min_entries=least)
    np.testing.assert_array_equal(dense(found), reference(S, rule, p, q, least))


def numpy_reference(S: Matrix, rule: str, remove_donor_effect: bool) -> Matrix:
    """Eq. 1 with whole matrices; for scores without ties, with at least 3 in each column."""
    n = len(S)
    S = np.where(np.eye(n, dtype=bool), np.nan, S)
    if remove_donor_effect:
        S = (S - np.nanmean(S, axis=0)) / np.nanstd(S, axis=0)
        S = S - np.nanmean(S, axis=1, keepdims=True)
    mu, sigma = np.nanmean(S, axis=0), np.nanstd(S, axis=0)
    measured = ~np.isnan(S)
    Y = np.full((n, n), np.nan)
    if rule == "both":
        high, low = mu + 0.5 * sigma < S, mu - 0.5 * sigma > S
        Y[high & high.T] = 1
        Y[low & low.T] = 0
    else:
        Y[measured | measured.T] = 0
        high = mu <= S
        Y[high | high.T] = 1
    np.fill_diagonal(Y, 1)
    return Y


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rule", ["both", "any"])
@pytest.mark.parametrize("remove_donor_effect", [False, True])
def test_agrees_with_numpy(seed: int, rule: str, remove_donor_effect: bool) -> None:
    S = planted(seed)
    found = filter_scores(from_matrix(S), rule=rule, remove_donor_effect=remove_donor_effect)
    assert found.column_usable.all()
    np.testing.assert_array_equal(dense(found), numpy_reference(S, rule, remove_donor_effect))
    assert (found.rule, found.remove_donor_effect) == (rule, remove_donor_effect)


# Laws

RULES = st.sampled_from(["both", "any"])


@given(matrices(), RULES, st.booleans())
def test_shape_of_the_result(S: Matrix, rule: str, remove_donor_effect: bool) -> None:
    found = filter_scores(from_matrix(S), rule=rule, remove_donor_effect=remove_donor_effect)
    Y = found.Y
    np.testing.assert_array_equal(Y.toarray(), Y.toarray().T)
    np.testing.assert_array_equal(found.observed.toarray(), found.observed.toarray().T)
    np.testing.assert_array_equal(Y.indices, found.observed.indices)
    np.testing.assert_array_equal(Y.indptr, found.observed.indptr)
    assert found.observed.data.all()
    assert set(Y.data.tolist()) <= {0.0, 1.0}
    assert (Y.diagonal() == 1).all()
    assert found.observed.diagonal().all()
    assert Y.has_canonical_format
    assert Y.indices.dtype == np.int32
    # The verdicts are what the matrix says, and the other way round.
    observed_pairs = (Y.nnz - len(S)) // 2
    assert found.count(Verdict.SAME) + found.count(Verdict.DIFFERENT) == observed_pairs
    assert found.count(Verdict.UNCERTAIN) == len(found.first) - observed_pairs
    for first, second, verdict in zip(found.first, found.second, found.verdict, strict=True):
        assert first < second
        expected = np.nan if verdict == Verdict.UNCERTAIN else verdict
        np.testing.assert_array_equal(dense(found)[first, second], expected)
    for pair in range(len(found.first)):
        assert Reason(found.reason[pair]).text in found.explain(pair)
    np.testing.assert_array_equal(np.isnan(found.column_mean), np.isnan(found.column_deviation))


@given(matrices(), RULES, st.booleans(), st.randoms(use_true_random=False))
def test_permuting_tasks_permutes_the_result(S: Matrix, rule: str, donor: bool, random: Any) -> None:
    order = list(range(len(S)))
    random.shuffle(order)
    scores = from_matrix(S)
    found = filter_scores(scores, rule=rule, remove_donor_effect=donor)
    permuted = filter_scores(
        scores.subset([f"t{number}" for number in order]), rule=rule, remove_donor_effect=donor
    )
    np.testing.assert_array_equal(dense(permuted), dense(found)[np.ix_(order, order)])
    np.testing.assert_array_equal(permuted.column_usable, found.column_usable[order])


@given(matrices(), RULES, st.booleans(), st.data())
def test_shifting_and_scaling_columns_changes_nothing(
    S: Matrix, rule: str, donor: bool, data: st.DataObject
) -> None:
    n = len(S)
    shift = data.draw(st.lists(st.floats(-1e3, 1e3), min_size=n, max_size=n))
    scale = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n))
    found = filter_scores(from_matrix(S), rule=rule, remove_donor_effect=donor)
    for changed in (S + shift, S * scale):
        again = filter_scores(from_matrix(changed), rule=rule, remove_donor_effect=donor)
        np.testing.assert_array_equal(dense(again), dense(found))


@given(matrices(), RULES, st.booleans())
def test_the_diagonal_takes_no_part(S: Matrix, rule: str, donor: bool) -> None:
    other = S.copy()
    np.fill_diagonal(other, 1e6)
    found = [filter_scores(from_matrix(one), rule=rule, remove_donor_effect=donor) for one in (S, other)]
    np.testing.assert_array_equal(dense(found[0]), dense(found[1]))
    np.testing.assert_array_equal(found[0].column_count, found[1].column_count)


@pytest.mark.parametrize("unit", [1e-140, 1.0, 1e140])
def test_scores_of_any_size(unit: float) -> None:
    S = planted(0)
    expected = filter_scores(from_matrix(S))
    found = filter_scores(from_matrix(S * unit))
    np.testing.assert_array_equal(dense(found), dense(expected))
    np.testing.assert_allclose(found.column_deviation, expected.column_deviation * unit)


# Statistics and donors


def test_column_statistics_are_those_of_numpy() -> None:
    S = planted(1)
    found = filter_scores(from_matrix(S))
    np.fill_diagonal(S, np.nan)
    np.testing.assert_allclose(found.column_mean, np.nanmean(S, axis=0))
    np.testing.assert_allclose(found.column_deviation, np.nanstd(S, axis=0))
    np.testing.assert_array_equal(found.column_count, (~np.isnan(S)).sum(axis=0))


@pytest.mark.parametrize("seed", range(4))
def test_removing_the_donor_effect_helps_where_there_is_one(seed: int) -> None:
    n = 30
    random = np.random.default_rng(seed)
    kind = np.arange(n) % 3
    same = kind[:, None] == kind
    S = same + 0.3 * random.normal(size=(n, n)) + 2.0 * random.normal(size=(n, 1))

    def share_right(remove_donor_effect: bool) -> float:
        Y = dense(filter_scores(from_matrix(S), remove_donor_effect=remove_donor_effect))
        known = ~np.isnan(Y) & ~np.eye(n, dtype=bool)
        return float((Y[known] == same[known]).mean())

    assert share_right(True) > 0.95
    assert share_right(False) < 0.85


def test_donor_effect_that_is_all_there_is_leaves_nothing() -> None:
    # Four sources serve six targets, each equally well: without the donors the columns are constant.
    source, target = np.repeat(np.arange(4), 6), np.tile(np.arange(4, 10), 4)
    names = [f"t{number}" for number in range(10)]
    scores = TransferScores(names, source=source, target=target, score=0.1 * (source + 1.0))
    assert filter_scores(scores).column_usable.sum() == 6
    found = filter_scores(scores, remove_donor_effect=True)
    assert not found.column_usable.any()
    assert found.Y.nnz == 10
    assert (
        filter_scores(scores, rule="any", remove_donor_effect=True)
        .explain(0)
        .endswith(
            "('t0' has 0 of at least 3 scores; "
            "the 4 scores of 't4' do not differ once the donor effect is removed)"
        )
    )


# Where the paper is silent


def verdict_of(filtered: FilteredScores, first: int, second: int) -> tuple[Verdict, Reason]:
    (pair,) = np.flatnonzero((filtered.first == first) & (filtered.second == second))
    return Verdict(filtered.verdict[pair]), Reason(filtered.reason[pair])


def test_every_reason_by_rule() -> None:
    # Columns of 0, 1 and 2 around: 2 is high, 0 is low, 1 is middling (and at the mean).
    # fmt: off
    S = np.array([
        [NAN, 2.0, 2.0, 2.0, 0.0, 2.0],
        [2.0, NAN, 0.0, 1.0, 5.0, 0.0],
        [0.0, 0.0, NAN, 1.0, 5.0, NAN],
        [1.0, 0.0, 1.0, NAN, 5.0, 1.0],
        [1.0, 1.0, 1.0, 0.0, NAN, NAN],
        [NAN, 2.0, NAN, 1.0, NAN, NAN],
    ])
    # fmt: on
    S[0, 4] = 5.0  # the column of 4 is constant
    both, any_ = filter_scores(from_matrix(S)), filter_scores(from_matrix(S), rule="any")
    assert not both.column_usable[4]
    uncertain, same, different = Verdict.UNCERTAIN, Verdict.SAME, Verdict.DIFFERENT
    assert verdict_of(both, 0, 1) == (same, Reason.BOTH_HIGH)
    assert verdict_of(both, 1, 2) == (different, Reason.BOTH_LOW)
    assert verdict_of(both, 0, 2) == (uncertain, Reason.HIGH_AND_LOW)
    assert verdict_of(both, 0, 3) == (uncertain, Reason.HIGH_AND_MIDDLING)
    assert verdict_of(both, 1, 3) == (uncertain, Reason.LOW_AND_MIDDLING)
    assert verdict_of(both, 2, 3) == (uncertain, Reason.BOTH_MIDDLING)
    assert verdict_of(both, 0, 5) == (uncertain, Reason.ONE_DIRECTION)
    assert verdict_of(both, 0, 4) == (uncertain, Reason.UNUSABLE_COLUMN)
    assert verdict_of(any_, 0, 1) == (same, Reason.BOTH_HIGH)
    assert verdict_of(any_, 1, 2) == (different, Reason.BOTH_LOW)
    assert verdict_of(any_, 0, 2) == (same, Reason.HIGH_AND_LOW)
    assert verdict_of(any_, 2, 3) == (same, Reason.BOTH_HIGH)
    assert verdict_of(any_, 0, 5) == (same, Reason.ONLY_HIGH)
    assert verdict_of(any_, 3, 4) == (different, Reason.ONLY_LOW)
    assert verdict_of(any_, 0, 4) == (same, Reason.ONLY_HIGH)


def test_one_direction_measured() -> None:
    names = ["a", "b", "c", "d"]
    scores = TransferScores(names, source=[0, 1, 2], target=[3, 3, 3], score=[1.0, 2.0, 6.0])
    found = filter_scores(scores)
    assert found.reason.tolist() == [Reason.ONE_DIRECTION] * 3
    assert found.explain(0) == "'a' and 'd': uncertain, only one direction measured"
    assert found.Y.nnz == 4
    found = filter_scores(scores, rule="any")
    assert found.verdict.tolist() == [Verdict.DIFFERENT, Verdict.DIFFERENT, Verdict.SAME]
    assert found.reason.tolist() == [Reason.ONLY_LOW, Reason.ONLY_LOW, Reason.ONLY_HIGH]
    few = filter_scores(scores, rule="any", min_entries=4)
    assert few.count(Verdict.UNCERTAIN) == 3
    assert few.explain(2) == (
        "'c' and 'd': uncertain, a target has too few scores, or scores without spread "
        "('c' has 0 of at least 4 scores; 'd' has 3 of at least 4 scores)"
    )


@pytest.mark.parametrize("rule", ["both", "any"])
@pytest.mark.parametrize("remove_donor_effect", [False, True])
@pytest.mark.parametrize(
    "matrix",
    [
        np.full((1, 1), np.nan),
        np.full((1, 1), 1.0),
        np.full((5, 5), np.nan),
        np.full((5, 5), 0.1),
        0.1 + 0.2 * np.ones((5, 5)) + np.triu(np.full((5, 5), 4e-17)),
        np.array([[1.0, 0.2], [0.7, 1.0]]),
    ],
    ids=["one task", "one task with itself", "no scores", "all equal", "equal up to rounding", "two tasks"],
)
def test_nothing_to_go_by_leaves_the_diagonal(matrix: Matrix, rule: str, remove_donor_effect: bool) -> None:
    found = filter_scores(from_matrix(matrix), rule=rule, remove_donor_effect=remove_donor_effect)
    np.testing.assert_array_equal(found.Y.toarray(), np.eye(len(matrix)))
    np.testing.assert_array_equal(found.observed.toarray(), np.eye(len(matrix), dtype=bool))
    assert not found.column_usable.any()
    assert found.count(Verdict.UNCERTAIN) == len(found.first)


def test_a_column_that_differs_by_rounding_alone_is_unusable() -> None:
    S = planted(2)
    S[:, 5] = [0.3 if row % 2 else 0.1 + 0.2 for row in range(len(S))]
    assert len(set(S[:, 5].tolist())) == 2
    found = filter_scores(from_matrix(S))
    assert np.flatnonzero(~found.column_usable).tolist() == [5]
    (pair, *_) = np.flatnonzero((found.first == 5) & (found.reason == Reason.UNUSABLE_COLUMN))
    assert found.explain(int(pair)).endswith("(the 23 scores of 't5' do not differ)")


def test_a_score_on_the_threshold_is_neither_high_nor_low() -> None:
    # mu = 0.5 and sigma = 0.5 in every column: with p = 1 the scores 0 and 1 are on the thresholds.
    S = np.array(
        [[NAN, 1, 1, 1, 1], [1, NAN, 0, 0, 0], [1, 0, NAN, 0, 0], [0, 0, 1, NAN, 1], [0, 1, 0, 1, NAN]]
    )
    found = filter_scores(from_matrix(0.1 + 0.7 * S), p_high=1, p_low=1)
    np.testing.assert_allclose(found.column_mean, 0.45)
    assert set(found.reason.tolist()) == {Reason.BOTH_MIDDLING}
    found = filter_scores(from_matrix(0.1 + 0.7 * S), p_high=0.999, p_low=0.999)
    assert Reason.BOTH_MIDDLING not in found.reason


def test_any_ignores_the_thresholds() -> None:
    scores = from_matrix(planted(3))
    plain = filter_scores(scores, rule="any")
    np.testing.assert_array_equal(dense(plain), dense(filter_scores(scores, rule="any", p_high=9, p_low=9)))
    assert plain.count(Verdict.UNCERTAIN) == 0  # every measured pair is observed


def test_tables_are_whole() -> None:
    assert set(TEXT_OF_REASON) == set(Reason)
    used = {reason for outcomes in OUTCOMES.values() for _, reason in outcomes.values()}
    assert used == set(Reason)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "bth"}, "unknown rule; got 'bth'; expected both, any. Did you mean 'both'"),
        ({"p_high": -0.1}, "p_high cannot be used; got -0.1"),
        ({"p_low": NAN}, "p_low cannot be used; got nan"),
        ({"p_low": float("inf")}, "p_low cannot be used; got inf"),
        ({"p_high": "0.5"}, "p_high cannot be used; got '0.5'"),
        ({"p_high": True}, "p_high cannot be used; got True"),
        ({"min_entries": 1}, "min_entries cannot be used; got 1; expected a whole number, 2 or more"),
        ({"min_entries": 2.5}, "min_entries cannot be used; got 2.5"),
        ({"min_entries": True}, "min_entries cannot be used; got True"),
    ],
)
def test_bad_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        filter_scores(from_matrix(planted(0)), **options)

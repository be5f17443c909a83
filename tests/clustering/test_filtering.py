"""Eq. 1: the laws it keeps, a plain reference, and what it does where the paper is silent."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from robusttc.clustering.paper import FilteredScores, PairVerdict, filter_scores
from robusttc.errors import UsageError
from robusttc.transfer import TransferScores

NAN = float("nan")
Matrix = NDArray[np.float64]
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


def from_matrix(matrix: Any) -> TransferScores:
    return TransferScores.from_matrix(matrix, [f"t{number}" for number in range(len(matrix))])


def dense(filtered: FilteredScores) -> Matrix:
    """Y with NaN where it is not observed."""
    found = np.full(filtered.Y.shape, np.nan)
    entries = filtered.Y.tocoo()
    found[entries.row, entries.col] = entries.data
    return found


def count(filtered: FilteredScores, verdict: PairVerdict) -> int:
    return int(np.count_nonzero(filtered.verdict == verdict))


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
@given(matrices(), st.sampled_from(["both", "any"]), SHARES, SHARES)
def test_agrees_with_the_reference(S: Matrix, rule: str, p: Fraction, q: Fraction) -> None:
    found = filter_scores(from_matrix(S), rule=rule, p_high=float(p), p_low=float(q))
    np.testing.assert_array_equal(dense(found), reference(S, rule, p, q, 3))


def numpy_reference(S: Matrix, rule: str) -> Matrix:
    """Eq. 1 with whole matrices; for scores without ties, with at least 3 in each column."""
    n = len(S)
    S = np.where(np.eye(n, dtype=bool), np.nan, S)
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
def test_agrees_with_numpy(seed: int, rule: str) -> None:
    S = planted(seed)
    found = filter_scores(from_matrix(S), rule=rule)
    np.testing.assert_array_equal(dense(found), numpy_reference(S, rule))


# Laws

RULES = st.sampled_from(["both", "any"])


@given(matrices(), RULES)
def test_shape_of_the_result(S: Matrix, rule: str) -> None:
    found = filter_scores(from_matrix(S), rule=rule)
    Y = found.Y
    np.testing.assert_array_equal(Y.toarray(), Y.toarray().T)
    assert set(Y.data.tolist()) <= {0.0, 1.0}
    assert (Y.diagonal() == 1).all()
    assert Y.has_canonical_format
    # The verdicts are what the matrix says, and the other way round.
    observed_pairs = (Y.nnz - len(S)) // 2
    assert count(found, PairVerdict.SAME) + count(found, PairVerdict.DIFFERENT) == observed_pairs
    assert count(found, PairVerdict.UNCERTAIN) == len(found.first) - observed_pairs
    for first, second, verdict in zip(found.first, found.second, found.verdict, strict=True):
        assert first < second
        expected = np.nan if verdict == PairVerdict.UNCERTAIN else verdict
        np.testing.assert_array_equal(dense(found)[first, second], expected)


@given(matrices(), RULES, st.randoms(use_true_random=False))
def test_permuting_tasks_permutes_the_result(S: Matrix, rule: str, random: Any) -> None:
    order = list(range(len(S)))
    random.shuffle(order)
    scores = from_matrix(S)
    found = filter_scores(scores, rule=rule)
    permuted = filter_scores(scores.subset([f"t{number}" for number in order]), rule=rule)
    np.testing.assert_array_equal(dense(permuted), dense(found)[np.ix_(order, order)])


@given(matrices(), RULES, st.data())
def test_shifting_and_scaling_columns_changes_nothing(S: Matrix, rule: str, data: st.DataObject) -> None:
    n = len(S)
    shift = data.draw(st.lists(st.floats(-1e3, 1e3), min_size=n, max_size=n))
    scale = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n))
    found = filter_scores(from_matrix(S), rule=rule)
    for changed in (S + shift, S * scale):
        again = filter_scores(from_matrix(changed), rule=rule)
        np.testing.assert_array_equal(dense(again), dense(found))


@given(matrices(), RULES)
def test_the_diagonal_takes_no_part(S: Matrix, rule: str) -> None:
    other = S.copy()
    np.fill_diagonal(other, 1e6)
    found = [filter_scores(from_matrix(one), rule=rule) for one in (S, other)]
    np.testing.assert_array_equal(dense(found[0]), dense(found[1]))


@pytest.mark.parametrize("unit", [1e-140, 1.0, 1e140])
def test_scores_of_any_size(unit: float) -> None:
    S = planted(0)
    expected = filter_scores(from_matrix(S))
    found = filter_scores(from_matrix(S * unit))
    np.testing.assert_array_equal(dense(found), dense(expected))


# Where the paper is silent


def test_one_direction_measured() -> None:
    names = ["a", "b", "c", "d"]
    scores = TransferScores(names, source=[0, 1, 2], target=[3, 3, 3], score=[1.0, 2.0, 6.0])
    found = filter_scores(scores)
    assert found.verdict.tolist() == [PairVerdict.UNCERTAIN] * 3
    assert found.Y.nnz == 4
    found = filter_scores(scores, rule="any")
    assert found.verdict.tolist() == [PairVerdict.DIFFERENT, PairVerdict.DIFFERENT, PairVerdict.SAME]


@pytest.mark.parametrize("rule", ["both", "any"])
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
def test_nothing_to_go_by_leaves_the_diagonal(matrix: Matrix, rule: str) -> None:
    found = filter_scores(from_matrix(matrix), rule=rule)
    np.testing.assert_array_equal(found.Y.toarray(), np.eye(len(matrix)))
    assert found.Y.nnz == len(matrix)
    assert count(found, PairVerdict.UNCERTAIN) == len(found.first)


def test_a_column_that_differs_by_rounding_alone_is_unusable() -> None:
    S = planted(2)
    S[:, 5] = [0.3 if row % 2 else 0.1 + 0.2 for row in range(len(S))]
    assert len(set(S[:, 5].tolist())) == 2
    found = filter_scores(from_matrix(S))
    own = (found.first == 5) | (found.second == 5)
    assert (found.verdict[own] == PairVerdict.UNCERTAIN).all()
    assert not (found.verdict[~own] == PairVerdict.UNCERTAIN).all()


def test_a_score_on_the_threshold_is_neither_high_nor_low() -> None:
    # mu = 0.5 and sigma = 0.5 in every column: with p = 1 the scores 0 and 1 are on the thresholds.
    S = np.array(
        [[NAN, 1, 1, 1, 1], [1, NAN, 0, 0, 0], [1, 0, NAN, 0, 0], [0, 0, 1, NAN, 1], [0, 1, 0, 1, NAN]]
    )
    found = filter_scores(from_matrix(0.1 + 0.7 * S), p_high=1, p_low=1)
    assert set(found.verdict.tolist()) == {PairVerdict.UNCERTAIN}
    found = filter_scores(from_matrix(0.1 + 0.7 * S), p_high=0.999, p_low=0.999)
    assert {PairVerdict.SAME, PairVerdict.DIFFERENT} <= set(found.verdict.tolist())


def test_any_ignores_the_thresholds() -> None:
    scores = from_matrix(planted(3))
    plain = filter_scores(scores, rule="any")
    np.testing.assert_array_equal(dense(plain), dense(filter_scores(scores, rule="any", p_high=9, p_low=9)))
    assert count(plain, PairVerdict.UNCERTAIN) == 0  # every measured pair is observed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "bth"}, "rule cannot be used; got 'bth'; expected 'both' or 'any'. Did you mean 'both'"),
        ({"p_high": -0.1}, "p_high cannot be used; got -0.1"),
        ({"p_low": NAN}, "p_low cannot be used; got nan"),
        ({"p_low": float("inf")}, "p_low cannot be used; got inf"),
        ({"p_high": "0.5"}, "p_high cannot be used; got '0.5'"),
        ({"p_high": True}, "p_high cannot be used; got True"),
    ],
)
def test_bad_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        filter_scores(from_matrix(planted(0)), **options)

"""Transfer scores: what they refuse, what they keep, and the way to CSV and back."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.errors import DataError, ScoresError, UnknownTaskError, UsageError
from robusttc.transfer import KINDS, ScoreReliability, TransferScores, read_scores
from robusttc.transfer.score_columns import correlate, correlate_both_orders

NAN = float("nan")
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
GOOD: dict[str, Any] = {"source": [0, 1, 2], "target": [1, 0, 2], "score": [0.5, 0.75, 1.0]}
NAMES = ["acme", "globex", "initech"]
HALVES: dict[str, Any] = {"first_half": [0.25, 0.5, 1.5], "second_half": [0.75, 1.0, -0.5]}


def make(**changes: Any) -> TransferScores:
    return TransferScores(changes.pop("task_names", NAMES), **{**GOOD, **changes})


@st.composite
def any_scores(draw: st.DrawFn) -> TransferScores:
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
    names = draw(st.lists(text, min_size=1, max_size=6, unique=True))
    number = st.integers(0, len(names) - 1)
    pairs = draw(st.lists(st.tuples(number, number), max_size=20, unique=True))
    kind = draw(st.sampled_from(KINDS))
    has_halves = draw(st.booleans())
    bounds = (0, 1) if kind == "accuracy" else (-1e150, 1e150)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=len(pairs), max_size=len(pairs)))

    return TransferScores(
        names,
        source=[source for source, _ in pairs],
        target=[target for _, target in pairs],
        score=column(st.floats(*bounds)),
        n_examples=column(st.integers(0, 2**53)) if draw(st.booleans()) else None,
        standard_error=column(st.floats(0, 1e150)) if draw(st.booleans()) else None,
        first_half=column(st.floats(-1e150, 1e150)) if has_halves else None,
        second_half=column(st.floats(-1e150, 1e150)) if has_halves else None,
        kind=kind,
    )


# Construction


def test_entries_are_kept_in_the_order_of_source_and_target() -> None:
    scores = make(source=[2, 0, 1], target=[2, 1, 0], score=[1.0, 0.5, 0.75], n_examples=[3, 1, 2])
    assert scores == make(n_examples=[1, 2, 3])
    assert hash(scores) == hash(make(n_examples=[1, 2, 3]))
    assert scores.source.tolist() == [0, 1, 2]
    assert scores.n_examples is not None
    assert scores.n_examples.tolist() == [1, 2, 3]
    assert (len(scores), scores.n_tasks, scores.off_diagonal.tolist()) == (3, 3, [True, True, False])


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"score": [0.5, NAN, 1.0]}, ["score 1", "'globex' → 'acme'", "nan"]),
        ({"score": [0.5, 0.75, float("inf")]}, ["'initech' → 'initech'", "inf"]),
        ({"score": [NAN, NAN, NAN]}, ["'acme' → 'globex'", "2 more"]),
        ({"score": [0.5, 1.25, 1.0], "kind": "accuracy"}, ["'globex' → 'acme'", "1.25", "0 to 1"]),
        ({"score": [-0.5, 0.25, 1.0], "kind": "accuracy"}, ["'acme' → 'globex'", "-0.5"]),
        ({"score": ["a", "b", "c"]}, ["score", "list of numbers"]),
        ({"score": [[1.0], [2.0, 3.0]]}, ["score", "list of numbers"]),
        ({"score": 0.5}, ["score", "list of numbers"]),
        ({"score": [0.5, 0.75]}, ["differ in length", "3 source", "2 score"]),
        ({"source": [0, 3, 2]}, ["task number 3 → 'acme'", "0 to 2"]),
        ({"target": [1, -1, 2]}, ["'globex' → task number -1", "0 to 2"]),
        ({"source": [0.0, 1.0, 2.0]}, ["source", "whole numbers", "float64"]),
        ({"source": np.array([2**63, 0, 0], dtype=np.uint64)}, ["source", "0 to 2"]),
        ({"source": [True, False, True]}, ["source", "whole numbers"]),
        ({"n_examples": [5, -1, 5]}, ["'globex' → 'acme'", "-1"]),
        ({"n_examples": [5, 5]}, ["differ in length"]),
        ({"standard_error": [0.1, 0.1, -0.5]}, ["'initech' → 'initech'", "-0.5"]),
        ({"standard_error": [0.1, NAN, 0.5]}, ["'globex' → 'acme'", "nan"]),
        ({"standard_error": [0.1, float("inf"), 0.5]}, ["'globex' → 'acme'", "inf"]),
        ({**HALVES, "first_half": None}, ["only one of the two halves", "second_half", "Give both"]),
        ({"first_half": [1, 2, 3]}, ["only one of the two halves", "first_half", "Give both"]),
        ({**HALVES, "second_half": [1, 2]}, ["differ in length", "3 first_half", "2 second_half"]),
        ({**HALVES, "first_half": [1, NAN, 3]}, ["first_half", "'globex' → 'acme'", "nan"]),
        ({**HALVES, "second_half": [1, 2, float("-inf")]}, ["second_half", "'initech' → 'initech'", "-inf"]),
        ({**HALVES, "second_half": ["a", "b", "c"]}, ["second_half", "list of numbers"]),
        ({"task_names": ["acme", "globex", "acme"]}, ["same name", "'acme'"]),
        ({"task_names": ["acme", " ", "globex"]}, ["task 1", "' '"]),
        ({"task_names": ["acme", 3, "globex"]}, ["task 1", "3"]),
        ({"task_names": ["acme", "\ud800", "globex"]}, ["task 1"]),
        ({"task_names": []}, ["no tasks"]),
        ({"task_names": "acme"}, ["one string", "'acme'"]),
        ({"source": [0, 0, 2], "target": [1, 1, 2]}, ["'acme' → 'globex'", "0.5 and score 0.75", "average"]),
    ],
)
def test_bad_input_names_task_and_value(changes: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        make(**changes)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "accuracyy"}, "kind cannot be used; got 'accuracyy'.*Did you mean 'accuracy'"),
        ({"kind": 3}, "kind cannot be used; got 3"),
        ({"duplicates": "mean"}, "duplicates cannot be used; got 'mean'; expected 'error' or 'average'"),
    ],
)
def test_unknown_choices(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make(**changes)


def test_scores_of_other_kinds_are_free() -> None:
    assert KINDS == ("accuracy", "log_likelihood", "brier", "overlap", "other")
    for kind in KINDS[1:]:
        assert make(score=[-3.5, 7.0, 1.0], kind=kind).score.tolist() == [-3.5, 7.0, 1.0]


def test_halves_are_sorted_with_their_scores() -> None:
    scores = make(**HALVES)
    again = TransferScores(
        NAMES,
        source=[2, 1, 0],
        target=[2, 0, 1],
        score=[1.0, 0.75, 0.5],
        first_half=[1.5, 0.5, 0.25],
        second_half=np.array([-0.5, 1.0, 0.75], dtype=np.float32),
    )
    assert again == scores
    assert scores.first_half is not None
    assert scores.second_half is not None
    assert {str(column.dtype) for column in scores.columns.values()} == {"int64", "float64"}
    assert (scores.first_half.tolist(), scores.second_half.tolist()) == (
        HALVES["first_half"],
        HALVES["second_half"],
    )
    assert (make().first_half, make().second_half) == (None, None)
    assert list(scores.columns) == ["source", "target", "score", "first_half", "second_half"]


def test_no_scores_and_one_task_are_fine() -> None:
    empty = TransferScores(["acme"], source=[], target=[], score=[], n_examples=[], standard_error=[])
    assert (len(empty), empty.n_tasks, len(empty.pairs())) == (0, 1, 0)
    assert empty.reliability() == ScoreReliability(None, None, None, 0, 0)
    assert [end.tolist() for end in empty.intervals()] == [[], []]
    assert np.isnan(empty.to_matrix()).all()


def test_duplicates_are_averaged_by_examples() -> None:
    twice: dict[str, Any] = {
        "source": [0, 0, 1, 1],
        "target": [1, 1, 0, 2],
        "score": [0.5, 0.8, 0.25, 0.75],
        "duplicates": "average",
    }
    plain = make(**twice)
    assert plain.score.tolist() == [0.65, 0.25, 0.75]
    weighted = make(**twice, n_examples=[10, 20, 30, 40], standard_error=[0.3, 0.6, 0.1, 0.2])
    assert weighted.score == pytest.approx([0.7, 0.25, 0.75])
    assert weighted.n_examples is not None
    assert weighted.n_examples.tolist() == [30, 30, 40]
    assert weighted.standard_error == pytest.approx([np.hypot(0.1, 0.4), 0.1, 0.2])
    unknown = make(**twice, n_examples=[10, 0, 30, 40])
    assert unknown.score.tolist() == [0.65, 0.25, 0.75]
    assert unknown.n_examples is not None
    assert unknown.n_examples.tolist() == [0, 30, 40]
    assert make(duplicates="average") == make()


def test_halves_of_duplicates_have_the_weights_of_their_scores() -> None:
    twice: dict[str, Any] = {
        "source": [0, 0, 1],
        "target": [1, 1, 0],
        "score": [0.5, 0.8, 0.25],
        "first_half": [0.3, 0.9, 0.1],
        "second_half": [-0.7, -0.7, 0.4],
        "duplicates": "average",
    }
    plain, weighted = make(**twice), make(**twice, n_examples=[10, 20, 30])
    assert plain.first_half == pytest.approx([0.6, 0.1])
    assert weighted.first_half == pytest.approx([0.7, 0.1])
    for scores in (plain, weighted):
        assert scores.second_half is not None
        assert scores.second_half.tolist() == [-0.7, 0.4]  # the mean of equal halves is exact
    assert make(**HALVES, duplicates="average") == make(**HALVES)
    with pytest.raises(DataError, match=r"first_half 0.3, second_half -0.7 and score 0.8, first_half 0.9"):
        make(**{**twice, "duplicates": "error"})


@given(st.floats(0, 1), st.lists(st.integers(0, 10**6), min_size=2, max_size=6))
def test_the_average_of_equal_accuracies_is_that_accuracy(score: float, n_examples: list[int]) -> None:
    zeros = [0] * len(n_examples)
    scores = TransferScores(
        ["a"],
        source=zeros,
        target=zeros,
        score=[score] * len(n_examples),
        n_examples=n_examples,
        kind="accuracy",
        duplicates="average",
    )
    assert scores.score.tolist() == [score]


def test_immutable_also_behind_a_process_border() -> None:
    scores = make(n_examples=[1, 2, 3], **HALVES)
    back = pickle.loads(pickle.dumps(scores))  # noqa: S301
    assert back == scores
    for one in (scores, back):
        with pytest.raises(AttributeError, match="cannot assign to field 'kind'"):
            one.kind = "accuracy"  # type: ignore[misc]
        with pytest.raises(AttributeError, match="cannot delete field 'kind'"):
            del one.kind
        assert len(one.columns) == 6
        for column in one.columns.values():
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 0


def test_the_arrays_of_the_caller_are_left_alone() -> None:
    score = np.array([0.5, 0.75, 1.0])
    scores = make(score=score)
    score[0] = 9.0
    assert scores.score[0] == 0.5


def test_equality_and_hash_see_every_part() -> None:
    others = [
        make(score=[0.5, 0.75, 0.9]),
        make(task_names=["acme", "globex", "hooli"]),
        make(kind="brier"),
        make(n_examples=[1, 2, 3]),
        make(n_examples=[1, 2, 4]),
        make(standard_error=[1, 2, 3]),
        make(source=[0, 1, 0], target=[1, 0, 2]),
        make(**HALVES),
        make(first_half=HALVES["second_half"], second_half=HALVES["first_half"]),
        make(**{**HALVES, "second_half": [0.75, 1.0, -0.25]}),
        make(**HALVES, standard_error=[1, 2, 3]),
    ]
    assert len({make().content_hash, *(other.content_hash for other in others)}) == len(others) + 1
    assert make(score=[0.0, 0.75, 1.0]) == make(score=[-0.0, 0.75, 1.0])
    assert make() != "scores"
    assert make() in {make()}
    assert repr(make()) == "TransferScores(3 tasks, 3 scores, kind 'other')"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "281cd48f312dbdfa1fc0d9b52cf3d117f5694c6314cb34f0168e24d412b144b4"),
        (
            {"n_examples": [1, 2, 3], "kind": "accuracy"},
            "addf05c052a1a4a18a4ef7a2dc2090e88058ff8dd5c69507db985081c7e5adc7",
        ),
        (
            {"standard_error": [0.1, 0.2, 0.3], "kind": "brier"},
            "97f2da4940512530fe1d6b62a28c782b1204324e1ae5d7232599d85d8dcddae7",
        ),
        (
            {"n_examples": [1, 2, 3], "standard_error": [0.1, 0.2, 0.3]},
            "3b517288acc8a4b8ab14425fe4a334f2cb64ab3acc51c110786b7e0fcac84b19",
        ),
    ],
)
def test_hashes_from_before_there_were_halves_stay(changes: dict[str, Any], expected: str) -> None:
    assert make(**changes).content_hash == expected
    assert make(**changes, **HALVES).content_hash != expected


# Matrices


def test_matrix_both_ways() -> None:
    matrix = np.array([[1.0, 0.5, NAN], [0.0, NAN, NAN], [NAN, 0.25, 1.0]])
    scores = TransferScores.from_matrix(matrix, NAMES, n_examples=7, kind="accuracy")
    np.testing.assert_array_equal(scores.to_matrix(), matrix)
    assert scores.n_examples is not None
    assert scores.n_examples.tolist() == [7] * 5
    masked = TransferScores.from_matrix(
        np.nan_to_num(matrix), NAMES, observed=~np.isnan(matrix), n_examples=7
    )
    assert masked.score.tolist() == scores.score.tolist()
    per_entry = TransferScores.from_matrix(
        matrix, NAMES, n_examples=np.arange(9).reshape(3, 3), standard_error=np.full((3, 3), 0.1)
    )
    assert per_entry.n_examples is not None
    assert per_entry.n_examples.tolist() == [0, 1, 3, 7, 8]
    assert per_entry.standard_error is not None
    assert len(per_entry.standard_error) == 5


def test_halves_from_matrices() -> None:
    matrix = np.array([[1.0, 0.5, NAN], [0.0, NAN, NAN], [NAN, 0.25, 1.0]])
    first, second = np.arange(9.0).reshape(3, 3), -np.arange(9).reshape(3, 3)
    first[np.isnan(matrix)] = NAN  # not looked at
    scores = TransferScores.from_matrix(matrix, NAMES, first_half=first, second_half=second)
    assert scores.first_half is not None
    assert scores.second_half is not None
    assert scores.first_half.tolist() == [0, 1, 3, 7, 8]
    assert scores.second_half.tolist() == [0, -1, -3, -7, -8]


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        ([[1.0, 0.5]], {}, r"got shape \(1, 2\)"),
        ([1.0, 0.5], {}, "a square matrix of numbers"),
        ([["a", "b"], ["c", "d"]], {}, "a square matrix of numbers"),
        ([[1.0, np.inf], [0.0, 1.0]], {}, "'a' → 'b'.*inf"),
        ([[1.0, NAN], [0.0, 1.0]], {"observed": np.ones((2, 2), dtype=bool)}, "'a' → 'b'.*nan"),
        (np.eye(2), {"observed": np.ones((2, 2))}, "a matrix of booleans"),
        (np.eye(2), {"observed": np.ones(2, dtype=bool)}, "a matrix of booleans"),
        (np.eye(2), {"n_examples": [1, 2]}, "n_examples cannot be used"),
        (np.eye(2), {"standard_error": [[1]]}, "standard_error cannot be used"),
        (np.eye(2) * 2, {"kind": "accuracy"}, "'a' → 'a'.*2.0"),
        (np.eye(2), {"first_half": np.eye(2)}, "only one of the two halves"),
        (np.eye(2), {"first_half": np.eye(2), "second_half": np.eye(3)}, r"second_half.*shape \(3, 3\)"),
        (np.eye(2), {"first_half": np.eye(2), "second_half": [[1, NAN], [1, 1]]}, "'a' → 'b'.*nan"),
    ],
)
def test_bad_matrices(matrix: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        TransferScores.from_matrix(matrix, ["a", "b"], **options)


# Subsets, merging, pairs


@given(any_scores(), st.randoms(use_true_random=False))
def test_subset_reorders_and_leaves_out(scores: TransferScores, random: Any) -> None:
    names = random.sample(scores.task_names, random.randint(1, scores.n_tasks))
    part = scores.subset(names)
    chosen = [scores.task_names.index(name) for name in names]
    np.testing.assert_array_equal(part.to_matrix(), scores.to_matrix()[np.ix_(chosen, chosen)])
    assert part.task_names == tuple(names)
    assert (part.kind, list(part.columns)) == (scores.kind, list(scores.columns))
    for name, column in scores.columns.items():
        if name not in ("source", "target"):
            whole, found = (np.full((one.n_tasks, one.n_tasks), NAN) for one in (scores, part))
            whole[scores.source, scores.target] = column
            found[part.source, part.target] = part.columns[name]
            np.testing.assert_array_equal(found, whole[np.ix_(chosen, chosen)])
    assert scores.subset(reversed(scores.task_names)).subset(scores.task_names) == scores


def test_subset_refuses_unknown_and_double_names() -> None:
    with pytest.raises(UnknownTaskError, match="Did you mean 'acme'"):
        make().subset(["acmee"])
    with pytest.raises(DataError, match="same name; got 'acme'"):
        make().subset(["acme", "acme"])
    with pytest.raises(DataError, match="no tasks"):
        make().subset([])


def test_merging_adds_pairs_and_tasks() -> None:
    later = TransferScores(["hooli", "acme"], source=[0, 1], target=[1, 0], score=[0.1, 0.2])
    merged = make().merged_with(later)
    assert merged.task_names == (*NAMES, "hooli")
    assert merged.subset(NAMES) == make()
    assert merged.subset(["hooli", "acme"]).to_matrix()[0, 1] == 0.1
    assert make().merged_with(make()) == make()


def test_merging_where_only_one_knows_the_number_of_examples() -> None:
    later = TransferScores(["acme", "hooli"], source=[0], target=[1], score=[0.1], n_examples=[9])
    merged = make().merged_with(later)
    assert merged.n_examples is not None
    assert merged.n_examples.tolist() == [0, 9, 0, 0]
    with_errors = make(standard_error=[0.1, 0.2, 0.3])
    assert with_errors.merged_with(with_errors) == with_errors


@given(any_scores(), st.randoms(use_true_random=False))
def test_parts_merge_to_the_whole(scores: TransferScores, random: Any) -> None:
    everything = scores.columns

    def part(mask: np.ndarray[Any, Any]) -> TransferScores:
        columns: dict[str, Any] = {name: column[mask] for name, column in everything.items()}
        return TransferScores(scores.task_names, **columns, kind=scores.kind)

    in_first = np.array([random.random() < 0.6 for _ in range(len(scores))], dtype=bool)
    in_both = in_first & np.array([random.random() < 0.5 for _ in range(len(scores))], dtype=bool)
    first, second = part(in_first), part(~in_first | in_both)
    assert first.merged_with(second) == second.merged_with(first) == scores
    assert scores.merged_with(scores) == scores.merged_with(first) == scores
    assert part(in_both).merged_with(first).merged_with(second) == scores


def test_merging_keeps_the_halves_of_both() -> None:
    later = TransferScores(
        ["hooli", "acme"], source=[0], target=[1], score=[0.1], first_half=[0.0], second_half=[0.2]
    )
    merged = make(**HALVES).merged_with(later)
    assert merged.subset(NAMES) == make(**HALVES)
    assert merged.subset(["hooli", "acme"]) == later
    for one, other in ((make(), later), (later, make())):
        with pytest.raises(
            DataError, match=r"only one of the two has halves.*Give both their halves, or none"
        ):
            one.merged_with(other)
    with pytest.raises(DataError, match=r"'acme' → 'globex'.*first_half 0.25.*first_half 0.3"):
        make(**HALVES).merged_with(make(**{**HALVES, "first_half": [0.3, 0.5, 1.5]}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": [0.5, 0.8, 1.0]}, "'globex' → 'acme'.*score 0.75 and score 0.8"),
        ({"n_examples": [1, 2, 3]}, "'acme' → 'globex'.*n_examples 0 and score 0.5, n_examples 1"),
        ({"kind": "brier"}, "other and brier"),
        ({"standard_error": [1, 2, 3]}, "only one of the two has standard errors"),
    ],
)
def test_merging_refuses_what_conflicts(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make().merged_with(make(**changes))


def test_pairs_have_the_places_of_both_directions() -> None:
    scores = make(source=[0, 1, 2, 2, 1], target=[1, 0, 2, 0, 2], score=[1, 2, 3, 4, 5])
    pairs = scores.pairs()
    assert list(zip(pairs.first, pairs.second, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert [scores.score[m] if m >= 0 else None for m in pairs.forward] == [1, None, 5]
    assert [scores.score[m] if m >= 0 else None for m in pairs.backward] == [2, 4, None]


# Intervals


def test_wilson_intervals_of_accuracies() -> None:
    # 9 of 10: 0.596 to 0.982; 0 of 10: 0 to 0.278 (Brown, Cai and DasGupta's formula, worked by hand).
    scores = make(score=[0.9, 0.0, 1.0], n_examples=[10, 10, 10], kind="accuracy")
    low, high = scores.intervals()
    assert low == pytest.approx([0.5958, 0.0, 0.7225], abs=1e-4)
    assert high == pytest.approx([0.9821, 0.2775, 1.0], abs=1e-4)
    narrow = scores.intervals(level=0.5)
    assert (narrow[0] >= low).all()
    assert (narrow[1] <= high).all()


def test_normal_intervals_and_none() -> None:
    low, high = make(standard_error=[0.1, 0.0, 0.2]).intervals()
    assert low == pytest.approx([0.5 - 0.19600, 0.75, 1 - 0.39199], abs=1e-4)
    assert high == pytest.approx([0.5 + 0.19600, 0.75, 1 + 0.39199], abs=1e-4)
    assert all(np.isnan(end).all() for end in make(n_examples=[5, 5, 5]).intervals())
    low, high = make(n_examples=[5, 0, 5], kind="accuracy").intervals()
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [False, True, False]
    for level in (0, 1, -1, NAN):
        with pytest.raises(UsageError, match="level"):
            make().intervals(level=level)


# Reliability


def reference_reliability(S: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    n = len(S)
    off = ~np.isnan(S) & ~np.eye(n, dtype=bool)
    S = np.where(off, S, np.nan)
    Z = (S - np.nanmean(S, axis=0)) / np.nanstd(S, axis=0)
    means = np.nanmean(Z, axis=1)
    both = off & off.T
    found = [np.corrcoef(matrix[both], matrix.T[both])[0, 1] for matrix in (Z, Z - means[:, None])]
    k = off.sum(axis=1)
    within = np.nansum((Z - means[:, None]) ** 2) / (k.sum() - n)
    between = (k * (means - np.nanmean(Z)) ** 2).sum() / (n - 1)
    of_rows = max(0.0, (between - within) / ((k.sum() - (k**2).sum() / k.sum()) / (n - 1)))
    return found[0], found[1], of_rows / (of_rows + within)


@pytest.mark.parametrize("seed", range(5))
def test_reliability_is_that_of_the_plain_formula(seed: int) -> None:
    random = np.random.default_rng(seed)
    common = random.normal(size=(12, 12))
    S = common + common.T + random.normal(size=(12, 12)) + random.normal(size=(12, 1))
    S[random.random((12, 12)) < 0.3] = np.nan
    found = TransferScores.from_matrix(S, [f"t{i}" for i in range(12)]).reliability()
    expected = reference_reliability(S)
    assert found.reciprocity == pytest.approx(expected[0])
    assert found.reciprocity_without_donors == pytest.approx(expected[1])
    assert found.donor_share == pytest.approx(expected[2])
    off = ~np.isnan(S) & ~np.eye(12, dtype=bool)
    assert (found.n_scores, found.n_pairs) == (off.sum(), (off & off.T).sum() // 2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_donor_share_finds_what_was_planted(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    n = 120
    S = np.sqrt(share) * random.normal(size=(n, 1)) + np.sqrt(1 - share) * random.normal(size=(n, n))
    S[random.random((n, n)) < 0.8] = np.nan
    found = TransferScores.from_matrix(S, [f"t{i}" for i in range(n)]).reliability()
    assert found.donor_share == pytest.approx(share, abs=0.12)


def test_reliability_where_it_cannot_be_computed() -> None:
    assert make().reliability() == ScoreReliability(None, None, None, 0, 0)  # columns of one score
    equal = TransferScores.from_matrix(np.full((4, 4), 0.1), ["a", "b", "c", "d"])
    assert equal.reliability() == ScoreReliability(None, None, None, 0, 0)
    # Every column is 0 and 1 in the same rows: the donor effect is all there is.
    donors = np.repeat([[0.0], [0.0], [1.0], [1.0]], 4, axis=1)
    donors[2:, 2:] = donors[:2, :2] = np.nan
    names = ["a", "b", "c", "d"]
    assert TransferScores.from_matrix(donors, names).reliability().n_scores == 0
    one_way = TransferScores(names, source=[0, 1, 2], target=[3, 3, 3], score=[1, 2, 3]).reliability()
    assert one_way == ScoreReliability(None, None, None, 0, 3)
    wide = np.repeat([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], 4, axis=1)
    scores = TransferScores(
        [f"t{i}" for i in range(10)],
        source=np.repeat(np.arange(6), 4),
        target=np.tile(np.arange(6, 10), 6),
        score=wide.ravel(),
    )
    assert scores.reliability() == ScoreReliability(None, None, 1.0, 0, 24)


def reference_split_half(halves: list[np.ndarray[Any, Any]]) -> list[float]:
    """Do it in loops over dense matrices, NaN where there is no score."""
    n = len(halves[0])
    with_donors, without_donors = [], []
    columns = [
        j
        for j in range(n)
        if all(
            len({half[i, j] for i in range(n) if i != j and not np.isnan(half[i, j])}) > 1 for half in halves
        )
    ]
    for half in halves:
        Z = np.full((n, n), np.nan)
        for j in columns:
            rows = [i for i in range(n) if i != j and not np.isnan(half[i, j])]
            Z[rows, j] = (half[rows, j] - half[rows, j].mean()) / half[rows, j].std()
        with_donors.append(Z[~np.isnan(Z)])
        for i in range(n):
            if not np.isnan(Z[i]).all():
                Z[i] -= np.nanmean(Z[i])
        without_donors.append(Z[~np.isnan(Z)])
    return [np.corrcoef(*pair)[0, 1] for pair in (with_donors, without_donors)]


def noisy_halves(seed: int, n: int = 12) -> tuple[np.ndarray[Any, Any], list[np.ndarray[Any, Any]]]:
    random = np.random.default_rng(seed)
    S = random.normal(size=(n, n)) + random.normal(size=(n, 1))
    S[random.random((n, n)) < 0.3] = np.nan
    halves = [3 * S + 7 + random.normal(size=(n, n)), S + random.normal(size=(n, n))]
    # No spread in one half only: the column must be left out of both.
    halves[seed % 2][:, 0] = np.where(np.isnan(S[:, 0]), np.nan, 0.1)
    return S, halves


@pytest.mark.parametrize("seed", range(5))
def test_split_half_is_that_of_the_plain_formula(seed: int) -> None:
    S, halves = noisy_halves(seed)
    names = [f"t{i}" for i in range(len(S))]
    scores = TransferScores.from_matrix(S, names, first_half=halves[0], second_half=halves[1])
    found = scores.reliability()
    expected = reference_split_half(halves)
    assert found.split_half == pytest.approx(expected[0], rel=1e-9)
    assert found.split_half_without_donors == pytest.approx(expected[1], rel=1e-9)
    assert found.split_half_corrected == pytest.approx(2 * expected[1] / (1 + expected[1]), rel=1e-9)
    # The rest is not touched by the halves.
    plain = TransferScores.from_matrix(S, names).reliability()
    assert replace(found, split_half=None, split_half_without_donors=None) == plain
    # Nor by which half is the first, the order of the tasks, or the units of the columns.
    order = np.random.default_rng(seed).permutation(names).tolist()
    units = np.random.default_rng(seed).uniform(0.5, 2, size=len(S))
    for other in (
        TransferScores.from_matrix(S, names, first_half=halves[1], second_half=halves[0]),
        TransferScores.from_matrix(S, names, first_half=halves[0] * units + 3, second_half=halves[1]),
        scores.subset(order),
    ):
        again = other.reliability()
        assert again.split_half == pytest.approx(found.split_half, rel=1e-9)
        assert again.split_half_without_donors == pytest.approx(found.split_half_without_donors, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_corrected_split_half_finds_the_reliability_of_the_whole(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = 60
    truth, first, second = random.normal(size=(3, n, n))
    donors = 2 * random.normal(size=(n, 1))
    halves = [truth + donors + first, truth + donors + second]  # each half: as much chance as truth
    found = TransferScores.from_matrix(
        sum(halves) / 2, [f"t{i}" for i in range(n)], first_half=halves[0], second_half=halves[1]
    ).reliability()
    assert found.split_half is not None
    assert found.split_half_without_donors is not None
    assert found.split_half_without_donors == pytest.approx(1 / 2, abs=0.05)
    assert found.split_half > found.split_half_without_donors + 0.2
    assert found.split_half_corrected == pytest.approx(2 / 3, abs=0.05)


def test_split_half_where_it_cannot_be_computed() -> None:
    names = ["a", "b", "c", "d"]

    def judge(first: Any, second: Any, **changes: Any) -> tuple[Any, Any]:
        columns = {"source": [0, 1, 2], "target": [3, 3, 3], "score": [1, 2, 3], **changes}
        found = TransferScores(names, **columns, first_half=first, second_half=second).reliability()
        return found.split_half, found.split_half_without_donors

    # One score a row: the donors are all there is.
    assert judge([1, 2, 3], [1, 2, 4]) == (pytest.approx(np.corrcoef([1, 2, 3], [1, 2, 4])[0, 1]), None)
    assert judge([1, 2, 3], [3, 2, 1]) == (pytest.approx(-1.0), None)
    assert judge([1, 2, 3], [0.1, 0.1, 0.1]) == (None, None)
    assert judge([1, 2, 3], [1, 2, 3], target=[3, 3, 2]) == (None, None)  # two scores, one on the diagonal
    assert judge([1, 2, 3], [1, 2, 3], score=[1, 1, 1])[0] == pytest.approx(1.0)  # the halves count alone
    assert judge([], [], source=[], target=[], score=[]) == (None, None)
    assert make().reliability().split_half is None
    bare = ScoreReliability(None, None, None, 0, 0)
    assert bare.split_half_corrected is None
    assert replace(bare, split_half_without_donors=-1.0).split_half_corrected is None
    assert replace(bare, split_half_without_donors=0.0).split_half_corrected == 0.0
    assert replace(bare, split_half=0.5).split_half_corrected is None


def test_rounding_is_not_correlated() -> None:
    spread = np.random.default_rng(1).normal(size=10)
    assert correlate(spread, 0.1 + 1e-16 * spread) is None
    assert correlate(0.1 + 1e-16 * spread, spread) is None
    assert correlate(spread[:2], spread[:2]) is None  # too few
    noise = 1e-16 * np.random.default_rng(0).normal(size=10)
    assert correlate_both_orders(0.1 + noise, 0.1 - noise) is None
    assert correlate_both_orders(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None  # too few
    assert correlate_both_orders(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0])) == pytest.approx(1.0)


# CSV


def read_text(tmp_path: Path, content: str | bytes, **options: Any) -> TransferScores:
    path = tmp_path / "scores.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_scores(path, **options)


@settings(max_examples=200)
@given(any_scores())
def test_round_trip_is_exact(scores: TransferScores) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        scores.write_csv(path)
        back = read_scores(path)
        assert [file.name for file in Path(folder).iterdir()] == ["scores.csv"]
    assert back == scores
    assert back.score.tolist() == scores.score.tolist()
    assert list(back.columns) == list(scores.columns)


def test_what_is_written(tmp_path: Path) -> None:
    make(task_names=["=1+1", 'a "b"', "c"], n_examples=[1, 2, 3], kind="accuracy").subset(
        ["=1+1", 'a "b"']
    ).merged_with(TransferScores(["lone"], source=[], target=[], score=[], kind="accuracy")).write_csv(
        tmp_path / "scores.csv"
    )
    assert (tmp_path / "scores.csv").read_text().splitlines() == [
        '"source","target","score","n","kind"',
        '"=1+1","a ""b""",0.5,1,"accuracy"',
        '"a ""b""","=1+1",0.75,2,"accuracy"',
        '"lone","lone","","","accuracy"',
    ]


def test_halves_are_written_where_they_are_there(tmp_path: Path) -> None:
    scores = make(**HALVES, n_examples=[1, 2, 3], kind="overlap")
    scores.write_csv(tmp_path / "scores.csv")
    lines = (tmp_path / "scores.csv").read_text().splitlines()
    assert lines[:2] == [
        '"source","target","score","n","first_half","second_half","kind"',
        '"acme","globex",0.5,1,0.25,0.75,"overlap"',
    ]
    assert read_scores(tmp_path / "scores.csv") == scores
    make().write_csv(tmp_path / "scores.csv")
    assert "half" not in (tmp_path / "scores.csv").read_text()


def test_halves_in_any_column_and_averaged(tmp_path: Path) -> None:
    content = "second_half,source,first_half,target,score\n4,a,2,b,3\n1,b,1,a,1\n6,a,3,b,4\n"
    scores = read_text(tmp_path, content, duplicates="average")
    assert scores.first_half is not None
    assert scores.second_half is not None
    assert (scores.first_half.tolist(), scores.second_half.tolist()) == ([2.5, 1.0], [5.0, 1.0])


def test_a_failing_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores.csv"
    make().write_csv(path)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("robusttc.files.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        make(score=[0, 0, 0]).write_csv(path)
    assert [file.name for file in tmp_path.iterdir()] == ["scores.csv"]
    assert read_scores(path) == make()


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_long_form(tmp_path: Path, mark: str, end: str) -> None:
    lines = [
        "score,n_examples,note,target,source",
        "0.5,10,x,b,a",
        "",
        '1e-1,,"y, z",c,b',
        " 2 ,12.0,,a,b",
        "",
    ]
    scores = read_text(tmp_path, mark + end.join(lines))
    assert scores.task_names == ("a", "b", "c")
    assert scores.score.tolist() == [0.5, 2.0, 0.1]
    assert scores.n_examples is not None
    assert scores.n_examples.tolist() == [10, 12, 0]
    assert scores.kind == "other"


def test_tasks_are_in_the_order_of_the_sources(tmp_path: Path) -> None:
    scores = read_text(tmp_path, "source,target,score\na,z,1\nb,a,2\ny,y,\nc,b,3\n")
    assert scores.task_names == ("a", "b", "y", "c", "z")
    assert len(scores) == 3


@pytest.mark.parametrize("corner", ["", "task", "source"])
def test_square_form(tmp_path: Path, corner: str) -> None:
    scores = read_text(tmp_path, f"{corner},b,a,c\na,0.1,1,\nb,, 0.2 ,0\nc,,-3,\n", kind="brier")
    assert scores.task_names == ("b", "a", "c")
    assert scores.kind == "brier"
    np.testing.assert_array_equal(scores.to_matrix(), [[NAN, 0.2, 0.0], [0.1, 1.0, NAN], [NAN, -3.0, NAN]])


@pytest.mark.parametrize("content", [",a\na,1\n", ",a\na,\n", "source,target,score\na,a,0.5\n"])
def test_one_task_is_legal(tmp_path: Path, content: str) -> None:
    scores = read_text(tmp_path, content)
    assert scores.task_names == ("a",)
    assert len(scores.pairs()) == 0


def test_kind_from_file_or_caller(tmp_path: Path) -> None:
    content = "source,target,score,kind\na,b,0.5,accuracy\nb,a,0.5,accuracy\n"
    assert read_text(tmp_path, content).kind == "accuracy"
    assert read_text(tmp_path, content, kind="brier").kind == "brier"
    for options in ({"kind": "accuracyy"}, {"duplicates": "mean"}):
        with pytest.raises(UsageError, match="cannot be used"):
            read_text(tmp_path, content, **options)


def test_duplicates_in_a_file(tmp_path: Path) -> None:
    content = "source,target,score\na,b,0.5\nb,a,1\na,b,0.75\na,b,1\n"
    with pytest.raises(ScoresError) as caught:
        read_text(tmp_path, content)
    first, second = caught.value.problems
    assert (first.line, second.line) == (4, 5)
    assert first.what == "the pair 'a' → 'b' has a score already, in line 2"
    assert first.got == "0.5 and 0.75"
    assert read_text(tmp_path, content, duplicates="average").score == pytest.approx([0.75, 1.0])


LONG = "source,target,score\na,b,0.5\n"
HALVES_HEADER = "source,target,score,first_half,second_half\n"


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "the file is empty"),
        ("\n\n", None, "the file is empty"),
        ("source,target,score\n", None, "the file has no scores"),
        (",a,b\n", None, "a column name is not a row name; got 'a'"),
        ("source,targetx,score\na,b,1\n", 1, "missing column 'target'.*Did you mean 'targetx'"),
        ("from,to,score\na,b,1\n", 1, "missing column 'source'; got columns 'from', 'to', 'score'"),
        ("source,target,score,score\na,b,1,1\n", 1, "the column 'score' is there 2 times"),
        ("source,target,score,n,n_examples\na,b,1,1,1\n", 1, "'n' and 'n_examples' are both there"),
        ("from;to;value\na;b;1\n", None, "a row name is not a column name; got 'a'"),
        ("name\na\n", 1, "only one field"),
        (LONG + "b,a\n", 3, "ragged row.*got 2 fields; expected 3"),
        (LONG + "b,a,1,2\n", 3, "ragged row.*got 4 fields"),
        (LONG + "b,a,high\n", 3, "the score is not a number; got 'high'"),
        (LONG + 'b,a,"0,5"\n', 3, "the score is not a number; got '0,5'.*point, not a comma"),
        (LONG + "b,a,1_0\n", 3, "the score is not a number; got '1_0'"),
        (LONG + "b,a,-inf\n", 3, "the score is out of its range; got -inf; expected a finite number"),
        (LONG + "b,a,1e999\n", 3, "the score is out of its range; got inf"),
        (LONG + "b,a,\n", 3, "missing score.*leave out the row"),
        (LONG + ",a,1\n", 3, "the source has no name; got ''"),
        (LONG + "b, ,1\n", 3, "the target has no name; got ' '"),
        (LONG + ",,\n", 3, "the source has no name"),
        (LONG + 'b,"a,1\nc,d,2\n', 3, "never closed"),
        (LONG + 'b,"a"x,1\n', 3, "the quotes of this row are wrong"),
        (LONG + f"b,{'x' * 140_000},1\n", 3, "a field is too long"),
        ('source,"target,score\n', 1, "cannot be read as CSV; got unexpected end"),
        (
            "source,target,score,n\na,b,1,-5\n",
            2,
            "the n_examples is out of its range; got -5; expected 0 .not known. or more",
        ),
        ("source,target,score,n\na,b,1,1.5\n", 2, "the n_examples is not a whole number; got '1.5'"),
        ("source,target,score,n\na,b,1,many\n", 2, "the n_examples is not a whole number; got 'many'"),
        ("source,target,score,n\na,b,1,1e99\n", 2, "the n_examples is out of its range; got 1e.99"),
        (
            "source,target,score,standard_error\na,b,1,-0.5\n",
            2,
            "the standard_error is out of its range; got -0.5; expected a finite number, 0 or",
        ),
        ("source,target,score,standard_error\na,b,1,\n", 2, "missing standard_error.*or the column"),
        (
            "source,target,score,first_half\na,b,1,1\n",
            1,
            "only 'first_half' is there; expected 'first_half' and 'second_half'.*Give both, or neither",
        ),
        ("source,target,second_half,score\na,b,1,1\n", 1, "only 'second_half' is there"),
        (
            "source,target,score,first_half,second_half,first_half\na,b,1,1,1,1\n",
            1,
            "the column 'first_half' is there 2 times",
        ),
        (HALVES_HEADER + "a,b,1,1,2\nb,a,1,x,2\n", 3, "the first_half is not a number; got 'x'"),
        (HALVES_HEADER + "a,b,1,1,\n", 2, "missing second_half.*or the column"),
        (HALVES_HEADER + "a,b,1,1,inf\n", 2, "the second_half is out of its range; got inf"),
        ("source,target,score,kind\na,b,1,acc\n", 2, "unknown kind of score; got 'acc'"),
        (
            "source,target,score,kind\na,b,1,brier\nb,a,1,other\n",
            3,
            "two kinds.*got 'other'; expected 'brier'",
        ),
        ("source,target,score,kind\na,b,1,accuracy\nb,a,1.5,accuracy\n", 3, "out of its range; got 1.5"),
        (LONG.encode() + b"b,\xe4,1\n", 3, "csv:3:3: the line is not UTF-8.*got byte 0xe4"),
        (b"source,target,sc\xf6re\na,b,1\n", 1, "not UTF-8"),
        (",a,b\na,1,2\nc,3,4\nb,1,1\n", 3, "a row name is not a column name; got 'c'"),
        (",a,b\na,1,2\n", None, "a column name is not a row name; got 'b'"),
        (",a,b\na,1,2\nb,1,1\na,1,1\n", 4, "a row name is there twice: line 2 has it too; got 'a'"),
        (",a,a\na,1,2\n", 1, "a column name is there twice; got 'a'"),
        (",a,\na,1,2\n", 1, "the column has no name"),
        (",a,b\na,1\nb,1,1\n", 2, "ragged row"),
        (",a,b\na,1,x\nb,1,1\n", 2, "the score for 'b' is not a number; got 'x'"),
        (",a,b\na,1,inf\nb,1,1\n", 2, "the score is out of its range; got inf"),
    ],
)
def test_bad_files(tmp_path: Path, content: str | bytes, line: int | None, message: str) -> None:
    with pytest.raises(ScoresError, match=message) as caught:
        read_text(tmp_path, content)
    assert caught.value.problems[0].line == line
    assert caught.value.exit_code == 4
    assert "scores.csv" in str(caught.value)


def test_every_problem_is_listed_by_line(tmp_path: Path) -> None:
    content = LONG + "a,b,0.75\nb,a,x\n\nb,c\n" + 'b,"a"x,1\n' + "c,a,0.5\n"
    with pytest.raises(ScoresError) as caught:
        read_text(tmp_path, content)
    assert [problem.line for problem in caught.value.problems] == [3, 4, 6, 7]
    assert str(caught.value).startswith("4 problems in the file of scores:\n  ")
    back = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert str(back) == str(caught.value)


def test_twenty_problems_are_listed_and_the_rest_counted(tmp_path: Path) -> None:
    with pytest.raises(ScoresError) as caught:
        read_text(tmp_path, LONG + "b,a,x\n" * 25)
    assert len(caught.value.problems) == 20
    assert str(caught.value).splitlines()[-1] == "  … and 5 more"


def test_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(ScoresError, match=r"1 problem in the file of scores:\n.*cannot be read"):
            read_scores(path)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_delimiters_encodings_and_the_case_of_columns(tmp_path: Path, delimiter: str, encoding: str) -> None:
    text = "Source,TARGET,Score,N\nüa,b,0.5,10\nb,üa,0.75,\n".replace(",", delimiter)
    scores = read_text(tmp_path, text.encode(encoding))
    assert scores == TransferScores(
        ["üa", "b"], source=[0, 1], target=[1, 0], score=[0.5, 0.75], n_examples=[10, 0]
    )
    square = ",üa,b\nüa,,0.5\nb,0.75,NaN\n".replace(",", delimiter)
    again = read_text(tmp_path, square.encode(encoding))
    np.testing.assert_array_equal(again.to_matrix(), scores.to_matrix())


def test_nan_is_a_pair_that_was_not_measured(tmp_path: Path) -> None:
    scores = read_text(tmp_path, "source,target,score,standard_error\na,b,0.5,0.1\nb,a,NaN,\nc,a,NA,nan\n")
    assert scores.task_names == ("a", "b", "c")
    assert (len(scores), scores.score[0]) == (1, 0.5)


@given(any_scores())
def test_frames_both_ways(scores: TransferScores) -> None:
    assert TransferScores.from_frame(scores.to_frame()) == scores


def test_frames_of_other_people() -> None:
    pd = pytest.importorskip("pandas")
    matrix = np.array([[NAN, 0.5], [0.75, NAN]])
    square = pd.DataFrame(matrix, index=["a", "b"], columns=["a", "b"])
    expected = TransferScores.from_matrix(matrix, ["a", "b"])
    assert TransferScores.from_frame(square) == expected
    assert TransferScores.from_frame(square, kind="accuracy").kind == "accuracy"
    assert TransferScores.from_frame(square.loc[["b", "a"]]) == expected
    long = pd.DataFrame({"Target": ["b", "a", "b"], "Source": ["a", "b", "b"], "score": [0.5, 0.75, None]})
    assert TransferScores.from_frame(long) == expected
    numbered = pd.DataFrame(matrix)
    assert TransferScores.from_frame(numbered).task_names == ("0", "1")
    with pytest.raises(ScoresError, match=r"DataFrame:iloc 1: the score is not a number; got 'high'"):
        TransferScores.from_frame(long.assign(score=[0.5, "high", 1]))
    with pytest.raises(ScoresError, match="missing column 'score'"):
        TransferScores.from_frame(long[["Source", "Target"]])
    with pytest.raises(UsageError, match="kind cannot be used"):
        TransferScores.from_frame(long, kind="acuracy")


def test_plot_and_html() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    scores = make(task_names=["a<b", "c", "d"])
    axes = scores.plot(order=["c", "a<b"])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "a<b"]
    assert scores.plot(axes) is axes
    html = scores._repr_html_()
    assert "<th>Scores</th><td>3 (33% of all pairs)</td>" in html
    assert TransferScores(["a"], source=[], target=[], score=[])._repr_html_().startswith("<table>")


def test_a_pair_that_differs_by_rounding_is_the_same() -> None:
    later = make(score=[0.5 * (1 + 1e-13), 0.75, 1.0])
    assert make().merged_with(later) == make()
    assert later.merged_with(make()) == later


def test_scores_need_neither_numba_nor_torch() -> None:
    code = (
        "import sys; from robusttc.transfer import TransferScores, read_scores\n"
        "print([name for name in ('numba', 'torch', 'scipy', 'sklearn', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

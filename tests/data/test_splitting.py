from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robusttc.data import SHARES, split_rows

LABELS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=200)


def distinct_texts(n_rows: int) -> list[str]:
    return [f"text {row}" for row in range(n_rows)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_rows", [50, 100, 1_000])
def test_the_shares_within_each_label(seed: int, n_rows: int) -> None:
    labels = ["a"] * n_rows + ["b"] * n_rows
    splits = split_rows("acme", distinct_texts(2 * n_rows), labels, seed)
    for label in "ab":
        found = Counter(split for split, of in zip(splits, labels, strict=True) if of == label)
        assert [found[split] for split in ("train", "valid", "test")] == [n_rows * share for share in SHARES]


@given(LABELS, st.integers(0, 2**63 - 1))
def test_every_label_has_a_training_row_and_no_more_than_rounding_is_lost(
    labels: list[str], seed: int
) -> None:
    splits = split_rows("acme", distinct_texts(len(labels)), labels, seed)
    n_labels = len(set(labels))
    for label, n_rows in Counter(labels).items():
        found = Counter(split for split, of in zip(splits, labels, strict=True) if of == label)
        assert found["train"] >= 1
        for split, share in zip(("train", "valid", "test"), SHARES, strict=True):
            assert abs(found[split] - share * n_rows) < 2
    for split, share in zip(("train", "valid", "test"), SHARES, strict=True):
        assert abs(splits.count(split) - share * len(labels)) <= n_labels


def test_many_tiny_labels_still_have_valid_and_test_rows() -> None:
    labels = [f"label {row // 3}" for row in range(300)]
    splits = split_rows("acme", distinct_texts(300), labels, 0)
    assert [splits.count(split) for split in ("train", "valid", "test")] == [192, 48, 60]


def test_labels_with_one_row_are_all_for_training() -> None:
    assert set(split_rows("acme", ["a", "b", "c"], ["x", "y", "z"], 0)) == {"train"}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy")), min_size=1), st.integers(0, 99))
def test_rows_of_one_text_and_label_stay_together(rows: list[tuple[str, str]], seed: int) -> None:
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    split_of: dict[tuple[str, str], str] = {}
    for row, split in zip(rows, split_rows("acme", texts, labels, seed), strict=True):
        assert split_of.setdefault(row, split) == split


def test_the_same_arguments_give_the_same_splits_and_others_do_not() -> None:
    texts, labels = distinct_texts(100), ["a", "b"] * 50
    splits = split_rows("acme", texts, labels, 0)
    assert splits == split_rows("acme", texts, labels, 0)
    assert splits != split_rows("acme", texts, labels, 1)
    assert splits != split_rows("other", texts, labels, 0)


def test_a_label_keeps_its_splits_where_another_is_added_behind_it() -> None:
    texts, labels = distinct_texts(100), ["a"] * 100
    more = split_rows("acme", [*texts, *distinct_texts(50)], [*labels, *["b"] * 50], 0)
    assert more[:100] == split_rows("acme", texts, labels, 0)


def test_nothing_to_split() -> None:
    assert split_rows("acme", [], [], 0) == []

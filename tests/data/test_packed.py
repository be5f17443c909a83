from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robusttc.data.packed import PackedStrings

STRINGS = st.lists(st.text(st.characters(exclude_categories=["Cs"])))


@given(STRINGS)
def test_what_goes_in_comes_out(strings: list[str]) -> None:
    packed = PackedStrings.pack(strings)
    assert list(packed) == strings
    assert [packed[row] for row in range(len(packed))] == strings
    assert [packed[row] for row in range(-len(packed), 0)] == strings
    assert b"".join(packed.iterate_bytes()) == "".join(strings).encode()


@given(STRINGS.filter(bool), st.data())
def test_take_and_slices_are_those_of_a_list(strings: list[str], data: st.DataObject) -> None:
    packed = PackedStrings.pack(strings)
    rows = data.draw(st.lists(st.integers(0, len(strings) - 1)))
    assert list(packed.take(rows)) == [strings[row] for row in rows]
    cut = data.draw(st.slices(len(strings)))
    assert list(packed[cut]) == strings[cut]


@given(STRINGS, STRINGS)
def test_equal_where_the_strings_are(first: list[str], second: list[str]) -> None:
    one, other = PackedStrings.pack(first), PackedStrings.pack(second)
    assert (one == other) == (first == second)
    assert PackedStrings.pack(first) == one
    assert hash(PackedStrings.pack(first)) == hash(one)
    assert one != first


def test_the_same_bytes_cut_elsewhere_are_not_equal() -> None:
    assert PackedStrings.pack(["ab", "c"]) != PackedStrings.pack(["a", "bc"])


def test_a_row_that_is_not_there() -> None:
    packed = PackedStrings.pack(["a"])
    with pytest.raises(IndexError):
        packed[1]
    with pytest.raises(IndexError):
        packed[-2]


def test_it_cannot_be_changed() -> None:
    packed = PackedStrings.pack(["a", "b"])
    with pytest.raises(ValueError, match="read-only"):
        packed.offsets[0] = 1
    assert PackedStrings.pack(packed) is packed


def test_a_row_costs_its_bytes_and_an_offset() -> None:
    packed = PackedStrings.pack(["zwölf"] * 1_000)
    assert packed.size_bytes == 1_000 * len("zwölf".encode()) + 8 * 1_001
    assert "1,000 strings" in repr(packed)
    assert packed.offsets.dtype == np.int64


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        PackedStrings.pack(["\ud800"])

"""Frozen inputs: what is refused, and that rows are taken as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.data import TokenArray
from robusttc.encoders.inputs import DenseInputs, WordInputs
from robusttc.errors import DataError, UsageError

VECTORS = np.array([[0, 0], [1, 2], [3, 4]], dtype=np.float32)
TOKENS = TokenArray([1, 2, 2, 1], [0, 2, 2, 4])


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 2)), np.zeros(3, np.float32), [[1.0]], np.zeros((3, 0), np.float32)]
)
def test_what_is_no_float32_matrix_is_refused(matrix: Any) -> None:
    with pytest.raises(UsageError):
        DenseInputs(matrix)
    with pytest.raises(UsageError):
        WordInputs(TOKENS, matrix)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_with_their_place(bad: float) -> None:
    matrix = np.zeros((4, 3), dtype=np.float32)
    matrix[2, 1] = bad
    for make in (DenseInputs, lambda array: WordInputs(TOKENS, array)):
        with pytest.raises(DataError, match="row 2, column 1"):
            make(matrix)


def test_words_must_have_vectors_and_padding_must_be_zero() -> None:
    with pytest.raises(UsageError, match="word 3"):
        WordInputs(TokenArray([1, 3], [0, 2]), VECTORS)
    with pytest.raises(UsageError, match="word -1"):
        WordInputs(TokenArray([1, -1], [0, 2]), VECTORS)
    with pytest.raises(DataError, match="padding"):
        WordInputs(TOKENS, VECTORS[::-1])
    with pytest.raises(DataError, match="padding"):
        WordInputs(TOKENS, VECTORS[:0])


def test_take_gives_the_rows_in_the_order_asked_for() -> None:
    words = WordInputs(TOKENS, VECTORS)
    taken = words.take([2, 1, 0, 2])
    assert [row.tolist() for row in taken.tokens] == [[2, 1], [], [1, 2], [2, 1]]
    assert taken.vectors is words.vectors
    assert len(words.take([])) == 0
    dense = DenseInputs(VECTORS)
    assert dense.take(np.array([2, 0])).matrix.tolist() == [[3, 4], [0, 0]]
    assert len(dense.take([])) == 0


@pytest.mark.parametrize("rows", [[3], [-1], [0.5], [[0, 1]], [True]])
def test_rows_that_are_not_there_are_refused(rows: Any) -> None:
    for inputs in (WordInputs(TOKENS, VECTORS), DenseInputs(VECTORS)):
        with pytest.raises(UsageError, match="rows"):
            inputs.take(rows)


def test_other_memory_orders_mean_the_same() -> None:
    matrix = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert DenseInputs(matrix).matrix.flags.c_contiguous
    assert np.array_equal(DenseInputs(matrix).matrix, matrix)

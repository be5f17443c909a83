"""Bad matrices and bad options: refused by name, with the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from robusttc.clustering.old.completion.complete import complete_similarity
from robusttc.clustering.old.completion.problem import make_problem
from robusttc.errors import DataError, UsageError

ONES = np.ones((3, 3))


def changed(row: int, column: int, value: float, *, mirrored: bool = True) -> Any:
    matrix = ONES.copy()
    matrix[row, column] = value
    if mirrored:
        matrix[column, row] = value
    return matrix


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_array])
@pytest.mark.parametrize(
    ("Y", "observed", "message"),
    [
        (
            changed(0, 2, np.nan),
            ONES,
            r"entry \(0, 2\): Y cannot be used .*nan; expected a similarity from 0 to 1",
        ),
        (changed(1, 1, np.inf), ONES, r"entry \(1, 1\): Y cannot be used .*inf"),
        (changed(1, 2, -0.5), ONES, r"entry \(1, 2\): Y cannot be used .*-0.5"),
        (changed(1, 2, 1.5), ONES, r"entry \(1, 2\): Y cannot be used .*1.5"),
        (
            changed(1, 2, 0.5, mirrored=False),
            ONES,
            r"\(1, 2\) and \(2, 1\): Y is not symmetric; got 0.5 and 1",
        ),
        (ONES, changed(2, 0, 0, mirrored=False), r"entries \(0, 2\) and \(2, 0\): observed is not symmetric"),
        (ONES, changed(1, 0, np.nan), "observed is not a number"),
        (ONES[:2], ONES, r"Y is not square; got shape \(2, 3\)"),
        (ONES, ONES[:2], r"observed is not square; got shape \(2, 3\)"),
        (ONES, np.ones((4, 4)), r"differ in size; got \(3, 3\) and \(4, 4\)"),
        (np.zeros((0, 0)), np.zeros((0, 0)), "is not square"),
        (ONES.astype(complex), ONES, "Y is not a matrix of real numbers; got an array of type complex128"),
    ],
)
def test_bad_matrices(form: Any, Y: Any, observed: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        complete_similarity(form(Y), form(observed))


@pytest.mark.parametrize(
    "bad", [None, 5.0, "abc", np.ones(4), [[1, 2], [3]], [["a"]], [[None]], np.ones((2, 2, 2))]
)
def test_what_is_no_matrix(bad: Any) -> None:
    with pytest.raises(DataError, match=r"Y is not"):
        make_problem(bad, ONES)
    with pytest.raises(DataError, match=r"observed is not"):
        make_problem(ONES, bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 0}, "lam cannot be used; got 0; expected 'auto' or a positive number"),
        ({"lam": -1.0}, "lam cannot be used"),
        ({"lam": float("nan")}, "lam cannot be used"),
        ({"lam": float("inf")}, "lam cannot be used"),
        ({"lam": "automatic"}, "lam cannot be used"),
        ({"lam": True}, "lam cannot be used"),
        ({"lam": None}, "lam cannot be used"),
        ({"lam": np.ones(2)}, "lam cannot be used"),
        ({"tol": 0}, "tol cannot be used; got 0; expected a number between 0 and 1"),
        ({"tol": 1}, "tol cannot be used"),
        ({"tol": "small"}, "tol cannot be used"),
        ({"tol": None}, "tol cannot be used"),
        ({"method": "fast"}, "unknown method; got 'fast'; expected auto, dense or factored"),
        ({"method": None}, "unknown method"),
        ({"method": ["dense"]}, "unknown method"),
        ({"n_clusters": 0}, "n_clusters cannot be used; got 0; expected an integer from 1 up"),
        ({"n_clusters": 2.0}, "n_clusters cannot be used"),
        ({"n_clusters": True}, "n_clusters cannot be used"),
        ({"max_iter": 0}, "max_iter cannot be used"),
        ({"n_threads": 0}, "n_threads cannot be used"),
        ({"n_threads": None}, "n_threads cannot be used"),
        ({"weights": (1.0,)}, "the weights of errors cannot be used"),
        ({"weights": (1.0, 0.0)}, "the weights of errors cannot be used"),
        ({"weights": (1.0, float("nan"))}, "the weights of errors cannot be used"),
        ({"weights": (1.0, "a")}, "the weights of errors cannot be used"),
        ({"weights": 1.0}, "the weights of errors cannot be used"),
        ({"random_state": -1}, "random_state cannot be used"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        complete_similarity(ONES, ONES, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 1},
        {"lam": np.int64(1)},
        {"lam": np.float32(0.5)},
        {"n_clusters": np.int32(1)},
        {"max_iter": np.int64(50)},
        {"n_threads": np.uint8(1)},
        {"tol": np.float64(1e-4)},
        {"weights": [1, 2]},
        {"weights": np.array([1.0, 0.5])},
        {"random_state": np.random.default_rng(0)},
    ],
)
def test_numbers_of_numpy_are_numbers(options: dict[str, Any]) -> None:
    assert complete_similarity(ONES, ONES, **options).converged


def test_only_observed_entries_count() -> None:
    observed = changed(0, 1, 0)
    whole = np.full((3, 3), 0.5)
    for rubbish in (np.nan, -7.0, np.inf):
        Y = whole.copy()
        Y[0, 1] = rubbish
        problem = make_problem(Y, observed)
        assert problem.Y.tolist() == [0.5] * 7
        assert problem.indices.tolist() == [0, 2, 1, 2, 0, 1, 2]
        assert problem.rows.tolist() == [0, 0, 1, 1, 2, 2, 2]
        assert problem.on_diagonal.tolist() == [True, False, True, False, False, False, True]
        assert problem.mean_degree == pytest.approx(4 / 3)


def test_sparse_forms_mean_the_same() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        n = int(generator.integers(1, 12))
        half = generator.random((n, n)) < 0.4
        observed = half | half.T
        values = np.triu(generator.integers(0, 3, size=(n, n)) / 2)
        Y = np.where(observed, np.maximum(values, values.T), 0.0)
        dense = make_problem(Y, observed, (2.0, 3.0))
        shuffled = sparse.coo_array(Y)
        order = generator.permutation(shuffled.nnz)
        pieces = shuffled.data[order], (shuffled.row[order], shuffled.col[order])
        with_zeros = sparse.csr_array(observed.astype(float) + 1)
        with_zeros.data -= 1  # explicit zeros are no observations
        for other in (
            make_problem(sparse.csr_array(Y), sparse.csr_array(observed), (2.0, 3.0)),
            make_problem(sparse.coo_array(pieces, shape=(n, n)), sparse.csc_array(observed), (2.0, 3.0)),
            make_problem(sparse.lil_array(Y), with_zeros, (2.0, 3.0)),
            make_problem(Y.tolist(), observed.tolist(), (2.0, 3.0)),
        ):
            for name in ("indptr", "indices", "Y", "factor"):
                assert np.array_equal(getattr(dense, name), getattr(other, name)), name
        assert np.array_equal(dense.factor, np.where(dense.Y >= 0.5, 2.0, 3.0))
        chosen = generator.random(len(dense.Y)) < 0.5
        expected = dense.matrix(np.where(chosen, dense.Y + 1, 0.0)).toarray()
        assert np.array_equal(dense.part(chosen, dense.Y + 1).toarray(), expected)


def test_a_place_may_be_given_twice_in_coordinates() -> None:
    places = np.array([0, 0, 1]), np.array([0, 0, 1])
    twice = sparse.coo_array((np.array([0.25, 0.5, 1.0]), places), shape=(2, 2))
    assert make_problem(twice, sparse.coo_array((np.ones(3), places), shape=(2, 2))).Y.tolist() == [0.75, 1.0]
    assert twice.nnz == 3  # the caller's matrix is left as it was

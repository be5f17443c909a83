"""Completion of similarity matrices: what is found, what is proven, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_scores import planted_scores
from scipy import sparse

from robusttc.clustering import CompletionResult, complete_similarity, completion, make_planted_scores
from robusttc.clustering.completion import GAIN, complete_scores
from robusttc.clustering.solvers import Solution, solve_smooth
from robusttc.errors import DataError, UsageError

Matrix = NDArray[np.float64]
Loss = Literal["huber", "absolute", "squared"]
LOSSES: tuple[Loss, ...] = ("huber", "absolute", "squared")


def planted(n: int, seed: int, *, density: float, wrong: float) -> tuple[Matrix, Matrix, NDArray[np.bool_]]:
    """The truth (+1 within three groups, -1 between), what was measured, and where; both symmetric."""
    generator = np.random.default_rng(seed)
    group = generator.permutation(np.arange(n) % 3)
    truth = np.where(group[:, None] == group, 1.0, -1.0)
    flipped = np.triu(generator.random((n, n)) < wrong, 1)
    measured = np.triu(generator.random((n, n)) < density, 1)
    W = np.where(flipped | flipped.T, -truth, truth)
    return truth, W, measured | measured.T


def objective_of(found: CompletionResult, W: Matrix, measured: NDArray[np.bool_]) -> float:
    X = found.dense()
    left = np.abs(W - X)[measured]
    if found.loss == "absolute":
        loss = left
    elif found.loss == "squared":
        loss = left**2 / 2
    else:
        loss = np.where(left <= found.delta, left**2 / 2, found.delta * (left - found.delta / 2))
    return found.regularisation * float(np.abs(np.linalg.eigvalsh(X)).sum()) + float(loss.sum())


def check_result(found: CompletionResult, W: Matrix, measured: NDArray[np.bool_], tol: float) -> None:
    assert found.converged
    assert found.message == ""
    assert 0 <= found.gap <= tol
    assert found.objective == pytest.approx(objective_of(found, W, measured), rel=1e-6)
    assert found.rank == len(found.eigenvalues) == found.eigenvectors.shape[1]
    np.testing.assert_allclose(found.eigenvectors.T @ found.eigenvectors, np.eye(found.rank), atol=1e-8)
    if found.loss != "absolute":
        assert found.eigenvalues.min(initial=0.0) >= 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("regularisation", ["auto", 2.0])
def test_planted_groups_are_found(loss: Loss, seed: int, regularisation: Any) -> None:
    truth, W, measured = planted(30, seed, density=0.7, wrong=0.03)
    found = complete_similarity(W, measured, loss=loss, regularisation=regularisation)
    check_result(found, W, measured, 1e-5)
    hidden = ~measured & ~np.eye(30, dtype=np.bool_)
    X = found.dense()
    np.testing.assert_array_equal(X, X.T)
    agreement = (np.sign(X - np.mean(X)) == truth)[hidden].mean()
    assert agreement > 0.9
    if regularisation != "auto":
        assert found.regularisation == regularisation


@pytest.mark.parametrize("seed", range(3))
def test_robust_losses_mark_the_wrong_entries(seed: int) -> None:
    truth, W, measured = planted(30, seed, density=1.0, wrong=0.04)
    flipped = W * truth < 0
    W = np.where(flipped, 5 * W, W)
    found = complete_similarity(W, measured, loss="huber", delta=0.5, regularisation=2.0)
    outliers = found.outliers.toarray()
    wrong = flipped & measured
    assert (outliers[wrong] != 0).all()
    assert (outliers[~wrong & measured] != 0).mean() < 0.1
    left = W - found.dense()
    np.testing.assert_allclose(outliers[wrong], (left - 0.5 * np.sign(left))[wrong], atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_absolute_loss_leaves_exactly_the_wrong_entries(seed: int) -> None:
    truth, W, measured = planted(30, seed, density=1.0, wrong=0.03)
    Y, true_Y = (W + 1) / 2, (truth + 1) / 2
    measured |= np.eye(30, dtype=np.bool_)
    found = complete_similarity(Y, measured, loss="absolute", regularisation=np.sqrt(30), tol=1e-7)
    np.testing.assert_allclose(found.dense(), true_Y, atol=2e-3)
    large = np.abs(found.outliers.toarray()) > 0.5
    np.testing.assert_array_equal(large, true_Y != Y)


@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_huber_with_a_large_threshold_is_the_squared_loss(loss: Loss) -> None:
    _, W, measured = planted(20, 0, density=0.7, wrong=0.1)
    found = complete_similarity(W, measured, loss=loss, delta=100.0, regularisation=1.5, tol=1e-8)
    other = complete_similarity(W, measured, loss="squared", regularisation=1.5, tol=1e-8)
    assert found.objective == pytest.approx(other.objective, rel=1e-7)
    np.testing.assert_allclose(found.dense(), other.dense(), atol=1e-3)
    assert found.outliers.nnz == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_and_dense_input_are_the_same(loss: Loss) -> None:
    _, W, measured = planted(20, 1, density=0.5, wrong=0.05)
    hidden = np.where(measured, W, np.nan)  # what is not measured is not looked at
    dense = complete_similarity(hidden, measured, loss=loss, regularisation=2.0)
    thin = complete_similarity(
        sparse.coo_array(np.where(measured, W, 0.0)),
        sparse.csr_array(measured),
        loss=loss,
        regularisation=2.0,
    )
    np.testing.assert_array_equal(dense.dense(), thin.dense())


def test_the_result_depends_on_the_seed_alone() -> None:
    _, W, measured = planted(24, 2, density=0.4, wrong=0.1)
    first, second = (complete_similarity(W, measured, random_state=5) for _ in range(2))
    assert first.regularisation == second.regularisation
    np.testing.assert_array_equal(first.dense(), second.dense())


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_measured_gives_nothing(loss: Loss) -> None:
    found = complete_similarity(np.ones((5, 5)), np.zeros((5, 5)), loss=loss)
    assert found.rank == 0
    assert found.objective == 0
    assert not found.dense().any()
    assert found.dense().shape == (5, 5)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_task(loss: Loss) -> None:
    found = complete_similarity([[2.0]], [[1]], loss=loss, regularisation=0.25, tol=1e-8)
    expected = {"huber": 1.75, "squared": 1.75, "absolute": 2.0}[loss]
    assert found.dense()[0, 0] == pytest.approx(expected, abs=1e-3)


W4, ALL4 = np.ones((4, 4)), np.ones((4, 4), dtype=np.bool_)


def changed(value: float, *places: tuple[int, int]) -> Matrix:
    matrix = W4.copy()
    for place in places:
        matrix[place] = value
    return matrix


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("W", "measured", "words"),
    [
        (changed(np.nan, (1, 2), (2, 1)), ALL4, ["(1, 2)", "nan"]),
        (changed(np.inf, (0, 3), (3, 0)), ALL4, ["(0, 3)", "inf"]),
        (changed(-np.inf, (2, 2)), ALL4, ["(2, 2)", "-inf"]),
        (np.ones((4, 3)), np.ones((4, 3)), ["W", "(4, 3)"]),
        (np.ones(4), np.ones(4), ["W", "(4,)"]),
        (np.ones((0, 0)), np.ones((0, 0)), ["W", "(0, 0)"]),
        (W4, np.ones((4, 3)), ["measured", "(4, 3)"]),
        (W4, np.ones((5, 5)), ["(4, 4)", "(5, 5)"]),
        (W4, changed(np.nan, (0, 1), (1, 0)), ["measured", "nan"]),
        ([["a", "b"], ["c", "d"]], np.ones((2, 2)), ["W", "<U1"]),
        (np.ones((2, 2), dtype=np.complex128), np.ones((2, 2)), ["W", "complex128"]),
        ([[1.0, 2.0], [3.0]], np.ones((2, 2)), ["W"]),
    ],
)
def test_bad_matrices_are_refused(W: Any, measured: Any, words: list[str], loss: Loss) -> None:
    with pytest.raises(DataError) as caught:
        complete_similarity(W, measured, loss=loss)
    for word in words:
        assert word in str(caught.value)


def test_the_absolute_loss_refuses_asymmetry() -> None:
    with pytest.raises(DataError, match=r"\(1, 3\) and \(3, 1\).*W is not symmetric"):
        complete_similarity(changed(0.5, (1, 3)), ALL4, loss="absolute")
    pattern = ALL4.copy()
    pattern[2, 0] = False
    with pytest.raises(DataError, match=r"\(0, 2\) and \(2, 0\).*measured is not symmetric"):
        complete_similarity(W4, pattern, loss="absolute")
    for loss in ("huber", "squared"):
        found = complete_similarity(changed(0.5, (1, 3)), pattern, loss=loss, regularisation=0.5)
        assert found.converged


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "l1"}, ["loss", "'l1'", "huber"]),
        ({"delta": 0.0}, ["delta", "0.0"]),
        ({"delta": -1.0}, ["delta", "-1.0"]),
        ({"delta": float("nan")}, ["delta", "nan"]),
        ({"delta": True}, ["delta", "True"]),
        ({"delta": "1"}, ["delta", "'1'"]),
        ({"tol": 0}, ["tol", "0"]),
        ({"tol": float("inf")}, ["tol", "inf"]),
        ({"regularisation": 0.0}, ["regularisation", "0.0"]),
        ({"regularisation": -2}, ["regularisation", "-2"]),
        ({"regularisation": float("nan")}, ["regularisation", "nan"]),
        ({"regularisation": "cv"}, ["regularisation", "'cv'"]),
        ({"regularisation": True}, ["regularisation", "True"]),
        ({"random_state": -1}, ["random_state", "-1"]),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        complete_similarity(W4, ALL4, **options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("seed", range(2))
def test_folds_hold_out_both_directions_of_every_pair_once(seed: int) -> None:
    names = [f"task {number:02d}" for number in range(14)]
    scores = make_planted_scores(names, np.arange(14) % 2, density=0.9, random_state=seed)
    found = complete_scores(scores, seed=seed)
    seen = [
        set(zip(fold.held_rows.tolist(), fold.held_columns.tolist(), strict=True)) for fold in found.folds
    ]
    for fold, held in zip(found.folds, seen, strict=True):
        assert held == {(column, row) for row, column in held}
        assert not held & set(zip(fold.data.rows.tolist(), fold.data.columns.tolist(), strict=True))
    assert sum(len(held) for held in seen) == len(set().union(*seen)) == len(scores)
    alike = [error for setting, error in found.errors.items() if setting.debias == found.setting.debias]
    assert GAIN * found.errors[found.setting] <= min(alike)
    held_loss = np.concatenate([fold.errors(found.delta) for fold in found.folds]).mean()
    assert held_loss == pytest.approx(found.errors[found.setting], rel=1e-9)
    assert found.solution.gap <= 1e-5
    assert 0 < found.explained < 1


def test_fits_with_directions_of_noise_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = planted_scores(600, 5, 0.1, noise=0.07).scores
    monkeypatch.setattr(completion, "count_folds", lambda _n_pairs: 1)
    ranks: list[int] = []

    def noting(*arguments: Any, **options: Any) -> Solution:
        found = solve_smooth(*arguments, **options)
        ranks.append(found.factors.U.shape[1])
        return found

    def to_the_end(*arguments: Any, **options: Any) -> Solution:
        return noting(*arguments, **{**options, "give_up": None})

    chosen, most = [], []
    for solve in (noting, to_the_end):
        ranks.clear()
        monkeypatch.setattr(completion, "solve_roughly", partial(solve, **completion.solve_roughly.keywords))
        found = complete_scores(scores)
        chosen.append((found.setting, found.errors))
        most.append(max(ranks))
    assert chosen[0] == chosen[1]
    assert chosen[0][0].debias > 0
    assert most[0] < most[1] / 2

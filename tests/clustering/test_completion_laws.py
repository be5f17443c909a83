"""What holds for every similarity matrix, however odd."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_similarity import Planted, plant

from robusttc.clustering.old.completion.complete import complete_similarity
from robusttc.clustering.old.completion.result import CompletionResult
from robusttc.errors import DoubtWarning

Matrix = NDArray[np.float64]


def solve(Y: Matrix, observed: NDArray[np.bool_], lam: Any = "auto", **options: Any) -> CompletionResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        return complete_similarity(Y, observed, lam, **options)


def symmetric(matrix: NDArray[Any]) -> NDArray[Any]:
    upper = np.triu(matrix)
    return np.asarray(upper + np.triu(matrix, 1).T)


def random_pair(generator: np.random.Generator, n: int) -> tuple[Matrix, NDArray[np.bool_]]:
    """Entries without any structure, of which a share that itself is random is observed."""
    observed = symmetric(generator.random((n, n)) < generator.random())
    kind = generator.integers(3)
    values = generator.random((n, n)) if kind == 0 else generator.random((n, n)) < generator.random()
    return symmetric(np.asarray(values, dtype=np.float64)), observed


def check(result: CompletionResult, Y: Matrix, observed: NDArray[np.bool_]) -> None:
    X, E, Q = result.dense(), result.E.toarray(), result.dual.toarray()
    assert np.isfinite(X).all()
    assert np.isfinite(E).all()
    assert np.isfinite([result.objective, result.gap, result.lam, result.dual_norm]).all()
    assert np.array_equal(X, X.T)
    assert np.abs(E - E.T).max() < 1e-9
    assert not E[~observed].any()
    assert not Q[~observed].any()
    weight = result.lam * np.where(Y >= 0.5, result.weights[0], result.weights[1])
    assert (np.abs(Q) <= weight * (1 + 1e-12)).all()
    assert np.abs(np.linalg.eigvalsh(Q)).max() <= 1 + 1e-10
    objective = np.abs(np.linalg.eigvalsh(X)).sum() + (weight * np.abs(Y - X))[observed].sum()
    assert objective == pytest.approx(result.objective, rel=1e-6, abs=1e-9)
    if objective > 0:
        assert max((objective - (Q * Y).sum()) / objective, 0.0) == pytest.approx(result.gap, abs=1e-6)
    assert 0 <= result.gap <= 1 + 1e-9
    if result.rank == 0:
        assert "X is zero" in result.message
    if result.method == "spectral":
        assert "no lambda recovers" in result.message
    elif not result.converged:
        assert "certified gap" in result.message


@pytest.mark.parametrize("seed", range(20))
def test_any_matrix_gives_a_proven_answer(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(40):
        Y, observed = random_pair(generator, int(generator.integers(1, 9)))
        lam = float(10 ** generator.uniform(-3, 1))
        weights = tuple(10 ** generator.uniform(-0.5, 0.5, size=2))
        check(solve(Y, observed, lam, weights=weights, method="dense", max_iter=300), Y, observed)


@pytest.mark.parametrize("method", ["dense", "factored"])
@pytest.mark.parametrize("seed", range(10))
def test_any_matrix_gives_an_answer_with_lambda_found(seed: int, method: str) -> None:
    generator = np.random.default_rng(100 + seed)
    for _ in range(15):
        n = int(generator.integers(1, 13))
        Y, observed = random_pair(generator, n)
        k = None if generator.random() < 0.5 else int(generator.integers(1, 16))
        result = solve(Y, observed, n_clusters=k, method=method, max_iter=300 if method == "dense" else 15)
        check(result, Y, observed)
        lam = float(10 ** generator.uniform(-2, 0.5))
        check(solve(Y, observed, lam, n_clusters=k, method=method, max_iter=15), Y, observed)


def two_components(n: int) -> tuple[Matrix, NDArray[np.bool_]]:
    data = plant([n - n // 2], degree=1000, flips=0.1, seed=0)
    other = plant([n // 2], degree=1000, flips=0.1, seed=1)
    nothing = np.zeros((n - n // 2, n // 2))
    Y = np.block([[data.Y, nothing], [nothing.T, other.Y]])
    return Y, np.block([[data.observed, nothing], [nothing.T, other.observed]]).astype(bool)


def isolated(n: int) -> tuple[Matrix, NDArray[np.bool_]]:
    data = plant([n - n // 2, n // 2], degree=1000, flips=0.05, seed=0)
    alone = np.zeros(n, dtype=bool)
    alone[::3] = True
    observed = data.observed & ~alone[:, None] & ~alone[None, :] | np.eye(n, dtype=bool)
    return data.Y, observed


ODD: dict[str, Callable[[int], tuple[Matrix, NDArray[np.bool_]]]] = {
    "nothing observed": lambda n: (np.ones((n, n)), np.zeros((n, n), dtype=bool)),
    "only the diagonal": lambda n: (np.eye(n), np.eye(n, dtype=bool)),
    "all ones": lambda n: (np.ones((n, n)), np.ones((n, n), dtype=bool)),
    "all zeros": lambda n: (np.zeros((n, n)), np.ones((n, n), dtype=bool)),
    "zeros but for the diagonal": lambda n: (np.eye(n), np.ones((n, n), dtype=bool)),
    "constant": lambda n: (np.full((n, n), 0.3), np.ones((n, n), dtype=bool)),
    "zero diagonal": lambda n: (1 - np.eye(n), np.ones((n, n), dtype=bool)),
    "one entry": lambda n: (np.ones((n, n)), np.arange(n * n).reshape(n, n) == 0),
    "two components": two_components,
    "isolated tasks": isolated,
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("n", [1, 2, 7, 30, 230])
def test_odd_matrices(name: str, n: int) -> None:
    Y, observed = ODD[name](n)
    for method in ("auto", "factored"):
        for k in (None, 2, n + 5):
            options: dict[str, Any] = {"method": method, "n_clusters": k, "max_iter": 30}
            if n > 200 and k is not None:
                continue  # slow, and the same as for 30 tasks
            check(solve(Y, observed, **options), Y, observed)
            check(solve(Y, observed, 0.2, **options), Y, observed)


def test_nothing_observed_is_zero_and_says_why() -> None:
    with pytest.warns(DoubtWarning, match="X is zero: no entry is observed"):
        result = complete_similarity(np.ones((4, 4)), np.zeros((4, 4)))
    assert result.converged
    with pytest.warns(DoubtWarning, match="X is zero: every observed entry is zero"):
        complete_similarity(np.zeros((4, 4)), np.ones((4, 4)))


@pytest.mark.parametrize("lam", [1e-300, 1e-12, 1e3, 1e9])
@pytest.mark.parametrize("method", ["dense", "factored"])
def test_extreme_lambdas(lam: float, method: str) -> None:
    data = plant([8, 8], degree=8, flips=0.1, seed=0)
    result = solve(data.Y, data.observed, lam, method=method, max_iter=40)
    assert np.isfinite(result.dense()).all()
    assert 0 <= result.gap <= 1


def permuted(data: Planted, order: NDArray[np.intp]) -> Planted:
    return Planted(data.Y[np.ix_(order, order)], data.observed[np.ix_(order, order)], data.labels[order])


@pytest.mark.parametrize("method", ["dense", "factored"])
@pytest.mark.parametrize("seed", range(5))
def test_permuting_tasks_permutes_the_answer(method: str, seed: int) -> None:
    data = plant([20, 15, 15], degree=20, flips=0.05, seed=seed)
    order = np.random.default_rng(seed).permutation(50)
    other = permuted(data, order)
    first = solve(data.Y, data.observed, tol=1e-7, method=method)
    second = solve(other.Y, other.observed, tol=1e-7, method=method)
    assert first.converged
    assert first.lam == pytest.approx(second.lam)
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
    assert np.abs(first.dense()[np.ix_(order, order)] - second.dense()).max() < 1e-2


def test_the_input_is_left_as_it_was() -> None:
    from scipy import sparse

    data = plant([10, 10], degree=8, flips=0.1, seed=0)
    Y, observed = sparse.csr_array(data.Y), sparse.csr_array(data.observed.astype(float))
    before = Y.toarray(), observed.toarray()
    for method in ("dense", "factored"):
        solve(Y, observed, 0.3, method=method)  # type: ignore[arg-type]
        assert np.array_equal(Y.toarray(), before[0])
        assert np.array_equal(observed.toarray(), before[1])

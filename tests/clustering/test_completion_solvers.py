"""The solvers against an independent one, and their proofs against plain linear algebra."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_similarity import Planted, plant

from robusttc.clustering.old.completion.complete import complete_similarity
from robusttc.clustering.old.completion.result import CompletionResult
from robusttc.errors import DoubtWarning


def solve(data: Planted, lam: Any, **options: Any) -> CompletionResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        return complete_similarity(data.Y, data.observed, lam, **options)


def weights_of(data: Planted, lam: float, weights: tuple[float, float]) -> NDArray[np.float64]:
    return np.where(data.observed, lam * np.where(data.Y >= 0.5, weights[0], weights[1]), 0.0)


def objective_of(X: NDArray[np.float64], data: Planted, lam: float, weights: tuple[float, float]) -> float:
    nuclear = np.linalg.svd(X, compute_uv=False).sum()
    return float(nuclear + (weights_of(data, lam, weights) * np.abs(data.Y - X)).sum())


def reference_objective(data: Planted, lam: float, weights: tuple[float, float]) -> float:
    cvxpy: Any = pytest.importorskip("cvxpy")
    n = len(data.Y)
    X = cvxpy.Variable((n, n), symmetric=True)
    errors = cvxpy.multiply(weights_of(data, lam, weights), data.Y - X)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(X) + cvxpy.sum(cvxpy.abs(errors))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cvxpy, about its own future
        problem.solve(solver="SCS", eps_abs=1e-8, eps_rel=1e-8, max_iters=100_000)
    return float(problem.value)


def check_proof(result: CompletionResult, data: Planted, tol: float = 1e-9) -> None:
    """Check the certificate with nothing but the data and dense matrices."""
    Q = result.dual.toarray()
    X = result.dense()
    weight = weights_of(data, result.lam, result.weights)
    objective = objective_of(X, data, result.lam, result.weights)
    assert np.abs(Q - Q.T).max() <= 1e-12
    assert not Q[~data.observed].any()
    assert (np.abs(Q) <= weight * (1 + 1e-12)).all()
    assert np.abs(np.linalg.eigvalsh(Q)).max() <= 1 + 1e-11
    assert objective == pytest.approx(result.objective, rel=1e-7)
    gap = (objective - float((Q * data.Y).sum())) / max(objective, 1e-300)
    assert gap == pytest.approx(result.gap, abs=1e-7)
    assert gap >= -tol
    if result.converged:
        assert gap <= 1.01e-5


INSTANCES = {
    "plain": (plant([10, 10, 10], degree=15, flips=0.1, seed=1), 0.25, (1.0, 1.0)),
    "imbalance": (plant([20, 8, 4], degree=20, flips=0.05, seed=2), 0.3, (1.0, 1.0)),
    "unequal weights": (plant([12, 12], degree=10, flips=0.15, seed=3), 0.3, (1.5, 0.6)),
    "much noise": (plant([9, 9, 9], degree=18, flips=0.35, seed=4), 0.35, (1.0, 1.0)),
    "everything observed": (plant([10, 15, 5], degree=1000, flips=0.1, seed=5), 0.2, (1.0, 1.0)),
    "hardly anything observed": (plant([15, 15], degree=3, flips=0.1, seed=6), 0.6, (1.0, 1.0)),
    "no diagonal": (plant([10, 14], degree=12, flips=0.1, seed=7, diagonal=False), 0.3, (1.0, 1.0)),
    "X is zero": (plant([10, 10], degree=10, flips=0.1, seed=8), 0.01, (1.0, 1.0)),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_objective_is_that_of_an_independent_solver(name: str) -> None:
    data, lam, weights = INSTANCES[name]
    expected = reference_objective(data, lam, weights)
    for method in ("dense", "factored"):
        result = solve(data, lam, weights=weights, method=method, tol=1e-7)
        check_proof(result, data)
        if result.converged:
            assert result.objective == pytest.approx(expected, rel=1e-6)
        else:  # a proof of less, but a true one
            assert method == "factored"
            assert expected * (1 - 1e-6) <= result.objective <= expected / (1 - result.gap) * (1 + 1e-6)


def two_sided() -> Planted:
    """Tasks of which each resembles those of the other side only: the spectrum is symmetric about 0."""
    Y = np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones((8, 8)))
    return Planted(Y, np.ones_like(Y, dtype=bool), np.repeat([0, 1], 8))


@pytest.mark.parametrize("flips", [0.0, 0.1])
@pytest.mark.parametrize("method", ["dense", "factored"])
def test_an_optimum_with_negative_eigenvalues(flips: float, method: str) -> None:
    data = two_sided()
    generator = np.random.default_rng(0)
    wrong = np.triu(generator.random(data.Y.shape) < flips)
    data = Planted(np.abs(data.Y - (wrong | wrong.T)), data.observed, data.labels)
    expected = reference_objective(data, 0.4, (1.0, 1.0))
    result = solve(data, 0.4, tol=1e-7, method=method, n_clusters=2)
    check_proof(result, data)
    if method == "dense":
        assert result.converged
        assert result.objective == pytest.approx(expected, rel=1e-6)
        assert result.eigenvalues.min() < -1
    else:  # starts from clusters, which are far from this; whatever it says must be true all the same
        assert expected * (1 - 1e-6) <= result.objective <= expected / (1 - result.gap) * (1 + 1e-6)


@pytest.mark.parametrize("method", ["dense", "factored"])
@pytest.mark.parametrize("seed", range(4))
def test_proof_holds_with_lambda_found(method: str, seed: int) -> None:
    data = plant([40, 30, 30], degree=25, flips=0.03, seed=seed)
    result = solve(data, "auto", method=method, random_state=seed)
    assert result.converged
    assert result.rank == 3
    check_proof(result, data)


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5])
@pytest.mark.parametrize("method", ["dense", "factored"])
def test_a_proof_of_an_unfinished_answer_is_true(method: str, max_iter: int) -> None:
    data = plant([30, 20], degree=15, flips=0.1, seed=1)
    result = solve(data, 0.25, method=method, max_iter=max_iter)
    check_proof(result, data)
    if not result.converged:
        assert "certified gap" in result.message


def test_lambda_above_the_window_is_solved_and_proven() -> None:
    data = plant([75] * 4, degree=60, flips=0.1, seed=3)
    result = solve(data, 1.1 / np.sqrt(60), method="factored")
    check_proof(result, data)
    assert result.rank > 4
    assert result.converged


@pytest.mark.parametrize("method", ["dense", "factored"])
def test_x_is_zero_up_to_the_limit_and_says_so(method: str) -> None:
    data = plant([20, 20], degree=12, flips=0.05, seed=0)
    limit = 1 / np.linalg.norm(data.Y, 2)
    for lam in (0.01 * limit, 0.9 * limit):
        result = solve(data, lam, method=method)
        assert result.rank == 0
        assert not result.dense().any()
        assert result.converged
        assert "X is zero" in result.message
        check_proof(result, data)
    assert solve(data, 6 * limit, method=method).rank > 0


@pytest.mark.parametrize("method", ["dense", "factored"])
def test_errors_are_the_wrong_entries(method: str) -> None:
    data = plant([30, 30], degree=30, flips=0.03, seed=0)
    result = solve(data, "auto", method=method, tol=1e-7)
    E = result.E.toarray()
    assert not E[~data.observed].any()
    assert np.abs(np.where(data.observed, data.Y - result.dense() - E, 0.0)).max() < 1e-3
    truth = (data.labels[:, None] == data.labels[None, :]).astype(np.float64)
    wrong = data.observed & (truth != data.Y)
    assert (np.abs(E[wrong]) > 0.3).all()
    assert np.abs(E[data.observed & ~wrong]).mean() < 0.1


def test_threads_and_repetition_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from robusttc.clustering.old.completion import factored

    monkeypatch.setattr(factored, "ROWS_A_BLOCK", 64)  # so that there is something to share
    data = plant([100, 100, 150], degree=25, flips=0.05, seed=0)
    first = solve(data, "auto", n_threads=1, random_state=5)
    for n_threads in (1, 2):
        again = solve(data, "auto", n_threads=n_threads, random_state=5)
        assert again.method == "factored"
        assert np.array_equal(first.eigenvectors, again.eigenvectors)
        assert np.array_equal(first.eigenvalues, again.eigenvalues)
        assert np.array_equal(first.dual.toarray(), again.dual.toarray())
        assert (first.gap, first.lam) == (again.gap, again.lam)


def test_a_first_clustering_can_be_given() -> None:
    from robusttc.clustering.old.completion.complete import solve_problem
    from robusttc.clustering.old.completion.problem import make_problem
    from robusttc.clustering.old.start import first_clustering

    data = plant([20, 20], degree=15, flips=0.05, seed=0)
    problem = make_problem(data.Y, data.observed)
    found = solve(data, "auto", method="factored")
    given = solve_problem(
        problem,
        "auto",
        tol=1e-5,
        method="factored",
        weights=(1.0, 1.0),
        n_clusters=None,
        max_iter=None,
        n_threads=1,
        seed=0,
        start=first_clustering(problem, None, 0),
    )
    assert np.array_equal(found.dense(), given.dense())
    assert found.n == 40
    assert found.n_iter == len(found.history) == given.n_iter


def test_seeds_agree_on_the_optimum() -> None:
    data = plant([100, 100, 150], degree=25, flips=0.05, seed=0)
    results = [solve(data, 0.2, random_state=seed, tol=1e-6, method="factored") for seed in range(3)]
    for result in results:
        assert result.objective == pytest.approx(results[0].objective, rel=2e-6)
        assert np.abs(result.dense() - results[0].dense()).max() < 1e-2


def test_sparse_and_dense_input_give_the_same_answer() -> None:
    from scipy import sparse

    data = plant([20, 20], degree=12, flips=0.05, seed=0)
    dense = complete_similarity(data.Y, data.observed, 0.3)
    for form in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix):
        other = complete_similarity(form(data.Y), form(data.observed), 0.3)
        assert np.array_equal(dense.dense(), other.dense())


def test_an_empty_window_gives_the_spectral_answer_and_says_so() -> None:
    for method, n_clusters in (("dense", 5), ("factored", 5), ("factored", 16)):
        data = plant([20] * n_clusters, degree=6, flips=0.2, seed=0)
        options: dict[str, Any] = {"method": method, "n_clusters": n_clusters}
        with pytest.warns(DoubtWarning, match="no lambda recovers these clusters"):
            result = complete_similarity(data.Y, data.observed, **options)
        assert result.method == "spectral"
        assert not result.converged
        assert result.window is not None
        assert result.window.is_empty
        check_proof(result, data)
        assert sorted(set(result.dense().ravel().round(9))) == [0.0, 1.0]


@pytest.mark.parametrize("method", ["dense", "factored"])
def test_merged_clusters_are_not_passed_over(method: str) -> None:
    """With few zeros, one block of ones is as cheap as several, and a few bridges merge them."""
    data = plant([30, 30, 30, 30], degree=40, flips=0.05, seed=0)
    only_positives = Planted(data.Y, data.observed & (data.Y == 1), data.labels)
    result = solve(only_positives, "auto", method=method, n_clusters=4)
    check_proof(result, only_positives)
    assert result.rank == 1
    assert "X has rank 1 where the first clustering found 4 clusters" in result.message


def test_a_measured_window_lowers_lambda() -> None:
    data = plant([100] * 5, degree=60, flips=0.1, seed=0)
    result = solve(data, "auto", method="factored")
    check_proof(result, data)
    assert result.converged
    assert result.window is not None
    assert result.window.low < result.lam < result.window.high


def test_the_number_of_lambdas_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lambda that is reported is the one that was solved for."""
    from robusttc.clustering.old.completion import complete

    monkeypatch.setattr(complete, "MAX_LAMBDAS", 1)
    monkeypatch.setattr(complete, "HIGHEST_NORM", 0.1)
    data = plant([100] * 3, degree=60, flips=0.1, seed=0)
    result = solve(data, "auto", method="factored", tol=1e-9, max_iter=4)
    assert not result.converged
    check_proof(result, data)


def test_compiled_loops_agree_with_plain_algebra() -> None:
    """The loops run as plain Python here, which is how their lines are seen to be covered."""
    from robusttc.clustering.old.completion import kernels
    from robusttc.clustering.old.completion.problem import make_problem

    data = plant([6, 5], degree=7, flips=0.2, seed=0)
    problem = make_problem(data.Y, data.observed)
    generator = np.random.default_rng(0)
    n, r, mu = problem.n, 3, 0.7
    U, V = generator.standard_normal((2, n, r))
    signs = np.array([1.0, -1.0, 1.0])
    weight = 0.3 * problem.factor
    old_Q = problem.part(np.ones(len(problem.Y), dtype=bool), 0.1 * problem.Y).data
    where = 0, n, problem.indptr, problem.indices

    def lagrangian(U: Any) -> float:
        """Give the augmented Lagrangian, with the best errors put in."""
        residual = problem.Y - ((U * signs) @ U.T)[problem.rows, problem.indices]
        shifted = residual + old_Q / mu
        error = np.sign(shifted) * np.maximum(np.abs(shifted) - weight / mu, 0.0)
        rest = residual - error
        return float((U**2).sum() + (weight * np.abs(error) + old_Q * rest + mu / 2 * rest**2).sum())

    def plain(kernel: Any) -> Any:
        return kernel.py_func

    for version in (plain, lambda kernel: kernel):
        new_Q, gradient, product = np.empty_like(problem.Y), np.empty_like(U), np.empty_like(U)
        value = version(kernels.gradient_rows)(
            *where, problem.Y, weight, old_Q, U, signs, mu, new_Q, gradient
        )
        assert value == pytest.approx(lagrangian(U))
        step = 1e-6
        slope = (lagrangian(U + step * V) - lagrangian(U - step * V)) / (2 * step)
        assert 2 * float((gradient * V).sum()) == pytest.approx(slope, rel=1e-5)
        version(kernels.hessian_rows)(*where, weight, new_Q, U, signs, V, mu, product)
        curvature = (lagrangian(U + 1e-4 * V) - 2 * lagrangian(U) + lagrangian(U - 1e-4 * V)) / 1e-8
        assert 2 * float((product * V).sum()) == pytest.approx(curvature, rel=1e-2)
        blocks = np.empty((n, r, r))
        version(kernels.curvature_blocks)(*where, weight, new_Q, U, mu, 0.3, blocks)
        is_free = problem.matrix(np.where(np.abs(new_Q) < weight, mu, 0.0)).toarray()
        expected = 0.3 * np.eye(r) + np.einsum("ij,ja,jb->iab", is_free, U, U)
        assert np.allclose(blocks, expected)
        X = (U * signs) @ U.T
        loss = version(kernels.loss_rows)(*where, problem.Y, weight, U, signs)
        assert loss == pytest.approx(float(weight @ np.abs(problem.Y - X[problem.rows, problem.indices])))
        values = np.empty_like(problem.Y)
        version(kernels.values_at)(*where, U, signs, values)
        assert np.allclose(values, X[problem.rows, problem.indices])


def test_a_solver_without_a_round_is_a_fault_of_the_caller() -> None:
    from robusttc.clustering.old.completion.dense import solve_dense
    from robusttc.clustering.old.completion.factored import solve_factored
    from robusttc.clustering.old.completion.problem import make_problem

    problem = make_problem(np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(AssertionError):
        solve_dense(problem, 1.0, max_iter=0)
    with pytest.raises(AssertionError):
        solve_factored(problem, 1.0, np.ones((2, 1)), np.random.default_rng(0), max_iter=0)

"""The solvers of the completion program against an independent one, and their certificates."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from robusttc.clustering import certificate, solvers
from robusttc.clustering.certificate import bound_largest
from robusttc.clustering.problem import Factors, Penalties, Problem, make_problem
from robusttc.clustering.solvers import Solution, solve_absolute, solve_smooth

Matrix = NDArray[np.float64]

ALL_PARTS = Penalties(positive=1.5, negative=2.0, skew=1.8, row=3.0, column=4.0, delta=0.7)
PARTS = {
    "all": ALL_PARTS,
    "positive": Penalties(positive=1.2, delta=0.5),
    "squared": Penalties(positive=1.2, negative=1.5, delta=np.inf),
    "effects": Penalties(positive=1.0, row=2.0, column=0.5, delta=0.3),
    "skew": Penalties(positive=2.0, skew=1.0, delta=1.0),
}


def random_problem(n: int, seed: int, *, n_features: int = 0, density: float = 0.7) -> Problem:
    """Two groups, donors, directed noise and a few outliers, with weights; asymmetric pattern."""
    generator = np.random.default_rng(seed)
    group = np.arange(n) % 2
    W = np.where(group[:, None] == group, 1.0, -0.8) + generator.normal(0, 0.6, (n, n))
    W += generator.normal(0, 0.7, n)[:, None]
    planted = generator.normal(size=(n, 2))
    W += np.outer(planted[:, 0], planted[:, 1]) - np.outer(planted[:, 1], planted[:, 0])
    W[generator.random((n, n)) < 0.05] += 6.0
    rows, columns = np.nonzero(generator.random((n, n)) < density)
    order = generator.permutation(len(rows))  # make_problem sorts
    rows, columns = rows[order], columns[order]
    weights = generator.uniform(0.3, 2.0, len(rows))
    basis = None
    if n_features:
        features = generator.normal(size=(n, n_features))
        basis = sparse.csr_array(np.hstack([np.sqrt(0.6) * np.eye(n), np.sqrt(0.4) * features]))
    return make_problem(n, rows, columns, W[rows, columns], weights, basis=basis)


def dense_basis(problem: Problem) -> Matrix:
    return np.eye(problem.n) if problem.basis is None else np.asarray(problem.basis.toarray())


def solve_scs(objective: Any, constraints: list[Any]) -> float:
    cvxpy: Any = pytest.importorskip("cvxpy")
    program = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cvxpy, about its own future
        program.solve(solver="SCS", eps_abs=1e-8, eps_rel=1e-8, max_iters=100_000)
    assert program.status == "optimal"
    return float(program.value)


def reference_smooth(problem: Problem, pay: Penalties) -> float:
    """The optimum of the smooth program, from its definition, by SCS."""
    cvxpy: Any = pytest.importorskip("cvxpy")
    B = dense_basis(problem)
    m = B.shape[1]
    rows, columns = problem.rows, problem.indices
    ones = np.ones((1, problem.n))
    positive = cvxpy.Variable((m, m), PSD=True)
    prediction, cost, constraints = B @ positive @ B.T, pay.positive * cvxpy.trace(positive), []
    if np.isfinite(pay.negative):
        negative = cvxpy.Variable((m, m), PSD=True)
        prediction = prediction - B @ negative @ B.T
        cost += pay.negative * cvxpy.trace(negative)
    if np.isfinite(pay.skew):
        skew = cvxpy.Variable((m, m))
        constraints.append(skew == -skew.T)
        prediction = prediction + B @ skew @ B.T
        cost += pay.skew * cvxpy.normNuc(skew)
    if np.isfinite(pay.row):
        a = cvxpy.Variable((m, 1))
        prediction = prediction + (B @ a) @ ones
        cost += pay.row / 2 * cvxpy.sum_squares(a)
    if np.isfinite(pay.column):
        b = cvxpy.Variable((m, 1))
        prediction = prediction + ones.T @ (B @ b).T
        cost += pay.column / 2 * cvxpy.sum_squares(b)
    left = problem.values - prediction[rows, columns]
    loss = cvxpy.square(left) if np.isinf(pay.delta) else cvxpy.huber(left, pay.delta)  # twice H
    return solve_scs(cost + 0.5 * cvxpy.sum(cvxpy.multiply(problem.weights, loss)), constraints)


def objective_of(problem: Problem, pay: Penalties, factors: Factors) -> float:
    """The value of the program at a point, with nuclear norms by singular values."""
    B = dense_basis(problem)
    parts = [
        (pay.positive, factors.U @ factors.U.T),
        (pay.negative, -factors.V @ factors.V.T),
        (pay.skew, factors.P @ factors.Q.T - factors.Q @ factors.P.T),
    ]
    total, prediction = 0.0, np.zeros((problem.n, problem.n))
    for penalty, part in parts:
        if np.isfinite(penalty):
            total += penalty * float(np.linalg.svd(part, compute_uv=False).sum())
            prediction += B @ part @ B.T
        else:
            assert not part.any()
    for penalty, effect, axis in ((pay.row, factors.a, 1), (pay.column, factors.b, 0)):
        if np.isfinite(penalty):
            total += penalty / 2 * float(effect @ effect)
            prediction += np.expand_dims(B @ effect, axis)
        else:
            assert not effect.any()
    left = np.abs(problem.values - prediction[problem.rows, problem.indices])
    small = left <= pay.delta
    loss = np.where(small, left**2 / 2, 0.0)
    if np.isfinite(pay.delta):
        loss = np.where(small, loss, pay.delta * (left - pay.delta / 2))
    return total + float(problem.weights @ loss)


def check_certificate(problem: Problem, pay: Penalties, found: Solution) -> None:
    """Recompute the proof from the dual and the data, densely."""
    B = dense_basis(problem)
    G = np.zeros((problem.n, problem.n))
    G[problem.rows, problem.indices] = found.scale * found.dual
    on_entries = G[problem.rows, problem.indices]
    assert 0 <= found.scale <= 1
    assert (np.abs(on_entries) <= problem.weights * pay.delta * (1 + 1e-12)).all()
    symmetric, skew = B.T @ (G + G.T) @ B / 2, B.T @ (G - G.T) @ B / 2
    eigenvalues = np.linalg.eigvalsh(symmetric)
    assert eigenvalues[-1] <= pay.positive * (1 + 1e-9)
    assert -eigenvalues[0] <= pay.negative * (1 + 1e-9)
    assert np.linalg.svd(skew, compute_uv=False)[0] <= pay.skew * (1 + 1e-9)
    value = float(on_entries @ problem.values) - float(np.sum(on_entries**2 / (2 * problem.weights)))
    value -= float(np.sum((B.T @ G.sum(axis=1)) ** 2)) / (2 * pay.row)
    value -= float(np.sum((B.T @ G.sum(axis=0)) ** 2)) / (2 * pay.column)
    objective = objective_of(problem, pay, found.factors)
    # The factors bound the nuclear norms from above: with a gap, the objective may be a little too large.
    assert objective <= found.objective * (1 + 1e-8)
    assert objective >= found.objective * (1 - found.gap - 1e-8)
    assert value <= objective * (1 + 1e-12)
    assert (found.objective - value) / found.objective == pytest.approx(found.gap, abs=1e-9)


@pytest.mark.parametrize(
    ("parts", "n", "seed"),
    [
        ("all", 12, 0),
        ("all", 20, 1),
        ("all", 9, 2),
        ("positive", 15, 3),
        ("squared", 15, 4),
        ("effects", 15, 5),
        ("skew", 12, 6),
    ],
)
def test_smooth_program_agrees_with_scs(parts: str, n: int, seed: int) -> None:
    problem, pay = random_problem(n, seed), PARTS[parts]
    found = solve_smooth(problem, pay, tol=1e-7)
    assert found.converged
    assert found.gap <= 1e-7
    check_certificate(problem, pay, found)
    assert found.objective == pytest.approx(reference_smooth(problem, pay), rel=1e-5)


@pytest.mark.parametrize(("parts", "seed"), [("all", 0), ("all", 1), ("positive", 2), ("effects", 3)])
def test_smooth_program_with_features_agrees_with_scs(parts: str, seed: int) -> None:
    problem, pay = random_problem(9, seed, n_features=3), PARTS[parts]
    found = solve_smooth(problem, pay, tol=1e-7)
    assert found.converged
    assert len(found.factors.U) == problem.n_coordinates == 12
    check_certificate(problem, pay, found)
    assert found.objective == pytest.approx(reference_smooth(problem, pay), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_features", [0, 4])
def test_certificate_holds_at_every_tolerance(seed: int, n_features: int) -> None:
    problem = random_problem(20, seed, n_features=n_features)
    best = solve_smooth(problem, ALL_PARTS, tol=1e-8)
    for tol in (1e-1, 1e-3, 1e-5):
        found = solve_smooth(problem, ALL_PARTS, tol=tol)
        assert found.gap <= tol
        check_certificate(problem, ALL_PARTS, found)
        # The bound of a rough solution is below the optimum, and its objective above.
        assert found.objective * (1 - found.gap) <= best.objective * (1 + 1e-12)
        assert found.objective >= best.objective * (1 - 1.1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_an_early_stop_says_how_far_it_came(seed: int) -> None:
    problem = random_problem(40, seed)
    found = solve_smooth(problem, ALL_PARTS, tol=1e-9, max_rounds=1)
    assert not found.converged
    assert found.gap > 1e-9
    check_certificate(problem, ALL_PARTS, found)


@pytest.mark.parametrize("seed", range(3))
def test_another_start_gives_the_same_optimum(seed: int) -> None:
    problem = random_problem(30, seed)
    cold = solve_smooth(problem, ALL_PARTS, tol=3e-7)
    generator = np.random.default_rng(seed)
    U, V, P, Q = (generator.normal(size=(30, width)) for width in (3, 2, 4, 4))
    start = Factors(U, V, P, Q, generator.normal(size=30), generator.normal(size=30))
    warm = solve_smooth(problem, ALL_PARTS, start=start, tol=3e-7)
    assert warm.converged
    assert warm.objective == pytest.approx(cold.objective, rel=2e-7)
    rows, columns = problem.rows.astype(np.int64), problem.indices.astype(np.int64)
    assert np.abs(warm.factors.predict(rows, columns) - cold.factors.predict(rows, columns)).max() < 0.05


def test_a_penalty_above_the_spectrum_leaves_nothing() -> None:
    problem = random_problem(20, 0)
    pay = Penalties(positive=1e4, negative=1e4, skew=1e4, delta=1.0)
    found = solve_smooth(problem, pay)
    assert found.converged
    assert not any(part.size for part in (found.factors.U, found.factors.V, found.factors.P))


def binary_problem(n: int, seed: int, density: float) -> Problem:
    """A symmetric 0/1 matrix with planted blocks, a tenth of it wrong; the diagonal is 1."""
    generator = np.random.default_rng(seed)
    group = generator.integers(0, 3, n)
    flipped = np.triu(generator.random((n, n)) < 0.1, 1)
    Y = ((group[:, None] == group) ^ (flipped | flipped.T)).astype(np.float64)
    known = np.triu(generator.random((n, n)) < density, 1)
    np.fill_diagonal(Y, 1.0)
    rows, columns = np.nonzero(known | known.T | np.eye(n, dtype=np.bool_))
    return make_problem(n, rows, columns, Y[rows, columns])


def absolute_objective(problem: Problem, tau: float, found: Solution) -> float:
    X = found.factors.U @ found.factors.U.T - found.factors.V @ found.factors.V.T
    left = problem.values - X[problem.rows, problem.indices]
    return tau * float(np.abs(np.linalg.eigvalsh(X)).sum()) + float(np.abs(left).sum())


def check_absolute(problem: Problem, tau: float, found: Solution) -> None:
    G = problem.matrix(found.scale * found.dual).toarray()
    assert np.abs(G).max() <= 1 + 1e-12
    assert np.abs(np.linalg.eigvalsh((G + G.T) / 2)).max() <= tau * (1 + 1e-9)
    objective = absolute_objective(problem, tau, found)
    value = float(np.sum(found.scale * found.dual * problem.values))
    assert objective == pytest.approx(found.objective, rel=1e-7)
    assert 1 - value / found.objective == pytest.approx(found.gap, abs=1e-9)
    assert value <= objective * (1 + 1e-10)


# Small lambda (X = 0), middling ones, and a large one (X reproduces Y).
LAMBDAS = (0.01, 0.15, 0.3, 3.0)


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize(("n", "seed", "density"), [(14, 0, 1.0), (25, 1, 0.6)])
def test_absolute_loss_agrees_with_scs(n: int, seed: int, density: float, lam: float) -> None:
    cvxpy: Any = pytest.importorskip("cvxpy")
    problem = binary_problem(n, seed, density)
    found = solve_absolute(problem, 1 / lam, tol=1e-6)
    assert found.converged
    assert found.gap <= 1e-6
    check_absolute(problem, 1 / lam, found)
    X = cvxpy.Variable((n, n), symmetric=True)
    errors = problem.values - X[problem.rows, problem.indices]
    best = solve_scs(cvxpy.normNuc(X) / lam + cvxpy.norm1(errors), [])
    assert found.objective == pytest.approx(best, rel=3e-6)


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("seed", range(2))
def test_dense_and_factored_solvers_agree(seed: int, lam: float, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = binary_problem(30, seed, 0.5)
    dense = solve_absolute(problem, 1 / lam, tol=1e-6)
    monkeypatch.setattr(solvers, "MAX_DENSE_TASKS", 0)
    factored = solve_absolute(problem, 1 / lam, tol=1e-5)
    check_absolute(problem, 1 / lam, dense)
    check_absolute(problem, 1 / lam, factored)
    assert dense.gap <= 1e-6
    assert factored.converged == (factored.gap <= 1e-5)
    assert factored.gap <= 1e-3
    assert dense.objective * (1 - dense.gap) <= factored.objective * (1 + 1e-12)
    assert factored.objective * (1 - factored.gap) <= dense.objective * (1 + 1e-12)


def random_symmetric(n: int, seed: int) -> sparse.csr_array:
    """Sparse, with a few large eigenvalues in half of the cases."""
    generator = np.random.default_rng(seed)
    dense = np.where(generator.random((n, n)) < 0.1, generator.normal(size=(n, n)), 0.0)
    if seed % 2:
        block = generator.random(n) < 0.2
        dense += 0.5 * np.outer(block, block)
    return sparse.csr_array((dense + dense.T) / 2)


def exact_largest(matrix: sparse.csr_array) -> float:
    return float(np.linalg.eigvalsh(matrix.toarray())[-1])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("branch", ["dense", "cholesky", "lanczos"])
@pytest.mark.parametrize("share", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("with_basis", [False, True])
def test_the_bound_is_never_below_the_largest_eigenvalue(
    branch: str, seed: int, share: float, with_basis: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = random_symmetric(60 + 25 * seed, seed)
    largest = exact_largest(matrix)
    if branch != "dense":
        monkeypatch.setattr(certificate, "MAX_DENSE", 0)
    if branch == "lanczos":
        monkeypatch.setattr(certificate, "MAX_CHOLESKY", 0)
    slack = 1e-6 if branch == "cholesky" else 0.02
    generator = np.random.default_rng(seed)
    leading = np.linalg.eigh(matrix.toarray())[1][:, -3:] if with_basis else np.zeros((matrix.shape[0], 0))
    found = bound_largest(matrix, share * largest, leading, slack=slack, generator=generator)
    assert found.upper >= largest * (1 - 1e-12)
    assert np.isfinite(found.upper)
    if branch == "dense":
        assert found.upper == pytest.approx(largest, rel=1e-11)
    if share >= 1.0 and (with_basis or share > 1.0):  # then nothing is missing, and that can be proven
        assert found.upper <= share * largest * (1 + 1.01 * slack)
    if not with_basis and share == 0.3:  # then the largest eigenvectors are missing, and are found
        assert found.values[0] == pytest.approx(largest, rel=1e-2)
        vector = found.vectors[:, 0]
        assert vector @ (matrix @ vector) == pytest.approx(found.values[0], rel=1e-6)
        assert np.linalg.norm(vector) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_cholesky_tells_a_limit_below_from_one_above(seed: int) -> None:
    matrix = random_symmetric(80, seed)
    largest = exact_largest(matrix)
    assert certificate.is_below(matrix, largest * (1 + 1e-9))
    assert not certificate.is_below(matrix, largest * (1 - 1e-9))


@pytest.mark.parametrize("seed", range(4))
def test_a_poor_subspace_does_not_break_the_lanczos_bound(seed: int) -> None:
    matrix = random_symmetric(120, seed)
    generator = np.random.default_rng(seed)
    basis = np.linalg.qr(generator.normal(size=(120, 3)))[0]  # holds no eigenvector
    largest = exact_largest(matrix)
    spectrum = certificate.run_lanczos(matrix, largest, basis, 0.1, generator, False)
    assert largest <= spectrum.upper < np.inf


def wrong_bases(matrix: sparse.csr_array, seed: int) -> dict[str, Matrix]:
    vectors = np.linalg.eigh(matrix.toarray())[1]
    turned = vectors[:, -3:] + 0.3 * np.random.default_rng(seed).normal(size=(len(vectors), 3)) / np.sqrt(
        len(vectors)
    )
    return {
        "the smallest": vectors[:, :4],
        "all but the largest": vectors[:, -5:-1],
        "turned": np.linalg.qr(turned)[0],
        "one axis": np.eye(len(vectors))[:, :1],
        "none": vectors[:, :0],
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.7, 1.0, 1.5])
def test_a_wrong_basis_makes_no_wrong_bound(seed: int, share: float) -> None:
    matrix = random_symmetric(150, seed)
    largest = exact_largest(matrix)
    for name, basis in wrong_bases(matrix, seed).items():
        generator = np.random.default_rng(seed)
        proven = certificate.run_lanczos(matrix, share * largest, basis, 0.05, generator, False)
        assert proven.upper >= largest * (1 - 1e-12), name
        if len(proven.values):  # what it finds is orthogonal to the basis
            np.testing.assert_allclose(basis.T @ proven.vectors, 0.0, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_an_estimate_is_near_the_largest_eigenvalue(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "MAX_DENSE", 0)
    matrix = random_symmetric(150, seed)
    largest = exact_largest(matrix)
    for name, basis in wrong_bases(matrix, seed).items():
        generator = np.random.default_rng(seed)
        found = bound_largest(matrix, largest, basis, slack=1e-3, generator=generator, estimate=True)
        assert found.upper > 0.98 * largest, name
        if name not in ("turned", "one axis"):  # eigenvectors have no residuals, which loosen the bound
            assert found.upper < 1.001 * largest, name

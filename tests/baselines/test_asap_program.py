from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize
from sklearn.metrics import adjusted_rand_score

from robusttc.baselines.asap import best_relation, loss_and_gradient, solve_asap, water_filling
from robusttc.clustering import cluster_points

Floats = NDArray[np.float64]


def planted(
    seed: int, *, n_groups: int = 3, n_each: int = 5, n_rows: int = 40, n_labels: int = 2, d: int = 10
) -> tuple[list[tuple[Floats, NDArray[np.int64]]], NDArray[np.int64]]:
    """Tasks whose true classifiers are one of a few directions, with a little of their own."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(n_groups, d, n_labels)) * 2
    groups = np.repeat(np.arange(n_groups), n_each)
    tasks = []
    for group in groups:
        weight = centres[group] + 0.2 * generator.normal(size=(d, n_labels))
        features = generator.normal(size=(n_rows, d))
        noise = generator.gumbel(size=(n_rows, n_labels))
        tasks.append((features, (features @ weight + noise).argmax(axis=1)))
    return tasks, groups


@pytest.mark.parametrize("seed", range(20))
def test_water_filling_is_the_minimum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 9))
    lengths = generator.gamma(1.0, size=n) * (generator.random(n) < 0.8)
    budget, floor = float(generator.uniform(0, n)), float(generator.uniform(0.01, 1))
    shares = water_filling(lengths, budget, floor)
    assert shares.min() >= 0
    assert shares.max() <= 1
    assert shares.sum() <= budget + 1e-9

    def value_of(m: Floats) -> float:
        return float((lengths**2 / (floor + m)).sum())

    def slope_of(m: Floats) -> Floats:
        return np.asarray(-(lengths**2) / (floor + m) ** 2)

    reference = optimize.minimize(
        value_of,
        np.full(n, budget / n).astype(np.float64),
        jac=slope_of,
        bounds=[(0.0, 1.0)] * n,
        constraints=optimize.LinearConstraint(np.ones((1, n)), -np.inf, budget),
        method="SLSQP",
        tol=1e-12,
    )
    value = value_of(shares)
    assert value <= reference.fun * (1 + 1e-7) + 1e-12
    if reference.success:
        assert value == pytest.approx(reference.fun, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_relation_is_better(seed: int) -> None:
    generator = np.random.default_rng(seed)
    weight = generator.normal(size=(7, 4))
    options = {"within": 0.2, "mean_penalty": 0.1}
    penalty, slope, relation = best_relation(weight, 2, **options)
    assert np.allclose(relation @ np.ones(7), 0, atol=1e-9)
    assert np.trace(relation) == pytest.approx(2)
    centred, mean = weight - weight.mean(axis=0), weight.mean(axis=0)

    def penalty_of(other: Floats) -> float:
        spread = np.trace(centred.T @ np.linalg.solve(0.2 * np.eye(7) + other, centred))
        return float((spread + 0.1 * 7 * mean @ mean) / 2)

    assert penalty_of(relation) == pytest.approx(penalty)
    step = 1e-6 * generator.normal(size=weight.shape)
    above, below = (best_relation(weight + sign * step, 2, **options)[0] for sign in (1, -1))
    assert above - below == pytest.approx(2 * (slope * step).sum(), rel=1e-5)
    for _ in range(200):
        # The projections on the means of three random clusters are relations that the program may take.
        groups = generator.permutation(np.arange(7) % 3)
        indicator = np.eye(3)[groups] / np.sqrt(np.bincount(groups))
        other = indicator @ indicator.T - 1 / 7
        share = generator.random()
        assert penalty_of(share * other + (1 - share) * relation) >= penalty - 1e-12


def test_the_gradient_is_that_of_the_loss() -> None:
    tasks, _ = planted(0, n_groups=2, n_each=1, n_rows=6, n_labels=3, d=4)
    generator = np.random.default_rng(1)
    weight, bias = generator.normal(size=(2, 12)), generator.normal(size=(2, 3))
    _, gradient, bias_gradient = loss_and_gradient(tasks, weight, bias)
    for array, own in ((weight, gradient), (bias, bias_gradient)):
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + 1e-5
            above = loss_and_gradient(tasks, weight, bias)[0]
            array[place] = kept - 1e-5
            below = loss_and_gradient(tasks, weight, bias)[0]
            array[place] = kept
            assert own[place] == pytest.approx((above - below) / 2e-5, abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_labels", [2, 4])
def test_planted_clusters_are_found(seed: int, n_labels: int) -> None:
    tasks, groups = planted(seed, n_labels=n_labels)
    solution = solve_asap(tasks, n_labels, n_clusters=3, penalty=0.02)
    assert solution.converged
    assert solution.objective < len(tasks) * np.log(n_labels)  # that of no weights
    values, vectors = np.linalg.eigh(solution.relation)
    assert values.min() >= -1e-9
    assert values.max() <= 1 + 1e-9
    labels = cluster_points(vectors[:, -2:] * values[-2:], 3, 0)
    assert adjusted_rand_score(groups, labels) == 1.0


def test_the_minimum_is_that_of_a_general_solver() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    tasks, _ = planted(3, n_groups=2, n_each=2, n_rows=12, d=3)
    n, d = len(tasks), 3
    solution = solve_asap(tasks, 2, n_clusters=2, penalty=0.1, within=0.2, mean_penalty=0.3, tol=1e-12)
    # For two labels W_0 = -W_1 = -v / 2 at the minimum, so every squared length is |v|^2 / 2.
    V, b = cvxpy.Variable((n, d)), cvxpy.Variable(n)
    M = cvxpy.Variable((n, n), PSD=True)
    centring = np.eye(n) - 1 / n
    loss = sum(
        cvxpy.sum(cvxpy.logistic(cvxpy.multiply(-(2 * codes - 1), features @ V[t] + b[t]))) / len(codes)
        for t, (features, codes) in enumerate(tasks)
    )
    spread = sum(cvxpy.matrix_frac(centring @ V[:, k], 0.2 * np.eye(n) + M) for k in range(d))
    penalty = 0.1 / 2 * (spread / 2 + 0.3 * n * cvxpy.sum_squares(np.ones((1, n)) / n @ V) / 2)
    problem = cvxpy.Problem(
        cvxpy.Minimize(loss + penalty), [M << np.eye(n), cvxpy.trace(M) <= 1, M @ np.ones(n) == 0]
    )
    problem.solve(solver=cvxpy.SCS, eps=1e-7, max_iters=50_000)
    assert solution.objective == pytest.approx(problem.value, rel=1e-4)
    assert np.allclose(solution.relation, M.value, atol=0.02)
    assert np.allclose(solution.weight[:, :, 1] - solution.weight[:, :, 0], V.value, atol=0.02)


def test_permuting_tasks_permutes_the_solution() -> None:
    tasks, _ = planted(2)
    order = np.random.default_rng(0).permutation(len(tasks))
    first, second = (
        solve_asap(rows, 2, n_clusters=3, penalty=0.01, tol=1e-11)
        for rows in (tasks, [tasks[place] for place in order])
    )
    assert np.allclose(first.relation[np.ix_(order, order)], second.relation, atol=1e-2)
    assert np.allclose(first.weight[order], second.weight, atol=1e-2)


def test_one_cluster_draws_all_tasks_to_their_mean() -> None:
    tasks, _ = planted(0)
    one = solve_asap(tasks, 2, n_clusters=1, penalty=0.01, within=1e-4)
    assert not one.relation.any()
    assert np.abs(one.weight - one.weight.mean(axis=0)).max() < 0.05 * np.abs(one.weight).max()

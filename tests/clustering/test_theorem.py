"""The quantities of the theorem: by hand, by brute force, and against what Eq. 2 really returns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.theorem import (
    cluster_basis,
    error_incoherence,
    incoherence,
    lambda_window,
    meets_conditions,
    partners_needed,
    signal_to_noise,
    theorem_interval,
)
from numpy.typing import NDArray
from planted_similarity import Planted, plant
from scipy import sparse

from robusttc.clustering import CompletionResult, complete_similarity
from robusttc.errors import DataError, UsageError

Matrix = NDArray[np.float64]
PARTITIONS = ([0, 0, 0, 1, 1, 1], [0, 1, 1, 1], [2, 2, 7, 7, 7, 7, 2, 5, 5], [0, 0, 0, 0, 0])


def as_observed(data: Planted) -> sparse.csr_array:
    """Y with its observed zeros stored."""
    rows, columns = np.nonzero(data.observed)
    return sparse.csr_array((data.Y[rows, columns], (rows, columns)), shape=data.Y.shape)


def solve(data: Planted, lam: float) -> CompletionResult:
    found = complete_similarity(data.Y, data.observed, regularisation=1 / lam, loss="absolute")
    assert found.converged
    return found


def error_of(data: Planted, lam: float) -> float:
    """The largest difference between X of Eq. 2 and the matrix of the planted clusters."""
    truth = data.labels[:, None] == data.labels
    return float(np.abs(solve(data, lam).dense() - truth).max())


@pytest.mark.parametrize("labels", PARTITIONS)
def test_the_basis_spans_the_matrix_of_the_clusters(labels: list[int]) -> None:
    U = cluster_basis(labels)
    np.testing.assert_allclose(U.T @ U, np.eye(len(set(labels))), atol=1e-12)
    X = (np.array(labels)[:, None] == labels).astype(float)
    np.testing.assert_allclose(U @ U.T @ X, X, atol=1e-12)


def test_coherences_of_clusters_follow_from_the_smallest() -> None:
    found = incoherence(cluster_basis([0, 1, 1, 1]))
    assert (found.n, found.rank) == (4, 2)
    assert found.mu_0 == pytest.approx(np.sqrt(2))
    assert found.mu_1 == pytest.approx(4 / np.sqrt(2))
    assert (found.xi_low, found.xi_high) == (1.0, 1.0)
    equal = incoherence(cluster_basis(np.arange(60) % 3))
    assert equal.mu_0 == pytest.approx(1)
    assert equal.mu_1 == pytest.approx(np.sqrt(3))
    assert equal.xi_low == pytest.approx(1 / np.sqrt(20))
    assert equal.n_entries == pytest.approx(9 * 60 * np.log(60) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_coherences_are_those_of_the_definition(seed: int) -> None:
    U = np.linalg.qr(np.random.default_rng(seed).normal(size=(9, 3)))[0]
    found = incoherence(U)
    # A1 and A2 of the paper, written out.
    projected = [np.linalg.norm(U @ U.T @ unit) for unit in np.eye(9)]
    assert found.mu_0 == pytest.approx(np.sqrt(9 / 3) * max(projected))
    assert found.mu_1 == pytest.approx(9 / np.sqrt(3) * np.abs(U @ U.T).max())


@pytest.mark.parametrize("labels", PARTITIONS)
def test_no_matrix_of_the_tangent_space_leaves_the_bounds(labels: list[int]) -> None:
    U, n = cluster_basis(labels), len(labels)
    found = incoherence(U)
    generator = np.random.default_rng(0)
    for _ in range(200):
        A, B = generator.normal(size=(2, n, U.shape[1])) * generator.integers(0, 2, size=(2, n, 1))
        N = U @ A.T + B @ U.T
        norm = np.linalg.norm(N, 2)
        if norm > 0:
            assert np.abs(N).max() / norm <= found.xi_high + 1e-12
    # The lower bound is reached by a matrix of the space.
    row = int(np.argmax(np.linalg.norm(U, axis=1)))
    N = np.outer(U @ U[row] / np.linalg.norm(U[row]), np.eye(n)[0])
    assert np.linalg.norm(N, 2) == pytest.approx(1)
    assert np.abs(N).max() == pytest.approx(found.xi_low)


def test_the_norm_of_errors_is_the_largest_of_all_signs() -> None:
    places = ([0, 0, 1, 2], [1, 2, 2, 3])
    norms = []
    for signs in product((-1.0, 0.5, 1.0), repeat=4):
        E = np.zeros((4, 4))
        E[places] = signs
        norms.append(np.linalg.norm(E + E.T, 2))
    E = np.zeros((4, 4))
    E[places] = [1.0, -1.0, 0.3, -0.3]
    E[1, 3] = E[3, 1] = 1e-4  # left over by a solver
    assert error_incoherence(E + np.triu(E, 1).T) == pytest.approx(max(norms))


def test_the_norm_of_many_errors() -> None:
    star = sparse.lil_array((600, 600))
    star[0, 1:] = -1.0
    star[1:, 0] = -1.0
    assert error_incoherence(star.tocsr()) == pytest.approx(np.sqrt(599))
    assert error_incoherence(np.zeros((3, 3))) == 0


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_the_interval_of_the_theorem_is_not_empty_where_its_polynomial_is_positive(rank: int) -> None:
    k, xi = rank, 0.2
    outcomes = set()
    for z in np.linspace(0.001, 1.5 / (4 * k + 5), 60):
        found = theorem_interval(xi, z / xi, k)
        is_open = z <= 1 / (4 * k + 5) and 1 - (7 * k + 9) * z + (10 * k**2 + 21 * k + 8) * z**2 > 0
        assert (found is not None) == is_open
        outcomes.add((is_open, z <= 1 / (4 * k + 5)))
        if found is not None:
            assert 0 < found[0] < found[1]
    # Condition 1 alone is not enough.
    assert outcomes == {(True, True), (False, True), (False, False)}


def test_the_interval_of_the_theorem_by_hand() -> None:
    low, high = theorem_interval(0.1, 0.2, 2) or (0.0, 0.0)
    assert low == pytest.approx((0.1 - 3 * 0.2 * 0.01) / (1 - 6 * 0.02))
    assert high == pytest.approx((1 - 13 * 0.02) / (4 * 0.2))
    assert theorem_interval(0.1, 0.0, 2) == (0.1, float("inf"))


def test_the_window_by_hand() -> None:
    # Tasks 0 and 1 are a cluster, 2 and 3 another; (0, 3) is wrong, (1, 2) is not observed.
    Y = np.array([[1.0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 1]])
    observed = np.ones((4, 4), dtype=bool)
    observed[1, 2] = observed[2, 1] = False
    data = Planted(Y, observed, np.array([4, 4, 9, 9]))
    low, high = lambda_window(as_observed(data), data.labels)
    assert low == pytest.approx(1 / 2)
    # 10 entries off the diagonal, 2 of them wrong.
    assert high == pytest.approx(1 / (2 * np.sqrt(2.5 * 0.2 / 0.8)))


def test_a_cluster_that_zeros_outweigh_has_no_window() -> None:
    labels = np.zeros(4, dtype=np.intp)
    apart = Planted(np.eye(4), np.ones((4, 4), dtype=bool), labels)
    assert lambda_window(as_observed(apart), labels)[0] == float("inf")
    unknown = Planted(np.eye(4), np.eye(4, dtype=bool), labels)
    assert lambda_window(as_observed(unknown), labels) == (1.0, float("inf"))


@pytest.mark.parametrize("sizes", [[6, 6], [5, 9, 7]])
def test_blocks_appear_in_x_at_the_lower_end(sizes: list[int]) -> None:
    data = plant(sizes, degree=sum(sizes), flips=0.0, seed=0)
    low, high = lambda_window(as_observed(data), data.labels)
    assert low == pytest.approx(1 / min(sizes))
    assert high == float("inf")
    smallest = data.labels == int(np.argmin(sizes))
    below = solve(data, 0.97 * low).dense()
    assert np.abs(below[np.ix_(smallest, smallest)]).max() < 1e-3
    assert error_of(data, 1.03 * low) < 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_the_window_tells_what_equation_two_returns(seed: int) -> None:
    data = plant([40, 40], degree=60, flips=0.1, seed=seed)
    low, high = lambda_window(as_observed(data), data.labels)
    assert (low, high) == pytest.approx((2 / (60 * 0.8), 0.5 * np.sqrt(9 / 60)), rel=0.2)
    assert np.abs(solve(data, 0.8 * low).dense()).max() < 0.5
    assert error_of(data, 0.8 * high) < 1e-3
    assert solve(data, 1.3 * high).rank > 2


@pytest.mark.parametrize("seed", range(4))
def test_an_exact_x_meets_the_conditions(seed: int) -> None:
    data = plant([20, 20], degree=24, flips=0.06, seed=seed)
    Y = as_observed(data)
    outcomes = set()
    for lam in (0.06, 0.09, 0.13, 0.18, 0.25, 0.35):
        is_exact = error_of(data, lam) < 1e-3
        is_met = bool(meets_conditions(Y, data.labels, lam).all())
        assert is_met or not is_exact
        outcomes.add((is_exact, is_met))
    assert len(outcomes) > 1


def test_the_conditions_by_hand() -> None:
    # Every pair of two clusters of three is observed.
    Y = np.kron(np.eye(2), np.ones((3, 3)))

    def met(changes: dict[tuple[int, int], float], lam: float) -> list[bool]:
        changed = np.asarray(Y, dtype=np.float64).copy()
        for (row, column), value in changes.items():
            changed[row, column] = changed[column, row] = value
        data = Planted(changed, np.ones((6, 6), dtype=bool), np.array([0, 0, 0, 1, 1, 1]))
        return [bool(one) for one in meets_conditions(as_observed(data), data.labels, lam)]

    assert met({}, 0.34) == [True] * 6
    assert met({}, 0.33) == [False] * 6
    # 0 and 1 lose two of their three votes each.
    assert met({(0, 1): 0.0}, 0.5) == [False, False, True, True, True, True]
    assert met({(0, 1): 0.0}, 1.0) == [True] * 6
    # A single wrong one is outvoted by two zeros, two are not.
    assert met({(0, 4): 1.0}, 0.34) == [True] * 6
    assert met({(0, 4): 1.0, (0, 5): 1.0}, 0.34) == [False, True, True, True, True, True]


def test_as_many_ones_as_zeros_in_another_cluster_are_too_many() -> None:
    rows, columns = [0, 1, 2, 3, 0, 1, 2, 3, 0, 2, 0, 3], [0, 1, 2, 3, 1, 0, 3, 2, 2, 0, 3, 0]
    values = [1.0] * 8 + [1.0, 1.0, 0.0, 0.0]
    Y = sparse.csr_array((values, (rows, columns)), shape=(4, 4))
    # Task 0 has a one and a zero among 2 and 3; 2 has nothing but a wrong one; nobody asked 1.
    assert meets_conditions(Y, [0, 0, 1, 1], 1.0).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("k", "flips", "partners", "expected"),
    [(3, 0.05, 25, 6.4), (3, 0.2, 15, 1.5), (5, 0.1, 60, 5.9), (5, 0.2, 25, 1.1), (10, 0.05, 100, 5.8)],
)
def test_the_signal_of_the_experiments(k: int, flips: float, partners: float, expected: float) -> None:
    assert signal_to_noise(k, partners, flips) == pytest.approx(expected, abs=0.051)


@pytest.mark.parametrize(("k", "flips"), [(2, 0.0), (3, 0.1), (7, 0.3)])
def test_the_signal_is_that_of_the_expected_matrix(k: int, flips: float) -> None:
    # Expected ones of a task of each cluster among the tasks of each cluster.
    expected = 30 / k * np.where(np.eye(k) > 0, 1 - flips, flips)
    values = np.sort(np.linalg.eigvalsh(expected))
    assert signal_to_noise(k, 30, flips) == pytest.approx(values[-2] ** 2 / values[-1])


@pytest.mark.parametrize(
    ("n", "k", "flips"), [(1491, 2, 0.3), (1491, 5, 0.1), (1491, 40, 0.01), (10**6, 3, 0.0), (100, 30, 0.45)]
)
def test_so_many_partners_meet_all_conditions_and_fewer_do_not(n: int, k: int, flips: float) -> None:
    def is_enough(d: float) -> bool:
        low = k / (d * (1 - 2 * flips))
        high = 0.5 * np.sqrt((1 - flips) / flips / d) if flips else np.inf
        return bool(low <= 0.8 * high and signal_to_noise(k, d, flips) >= 6 and d >= k * np.log(n))

    needed = partners_needed(n, k, flips)
    assert is_enough(1.001 * needed)
    assert not is_enough(0.999 * needed)


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(DataError, match="orthonormal"):
        incoherence(np.ones((4, 2)))
    with pytest.raises(DataError, match="symmetric"):
        error_incoherence(np.triu(np.ones((3, 3))))
    with pytest.raises(DataError, match="labels"):
        lambda_window(sparse.csr_array(np.eye(3)), [0, 1])
    with pytest.raises(DataError, match="labels"):
        meets_conditions(sparse.csr_array(np.eye(3)), [[0, 1, 2]], 1.0)
    with pytest.raises(UsageError, match="flip_rate"):
        signal_to_noise(3, 10, 0.5)
    with pytest.raises(UsageError, match="n_clusters"):
        partners_needed(10, 1, 0.1)

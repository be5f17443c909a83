"""The bound on the spectral norm against dense eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from robusttc.clustering.old.completion.certificate import (
    bound_norm,
    dual_value,
    exact_norm,
    is_norm_below,
    lanczos_slack,
)
from robusttc.clustering.old.completion.problem import make_problem

Matrix = NDArray[np.float64]


def sparse_noise(generator: np.random.Generator, n: int) -> Matrix:
    values = np.triu(generator.standard_normal((n, n)) * (generator.random((n, n)) < generator.random()))
    return np.asarray(values + np.triu(values, 1).T)


def clustered_spectrum(generator: np.random.Generator, n: int) -> Matrix:
    """Many eigenvalues close together at the top: the hard case of Lanczos."""
    basis = np.linalg.qr(generator.standard_normal((n, n)))[0]
    values = np.where(
        generator.random(n) < 0.3, 1 + 10.0 ** -generator.uniform(1, 9), generator.uniform(-1, 1, n)
    )
    return np.asarray((basis * values) @ basis.T)


def blocks(generator: np.random.Generator, n: int) -> Matrix:
    """Exactly repeated eigenvalues."""
    labels = generator.integers(0, max(n // 5, 1), size=n)
    return np.equal(labels[:, None], labels[None, :]).astype(np.float64) / 5


def isolated_eigenvalue(generator: np.random.Generator, n: int) -> Matrix:
    """One large eigenvalue, of a vector that a random start hardly sees."""
    matrix = 0.01 * sparse_noise(generator, n)
    matrix[0, 0] = generator.choice([-3.0, 3.0])
    return matrix


@pytest.mark.parametrize("make", [sparse_noise, clustered_spectrum, blocks, isolated_eigenvalue])
def test_the_bound_is_above_the_norm(make: object) -> None:
    assert callable(make)
    for seed in range(60):
        generator = np.random.default_rng(seed)
        n = int(generator.integers(1, 90))
        matrix = make(generator, n)
        Q = sparse.csr_array(matrix)
        exact = exact_norm(Q)
        values, vectors = np.linalg.eigh(matrix)
        rank = int(generator.integers(0, n + 1))
        bases = [
            np.zeros((n, 0)),
            vectors[:, n - rank :],
            np.linalg.qr(generator.standard_normal((n, rank)))[0],
        ]
        for basis in bases:
            for max_steps in (5, 25, 600):
                bound = bound_norm(Q, basis, generator, good_enough=0.99 * exact, max_steps=max_steps)
                assert bound.upper >= exact * (1 - 1e-12)
                assert bound.estimate <= exact * (1 + 1e-9)
        # With the steps of all dimensions the bound is the norm itself, if the subspace is one of Q's own.
        whole = bound_norm(Q, bases[1], generator, good_enough=0.0)
        assert whole.upper == pytest.approx(exact, abs=1e-7)
        assert np.abs(values).max() == pytest.approx(exact)


def test_directions_beyond_one_are_found() -> None:
    generator = np.random.default_rng(0)
    basis = np.linalg.qr(generator.standard_normal((60, 60)))[0]
    values = np.concatenate([[1.5, 1.2, -1.3], generator.uniform(-0.5, 0.5, 57)])
    matrix = sparse.csr_array((basis * values) @ basis.T)
    bound = bound_norm(matrix, basis[:, :1], generator)
    assert bound.rising.shape == (60, 1)
    assert bound.falling.shape == (60, 1)
    assert abs(bound.rising[:, 0] @ basis[:, 1]) == pytest.approx(1, abs=1e-6)
    assert abs(bound.falling[:, 0] @ basis[:, 2]) == pytest.approx(1, abs=1e-6)
    assert bound.beyond == pytest.approx(1.3)
    assert bound.estimate == pytest.approx(1.5)


def test_few_steps_prove_little() -> None:
    assert lanczos_slack(3, 1_000, 1.0) == np.inf
    slacks = [lanczos_slack(steps, 1_000, 1.0) for steps in (50, 100, 200, 600)]
    assert slacks == sorted(slacks, reverse=True)
    assert 0 < slacks[-1] < 1e-3


@pytest.mark.parametrize("seed", range(20))
def test_cholesky_tells_norms_apart(seed: int) -> None:
    matrix = sparse.csr_array(sparse_noise(np.random.default_rng(seed), 40))
    exact = exact_norm(matrix)
    for sign in (1, -1):
        assert is_norm_below(sign * matrix, exact * (1 + 1e-9) + 1e-300) == (exact > 0)
        assert not is_norm_below(sign * matrix, exact * (1 - 1e-9))


def test_a_dual_that_breaks_its_constraints_is_scaled() -> None:
    problem = make_problem(np.eye(3), np.eye(3), (2.0, 1.0))
    kept = np.array([0.5, 0.5, 0.5])
    assert dual_value(problem, 0.5, kept, 0.5) == pytest.approx(1.5)
    assert dual_value(problem, 0.5, kept, 2.0) == pytest.approx(0.75)  # too large a norm
    assert dual_value(problem, 0.125, kept, 0.5) == pytest.approx(0.75)  # twice the weight of 0.25

"""Corners of completion and clustering: proofs recomputed, zeros, tiny units, little to compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from test_completion import LOSSES, planted
from test_program import check_certificate
from test_task_clusters import check_laws, hide, planted_matrix, scores_of

from robusttc.clustering import RobustTaskClustering, complete_scores, complete_similarity, cut, solvers
from robusttc.clustering.certificate import bound_largest
from robusttc.clustering.problem import Penalties, make_problem
from robusttc.errors import DataError, UsageError


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_the_dual_of_a_completion_proves_its_gap(loss: Any, seed: Any) -> None:
    _, W, measured = planted(30, seed, density=0.7, wrong=0.03)
    found = complete_similarity(W, measured, loss=loss, regularisation=2.0)
    G = found.dual.toarray()
    assert not G[~measured].any()
    eigenvalues = np.linalg.eigvalsh((G + G.T) / 2)
    assert eigenvalues[-1] <= found.regularisation * (1 + 1e-9)
    value = float(np.sum(G[measured] * W[measured]))
    if found.loss == "absolute":
        assert -eigenvalues[0] <= found.regularisation * (1 + 1e-9)
        assert np.abs(G).max() <= 1 + 1e-12
    else:
        assert found.eigenvalues.min(initial=0.0) >= 0
        assert np.abs(G).max() <= found.delta * (1 + 1e-12)
        value -= float(np.sum(G**2)) / 2
    assert (found.objective - value) / found.objective == pytest.approx(found.gap, abs=1e-9)


@pytest.mark.parametrize("density", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_certificate_of_clusters_is_proven_densely(density: float, seed: int) -> None:
    scores = scores_of(hide(planted_matrix(24, 3, seed)[0], density, seed))
    found = complete_scores(scores, seed=seed)
    check_certificate(found.problem, found.setting.penalties(found.problem, found.delta), found.solution)
    # The same by what the estimator returns.
    model = RobustTaskClustering().fit(scores)
    G, tau = model.similarity_.dual.toarray(), model.certificate_.regularisation
    assert np.linalg.eigvalsh((G + G.T) / 2)[-1] <= tau * (1 + 1e-9)
    assert np.abs(G).max() <= model.delta * (1 + 1e-12)
    assert not G[np.isnan(scores.to_matrix())].any()
    assert model.similarity_.eigenvalues.min(initial=0.0) >= 0
    # Complementary slackness: the directions of X are those in which the dual is at the limit.
    V = model.similarity_.eigenvectors
    np.testing.assert_allclose(V.T @ ((G + G.T) / 2) @ V, tau * np.eye(V.shape[1]), atol=0.05 * tau)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [4, 400, 501])
def test_a_matrix_of_zeros(loss: Any, n: Any) -> None:
    found = complete_similarity(np.zeros((n, n)), np.eye(n), loss=loss, regularisation=1.0)
    assert (found.rank, found.gap, found.converged) == (0, 0.0, True)


@pytest.mark.parametrize("regularisation", [None, [1.0], np.array([1.0, 2.0])])
def test_a_regularisation_that_is_no_number(regularisation: Any) -> None:
    with pytest.raises(UsageError, match="regularisation"):
        complete_similarity(np.eye(4), np.eye(4), regularisation=regularisation)


def test_the_bound_of_a_matrix_of_zeros() -> None:
    zero = sparse.csr_array((400, 400))
    found = bound_largest(zero, 1.0, np.zeros((400, 0)), slack=0.01, generator=np.random.default_rng(0))
    assert 0 <= found.upper <= 1.01


def test_a_dual_of_the_wrong_sign_proves_nothing() -> None:
    problem = make_problem(1, np.array([0]), np.array([0]), np.array([1.0]))
    optimum = solvers.solve_smooth(problem, Penalties(0.5)).objective
    assert solvers.smooth_dual_value(problem, Penalties(0.5), np.array([-1.0]), 1.0)[0] <= optimum


@pytest.mark.parametrize("seed", range(4))
def test_standard_errors_are_calibrated(seed: Any) -> None:
    matrix, _ = planted_matrix(36, 3, seed)
    part = hide(matrix, 0.5, seed)
    found = RobustTaskClustering(3).fit(scores_of(part)).predict_transfer()
    hidden = np.isnan(part) & ~np.eye(36, dtype=np.bool_)
    ratio = (np.abs(found.scores - matrix) / found.standard_errors)[hidden]
    assert 0.8 <= np.mean(ratio < 2) <= 0.995
    assert 0.7 < np.sqrt(np.mean(ratio**2)) < 1.5


def test_the_tree_can_be_cut_again() -> None:
    model = RobustTaskClustering().fit(scores_of(planted_matrix(24, 3, 0)[0]))
    tree = model.tree_
    assert tree is not None
    assert adjusted_rand_score(cut(tree, model.n_clusters_), model.labels_) == 1


def test_three_scores_a_target() -> None:
    matrix, full = np.full((12, 12), np.nan), np.random.default_rng(0).random((12, 12))
    for i in range(6):
        for one, other in ((i, (i + 1) % 6), (6 + i, 6 + (i + 1) % 6), (i, 6 + i)):
            matrix[one, other], matrix[other, one] = full[one, other], full[other, one]
    check_laws(RobustTaskClustering().fit(scores_of(matrix)), matrix)


@pytest.mark.parametrize("features", [[["a"]] * 24, sparse.csr_array(np.ones((24, 2)))])
def test_features_that_are_no_numbers(features: Any) -> None:
    with pytest.raises(DataError, match="task_features"):
        RobustTaskClustering().fit(scores_of(planted_matrix(24, 3, 0)[0]), task_features=features)


def test_no_sources_are_no_predictions() -> None:
    model = RobustTaskClustering(2).fit(scores_of(planted_matrix(12, 2, 0)[0]))
    assert model.predict_transfer(sources=[]).scores.shape == (0, 12)


def test_paper_mode_says_when_the_number_given_is_not_reached() -> None:
    model = RobustTaskClustering(3, strategy="paper").fit(scores_of(np.full((8, 8), 0.5)))
    assert model.n_clusters_ == 3 or model.n_clusters_reason_ != "given"


def test_tiny_units_change_nothing() -> None:
    matrix = planted_matrix(12, 2, 0)[0]
    small = RobustTaskClustering(2).fit(scores_of(1e-200 * matrix))
    np.testing.assert_array_equal(small.labels_, RobustTaskClustering(2).fit(scores_of(matrix)).labels_)

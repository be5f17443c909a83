"""The plain ways to cluster, which the robust one has to beat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_scores import planted_scores
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering.old.baselines import (
    KMeansOnRows,
    ScoreClustering,
    SpectralOnObserved,
    SpectralOnScores,
)
from robusttc.errors import UsageError
from robusttc.scores import TransferScores

BASELINES: list[Any] = [SpectralOnScores, SpectralOnObserved, KMeansOnRows]


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [1.0, 0.6])
def test_clear_clusters_are_found(baseline: Any, density: float, seed: int) -> None:
    planted = planted_scores(60, 4, density, 0.05, seed)
    model = baseline(4, random_state=seed).fit(planted.scores)
    assert adjusted_rand_score(planted.labels, model.labels_) == 1
    assert model.n_clusters_ == 4
    assert model.task_names_ == planted.scores.task_names


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("scores", [
    TransferScores(["a"], source=[], target=[], score=[]),
    TransferScores(list("abcd"), source=[], target=[], score=[]),
    TransferScores(list("abcd"), source=[0], target=[1], score=[0.5]),
    TransferScores.from_matrix(np.full((5, 5), 0.5), list("abcde")),
    TransferScores.from_matrix(np.arange(25).reshape(5, 5) * 1e100, list("abcde")),
])  # fmt: skip
def test_poor_scores_still_give_the_number_asked_for(baseline: Any, scores: TransferScores) -> None:
    for k in {1, min(3, scores.n_tasks), scores.n_tasks}:
        labels = baseline(k).fit_predict(scores)
        assert sorted(set(labels.tolist())) == list(range(k))
        assert (np.diff(np.bincount(labels)) <= 0).all()


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_order_of_tasks_does_not_matter(baseline: Any) -> None:
    scores = planted_scores(30, 3, 0.5, 0.2, seed=3).scores
    backwards = scores.subset(scores.task_names[::-1])
    first, second = baseline(3).fit(scores), baseline(3).fit(backwards)
    np.testing.assert_array_equal(first.labels_[::-1], second.labels_)


@pytest.mark.parametrize("baseline", BASELINES)
def test_they_are_scikit_learn_estimators(baseline: Any) -> None:
    model = baseline(3, random_state=5)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(n_clusters=2).n_clusters == 2


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("n_clusters", [0, 13, "auto", 2.0, True])
def test_wrong_numbers_of_clusters_are_refused(baseline: Any, n_clusters: Any) -> None:
    with pytest.raises(UsageError, match="n_clusters"):
        baseline(n_clusters).fit(planted_scores(12, 2).scores)
    with pytest.raises(UsageError, match="TransferScores"):
        baseline(2).fit(np.eye(3))


def test_the_filter_of_a_baseline_is_that_of_the_estimator() -> None:
    planted = planted_scores(40, 2, seed=1)
    for options in ({"rule": "any"}, {"remove_donor_effect": True}, {"p_high": 0.2, "p_low": 0.8}):
        model = SpectralOnObserved(2, **options).fit(planted.scores)
        assert adjusted_rand_score(planted.labels, model.labels_) == 1


def test_what_they_share_is_no_clustering_itself() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ScoreClustering(2)

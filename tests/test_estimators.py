"""Every estimator keeps scikit-learn's rules: its own checks of parameters, and what an unfitted one says."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

import robusttc.baselines
from robusttc import ClusterFewShot, ClusterMultiTask, RobustTaskClustering, Task
from robusttc.errors import UsageError

BASELINES = [getattr(robusttc.baselines, name) for name in robusttc.baselines.__all__ if name != "TaskModel"]
ESTIMATORS = [ClusterMultiTask, ClusterFewShot, RobustTaskClustering, *BASELINES]
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)


def test_every_baseline_is_here() -> None:
    assert len(BASELINES) == 10
    assert all(issubclass(kind, BaseEstimator) for kind in ESTIMATORS)


@every_estimator
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
    ids=lambda check: check.__name__,
)
def test_it_passes_the_checks_of_scikit_learn(kind: Any, check: Any) -> None:
    check(kind.__name__, kind())


@every_estimator
def test_scikit_learn_sees_that_it_is_not_fitted(kind: Any) -> None:
    with pytest.raises(NotFittedError):
        check_is_fitted(kind())


def test_learners_say_that_they_are_not_fitted() -> None:
    task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    for call in (
        lambda: ClusterMultiTask().predict("acme", ["hi"]),
        lambda: ClusterMultiTask().scope_threshold("acme"),
        lambda: ClusterFewShot().adapt(task),
        lambda: ClusterFewShot().trust_report(),
    ):
        with pytest.raises(UsageError, match="Call fit"):
            call()

"""What all baselines have in common as estimators of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from direction_tasks import direction_tasks, encoder_of
from sklearn.base import clone

import robusttc.baselines
from robusttc.baselines import (
    AsapBaseline,
    FastTextBaseline,
    FineTunedHolisticBaseline,
    HolisticBaseline,
    LogisticRegressionBaseline,
    MatchingNetworkBaseline,
    PrototypeBaseline,
    SingleTaskBaseline,
    TaskMixtureBaseline,
)
from robusttc.models import TrainingSettings
from robusttc.multitask.settings import MultiTaskSettings

CLASSES = [getattr(robusttc.baselines, name) for name in robusttc.baselines.__all__ if name != "TaskModel"]
QUICK = TrainingSettings(width=8, epochs=5, min_steps=20)
JOINT = MultiTaskSettings(width=8, activation="relu", epochs=5, min_steps=20)
SETTINGS: dict[type, Any] = {
    SingleTaskBaseline: QUICK,
    TaskMixtureBaseline: QUICK,
    HolisticBaseline: JOINT,
    FineTunedHolisticBaseline: JOINT,
}
ON_VECTORS = [kind for kind in CLASSES if kind is not FastTextBaseline]  # which takes words


@pytest.mark.parametrize("kind", ON_VECTORS, ids=lambda kind: kind.__name__)
def test_a_new_encoder_is_used_by_the_next_fit(kind: Any) -> None:
    tasks, vectors = direction_tasks(0, same_labels=True)
    other = {name: np.hstack([matrix[:, ::-1], matrix]) for name, matrix in vectors.items()}
    baseline = kind(encoder=encoder_of(vectors))
    if kind in SETTINGS:
        baseline.set_params(settings=SETTINGS[kind])
    baseline.fit(tasks)
    baseline.set_params(encoder=encoder_of(other), random_state=1).fit(tasks)
    fresh = clone(baseline).fit(tasks)
    queries = other["task 0"][:6]
    results = [predict(one, tasks["task 0"], queries) for one in (baseline, fresh)]
    assert (results[0] == results[1]).all()


def predict(baseline: Any, task: Any, queries: Any) -> Any:
    if hasattr(baseline, "predict_proba"):
        return baseline.predict_proba(task.name, queries)
    return baseline.adapt(task).predict_proba(queries)


def test_a_new_encoder_is_used_by_the_next_adapt_of_a_baseline_that_was_not_fitted() -> None:
    tasks, vectors = direction_tasks(0)
    wider = {name: np.hstack([matrix, matrix]) for name, matrix in vectors.items()}
    baseline = PrototypeBaseline(encoder_of(vectors))
    baseline.adapt(tasks["task 0"])
    model = baseline.set_params(encoder=encoder_of(wider)).adapt(tasks["task 0"])
    assert model.predict_proba(wider["task 0"][:3]).shape == (3, 4)


def test_a_new_parameter_is_used_by_the_next_fit() -> None:
    tasks, vectors = direction_tasks(0, noise=2.0, same_labels=True)
    queries = vectors["task 0"][:6]
    baseline = LogisticRegressionBaseline(encoder_of(vectors)).fit(tasks)
    assert baseline.tuning_
    baseline.set_params(C=0.01).fit(tasks)
    assert (baseline.value_, baseline.tuning_) == (0.01, {})
    given = LogisticRegressionBaseline(encoder_of(vectors), C=0.01).fit(tasks)
    assert (baseline.predict_proba("task 0", queries) == given.predict_proba("task 0", queries)).all()
    asap = AsapBaseline(2, encoder=encoder_of(vectors), penalty=0.01).fit(tasks)
    assert len(set(asap.set_params(n_clusters=4).fit(tasks).labels_)) == 4


def test_repr_shows_what_was_given() -> None:
    assert repr(PrototypeBaseline(scale=3)) == "PrototypeBaseline(scale=3)"
    assert repr(MatchingNetworkBaseline("sentence")) == "MatchingNetworkBaseline(encoder='sentence')"

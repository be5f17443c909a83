"""Probabilities that can be trusted: temperatures, abstaining, and what is out of scope."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import UsageError
from robusttc.models import TrustReport, auroc
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.trusting import cluster_temperatures

QUICK = MultiTaskSettings(width=16, epochs=3, min_steps=40, head_c=3.0, share_labels=False)
Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def make_rows(n_rows: int, sure: float, right: float) -> Rows:
    """Give rows of two labels with a confidence, of which a share is right."""
    table = np.tile([sure, 1 - sure], (n_rows, 1))
    return table, (np.arange(n_rows) >= right * n_rows).astype(np.int64)


def test_a_cluster_has_the_temperature_of_its_rows() -> None:
    valid = {"a": make_rows(100, 0.9, 0.7), "b": make_rows(100, 0.9, 0.7), "c": make_rows(100, 0.7, 0.9)}
    found = cluster_temperatures({"a": 0, "b": 0, "c": 1}, valid, {})
    # The temperature that turns 0.9 into 0.7 is log(9) / log(7/3).
    assert found[0] == pytest.approx(np.log(9) / np.log(7 / 3), abs=1e-6)
    assert found[1] == pytest.approx(np.log(7 / 3) / np.log(9), abs=1e-6)


def test_a_cluster_without_enough_rows_borrows() -> None:
    labels = {"a": 0, "b": 1, "c": 2}
    valid = {"a": make_rows(100, 0.9, 0.7), "b": make_rows(5, 0.9, 1.0)}
    held = {"b": make_rows(50, 0.7, 0.9)}
    found = cluster_temperatures(labels, valid, held)
    assert found[1] == pytest.approx(np.log(7 / 3) / np.log(9), abs=1e-6)  # out-of-fold rows of its own
    assert found[2] > 1  # all tasks together
    assert cluster_temperatures({"a": 0}, {}, {}) == {0: 1.0}


@pytest.mark.parametrize("seed", range(2))
def test_the_report_measures_what_it_says(seed: int) -> None:
    planted = make_planted_vectors(12, 2, seed=seed, n_valid=30)
    model = ClusterMultiTask(planted.encoder, settings=QUICK, clusters="always", n_random=0)
    model.fit(planted.tasks, planted.kinds)
    report = model.trust_report()
    assert (report.n_rows, report.n_tasks) == (360, 12)
    assert report.error_before is not None
    assert report.error_after is not None
    assert 0 <= report.error_after <= report.error_before + 0.05
    coverages = [one.coverage for one in report.coverage]
    assert coverages == sorted(coverages, reverse=True)
    assert TrustReport.from_dict(report.to_dict()).to_dict() == report.to_dict()
    assert set(model.temperatures_) == {0, 1}
    # The coverage that is promised is about what test rows get.
    answered, right = [], []
    for task in planted.tasks:
        rows = task.rows("test")
        found = model.predict(task.name, planted.features[task.name][rows], abstain_below=0.8)
        has_answer = np.array([label is not None for label in found])
        answered += has_answer.tolist()
        right += (found == task.labels[rows])[has_answer].tolist()
    promised = next(one for one in report.coverage if one.threshold == 0.8)
    assert np.mean(answered) == pytest.approx(promised.coverage, abs=0.1)
    assert np.mean(right) == pytest.approx(promised.accuracy, abs=0.1)


def test_what_is_out_of_scope_scores_higher() -> None:
    generator = np.random.default_rng(0)
    tasks, features = [], {}
    splits = ["train"] * 20 + ["valid"] * 10
    for number in range(8):
        centres = 3 * generator.normal(size=(2, 20))
        codes = np.arange(30) % 2
        name = f"task-{number}"
        features[name] = centres[codes] + generator.normal(size=(30, 20))
        tasks.append(
            Task(name, [f"{name} {row}" for row in range(30)], [f"L{code}" for code in codes], splits)
        )
    model = ClusterMultiTask(FeatureEncoder(features), settings=QUICK, clusters="always", n_random=0)
    model.fit(TaskSet(tasks), np.arange(8) % 2)
    report = model.trust_report()
    assert report.scope_auroc is not None
    assert report.scope_auroc.mean > 0.9
    inside = model.scope_score("task-0", features["task-0"])
    outside = model.scope_score("task-0", np.concatenate([features["task-1"], features["task-3"]]))
    assert auroc(inside, outside) > 0.9
    assert ((outside >= 0) & (outside <= 1)).all()


def test_without_validation_rows_there_is_little_to_say() -> None:
    planted = make_planted_vectors(4, 1, seed=0, n_valid=0)
    model = ClusterMultiTask(planted.encoder, settings=QUICK).fit(planted.tasks)
    report = model.trust_report()
    assert report.n_rows == 0
    assert report.error_after is None
    assert model.temperatures_[0] != 1.0  # from out-of-fold rows
    with pytest.raises(UsageError, match="'valid'"):
        model.scope_score("task-00", planted.features["task-00"])

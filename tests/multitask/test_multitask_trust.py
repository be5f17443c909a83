"""Probabilities that can be trusted: temperatures, abstaining, and what is out of scope."""

from __future__ import annotations

import numpy as np
import pytest
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import UsageError
from robusttc.models import TrustReport, auroc
from robusttc.multitask import ClusterMultiTask, MultiTaskSettings

QUICK = MultiTaskSettings(width=16, epochs=3, min_steps=40, head_c=3.0, share_labels=False)


@pytest.mark.parametrize("seed", range(2))
def test_the_report_measures_what_it_says(seed: int) -> None:
    planted = make_planted_vectors(12, 2, seed=seed, n_valid=30)
    model = ClusterMultiTask(planted.encoder, settings=QUICK, cluster_models="always", n_random=0)
    model.fit(planted.tasks, planted.kinds)
    report = model.trust_report()
    assert (report.n_rows, report.n_tasks) == (12 * 54, 12)  # training and validation rows
    assert report.error_before is not None
    assert report.error_after is not None
    assert 0 <= report.error_after <= report.error_before + 0.05
    coverages = [one.coverage for one in report.coverage]
    assert coverages == sorted(coverages, reverse=True)
    assert TrustReport.from_dict(report.to_dict()).to_dict() == report.to_dict()
    # The tasks of a cluster have one temperature.
    pairs = {(task.cluster, task.temperature) for task in model.predictor_.tasks.values()}
    assert dict(pairs) == model.temperature_
    assert len(pairs) == 2
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
    model = ClusterMultiTask(FeatureEncoder(features), settings=QUICK, cluster_models="always", n_random=0)
    model.fit(TaskSet(tasks), np.arange(8) % 2)
    report = model.trust_report()
    assert report.scope_auroc is not None
    assert report.scope_auroc.mean > 0.9
    inside = model.scope_score("task-0", features["task-0"])
    outside = model.scope_score("task-0", np.concatenate([features["task-1"], features["task-3"]]))
    assert auroc(inside, outside) > 0.9
    assert ((outside >= 0) & (outside <= 1)).all()


def test_held_out_rows_need_no_validation_split() -> None:
    planted = make_planted_vectors(4, 1, seed=0, n_valid=0)
    model = ClusterMultiTask(planted.encoder, settings=QUICK).fit(planted.tasks)
    report = model.trust_report()
    assert report.n_rows == 4 * 24
    assert report.scope_auroc is not None
    assert model.scope_score("task-00", planted.features["task-00"]).shape == (84,)
    paper = ClusterMultiTask(planted.encoder, strategy="paper", settings=QUICK).fit(planted.tasks)
    assert paper.trust_report().n_rows == 0
    assert paper.trust_report().error_after is None
    with pytest.raises(UsageError, match="'valid'"):
        paper.scope_score("task-00", planted.features["task-00"])

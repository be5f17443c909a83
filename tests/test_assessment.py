"""Whether clusters pay, asked alone: right on planted kinds, and the same as what the estimators say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import robusttc
from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import UsageError


def make_tasks(n_tasks: int, seed: int) -> tuple[TaskSet, FeatureEncoder, list[int]]:
    """Make two kinds of task on the same vectors: the label is the sign of one direction or of another."""
    generator = np.random.default_rng(seed)
    tasks, vectors, kinds = [], {}, []
    for number in range(n_tasks):
        name, kind = f"task-{number:02d}", number % 2
        rows = generator.normal(size=(40, 12)).astype(np.float32)
        labels = ["yes" if row[kind] > 0 else "no" for row in rows]
        tasks.append(Task(name, [f"{name} {row}" for row in range(40)], labels))
        vectors[name] = rows
        kinds.append(kind)
    return TaskSet(tasks), FeatureEncoder(vectors), kinds


@pytest.mark.parametrize("setting", ["multitask", "fewshot"])
def test_the_verdict_is_that_of_the_estimator(setting: Any) -> None:
    tasks, encoder, kinds = make_tasks(8, seed=0)
    verdict = robusttc.assess_clusters(tasks, kinds, setting=setting, encoder=encoder, n_random=1)
    assert verdict.setting == setting
    assert verdict.n_tasks == 8
    estimator: Any
    if setting == "multitask":
        estimator = robusttc.ClusterMultiTask(encoder, n_random=1)
    else:
        estimator = robusttc.ClusterFewShot(encoder)
    assert estimator.fit(tasks, kinds).verdict_ == verdict


@pytest.mark.parametrize("seed", range(2))
def test_clusters_of_true_kinds_pay(seed: int) -> None:
    tasks, encoder, kinds = make_tasks(16, seed)
    verdict = robusttc.assess_clusters(tasks, kinds, encoder=encoder, n_random=1, random_state=seed)
    assert verdict.clusters_help, verdict.sentence
    assert verdict.over_shared.mean > 0.02


def test_what_cannot_be_used_is_refused() -> None:
    tasks, encoder, kinds = make_tasks(4, seed=0)
    with pytest.raises(UsageError, match="Did you mean 'multitask'"):
        robusttc.assess_clusters(tasks, kinds, setting="multitsk", encoder=encoder)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        robusttc.assess_clusters(tasks, kinds[:-1], encoder=encoder)

"""Who is hurt by sharing, and by whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_vectors import make_planted_vectors

from robusttc.multitask.culprits import estimate_culprits, mates_of
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.multitask.harm import judge
from robusttc.multitask.retraining import retrain_culprits
from robusttc.multitask.settings import MultiTaskSettings

# So narrow that the layer must choose whom to serve.
NARROW = MultiTaskSettings(
    width=3,
    activation="linear",
    dropout=0.0,
    epochs=10,
    min_steps=400,
    learning_rate=1e-2,
    head_rate=1.0,
    head_c=0.0,
    share_labels=False,
)


@pytest.mark.parametrize("seed", range(2))
def test_mates_of_another_kind_are_to_blame(seed: int) -> None:
    # A cluster of three kinds, with three tasks of each, and one of the fourth kind.
    planted = make_planted_vectors(12, 4, seed=seed, n_train=36)
    labels = [0 if kind != 3 else 1 for kind in planted.kinds]
    model = ClusterMultiTask(planted.encoder, settings=NARROW, clusters="always", n_random=0)
    model.fit(planted.tasks, labels)
    assert model._data is not None
    kind_of = dict(zip(planted.tasks.names, planted.kinds.tolist(), strict=True))
    asked = [name for name, kind in kind_of.items() if kind != 3]
    found = estimate_culprits(model._fitted, model._data, asked, n_folds=3)
    same: list[bool] = []
    other: list[bool] = []
    for name, culprits in found.items():
        blame = {culprit.name: culprit.blame for culprit in culprits}
        assert list(blame.values()) == sorted(blame.values(), reverse=True)
        assert all(kind_of[mate] != 3 for mate in blame)  # only mates of its cluster
        assert all(culprit.accuracy_gain is None for culprit in culprits)
        for mate in asked:
            if mate != name:
                (same if kind_of[mate] == kind_of[name] else other).append(mate in blame)
    assert np.mean(same) < np.mean(other) - 0.2


def test_retraining_without_a_mate_is_measured() -> None:
    planted = make_planted_vectors(6, 2, seed=0)
    model = ClusterMultiTask(
        planted.encoder, settings=NARROW.replace(min_steps=60), clusters="always", n_random=0
    ).fit(planted.tasks, [0, 0, 0, 1, 1, 1])
    assert model._data is not None
    found = retrain_culprits(model._fitted, model._data, ["task-00"], n_folds=3)["task-00"]
    assert {culprit.name for culprit in found} <= set(mates_of(model._fitted, model._data, "task-00"))
    assert all(culprit.blame > 0 and culprit.accuracy_gain is not None for culprit in found)


def test_the_report_is_about_held_out_rows() -> None:
    planted = make_planted_vectors(8, 2, seed=1)
    model = ClusterMultiTask(
        planted.encoder, settings=NARROW.replace(min_steps=60), clusters="always", n_random=0
    ).fit(planted.tasks, planted.kinds)
    report = model.harm_report(culprits="none")
    assert [task.name for task in report.tasks] == list(planted.tasks.names)
    assert report.method == "none"
    for task in report.tasks:
        assert task.n_rows == 24  # all training rows
        assert task.in_cluster is not None
        assert task.shared is not None
        assert task.own.low <= task.own.mean <= task.own.high
        assert task.gain.mean == pytest.approx(task.served.mean - task.own.mean)
        assert task.culprits == ()
        assert not (task.is_hurt and task.is_doubtful)
    assert report.to_dict()["sentence"] == report.sentence
    own = model.components_["own"].mean
    assert own == pytest.approx(np.mean([task.own.mean for task in report.tasks]))
    for method in ("estimate", "retrain"):
        full = model.harm_report(culprits=method)
        assert full.method == method
        assert full.hurt == report.hurt
        asked = {task.name for task in full.tasks if task.culprits}
        assert asked <= set(report.hurt or report.doubtful)


@pytest.mark.parametrize(
    ("n_lost", "is_hurt", "is_doubtful"), [(0, False, False), (1, False, True), (12, True, False)]
)
def test_hurt_is_what_chance_does_not_explain(n_lost: int, is_hurt: bool, is_doubtful: bool) -> None:
    planted = make_planted_vectors(2, 1, seed=0)
    model = ClusterMultiTask(planted.encoder, settings=NARROW.replace(min_steps=10)).fit(planted.tasks)
    own = np.ones(40, dtype=np.bool_)
    served = own.copy()
    served[:n_lost] = False
    right: dict[str, Any] = {"own": own, "shared": own, "served": served}
    harm = judge(model._fitted, "task-00", right)
    assert (harm.is_hurt, harm.is_doubtful) == (is_hurt, is_doubtful)
    assert harm.in_cluster is None
    assert harm.own.mean == 1.0

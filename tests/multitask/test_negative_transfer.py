"""Which tasks lose by sharing, and by whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_vectors import make_planted_vectors

from robusttc.multitask import ClusterMultiTask, MultiTaskSettings, find_sources, judge_sharing, sharing_with

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
def test_tasks_of_another_kind_are_the_sources(seed: int) -> None:
    # A cluster of three kinds, with three tasks of each, and one of the fourth kind.
    planted = make_planted_vectors(12, 4, seed=seed, n_train=36)
    labels = [0 if kind != 3 else 1 for kind in planted.kinds]
    model = ClusterMultiTask(planted.encoder, settings=NARROW, cluster_models="always", n_random=0)
    model.fit(planted.tasks, labels)
    kind_of = dict(zip(planted.tasks.names, planted.kinds.tolist(), strict=True))
    asked = [name for name, kind in kind_of.items() if kind != 3]
    options: Any = {"settings": NARROW, "seed": 0, "encoder": planted.encoder}
    found = find_sources(model.predictor_, planted.tasks, asked, **options)
    same: list[bool] = []
    other: list[bool] = []
    for name, sources in found.items():
        blame = {source.name: source.blame for source in sources}
        assert list(blame.values()) == sorted(blame.values(), reverse=True)
        assert set(blame) <= set(sharing_with(model.predictor_, name))
        assert all(kind_of[mate] != 3 for mate in blame)  # only tasks of its cluster
        for mate in asked:
            if mate != name:
                (same if kind_of[mate] == kind_of[name] else other).append(mate in blame)
    assert np.mean(same) < np.mean(other) - 0.2


def test_the_report_is_about_held_out_rows() -> None:
    planted = make_planted_vectors(8, 2, seed=1)
    model = ClusterMultiTask(
        planted.encoder, settings=NARROW.replace(min_steps=60), cluster_models="always", n_random=0
    ).fit(planted.tasks, planted.kinds)
    report = model.negative_transfer_report()
    assert [task.name for task in report.tasks] == list(planted.tasks.names)
    for task in report.tasks:
        assert task.n_rows == 36  # all training and validation rows
        assert task.in_cluster is not None
        assert task.shared is not None
        assert task.own.low <= task.own.mean <= task.own.high
        assert task.gain.mean == pytest.approx(task.served.mean - task.own.mean)
        assert task.sources == ()
        assert not (task.is_hurt and task.is_doubtful)
    assert report.to_dict()["sentence"] == report.sentence
    own = model.held_out_accuracy_["own"].mean
    assert own == pytest.approx(np.mean([task.own.mean for task in report.tasks]))
    full = model.negative_transfer_report(planted.tasks)
    assert full.hurt == report.hurt
    assert {task.name for task in full.tasks if task.sources} <= set(report.hurt or report.doubtful)


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
    found = judge_sharing(model.predictor_, "task-00", right)
    assert (found.is_hurt, found.is_doubtful) == (is_hurt, is_doubtful)
    assert found.in_cluster is None
    assert found.own.mean == 1.0

"""A task that may not share leaves no trace in anything that belongs to another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.models import split_arrays
from robusttc.multitask import OWN_ONLY, ClusterMultiTask, MultiTaskSettings

QUICK = MultiTaskSettings(width=16, epochs=3, min_steps=30, head_c=3.0)
HIDDEN = "task-02"


def shared_arrays(model: ClusterMultiTask) -> dict[str, Any]:
    """Give all numbers that belong to more than one task."""
    serving = model.predictor_
    groups = {**{f"cluster {key}": own for key, own in serving.clusters.items()}}
    if serving.shared is not None:
        groups["shared"] = serving.shared
    found: dict[str, Any] = {}
    for key, shared in groups.items():
        found |= {f"{key}, {name}": array for name, array in split_arrays(shared.describe())[1].items()}
        assert HIDDEN not in shared.names
    if serving.scope is not None:
        found |= serving.scope.arrays()
    if serving.seen is not None:
        found["hashes"] = serving.seen.keys
        assert HIDDEN not in serving.seen.names
    return found


def compare(first: ClusterMultiTask, second: ClusterMultiTask) -> None:
    mine, theirs = shared_arrays(first), shared_arrays(second)
    assert mine.keys() == theirs.keys()
    assert mine
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    assert first.weights_ == second.weights_
    assert first.temperature_ == second.temperature_
    assert first.verdict_ == second.verdict_
    assert first.held_out_accuracy_ == second.held_out_accuracy_


@pytest.mark.parametrize("strategy", ["blend", "paper"])
@pytest.mark.parametrize("seed", range(2))
def test_vectors_of_a_private_task_reach_nobody(strategy: Any, seed: int) -> None:
    planted = make_planted_vectors(8, 2, seed=seed)
    generator = np.random.default_rng(seed)
    tasks = planted.tasks.keep_private([HIDDEN])
    task = tasks[HIDDEN]
    other_task = Task(
        HIDDEN,
        [f"other {row}" for row in range(len(task))],
        [f"M{row % 5}" for row in range(len(task))],
        task.splits.tolist(),
        may_share=False,
    )
    other_tasks = TaskSet(other_task if one.name == HIDDEN else one for one in tasks)
    other_features = {**planted.features, HIDDEN: generator.normal(size=(len(task), 40)).astype(np.float32)}
    options: dict[str, Any] = {
        "strategy": strategy,
        "settings": QUICK,
        "cluster_models": "always",
        "n_random": 1,
        "random_state": seed,
    }
    first = ClusterMultiTask(planted.encoder, **options).fit(tasks, planted.kinds)
    second = ClusterMultiTask(FeatureEncoder(other_features), **options).fit(other_tasks, planted.kinds)
    compare(first, second)
    for name in tasks.names:
        if name != HIDDEN:
            rows = planted.features[name]
            assert np.array_equal(first.predict_proba(name, rows), second.predict_proba(name, rows))
            assert np.array_equal(first.scope_score(name, rows), second.scope_score(name, rows))
    # It has a model of its own all the same, and is served by it alone.
    rows = planted.features[HIDDEN]
    assert (first.predict(HIDDEN, rows) == task.labels).mean() > 0.6
    assert first.predictor_.tasks[HIDDEN].weights == OWN_ONLY
    assert first.labels_[2] == -1
    assert second.label_names(HIDDEN) == ("M0", "M1", "M2", "M3", "M4")


def test_words_of_a_private_task_reach_nobody() -> None:
    texts = [f"{start} {end}" for start in ("good", "bad") for end in ("food", "place", "people", "music")]
    labels = ["yes"] * 4 + ["no"] * 4
    open_tasks = [Task(name, texts * 2, labels * 2, ["train"] * 8 + ["valid"] * 8) for name in "abc"]
    secret = Task("s", ["secret word", "hidden thing"] * 4, ["p", "q"] * 4, may_share=False)
    other = Task("s", ["aardvark first", "entirely different"] * 4, ["q", "p"] * 4, may_share=False)
    settings = MultiTaskSettings(width=8, activation="relu", epochs=2, min_steps=10, embeddings="random")
    models = [
        ClusterMultiTask("cnn", settings=settings, cluster_models="always", n_random=0).fit(
            TaskSet([*open_tasks, private]), [0, 0, 1, 0]
        )
        for private in (secret, other)
    ]
    compare(*models)
    for name in "abc":
        asked = [*texts, "secret word", "aardvark"]
        assert np.array_equal(models[0].predict_proba(name, asked), models[1].predict_proba(name, asked))
    words = models[0].predictor_.reader.describe()[0]["words"]
    assert "secret" not in words
    assert models[0].predict("s", ["secret word", "hidden thing"]).tolist() == ["p", "q"]


def test_only_private_tasks() -> None:
    planted = make_planted_vectors(3, 1, seed=0)
    tasks = planted.tasks.keep_private(planted.tasks.names)
    for strategy in ("blend", "paper"):
        model = ClusterMultiTask(planted.encoder, strategy=strategy, settings=QUICK)
        model.fit(tasks, [0, 0, 0])
        assert model.verdict_ is None
        assert model.labels_.tolist() == [-1, -1, -1]
        assert model.predictor_.shared is None
        assert model.predictor_.clusters == {}
        rows = planted.features["task-01"]
        assert (model.predict("task-01", rows) == tasks["task-01"].labels).mean() > 0.6

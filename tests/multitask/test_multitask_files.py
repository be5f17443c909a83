"""A saved model predicts the same after loading, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.errors import StoreError, UsageError
from robusttc.models import TrainedModel
from robusttc.multitask import ClusterMultiTask, MultiTaskSettings

QUICK = MultiTaskSettings(width=16, epochs=3, min_steps=30, head_c=3.0)


def check_same(model: ClusterMultiTask, loaded: ClusterMultiTask, asked: dict[str, Any]) -> None:
    assert loaded.task_names_ == model.task_names_
    assert np.array_equal(loaded.labels_, model.labels_)
    for name in (
        "weights_",
        "seen_weights_",
        "clusters_serve_",
        "verdict_",
        "held_out_accuracy_",
        "temperature_",
        "epochs_",
        "without_validation_",
    ):
        assert getattr(loaded, name) == getattr(model, name), name
    # By their values for JSON: NaN, the accuracy where nothing is answered, is not equal to itself.
    assert loaded.trust_report().to_dict() == model.trust_report().to_dict()
    for name, rows in asked.items():
        assert loaded.label_names(name) == model.label_names(name)
        assert np.array_equal(loaded.predict_proba(name, rows), model.predict_proba(name, rows))
        assert np.array_equal(loaded.predict(name, rows), model.predict(name, rows))
        assert np.array_equal(loaded.scope_score(name, rows), model.scope_score(name, rows))


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_vectors_round_trip(tmp_path: Path, strategy: Any) -> None:
    planted = make_planted_vectors(9, 2, seed=0)
    tasks = planted.tasks.keep_private(["task-03"])
    labels = [0, 1, 0, 1, 0, 1, 0, -1, 4]
    model = ClusterMultiTask(
        planted.encoder, strategy=strategy, settings=QUICK, cluster_models="always", n_random=0
    ).fit(tasks, labels)
    model.save(tmp_path / "model")
    loaded = ClusterMultiTask.load(tmp_path / "model")
    check_same(model, loaded, {name: planted.features[name] for name in tasks.names})
    # What was loaded can be saved again, and over the old one: the same bytes.
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    loaded.save(tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    again = ClusterMultiTask.load(tmp_path / "model")
    check_same(model, again, {name: planted.features[name] for name in tasks.names})
    if strategy == "blend":
        assert again.negative_transfer_report() == model.negative_transfer_report()
        for name, held in model.held_out_.items():
            assert np.array_equal(again.held_out_[name].rows, held.rows)


def test_what_belongs_to_single_tasks_is_read_when_it_is_used(tmp_path: Path) -> None:
    planted = make_planted_vectors(6, 2, seed=0)
    model = ClusterMultiTask(planted.encoder, settings=QUICK, cluster_models="always", n_random=0)
    model.fit(planted.tasks, planted.kinds).save(tmp_path / "model")
    loaded = ClusterMultiTask.load(tmp_path / "model").predictor_
    assert loaded.shared is not None
    for name, own in loaded.own.items():
        assert not isinstance(own, TrainedModel)
        classifiers = [own.weight, loaded.shared.weight, loaded.clusters[loaded.tasks[name].cluster].weight]
        for array in (*classifiers, loaded.references[name]):
            assert array.dtype == np.float16
            assert not array.flags.owndata
            assert not array.flags.writeable


def test_loaded_parameters_are_those_that_were_fitted(tmp_path: Path) -> None:
    planted = make_planted_vectors(4, 2, seed=0)
    model = ClusterMultiTask(
        planted.encoder, settings=QUICK, n_folds=4, n_random=0, cluster_models="never", refit="train"
    )
    model.fit(planted.tasks, planted.kinds).save(tmp_path / "model")
    loaded = ClusterMultiTask.load(tmp_path / "model")
    found, expected = loaded.get_params(), model.get_params()
    assert type(found.pop("encoder")) is type(expected.pop("encoder"))
    assert found == expected
    words = TaskSet(Task(name, ["good", "bad"] * 4, ["p", "q"] * 4) for name in "ab")
    settings = MultiTaskSettings(width=8, activation="relu", epochs=2, min_steps=10)
    ClusterMultiTask("cnn", settings=settings).fit(words).save(tmp_path / "words")
    again = ClusterMultiTask.load(tmp_path / "words")
    assert again.encoder == "cnn"
    # Fitted again, it is the same model, not one on some default encoder.
    texts = ["good", "bad thing"]
    expected_table = again.predict_proba("a", texts)
    assert np.array_equal(again.fit(words).predict_proba("a", texts), expected_table)


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_words_round_trip(tmp_path: Path, strategy: Any) -> None:
    texts = [f"{start} {end}" for start in ("good", "bad") for end in ("food", "place", "people", "music")]
    splits = ["train", "train", "train", "valid"] * 2
    labels = ["yes"] * 4 + ["no"] * 4
    tasks = TaskSet(Task(name, [f"{text} {name}" for text in texts], labels, splits) for name in "abcd")
    tasks = tasks.keep_private(["d"])
    settings = MultiTaskSettings(width=8, activation="relu", epochs=2, min_steps=10)
    model = ClusterMultiTask("cnn", strategy=strategy, settings=settings, cluster_models="always", n_random=0)
    model.fit(tasks, [0, 0, 1, 1])
    model.save(tmp_path / "model")
    asked = ["good people", "something bad", "unknown words only", ""]
    check_same(model, ClusterMultiTask.load(tmp_path / "model"), dict.fromkeys("abcd", asked))


def test_damage_is_found(tmp_path: Path) -> None:
    planted = make_planted_vectors(3, 1, seed=0)
    model = ClusterMultiTask(planted.encoder, settings=QUICK)
    with pytest.raises(UsageError, match="not trained"):
        model.save(tmp_path / "model")
    model.fit(planted.tasks).save(tmp_path / "model")
    with pytest.raises(StoreError):
        ClusterMultiTask.load(tmp_path / "nothing")
    for path in sorted((tmp_path / "model").iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(StoreError, match="model"):
            ClusterMultiTask.load(tmp_path / "model")
        path.write_bytes(content)
    ClusterMultiTask.load(tmp_path / "model")

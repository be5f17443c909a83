"""The multi-task estimator: what it learns, what it decides, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_vectors import PlantedVectors, make_planted_vectors, mean_test_accuracy

from robusttc.data import Task, TaskSet
from robusttc.encoders.features import FeatureEncoder
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.progress import ProgressEvent

# As many epochs for all tasks together as for a cluster: else the verdict would be about training times.
QUICK = MultiTaskSettings(
    width=48,
    dropout=0.2,
    epochs=60,
    min_steps=1,
    learning_rate=3e-3,
    head_rate=5.0,
    head_c=3.0,
    share_labels=False,
)


def fit(planted: PlantedVectors, labels: Any = None, **options: Any) -> ClusterMultiTask:
    options = {"settings": QUICK, **options}
    return ClusterMultiTask(planted.encoder, **options).fit(planted.tasks, labels)


@pytest.mark.parametrize("seed", range(2))
def test_clusters_of_kinds_pay_and_serve(seed: int) -> None:
    planted = make_planted_vectors(32, 4, seed=seed, n_train=30)
    model = fit(planted, planted.kinds, random_state=seed)
    assert model.verdict_ is not None
    assert model.verdict_.clusters_help
    assert "they serve" in model.verdict_.sentence
    assert model.weights_["cluster"] > 0.3
    assert model.weights_["cluster"] > max(model.weights_["own"], model.weights_["shared"])
    assert model.familiar_weights_ == model.weights_  # vectors are no texts
    assert set(model.starts_) == {0, 1, 2, 3}
    assert model.components_["cluster over shared"].mean > 0
    without = fit(planted, planted.kinds, random_state=seed, clusters="never")
    assert without.weights_["cluster"] == 0
    own = {"own": 1.0, "shared": 0.0, "cluster": 0.0}
    assert mean_test_accuracy(model, planted) > mean_test_accuracy(without, planted) + 0.01
    assert without.weights_ != own


@pytest.mark.parametrize("seed", range(2))
def test_clusters_that_mean_nothing_do_not_serve(seed: int) -> None:
    planted = make_planted_vectors(20, 1, seed=seed)
    model = fit(planted, np.arange(20) % 4, random_state=seed)
    assert model.verdict_ is not None
    assert not model.verdict_.clusters_help
    assert "the shared model serves" in model.verdict_.sentence
    assert model.weights_["cluster"] == 0
    assert model.starts_ == {}
    assert model.weights_["shared"] > 0.5  # all tasks are of one kind


def test_random_clusters_are_no_better_than_random_clusters() -> None:
    planted = make_planted_vectors(32, 4, seed=3, n_train=30)
    model = fit(planted, np.random.default_rng(0).permutation(planted.kinds))
    assert model.verdict_ is not None
    assert not model.verdict_.clusters_help


def test_clusters_always_serve_when_asked_to() -> None:
    planted = make_planted_vectors(8, 1, seed=0)
    model = fit(planted, np.arange(8) % 2, clusters="always", n_random=0)
    assert model.weights_["cluster"] > 0
    assert model.verdict_ is not None
    assert model.verdict_.over_random is None


def test_the_order_of_tasks_and_the_numbers_of_clusters_do_not_matter() -> None:
    planted = make_planted_vectors(8, 2, seed=1)
    model = fit(planted, planted.kinds, clusters="always", n_random=1)
    turned = TaskSet(reversed(list(planted.tasks)))
    numbers = {name: 7 - 4 * int(kind) for name, kind in zip(planted.tasks.names, planted.kinds, strict=True)}
    again = ClusterMultiTask(planted.encoder, settings=QUICK, clusters="always", n_random=1).fit(
        turned, numbers
    )
    assert again.weights_ == model.weights_
    for name in planted.tasks.names:
        rows = planted.features[name]
        assert np.array_equal(model.predict_proba(name, rows), again.predict_proba(name, rows))


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_probabilities_are_by_label_and_by_row_alone(strategy: Any) -> None:
    planted = make_planted_vectors(6, 2, seed=0)
    model = fit(planted, planted.kinds, strategy=strategy, clusters="always", n_random=0)
    rows = planted.features["task-03"]
    whole = model.predict_proba("task-03", rows)
    assert whole.shape == (len(rows), 3)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, atol=1e-9)
    for one in (0, 17, 50):
        assert np.array_equal(model.predict_proba("task-03", rows[one : one + 1])[0], whole[one])
    names = np.array(model.label_names("task-03"), dtype=object)
    assert np.array_equal(model.predict("task-03", rows), names[whole.argmax(axis=1)])
    assert model.predict("task-03", rows[:0]).shape == (0,)
    again = fit(planted, planted.kinds, strategy=strategy, clusters="always", n_random=0)
    assert np.array_equal(again.predict_proba("task-03", rows), whole)


def test_abstains_below_a_probability() -> None:
    planted = make_planted_vectors(4, 1, seed=0, noise=1.5)
    model = fit(planted)
    rows = planted.features["task-00"]
    sure = model.predict_proba("task-00", rows).max(axis=1)
    threshold = float(np.median(sure))
    found = model.predict("task-00", rows, abstain_below=threshold)
    assert np.array_equal(found == None, sure < threshold)  # noqa: E711 - element by element
    plain = model.predict("task-00", rows)
    assert (found[sure >= threshold] == plain[sure >= threshold]).all()
    with pytest.raises(UsageError, match="abstain_below"):
        model.predict("task-00", rows, abstain_below=1.5)


def test_the_paper_trains_one_model_a_cluster() -> None:
    planted = make_planted_vectors(9, 2, seed=0)
    labels = [0, 1, 0, 1, 0, 1, 0, 5, -1]
    model = fit(planted, labels, strategy="paper")
    assert model.weights_ == {"own": 0.0, "shared": 0.0, "cluster": 1.0}
    assert model.starts_ == {0: "scratch", 1: "scratch"}
    assert set(model.epochs_) == {0, 1}
    assert model.verdict_ is None
    assert model.labels_.tolist() == labels
    assert mean_test_accuracy(model, planted) > 0.6
    with pytest.raises(UsageError, match="out-of-fold"):
        model.harm_report()


def test_the_paper_says_which_clusters_have_no_validation_rows() -> None:
    planted = make_planted_vectors(4, 2, seed=0)
    tasks = TaskSet(
        task.with_splits(["train" if split == "valid" else split for split in task.splits])
        if kind == 1
        else task
        for task, kind in zip(planted.tasks, planted.kinds, strict=True)
    )
    settings = QUICK.replace(epochs=4, min_steps=1)
    model = ClusterMultiTask(planted.encoder, strategy="paper", settings=settings).fit(tasks, planted.kinds)
    assert model.without_validation_ == (1,)
    assert model.epochs_[1] == 4


def test_without_labels_there_is_one_shared_model() -> None:
    planted = make_planted_vectors(6, 1, seed=0)
    model = fit(planted)
    assert model.labels_.tolist() == [0] * 6
    assert model.verdict_ is not None
    assert "no clusters" in model.verdict_.sentence
    assert fit(planted, [3] * 6).weights_ == model.weights_
    one = planted.tasks.subset(["task-00"])
    alone = ClusterMultiTask(planted.encoder, settings=QUICK).fit(one)
    assert alone.weights_ == {"own": 1.0, "shared": 0.0, "cluster": 0.0}
    assert alone.verdict_ is None
    assert alone.predict("task-00", planted.features["task-00"][:2]).shape == (2,)


def test_labels_stay_the_strings_they_were() -> None:
    rows = np.repeat(np.eye(4), 6, axis=0)
    labels = ["10"] * 6 + ["2"] * 6 + ["1"] * 6 + ["-1"] * 6
    tasks = TaskSet(Task(name, ["text"] * 24, labels) for name in ("a", "b"))
    model = ClusterMultiTask(FeatureEncoder({"a": rows, "b": rows}), settings=QUICK).fit(tasks)
    assert model.label_names("a") == ("-1", "1", "10", "2")
    assert model.predict("a", np.eye(4)).tolist() == ["10", "2", "1", "-1"]


def test_tasks_of_a_few_rows_are_learned() -> None:
    rows = np.eye(3)
    tasks = TaskSet(Task(name, ["r", "s", "t"], ["x", "y", "y"]) for name in "abc")
    model = ClusterMultiTask(FeatureEncoder(dict.fromkeys("abc", rows)), settings=QUICK)
    model.fit(tasks, [0, 0, 1])
    assert model.predict("b", rows).tolist() == ["x", "y", "y"]
    single = TaskSet(Task(name, ["r", "s"], ["x", "y"]) for name in "abc")
    model = ClusterMultiTask(FeatureEncoder(dict.fromkeys("abc", rows[:2])), settings=QUICK)
    assert model.fit(single, [0, 0, 1]).predict("b", rows[:2]).tolist() == ["x", "y"]
    assert model.weights_ == {"own": 0.5, "shared": 0.5, "cluster": 0.0}


def test_progress_is_told() -> None:
    planted = make_planted_vectors(4, 2, seed=0)
    events: list[ProgressEvent] = []
    ClusterMultiTask(planted.encoder, settings=QUICK, n_random=0).fit(
        planted.tasks, planted.kinds, progress=events.append
    )
    assert {event.stage for event in events} == {"features", "multitask"}
    models = [event for event in events if event.stage == "multitask"]
    # The count goes up to its end, and never back.
    done = [event.done for event in models]
    assert done == sorted(done)
    # Of four tasks, own models are one unit a fold, and one of those that serve.
    assert models[-1].done == models[-1].total == 3 * (1 + 2 * 2) + 1 + 2 + 3 + 1


def test_words_are_learned_with_both_strategies() -> None:
    templates = {"greet": "hello there {}", "leave": "bye bye {}", "order": "i want the {} now"}
    words = ["soup", "bread", "fish", "salad", "cake", "tea", "rice", "milk", "egg", "plum"]
    texts = [template.format(word) for template in templates.values() for word in words]
    labels = [label for label in templates for _ in words]
    splits = (["train"] * 8 + ["valid"] * 2) * 3
    tasks = TaskSet(Task(name, [f"{text} {name}" for text in texts], labels, splits) for name in "abc")
    settings = MultiTaskSettings(
        width=16, activation="relu", epochs=6, min_steps=30, learning_rate=1e-2, head_rate=1.0
    )
    for strategy in ("blend", "paper"):
        model = ClusterMultiTask("cnn", strategy=strategy, settings=settings, n_random=0)
        model.fit(tasks, [0, 0, 1])
        asked = ["bye bye cat", "i want the chair now"]
        assert model.predict("a", asked).tolist() == ["leave", "order"]
        score = model.scope_score("a", ["i want the soup now"])
        assert ((score >= 0) & (score <= 1)).all()


def test_what_cannot_be_used_is_refused() -> None:
    planted = make_planted_vectors(4, 2, seed=0)
    model = ClusterMultiTask(planted.encoder, settings=QUICK, n_random=0)
    with pytest.raises(UsageError, match="Call fit"):
        model.predict("task-00", planted.features["task-00"])
    model.fit(planted.tasks)
    with pytest.raises(UnknownTaskError, match="Did you mean 'task-0"):
        model.predict("task-0O", planted.features["task-00"])
    with pytest.raises(UsageError, match="vectors"):
        model.predict("task-00", ["a text"])
    for options, word in (
        ({"strategy": "papper"}, "paper"),
        ({"clusters": "yes"}, "clusters"),
        ({"tune": "all"}, "tune"),
        ({"tune": "encoder"}, "sentence encoder"),
        ({"settings": 3}, "settings"),
        ({"n_folds": 1}, "n_folds"),
        ({"n_random": -1}, "n_random"),
        ({"random_state": -1}, "random_state"),
    ):
        with pytest.raises(UsageError, match=word):
            ClusterMultiTask(planted.encoder, **options).fit(planted.tasks)
    with pytest.raises(UsageError, match="one cluster a task"):
        model.fit(planted.tasks, [0, 1])
    with pytest.raises(UsageError, match="TaskSet"):
        model.fit(list(planted.tasks))  # type: ignore[arg-type]
    flat = Task("flat", ["a", "b"], ["x", "x"])
    with pytest.raises(DataError, match=r"'flat'.*label 'x'"):
        ClusterMultiTask(FeatureEncoder({"flat": np.eye(2)})).fit(TaskSet([flat]))
    empty = Task("empty", ["a", "b"], ["x", "y"], ["test", "test"])
    with pytest.raises(DataError, match="no training rows"):
        ClusterMultiTask(FeatureEncoder({"empty": np.eye(2)})).fit(TaskSet([empty]))
    with pytest.raises(DataError, match="no tasks"):
        ClusterMultiTask(planted.encoder).fit(TaskSet([]))


def test_parameters_are_kept_as_given() -> None:
    model = ClusterMultiTask("cnn", strategy="paper", n_folds=5)
    assert model.get_params()["n_folds"] == 5
    assert model.get_params()["encoder"] == "cnn"
    assert set(model.get_params()) == set(ClusterMultiTask.__init__.__kwdefaults__ or {}) | {"encoder"}

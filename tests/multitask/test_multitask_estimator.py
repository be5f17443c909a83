"""The multi-task estimator: what it learns, what it decides, and what it refuses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from planted_vectors import PlantedVectors, make_planted_vectors, mean_test_accuracy
from sklearn.base import clone

from robusttc.clustering import RobustTaskClustering
from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask, MultiTaskSettings, TrainingData
from robusttc.progress import ProgressEvent
from robusttc.transfer import measure_transfer

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
    assert model.seen_weights_ == model.weights_  # vectors are no texts
    assert set(model.predictor_.clusters) == {0, 1, 2, 3}
    assert model.clusters_serve_
    assert model.held_out_accuracy_["cluster over shared"].mean > 0
    without = fit(planted, planted.kinds, random_state=seed, cluster_models="never")
    assert without.weights_["cluster"] == 0
    assert mean_test_accuracy(model, planted) > mean_test_accuracy(without, planted) + 0.01


@pytest.mark.parametrize("seed", range(2))
def test_clusters_that_mean_nothing_do_not_serve(seed: int) -> None:
    planted = make_planted_vectors(20, 1, seed=seed)
    model = fit(planted, np.arange(20) % 4, random_state=seed)
    assert model.verdict_ is not None
    assert not model.verdict_.clusters_help
    assert "the shared model serves" in model.verdict_.sentence or "a blend of" in model.verdict_.sentence
    assert model.weights_["cluster"] == 0
    assert model.predictor_.clusters == {}
    assert not model.clusters_serve_
    assert model.weights_["shared"] > 0.5  # all tasks are of one kind


def test_random_clusters_are_no_better_than_random_clusters() -> None:
    planted = make_planted_vectors(32, 4, seed=3, n_train=30)
    model = fit(planted, np.random.default_rng(0).permutation(planted.kinds))
    assert model.verdict_ is not None
    assert not model.verdict_.clusters_help


def test_clusters_always_serve_when_asked_to() -> None:
    planted = make_planted_vectors(8, 1, seed=0)
    model = fit(planted, np.arange(8) % 2, cluster_models="always", n_random=0)
    assert model.weights_["cluster"] > 0
    assert model.verdict_ is not None
    assert model.verdict_.over_random is None


def test_the_order_of_tasks_and_the_numbers_of_clusters_do_not_matter() -> None:
    planted = make_planted_vectors(8, 2, seed=1)
    model = fit(planted, planted.kinds, cluster_models="always", n_random=1)
    turned = TaskSet(reversed(list(planted.tasks)))
    numbers = {name: 7 - 4 * int(kind) for name, kind in zip(planted.tasks.names, planted.kinds, strict=True)}
    again = ClusterMultiTask(planted.encoder, settings=QUICK, cluster_models="always", n_random=1).fit(
        turned, numbers
    )
    assert again.weights_ == model.weights_
    for name in planted.tasks.names:
        rows = planted.features[name]
        assert np.array_equal(model.predict_proba(name, rows), again.predict_proba(name, rows))


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_probabilities_are_by_label_and_by_row_alone(strategy: Any) -> None:
    planted = make_planted_vectors(6, 2, seed=0)
    model = fit(planted, planted.kinds, strategy=strategy, cluster_models="always", n_random=0)
    rows = planted.features["task-03"]
    whole = model.predict_proba("task-03", rows)
    assert whole.shape == (len(rows), 3)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, atol=1e-9)
    for one in (0, 17, 50):
        assert np.array_equal(model.predict_proba("task-03", rows[one : one + 1])[0], whole[one])
    names = np.array(model.label_names("task-03"), dtype=object)
    assert np.array_equal(model.predict("task-03", rows), names[whole.argmax(axis=1)])
    assert model.predict("task-03", rows[:0]).shape == (0,)
    again = fit(planted, planted.kinds, strategy=strategy, cluster_models="always", n_random=0)
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
    assert model.weights_ == {"own": 0.0, "shared": 0.0, "cluster": 1.0, "prior": 0.0}
    assert set(model.epochs_) == {0, 1}
    assert model.verdict_ is None
    assert model.labels_.tolist() == labels
    assert mean_test_accuracy(model, planted) > 0.6
    with pytest.raises(UsageError, match="held-out"):
        model.negative_transfer_report()


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
    assert alone.weights_ == {"own": 1.0, "shared": 0.0, "cluster": 0.0, "prior": 0.0}
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
    assert model.weights_ == {"own": 0.5, "shared": 0.5, "cluster": 0.0, "prior": 0.0}


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
    # In each fold the own models of four tasks (one job), the shared one and two clusters; then what serves.
    assert models[-1].done == models[-1].total == 3 * (1 + 1 + 2) + 1 + 1 + 2


def test_words_are_learned_with_both_strategies() -> None:
    templates = {"greet": "hello there {}", "leave": "bye bye {}", "order": "i want the {} now"}
    words = ["soup", "bread", "fish", "salad", "cake", "tea", "rice", "milk", "egg", "plum"]
    texts = [template.format(word) for template in templates.values() for word in words]
    labels = [label for label in templates for _ in words]
    splits = (["train"] * 8 + ["valid"] * 2) * 3
    tasks = TaskSet(Task(name, [f"{text} {name}" for text in texts], labels, splits) for name in "abc")
    settings = MultiTaskSettings(
        width=16,
        activation="relu",
        epochs=6,
        min_steps=30,
        learning_rate=1e-2,
        head_rate=1.0,
        head_c=3.0,
        cluster_width=1.0,
        cluster_steps=1.0,
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
        ({"cluster_models": "yes"}, "cluster_models"),
        ({"refit": "tests"}, "refit"),
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


def test_scikit_learn_can_clone_change_and_show_it() -> None:
    planted = make_planted_vectors(4, 2, seed=0)
    model = ClusterMultiTask(planted.encoder, strategy="paper", n_folds=5, settings=QUICK)
    assert model.get_params()["n_folds"] == 5
    assert set(model.get_params()) == set(ClusterMultiTask.__init__.__kwdefaults__ or {}) | {"encoder"}
    copied = clone(model)
    assert copied.settings == QUICK
    assert "strategy='paper'" in repr(copied)
    copied.set_params(strategy="blend", n_random=0).fit(planted.tasks, planted.kinds)
    assert copied.verdict_ is not None
    # Fitted again after a change, also of the encoder, nothing of the first fit is left.
    other = {name: rows[:, :7] for name, rows in planted.features.items()}
    copied.set_params(encoder=FeatureEncoder(other), strategy="paper").fit(planted.tasks, planted.kinds)
    assert copied.verdict_ is None
    assert copied.held_out_ == {}
    assert copied.predict("task-00", other["task-00"]).shape == (96,)
    with pytest.raises(ValueError, match="clusters"):
        copied.set_params(clusters="always")


def test_clusters_can_be_labels_names_or_a_fitted_clustering() -> None:
    planted = make_planted_vectors(6, 2, seed=0)
    tasks = planted.tasks.keep_private(["task-05"])
    names = list(planted.tasks.names)[:5]
    scores = measure_transfer(tasks.shareable(), encoder=planted.encoder, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups = RobustTaskClustering(n_clusters=2).fit(scores)
    by_name = dict(zip(names, groups.labels_.tolist(), strict=True))
    options: dict[str, Any] = {"settings": QUICK.replace(epochs=2), "cluster_models": "always", "n_random": 0}
    models = [
        ClusterMultiTask(planted.encoder, **options).fit(tasks, clusters=clusters)
        for clusters in (groups, {**by_name, "task-05": -1}, [*groups.labels_.tolist(), -1])
    ]
    assert models[0].labels_.tolist() == [*groups.labels_.tolist(), -1]
    rows = planted.features["task-00"]
    expected = models[0].predict_proba("task-00", rows)
    assert all(np.array_equal(model.predict_proba("task-00", rows), expected) for model in models[1:])
    with pytest.raises(UsageError, match="fitted RobustTaskClustering"):
        models[0].fit(tasks, clusters=RobustTaskClustering())


def test_always_means_always_and_the_paper_obeys_never() -> None:
    planted = make_planted_vectors(8, 1, seed=0)
    # Clusters that mean nothing, and models of them that are hardly trained: no weight is learned for them.
    settings = QUICK.replace(epochs=1, learning_rate=1e-5, head_c=0.0)
    model = fit(planted, np.arange(8) % 2, cluster_models="always", n_random=0, settings=settings)
    assert model.clusters_serve_
    assert set(model.predictor_.clusters) == {0, 1}
    assert model.weights_["cluster"] > 0
    assert model.verdict_ is not None
    assert model.verdict_.sentence.endswith("they serve all the same, as asked.")
    never = fit(planted, np.arange(8) % 2, strategy="paper", cluster_models="never")
    assert not never.clusters_serve_
    together = fit(planted, None, strategy="paper")
    rows = planted.features["task-00"]
    assert np.array_equal(never.predict_proba("task-00", rows), together.predict_proba("task-00", rows))


@pytest.mark.parametrize("own_c", [30.0, 1e-6])
def test_the_sentence_names_what_serves(own_c: float) -> None:
    planted = make_planted_vectors(8, 1, seed=0)
    model = fit(planted, settings=QUICK.replace(own_c=own_c))
    said = {
        (True, True): "a blend of single-task and shared models serves.",
        (False, True): "the shared model serves.",
        (True, False): "single-task models serve.",
    }
    assert model.verdict_ is not None
    weights = model.weights_
    assert model.verdict_.sentence.endswith(said[weights["own"] > 0, weights["shared"] > 0])


class CountingRunner(Runner):
    """Notes the keys of its jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def run(self, stage: str, jobs: Any, *arguments: Any, **options: Any) -> Any:
        self.keys += [job.key for job in jobs]
        return super().run(stage, jobs, *arguments, **options)


def test_the_paper_trains_exactly_its_clusters() -> None:
    planted = make_planted_vectors(9, 2, seed=0)
    runner = CountingRunner()
    model = ClusterMultiTask(planted.encoder, strategy="paper", settings=QUICK.replace(epochs=2))
    model.fit(planted.tasks, [0, 1, 0, 1, 0, 1, 0, 5, -1], runner=runner)
    # Two clusters, and two tasks that are alone.
    assert len(runner.keys) == 4
    assert all("/whole/cluster/" in key for key in runner.keys)


def test_rows_are_refitted_as_asked() -> None:
    planted = make_planted_vectors(6, 1, seed=0)
    options: dict[str, Any] = {"cluster_models": "never", "settings": QUICK.replace(epochs=10)}
    models = {refit: fit(planted, refit=refit, **options) for refit in ("train", "valid", "all")}
    rows = {refit: model.held_out_["task-00"].rows.tolist() for refit, model in models.items()}
    task = planted.tasks["task-00"]
    assert sorted(rows["train"]) == task.rows("train").tolist()
    # Rows in test are never used to decide, also where they are learned from in the end.
    assert sorted(rows["valid"]) == sorted(rows["all"]) == task.rows("train", "valid").tolist()
    assert models["all"].weights_ == models["valid"].weights_
    assert models["valid"].agreement_ is None
    agreement = models["all"].agreement_
    assert agreement is not None
    assert 0.5 < agreement.mean <= 1
    evaluated = models["all"].evaluation_["task-00"]
    # The same models were evaluated, before the rows in test were learned from.
    for kind, right in models["valid"].evaluation_["task-00"].right.items():
        assert np.array_equal(evaluated.right[kind], right)
    assert evaluated.rows.tolist() == task.rows("test").tolist()
    predicted = models["valid"].predict("task-00", planted.features["task-00"][evaluated.rows])
    assert np.array_equal(evaluated.right["served"], predicted == task.labels[evaluated.rows])
    accuracy = {refit: mean_test_accuracy(model, planted) for refit, model in models.items()}
    assert accuracy["valid"] > accuracy["train"] - 0.02
    assert accuracy["all"] > accuracy["valid"]


def test_all_rows_are_learned_from_where_the_splits_were_drawn() -> None:
    planted = make_planted_vectors(6, 1, seed=0)
    names = planted.tasks.names
    given = planted.tasks
    drawn = TaskSet(
        Task(
            task.name,
            task.texts,
            task.labels.tolist(),
            task.splits.tolist(),
            splits_drawn=task.name == names[0],
        )
        for task in given
    )
    options: dict[str, Any] = {"cluster_models": "never", "settings": QUICK.replace(epochs=5)}
    with_given = fit(planted, refit="auto", **options)
    assert with_given.agreement_ is None
    model = ClusterMultiTask(planted.encoder, random_state=0, **options).fit(drawn, progress=False)
    everything = fit(planted, refit="all", **options)
    features = planted.features[names[0]]

    def own(model: ClusterMultiTask, name: str) -> Any:
        inputs, _ = model.predictor_.read(name, features)
        return model.predictor_.component("own", name, inputs)

    assert np.array_equal(own(model, names[0]), own(everything, names[0]))
    assert not np.array_equal(own(model, names[0]), own(with_given, names[0]))
    assert np.array_equal(own(model, names[1]), own(with_given, names[1]))
    assert model.agreement_ is not None


def test_the_fitted_estimator_keeps_no_training_inputs() -> None:
    planted = make_planted_vectors(4, 1, seed=0, n_train=300)
    model = fit(planted, settings=QUICK.replace(epochs=1))
    # What is pickled is what is kept: at most 256 training vectors of a task, and models.
    n_kept = sum(len(reference) for reference in model.predictor_.references.values())
    assert n_kept == 4 * 256
    kept = {name: value for name, value in vars(model).items() if name != "encoder"}
    assert not any(isinstance(value, TaskSet | TrainingData) for value in kept.values())

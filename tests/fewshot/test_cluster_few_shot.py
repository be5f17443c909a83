"""Few-shot learning end to end, on vectors with planted kinds of task."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import DataError, DoubtWarning, StoreError, UsageError
from robusttc.fewshot import ClusterFewShot, FewShotModel, FewShotSettings, MetricSettings, few_shot_rows
from robusttc.fewshot.adaptation import leave_one_out_prototypes
from robusttc.jobs import Runner
from robusttc.progress import ProgressEvent

N_LABELS, N_EACH = 4, 24
QUICK = FewShotSettings(metric=MetricSettings(steps=40, learning_rate=1e-2), draws=1)
QUICK_PAPER = FewShotSettings(
    metric=MetricSettings(steps=40, learning_rate=1e-2, loss="matching", names=0.0, scale=4.0), draws=1
)


def make_kinds(
    seed: int, n_tasks: int = 16, *, same_labels: bool = False
) -> tuple[TaskSet, dict[str, Any], dict[str, int]]:
    """Two kinds of task: labels depend on the first 8 directions, or on the last 8; the others mislead."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(2, N_LABELS, 8))
    tasks, vectors, kinds = [], {}, {}
    for number in range(n_tasks):
        kind, name = number % 2, f"task {number:02d}"
        codes = np.repeat(np.arange(N_LABELS), N_EACH)
        own = centres[kind] if same_labels else generator.normal(size=(N_LABELS, 8))
        useful = own[codes] + 0.5 * generator.normal(size=(len(codes), 8))
        misleading = 1.5 * generator.normal(size=(len(codes), 8))
        halves = [useful, misleading] if kind == 0 else [misleading, useful]
        vectors[name] = np.concatenate(halves, axis=1).astype(np.float32)
        texts = [f"{name} row {row}" for row in range(len(codes))]
        labels = [f"label {code}" if same_labels else f"{name} label {code}" for code in codes]
        tasks.append(Task(name, texts, labels))
        kinds[name] = kind
    return TaskSet(tasks), vectors, kinds


@cache
def fit(seed: int = 0, *, with_labels: bool = True, same_labels: bool = False, **options: Any) -> Any:
    tasks, vectors, kinds = make_kinds(seed, same_labels=same_labels)
    sources = tasks.subset(tasks.names[:-4])
    options = {"settings": QUICK, "random_state": seed, **options}
    learner = ClusterFewShot(FeatureEncoder(vectors), **options)
    learner.fit(sources, [kinds[name] for name in sources.names] if with_labels else None)
    return learner, tasks, vectors, kinds


def score(
    learner: ClusterFewShot, tasks: TaskSet, vectors: dict[str, Any]
) -> tuple[float, list[FewShotModel]]:
    values, models = [], []
    for name in tasks.names[-4:]:
        task = tasks[name]
        rows = few_shot_rows(task, extra=6)
        others = np.setdiff1d(np.arange(len(task)), rows)
        model = learner.adapt(task.take(rows), vectors=vectors[name][rows])
        values.append(float((model.predict(vectors[name][others]) == task.labels[others]).mean()))
        models.append(model)
    return float(np.mean(values)), models


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_clusters_of_different_kinds_help_and_the_verdict_says_so(seed: int, strategy: Any) -> None:
    settings = QUICK if strategy == "blend" else QUICK_PAPER
    learner, tasks, vectors, kinds = fit(
        seed, strategy=strategy, settings=settings.replace(cluster_share=1.0)
    )
    alone, *_ = fit(seed, strategy=strategy, settings=settings, with_labels=False)
    # The paper does not ask whether they help.
    assert learner.verdict_ is None if strategy == "paper" else learner.verdict_.clusters_help
    assert learner.clusters_serve_
    with_clusters, models = score(learner, tasks, vectors)
    assert with_clusters > score(alone, tasks, vectors)[0] + 0.01
    right = [model.weights_[kinds[name]] for name, model in zip(tasks.names[-4:], models, strict=True)]
    assert np.mean(right) > 0.6
    for model in models:
        assert sum(model.weights_.values()) == pytest.approx(1)
        assert not model.out_of_cluster_


@pytest.mark.parametrize("seed", [0, 1])
def test_random_clusters_do_not_serve(seed: int) -> None:
    tasks, vectors, _ = make_kinds(seed)
    sources = tasks.subset(tasks.names[:-4])
    # Each cluster has as many tasks of one kind as of the other.
    learner = ClusterFewShot(FeatureEncoder(vectors), settings=QUICK, random_state=seed)
    learner.fit(sources, [number // 2 % 2 for number in range(len(sources))])
    assert learner.verdict_ is not None
    assert not learner.verdict_.clusters_help
    assert not learner.clusters_serve_
    assert "shared model serves" in learner.verdict_.sentence
    shared = ClusterFewShot(FeatureEncoder(vectors), settings=QUICK, random_state=seed).fit(sources)
    rows = few_shot_rows(tasks[tasks.names[-1]])
    task = tasks[tasks.names[-1]].take(rows)
    own = vectors[task.name]
    answers = [one.adapt(task, vectors=own[rows]).predict(own) for one in (learner, shared)]
    assert (answers[0] == answers[1]).all()


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_identical_labels_are_pooled(strategy: Any) -> None:
    settings = QUICK if strategy == "blend" else QUICK_PAPER
    learner, tasks, vectors, kinds = fit(
        same_labels=True, strategy=strategy, settings=settings, cluster_models="always"
    )
    assert set(learner.metrics_.of_clusters("pools")) == {0, 1}
    # The paper has pooled classifiers and nothing else.
    assert (learner.metrics_.of_clusters() == {}) == (strategy == "paper")
    accuracy, models = score(learner, tasks, vectors)
    # The centres are those of the sources, so what they teach is nearly all there is to know.
    assert accuracy > 0.9
    for name, model in zip(tasks.names[-4:], models, strict=True):
        assert model.weights_[kinds[name]] > 0.6
        if strategy == "blend":
            assert kinds[model.nearest_tasks_[0][0]] == kinds[name]
        assert not model.out_of_cluster_
        similarities = [similarity for _, similarity in model.nearest_tasks_]
        assert similarities == sorted(similarities, reverse=True)
    # A task with other labels is learned by metrics; the paper has none then: it is out of all clusters.
    other = Task("other", [f"text {row}" for row in range(8)], ["x", "y"] * 4)
    model = learner.adapt(other, vectors=np.eye(8, 16))
    assert model.label_names == ("x", "y")
    assert model.out_of_cluster_ == (strategy == "paper")


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_sources_tell_how_frequent_a_label_is(strategy: Any) -> None:
    generator = np.random.default_rng(0)
    tasks, vectors = [], {}
    for number in range(9):
        name = f"task {number}"
        # Nine of ten rows are good, and the two overlap.
        codes = np.repeat([0, 1], [90, 10])
        rows = generator.normal(size=(100, 6)) + np.where(codes[:, None] == 0, 0.4, -0.4)
        vectors[name] = rows.astype(np.float32)
        labels = np.array(["good", "bad"])[codes].tolist()
        tasks.append(Task(name, [f"{name} text {row}" for row in range(100)], labels))
    whole = TaskSet(tasks)
    settings = QUICK if strategy == "blend" else QUICK_PAPER
    learner = ClusterFewShot(FeatureEncoder(vectors), strategy=strategy, settings=settings)
    learner.fit(whole.subset(whole.names[:-1]))
    new = whole[whole.names[-1]]
    support = np.array([*range(5), *range(90, 95)])
    model = learner.adapt(new.take(support), vectors=vectors[new.name][support])
    others = np.setdiff1d(np.arange(100), support)
    answers = model.predict(vectors[new.name][others])
    # As many rows of each label as the support set has would be far too many bad ones.
    assert (answers == "bad").mean() < 0.2
    assert (answers == new.labels[others]).mean() > 0.85


def test_the_paper_falls_back_below_the_threshold_only() -> None:
    tasks, vectors, _ = make_kinds(0)
    learner, *_ = fit(strategy="paper", settings=QUICK_PAPER, threshold=1.0)
    task = tasks[tasks.names[-1]]
    rows = few_shot_rows(task, extra=6)
    out = learner.adapt(task.take(rows), vectors=vectors[task.name][rows])
    assert out.out_of_cluster_ == (out.adapted_.best_accuracy < 1)
    noise = np.random.default_rng(0).normal(size=(24, 16))
    strange = Task("strange", [f"text {row}" for row in range(24)], [f"l{row % 4}" for row in range(24)])
    assert learner.adapt(strange, vectors=noise).out_of_cluster_
    learner, *_ = fit(strategy="paper", settings=QUICK_PAPER, threshold=0.0)
    assert not learner.adapt(strange, vectors=noise).out_of_cluster_


def test_what_serves_is_what_is_told_of() -> None:
    tasks, vectors, kinds = make_kinds(0)
    learner, *_ = fit(strategy="paper", settings=QUICK_PAPER, threshold=1.0)
    noise = np.random.default_rng(2).normal(size=(24, 16))
    strange = Task("strange", [f"text {row}" for row in range(24)], [f"l{row % 4}" for row in range(24)])
    model = learner.adapt(strange, vectors=noise)
    # Its own model serves: with its accuracy, and without a temperature that others have.
    unit = (noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
    codes = np.arange(24) % 4
    left_out = leave_one_out_prototypes(unit, codes, n_labels=4, scale=QUICK_PAPER.metric.scale)
    assert model.out_of_cluster_
    assert model.temperature_ == 1.0
    assert model.support_accuracy_ == (left_out.argmax(axis=1) == codes).mean()
    always, *_ = fit(settings=QUICK, cluster_models="always", seed=1)
    assert always.clusters_serve_
    assert "they serve" in always.verdict_.sentence
    sources = tasks.subset(tasks.names[:-4])
    choices: Any = (("blend", QUICK), ("paper", QUICK_PAPER))
    for strategy, settings in choices:
        never = ClusterFewShot(
            FeatureEncoder(vectors), strategy=strategy, settings=settings, cluster_models="never"
        ).fit(sources, [kinds[name] for name in sources.names])
        assert not never.clusters_serve_
        assert never.clusters_ == {}
        assert len(never.metrics_.of_clusters()) == (strategy == "paper")
        assert never.adapt(strange, vectors=noise).weights_ == {}


def test_the_paper_trains_one_metric_a_cluster_and_nothing_else() -> None:
    tasks, vectors, kinds = make_kinds(0)
    keys: list[str] = []

    class Counting(Runner):
        def run(self, stage: str, jobs: Any, shared: Any = None, **options: Any) -> Any:
            keys.extend(job.key for job in jobs)
            return super().run(stage, jobs, shared, **options)

    learner = ClusterFewShot(FeatureEncoder(vectors), strategy="paper", settings=QUICK_PAPER)
    learner.fit(tasks, kinds, runner=Counting())
    assert len(keys) == 2
    assert all("whole/cluster metric" in key for key in keys)
    assert set(learner.metrics_.metrics) == {"vectors", "cluster 0", "cluster 1"}
    with pytest.raises(UsageError, match="no shared metric"):
        learner.without_clusters()


def test_a_threshold_that_has_no_effect_is_refused() -> None:
    tasks, vectors, _ = make_kinds(0, 8)
    with pytest.raises(UsageError, match="no effect"):
        ClusterFewShot(FeatureEncoder(vectors), threshold=0.3).fit(tasks)


def test_threshold_can_be_tuned() -> None:
    learner, *_ = fit(strategy="paper", settings=QUICK_PAPER, threshold="auto")
    assert learner.get_params()["threshold"] == "auto"
    assert learner.threshold_ in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_private_tasks_teach_nothing(strategy: Any) -> None:
    settings = QUICK if strategy == "blend" else QUICK_PAPER
    settings = settings.replace(metric=settings.metric.replace(steps=10))
    tasks, vectors, kinds = make_kinds(1)
    private = tasks.names[3]
    other_vectors = {**vectors, private: vectors[private][::-1] * 5}
    learners = []
    for own, kept in (
        (vectors, tasks),
        (other_vectors, tasks),
        (vectors, tasks.subset(set(tasks.names) - {private})),
    ):
        names = [name for name in tasks.names if name in kept]
        sources = tasks.subset(names).keep_private([private] if private in names else [])
        learner = ClusterFewShot(
            FeatureEncoder(own), strategy=strategy, settings=settings, cluster_models="always"
        )
        learners.append(learner.fit(sources, [kinds[name] for name in names]))
    task = Task("new", [f"text {row}" for row in range(12)], ["x", "y", "z"] * 4)
    rows = np.random.default_rng(0).normal(size=(12, 16))
    models = [learner.adapt(task, vectors=rows) for learner in learners]
    first, *rest = [model.predict_proba(rows) for model in models]
    assert all((first == other).all() for other in rest)
    assert len({model.nearest_tasks_ for model in models}) == 1
    assert all(private not in learner.source_names_ for learner in learners)
    assert len({repr(learner.verdict_) for learner in learners}) == 1


def test_the_order_of_tasks_changes_nothing() -> None:
    tasks, vectors, kinds = make_kinds(0)
    rows = np.random.default_rng(0).normal(size=(12, 16))
    task = Task("new", [f"text {row}" for row in range(12)], ["x", "y", "z"] * 4)
    answers = []
    for names in (tasks.names, tasks.names[::-1]):
        settings = QUICK.replace(metric=QUICK.metric.replace(steps=10))
        learner = ClusterFewShot(FeatureEncoder(vectors), settings=settings, cluster_models="always")
        learner.fit(tasks.subset(names), {name: kinds[name] for name in names})
        answers.append(learner.adapt(task, vectors=rows).predict_proba(rows))
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-9)


@pytest.mark.parametrize("strategy", ["blend", "paper"])
@pytest.mark.parametrize("same_labels", [False, True])
def test_learner_and_models_are_the_same_after_loading(
    tmp_path: Path, strategy: Any, same_labels: bool
) -> None:
    settings = QUICK if strategy == "blend" else QUICK_PAPER
    learner, tasks, vectors, _ = fit(
        strategy=strategy, settings=settings, same_labels=same_labels, cluster_models="always"
    )
    learner.save(tmp_path / "learner")
    loaded = ClusterFewShot.load(tmp_path / "learner")
    assert loaded.verdict_ == learner.verdict_
    assert loaded.trust_ == learner.trust_
    assert loaded.clusters_ == learner.clusters_
    left_out = {"encoder", "device"}
    fitted, found = learner.get_params(), loaded.get_params()
    assert {name: found[name] for name in found if name not in left_out} == {
        name: fitted[name] for name in fitted if name not in left_out
    }
    assert loaded.threshold_ == learner.threshold_
    assert loaded.temperature_ == learner.temperature_
    task = tasks[tasks.names[-1]]
    own, rows = vectors[task.name], few_shot_rows(task)
    model = learner.adapt(task.take(rows), vectors=own[rows])
    again = loaded.adapt(task.take(rows), vectors=own[rows])
    model.save(tmp_path / "model")
    kept = FewShotModel.load(tmp_path / "model")
    values, arrays = model.describe()
    for other in (again, kept, loaded.restore(json.loads(json.dumps(values)), arrays)):
        assert (model.predict_proba(own) == other.predict_proba(own)).all()
        assert model.nearest_example(own[:3]) == other.nearest_example(own[:3])
        if strategy == "blend":
            assert (model.scope_score(own) == other.scope_score(own)).all()
        for name in [
            "weights_",
            "support_accuracy_",
            "out_of_cluster_",
            "nearest_tasks_",
            "temperature_",
            "label_names",
        ]:
            assert getattr(model, name) == getattr(other, name)


def test_models_hold_what_is_their_own_only() -> None:
    learner, tasks, vectors, _ = fit(cluster_models="always")
    task = tasks[tasks.names[-1]]
    own, rows = vectors[task.name], few_shot_rows(task)
    model = learner.adapt(task.take(rows), vectors=own[rows])
    values, arrays = model.describe()
    assert sum(array.nbytes for array in arrays.values()) < 4_000
    assert values["texts"] == [task.texts[row] for row in rows]
    # Texts that are encoded once serve several models, and a prediction with its scope.
    inputs = model.read(row for row in own)
    assert (model.probabilities(inputs) == model.predict_proba(own)).all()
    table, scope = model.predict_with_scope(own)
    assert (table == model.predict_proba(own)).all()
    assert (scope == model.scope_score(own)).all()
    near = model.nearest_example(own[rows[:2]])
    assert [one.text for one in near] == [task.texts[row] for row in rows[:2]]
    assert [one.label for one in near] == task.labels[rows[:2]].tolist()
    assert all(one.similarity == pytest.approx(1, abs=1e-3) for one in near)
    other, *_ = fit(seed=1)
    with pytest.raises(StoreError, match="another learner"):
        other.restore(values, arrays)


def test_estimators_behave_as_those_of_scikit_learn() -> None:
    tasks, vectors, kinds = make_kinds(0, 6)
    learner = ClusterFewShot(FeatureEncoder(vectors), settings=QUICK, random_state=3)
    again = clone(learner)
    assert again.get_params().keys() == learner.get_params().keys()
    assert "random_state=3" in repr(learner)
    before = dict(learner.get_params())
    learner.fit(tasks, kinds)
    assert learner.get_params() == before
    # Fitted again after a change, it is what it would be if it were new.
    rows = np.random.default_rng(0).normal(size=(12, 16))
    task = Task("new", [f"text {row}" for row in range(12)], ["x", "y", "z"] * 4)
    changed = learner.set_params(random_state=4, cluster_models="never").fit(tasks, kinds)
    fresh = again.set_params(random_state=4, cluster_models="never").fit(tasks, kinds)
    tables = [one.adapt(task, vectors=rows).predict_proba(rows) for one in (changed, fresh)]
    assert (tables[0] == tables[1]).all()


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    learner, *_ = fit()
    learner.save(tmp_path / "learner")
    with pytest.raises(StoreError):
        FewShotModel.load(tmp_path / "learner")
    (tmp_path / "learner" / "arrays.safetensors").write_bytes(b"x")
    with pytest.raises(StoreError, match=r"arrays\.safetensors"):
        ClusterFewShot.load(tmp_path / "learner")


def test_probabilities_are_calibrated_and_confident_answers_are_better() -> None:
    learner, tasks, vectors, _ = fit()
    assert learner.trust_report().error_after < learner.trust_.error_before + 0.02
    accuracies = [one.accuracy for one in learner.trust_.coverage if one.coverage > 0.2]
    assert accuracies == sorted(accuracies)
    assert 0.5 < learner.trust_.scope_auroc.mean <= 1
    task = tasks[tasks.names[-1]]
    rows = few_shot_rows(task)
    model = learner.adapt(task.take(rows), vectors=vectors[task.name][rows])
    probabilities = model.predict_proba(vectors[task.name])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    alone = model.predict_proba(vectors[task.name][5:6])[0]
    assert (alone == probabilities[5]).all()
    bold, careful = model.predict(vectors[task.name]), model.predict(vectors[task.name], abstain_below=0.8)
    unsure = np.array([answer is None for answer in careful])
    assert (unsure == (probabilities.max(axis=1) < 0.8)).all()
    assert (bold[~unsure] == careful[~unsure]).all()
    score = model.scope_score(vectors[task.name])
    assert ((score >= 0) & (score <= 1)).all()


def make_new(labels: list[str], texts: list[str] | None = None) -> tuple[Task, Any]:
    texts = texts or [f"text {row}" for row in range(len(labels))]
    return Task("new", texts, labels), np.random.default_rng(0).normal(size=(len(labels), 16))


@pytest.fixture(scope="module")
def learner() -> ClusterFewShot:
    fitted: ClusterFewShot = fit()[0]
    return fitted


def test_support_sets_that_teach_nothing_are_refused(learner: ClusterFewShot) -> None:
    for labels, message in ((["a"], "1 training rows, all of label 'a'"), (["a"] * 5, "5 training rows")):
        task, rows = make_new(labels)
        with pytest.raises(DataError, match=message):
            learner.adapt(task, vectors=rows)
    only_test = Task("new", ["x", "y"], ["a", "b"], ["test", "test"])
    with pytest.raises(DataError, match="0 training rows"):
        learner.adapt(only_test, vectors=np.eye(2, 16))


def test_labels_of_one_row_cannot_be_judged_but_are_learned(learner: ClusterFewShot) -> None:
    task, rows = make_new(["a", "b", "c"])
    model = learner.adapt(task, vectors=rows)
    assert np.isnan(model.support_accuracy_)
    # No row shows which cluster suits; what the clusters' texts and sizes show is left.
    assert learner.clusters_serve_
    assert sum(model.weights_.values()) == pytest.approx(1)
    assert not model.out_of_cluster_
    assert model.predict(rows).tolist() == ["a", "b", "c"]


def test_a_model_without_judged_rows_can_be_saved(learner: ClusterFewShot, tmp_path: Path) -> None:
    task, rows = make_new(["a", "b", "c"])
    learner.adapt(task, vectors=rows).save(tmp_path / "m")
    assert np.isnan(FewShotModel.load(tmp_path / "m").support_accuracy_)


def test_labels_without_training_rows_are_not_known(learner: ClusterFewShot) -> None:
    task = Task("new", ["p", "q", "r", "s"], ["a", "b", "c", "a"], ["train", "train", "test", "valid"])
    model = learner.adapt(task, vectors=np.eye(4, 16))
    assert model.label_names == ("a", "b")
    assert model.predict_proba(np.eye(4, 16)).shape == (4, 2)


def test_one_text_under_two_labels_is_told(learner: ClusterFewShot) -> None:
    task, rows = make_new(["a", "b", "a"], ["same", "same", "other"])
    with pytest.warns(DoubtWarning, match="'same' stands under two labels, 'a' and 'b'"):
        learner.adapt(task, vectors=rows)


def test_labels_that_look_like_numbers_stay_as_they_are(learner: ClusterFewShot) -> None:
    task, rows = make_new(["10", "2", "10", "2", "1e3"])
    model = learner.adapt(task, vectors=rows)
    assert model.label_names == ("10", "1e3", "2")
    assert set(model.predict(rows)) <= {"10", "2", "1e3"}


def test_no_texts_give_no_answers(learner: ClusterFewShot) -> None:
    task, rows = make_new(["a", "b"])
    model = learner.adapt(task, vectors=rows)
    assert model.predict([]).shape == (0,)
    assert model.predict([], abstain_below=0.5).shape == (0,)
    assert model.predict_proba([]).shape == (0, 2)
    assert model.scope_score([]).shape == (0,)


def test_a_source_can_be_adapted_to_and_is_not_its_own_neighbour(learner: ClusterFewShot) -> None:
    tasks, _, _ = make_kinds(0)
    model = learner.adapt(tasks["task 00"])  # the encoder has its vectors
    assert "task 00" not in [name for name, _ in model.nearest_tasks_]


def test_vectors_that_do_not_fit_are_refused(learner: ClusterFewShot, tmp_path: Path) -> None:
    task, rows = make_new(["a", "b"])
    with pytest.raises(DataError, match="no feature vectors"):
        learner.adapt(task)
    with pytest.raises(DataError, match="not one vector a row"):
        learner.adapt(task, vectors=rows[:1])
    learner.save(tmp_path / "learner")
    with pytest.raises(UsageError, match="vectors="):
        ClusterFewShot.load(tmp_path / "learner").adapt(task)
    with pytest.raises(UsageError, match="not a task"):
        learner.adapt("new")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="abstain_below"):
        learner.adapt(task, vectors=rows).predict(rows, abstain_below=1.5)


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": "both"},
        {"cluster_models": "yes"},
        {"tune": "all"},
        {"threshold": 2.0},
        {"refit": "test"},
        {"n_random": -1},
        {"settings": {"steps": 3}},
    ],
)
def test_parameters_are_kept_as_they_are_and_checked_at_fit(change: dict[str, Any]) -> None:
    tasks, vectors, _ = make_kinds(0, 2)
    learner = ClusterFewShot(FeatureEncoder(vectors), **change)
    assert learner.get_params()[next(iter(change))] == next(iter(change.values()))
    with pytest.raises(UsageError, match=next(iter(change))):
        learner.fit(tasks)


def test_use_before_fitting_and_useless_sources_are_refused() -> None:
    tasks, vectors, _ = make_kinds(0, 2)
    with pytest.raises(UsageError, match="Call fit"):
        ClusterFewShot().adapt(tasks["task 00"])
    with pytest.raises(UsageError, match="TaskSet"):
        ClusterFewShot().fit([])  # type: ignore[arg-type]
    with pytest.raises(DataError, match="none may share"):
        ClusterFewShot(FeatureEncoder(vectors)).fit(tasks.keep_private(tasks.names))
    with pytest.raises(UsageError, match="only a sentence encoder"):
        ClusterFewShot(FeatureEncoder(vectors), tune="encoder").fit(tasks)


def test_few_sources_give_no_verdict_and_no_scope() -> None:
    tasks, vectors, kinds = make_kinds(0, 4)
    learner = ClusterFewShot(FeatureEncoder(vectors), settings=QUICK).fit(tasks, list(kinds.values()))
    assert learner.verdict_ is not None
    assert not learner.verdict_.clusters_help
    assert learner.trust_.n_tasks == 0
    task, rows = make_new(["a", "b", "a", "b"])
    model = learner.adapt(task, vectors=rows)
    assert model.temperature_ == 1
    with pytest.raises(UsageError, match="no out-of-scope score"):
        model.scope_score(rows)


def test_progress_is_told() -> None:
    tasks, vectors, kinds = make_kinds(0, 8)
    events: list[ProgressEvent] = []
    learner = ClusterFewShot(FeatureEncoder(vectors), settings=QUICK)
    learner.fit(tasks, list(kinds.values()), progress=events.append)
    assert "fewshot" in {event.stage for event in events}
    assert all(0 <= event.done <= event.total for event in events)

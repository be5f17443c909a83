"""Learning gives the same bits whoever does its units, and goes on where a unit cannot be done."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import DoubtWarning, UsageError, WorkError
from robusttc.fewshot import ClusterFewShot, FewShotSettings, MetricSettings, assess_fewshot
from robusttc.jobs import Job, Result, Runner, Shared, make_executor, pack, unpack
from robusttc.models import TrainingSettings
from robusttc.multitask import ClusterMultiTask, MultiTaskSettings, assess_multitask
from robusttc.progress import Progress, ProgressEvent, report
from robusttc.transfer import TransferSettings, measure_transfer, pair_scores

QUICK = MultiTaskSettings(width=8, dropout=0.2, epochs=4, min_steps=10)
WORDS = QUICK.replace(activation="relu")
METRIC = MetricSettings(steps=8, learning_rate=1e-2)
FEW = FewShotSettings(metric=METRIC, draws=1, layer=TrainingSettings(width=6))
FEW_PAPER = FEW.replace(metric=METRIC.replace(loss="matching", names=0.0, scale=4.0))
TRANSFER = TransferSettings(training=TrainingSettings(width=6, epochs=2, min_steps=6, batch_size=8))


class Shuffled(Runner):
    """Runs jobs in random order, as another process would: all that crosses a border is bytes.

    Jobs whose keys `loses` returns True for fail.
    """

    def __init__(self, seed: int = 0, loses: Callable[[str], bool] = lambda _: False) -> None:
        super().__init__()
        self.generator = np.random.default_rng(seed)
        self.loses = loses
        self.keys: list[list[str]] = []
        self.n_held = 0

    def share(self, data: Any) -> Shared:
        self.n_held += 1
        return super().share(pickle.dumps(data))

    def release(self, shared: Shared) -> None:
        super().release(shared)
        self.n_held -= 1

    def run(
        self,
        stage: str,
        jobs: Sequence[Job],
        shared: Shared | None = None,
        *,
        on_result: Callable[[Job, Result], None] | None = None,
        progress: Progress | None = None,
        unit: str = "jobs",
    ) -> list[Result | None]:
        assert shared is not None
        keys = [job.key for job in jobs]
        assert len(set(keys)) == len(keys)
        assert all(key.startswith(f"{stage}/") for key in keys)
        self.keys.append(keys)
        results: list[Result | None] = [None] * len(jobs)
        for done, place in enumerate(self.generator.permutation(len(jobs)), start=1):
            job = pickle.loads(pickle.dumps(jobs[place]))  # noqa: S301
            if not self.loses(job.key):
                result = job.function(pickle.loads(shared.data), job.argument)  # noqa: S301
                results[place] = result = unpack(pack(result))
                if on_result is not None:
                    on_result(jobs[place], result)
            report(progress, stage, done, len(jobs), unit)
        return results


class Remembering(Shuffled):
    """Does a unit once, and gives its result again whenever the same key is asked for, as a run does."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Result | None] = {}

    def run(
        self, stage: str, jobs: Sequence[Job], shared: Shared | None = None, **options: Any
    ) -> list[Result | None]:
        new = [job for job in jobs if job.key not in self.known]
        results = super().run(stage, new, shared, **options)
        self.known |= dict(zip([job.key for job in new], results, strict=True))
        return [self.known[job.key] for job in jobs]


def content(model: Any, folder: Path) -> dict[str, bytes]:
    """Give the files of a saved model."""
    model.save(folder)
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def doubts() -> Iterator[list[str]]:
    """Collect what is doubted."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DoubtWarning)
        yield found
    found += [str(one.message) for one in caught if issubclass(one.category, DoubtWarning)]


def word_tasks(n_tasks: int = 6) -> TaskSet:
    generator = np.random.default_rng(1)
    vocabulary = ["pay", "bill", "card", "rain", "sun", "wind", "hello", "bye", "order", "pizza", "now"]
    splits = ["train"] * 12 + ["valid"] * 4
    return TaskSet(
        Task(
            f"w/{number}",  # any character may be in a name
            [" ".join([vocabulary[row % 2 + number], *generator.choice(vocabulary, 3)]) for row in range(16)],
            ["say_no" if row % 2 else "ask_now" for row in range(16)],
            splits,
        )
        for number in range(n_tasks)
    )


PLANTED = make_planted_vectors(8, 2, seed=0, n_test=3)
# Two clusters, a task alone in its cluster, and one in none.
LABELS = [0, 1, 0, 1, 0, 1, 7, -1]


def fit_multitask(runner: Any, **options: Any) -> ClusterMultiTask:
    encoder = options.pop("encoder", PLANTED.encoder)
    tasks, labels = options.pop("tasks", PLANTED.tasks), options.pop("labels", LABELS)
    return ClusterMultiTask(encoder, **{"settings": QUICK, **options}).fit(tasks, labels, runner=runner)


def ask(model: ClusterMultiTask, name: str) -> Any:
    """Give the probabilities of a task's rows before its temperature, which other tasks may change."""
    return model.predictor_.raw_probabilities(name, *model.predictor_.read(name, PLANTED.features[name]))


def few_shot_tasks(*, same_labels: bool = False) -> tuple[TaskSet, FeatureEncoder]:
    generator = np.random.default_rng(0)
    tasks, vectors = [], {}
    for number in range(8):
        codes = np.arange(24) % 3
        rows = generator.normal(size=(24, 6))
        rows[:, number % 2] += 2.0 * codes
        name = f"t{number}"
        labels = [f"L{code}" if same_labels else f"{name} {code}" for code in codes]
        tasks.append(Task(name, [f"{name} {row}" for row in range(24)], labels))
        vectors[name] = rows.astype(np.float32)
    return TaskSet(tasks), FeatureEncoder(vectors)


def fit_few_shot(runner: Any, *, same_labels: bool = False, **options: Any) -> ClusterFewShot:
    tasks, encoder = few_shot_tasks(same_labels=same_labels)
    learner = ClusterFewShot(encoder, **{"settings": FEW, "cluster_models": "always", **options})
    return learner.fit(tasks, [0, 1] * 4, runner=runner)


def measure(runner: Any, kind: str = "log_likelihood", **options: Any) -> Any:
    tasks, encoder = few_shot_tasks()
    options = {"encoder": encoder, "settings": TRANSFER, "kind": kind, **options}
    return measure_transfer(tasks, runner=runner, **options)


@pytest.mark.parametrize("kind", ["log_likelihood", "accuracy"])
def test_scores_are_the_same(kind: str) -> None:
    expected = measure(None, kind)
    for seed in range(2):
        runner = Shuffled(seed)
        assert measure(runner, kind).content_hash == expected.content_hash
        assert runner.keys == [[f"transfer/t{number}" for number in range(8)]]
        assert runner.n_held == 0
    assert measure(Shuffled(), kind, pairs=16) == measure(None, kind, pairs=16)


def test_scores_of_words_are_the_same() -> None:
    options: dict[str, Any] = {"encoder": "cnn", "settings": TRANSFER}
    expected = measure_transfer(word_tasks(3), **options)
    assert measure_transfer(word_tasks(3), runner=Shuffled(), **options) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"cluster_models": "always", "n_random": 2},
        {"tasks": PLANTED.tasks.keep_private(["task-01", "task-06"])},
        {"cluster_models": "never", "refit": "all"},
        {"labels": None},
        {"strategy": "paper", "tasks": PLANTED.tasks.keep_private(["task-01"])},
    ],
    ids=["always", "private", "never", "no labels", "paper"],
)
def test_multitask_models_are_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    expected = content(fit_multitask(None, **options), tmp_path / "here")
    runner = Shuffled(3)
    assert content(fit_multitask(runner, **options), tmp_path / "shuffled") == expected
    assert runner.n_held == 0


def test_remembered_jobs_give_the_same(tmp_path: Path) -> None:
    expected = content(fit_multitask(None, cluster_models="always"), tmp_path / "here")
    runner = Remembering()
    fit_multitask(runner, cluster_models="never")
    assert content(fit_multitask(runner, cluster_models="always"), tmp_path / "again") == expected


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_multitask_models_of_words_are_the_same(strategy: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "encoder": "cnn",
        "strategy": strategy,
        "cluster_models": "always",
        "n_random": 1,
    }
    options |= {"settings": WORDS, "tasks": word_tasks().keep_private(["w/0"]), "labels": [0, 0, 0, 1, 1, 2]}
    expected = content(fit_multitask(None, **options), tmp_path / "here")
    assert content(fit_multitask(Shuffled(1), **options), tmp_path / "shuffled") == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"same_labels": True, "cluster_models": "auto"},
        {"strategy": "paper", "settings": FEW_PAPER},
        {"strategy": "paper", "settings": FEW_PAPER, "threshold": "auto", "same_labels": True},
        {"cluster_models": "never"},
    ],
    ids=["always", "pooled", "paper", "tuned", "never"],
)
def test_few_shot_metrics_are_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    expected = content(fit_few_shot(None, **options), tmp_path / "here")
    runner = Shuffled(2)
    assert content(fit_few_shot(runner, **options), tmp_path / "shuffled") == expected
    assert runner.n_held == 0
    # What decides and what serves whatever is decided are trained in one go.
    assert len([keys for keys in runner.keys if any("shared metric" in key for key in keys)]) <= 1


def test_few_shot_metrics_of_words_are_the_same(tmp_path: Path) -> None:
    def fit(runner: Any) -> ClusterFewShot:
        return ClusterFewShot("cnn", settings=FEW, cluster_models="always").fit(
            word_tasks(), [0, 1] * 3, runner=runner
        )

    assert content(fit(Shuffled()), tmp_path / "shuffled") == content(fit(None), tmp_path / "here")


def test_real_processes_give_the_same(tmp_path: Path) -> None:
    with Runner(make_executor("local", n_workers=2)) as runner:
        assert measure(runner).content_hash == measure(None).content_hash
        options: dict[str, Any] = {"cluster_models": "always", "n_random": 1}
        models = [content(fit_multitask(who, **options), tmp_path / f"m {who}") for who in (None, runner)]
        assert models[0] == models[1]
        metrics = [content(fit_few_shot(who), tmp_path / f"f {who}") for who in (None, runner)]
        assert metrics[0] == metrics[1]


def test_assessments_are_the_same() -> None:
    options: dict[str, Any] = {"encoder": PLANTED.encoder, "settings": QUICK, "n_random": 1}
    expected = assess_multitask(PLANTED.tasks, LABELS, **options)
    events: list[ProgressEvent] = []
    found = assess_multitask(PLANTED.tasks, LABELS, runner=Shuffled(), progress=events.append, **options)
    assert found == expected
    assert events[-1].done == events[-1].total
    tasks, encoder = few_shot_tasks()
    few = [
        assess_fewshot(tasks, [0, 1] * 4, encoder=encoder, settings=FEW, runner=who)
        for who in (Runner(), Shuffled())
    ]
    assert few[0] == few[1]


def test_scores_that_are_missing_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = measure(None)
    with pytest.warns(DoubtWarning, match="all scores of source 't3'"):
        found = measure(Shuffled(loses=lambda key: key == "transfer/t3"))
    kept = expected.source != 3
    assert np.array_equal(found.score, expected.score[kept])
    assert np.array_equal(found.target, expected.target[kept])
    score_pair = pair_scores.score_pair

    def fail_sometimes(plan: Any, model: Any, rows: Any, features: Any) -> Any:
        if rows.name == "t5":
            raise ArithmeticError("it does not add up")
        score = score_pair(plan, model, rows, features)
        return (np.nan, *score[1:]) if rows.name == "t6" else score

    monkeypatch.setattr(pair_scores, "score_pair", fail_sometimes)
    with pytest.warns(
        DoubtWarning, match=r"'t0' on 't5' \(ArithmeticError: it does not add up\).* and 9 more"
    ):
        found = measure(None)
    kept = ~np.isin(expected.target, [5, 6])
    assert np.array_equal(found.score, expected.score[kept])
    payloads: list[Result] = []

    class Watched(Shuffled):
        def run(self, *arguments: Any, **options: Any) -> Any:
            found = super().run(*arguments, **options)
            payloads.extend(payload for payload in found if payload is not None)
            return found

    with pytest.warns(DoubtWarning):
        measure(Watched())
    values = payloads[0].values
    assert values["source"] == "t0"
    assert values["targets"] == ["t1", "t2", "t3", "t4", "t7"]
    assert [name for name, _ in values["failed"]] == ["t5", "t6"]
    assert "not finite" in values["failed"][1][1]
    with pytest.raises(WorkError, match="no score could be measured"), pytest.warns(DoubtWarning):
        measure(Shuffled(loses=lambda _: True))
    with pytest.raises(UsageError, match="n_workers or runner"):
        measure(Shuffled(), n_workers=2)


def test_a_cluster_without_a_model_is_served_by_own_models() -> None:
    def loses(key: str) -> bool:
        return "/whole/cluster" in key and "tasks 3" in key

    with doubts() as found:
        model = fit_multitask(Shuffled(loses=loses), cluster_models="always", n_random=1)
    assert model.predictor_.clusters == {}
    assert any("single-task models take their places: 'task-00', 'task-01'" in one for one in found)
    own = fit_multitask(None, cluster_models="always", n_random=1)
    assert own.weights_ == model.weights_  # the folds were not touched
    assert np.array_equal(ask(model, "task-06"), ask(own, "task-06"))
    assert not np.array_equal(ask(model, "task-00"), ask(own, "task-00"))
    assert np.isfinite(ask(model, "task-00")).all()
    with doubts():
        # In the folds the tasks of a cluster without a model are asked of their own models.
        again = fit_multitask(Shuffled(loses=lambda key: "/fold" in key and "/cluster" in key), n_random=1)
    assert again.verdict_ is not None
    assert again.held_out_accuracy_["cluster"] == again.held_out_accuracy_["own"]


@pytest.mark.parametrize("place", ["fold 1", "whole"])
def test_nothing_goes_on_without_the_model_of_all_tasks(place: str) -> None:
    # Own models that hardly learn leave the weight to the shared one.
    settings = QUICK.replace(own_c=1e-4, epochs=30)
    runner = Shuffled(loses=lambda key: f"{place}/shared" in key)
    with pytest.raises(WorkError, match=f"unit multitask/{place}/shared[^/]*/tasks 8") as caught:
        fit_multitask(runner, cluster_models="never", settings=settings)
    assert runner.n_held == 0
    assert caught.value.exit_code == 3


def test_a_bad_batch_of_own_models_is_done_task_by_task(tmp_path: Path) -> None:
    expected = content(fit_multitask(None, cluster_models="never"), tmp_path / "here")
    runner = Shuffled(loses=lambda key: "/own/tasks" in key)
    assert content(fit_multitask(runner, cluster_models="never"), tmp_path / "shuffled") == expected
    assert [key for key in runner.keys[1] if "task-00" in key][:1] == ["multitask/fold 0/own/task task-00"]


def test_a_task_without_an_own_model_has_no_opinion() -> None:
    def loses(key: str) -> bool:
        return "/own/tasks" in key or "/own/task task-02" in key

    with doubts() as found:
        model = fit_multitask(Shuffled(loses=loses), labels=None)
    assert any("in some folds: 'task-02'" in one for one in found)
    assert any("alike to them: 'task-02'" in one for one in found)
    inputs, _ = model.predictor_.read("task-02", PLANTED.features["task-02"])
    own = model.predictor_.component("own", "task-02", inputs)
    assert own is not None
    assert np.allclose(own, 1 / 3)
    # All other models of the task are there.
    assert len(set(model.predict("task-02", PLANTED.features["task-02"]))) > 1
    words = word_tasks(2).keep_private(["w/1"])
    with doubts():
        model = fit_multitask(
            Shuffled(loses=lambda key: "w/1" in key), encoder="cnn", settings=WORDS, tasks=words, labels=None
        )
    assert model.predict_proba("w/1", ["pay now", "bye"]).tolist() == [[0.5, 0.5]] * 2


def test_the_paper_trains_tasks_alone_where_their_cluster_fails() -> None:
    def loses(key: str) -> bool:
        return "tasks 3" in key or "task task-04" in key

    with doubts() as found:
        model = fit_multitask(Shuffled(loses=loses), strategy="paper")
    assert any("their tasks are trained alone: 'task-00'" in one for one in found)
    assert any("alike to them: 'task-04'" in one for one in found)
    alone = fit_multitask(None, strategy="paper", labels=[-1] * 8)
    assert np.array_equal(ask(model, "task-00"), ask(alone, "task-00"))
    assert np.allclose(ask(model, "task-04"), 1 / 3)


def test_a_cluster_without_a_metric_or_pool_goes_without() -> None:
    with doubts() as found:
        learner = fit_few_shot(Shuffled(loses=lambda key: "cluster metric" in key and "/whole/" in key))
    assert any("of some clusters could not be trained: 't0', 't1'" in one for one in found)
    assert learner.metrics_.of_clusters() == {}
    assert not learner.clusters_serve_
    tasks, encoder = few_shot_tasks()
    assert isinstance(encoder.features, dict)
    task = tasks["t0"].take(np.arange(6))
    model = learner.adapt(task, vectors=encoder.features["t0"][:6])
    assert model.weights_ == {}
    assert np.isfinite(model.predict_proba(encoder.features["t0"])).all()
    with doubts():
        learner = fit_few_shot(Shuffled(loses=lambda key: "/pool/tasks 4" in key), same_labels=True)
    assert set(learner.metrics_.pools) == {"shared"}
    with doubts() as found:
        learner = fit_few_shot(Shuffled(loses=lambda key: "/task t3" in key))
    assert any("evaluated as few-shot targets: 't3'" in one for one in found)
    assert learner.trust_.n_tasks == 7
    with pytest.raises(WorkError, match="shared metric could not be trained"):
        fit_few_shot(Shuffled(loses=lambda key: "round 1/shared" in key))

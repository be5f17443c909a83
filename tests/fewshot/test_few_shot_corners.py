"""Few-shot learning: defaults, what is held out, pooled classifiers of words, and damaged files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, Encoder, FeatureEncoder, PairedEncoder, SentenceEncoder
from robusttc.errors import StoreError, UsageError
from robusttc.fewshot import (
    ClusterFewShot,
    FewShotModel,
    FewShotSettings,
    MetricSettings,
    assess_fewshot,
    default_settings,
)
from robusttc.fewshot.validation import deal_rounds
from robusttc.models import read_model_folder, write_model_folder

QUICK = FewShotSettings(metric=MetricSettings(steps=3), draws=1)


def make_tasks(n_tasks: int, n_rows: int = 24) -> tuple[TaskSet, FeatureEncoder]:
    generator = np.random.default_rng(0)
    vectors = {f"t{number}": generator.normal(size=(n_rows, 4)) for number in range(n_tasks)}
    tasks = TaskSet(
        Task(name, [f"{name} {row}" for row in range(n_rows)], ["a", "b"] * (n_rows // 2)) for name in vectors
    )
    return tasks, FeatureEncoder(vectors)


def test_defaults_depend_on_strategy_and_encoder() -> None:
    assert default_settings("blend", words=False) == FewShotSettings()
    assert default_settings("paper", words=False).metric.loss == "matching"
    assert default_settings("paper", words=True).layer.embeddings == "pretrained"
    assert default_settings("blend", words=True).metric.loss == "prototype"
    tuned = default_settings("blend", words=False, tuned="alone")
    assert tuned.metric.steps < FewShotSettings().metric.steps
    paired = default_settings("blend", words=False, tuned="paired")
    assert paired.metric == FewShotSettings().metric
    assert paired != FewShotSettings()


def test_a_cluster_without_episodes_has_no_metric() -> None:
    tasks, encoder = make_tasks(8)
    single = Task("single", ["p", "q"], ["a", "c"])
    encoder = FeatureEncoder({**encoder.features, "single": np.eye(2, 4)})
    learner = ClusterFewShot(encoder, settings=QUICK, cluster_models="always")
    learner.fit(TaskSet([*tasks, single]), [0, 0, 0, 0, 4, 4, 4, 4, 9])
    assert set(learner.clusters_) == {0, 4, 9}
    assert set(learner.metrics_.of_clusters()) == {0, 4}
    model = learner.adapt(tasks["t0"])
    assert set(model.weights_) == {0, 4}
    share = QUICK.cluster_share
    kept = [share * weight for weight in model.weights_.values() if weight >= 0.02]
    assert model.adapted_.shares == pytest.approx((1 - share, *(share * one / sum(kept) for one in kept)))
    alone = learner.without_clusters()
    assert not alone.clusters_serve_
    assert alone.adapt(tasks["t0"]).weights_ == {}
    assert learner.clusters_serve_


@pytest.mark.parametrize("lost", ["metrics", "verdict", "trust", "clusters", "parameters"])
def test_a_learner_with_something_missing_is_refused(tmp_path: Path, lost: str) -> None:
    tasks, encoder = make_tasks(3, 8)
    learner = ClusterFewShot(encoder, settings=QUICK).fit(tasks)
    learner.save(tmp_path / "whole")
    values, arrays = read_model_folder(tmp_path / "whole", kind="few-shot", version=3)
    del values[lost]
    write_model_folder(tmp_path / "half", kind="few-shot", version=3, settings=values, arrays=arrays)
    with pytest.raises(StoreError, match=r"model cannot be read; got .*[Tt]rain it again"):
        ClusterFewShot.load(tmp_path / "half")


@pytest.mark.parametrize("lost", ["temperature", "components", "learner", "reader", "metrics"])
def test_a_model_with_something_missing_is_refused(tmp_path: Path, lost: str) -> None:
    tasks, encoder = make_tasks(3, 8)
    model = ClusterFewShot(encoder, settings=QUICK).fit(tasks).adapt(tasks["t0"])
    assert repr(model) == "FewShotModel('t0', 2 labels)"
    model.save(tmp_path / "model")
    values, arrays = read_model_folder(tmp_path / "model", kind="few-shot task", version=3)
    del values["learner" if lost in ("metrics", "reader") else "model"][lost]
    write_model_folder(tmp_path / "m", kind="few-shot task", version=3, settings=values, arrays=arrays)
    with pytest.raises(StoreError, match="model cannot be read"):
        FewShotModel.load(tmp_path / "m")
    arrays = {name: array for name, array in arrays.items() if "layer" not in name}
    write_model_folder(tmp_path / "n", kind="few-shot task", version=3, settings=values, arrays=arrays)
    with pytest.raises(StoreError, match="cannot be read"):
        FewShotModel.load(tmp_path / "n")


def test_two_encoders_have_a_metric_each() -> None:
    tasks, encoder = make_tasks(8)
    first = {name: np.asarray(rows)[:, :3] for name, rows in encoder.features.items()}
    second = {name: 9 * np.asarray(rows)[:, 2:] for name, rows in encoder.features.items()}
    pair = PairedEncoder(FeatureEncoder(first), FeatureEncoder(second))
    settings = FewShotSettings(metric=MetricSettings(steps=20), draws=1)
    learner = ClusterFewShot(pair, settings=settings).fit(tasks)
    metric = learner.metrics_.metrics["shared"]
    assert metric.split == 3
    weight = metric.layer.parameters()["weight"]  # type: ignore[union-attr]
    assert not weight[:3, 3:].any()
    assert not weight[3:, :3].any()
    rows = DenseInputs(np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32))
    squares = metric.directions(rows) ** 2
    np.testing.assert_allclose(squares[:, :3].sum(axis=1), 0.5, atol=1e-6)
    np.testing.assert_allclose(squares[:, 3:].sum(axis=1), 0.5, atol=1e-6)
    # The first one's metric is what it would be without the second.
    alone = ClusterFewShot(FeatureEncoder(first), settings=settings).fit(tasks).metrics_.metrics["shared"]
    np.testing.assert_array_equal(alone.layer.parameters()["weight"], weight[:3, :3])  # type: ignore[union-attr]


def test_every_task_is_held_out_at_most_once() -> None:
    names = [f"task {number}" for number in range(20)]
    for share in (0.0, 0.2, 1 / 3, 0.5):
        rounds = deal_rounds(names, share, 3)
        held = [name for part in rounds for name in part]
        assert sorted(held) == sorted(names)
    many = [f"task {number}" for number in range(300)]
    assert [len(part) for part in deal_rounds(many, 1 / 3, 0)] == [100]
    assert deal_rounds(many, 1 / 3, 0) != deal_rounds(many, 1 / 3, 1)


def test_tasks_without_queries_are_not_held_out() -> None:
    tasks, encoder = make_tasks(8)
    tiny = Task("tiny", [f"tiny {row}" for row in range(4)], ["a", "a", "b", "b"])
    encoder = FeatureEncoder({**encoder.features, "tiny": np.eye(4)})
    learner = ClusterFewShot(encoder, settings=QUICK).fit(TaskSet([*tasks, tiny]))
    assert learner.trust_.n_tasks == 8
    assert "tiny" in learner.source_names_


def test_the_encoder_is_tuned_on_tasks_that_may_share(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def stop(encoder: Any, tasks: TaskSet, **options: Any) -> Any:
        seen.update(options, encoder=encoder, names=tasks.names)
        raise KeyboardInterrupt

    monkeypatch.setattr("robusttc.encoders.fine_tune", stop)
    tasks = TaskSet(Task(name, ["p q", "r"], ["ask_price", "greet"]) for name in ("a", "b"))
    with pytest.raises(KeyboardInterrupt):
        ClusterFewShot(tune="encoder", random_state=3).fit(tasks.keep_private(["b"]))
    assert isinstance(seen["encoder"], SentenceEncoder)
    assert seen["names"] == ("a",)
    assert seen["seed"] == 3
    assert seen["label_texts"]("ask_price") == "ask price"


def test_assessing_gives_the_verdict_of_fitting() -> None:
    tasks, encoder = make_tasks(8)
    tasks = tasks.keep_private(["t3"])
    clusters = [0, 0, 0, 0, 1, 1, 1, 1]
    found = {}
    for n_random in (0, 1, 2):
        learner = ClusterFewShot(encoder, settings=QUICK, n_random=n_random, random_state=5)
        options: dict[str, Any] = {"encoder": encoder, "settings": QUICK, "n_random": n_random, "seed": 5}
        found[n_random] = assess_fewshot(tasks, clusters, **options)
        assert found[n_random] == learner.fit(tasks, clusters).verdict_
    assert found[0].over_shared == found[1].over_shared == found[2].over_shared
    assert found[0].over_random is None
    assert found[1].over_random != found[2].over_random
    with pytest.raises(UsageError, match="n_random"):
        assess_fewshot(tasks, clusters, encoder=encoder, n_random=-1)


class LetterEncoder(Encoder):
    """How often some letters come up in a text."""

    name = "letters"

    def __init__(self, letters: str) -> None:
        self.letters = letters

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[1 + text.count(one) for one in self.letters] for text in texts], np.float32)


def test_what_a_saved_model_takes_along_compares_texts_of_two_encoders_alike() -> None:
    texts = [
        f"{word} {end}" for word in ("harbour", "museum", "station") for end in ("a", "ee", "iii", "oooo")
    ]
    tasks = TaskSet(Task(name, texts, ["x", "y", "z"] * 4) for name in "abc")
    learner = ClusterFewShot(PairedEncoder(LetterEncoder("aeiou"), LetterEncoder("rst")), settings=QUICK)
    whole = learner.fit(tasks).metrics_
    inputs = learner.adapt(tasks["a"]).read(texts)
    assert whole.metrics["shared"].split == 5
    alone = whole.only(["shared", "vectors"], []).metrics
    for name, metric in alone.items():
        assert (metric.directions(inputs) == whole.metrics[name].directions(inputs)).all()

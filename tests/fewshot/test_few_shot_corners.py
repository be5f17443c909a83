"""Few-shot learning: defaults, damaged descriptions, and parts that only some settings use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet, TokenArray
from robusttc.encoders import DenseInputs, FeatureEncoder, SentenceEncoder, WordInputs
from robusttc.errors import StoreError, UsageError
from robusttc.fewshot.adapting import Support, adapt_blend
from robusttc.fewshot.assessment import assess_fewshot
from robusttc.fewshot.deciding import tune_threshold
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.estimator import ClusterFewShot
from robusttc.fewshot.fitted import load_fitted
from robusttc.fewshot.lessons import Lesson, Teacher, train_metrics
from robusttc.fewshot.model import FewShotModel
from robusttc.fewshot.parts import LinearPart, layer_from, mix_parts, part_from
from robusttc.fewshot.pooled import train_pooled
from robusttc.fewshot.rehearsal import Rehearsal, deal_rounds, rehearse
from robusttc.fewshot.scenes import set_scene
from robusttc.fewshot.settings import FewShotSettings, MetricSettings, default_settings
from robusttc.fewshot.spaces import Metrics, Space
from robusttc.models import TrainingSettings, read_model_folder, write_model_folder

QUICK = FewShotSettings(metric=MetricSettings(steps=3), rehearsals=1)


def make_sources(n_tasks: int = 8) -> tuple[DenseInputs, list[SourceRows]]:
    generator = np.random.default_rng(0)
    inputs = DenseInputs(generator.normal(size=(n_tasks * 12, 6)).astype(np.float32))
    rows = [
        SourceRows(f"t{number}", np.arange(12) + 12 * number, np.repeat([0, 1, 2], 4), np.full(3, -1))
        for number in range(n_tasks)
    ]
    return inputs, rows


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


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_heads_are_averaged_with_their_shares(share: float) -> None:
    inputs, _ = make_sources(1)
    support = Support("new", inputs, np.repeat([0, 1, 2], 4), 3)
    metrics = Metrics(Space(None), Space(None), {})
    parts = {
        value: adapt_blend(
            support, metrics, settings=QUICK.replace(prototype_share=value), threshold=0.2
        ).parts
        for value in (0.0, share, 1.0)
    }
    tables = {value: mix_parts(one, (1.0,), inputs) for value, one in parts.items()}
    np.testing.assert_allclose(tables[share], share * tables[1.0] + (1 - share) * tables[0.0], atol=1e-9)
    if share in (0.0, 1.0):
        only = parts[share][0]
        assert isinstance(only, LinearPart)
        assert len(only.heads) == 1


def test_clusters_that_do_not_serve_still_have_weights() -> None:
    inputs, rows = make_sources()
    clusters = {0: ("t0", "t1"), 4: ("t2", "t3"), 9: ("nobody",)}
    metrics = train_metrics(inputs, rows, clusters, settings=QUICK.replace(cluster_steps=2))
    assert set(metrics.clusters) == {0, 4}
    support = Support("new", inputs.take(np.arange(12)), np.repeat([0, 1, 2], 4), 3)
    served = adapt_blend(support, metrics, settings=QUICK, threshold=0.2)
    shared = adapt_blend(support, metrics, settings=QUICK, threshold=0.2, clusters_serve=False)
    assert shared.weights == served.weights
    assert len(served.parts) == 3
    share = QUICK.cluster_share
    assert served.shares == pytest.approx((1 - share, *(share * served.weights[one] for one in (0, 4))))
    assert len(shared.parts) == 1


def test_pooled_classifiers_of_words_and_of_one_label() -> None:
    vectors = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    vectors[0] = 0
    tokens = TokenArray(np.array([1, 2, 3, 4], dtype=np.int32), np.arange(5))
    inputs = WordInputs(tokens, vectors)
    both = SourceRows("both", np.arange(4), np.array([0, 0, 1, 1]), np.full(2, -1))
    one = SourceRows("one", np.arange(2), np.array([0, 0]), np.full(2, -1))
    settings = QUICK.replace(layer=TrainingSettings(width=8, window=1))
    part = train_pooled(inputs, [both, one], n_labels=2, settings=settings)
    assert part is not None
    assert part.probabilities(inputs).argmax(axis=1).tolist() == [0, 0, 1, 1]
    assert train_pooled(inputs, [one], n_labels=2, settings=settings) is None
    teacher = Teacher(inputs, [both, one], settings=settings, seed=0, n_labels=2)
    lesson = Lesson("whole", ("both", "one"), {0: ("both",), 1: ("one",)})
    teacher.teach([lesson])
    shared, pools = teacher.pools(lesson)
    assert shared is not None
    assert set(pools) == {0}
    with pytest.raises(UsageError, match="no vector of their own"):
        Space(None).represent(inputs)


def test_descriptions_that_make_no_layer_or_part_are_refused() -> None:
    with pytest.raises(StoreError, match="metric is damaged"):
        layer_from({"activation": "relu"}, {"strange": np.eye(2)})
    with pytest.raises(StoreError, match="metric is damaged"):
        layer_from({"unknown": 1}, {})
    with pytest.raises(StoreError, match="part of a predictor is damaged"):
        part_from({"kind": "linear", "layer": None, "unit": True, "shares": [1.0]}, {})


@pytest.mark.parametrize("lost", ["spaces", "verdict", "settings", "clusters"])
def test_a_learner_with_something_missing_is_refused(tmp_path: Path, lost: str) -> None:
    vectors = {f"t{number}": np.random.default_rng(number).normal(size=(8, 4)) for number in range(3)}
    tasks = TaskSet(Task(name, [f"{name} {row}" for row in range(8)], ["a", "b"] * 4) for name in vectors)
    learner = ClusterFewShot(FeatureEncoder(vectors), settings=QUICK).fit(tasks)
    learner.save(tmp_path / "whole")
    settings, arrays = read_model_folder(tmp_path / "whole", kind="few-shot", version=1)
    changed = {
        **settings,
        "pools": {"pool": {**settings["pools"]["pool"], "kind": "matching", "n_labels": 2}},
    }
    more = {**arrays, "pool/support": np.eye(2), "pool/codes": np.arange(2)}
    write_model_folder(tmp_path / "other", kind="few-shot", version=1, settings=changed, arrays=more)
    with pytest.raises(StoreError, match="pooled classifier"):
        load_fitted(tmp_path / "other")
    del settings[lost]
    write_model_folder(tmp_path / "half", kind="few-shot", version=1, settings=settings, arrays=arrays)
    with pytest.raises(StoreError, match="learner is damaged"):
        load_fitted(tmp_path / "half")
    model = learner.adapt(tasks["t0"])
    assert repr(model) == "FewShotModel('t0', 2 labels)"
    model.save(tmp_path / "model")
    settings, arrays = read_model_folder(tmp_path / "model", kind="few-shot task", version=1)
    del settings["temperature"]
    write_model_folder(tmp_path / "m", kind="few-shot task", version=1, settings=settings, arrays=arrays)
    with pytest.raises(StoreError, match="model is damaged"):
        FewShotModel.load(tmp_path / "m")


def test_every_task_is_held_out_at_most_once() -> None:
    names = [f"task {number}" for number in range(20)]
    for share in (0.0, 0.2, 1 / 3, 0.5):
        rounds = deal_rounds(names, share, 3)
        held = [name for part in rounds for name in part]
        assert sorted(held) == sorted(names)
    many = [f"task {number}" for number in range(300)]
    assert [len(part) for part in deal_rounds(many, 1 / 3, 0)] == [100]
    assert deal_rounds(many, 1 / 3, 0) != deal_rounds(many, 1 / 3, 1)


def test_tasks_without_queries_are_not_played() -> None:
    inputs, rows = make_sources()
    tiny = SourceRows("tiny", np.arange(4), np.array([0, 0, 1, 1]), np.full(2, -1))
    assert set_scene(inputs, tiny, None, number=0, draw=0, seed=0) is None
    large = SourceRows("large", np.resize(np.arange(96), 400), np.resize([0, 1], 400), np.full(2, -1))
    result = rehearse(inputs, [*rows, large, tiny], {}, strategy="blend", settings=QUICK, threshold=0.2)
    by_name = {one.name: one for one in result.played}
    assert len(by_name["large"].queries) == 200
    assert "tiny" not in by_name
    assert result.accuracies("cluster") is None
    assert tune_threshold(Rehearsal(()), "shared") == 0.2


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
    generator = np.random.default_rng(0)
    vectors = {f"t{number}": generator.normal(size=(24, 4)) for number in range(8)}
    tasks = TaskSet(Task(name, [f"{name} {row}" for row in range(24)], ["a", "b"] * 12) for name in vectors)
    tasks = tasks.keep_private(["t3"])
    encoder, labels = FeatureEncoder(vectors), [0, 0, 0, 0, 1, 1, 1, 1]
    learner = ClusterFewShot(encoder, settings=QUICK, random_state=5).fit(tasks, labels)
    assert assess_fewshot(tasks, labels, encoder=encoder, settings=QUICK, seed=5) == learner.verdict_
    several = assess_fewshot(tasks, labels, encoder=encoder, settings=QUICK, n_random=2, seed=5)
    assert several.over_shared == learner.verdict_.over_shared
    assert several.over_random != learner.verdict_.over_random
    assert assess_fewshot(tasks, labels, encoder=encoder, settings=QUICK, n_random=0).over_random is None
    with pytest.raises(UsageError, match="n_random"):
        assess_fewshot(tasks, labels, encoder=encoder, n_random=-1)

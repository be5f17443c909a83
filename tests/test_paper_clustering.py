"""The tables of the clustering and the cost, on planted data, against what was planted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.paper import clustering, why
from benchmarks.paper.clustering_sets import load_clustering_set, restrict
from benchmarks.paper.clustering_ways import Ablation, Comparison, as_singletons, contrast_by_task
from benchmarks.paper.cost import compare
from benchmarks.paper.cost_parts import CostSet
from benchmarks.paper.figure_table import FigureTable, Measured
from benchmarks.paper.plain_way import PlainWay, Sampled
from benchmarks.paper.table import Way
from benchmarks.paper.why_trials import drop_phrases
from benchmarks.report import SHARED

from robusttc import StoreError, Task, TaskSet, TransferScores
from robusttc.encoders import CnnEncoder
from robusttc.models import TrainingSettings

Clustered = tuple[Path, list[str]]
needs_data = pytest.mark.skipif(
    not (SHARED / "bots175").is_dir(), reason="the public data sets are not beside the clone"
)


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Clustered:
    path = tmp_path_factory.mktemp("clustering") / "clustering.json"
    only = ["--only", "method", "differences", "spectral on raw S, 50 % of pairs", "rule any"]
    assert clustering.main(["--quick", "--sets", "planted", "--out", str(path), *only]) == 0
    return path, only


def figures_of(path: Path, way: str, seed: int = 0, targets: str = "planted") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["records"]
    own: dict[str, Any] = found[f"{way} | features | {seed} | {targets}"]["figures"]
    return own


def test_families_that_were_planted_are_found_and_only_by_scores(clustered: Clustered) -> None:
    path, _ = clustered
    for way in ("robust completion", "robust completion, K = 3", "the paper's Algorithm 1, K = 3"):
        assert figures_of(path, way)["ari"] == 1.0
    for way in ("text centroids", "random, same sizes"):
        assert figures_of(path, way)["ari"] < 0.3
        assert figures_of(path, way)["ari_of_halves"] is None
    stable = figures_of(path, "stability of robust completion", targets="planted, 2 seeds")
    assert stable == {"ari_of_seeds": 1.0, "lowest": 1.0, "n_seeds": 2}
    better = figures_of(path, "contrast: robust less random, same sizes", targets="planted, 2 seeds")
    assert 0 < better["low"] < better["mean"] < better["high"]
    assert better["n"] == 24


def test_the_file_has_the_schema_of_a_table(clustered: Clustered) -> None:
    path, _ = clustered
    found = json.loads(path.read_text())
    assert (found["table"], found["setting"], found["data"]["name"]) == ("clustering", "quick", "planted")
    assert found["data"]["n_tasks"] == 24
    for key, record in found["records"].items():
        names = ("way", "encoder", "seed", "targets")
        assert key == " | ".join(str(record[name]) for name in names)
        assert record["figures"]
        assert {"group", "settings", "seconds", "cpu_seconds", "peak_mib", "extra"} <= set(record)


def test_records_that_are_there_are_not_made_again(
    clustered: Clustered, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, only = clustered
    before = path.read_bytes()

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a score was measured again")

    monkeypatch.setattr("benchmarks.paper.clustering_sets.measure_transfer", refuse)
    monkeypatch.setattr("benchmarks.paper.clustering.judge", refuse)
    assert clustering.main(["--quick", "--sets", "planted", "--out", str(path), *only]) == 0
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="another setting"):
        FigureTable(path, "clustering", "full")


def test_shares_of_pairs_are_nested_and_have_the_scores_of_all() -> None:
    data = load_clustering_set("planted", quick=True)
    everything = data.scores("log_likelihood", 100, 0)
    few, more = (data.scores("log_likelihood", percent, 3) for percent in (20, 60))
    assert len(few) == data.count(20) < len(more) == data.count(60) < len(everything) == 24 * 23
    assert restrict(more, few.source, few.target) == few
    assert np.array_equal(few.score, everything.to_matrix()[few.source, few.target])
    assert not data.can_measure(1)


def test_a_task_without_mates_has_no_contrast_and_is_a_cluster_of_its_own() -> None:
    generator = np.random.default_rng(0)
    scores = TransferScores.from_matrix(generator.normal(size=(8, 8)), [f"task {n}" for n in range(8)])
    labels = np.array([0, 0, 1, 1, 1, 2, -1, -1])
    contrast = contrast_by_task(scores, labels)
    assert (contrast[5:] == 0).all()
    assert (contrast[:5] != 0).all()
    assert as_singletons(labels).tolist() == [0, 0, 1, 1, 1, 2, 3, 4]


def test_random_clusters_have_the_sizes_of_the_robust_ones() -> None:
    compared = Comparison(load_clustering_set("planted", quick=True))
    robust = compared.cluster(Ablation(way="", group=""), 0).labels
    drawn = compared.cluster(Ablation(way="", group="", method="random"), 0).labels
    assert sorted(np.bincount(drawn)) == sorted(np.bincount(robust))
    assert not np.array_equal(drawn, robust)


def test_the_plain_way_does_what_it_is_timed_for() -> None:
    data = CostSet("planted", quick=True)
    plain = PlainWay(data.tasks, CnnEncoder().prepare(data.tasks, splits=("train", "valid")))
    plain.settings = TrainingSettings(width=16, epochs=6, min_steps=0)
    models = plain.train_models(0.0)
    assert (len(models.seconds), models.n_all, len(plain.models)) == (2, 6, 2)
    assert models.steps_all == 6 * sum(-(-len(task.rows("train")) // 32) for task in data.tasks)
    pairs, scores = plain.score_pairs(0.0)
    assert pairs.steps_all == 5 * models.steps_all
    assert (len(pairs.seconds), pairs.n_all) == (2, 30)
    assert all(0 <= score <= 1 for score in scores)
    steps = plain.train_clusters(data.clusters, 0.0)
    n_batches = sum(-(-len(task.rows("train")) // 32) for task in data.tasks)
    assert steps.n_all == 60 * n_batches


def test_the_plain_way_learns() -> None:
    data = CostSet("planted", quick=True)
    plain = PlainWay(data.tasks, CnnEncoder().prepare(data.tasks, splits=("train", "valid")))
    plain.settings = TrainingSettings(width=32, epochs=8, min_steps=0)
    plain.train_models(0.0)
    source = plain.sample[0]
    labels = data.tasks[source].label_codes[data.tasks[source].rows("valid")]
    chance = np.bincount(labels).max() / len(labels)
    assert plain.score_pair(source, source) > chance


def test_an_estimate_is_seconds_a_step_times_all_steps() -> None:
    figures = Sampled((1.0, 2.2, 2.8, 2.0), (10, 20, 30, 20), 40, 2000).figures()
    low, middle, high = (float(figures[name] or 0) for name in ("low", "estimated_seconds", "high"))
    assert 180 < low < middle == 200 < high < 220
    assert figures["measured_seconds"] == 8.0


def test_both_ways_are_added_up() -> None:
    data = CostSet("planted", quick=True)
    made = {
        "plain: pairs": {
            "group": "plain",
            "figures": {"estimated_seconds": 90.0, "low": 80.0, "high": 100.0},
        },
        "plain: completion, textbook": {"group": "plain", "figures": {"estimated_seconds": 10.0}},
        "ours: S": {"group": "ours", "figures": {"estimated_seconds": 4.0}},
    }
    figures = compare(made, data).figures
    assert (figures["plain_seconds"], figures["ours_seconds"], figures["ratio"]) == (100.0, 4.0, 25.0)
    assert (figures["plain_low"], figures["plain_high"]) == (90.0, 110.0)


def test_figures_are_rounded_and_what_is_no_number_is_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = FigureTable(tmp_path / "one.json", "cost", "quick")
    way = Way(way="a way", group="plain", encoder="cnn")
    work = Measured(figures={"third": 1 / 3, "none": float("nan"), "count": 7, "word": "yes"})
    record = table.make(way, lambda: work, seed=0, targets="planted")
    assert record["figures"] == {"third": 0.33333, "none": None, "count": 7, "word": "yes"}
    assert "third 0.33333" in capsys.readouterr().out
    assert json.loads(table.path.read_text())["records"].keys() == {"a way | cnn | 0 | planted"}


def test_two_processes_can_fill_one_file(tmp_path: Path) -> None:
    planted = load_clustering_set("planted", quick=True).tasks
    first, second = (FigureTable(tmp_path / "one.json", "clustering", "quick") for _ in range(2))
    first.describe_sets({"some": planted})
    second.describe_sets({"others": planted.subset(planted.names[:4])})
    way = Way(way="a way", group="method", encoder="features")
    for table, targets in ((first, "some"), (second, "others"), (first, "some again")):
        table.make(way, lambda: Measured(figures={"one": 1}), seed=0, targets=targets)
    found = json.loads(first.path.read_text())
    assert len(found["records"]) == 3
    assert set(found["data"]["sets"]) == {"some", "others"}
    assert found["data"]["n_tasks"] == 28
    with pytest.raises(StoreError, match="another data under the name some"):
        FigureTable(first.path, "clustering", "quick").describe_sets({"some": planted.subset(["task-0001"])})


def test_phrases_of_other_tasks_tests_are_dropped_and_no_label_is_lost() -> None:
    def make(name: str, texts: list[str], labels: str) -> Task:
        return Task(name, texts, list(labels), ["train"] * (len(texts) - 1) + ["test"])

    first = make("a", ["Hello!", "bye", "stop", "go on", "help me"], "xyxyx")
    second = make("b", ["help me", "help, me", "why", "so", "hello"], "uuvvu")
    found = drop_phrases(TaskSet([first, second]))
    # "hello" is tested in b, "help me" in a: the first row of a label stays all the same.
    assert list(found["a"].texts) == ["Hello!", "bye", "stop", "go on", "help me"]
    assert list(found["b"].texts) == ["help me", "why", "so", "hello"]
    third = make("c", ["so", "Help me", "why", "why not", "never"], "xxyyx")
    assert list(drop_phrases(TaskSet([first, third]))["c"].texts) == ["so", "why", "why not", "never"]


@needs_data
def test_reasons_are_tried_in_the_quick_setting(tmp_path: Path) -> None:
    path = tmp_path / "why.json"
    why.main(["--quick", "--sets", "bots175", "--only", "base", "rows", "steps", "--out", str(path)])
    records = json.loads(path.read_text())["records"]
    base = records["as in the tables | sentence | 0 | bots175"]
    half = records["50% of the training rows | sentence | 0 | bots175"]
    assert half["extra"]["n_training_rows"] < 0.6 * base["extra"]["n_training_rows"]
    # The same clusters: only the rows that models are trained on changed.
    assert half["extra"]["sizes"] == base["extra"]["sizes"]
    assert half["figures"]["single"] < base["figures"]["single"]
    low, high = map(float, base["figures"]["clusters_less_holistic_all"].split("[")[1][:-1].split(", "))
    mean = base["figures"]["clusters"] - base["figures"]["holistic"]
    assert low <= mean <= high
    # Only the model of all tasks has fewer steps.
    short = records["holistic with the steps of a cluster | sentence | 0 | bots175"]["figures"]
    assert short["holistic"] < base["figures"]["holistic"]
    assert [short[name] for name in ("single", "clusters", "random")] == [
        base["figures"][name] for name in ("single", "clusters", "random")
    ]

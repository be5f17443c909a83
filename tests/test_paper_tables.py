"""The tables of the paper: the smallest one end to end in its quick setting, and the file it goes to."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.paper import intents_fsl, intents_mtl
from benchmarks.paper.clusters import Clusterings, word_vectors
from benchmarks.paper.commonest import CommonestLabels, CommonestOfSources
from benchmarks.paper.kept_scores import find_scores, keep_scores
from benchmarks.paper.protocol import run_table, score
from benchmarks.paper.setfit import SetFitLearner, describe
from benchmarks.paper.sets import cut_rows, draw_over_kinds, split_validation, weigh_training
from benchmarks.paper.table import Cost, Figures, Table, Way
from benchmarks.report import SHARED
from benchmarks.setfit_run import hash_given, try_heads

from robusttc import Task, TaskSet, measure_transfer
from robusttc.errors import StoreError
from robusttc.transfer import TransferSettings

ROOT = Path(__file__).parent.parent
WAY = Way(way="holistic", group="paper, cnn", encoder="cnn")
COST = Cost(seconds=1.0, cpu_seconds=1.0, peak_mib=1)
needs_data = pytest.mark.skipif(
    not (SHARED / "bots175").is_dir(), reason="the public data sets are not beside the clone"
)


def make_tasks(n_rows: int = 6) -> TaskSet:
    texts = [f"text {place}" for place in range(n_rows)]
    return TaskSet([Task("a", texts, ["x", "y"] * (n_rows // 2))])


@needs_data
def test_quick_table_runs_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "intents-mtl.json"
    plan = intents_mtl.make_plan(True)
    only = ["holistic", "clusters K=3", "regression"]
    run_table(plan, Table(path, "intents-mtl", "quick"), only=only, groups=["paper, sentence", "today"])
    whole = json.loads(path.read_text())
    assert whole["data"]["sha256"] == plan.data.tasks.content_hash
    assert set(whole["versions"]) == {"robusttc", "python", "numpy", "torch", "scikit-learn"}
    assert set(whole["records"]) < set(whole["wanted"])
    ways = {record["way"] for record in whole["records"].values()}
    assert {"paper: holistic, target only", "paper: clusters K=3", "today: logistic regression"} <= ways
    for key, record in whole["records"].items():
        names = plan.data.targets[record["targets"]]
        assert key == " | ".join(
            [record["way"], record["encoder"], str(record["seed"]), str(record["targets"])]
        )
        assert set(record["all"]) == set(names)
        assert set(record["novel"]) <= set(names)
        assert all(0 <= value <= 1 for value in record["all"].values())
    clusters = whole["records"]["paper: clusters K=3 | sentence | 0 | all"]
    assert clusters["settings"]["clusters from"]["kind"] == "accuracy"
    assert sum(clusters["extra"]["sizes"]) + clusters["extra"]["n_in_none"] == len(plan.data.tasks)
    # Far above chance: rows and labels belong together.
    regression = np.mean(
        list(whole["records"]["today: logistic regression | sentence | 0 | all"]["all"].values())
    )
    assert regression > 0.8
    capsys.readouterr()
    # Removed, a record is made again, alone and with the same figures.
    removed = whole["records"].pop("paper: holistic | sentence | 0 | all")
    path.write_text(json.dumps(whole))
    run_table(plan, Table(path, "intents-mtl", "quick"), only=only, groups=["paper, sentence", "today"])
    assert "1 of 1 fits" in capsys.readouterr().out
    again = json.loads(path.read_text())["records"]["paper: holistic | sentence | 0 | all"]
    assert again["all"] == removed["all"]


@needs_data
def test_quick_few_shot_table(tmp_path: Path) -> None:
    path = tmp_path / "intents-fsl.json"
    plan = intents_fsl.make_plan(True)
    only = ["matching", "paper: clusters K=3", "neighbours", "SetFit"]
    groups = ["paper, sentence", "today"]
    run_table(plan, Table(path, "intents-fsl", "quick"), only=only, groups=groups)
    records = json.loads(path.read_text())["records"]
    (targets,) = plan.data.new_targets
    assert not set(plan.data.new_targets[targets]) & set(plan.data.sources.names)
    plain = records[f"paper: clusters K=3 | sentence | 0 | {targets}"]
    adaptive = records[f"paper: clusters K=3, adaptive | sentence | 0 | {targets}"]
    assert (plain["settings"]["threshold"], adaptive["settings"]["threshold"]) == (0.0, 0.2)
    assert plain["extra"]["out_of_cluster"] == 0
    # Clusters are those of the sources: no target is in one.
    assert sum(plain["extra"]["sizes"]) + plain["extra"]["n_in_none"] == len(plan.data.sources)
    for name, draws in plain["extra"]["draws"].items():
        assert len(draws) == plan.draws
        assert plain["all"][name] == pytest.approx(np.mean(draws) / 100, abs=1e-4)
    if importlib.util.find_spec("setfit") is None:
        left_out = records[f"today: SetFit | sentence | 0 | {targets}"]
        assert left_out["all"] == {}
        assert "not installed" in left_out["extra"]["left_out"]


def test_scores_are_kept_for_the_same_tasks_alone(tmp_path: Path) -> None:
    texts = [f"word{place % 2} text {place}" for place in range(24)]
    splits = ["valid" if place % 4 == 3 else "train" for place in range(24)]
    tasks = TaskSet([Task(name, texts, ["x", "y"] * 12, splits) for name in ("a", "b", "c")])
    options: dict[str, Any] = {
        "pairs": "all",
        "settings": TransferSettings(kind="overlap"),
        "random_state": 0,
    }
    scores = measure_transfer(tasks, **options)
    assert find_scores(tasks, options, tmp_path) is None
    keep_scores(tasks, options, scores, COST, tmp_path)
    assert find_scores(tasks, options, tmp_path) == (scores, COST)
    assert find_scores(tasks.subset(["a", "b"]), options, tmp_path) is None
    assert find_scores(tasks, {**options, "random_state": 1}, tmp_path) is None
    other = {**options, "settings": TransferSettings(kind="brier")}
    assert find_scores(tasks, other, tmp_path) is None


@needs_data
@pytest.mark.parametrize("instrument", ["paper", "default"])
def test_scores_of_a_subset_are_those_of_all(instrument: Any) -> None:
    plan = intents_mtl.make_plan(True)
    settings = Clusterings(plan).settings_of(instrument)
    names = plan.data.tasks.names[:4]
    found = []
    for tasks in (plan.data.tasks.subset(names), plan.data.tasks.subset(names[:3])):
        options: dict[str, Any] = {"encoder": "cnn", "vectors": word_vectors("cnn"), "settings": settings}
        found.append(measure_transfer(tasks, **options).subset(names[:3]))
    assert found[0] == found[1]


def test_setfit_is_read_where_it_was_run_on_the_same_rows(tmp_path: Path) -> None:
    task = Task("a", ["one", "two", "three", "four"], list("xyxy"), ["train", "train", "test", "test"])
    other = Task("a", ["one", "two!", "three", "four"], list("xyxy"), ["train", "train", "test", "test"])
    row: dict[str, Any] = {"given": hash_given(describe(task)), "right": [True, False]}
    (tmp_path / "kept.json").write_text(json.dumps([row]))
    learner = SetFitLearner(tmp_path / "kept.json")
    assert learner.adapt(task).predict(["three", "four"]).tolist() == ["x", None]
    if importlib.util.find_spec("setfit") is None:
        with pytest.raises(ModuleNotFoundError, match="not installed"):
            learner.adapt(other).predict(["three", "four"])
        # Results without the other heads are none for a row that asks for one.
        with pytest.raises(ModuleNotFoundError, match="not installed"):
            SetFitLearner(tmp_path / "kept.json", C=30.0).adapt(task).predict(["three", "four"])
    row["right_of_head"] = {"30": [False, True]}
    (tmp_path / "kept.json").write_text(json.dumps([row]))
    learner = SetFitLearner(tmp_path / "kept.json", C=30.0)
    assert learner.adapt(task).predict(["three", "four"]).tolist() == [None, "y"]


def test_heads_on_the_vectors_of_setfit_are_right_where_these_tell_labels_apart() -> None:
    class Body:
        def encode(self, texts: list[str], **_: object) -> np.ndarray:
            return np.asarray([[1.0, 0.0] if text.startswith("x") else [0.0, 1.0] for text in texts])

    # The last is a text that looks like one label and has the other.
    test = {"texts": ["x4", "y4", "x5"], "labels": ["x", "y", "y"]}
    task = {"train": {"texts": ["x1", "x2", "x3", "y1"], "labels": list("xxxy")}, "test": test}
    right = try_heads(Body(), task, [0, 0, 0, 1], ["x", "y"])
    assert set(right) == {"1", "3", "10", "30", "100", "300", "1000", "3000", "10000"}
    assert all(head == [True, True, False] for head in right.values())


def test_table_refuses_other_files(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    table = Table(path, "intents-mtl", "quick")
    table.describe_data("a set", make_tasks())
    table.add(WAY, Figures(accuracies={"all": {"a": 2 / 3}}), COST, seed=0, targets="all")
    assert json.loads(path.read_text())["records"]["holistic | cnn | 0 | all"]["all"] == {"a": 0.66667}
    with pytest.raises(StoreError, match="another setting"):
        Table(path, "intents-mtl", "full")
    with pytest.raises(StoreError, match="another table"):
        Table(path, "diverse", "quick")
    with pytest.raises(StoreError, match="another data"):
        Table(path, "intents-mtl", "quick").describe_data("a set", make_tasks(8))
    path.write_text("{")
    with pytest.raises(StoreError, match="not JSON"):
        Table(path, "intents-mtl", "quick")


def test_command_refuses_a_file_of_another_setting(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    table = Table(path, "intents-mtl", "full")
    table.describe_data("a set", make_tasks())
    table.add(WAY, Figures(accuracies={}), COST, seed=0, targets="all")
    before = path.read_bytes()
    command = [sys.executable, "-m", "benchmarks.paper.intents_mtl", "--quick", "--out", str(path)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "another setting" in done.stderr
    assert path.read_bytes() == before


def test_two_processes_write_one_table(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    first, second = Table(path, "diverse", "quick"), Table(path, "diverse", "quick")
    for table, seed in ((first, 0), (second, 1), (first, 2)):
        table.describe_data("a set", make_tasks())
        table.add(WAY, Figures(accuracies={}), COST, seed=seed, targets="all")
    assert len(Table(path, "diverse", "quick").records) == 3


def test_what_was_left_out_is_tried_again(tmp_path: Path) -> None:
    table = Table(tmp_path / "table.json", "diverse", "quick")
    table.describe_data("a set", make_tasks())
    table.add(WAY, Figures(accuracies={}, extra={"left_out": "not installed"}), COST, seed=0, targets="all")
    assert table.lacks(WAY, seed=0, targets=["all"])


def test_score_is_the_mean_over_draws_and_novel_rows() -> None:
    right = {"a": [np.array([True] * 4 + [False] * 4), np.array([True] * 8)]}
    novel = {"a": np.array([False, False] + [True] * 6)}
    found = score(right, novel)
    assert found["all"] == {"a": 0.75}
    assert found["novel"]["a"] == pytest.approx(2 / 3)
    assert score(right, {"a": np.array([True] * 4 + [False] * 4)})["novel"] == {}


def test_training_rows_get_the_natural_share() -> None:
    labels = ["1"] * 50 + ["-1"] * 50 + ["1"] * 45 + ["-1"] * 5 + ["1", "-1"]
    splits = ["train_full"] * 100 + ["valid"] * 50 + ["train"] * 2
    texts = [f"text {place}" for place in range(152)]
    task = Task("books.t4", texts, labels, splits, other_splits=["train_full"])
    weighed = weigh_training(task)
    rows = weighed.rows("train")
    assert np.mean(weighed.labels[rows] == "1") == pytest.approx(0.9, abs=0.02)
    assert len(rows) == 56  # all 50 positives, and as many negatives as make 90 %
    assert len(set(weighed.texts_at(rows))) == len(rows)
    # The support set is no training row of multi-task learning.
    assert not {"text 150", "text 151"} & set(weighed.texts)


def test_tasks_without_training_rows_are_split() -> None:
    task = Task("music.t2", [f"text {place}" for place in range(120)], ["1", "-1"] * 60, ["valid"] * 120)
    split = split_validation(task)
    assert (len(split.rows("train")), len(split.rows("valid"))) == (96, 24)


def test_cut_keeps_every_label() -> None:
    task = Task("a", [f"text {place}" for place in range(100)], ["x"] * 97 + ["y"] * 3, ["train"] * 100)
    for seed in range(5):
        cut = cut_rows(task, (4,), seed=seed)
        assert len(cut) == 4
        assert set(cut.labels) == {"x", "y"}


def test_targets_are_drawn_over_all_kinds() -> None:
    kinds = {f"task {place:02d}": "abc"[min(place // 4, 2)] for place in range(20)}
    drawn = draw_over_kinds(kinds, 9)
    assert [sum(kinds[name] == kind for name in drawn) for kind in "abc"] == [3, 3, 3]
    assert len(draw_over_kinds(kinds, 17)) == 17  # a task of each kind is left
    assert len(draw_over_kinds(kinds, 20)) == 17


def test_commonest_labels_are_those_of_training_rows() -> None:
    first = Task("a", [f"text {row}" for row in range(5)], list("xxyyy"), ["train"] * 3 + ["test"] * 2)
    second = Task("b", [f"text {row}" for row in range(4)], list("yyyx"), ["train"] * 4)
    tasks = TaskSet([first, second])
    found = CommonestLabels().fit(tasks)
    assert found.predict("a", ["one", "two"]).tolist() == ["x", "x"]
    assert found.predict("b", ["one"]).tolist() == ["y"]
    # Of all sources together, whatever the support set of the target has.
    assert CommonestOfSources().fit(tasks).adapt(first).predict(["one"]).tolist() == ["y"]

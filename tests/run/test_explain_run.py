"""`robusttc explain` on a finished run: every kind of task, and what people and programs see."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_run

from robusttc.cli.explain import explain
from robusttc.data import Task
from robusttc.errors import UnknownTaskError, UsageError
from robusttc.multitask import ClusterMultiTask, deal_folds, sharing_with
from robusttc.run import Run
from robusttc.run.explain import explain_task, sharing
from robusttc.run.explain.weak_labels import predict_out_of_fold
from robusttc.transfer import read_scores

Out = pytest.CaptureFixture[str]
NAME = "task 0"


@pytest.fixture
def run(capsys: Out) -> Path:
    folder = tiny_run.finished_run()
    capsys.readouterr()
    return folder


@pytest.fixture
def opened(run: Path) -> Run:
    return Run(run)


def harm(opened: Run, name: str = NAME, *, low: float = -0.3, high: float = -0.1) -> None:
    """Let the test rows of a task speak against sharing."""
    (figures,) = (one for one in opened.summary["evaluation"]["tasks"] if one["task"] == name)
    opened.__dict__.pop("evaluation", None)
    figures["gain"] = {"mean": (low + high) / 2, "low": low, "high": high, "n": 6}


def test_a_learned_task_is_explained_by_what_was_measured(opened: Run) -> None:
    found = explain_task(opened, NAME)
    assert found.state == "learned"
    assert found.cluster is not None
    with opened.version.path("clusters.csv").open() as stream:
        table = {row["task"]: row for row in csv.DictReader(stream)}
    assert found.cluster.number == int(table[NAME]["cluster"])
    assert found.cluster.confidence == float(table[NAME]["confidence"])
    mates = {task for task, row in table.items() if row["cluster"] == table[NAME]["cluster"]} - {NAME}
    assert found.cluster.size == len(mates) + 1
    scores = read_scores(opened.version.path("scores.csv"))
    S = scores.to_matrix()
    place = scores.task_names.index(NAME)
    low, high = scores.intervals()
    for pair in found.cluster.pairs:
        other = scores.task_names.index(pair.other)
        assert pair.to_task is not None
        assert pair.from_task is not None
        assert pair.to_task.score == S[other, place]
        assert pair.from_task.score == S[place, other]
        column = np.delete(S[:, place], place)
        expected = (S[other, place] - column.mean()) / column.std()
        assert pair.to_task.above_average == pytest.approx(expected)
        entry = np.flatnonzero((scores.source == other) & (scores.target == place))[0]
        assert (pair.to_task.low, pair.to_task.high) == pytest.approx((low[entry], high[entry]))
        assert opened.similarity is not None
        assert pair.similarity == pytest.approx(opened.similarity.between(NAME, pair.other))
        together = pair.other in mates
        sides = {"same": "for" if together else "against", "different": "against" if together else "for"}
        assert pair.speaks == sides.get(pair.verdict, "nothing")
    assert {pair.other for pair in found.cluster.pairs} == set(scores.task_names) - {NAME}
    assert found.nearest.by_scores[0].above_average == max(
        pair.above_average or 0.0 for pair in found.cluster.pairs
    )
    assert found.n_rows == {"train": 18, "valid": 6, "test": 6}
    assert found.sharing is not None
    (figures,) = (one for one in opened.evaluation.tasks if one.task == NAME)
    assert found.sharing.test["all"]["served"] == figures.served
    held_out = found.sharing.held_out
    assert held_out["all"]["served"].n == 24  # of train and valid
    assert set(held_out) == {"all"}  # no text is in two tasks


def test_novel_texts_and_texts_seen_elsewhere_apart(opened: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    held = opened.multitask.held_out_[NAME]
    texts = opened.rows_of(NAME).texts_at(held.rows)

    def find(_name: str, texts: list[str]) -> Any:
        return np.array([text.endswith("now") for text in texts])

    monkeypatch.setattr(opened.multitask.predictor_, "seen", SimpleNamespace(find=find))
    seen = find(NAME, list(texts))
    assert 0 < seen.sum() < len(seen)
    found = explain_task(opened, NAME)
    assert found.sharing is not None
    for part, chosen in (("novel", ~seen), ("seen", seen)):
        figures = found.sharing.held_out[part]
        assert figures["served"].n == chosen.sum()
        assert figures["served"].mean == pytest.approx(held.right["served"][chosen].mean())
    assert set(found.to_frame("accuracy")["texts"]) == {"all", "novel", "seen"}


def test_labels_of_the_same_family_correspond(opened: Run) -> None:
    found = explain_task(opened, NAME).labels
    assert found is not None
    assert set(found.compared) == {f"task {number}" for number in range(1, 5)}  # the last one is private
    truth = {(label, task, label) for label in ("track", "refund", "greet") for task in ("task 2", "task 4")}
    pairs = {(one.label, one.task, one.other_label) for one in found.matches if one.kind == "corresponds"}
    assert pairs <= truth
    assert len(pairs) >= 4
    assert not {one.task for one in found.matches} & {"task 1", "task 3"}


def test_held_out_answers_are_those_of_the_training(opened: Run) -> None:
    """The folds are dealt again and own models fitted again: they must be right on the very same rows."""
    task = opened.tasks[NAME]
    model, rows = opened.multitask, task.rows("train", "valid")
    held = model.held_out_[NAME]
    folds = deal_folds(task, 2, model.seed_, splits=("train", "valid"))
    inputs: Any = model.predictor_.reader.read(list(task.texts_at(rows)))
    predicted = predict_out_of_fold(task, inputs, rows, folds, model.settings_)[held.rows]
    assert (predicted == task.label_codes[held.rows]).tolist() == held.right["own"].tolist()
    weak = {one.label: one for one in explain_task(opened, NAME).weak_labels}
    for code, label in enumerate(task.label_names):
        n_right = int(held.right["served"][task.label_codes[held.rows] == code].sum())
        recall = weak[label].recall
        assert recall is not None
        assert round(recall.mean * recall.n) == n_right


def test_a_private_task_is_compared_with_nobody(opened: Run) -> None:
    found = explain_task(opened, "task 5")
    assert (found.state, found.cluster, found.labels) == ("private", None, None)
    assert found.nearest.choose(5) == ()
    assert found.sharing is not None
    assert found.sharing.sentence.startswith("Its own model alone serves it")
    assert len(found.weak_labels) == 3
    assert "It is private" in found.sentences[0]


def test_a_task_that_was_set_aside_says_why(opened: Run) -> None:
    unit = {"stage": "read", "key": "read/task 3", "tasks": ["task 3"], "error": "one label only"}
    opened.summary["quarantined"].append(unit)
    figures = opened.summary["evaluation"]["tasks"]
    figures[:] = [one for one in figures if one["task"] != "task 3"]
    found = explain_task(opened, "task 3")
    assert found.state == "set aside"
    assert found.why_not == ("read: one label only",)
    assert found.to_dict()["cluster"] is None


def test_an_unknown_task_is_refused_with_the_nearest(opened: Run) -> None:
    with pytest.raises(UnknownTaskError, match="task"):
        explain_task(opened, "tosk 1")
    with pytest.raises(UsageError, match="n_others"):
        explain_task(opened, NAME, n_others=-1)


def test_parts_as_frames(opened: Run) -> None:
    found = explain_task(opened, NAME)
    pairs = found.to_frame()
    assert sorted(pairs["other"]) == [f"task {number}" for number in range(1, 5)]
    assert {"to_task.score", "from_task.low", "same_group"} <= set(pairs.columns)
    accuracy = found.to_frame("accuracy")
    assert set(accuracy["rows"]) == {"test", "held_out"}
    assert {"served.mean", "gain.low"} <= set(accuracy.columns)
    assert len(found.to_frame("weak_labels")) == 3
    assert set(found.to_frame("matches")["kind"]) >= {"corresponds"}
    assert len(found.to_frame("conflicts")) == 0
    assert set(found.to_frame("nearest")["name"]) == set(pairs["other"])
    with pytest.raises(UsageError, match="no such part"):
        found.to_frame("rows")  # type: ignore[arg-type]


def test_an_adapted_task_says_what_its_model_knows(tmp_path: Path) -> None:
    folder = tiny_run.copy_of_run(tmp_path / "run")
    opened = Run(folder)
    texts = ["where is my parcel", "parcel where", "hello you", "good morning"]
    opened.adapt(Task("new", texts, ["where"] * 2 + ["hello"] * 2))
    found = explain_task(opened, "new")
    assert found.state == "adapted"
    assert found.label_names == ("hello", "where")
    assert len(found.nearest.by_similarity) > 0
    assert any("predicted right" in note for note in found.notes)
    opened.adapt(Task("thin", texts[1:3], ["where", "hello"]))
    assert explain_task(opened, "thin").state == "adapted"


def test_sources_are_looked_for_where_sharing_harms(opened: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    harm(opened)
    found = explain_task(opened, NAME).sharing
    assert found is not None
    assert found.is_harmed
    assert found.method == "gradients"
    assert all(source.effect < 0 for source in found.sources)
    assert found.sentence == "Sharing harms it: -20.0 points [-30.0, -10.0] on 6 test rows."
    monkeypatch.setattr(sharing, "MAX_MATES", 0)
    by_scores = explain_task(opened, NAME).sharing
    assert by_scores is not None
    assert by_scores.method == "scores"
    assert {source.task for source in by_scores.sources} <= set(
        sharing_with(opened.multitask.predictor_, NAME)
    )
    again = explain_task(opened, NAME, by_gradients=True).sharing
    assert again is not None
    assert again.sources == found.sources
    harm(opened, low=-0.2, high=0.1)
    doubtful = explain_task(opened, NAME).sharing
    assert doubtful is not None
    assert (doubtful.is_harmed, doubtful.is_doubtful) == (False, True)


def test_an_added_task_has_its_own_facts(opened: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gain = {"mean": 0.1, "low": 0.05, "high": 0.2, "n": 18}
    opened.summary["added"] = [
        {
            "name": NAME,
            "version": 2,
            "cluster": 0,
            "confidence": 0.8,
            "out_of_cluster": False,
            "expected_gain": gain,
            "n_measured": 4,
            "shares": True,
        }
    ]
    opened.multitask.held_out_.pop(NAME)

    def learned(opened: Run, _: str) -> ClusterMultiTask:
        return opened.multitask

    monkeypatch.setattr(Run, "learned", learned)
    found = explain_task(opened, NAME)
    assert found.state == "added"
    assert found.sharing is not None
    assert found.sharing.expected_gain is not None
    assert found.sharing.expected_gain.mean == 0.1
    assert found.sharing.held_out == {}
    # Nothing was kept of its held-out rows: they are predicted again by its own model.
    assert sum(one.recall.n for one in found.weak_labels if one.recall is not None) == 24


def test_people_see_a_page_of_80_columns(run: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    explain(run, NAME, limit=3)
    shown = capsys.readouterr().out
    assert max(len(line) for line in shown.splitlines()) <= 80
    for words in (
        "task 0 (rows: 18 train, 6 valid, 6 test, 3 labels)",
        "It is in cluster",
        "Nearest by similarity",
        "Labels of other tasks",
        "(--limit 0 shows all)",
        "6 test rows",
        "What to label next",
    ):
        assert words in " ".join(shown.split())
    assert "parcel" not in shown  # no text of the task


def test_programs_get_json_and_texts_on_request_only(run: Path, opened: Run, capsys: Out) -> None:
    held_out = opened.multitask.held_out_
    name = next(name for name, held in held_out.items() if not held.right["served"].all())
    texts = set(opened.tasks[name].texts)
    explain(run, name, json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], document["version"]) == ("robusttc explanation", 2)
    assert document["sentences"]
    assert not texts & set(strings_in(document))
    explain(run, name, json=True, show_texts=True)
    document = json.loads(capsys.readouterr().out)
    missed = [text for label in document["weak_labels"] for text in label["missed"]]
    assert missed
    assert set(missed) <= texts
    explain(run, name, show_texts=True)
    assert "Missed of" in capsys.readouterr().out


def strings_in(value: Any) -> list[str]:
    """All strings of a document, at whatever depth."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings_in(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings_in(one)]
    return [value] if isinstance(value, str) else []

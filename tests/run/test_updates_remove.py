"""Tasks removed from a run: nothing of them stays, and what had learned from them is trained again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from later_tasks import (
    MARKED_LABEL,
    MARKED_TEXT,
    ODD_NAMES,
    examples,
    files_of,
    holds,
    inline,
    marked_task,
    renamed,
)
from tiny_run import Inline, copy_of_run, make_task, tiny_model

from robusttc.cli import main
from robusttc.data import Task, TaskSet, write_tasks
from robusttc.encoders import VectorCache, default_cache_folder
from robusttc.errors import UnknownTaskError, UsageError
from robusttc.run import FitSettings, Run, fit_run
from robusttc.run.updates import add_tasks, plan_removal, remove_tasks, retire_tasks

__all__ = ["inline"]

GONE = "vanishing client"
TEXTS = ["where is my parcel", "the sky is blue"]
Out = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on words with a marked task, a private one, one that came later, and an adapted one."""
    folder = tmp_path_factory.mktemp("words") / "run"
    tasks = [*(make_task(number) for number in range(3)), marked_task(GONE, 3), marked_task("own", 4)]
    chosen = FitSettings(
        encoder="cnn", clusters=2, n_folds=2, n_random=0, cluster_models="always", private=("own",)
    )
    late = make_task(6)
    texts = [f"{text} flimmerword" for text in late.texts]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("robusttc.run.fit.make_executor", lambda *_, **__: Inline())
        fit_run(folder, TaskSet(tasks), chosen)
        add_tasks(folder, TaskSet([Task("late", texts, late.labels.tolist(), late.splits.tolist())]))
        Run(folder).adapt(examples("few"))
    return folder


def only_history_names(folder: Path, name: str) -> bool:
    """Tell whether no file of a run has a name but the manifests."""
    return all(Path(file).name == "manifest.json" for file in holds(folder, name))


def test_words_that_came_later_are_read(words: Path) -> None:
    run = Run(words)
    assert "flimmerword" in run.learned("late").predictor_.reader.describe()[0]["words"]
    assert "flimmerword" not in run.multitask.predictor_.reader.describe()[0]["words"]
    task = run.rows_of("late")
    rows = task.rows("train")
    assert np.mean(run.predict("late", list(task.texts_at(rows))).labels == task.labels[rows]) > 0.8


@pytest.mark.usefixtures("inline")
def test_an_added_task_leaves_no_trace_and_touches_nobody(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    add_tasks(folder, TaskSet([make_task(7)]))
    kept = files_of(folder)
    add_tasks(folder, TaskSet([marked_task(GONE), make_task(6)]))
    assert holds(folder, MARKED_LABEL)  # so there is something to remove
    run = Run(folder)
    assert not plan_removal(run, [GONE]).retrains
    cache, texts = VectorCache(default_cache_folder()), sorted(set(marked_task(GONE).texts))
    cache.put("a model", texts, np.ones((len(texts), 2), dtype=np.float32))
    assert not cache.find_missing("a model", texts)
    result = remove_tasks(folder, [GONE])
    assert cache.find_missing("a model", texts) == texts
    assert (result.version, result.flips) == (4, ())
    assert holds(folder, MARKED_TEXT) == holds(folder, MARKED_LABEL) == []
    assert only_history_names(folder, GONE)
    run.reload()
    assert set(run.added) == {"task 6", "task 7"}
    assert GONE not in run.clusters
    assert run.scores is not None
    assert {"task 6", "task 7"} < set(run.scores.task_names)
    with pytest.raises(UnknownTaskError):
        run.predict(GONE, TEXTS)
    again = remove_tasks(folder, [GONE])  # as after a kill: what was left to erase is erased
    assert (again.version, again.sentences) == (4, result.sentences)
    with pytest.raises(UnknownTaskError):
        remove_tasks(folder, [GONE, "task 6"])
    remove_tasks(folder, ["task 6"])
    assert files_of(folder) == kept
    # It may come again.
    assert add_tasks(folder, TaskSet([marked_task(GONE)])).version == 6
    assert Run(folder).predict(GONE, TEXTS).labels[0] is not None


@pytest.fixture(scope="module")
def removed(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without a task that others learned from, and without a private one."""
    folder = shutil.copytree(words, tmp_path_factory.mktemp("removed") / "run", symlinks=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("robusttc.run.fit.make_executor", lambda *_, **__: Inline())
        command = ["remove", str(folder), "--task", GONE, "--task", "own", "--yes", "--quiet"]
        assert main(command) == 0
    return folder


def test_what_is_trained_again_is_named_first(words: Path, capsys: Out) -> None:
    before = files_of(words)
    assert main(["remove", str(words), "--task", GONE]) == 2  # nobody can be asked
    said = capsys.readouterr().err
    for words_of_it in ("the model of all tasks", "learns new tasks", "made by robusttc adapt", "--yes"):
        assert words_of_it in said
    assert files_of(words) == before
    assert main(["remove", str(words)]) == 2


def test_a_task_of_the_fit_is_gone(words: Path, removed: Path) -> None:
    for mark in (MARKED_TEXT, MARKED_LABEL):
        assert holds(words, mark)  # so there was something to remove
        assert holds(removed, mark) == []
    assert only_history_names(removed, GONE)
    before, run = Run(words), Run(removed)
    for model in ("models/multitask", "models/fewshot", "models/added"):
        assert files_of(removed, under=model).keys() == files_of(words, under=model).keys()
        assert files_of(removed, under=model) != files_of(words, under=model)
    clusters = before.clusters
    assert run.clusters == {name: clusters[name] for name in clusters if name not in (GONE, "own")}
    assert run.kept_versions == (4,)  # the models of older ones had learned from it
    assert run.multitask.task_names_ == ("task 0", "task 1", "task 2")
    assert run.tasks.names == ("late", "task 0", "task 1", "task 2")
    assert run.summary["tasks"]["n"] == 4
    assert run.summary["configuration"]["private"] == []
    assert run.version.identity["settings"]["private"] == []
    assert run.similarity is not None
    assert GONE not in run.similarity.task_names
    change = run.history[-1]
    assert "trained again" in change.sentence
    assert change.details["learned_from"] == [GONE]
    assert change.details["retrained"]
    # What came later stands on the new models.
    texts = ["where is my parcel now", "hello good morning"]
    assert run.predict("late", texts).labels.tolist() == before.predict("late", texts).labels.tolist()
    assert run.adapted_names == ("few",)
    assert set(run.predict("few", texts).labels) <= {"where", "hello"}


def test_the_last_task_of_the_fit_stays(words: Path) -> None:
    run = Run(words)
    with pytest.raises(UsageError, match="last task"):
        plan_removal(run, [name for name in run.clusters if name != "late"])
    with pytest.raises(UnknownTaskError, match="task 1"):
        plan_removal(run, ["task1"])
    with pytest.raises(UsageError, match="nothing to remove"):
        plan_removal(run, [])


@pytest.mark.usefixtures("inline")
def test_a_private_task_of_the_fit_goes_without_training(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    add_tasks(folder, TaskSet([make_task(6)]))
    run = Run(folder)
    names = ("task 0", "task 1", "task 6")
    before = {name: run.predict(name, TEXTS).probabilities for name in names}
    fewshot = files_of(folder, under="models/fewshot")
    plan = plan_removal(run, ["task 5"])
    assert (plan.in_models, plan.learned_from, plan.retrains) == (("task 5",), (), ())
    remove_tasks(folder, ["task 5"])
    run.reload()
    assert run.history[-1].details["learned_from"] == []
    assert "task 5" not in run.multitask.task_names_
    assert all(np.array_equal(run.predict(name, TEXTS).probabilities, before[name]) for name in names)
    assert files_of(folder, under="models/fewshot") == fewshot
    assert only_history_names(folder, "task 5")


@pytest.mark.usefixtures("inline")
def test_a_cluster_without_tasks_vanishes(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    clusters = Run(folder).clusters
    members = [name for name, number in clusters.items() if number == clusters["task 1"]]
    result = remove_tasks(folder, members)
    assert f"cluster {clusters['task 1']} has no tasks any more" in result.sentences[0]
    run = Run(folder)
    assert run.clusters == {name: number for name, number in clusters.items() if name not in members}
    found = run.summary["clusters"]
    assert (found["n"], found["sizes"][clusters["task 1"]]) == (1, 0)
    assert add_tasks(folder, TaskSet([make_task(6)])).added["task 6"].cluster == clusters["task 0"]


@pytest.mark.usefixtures("inline")
def test_a_version_that_flips_too_much_is_refused(tmp_path: Path, capsys: Out) -> None:
    folder = copy_of_run(tmp_path / "run")
    run = Run(folder)
    text = "where is my parcel now"
    wrong = next(
        label for label in run.rows_of("task 0").label_names if label != run.predict("task 0", text).labels[0]
    )
    table = tmp_path / "pinned.csv"
    table.write_text(f"task,text,label\ntask 0,{text},{wrong}\n")
    command = ["remove", str(folder), "--task", "task 2", "--yes", "--quiet"]
    assert main([*command, "--must-pass", str(table)]) == 3
    assert f"'{text}'" in capsys.readouterr().err
    assert run.reload().version.number == 1
    assert main(["remove", str(folder), "--give-up"]) == 0
    assert "A removal of 1 task was dropped" in capsys.readouterr().out
    assert main(command) == 0
    assert run.reload().version.number == 2
    assert run.version.change.seconds > 0


@pytest.mark.usefixtures("inline")
def test_a_removal_leaves_other_tasks_that_no_longer_answer_as_they_are(tmp_path: Path) -> None:
    run = Run(copy_of_run(tmp_path / "run"))
    for name in ("one", "two"):
        run.adapt(examples(name))
    retire_tasks(run, ["one", "two"])
    run.remove(["one"], progress=False)
    assert (run.retired, run.adapted_names) == (("two",), ("two",))


def test_odd_names_go_through_every_command(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robusttc.run.fit.make_executor", lambda *_, **__: Inline())
    folder = tmp_path / "run"
    fitted = ("clusters", "transfer", "multitask")
    tasks = [
        *(make_task(number) for number in range(3)),
        *(renamed(3 + k, name) for k, name in enumerate(fitted)),
    ]
    write_tasks(TaskSet(tasks), tmp_path / "tasks")
    options = [
        "--model",
        str(tiny_model()),
        *["--clusters", "2", "--n-folds", "2", "--n-random", "0", "--no-cost", "--quiet"],
    ]
    command = ["fit", str(tmp_path / "tasks"), "--out", str(folder), "--private", "multitask", *options]
    assert main(command) == 0
    before = Run(folder).summary
    added = [name for name in ODD_NAMES if name not in fitted]
    table = tmp_path / "new.csv"
    rows = ["client,text,label,split"]
    for number, name in enumerate(added):
        task = renamed(6 + number, name)
        cell = '"' + name.replace('"', '""') + '"'
        rows += [
            f"{cell},{text},{label},{split}"
            for text, label, split in zip(task.texts, task.labels, task.splits, strict=True)
        ]
    table.write_text("\n".join(rows) + "\n")
    assert main(["add", str(folder), str(table), "--task-column", "client", "--quiet"]) == 0
    (tmp_path / "few.csv").write_text("text,label\nwhere is my parcel,where\nhello you,hello\n")
    (tmp_path / "asked.txt").write_text("where is my parcel\n")
    few = [f"{name}2" for name in ODD_NAMES[:-1]]
    for name in few:
        assert main(["adapt", str(folder), str(tmp_path / "few.csv"), "--name", name]) in (0, 3)
    run = Run(folder)
    assert set(run.adapted_names) == set(few)
    assert set(run.added) == set(added)
    for name in (*ODD_NAMES[3:], *few[3:5], "clusters"):
        capsys.readouterr()
        assert main(["predict", str(folder), str(tmp_path / "asked.txt"), "--task", name]) == 0
        assert capsys.readouterr().out.count("\n") == 2
        assert run.explain(name, n_others=1).task == name
    for names in (["format", "own", "added"], ODD_NAMES[4:], few, ["multitask"], ["clusters", "transfer"]):
        command = [f"--task={name}" for name in names]
        assert main(["remove", str(folder), *command, "--yes", "--quiet"]) == 0
        summary = Run(folder).summary
        assert {*summary, "added"} == {*before, "added"}
        assert summary["multitask"].keys() == before["multitask"].keys()
        assert not {figures["task"] for figures in summary["evaluation"]["tasks"]} & set(names)
    run = Run(folder)
    assert set(run.task_names) == {"task 0", "task 1", "task 2"}
    assert run.predict("task 0", TEXTS).labels[0] is not None
    assert not (tmp_path / "etc").exists()

"""Tasks removed from a run: nothing of them stays, and what had learned from them is trained again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from later_tasks import (
    MARKED_LABEL,
    MARKED_TEXT,
    Killed,
    digest_all,
    digest_files,
    holds,
    marked_task,
)
from tiny_run import copy_of_run, make_task

from robusttc.cli import main
from robusttc.crash_points import set_hook
from robusttc.data import Task, TaskSet
from robusttc.encoders import VectorCache, default_cache_folder
from robusttc.errors import StoreError, UnknownTaskError, UsageError
from robusttc.run.fitting import fit_run
from robusttc.run.later.adding import add_tasks
from robusttc.run.later.history import read_change
from robusttc.run.later.influence import Influence
from robusttc.run.later.removal import tell_removed
from robusttc.run.later.removing import plan_removal, remove_tasks
from robusttc.run.run import Run
from robusttc.run.settings import FitSettings

MODELS = ("models/multitask/*", "models/fewshot/*")
GONE = "vanishing client"


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on words with a marked task, and a task that came later."""
    folder = tmp_path_factory.mktemp("words") / "run"
    tasks = TaskSet(
        [*(make_task(number) for number in range(3)), marked_task(GONE, 3), marked_task("own", 4)]
    )
    chosen = FitSettings(
        encoder="cnn", clusters=2, n_folds=2, n_random=0, cluster_models="always", private=("own",)
    )
    fit_run(folder, tasks, chosen)
    late = make_task(6)
    words = [f"{text} flimmerword" for text in late.texts]
    add_tasks(folder, TaskSet([Task("late", words, late.labels.tolist(), late.splits.tolist())]))
    return folder


@pytest.fixture
def no_hook() -> Iterator[None]:
    yield
    set_hook(None)


def test_words_that_came_later_are_read(words: Path) -> None:
    opened = Run(words)
    reader = opened.learned("late").predictor_.reader
    assert "flimmerword" in reader.describe()[0]["words"]
    assert "flimmerword" not in opened.multitask.predictor_.reader.describe()[0]["words"]
    task = opened.tasks["late"]
    rows = task.rows("train")
    answers = opened.find("late").answer(list(task.texts_at(rows)))
    right = [answer.label == label for answer, label in zip(answers, task.labels[rows], strict=True)]
    assert sum(right) > 0.8 * len(right)


def test_an_added_task_leaves_no_trace_and_touches_nobody(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    models = digest_files(folder, *MODELS)
    add_tasks(folder, TaskSet([make_task(7)]))
    kept = digest_files(folder, "models/**/*", "tasks/*")
    scores = (folder / "scores.csv").read_bytes()
    add_tasks(folder, TaskSet([marked_task(GONE), make_task(6)]))
    assert holds(folder, MARKED_LABEL)  # so there is something to remove
    assert not plan_removal(folder, [GONE]).retrains
    cache, texts = VectorCache(default_cache_folder()), sorted(set(marked_task(GONE).texts))
    cache.put("a model", texts, np.ones((len(texts), 2), dtype=np.float32))
    assert not cache.find_missing("a model", texts)
    result = remove_tasks(folder, [GONE])
    assert cache.find_missing("a model", texts) == texts
    assert result.version == 4
    assert holds(folder, MARKED_TEXT) == holds(folder, MARKED_LABEL) == []
    named = holds(folder, GONE)
    assert all(name == "run.sqlite" or name.startswith("versions/") for name in named), named
    assert digest_files(folder, *MODELS) == models
    opened = Run(folder)
    assert set(opened.added) == {"task 6", "task 7"}
    assert GONE not in opened.partition()
    assert opened.partition(3)[GONE] >= -1
    assert opened.scores is not None
    assert {"task 6", "task 7"} < set(opened.scores.task_names)
    with pytest.raises(UnknownTaskError):
        opened.find(GONE)
    remove_tasks(folder, ["task 6"])
    assert digest_files(folder, "models/**/*", "tasks/*") == kept
    assert (folder / "scores.csv").read_bytes() == scores
    # It may come again.
    assert add_tasks(folder, TaskSet([marked_task(GONE)])).version == 6
    assert Run(folder).find(GONE).task == GONE


@pytest.fixture(scope="module")
def removed(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without a task that others learned from, and without a private one."""
    folder = shutil.copytree(words, tmp_path_factory.mktemp("removed") / "run")
    command = ["remove", str(folder), "--task", GONE, "--task", "own", "--yes", "--quiet"]
    assert main(command) == 0
    return folder


def test_what_is_trained_again_is_named_first(words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = digest_files(words, *MODELS)
    assert main(["remove", str(words), "--task", GONE]) == 2  # nobody can be asked
    said = capsys.readouterr().err
    assert "the model of all tasks" in said
    assert "what learns new tasks" in said
    assert "--yes" in said
    assert digest_files(words, *MODELS) == models
    assert Run(words).history[-1].kind == "add"


def test_a_task_of_the_fit_is_gone(words: Path, removed: Path) -> None:
    for mark in (MARKED_TEXT, MARKED_LABEL):
        assert holds(words, mark)  # so there was something to remove
        assert holds(removed, mark) == []
    named = holds(removed, GONE)
    assert all(name == "run.sqlite" or name.startswith("versions/") for name in named), named
    before, opened = Run(words), Run(removed)
    assert digest_files(removed, *MODELS).keys() == digest_files(words, *MODELS).keys()
    assert digest_files(removed, *MODELS) != digest_files(words, *MODELS)
    clusters = before.partition()
    assert opened.partition() == {name: clusters[name] for name in clusters if name not in (GONE, "own")}
    assert opened.partition(2) == clusters
    assert opened.multitask.task_names_ == ("task 0", "task 1", "task 2")
    assert opened.tasks.names == ("late", "task 0", "task 1", "task 2")
    assert opened.summary["tasks"]["n"] == 4
    assert opened.summary["configuration"]["private"] == []
    late = [run.find("late").answer(["where is my parcel now"])[0].label for run in (before, opened)]
    assert late[0] == late[1]
    assert opened.similarity is not None
    assert GONE not in opened.similarity.task_names
    assert "trained again" in opened.history[-1].sentence
    assert read_change(removed, 3)["influence"]["retrains"]


def test_the_last_task_of_a_cluster_and_of_a_run(words: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(words, tmp_path / "run")
    partition = Run(folder).partition()
    with pytest.raises(UsageError, match="last task"):
        remove_tasks(folder, list(partition))
    with pytest.raises(UnknownTaskError, match="task 1"):
        remove_tasks(folder, ["task1"])
    with pytest.raises(UsageError, match="nothing to remove"):
        remove_tasks(folder, [])
    told = tell_removed(["a"], {"a": 2, "b": 0, "c": -1}, Influence((), ("a",), (), (), 0.0))
    assert "cluster 2 has no tasks any more, the others keep their numbers" in told[0]


def test_a_private_task_of_the_fit_goes_without_training(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    add_tasks(folder, TaskSet([make_task(6)]))
    texts = ["where is my parcel", "the sky is blue"]
    before = {name: Run(folder).find(name).answer(texts) for name in ("task 0", "task 1", "task 6")}
    fewshot = digest_files(folder, "models/fewshot/*")
    assert not plan_removal(folder, ["task 5"]).retrains
    remove_tasks(folder, ["task 5"])
    opened = Run(folder)
    assert "task 5" not in opened.multitask.task_names_
    assert {name: opened.find(name).answer(texts) for name in before} == before
    assert digest_files(folder, "models/fewshot/*") == fewshot
    named = holds(folder, "task 5")
    assert all(name == "run.sqlite" or name.startswith("versions/") for name in named), named


@pytest.mark.usefixtures("no_hook")
@pytest.mark.parametrize("point", ["release/committed", "value/begun"])
def test_killed_while_it_removes_a_private_task(
    point: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed, folder = copy_of_run(tmp_path / "undisturbed"), copy_of_run(tmp_path / "run")
    points: list[str] = []
    set_hook(points.append)
    remove_tasks(undisturbed, ["task 5"])
    n_left = points.count(point) - (point == "value/begun")  # of two, that of the state after all files

    def kill(reached: str) -> None:
        nonlocal n_left
        n_left -= reached == point
        if n_left == 0:
            raise Killed

    set_hook(kill)
    with pytest.raises(Killed):
        remove_tasks(folder, ["task 5"])
    set_hook(None)
    assert main(["remove", str(folder), "--task", "task 5", "--yes"]) == 0
    assert "Others have learned" not in capsys.readouterr().err
    assert digest_all(folder) == digest_all(undisturbed)
    assert read_change(folder, 2)["influence"]["retrains"] == []


@pytest.mark.usefixtures("no_hook")
def test_what_is_trained_again_is_named_after_a_kill_too(words: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(words, tmp_path / "run")
    expected = plan_removal(folder, [GONE])

    def kill(point: str) -> None:
        # The summary is the last file before the manifest.
        if point == "file/in place" and GONE not in (folder / "summary.json").read_text():
            raise Killed

    set_hook(kill)
    with pytest.raises(Killed):
        remove_tasks(folder, [GONE])
    set_hook(None)
    assert plan_removal(folder, [GONE]).retrains == expected.retrains != ()


def all_keys(value: Any, place: str = "") -> set[str]:
    """The places of all fields of values for JSON, entries of lists left out."""
    if not isinstance(value, dict):
        return {place}
    return {found for key, part in value.items() for found in all_keys(part, f"{place}/{key}")}


def test_tasks_that_are_named_like_fields_of_the_summary(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def named(name: str, number: int) -> Task:
        task = make_task(number)
        return Task(name, task.texts, task.labels.tolist(), task.splits.tolist())

    fitted = {"clusters": 3, "transfer": 4, "tasks": 5}
    tasks = [make_task(0), make_task(1), make_task(2), *(named(*pair) for pair in fitted.items())]
    chosen = FitSettings(encoder="cnn", clusters=2, n_folds=2, n_random=0, private=("tasks",))
    fit_run(folder, TaskSet(tasks), chosen)
    added = {"format": 6, "own": 7, "added": 8, "blend": 9}
    add_tasks(folder, TaskSet([make_task(10), *(named(*pair) for pair in added.items())]))
    before = Run(folder).summary
    for names in (["format", "own", "blend"], ["added"], ["tasks"], ["clusters", "transfer"]):
        command = [word for name in names for word in ("--task", name)]
        assert main(["remove", str(folder), *command, "--yes", "--quiet"]) == 0
        summary = Run(folder).summary
        assert all_keys(summary) == all_keys(before)
        assert summary["configuration"]["strategy"] == "blend"
        assert not {figures["task"] for figures in summary["evaluation"]["tasks"]} & set(names)
    opened = Run(folder)
    assert set(opened.added) == {"task 10"}
    assert set(opened.partition()) == {"task 0", "task 1", "task 2", "task 10"}
    assert opened.find("task 0").answer(["where is my parcel"])[0].label is not None


def test_a_cluster_without_tasks_vanishes(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    partition = Run(folder).partition()
    members = [name for name, number in partition.items() if number == partition["task 1"]]
    result = remove_tasks(folder, members)
    assert f"cluster {partition['task 1']} has no tasks any more" in result.sentences[0]
    opened = Run(folder)
    assert opened.partition() == {name: number for name, number in partition.items() if name not in members}
    clusters = opened.summary["clusters"]
    assert clusters["n"] == 1
    assert clusters["sizes"][partition["task 1"]] == 0
    assert opened.find("task 0").answer(["where is my parcel"])[0].label is not None
    assert add_tasks(folder, TaskSet([make_task(6)])).added["task 6"].cluster == partition["task 0"]


@pytest.mark.usefixtures("no_hook")
def test_killed_while_it_removes_and_resumed(words: Path, removed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(words, tmp_path / "run")
    before = Run(folder).find("task 0").answer(["where is my parcel"])
    # In the middle of training, while files are written, and when all is gone but the log of the database.
    for name, times in (("finish/committed", 3), ("file/renamed", 5), ("release/committed", 1)):
        n_left = times

        def kill(point: str, name: str = name) -> None:
            nonlocal n_left
            n_left -= point == name
            if n_left == 0:
                raise Killed

        set_hook(kill)
        with pytest.raises(Killed):
            remove_tasks(folder, [GONE, "own"])
        set_hook(None)
        with pytest.raises((UsageError, StoreError), match=r"robusttc remove again|just being written"):
            add_tasks(folder, TaskSet([make_task(8)]))
        if name == "finish/committed":
            assert Run(folder).find("task 0").answer(["where is my parcel"]) == before
    remove_tasks(folder, [GONE, "own"])
    assert digest_all(folder) == digest_all(removed)
    assert holds(folder, MARKED_TEXT) == holds(folder, MARKED_LABEL) == []

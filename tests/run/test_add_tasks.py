"""Tasks added to a finished run: placed, trained on top, and nobody else touched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from later_tasks import Killed, digest_all, digest_files, new_tasks, strange_task
from tiny_run import copy_of_run, fit_options, make_task

from robusttc.cli import main
from robusttc.crash_points import set_hook
from robusttc.data import Task, TaskSet, write_tasks
from robusttc.errors import DataError, StoreError, UnknownTaskError, UsageError
from robusttc.jobs import Stopped
from robusttc.run.later.adding import AddResult, add_tasks, give_up_adding
from robusttc.run.run import Run
from robusttc.run.settings import Execution

MODELS = ("models/multitask/*", "models/fewshot/*")


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AddResult]:
    folder = copy_of_run(tmp_path_factory.mktemp("grown") / "run")
    return folder, add_tasks(folder, new_tasks(), private=["task 8"])


@pytest.fixture
def no_hook() -> Iterator[None]:
    yield
    set_hook(None)


def test_tasks_go_to_the_clusters_of_their_like(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    before, now = Run(folder).partition(1), Run(folder).partition()
    assert {now["task 6"], now["task 7"]} == {before["task 0"], before["task 1"]}
    assert now["task 6"] == before["task 0"] == before["task 2"] == before["task 4"]
    assert {name: now[name] for name in before} == before
    assert result.version == 2
    assert result.sentences[0].startswith("3 tasks added, 2 to clusters that were there")
    added = Run(folder).added
    assert set(added) == {"task 6", "task 7", "task 8"}
    assert added == dict(result.added)
    for name in ("task 6", "task 7"):
        assert added[name].confidence > 0.5
        assert added[name].n_measured == 5  # all that share: there are few
        assert not added[name].out_of_cluster
        assert added[name].expected_gain is not None
        assert added[name].figures.own is not None
        assert added[name].figures.served is not None


def test_nobody_else_changes(grown: tuple[Path, AddResult], tmp_path: Path) -> None:
    folder, _ = grown
    old = copy_of_run(tmp_path / "old")
    assert digest_files(old, *MODELS)
    assert digest_files(folder, *MODELS) == digest_files(old, *MODELS)
    texts = ["where is my parcel", "the sky is blue today"]
    for name in ("task 0", "task 1", "task 5"):
        now, then = Run(folder).find(name).answer(texts), Run(old).find(name).answer(texts)
        assert now == then
    figures = {one.task: one for one in Run(folder).evaluation.tasks}
    assert all(figures[one.task] == one for one in Run(old).evaluation.tasks)


def test_a_private_task_is_measured_with_nobody(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    one = result.added["task 8"]
    assert (one.cluster, one.n_measured, one.expected_gain, one.shares) == (-1, 0, None, False)
    opened = Run(folder)
    assert opened.scores is not None
    assert "task 8" not in opened.scores.task_names
    assert {"task 6", "task 7"} < set(opened.scores.task_names)
    assert not opened.tasks["task 8"].may_share
    assert (
        opened.find("task 8").answer(["where is my parcel now"])[0].label
        in opened.tasks["task 8"].label_names
    )


def test_what_cannot_be_learned_is_set_aside(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    assert list(result.set_aside) == ["later unfit"]
    assert result.is_doubtful
    opened = Run(folder)
    assert opened.summary["tasks"]["n"] == 10
    assert opened.summary["tasks"]["n_learned"] == 9
    assert opened.partition()["later unfit"] == -1
    with pytest.raises(UsageError, match="robusttc remove"):
        opened.find("later unfit")


def test_added_tasks_are_served_like_any_other(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    opened = Run(folder)
    task = opened.tasks["task 6"]
    rows = task.rows("test")
    answers = opened.find("task 6").answer(list(task.texts_at(rows)))
    right = np.mean([answer.label == label for answer, label in zip(answers, task.labels[rows], strict=True)])
    figures = result.added["task 6"].figures
    assert figures.served is not None
    assert right == pytest.approx(figures.served.mean)
    assert answers[0].out_of_scope is not None
    kinds = [change.kind for change in opened.history]
    assert kinds == ["fit", "add"]
    assert opened.history[1].tasks == ("later unfit", "task 6", "task 7", "task 8")
    assert len(opened.history[0].tasks) == len(opened.partition(1)) == 6
    with pytest.raises(UsageError, match="no such version"):
        opened.partition(3)


def test_the_same_again_is_nothing_to_do(grown: tuple[Path, AddResult]) -> None:
    folder, _ = grown
    before = digest_all(folder)
    again = add_tasks(folder, TaskSet([*new_tasks(), make_task(0)]), private=["task 8"])
    assert again.there == ("later unfit", "task 0", "task 6", "task 7", "task 8")
    assert (again.version, dict(again.added), again.is_doubtful) == (2, {}, False)
    assert digest_all(folder) == before


def test_taken_names_are_refused_all_at_once(grown: tuple[Path, AddResult]) -> None:
    folder, _ = grown
    other = [Task(name, ["a b", "c d"] * 2, ["x", "y"] * 2) for name in ("task 0", "task 6", "fine")]
    with pytest.raises(UsageError) as error:
        add_tasks(folder, TaskSet(other))
    assert "2 names are taken" in str(error.value)
    assert "'task 0'" in str(error.value)
    assert "'task 6'" in str(error.value)
    assert "robusttc remove" in str(error.value)
    with pytest.raises(DataError, match="no new task can be learned"):
        add_tasks(folder, TaskSet([Task("one label", ["a"], ["x"])]))


def test_fit_again_is_refused_and_names_the_versions(
    grown: tuple[Path, AddResult], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*fit_options(), "--out", str(grown[0])]) == 2
    assert "version 2: 3 tasks added" in " ".join(capsys.readouterr().err.split())


def test_order_and_workers_do_not_matter(grown: tuple[Path, AddResult], tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    turned = TaskSet(reversed(list(new_tasks())))
    add_tasks(folder, turned, private=["task 8"], execution=Execution(workers=2))
    assert digest_all(folder) == digest_all(grown[0])


@pytest.mark.usefixtures("no_hook")
def test_killed_at_many_moments_and_resumed(grown: tuple[Path, AddResult], tmp_path: Path) -> None:
    points: list[str] = []
    counted = copy_of_run(tmp_path / "counted")
    expected = Run(counted).find("task 0").answer(["where is my parcel"])
    set_hook(points.append)
    add_tasks(counted, new_tasks(), private=["task 8"])
    files = [number for number, point in enumerate(points) if point == "file/renamed"]
    commits = [number for number, point in enumerate(points) if point.endswith("/committed")]
    n_half = 0
    for moment in [*commits[1:-1:6], *files[::4], files[-1], len(points) - 8]:
        folder = copy_of_run(tmp_path / str(moment))
        n_reached = 0

        def kill(_point: str, moment: int = moment) -> None:
            nonlocal n_reached
            n_reached += 1
            if n_reached > moment:
                raise Killed

        set_hook(kill)
        with pytest.raises(Killed):
            add_tasks(folder, new_tasks(), private=["task 8"])
        set_hook(None)
        # Whoever looks meanwhile sees the run as it was, or hears that files are being written.
        try:
            assert Run(folder).find("task 0").answer(["where is my parcel"]) == expected
        except StoreError as error:
            n_half += "just being written" in str(error)
        add_tasks(folder, new_tasks(), private=["task 8"])
        assert digest_all(folder) == digest_all(grown[0]), points[moment]
    assert 0 < n_half < 6  # the moments between two versions were met, and are few


def test_one_addition_at_a_time_and_it_can_be_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of_run(tmp_path / "run")
    before = digest_all(folder)
    calls = iter(range(10_000))
    with pytest.raises(Stopped):
        add_tasks(folder, new_tasks(), stop=lambda: next(calls) > 8)
    with pytest.raises(UsageError, match="--give-up") as error:
        add_tasks(folder, TaskSet([make_task(6)]))
    assert "4 tasks: 'later unfit', 'task 6'" in str(error.value)
    assert main([*fit_options(), "--out", str(folder), "--quiet"]) == 2
    assert "version 2 under way: adding 4 tasks" in " ".join(capsys.readouterr().err.split())
    assert give_up_adding(folder) == ("later unfit", "task 6", "task 7", "task 8")
    after = digest_all(folder)
    # The first version was put aside when the addition began; its clusters are the same.
    extra = {"versions/0001/clusters.csv"}
    assert set(after["names"]) - extra == set(before["names"])
    assert after["summary"] == before["summary"]
    assert Run(folder).history[-1].kind == "fit"
    with pytest.raises(UsageError, match="no addition is under way"):
        give_up_adding(folder)
    assert add_tasks(folder, TaskSet([make_task(6)])).version == 2


@pytest.mark.usefixtures("no_hook")
def test_an_addition_is_taken_back_in_the_middle_of_writing(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    before = digest_all(folder)
    n_left = 8

    def kill(point: str) -> None:
        nonlocal n_left
        n_left -= point == "file/renamed"
        if n_left == 0:
            raise Killed

    set_hook(kill)
    with pytest.raises(Killed):
        add_tasks(folder, TaskSet([make_task(6), make_task(7)]))
    set_hook(None)
    with pytest.raises(StoreError, match="just being written"):
        Run(folder)
    give_up_adding(folder)
    after = digest_all(folder)
    for name in ("versions/0001/clusters.csv", "names"):
        after.pop(name)
    before.pop("names")
    assert after == before
    assert list(Run(folder).added) == []


def test_a_name_that_adapt_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy_of_run(tmp_path / "run")
    opened = Run(folder)
    opened.adapted.save(opened.fewshot.adapt(make_task(6)))
    write_tasks(TaskSet([make_task(6)]), tmp_path / "new")
    command = ["add", str(folder), str(tmp_path / "new"), "--quiet"]
    assert main(command) == 2
    assert "--replace" in capsys.readouterr().err
    assert main([*command, "--replace"]) == 0
    opened = Run(folder)
    assert not opened.adapted.has("task 6")
    assert set(opened.added) == {"task 6"}


@pytest.mark.usefixtures("no_hook")
def test_an_adapted_task_is_replaced_by_the_commit_and_not_before(tmp_path: Path) -> None:
    adapted = copy_of_run(tmp_path / "adapted")
    opened = Run(adapted)
    opened.adapted.save(opened.fewshot.adapt(make_task(6)))
    before, texts = digest_all(adapted), ["where is my parcel", "hello"]
    by_adapted = Run(adapted).find("task 6").answer(texts)
    replaced = shutil.copytree(adapted, tmp_path / "replaced")
    write_tasks(TaskSet([make_task(6)]), tmp_path / "new")
    points: list[str] = []
    set_hook(points.append)
    add_tasks(replaced, TaskSet([make_task(6)]), replace_adapted=True)
    set_hook(None)
    last_commit = max(number for number, point in enumerate(points) if point == "value/committed")

    def add_killed_at(folder: Path, moment: int) -> None:
        places = iter(range(len(points)))

        def kill(_point: str) -> None:
            if next(places) == moment:
                raise Killed

        set_hook(kill)
        with pytest.raises(Killed):
            add_tasks(folder, TaskSet([make_task(6)]), replace_adapted=True)
        set_hook(None)

    folder = shutil.copytree(adapted, tmp_path / "given up")
    add_killed_at(folder, last_commit - 1)
    assert main(["add", str(folder), "--give-up", "--quiet"]) == 0
    after = digest_all(folder)
    assert set(after["names"]) - set(before["names"]) == {"versions/0001/clusters.csv"}
    assert {name: after[name] for name in before if name != "names"} == {
        name: before[name] for name in before if name != "names"
    }
    assert Run(folder).find("task 6").answer(texts) == by_adapted

    # Killed after the commit: the added task serves, and what it replaced goes with the next command.
    folder = shutil.copytree(adapted, tmp_path / "committed")
    add_killed_at(folder, last_commit)
    expected = Run(replaced).find("task 6").answer(texts)
    assert expected != by_adapted
    assert Run(folder).find("task 6").answer(texts) == expected
    other = shutil.copytree(folder, tmp_path / "removed")
    assert main(["add", str(folder), str(tmp_path / "new"), "--quiet", "--replace"]) == 0
    found, wanted = digest_all(folder), digest_all(replaced)
    # The summary that was put aside goes with the next change.
    found["names"] = [name for name in found["names"] if ".before" not in name]
    assert found == wanted
    assert main(["remove", str(other), "--task", "task 6", "--yes", "--quiet"]) == 0
    with pytest.raises(UnknownTaskError):
        Run(other).find("task 6")


def test_the_command_shows_a_row_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy_of_run(tmp_path / "run")
    write_tasks(TaskSet([make_task(6), strange_task("odd")]), tmp_path / "new")
    assert main(["add", str(folder), str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert "task 6" in said
    assert "odd" in said
    assert "expected gain" in said
    assert "This is version 2 of the run; nothing else moved." in said
    assert main(["add", str(folder), str(tmp_path / "new"), "--json"]) == 0
    assert '"there": [\n    "odd",\n    "task 6"\n  ]' in capsys.readouterr().out
    assert main(["add", str(folder)]) == 2
    assert main(["add", str(folder), "--give-up"]) == 2
    assert main(["evaluate", str(folder), "--limit", "0"]) == 0
    assert "odd" in capsys.readouterr().out


def test_files_with_other_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copy_of_run(tmp_path / "run")
    task = make_task(6)
    rows = zip(task.texts, task.labels.tolist(), task.splits.tolist(), strict=True)
    lines = [",".join(row) for row in rows]
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "task 6.csv").write_text("\n".join(["words,intent,split", *lines]) + "\n")
    command = ["add", str(run), str(tmp_path / "late")]
    assert main(command) == 4
    # What the message advises works here too.
    assert "--text-column" in capsys.readouterr().err
    assert main([*command, "--text-column", "words", "--label-column", "intent", "--json"]) == 0
    assert Run(run).tasks["task 6"] == task

"""Tasks added to a finished run or adapted: placed, trained on top, and nobody else touched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from later_tasks import examples, files_of, inline, new_tasks, odd_task, renamed
from tiny_run import Inline, copy_of_run, finished_run, fit_options, make_task

from robusttc.cli import main
from robusttc.data import Task, TaskSet, write_tasks
from robusttc.errors import DataError, StoreError, UnknownTaskError, UsageError, VersionRefusedError
from robusttc.jobs import Stopped
from robusttc.run import Run, RunFolder
from robusttc.run.updates import AddResult, Limits, add_tasks, give_up, settings_of

__all__ = ["inline"]

TEXTS = ["where is my parcel", "the sky is blue today"]
Out = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AddResult]:
    folder = copy_of_run(tmp_path_factory.mktemp("grown") / "run")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("robusttc.run.fit.make_executor", lambda *_, **__: Inline())
        return folder, add_tasks(folder, new_tasks(), private=["task 8"])


def test_tasks_go_to_the_clusters_of_their_like(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    run = Run(folder)
    before, now = run.partition(1), run.clusters
    assert now["task 6"] == before["task 0"] == before["task 2"] == before["task 4"]
    assert now["task 7"] == before["task 1"] == before["task 3"]
    assert {name: now[name] for name in before} == before
    assert result.version == 2
    assert result.sentences[0].startswith("3 tasks added, 2 to clusters that were there")
    assert run.added == dict(result.added)
    assert set(run.added) == {"task 6", "task 7", "task 8"}
    assert sum(run.summary["clusters"]["sizes"]) == 7
    for name in ("task 6", "task 7"):
        one = run.added[name]
        assert one.confidence > 0.5
        assert one.n_measured == 5  # all that share: there are few
        assert not one.out_of_cluster
        assert one.expected_gain is not None
        assert one.figures.own is not None
        assert one.figures.served is not None


def test_nobody_else_changes(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    assert files_of(folder, under="models/multitask") == files_of(finished_run(), under="models/multitask")
    assert files_of(folder, under="models/fewshot") == files_of(finished_run(), under="models/fewshot")
    now, then = Run(folder), Run(finished_run())
    for name in ("task 0", "task 1", "task 5"):
        assert np.array_equal(now.predict(name, TEXTS).probabilities, then.predict(name, TEXTS).probabilities)
    figures = {one.task: one for one in now.evaluation.tasks}
    assert all(figures[one.task] == one for one in then.evaluation.tasks)
    assert result.flips == ()
    assert now.version.change.flips == {}


def test_a_private_task_is_measured_with_nobody(grown: tuple[Path, AddResult]) -> None:
    run = Run(grown[0])
    one = run.added["task 8"]
    assert (one.cluster, one.n_measured, one.expected_gain, one.shares) == (-1, 0, None, False)
    assert run.scores is not None
    assert "task 8" not in run.scores.task_names
    assert {"task 6", "task 7"} < set(run.scores.task_names)
    assert not run.rows_of("task 8").may_share
    assert run.predict("task 8", "where is my parcel now").labels[0] in run.rows_of("task 8").label_names


def test_what_cannot_be_learned_is_set_aside(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    assert list(result.set_aside) == ["later unfit"]
    assert result.is_doubtful
    run = Run(folder)
    assert (run.summary["tasks"]["n"], run.summary["tasks"]["n_learned"]) == (10, 9)
    assert run.clusters["later unfit"] == -1
    with pytest.raises(UsageError, match="robusttc remove"):
        run.predict("later unfit", TEXTS)


def test_added_tasks_are_served_like_any_other(grown: tuple[Path, AddResult]) -> None:
    folder, result = grown
    run = Run(folder)
    task = run.rows_of("task 6")
    rows = task.rows("test")
    found = run.predict("task 6", list(task.texts_at(rows)))
    figures = result.added["task 6"].figures
    assert figures.served is not None
    assert np.mean(found.labels == task.labels[rows]) == pytest.approx(figures.served.mean)
    assert {**figures.novel, **figures.seen}
    assert found.out_of_scope is not None
    assert [change.kind for change in run.history] == ["fit", "add"]
    assert run.history[1].tasks == ("later unfit", "task 6", "task 7", "task 8")
    assert run.explain("task 6").state == "added"
    with pytest.raises(UsageError, match="not kept"):
        run.partition(3)


def test_the_same_again_is_nothing_to_do(grown: tuple[Path, AddResult]) -> None:
    folder, _ = grown
    again = add_tasks(folder, TaskSet([*new_tasks(), make_task(0)]), private=["task 8"])
    assert again.there == ("later unfit", "task 0", "task 6", "task 7", "task 8")
    assert (again.version, dict(again.added), again.is_doubtful) == (2, {}, False)
    assert RunFolder(folder).numbers() == [1, 2]


def test_taken_names_are_refused_all_at_once(grown: tuple[Path, AddResult]) -> None:
    folder, _ = grown
    other = [Task(name, ["a b", "c d"] * 2, ["x", "y"] * 2) for name in ("task 0", "task 6", "fine")]
    with pytest.raises(UsageError, match=r"2 names are taken[\s\S]*'task 0'[\s\S]*'task 6'[\s\S]*remove"):
        add_tasks(folder, TaskSet(other))
    with pytest.raises(DataError, match="no new task can be learned"):
        add_tasks(folder, TaskSet([Task("one label", ["a"], ["x"])]))


def test_fit_again_is_refused(grown: tuple[Path, AddResult], capsys: Out) -> None:
    assert main([*fit_options(), "--out", str(grown[0])]) == 2
    assert "tasks have been added to this run" in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("inline")
def test_the_order_of_tasks_does_not_matter(grown: tuple[Path, AddResult], tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    add_tasks(folder, TaskSet(reversed(list(new_tasks()))), private=["task 8"])
    assert files_of(folder) == files_of(grown[0])


@pytest.mark.usefixtures("inline")
def test_one_change_at_a_time_and_it_can_be_given_up(tmp_path: Path, capsys: Out) -> None:
    folder = copy_of_run(tmp_path / "run")
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    calls = iter(range(10_000))
    with pytest.raises(Stopped):
        add_tasks(folder, new_tasks(), stop=lambda: next(calls) > 8)
    assert np.array_equal(
        Run(folder).predict("task 0", TEXTS).labels, Run(finished_run()).predict("task 0", TEXTS).labels
    )
    with pytest.raises(UsageError, match=r"adding 'later unfit', 'task 6', .*--give-up"):
        add_tasks(folder, TaskSet([make_task(6)]))
    with pytest.raises(UsageError, match="another change"):
        Run(folder).remove(["task 0"])
    with pytest.raises(UsageError, match="another change"):
        Run(folder).adapt(examples("new"))
    assert main(["add", str(folder), "--give-up"]) == 0
    assert "4 tasks was dropped: the run is as it was before" in capsys.readouterr().out
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before
    with pytest.raises(UsageError, match="no change is under way"):
        give_up(folder)
    assert add_tasks(folder, TaskSet([make_task(6)])).version == 2


@pytest.mark.usefixtures("inline")
def test_an_adapted_task_is_a_version_like_any_other_and_small(tmp_path: Path, capsys: Out) -> None:
    folder = copy_of_run(tmp_path / "run")
    run = Run(folder)
    known = set((folder / "objects").rglob("*"))
    run.adapt(examples("new"))
    assert (run.version.number, run.adapted_names, run.history[-1].kind) == (2, ("new",), "adapt")
    assert "new" in run.task_names
    assert set(run.predict("new", TEXTS).labels) <= {"where", "hello"}
    new = [path for path in (folder / "objects").rglob("*") if path.is_file() and path not in known]
    # Its own parts, its examples, and the names: no copies of the layers of the run.
    layers = run.version.files["models/fewshot/arrays.safetensors"][1]
    assert sum(path.stat().st_size for path in new if b"robusttc" not in path.read_bytes()[:20]) < layers
    with pytest.raises(UsageError, match="adapted task has this name"):
        run.adapt(examples("new"))
    with pytest.raises(UsageError, match="a task of the run has this name"):
        run.adapt(examples("task 0"))
    assert main(["remove", str(folder), "--task", "new", "--yes"]) == 0
    capsys.readouterr()
    assert run.reload().adapted_names == ()
    with pytest.raises(UnknownTaskError):
        run.predict("new", TEXTS)


@pytest.mark.usefixtures("inline")
def test_an_added_task_takes_the_place_of_an_adapted_one(tmp_path: Path, capsys: Out) -> None:
    folder = copy_of_run(tmp_path / "run")
    run = Run(folder)
    run.adapt(renamed(7, "task 6"))  # other labels than it will have
    write_tasks(TaskSet([make_task(6)]), tmp_path / "new")
    command = ["add", str(folder), str(tmp_path / "new"), "--quiet"]
    assert main(command) == 2
    assert "--replace" in capsys.readouterr().err
    assert main([*command, "--replace", "--max-flips", "0"]) == 3
    said = capsys.readouterr().err
    assert "the next version is not published" in said
    assert "'task 6'" in said
    assert run.reload().version.number == 2
    assert main([*command, "--replace"]) == 0
    run.reload()
    assert (run.adapted_names, set(run.added)) == ((), {"task 6"})
    assert run.version.change.flips == {"task 6": 6}
    assert Run(folder, version=2).adapted_names == ("task 6",)


@pytest.mark.usefixtures("inline")
def test_must_pass_examples_stay_and_refuse_a_version_that_fails_them(tmp_path: Path, capsys: Out) -> None:
    folder = copy_of_run(tmp_path / "run")
    run = Run(folder)
    text = "where is my parcel now"
    right = str(run.predict("task 0", text).labels[0])
    wrong = next(label for label in run.rows_of("task 0").label_names if label != right)
    write_tasks(TaskSet([make_task(6)]), tmp_path / "new")
    table = tmp_path / "must pass.csv"
    command = ["add", str(folder), str(tmp_path / "new"), "--quiet", "--must-pass", str(table)]
    table.write_text(f"task,text,label\ntask 0,{text},{wrong}\n")
    assert main(command) == 3
    said = capsys.readouterr().err
    assert f"'task 0': '{text}': '{right}' in place of '{wrong}'" in said
    assert run.reload().version.number == 1
    table.write_text(f"task,text,label\nnobody,{text},{wrong}\n")
    assert main(command) == 2
    table.write_text(f"task,text,label\ntask 0,{text},{right}\ntask 6,{text},{right}\n")
    assert main(command) == 0
    assert run.reload().version.number == 2
    assert len(run.version.names("must_pass")) == 2
    # They are asked again where the models of their task are others, and go with it.
    limits = Limits(must_pass=TaskSet([Task("task 6", [text], [wrong])]))
    with pytest.raises(VersionRefusedError, match="1 must-pass example"):
        run.adapt(examples("new"), limits=limits)
    assert main(["remove", str(folder), "--task", "task 6", "--quiet"]) == 0
    assert len(run.reload().version.names("must_pass")) == 1


def test_limits_are_checked() -> None:
    with pytest.raises(UsageError, match="max_flips"):
        Limits(max_flips=-1)


@pytest.mark.usefixtures("inline")
def test_a_run_with_settings_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    run = Run(folder)
    run.summary["configuration"]["of_tomorrow"] = 1
    with pytest.raises(StoreError, match="Use the robusttc that made the run"):
        settings_of(run)


@pytest.mark.usefixtures("inline")
def test_the_command_shows_a_row_a_task(tmp_path: Path, capsys: Out) -> None:
    folder = copy_of_run(tmp_path / "run")
    write_tasks(TaskSet([make_task(6), odd_task("odd")]), tmp_path / "new")
    assert main(["add", str(folder), str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    for words in ("task 6", "odd", "expected gain", "labelled otherwise", "This is version 2 of the run."):
        assert words in said
    # A row of a table stays one line where it is piped.
    (line,) = [line for line in said.splitlines() if line.startswith("task 6 ")]
    assert line.count("[") == 1
    assert "]" in line
    assert main(["add", str(folder), str(tmp_path / "new"), "--json"]) == 0
    assert '"there": [\n    "odd",\n    "task 6"\n  ]' in capsys.readouterr().out
    assert main(["add", str(folder)]) == 2
    assert main(["add", str(folder), "--give-up"]) == 2
    assert main(["add", str(tmp_path / "nowhere"), str(tmp_path / "new")]) == 2


@pytest.mark.usefixtures("inline")
def test_a_job_that_fails_sets_one_task_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy_of_run(tmp_path / "run")
    poisoned = lambda *_, **__: Inline(lambda key: "later unlucky" in key)  # noqa: E731
    monkeypatch.setattr("robusttc.run.fit.make_executor", poisoned)
    monkeypatch.setattr("robusttc.models.name_tasks", lambda names: "+".join(names))
    monkeypatch.setattr("robusttc.multitask.new_tasks.name_tasks", lambda names: "+".join(names))
    result = add_tasks(folder, TaskSet([make_task(6), renamed(7, "later unlucky")]))
    assert set(result.added) == {"task 6"}
    assert any("could not be trained" in doubt for doubt in result.doubts)
    run = Run(folder)
    assert not run.cluster_rows["later unlucky"].learned
    assert "poison" in run.cluster_rows["later unlucky"].why
    assert run.predict("task 6", TEXTS).labels[0] is not None

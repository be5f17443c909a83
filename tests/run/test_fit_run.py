"""A fit as a run: the same result however often it is stopped, and what is set aside stops nobody."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_run

from robusttc.data import Task, TaskSet, load_tasks
from robusttc.errors import DataError, StoreError, UnknownTaskError, UsageError, WorkError
from robusttc.jobs import Stopped
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import ProgressEvent
from robusttc.run import Execution, FitSettings, Run, RunFolder, fit_run, sort_tasks
from robusttc.run.fit import STAGES
from robusttc.run.inputs import identify
from robusttc.run.store import JobStore
from robusttc.run.task_files import task_file
from robusttc.transfer import read_scores


def configuration() -> FitSettings:
    """What `tiny_run.fit_options` say."""
    return FitSettings(
        model=str(tiny_run.tiny_model()), clusters=2, n_folds=2, n_random=0, private=("task 5",)
    )


def work_inline(monkeypatch: pytest.MonkeyPatch, poison: Callable[[str], bool] = lambda _: False) -> None:
    monkeypatch.setattr("robusttc.run.fit.make_executor", lambda *_, **__: tiny_run.Inline(poison))


def tasks() -> TaskSet:
    return load_tasks(tiny_run.good_tasks())


def test_the_run_has_what_people_and_models_need() -> None:
    opened = Run(tiny_run.finished_run())
    folder = opened.version.folder
    assert set(opened.version.files) == {
        "clusters.csv",
        "scores.csv",
        "similarity.safetensors",
        "summary.json",
        *(task_file(task.name) for task in tasks()),
        *(
            f"models/{model}/{file}"
            for model in ("multitask", "fewshot")
            for file in ("manifest.json", "settings.json", "arrays.safetensors")
        ),
    }
    with (folder / "clusters.csv").open(newline="") as stream:
        rows = {row["task"]: row for row in csv.DictReader(stream)}
    assert [rows[f"task {number}"]["cluster"] for number in range(5)] == ["0", "1", "0", "1", "0"]
    assert rows["task 5"] == {
        "task": "task 5",
        "cluster": "",
        "confidence": "",
        "private": "yes",
        "learned": "yes",
        "quarantined": "",
    }
    assert opened.tasks == tasks().keep_private(["task 5"])
    assert opened.rows_of("task 3") == tasks()["task 3"]
    # A private task is neither source nor target.
    assert set(read_scores(folder / "scores.csv").task_names) == {f"task {number}" for number in range(5)}


def test_the_summary_agrees_with_the_models() -> None:
    opened = Run(tiny_run.finished_run())
    summary = opened.summary
    assert summary == {**json.loads(opened.path("summary.json").read_text()), "costs": opened.costs}
    assert summary["tasks"] == {"n": 6, "n_learned": 6, "n_private": 1, "n_rows": 180}
    assert summary["clusters"]["sizes"] == [3, 2]
    assert [cost["stage"] for cost in summary["costs"]] == list(STAGES)
    model = ClusterMultiTask.load(opened.path("models/multitask"))
    for task in tasks():
        rows = task.rows("test")
        right = model.predict(task.name, list(task.texts_at(rows))) == task.labels[rows]
        judged = next(one for one in opened.evaluation.tasks if one.task == task.name)
        assert judged.served is not None
        assert judged.served.mean == right.mean() < 1
    assert set(opened.evaluation.means) == {"own", "shared", "cluster", "served"}


def test_two_workers_and_another_order_of_tasks_give_the_same(tmp_path: Path) -> None:
    shuffled = tasks().subset([f"task {number}" for number in (3, 0, 5, 1, 4, 2)])
    result = fit_run(tmp_path / "run", shuffled, configuration(), execution=Execution(workers=2))
    assert not result.was_finished
    assert tiny_run.digest_results(tmp_path / "run") == tiny_run.digest_results(tiny_run.finished_run())


def test_stopped_in_every_stage_it_ends_with_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_inline(monkeypatch)
    folder = tmp_path / "run"
    for stage in STAGES:
        seen: list[str] = []

        def stop(stage: str = stage, seen: list[str] = seen) -> bool:
            return stage in seen

        def note(event: ProgressEvent, seen: list[str] = seen) -> None:
            seen.append(event.stage)

        with pytest.raises(Stopped):
            fit_run(folder, tasks(), configuration(), progress=note, stop=stop)
        assert seen[-1] == stage
        with pytest.raises(UsageError, match=r"not finished. Run the same fit again") as caught:
            Run(folder)
        assert caught.value.exit_code == 2
    with JobStore(folder / "jobs-0001.sqlite") as store:
        n_before = {cost.stage: cost.units for cost in store.costs()}
    fit_run(folder, tasks(), configuration())
    assert tiny_run.digest_results(folder) == tiny_run.digest_results(tiny_run.finished_run())
    assert not list(folder.glob("jobs-*"))
    # Nothing that was finished was done again.
    done = {cost["stage"]: cost["units"] for cost in Run(folder).costs}
    assert done == {cost["stage"]: cost["units"] for cost in Run(tiny_run.finished_run()).costs}
    assert all(n <= done[stage] for stage, n in n_before.items())


@pytest.mark.parametrize("kind", ["transfer/task 4", "fold 0/cluster"])
def test_what_was_given_up_is_left_out_and_tried_again_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "run"
    work_inline(monkeypatch, lambda key: kind in key)
    result = fit_run(folder, tasks(), configuration())
    assert result.run.is_doubtful
    left_out = result.run.quarantined
    assert left_out
    assert all(kind in unit["key"] and unit["error"] == "poison" for unit in left_out)
    if kind.startswith("transfer"):
        assert "'task 4'" in result.run.summary["doubts"][0]
        table = result.run.path("clusters.csv").read_text().splitlines()
        assert [line[:6] for line in table if line.endswith(",transfer: poison")] == ["task 4"]
    assert len(read_scores(result.run.path("scores.csv"))) == (16 if kind.startswith("transfer") else 20)
    work_inline(monkeypatch)
    again = fit_run(folder, tasks(), configuration())
    assert again.was_finished
    assert again.run.is_doubtful
    n_runs: list[str] = []

    def note_key(key: str) -> bool:
        n_runs.append(key)
        return False

    work_inline(monkeypatch, note_key)
    mended = fit_run(folder, tasks(), configuration(), retry=True)
    assert not mended.run.is_doubtful
    assert not [key for key in n_runs if key.startswith("transfer/") and kind not in key]  # they were kept
    assert RunFolder(folder).numbers() == [1, 2]
    assert not list(folder.glob("jobs-*"))
    assert tiny_run.digest_results(folder) == tiny_run.digest_results(tiny_run.finished_run())


def test_models_are_made_without_what_could_not_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_inline(monkeypatch, lambda key: key.startswith("cluster/") or "whole/shared metric" in key)
    summary = fit_run(tmp_path / "a", tasks(), configuration()).run.summary
    assert [doubt.split(":")[0] for doubt in summary["doubts"]] == [
        "The tasks could not be clustered, so there are no cluster models.",
        "New tasks cannot be learned from few rows",
    ]
    assert summary["clusters"] is summary["fewshot"] is None
    assert set(summary["evaluation"]["means"]) == {"own", "shared", "served"}
    work_inline(monkeypatch, lambda key: key.startswith("transfer/"))
    summary = fit_run(tmp_path / "b", tasks(), configuration()).run.summary
    assert "Transfer could not be measured, so there are no clusters" in " ".join(summary["doubts"])
    assert summary["transfer"] is None
    assert Run(tmp_path / "b").scores is None
    # The figures of models that do not serve are not worth a run.
    work_inline(monkeypatch, lambda key: "/alone/" in key or "/together/" in key)
    paper = configuration().model_copy(update={"strategy": "paper"})
    summary = fit_run(tmp_path / "c", tasks(), paper).run.summary
    assert set(summary["evaluation"]["means"]) == {"cluster", "served"}
    assert "own models of some tasks could not be trained" in summary["doubts"][0]
    assert all(unit["stage"] == "evaluate" for unit in summary["quarantined"])
    # Without the model of all tasks there is nothing that serves.
    work_inline(monkeypatch, lambda key: "multitask/" in key and "/shared/" in key)
    with pytest.raises(WorkError):
        fit_run(tmp_path / "d", tasks(), configuration())


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    folder = tiny_run.copy_of_run(tmp_path / "run")
    before = tiny_run.digest_results(folder)
    for name in ("models/multitask/arrays.safetensors", "models/fewshot/manifest.json", "clusters.csv"):
        path = (folder / "current" / name).resolve()
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    opened = Run(folder)
    for use in (lambda: opened.multitask, lambda: opened.fewshot, lambda: opened.clusters):
        with pytest.raises(StoreError, match="damaged"):
            use()
    assert not fit_run(folder, tasks(), configuration()).was_finished
    assert tiny_run.digest_results(folder) == before
    RunFolder(folder).version(1).check()


def test_the_papers_way_with_a_task_that_cannot_be_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_inline(monkeypatch)
    given = load_tasks(tiny_run.tiny_tasks(), allow_incomplete=True)
    paper = configuration().model_copy(update={"strategy": "paper"})
    result = fit_run(tmp_path / "run", given, paper)
    assert [unit["tasks"] for unit in result.run.quarantined] == [["unfit"]]
    assert "all of label 'greet'" in result.run.quarantined[0]["error"]
    opened = Run(tmp_path / "run")
    assert set(opened.evaluation.means) == {"own", "shared", "cluster", "served"}
    for figures in opened.evaluation.tasks:
        assert figures.own is not None
        if figures.group >= 0:
            assert figures.cluster == figures.served
    with pytest.raises(UsageError, match="set aside"):
        opened.predict("unfit", "hello")


def test_another_run_is_refused_with_what_differs(tmp_path: Path) -> None:
    folder = tiny_run.copy_of_run(tmp_path / "run")
    changed = configuration().model_copy(update={"seed": 1})
    with pytest.raises(UsageError, match="seed: 0 then, 1 now"):
        fit_run(folder, tasks(), changed)
    other = TaskSet([*tasks().subset(["task 0", "task 1", "task 5"]), tiny_run.make_task(7)])
    with pytest.raises(UsageError, match="task 'task 2' is gone") as caught:
        fit_run(folder, other, configuration())
    assert "task 'task 7' is new" in str(caught.value)
    shared = configuration().model_copy(update={"private": ()})
    with pytest.raises(UsageError, match="task 'task 5' has other rows"):
        fit_run(folder, tasks(), shared)


def test_where_files_are_does_not_count(tmp_path: Path) -> None:
    vectors = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt"]
    for path, content in zip(vectors, ["hi 1 2\n", "hi 1 2\n", "hi 1 3\n"], strict=True):
        path.write_text(content)
    found = [identify(TaskSet([]), FitSettings(encoder="cnn", vectors=path)) for path in vectors]
    assert found[0] == found[1] != found[2]


def test_tasks_are_sorted_by_whether_they_can_be_learned() -> None:
    given = TaskSet(
        [
            Task("b", ["hi", "bye"], ["x", "y"]),
            Task("none", ["hi", "bye"], ["x", "y"], ["test", "test"]),
            Task("a", ["hi", "bye"], ["x", "y"]),
            Task("one", ["hi", "bye"], ["x", "y"], ["train", "test"]),
        ]
    )
    found = sort_tasks(given, FitSettings(private=("b",)))
    assert found.tasks.names == ("a", "b")
    assert not found.tasks["b"].may_share
    assert list(found.set_aside) == ["none", "one"]
    with pytest.raises(UsageError, match="fewer tasks than clusters"):
        sort_tasks(given, FitSettings(private=("b",), clusters=2))
    with pytest.raises(UnknownTaskError):
        sort_tasks(given, FitSettings(private=("zzz",)))
    with pytest.raises(DataError, match="no task can be learned; got 1 tasks, the first: task 'one'"):
        sort_tasks(given.subset(["one"]), FitSettings())


def test_a_single_task_has_a_model_and_nothing_to_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_inline(monkeypatch)
    task = tiny_run.make_task(0)
    lonely = TaskSet([task.take(task.rows("train", "valid"))])
    chosen = FitSettings(model=str(tiny_run.tiny_model()))
    summary = fit_run(tmp_path / "run", lonely.keep_private(["task 0"]), chosen).run.summary
    assert summary["clusters"] is None
    assert summary["fewshot"] is None
    assert summary["doubts"][0].startswith("New tasks cannot be learned from few rows")
    opened = Run(tmp_path / "run")
    assert [figures.state for figures in opened.evaluation.tasks] == ["no test rows"]
    assert len(opened.predict("task 0", [])) == 0
    found = opened.predict("task 0", "where is my parcel")
    assert found.out_of_scope is None
    assert found.labels.tolist() == ["track"]
    assert np.isclose(found.probabilities.sum(), 1)
    with pytest.raises(UsageError, match="nothing that learns new tasks"):
        opened.fewshot  # noqa: B018

"""A run beside what is in use today: wins and losses on texts that it has not learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_run import finished_run

from robusttc.cli import main
from robusttc.errors import DataError
from robusttc.run import Run
from robusttc.run.comparison import compare_run

Out = pytest.CaptureFixture[str]
COLUMNS = "task,text,label,predicted"


@pytest.fixture
def run() -> Run:
    return Run(finished_run())


def write(path: Path, rows: list[tuple[str, str, str, str]]) -> Path:
    path.write_text("\n".join([COLUMNS, *(",".join(row) for row in rows)]) + "\n")
    return path


def new_texts(run: Run, task: str, n: int) -> list[tuple[str, str]]:
    """Texts that no task has, each with what the run predicts."""
    texts = [f"where is my parcel number {number}" for number in range(n)]
    return list(zip(texts, run.predict(task, texts).labels.tolist(), strict=True))


def test_wins_and_losses_are_counted_and_judged(run: Run, tmp_path: Path) -> None:
    names = run.rows_of("task 0").label_names
    rows = []
    for place, (text, ours) in enumerate(new_texts(run, "task 0", 40)):
        other = next(name for name in names if name != ours)
        # The run is right on all but one; what is in use on one of four.
        rows.append(("task 0", text, other if place == 0 else ours, ours if place % 4 == 1 else other))
    # On the other task it is wrong throughout.
    rows += [("task 1", text, "no such label", "no such label") for text, _ in new_texts(run, "task 1", 30)]
    found = compare_run(run, write(tmp_path / "today.csv", rows))
    first, second = found.tasks
    assert (first.task, first.n_texts, first.wins, first.losses) == ("task 0", 40, 29, 1)
    assert first.run is not None
    assert first.difference is not None
    assert first.run.mean == 39 / 40
    assert first.difference.mean == pytest.approx(28 / 40)
    assert (first.state, second.state) == ("better", "worse")
    assert second.unknown_labels == ("no such label",)
    assert found.stay == ("task 1",)
    assert "better for 1 of 2 tasks and worse for 1" in found.sentences[0]
    assert any("should not move: 'task 1'" in sentence for sentence in found.sentences)
    frame = found.to_frame()
    assert frame["difference.mean"].tolist() == pytest.approx([0.7, -1.0])


def test_texts_that_the_run_has_learned_do_not_count(run: Run, tmp_path: Path) -> None:
    task = run.rows_of("task 0")
    rows = [
        ("task 0", text.upper(), label, label) for text, label in zip(task.texts, task.labels, strict=True)
    ]
    found = compare_run(run, write(tmp_path / "today.csv", rows)).tasks[0]
    held = run.multitask.evaluation_["task 0"]
    # Those in test count by what was predicted before models were trained on them.
    assert (found.n_texts, found.n_learned) == (len(held.rows), len(task) - len(held.rows))
    assert found.run is not None
    assert found.run.mean == pytest.approx(np.mean(held.right["served"]))
    rows = [row for row in rows if row[1].lower() in set(task.texts_at(task.rows("train")))]
    found_nothing = compare_run(run, write(tmp_path / "today.csv", rows))
    assert found_nothing.tasks[0].state == "nothing to compare"
    assert "No text can be compared" in found_nothing.sentences[0]


def test_tables_that_cannot_be_used(run: Run, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no task of the table is in the run"):
        compare_run(run, write(tmp_path / "today.csv", [("nobody", "text", "x", "y")]))
    (tmp_path / "today.csv").write_text("task,text,label\ntask 0,hi,x\n")
    with pytest.raises(DataError, match=r"no such column[\s\S]*'predicted'"):
        compare_run(run, tmp_path / "today.csv")
    with pytest.raises(DataError, match=r"today.csv:2[\s\S]*a cell is empty"):
        compare_run(run, write(tmp_path / "today.csv", [("task 0", "", "x", "y")]))


def test_frames_too(run: Run) -> None:
    pandas = pytest.importorskip("pandas")
    rows = [("task 0", text, ours, ours) for text, ours in new_texts(run, "task 0", 5)]
    found = run.compare(pandas.DataFrame(rows, columns=COLUMNS.split(",")))
    assert (found.tasks[0].wins, found.tasks[0].losses, found.tasks[0].state) == (0, 0, "no difference")


def test_the_command(run: Run, tmp_path: Path, capsys: Out) -> None:
    rows = [("task 0", text, ours, "other") for text, ours in new_texts(run, "task 0", 12)]
    table = write(tmp_path / "today.csv", [*rows, ("nobody", "text", "x", "y")])
    command = ["compare", str(finished_run()), str(table)]
    assert main(command) == 3  # a task is not in the run
    said = capsys.readouterr().out
    assert "task 0" in said
    assert "+100.0" in said
    assert "Not in the run: 'nobody'" in said
    assert main([*command, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["tasks"][0]["wins"] == 12
    assert document["not_in_run"] == ["nobody"]
    assert main(["compare", str(finished_run()), str(write(table, rows))]) == 0

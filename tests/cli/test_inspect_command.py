"""`robusttc inspect` as a user runs it, also on the large public sets where they are at hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from robusttc.cli import main
from robusttc.data import load_tasks

SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "data"


def write_two_tasks(folder: Path) -> None:
    (folder / "acme.csv").write_text(
        "text,label,split\nhello,greet,train\nhello,Greet,train\nbye,leave,train\nbye,leave,test\n"
    )
    rows = [{"text": text, "label": label} for text, label in [("hello", "a"), ("bye", "b"), ("x", "b")]]
    (folder / "globex.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "README.md").write_text("# not a task\n")


def test_table_totals_and_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_two_tasks(tmp_path)
    assert main(["inspect", str(tmp_path), "--no-cost"]) == 0
    captured = capsys.readouterr()
    out = captured.out
    assert captured.err == "Ignored, not task files: README.md\n"
    assert out.splitlines()[0].split() == [
        "task",
        "rows",
        "labels",
        "train",
        "valid",
        "test",
        "median",
        "words",
    ]
    assert out.splitlines()[1].split() == ["acme", "4", "3", "3", "0", "1", "1"]
    assert "2 tasks, 7 rows" in out
    assert "acme: 'hello' is 'Greet' and 'greet'" in out
    assert "acme: 'Greet', 'greet'" in out
    assert "acme and globex: 2 texts, 100% of the smaller and 67% of the larger" in out
    assert "acme: 1 of 1, for instance 'bye'" in out
    assert "fewer than 3 training rows" in out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_two_tasks(tmp_path)
    assert main(["inspect", str(tmp_path), "--no-cost", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["n_tasks"] == 2
    assert document["totals"]["n_rows"] == 7
    assert document["cost"] is None
    assert document["worth_mending"]["leaks"] == [
        {"task": "acme", "n_leaked": 1, "n_test": 1, "example": "bye"}
    ]
    assert document["ignored_files"] == [str(tmp_path / "README.md")]
    hashes = load_tasks(tmp_path).content_hashes
    assert {task["task"]: task["content_hash"] for task in document["tasks"]} == hashes


def test_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_two_tasks(tmp_path)
    assert main(["inspect", str(tmp_path), "--no-cost", "--limit", "1"]) == 0
    assert "… and 1 more tasks (--limit 0 shows all)" in capsys.readouterr().out


def test_skipped_rows_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("text,label\nhello,greet\n,greet\nhi,greet\nbye,leave\nciao,leave\n")
    assert main(["inspect", str(tmp_path), "--no-cost", "--skip-bad-rows"]) == 0
    captured = capsys.readouterr()
    assert "Left out 1 bad row " in captured.err
    assert "a.csv:3: the text is empty" in captured.err
    assert "Bad rows left out: 1" in captured.out


def test_nothing_to_mend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"text {number},{label},train" for label in "xy" for number in range(label == "y" and 3, 6)]
    (tmp_path / "a.csv").write_text("text,label,split\n" + "\n".join(rows[:3] + rows[6:]) + "\n")
    assert main(["inspect", str(tmp_path), "--no-cost"]) == 0
    assert "Nothing found that is worth mending" in capsys.readouterr().out


def test_columns_split_values_and_delimiter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "all.csv"
    file.write_text("who~utterance~intent~part\na~hello~x~training\na~bye~y~training\na~ciao~y~spare\n")
    columns = ["--text-column", "utterance", "--label-column", "intent", "--split-column", "part"]
    values = ["--split-value", "training=train", "--split-value", "spare", "--task-column", "who"]
    assert main(["inspect", str(file), *columns, *values, "--delimiter", "~", "--no-cost"]) == 0
    out = capsys.readouterr().out
    assert "1 task, 3 rows (2 train, 1 spare)" in out


def test_what_was_recognised_is_said_and_options_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acme.csv"
    file.write_text("utterance;intent\nhello;greet\nbye;leave\n")
    assert main(["inspect", str(file), "--no-cost", "--shares", "1,0,0"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "acme.csv: read the column 'utterance' as the text, 'intent' as the label\n"
    assert "2 rows (2 train)" in captured.out
    file.write_text("text,label,client\nhello,greet,x\nbye,leave,y\n")
    assert main(["inspect", str(file), "--no-cost", "--shares", "1,0,0"]) == 0
    assert "the column 'client' is not used, and --task-column 'client' would" in capsys.readouterr().err
    file.write_text("utterance;intent\nhello;greet\nbye;leave\n;leave\n")
    assert main(["inspect", str(file), "--no-cost", "--text-column", "utterence"]) == 4
    assert "--text-column 'utterance' (did you mean 'utterance'?)" in capsys.readouterr().err
    assert main(["inspect", str(file), "--no-cost"]) == 4
    assert "leave out the 1 bad row with --skip-bad-rows" in capsys.readouterr().err
    assert main(["inspect", str(file), "--shares", "1,0"]) == 2
    assert main(["inspect", str(file), "--shares", "most"]) == 2


def write_measurable_tasks(folder: Path, n_tasks: int = 3) -> None:
    for number in range(n_tasks):
        rows = [f"text {row} of {number},{'xy'[row % 2]},train" for row in range(8)]
        (folder / f"task {number}.csv").write_text("text,label,split\n" + "\n".join(rows) + "\n")


def test_cost_is_the_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_measurable_tasks(tmp_path)
    assert main(["inspect", str(tmp_path), "--encoder", "cnn"]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert re.fullmatch(r"Measuring transfer: all 6 scores, about \d+ s.*, .* [MG]B of memory\.", last)


def test_cost_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_measurable_tasks(tmp_path, 4)
    options = ["--encoder", "cnn", "--pairs", "8", "--workers", "2", "--json"]
    assert main(["inspect", str(tmp_path), *options]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert (cost["n_tasks"], cost["n_scores"], cost["n_texts"], cost["encoder"]) == (4, 8, 32, "cnn")
    parts = ("seconds_frozen", "seconds_models", "seconds_pairs")
    assert cost["seconds"] == pytest.approx(sum(cost[part] for part in parts))
    assert cost["message"].startswith("Measuring transfer: 8 scores")


@pytest.mark.parametrize(("n_tasks", "reason"), [(1, "two tasks"), (2, "task 'globex'")])
def test_no_cost_of_what_cannot_be_measured(
    tmp_path: Path, n_tasks: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_measurable_tasks(tmp_path, 1)
    if n_tasks == 2:
        (tmp_path / "globex.csv").write_text("text,label,split\nhello,a,train\nhi,a,train\n")
    for options in ([], ["--json"]):
        assert main(["inspect", str(tmp_path), "--encoder", "cnn", "--allow-incomplete", *options]) == 0
        out = capsys.readouterr().out
        assert "No estimate of what measuring transfer costs: " in out
        assert reason in out


@pytest.mark.parametrize(
    "options",
    [["--encoder", "cnm"], ["--pairs", "most"], ["--pairs", "3"], ["--vectors", "x.txt"], ["--workers", "0"]],
)
def test_wrong_options_of_the_cost(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_measurable_tasks(tmp_path, 5)
    assert main(["inspect", str(tmp_path), *options]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public data sets are not beside the clone")
@pytest.mark.parametrize(
    ("name", "n_tasks", "n_rows", "options"),
    [
        ("bots175", 175, 90_880, []),
        ("clients1491", 1_491, 199_395, []),
        ("diverse", 264, 108_680, []),
        ("intents_classic", 103, 130_511, []),
        ("amazon69", 69, 108_203, ["--split-value", "train_full", "--allow-incomplete"]),
    ],
)
def test_public_sets(
    name: str, n_tasks: int, n_rows: int, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(SHARED / name), "--no-cost", "--json", *options]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert (totals["n_tasks"], totals["n_rows"]) == (n_tasks, n_rows)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public data sets are not beside the clone")
def test_extra_split_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(SHARED / "amazon69"), "--no-cost"]) == 4
    err = capsys.readouterr().err
    assert "unknown split; got 'train_full'" in err
    assert "--split-value 'train_full'" in err
    assert "--allow-incomplete" in err

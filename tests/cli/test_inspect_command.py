"""`robusttc inspect` as a user runs it, also on the large public sets where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robusttc.cli import main
from robusttc.data.loading import load_tasks

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
    assert main(["inspect", str(tmp_path)]) == 0
    out = capsys.readouterr().out
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
    assert "left alone: README.md" in out
    assert "acme: 'hello' is 'Greet' and 'greet'" in out
    assert "acme: 'Greet', 'greet'" in out
    assert "acme and globex: 2 texts, 100% of the smaller and 67% of the larger" in out
    assert "acme: 1 of 1, for instance 'bye'" in out
    assert "fewer than 3 training rows" in out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_two_tasks(tmp_path)
    assert main(["inspect", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["n_tasks"] == 2
    assert document["totals"]["n_rows"] == 7
    assert document["worth_mending"]["leaks"] == [
        {"task": "acme", "n_leaked": 1, "n_test": 1, "example": "bye"}
    ]
    assert document["ignored_files"] == [str(tmp_path / "README.md")]
    hashes = load_tasks(tmp_path).content_hashes
    assert {task["task"]: task["content_hash"] for task in document["tasks"]} == hashes


def test_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_two_tasks(tmp_path)
    assert main(["inspect", str(tmp_path), "--limit", "1"]) == 0
    assert "… and 1 more tasks (--limit 0 shows all)" in capsys.readouterr().out


def test_skipped_rows_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("text,label\nhello,greet\n,greet\nhi,greet\nbye,leave\nciao,leave\n")
    assert main(["inspect", str(tmp_path), "--skip-bad-rows"]) == 0
    captured = capsys.readouterr()
    assert "Left out 1 bad rows" in captured.err
    assert "a.csv:3: empty text" in captured.err
    assert "Bad rows left out: 1" in captured.out


def test_nothing_to_mend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"text {number},{label},train" for label in "xy" for number in range(label == "y" and 3, 6)]
    (tmp_path / "a.csv").write_text("text,label,split\n" + "\n".join(rows[:3] + rows[6:]) + "\n")
    assert main(["inspect", str(tmp_path)]) == 0
    assert "Nothing found that is worth mending" in capsys.readouterr().out


def test_columns_split_values_and_delimiter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "all.csv"
    file.write_text("who~utterance~intent~part\na~hello~x~training\na~bye~y~training\na~ciao~y~spare\n")
    columns = ["--text-column", "utterance", "--label-column", "intent", "--split-column", "part"]
    values = ["--split-value", "training=train", "--split-value", "spare", "--task-column", "who"]
    assert main(["inspect", str(file), *columns, *values, "--delimiter", "~"]) == 0
    out = capsys.readouterr().out
    assert "1 tasks, 3 rows (2 train, 1 spare)" in out


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
    assert main(["inspect", str(SHARED / name), "--json", *options]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert (totals["n_tasks"], totals["n_rows"]) == (n_tasks, n_rows)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public data sets are not beside the clone")
def test_extra_split_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(SHARED / "amazon69")]) == 4
    err = capsys.readouterr().err
    assert "unknown split; got 'train_full'" in err
    assert "--split-value 'train_full'" in err
    assert "--allow-incomplete" in err

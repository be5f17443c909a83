"""`robusttc evaluate`, `predict` and `adapt` on a finished run."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_run

from robusttc.cli import main
from robusttc.cli.predict import read_texts
from robusttc.data import read_examples
from robusttc.encoders import SentenceEncoder, default_cache_folder
from robusttc.errors import DataError
from robusttc.multitask import ClusterMultiTask
from robusttc.run import Run
from robusttc.run.task_files import adapted_files

TEXTS = ["where is my parcel today", "hello good morning", "give my money back now"]
EXAMPLES = (
    "text,label\nis it going to be warm,weather\nwill there be wind,weather\nsun or rain,weather\n"
    "play a song,music\nturn the volume up,music\nnext track please,music\n"
)
Out = pytest.CaptureFixture[str]


@pytest.fixture
def run(capsys: Out) -> Path:
    folder = tiny_run.finished_run()
    capsys.readouterr()
    return folder


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    (tmp_path / "examples.csv").write_text(EXAMPLES)
    return tmp_path / "examples.csv"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_evaluate_shows_every_task(run: Path, capsys: Out) -> None:
    assert main(["evaluate", str(run)]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0].split() == [
        "task",
        "cluster",
        "rows",
        "own",
        "shared",
        "cluster",
        "served",
        "served",
        "-",
        "own",
    ]
    assert {line[:6] for line in lines[1:7]} == {f"task {number}" for number in range(6)}
    assert "Test accuracy: mean over 5 tasks" in shown
    assert "sharing helps" in shown
    assert main(["evaluate", str(run), "--limit", "2"]) == 0
    assert "… and 4 more tasks (--limit 0 shows all)" in capsys.readouterr().out


def test_evaluate_shows_what_a_task_confuses(run: Path, capsys: Out) -> None:
    assert main(["evaluate", str(run), "--task", "task 0"]) == 0
    shown = capsys.readouterr().out
    figures = next(one for one in Run(run).evaluation.tasks if one.task == "task 0")
    assert shown.startswith("task 0")
    assert "6 test rows" in shown
    assert figures.confusion
    for label, predicted, n, of in figures.confusion:
        assert [label, predicted, str(n), "of", str(of)] in [line.split() for line in shown.splitlines()]
    assert main(["evaluate", str(run), "--task", "task 0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == figures.to_dict()
    assert main(["evaluate", str(run), "--task", "tusk 0"]) == 4


def test_evaluate_for_machines(run: Path, tmp_path: Path, capsys: Out) -> None:
    assert main(["evaluate", str(run), "--json", "--csv", str(tmp_path / "table.csv")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"means", "gains", "macro_f1", "novel", "seen", "sentence", "tasks", "run"}
    rows = rows_of((tmp_path / "table.csv").read_text())
    assert [row["task"] for row in rows] == [task["task"] for task in document["tasks"]]
    for row, task in zip(rows, document["tasks"], strict=True):
        assert float(row["served"]) == pytest.approx(task["served"]["mean"], abs=1e-4)
        assert float(row["own_low"]) == pytest.approx(task["own"]["low"], abs=1e-4)
        assert row["shared"] == "" if task["shared"] is None else float(row["shared"]) <= 1
        assert int(row["n_novel_rows"]) + int(row["n_seen_rows"]) == int(row["n_rows"]) == 6
    assert main(["evaluate", str(run), "--csv", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_predict_gives_a_line_a_text(run: Path, tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    assert main(["predict", str(run), str(tmp_path / "texts.txt"), "--task", "task 0", "--proba"]) == 0
    rows = rows_of(capsys.readouterr().out)
    model = ClusterMultiTask.load(run / "current" / "models" / "multitask")
    expected = model.predict_proba("task 0", TEXTS)
    assert (
        [row["label"] for row in rows]
        == model.predict("task 0", TEXTS).tolist()
        == ["track", "greet", "refund"]
    )
    for row, probabilities, scope in zip(rows, expected, model.scope_score("task 0", TEXTS), strict=True):
        assert float(row["probability"]) == pytest.approx(probabilities.max(), abs=1e-4)
        assert float(row["out_of_scope"]) == pytest.approx(scope, abs=1e-4)
        shares = [float(row[f"p({label})"]) for label in model.label_names("task 0")]
        assert shares == pytest.approx(probabilities.tolist(), abs=1e-4)


def test_predict_reads_a_table_and_may_keep_silent(run: Path, tmp_path: Path, capsys: Out) -> None:
    texts = [*TEXTS, "money parcel morning"]
    with (tmp_path / "texts.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([["id", "said"], *([number, text] for number, text in enumerate(texts))])
    arguments = ["predict", str(run), str(tmp_path / "texts.csv"), "--task", "task 0"]
    arguments += ["--text-column", "said"]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["task"] == "task 0"
    found = document["predictions"]
    assert [one["text"] for one in found] == texts
    assert all(sum(one["probabilities"].values()) == pytest.approx(1) for one in found)
    assert found[-1]["out_of_scope"] > 0.9
    threshold = str(found[-1]["probability"] + 1e-9)
    assert main([*arguments, "--abstain-below", threshold]) == 0
    labels = [row["label"] for row in rows_of(capsys.readouterr().out)]
    assert labels == ["track", "greet", "refund", ""]
    assert main([*arguments, "--abstain-below", "2"]) == 2
    assert "from 0 to 1" in capsys.readouterr().err


def test_predict_reads_standard_input(run: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\ufeffhello good morning\r\n".encode())))
    assert main(["predict", str(run), "--task", "task 0"]) == 0
    assert [row["label"] for row in rows_of(capsys.readouterr().out)] == ["greet"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"hello\n\nbye\n", "a.txt:2: the text is empty"),
        ("a.txt", b"\xe9t\xe9\n", "not UTF-8"),
        ("a.csv", b"said\nhello\n", "no such column; got 'said'; expected 'text'"),
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b'text\n"hello\n', "a.csv:2: a quote that is opened in this row is never closed"),
        ("a.tsv", b"id\ttext\n1\n", "a.tsv:2: ragged row"),
        ("a.csv", b"text\n\xe9t\xe9\n", "not UTF-8"),
        ("a.csv", b"text;id\nhello;1\n;2\n", "a.csv:3: the text is empty"),
        ("a.jsonl", b'{"text": "hello"}\n{"id": 3}\n', "a.jsonl:2: the text is empty; got no text"),
        (None, b"", "the texts cannot be read; got No such file"),
    ],
)
def test_texts_that_cannot_be_read(tmp_path: Path, name: str | None, content: bytes, words: str) -> None:
    path = tmp_path / (name or "missing.txt")
    if name is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_texts(path))
    assert words in str(caught.value)


def test_an_unknown_task_is_told_the_nearest_one(run: Path, capsys: Out) -> None:
    assert main(["predict", str(run), "--task", "tusk 3"]) == 4
    assert "no task has this name; got 'tusk 3'" in (err := capsys.readouterr().err)
    assert "Did you mean 'task 3'?" in err


def test_a_new_task_is_added_and_answers(run: Path, tmp_path: Path, examples: Path, capsys: Out) -> None:
    own = tiny_run.copy_of_run(tmp_path / "run")
    arguments = ["adapt", str(own), str(examples), "--name", "../new/task"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("../new/task: learned from 6 examples of 2 labels.")
    assert "Each example left out in its turn" in shown
    assert "Most like it: task " in shown
    assert f"Next: robusttc predict {own} --task ../new/task TEXTS.txt" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["examples.csv", "run"]
    (tmp_path / "texts.txt").write_text("will there be sun or wind\nturn the song up\n")
    assert main(["predict", str(own), str(tmp_path / "texts.txt"), "--task", "../new/task"]) == 0
    assert [row["label"] for row in rows_of(capsys.readouterr().out)] == ["weather", "music"]
    # What was fitted is as it was.
    fitted = tiny_run.digest_results(run)
    assert {name: tiny_run.digest_results(own)[name] for name in fitted} == fitted
    assert main(["evaluate", str(own)]) == 0
    capsys.readouterr()
    assert main(arguments) == 2
    assert "--replace" in capsys.readouterr().err
    assert main([*arguments, "--replace", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["n_examples"] == 6
    assert document["label_names"] == ["music", "weather"]
    assert document["nearest_tasks"][0]["task"].startswith("task ")
    opened = Run(own)
    assert opened.adapted_names == ("../new/task",)
    assert [(change.kind, change.tasks) for change in opened.history] == [
        ("fit", ()),
        *[("adapt", ("../new/task",))] * 2,
    ]
    # Its layers are those of the run.
    assert sum(opened.version.files[file][1] for file in adapted_files("../new/task")) < 100_000
    assert main(["predict", str(own), "--task", "./new/tusk"]) == 4
    assert "Did you mean '../new/task'?" in capsys.readouterr().err


def count_vectors() -> int:
    """How many vectors the user's cache has."""
    connection = sqlite3.connect(default_cache_folder() / "store" / "vectors.sqlite")
    try:
        return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])
    finally:
        connection.close()


def test_texts_that_predict_is_asked_about_are_kept_nowhere(
    tmp_path: Path, examples: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_run.copy_of_run(tmp_path / "run")
    assert main(["adapt", str(folder), str(examples), "--name", "late"]) == 0
    encoded: list[str] = []

    original = SentenceEncoder.encode

    def encode(self: SentenceEncoder, texts: Sequence[str]) -> Any:
        encoded.extend(texts)
        return original(self, texts)

    monkeypatch.setattr(SentenceEncoder, "encode", encode)
    known = next(iter(tiny_run.make_task(0).texts))
    n_before = count_vectors()
    files = sorted(folder.rglob("*"))
    (tmp_path / "texts.txt").write_text(f"what nobody else asked\n{known}\n")
    # Of the fit, private, and adapted.
    for n_asked, task in enumerate(("task 0", "task 5", "late"), start=1):
        assert main(["predict", str(folder), "--task", task, str(tmp_path / "texts.txt")]) == 0
        assert encoded == ["what nobody else asked"] * n_asked  # once a command, and not what is in the cache
    opened = Run(folder)
    for task in ("task 0", "task 5", "late"):
        opened.predict(task, ["what nobody else asked"]).nearest  # noqa: B018
    assert count_vectors() == n_before
    assert sorted(folder.rglob("*")) == files
    content = [path.read_bytes() for path in files if path.is_file()]
    assert not any(b"what nobody else asked" in one for one in content)
    capsys.readouterr()


def test_a_prediction_says_all_of_a_text(run: Path) -> None:
    opened = Run(run)
    found = opened.predict("task 0", [*TEXTS, "zebra"], abstain_below=0.4)
    assert found.labels.tolist()[:3] == ["track", "greet", "refund"]
    assert found.probabilities.shape == (4, 3)
    assert found.out_of_scope is not None
    assert found.in_scope.tolist() == [score <= 0.5 for score in found.out_of_scope.tolist()]
    rows = opened.rows_of("task 0")
    train = {*rows.texts_at(rows.rows("train"))}
    for text, near in zip(found.texts, found.nearest, strict=True):
        assert near.text in train
        assert -1 <= near.similarity <= 1.0001
        assert text != "where is my parcel today" or near.text.startswith("where is my parcel")
    exact = opened.predict("task 0", rows.texts_at(rows.rows("train")[:1]))
    assert exact.nearest[0].text == exact.texts[0]
    assert exact.nearest[0].similarity == pytest.approx(1, abs=1e-4)
    frame = found.to_frame()
    assert list(frame.columns)[:4] == ["text", "label", "probability", "out_of_scope"]
    assert frame.shape == (4, 7)
    assert len(opened.evaluate().to_frame()) == 6
    assert "2 clusters" in opened._repr_html_()


def words_in_a_shell(line: str, folder: Path) -> list[str]:
    """What a shell gives to robusttc for a line that somebody pastes."""
    program = f"robusttc() {{ printf '%s\\0' \"$@\"; }}; {line}"
    done = subprocess.run(["sh", "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("name", ["two words", "it's `touch x`", "-dash", "$(touch x)", 'a "b" & touch x'])
def test_commands_can_be_pasted(name: str, tmp_path: Path, examples: Path, capsys: Out) -> None:
    folder = tiny_run.copy_of_run(tmp_path / f"run {name}")
    (tmp_path / "empty").mkdir()
    capsys.readouterr()

    def run(*words: str) -> list[list[str]]:
        assert main([*words]) == 0
        lines = [line.removeprefix("Next:").strip() for line in capsys.readouterr().out.splitlines()]
        commands = [line.partition("   (the page")[0] for line in lines if line.startswith("robusttc ")]
        return [words_in_a_shell(command, tmp_path / "empty") for command in commands]

    texts = ["predict", str(folder), "--task", "NAME", "TEXTS.txt"]
    assert run("adapt", str(folder), str(examples), f"--name={name}") == [
        ["predict", str(folder), *([f"--task={name}"] if name[0] == "-" else ["--task", name]), "TEXTS.txt"]
    ]
    assert run(*tiny_run.fit_options(), "--out", str(folder)) == [
        ["evaluate", str(folder)],
        texts,
        ["adapt", str(folder), "EXAMPLES.csv", "--name", "NAME"],
    ]
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_damaged_adapted_task_is_told(tmp_path: Path, examples: Path, capsys: Out) -> None:
    own = tiny_run.copy_of_run(tmp_path / "run")
    assert main(["adapt", str(own), str(examples), "--name", "new"]) == 0
    file = Run(own).path(adapted_files("new")[0]).resolve()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    capsys.readouterr()
    assert main(["predict", str(own), "--task", "new"]) == 5
    assert adapted_files("new")[0] in capsys.readouterr().err
    assert main(["evaluate", str(own)]) == 0
    assert main(["adapt", str(own), str(examples), "--name", "new", "--replace"]) == 0
    assert Run(own).predict("new", "will there be wind").labels.tolist() == ["weather"]


@pytest.mark.parametrize(
    ("content", "name", "code", "words"),
    [
        (EXAMPLES, "task 1", 2, "a task of the run has this name"),
        (EXAMPLES, "a\nb", 2, "the name contains a control character"),
        ("text,label\nhello,greet\nhi,greet\n", "new", 4, "all of label 'greet'"),
        ("text,label\nhello,\n", "new", 4, "examples.csv:2"),
        ("text,label,task\nhello,x,a\nhi,y,b\n", "new", 4, "several tasks; got 'a', 'b'"),
        ("text\nhello\n", "new", 4, "'label'"),
        (None, "new", 4, "no such file"),
    ],
)
def test_examples_that_cannot_be_used(
    run: Path, tmp_path: Path, capsys: Out, content: str | None, name: str, code: int, words: str
) -> None:
    path = tmp_path / "examples.csv"
    if content is not None:
        path.write_text(content)
    assert main(["adapt", str(run), str(path), "--name", name]) == code
    assert words in capsys.readouterr().err
    assert Run(run).adapted_names == ()


def test_contradicting_examples_are_doubtful(tmp_path: Path, capsys: Out) -> None:
    own = tiny_run.copy_of_run(tmp_path / "run")
    (tmp_path / "examples.csv").write_text(EXAMPLES + "play a song,weather\n")
    assert main(["adapt", str(own), str(tmp_path / "examples.csv"), "--name", "new"]) == 3
    assert "Doubtful: task 'new': the text 'play a song' stands under two labels" in capsys.readouterr().out


def test_examples_are_for_training_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(EXAMPLES)
    assert len(read_examples(tmp_path / "a.csv", "new").tasks["new"].rows("train")) == 6
    (tmp_path / "b.csv").write_text("text,label,split\nhi,x,train\nbye,y,train\nho,x,test\n")
    assert len(read_examples(tmp_path / "b.csv", "new").tasks["new"].rows("train")) == 2
    with pytest.raises(DataError, match="a folder instead of a file"):
        read_examples(tmp_path, "new")


def test_what_is_no_finished_run(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "empty").mkdir()
    for command in (["evaluate"], ["predict", "--task", "x"], ["adapt", "x.csv", "--name", "x"]):
        for place, words in (
            ("nowhere", "there is no such folder"),
            ("empty", "there is no run in this folder"),
        ):
            assert main([command[0], str(tmp_path / place), *command[1:]]) == 2
            err = capsys.readouterr().err
            assert words in err
            assert "Traceback" not in err


def test_a_run_of_another_version_is_refused(tmp_path: Path, capsys: Out) -> None:
    own = tiny_run.copy_of_run(tmp_path / "run")
    path = own / "current" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 99}))
    assert main(["evaluate", str(own)]) == 5
    assert "written by another version of robusttc; got form 99" in capsys.readouterr().err

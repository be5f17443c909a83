"""`robusttc measure` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from robusttc.cli import main
from robusttc.data import load_tasks
from robusttc.transfer import measure_transfer, read_scores

WORDS = {"x": ["where is my parcel", "track it", "is it late"], "y": ["refund me", "money back", "I paid"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    for number in range(4):
        rows = [f"{text} {number},{label},train" for label, texts in WORDS.items() for text in texts]
        (tasks / f"task {number}.csv").write_text("text,label,split\n" + "\n".join(rows) + "\n")
    return tasks


def run(folder: Path, *options: str) -> int:
    return main(["measure", str(folder), "--encoder", "cnn", *options])


def test_scores_are_measured_written_and_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder.parent / "scores.csv"
    assert run(folder, "--out", str(out), "--seed", "3") == 0
    captured = capsys.readouterr()
    assert "12 scores between 4 tasks" in captured.out
    for word in ("Halves: ", "Directions: ", "Donors: ", "Next: robusttc cluster "):
        assert word in captured.out
    assert captured.err.startswith("Measuring transfer: all 12 scores, about ")
    assert "transfer: 0 of 4 tasks" in captured.err
    assert read_scores(out) == measure_transfer(load_tasks(folder), encoder="cnn", random_state=3)
    assert sorted(file.name for file in folder.parent.iterdir()) == ["scores.csv", "tasks"]


def test_a_file_is_not_written_over_unless_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder.parent / "scores.csv"
    out.write_text("precious")
    assert run(folder, "--out", str(out)) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert run(folder, "--out", str(out), "--force") == 0
    assert len(read_scores(out)) == 12


def test_scores_are_extended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, whole = folder.parent / "scores.csv", folder.parent / "whole.csv"
    assert run(folder, "--out", str(out), "--pairs", "8") == 0
    few = read_scores(out)
    capsys.readouterr()
    assert run(folder, "--out", str(out), "--extend", str(out), "--pairs", "all") == 0
    captured = capsys.readouterr()
    assert "12 scores between 4 tasks" in captured.out
    assert "4 of them new" in captured.out
    assert "Measuring transfer: 4 scores" in captured.err
    assert run(folder, "--out", str(whole), "--pairs", "all") == 0
    assert read_scores(out) == read_scores(whole)
    assert len(few) == 8
    capsys.readouterr()
    assert run(folder, "--out", str(out), "--extend", str(out), "--pairs", "all") == 0
    assert "all scores are there already" in capsys.readouterr().err


def test_overlap_needs_no_encoder(folder: Path) -> None:
    out = folder.parent / "scores.csv"
    assert run(folder, "--out", str(out), "--kind", "overlap") == 0
    assert read_scores(out).kind == "overlap"


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--out", "no/such/folder/s.csv"],
        ["--out", "s.csv", "--encoder", "cnm"],
        ["--out", "s.csv", "--pairs", "many"],
        ["--out", "s.csv", "--pairs", "1000"],
        ["--out", "s.csv", "--kind", "acc"],
        ["--out", "s.csv", "--workers", "0"],
        ["--out", "s.csv", "--model", "minilm"],
        ["--out", "s.csv", "--encoder", "sentence", "--vectors", "glove.txt"],
        ["--out", "s.csv", "--seed", "-1"],
    ],
)
def test_wrong_usage(
    folder: Path, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    assert run(folder, *options) == 2
    captured = capsys.readouterr()
    assert "Error" in captured.err
    assert "Traceback" not in captured.err
    assert not Path("s.csv").exists()


def test_bad_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder.parent / "scores.csv"
    assert run(folder / "task 0.csv", "--out", str(out)) == 4
    assert "two tasks" in capsys.readouterr().err
    earlier = folder.parent / "earlier.csv"
    earlier.write_text("source,target,score,kind\nother,task 1,0.5,log_likelihood\n")
    assert run(folder, "--out", str(out), "--extend", str(earlier)) == 4
    assert "'other'" in capsys.readouterr().err
    assert not out.exists()


def test_stopping(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("robusttc.transfer.measure.measure_transfer", stop)
    assert run(folder, "--out", str(folder.parent / "scores.csv")) == 130
    err = capsys.readouterr().err
    assert "no scores were written" in err
    assert "Traceback" not in err
    assert not (folder.parent / "scores.csv").exists()


@pytest.mark.parametrize("command", [["measure", "--help"], ["inspect", "{folder}", "--no-cost"]])
def test_no_torch_where_nothing_is_measured(folder: Path, command: list[str]) -> None:
    arguments = [part.format(folder=folder) for part in command]
    code = (
        "import sys, contextlib, io\n"
        "from robusttc.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): assert main({arguments}) == 0\n"
        "print([name for name in ('torch', 'numba', 'sentence_transformers') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

"""`robusttc report` on real runs: a page, its facts as JSON, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from robusttc.cli import main
from robusttc.data import Task, TaskSet
from robusttc.errors import UsageError
from robusttc.progress import ProgressEvent
from robusttc.report import make_document, write_csv, write_report
from robusttc.run import FitSettings, fit_run, open_run

# The little run of the tests of runs, which is made once a process.
sys.path.append(str(Path(__file__).parents[1] / "run"))
import tiny_run
from test_document import check_document

Out = pytest.CaptureFixture[str]
NASTY = '</script> "it\'s" $(x) 😀'


@pytest.fixture
def run(tmp_path: Path, capsys: Out) -> Path:
    folder = tiny_run.copy_of_run(tmp_path / "run")
    (folder / "report.html").unlink()  # which fit has written
    capsys.readouterr()
    return folder


def without_time(values: dict[str, object]) -> dict[str, object]:
    return {
        name: value for name, value in values.items() if name not in ("made", "matrices", "headline", "run")
    }


def test_the_page_is_written_and_told(run: Path, capsys: Out) -> None:
    assert main(["report", str(run)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Sharing does not clearly pay here: ")
    assert "6 tasks with 180 rows fall into 2 clusters; the largest has 3 tasks. 1 task is priv" in shown.out
    page = run / "report.html"
    assert f"Report: {page} (" in shown.out
    assert "kB, " in shown.out
    assert "Next: See why task" in shown.out
    assert shown.err == ""
    content = page.read_text(encoding="utf-8")
    assert content.lower().startswith("<!doctype html>")
    assert "fall into 2 clusters" in content
    assert page.stat().st_mode & 0o077 == 0
    # The run is as whole as it was, and the page can be made again.
    check_document(make_document(open_run(run)))
    written = write_report(open_run(run))
    assert (written.path, written.n_bytes) == (page, page.stat().st_size)
    assert written.seconds > 0


def test_the_same_as_json(run: Path, capsys: Out) -> None:
    assert main(["report", str(run), "--json"]) == 0
    shown = capsys.readouterr()
    values = json.loads(shown.out)
    assert values["matrices"] == {"scores": "scores.csv", "similarity": "similarity.safetensors"}
    assert not (run / "report.html").exists()
    document = make_document(open_run(run))
    assert without_time(values) == without_time(document.values)
    tasks = {task["name"]: task for task in values["tasks"]}
    assert tasks["task 5"]["private"] is True
    assert tasks["task 5"]["cluster"] is None
    assert tasks["task 0"]["nearest"][0][0] in ("task 2", "task 4")
    assert [cluster["size"] for cluster in values["clusters"]] == [3, 2]
    words = {word for cluster in values["clusters"] for word, _ in cluster["words"]}
    assert {"parcel", "sky"} <= words
    assert all(cluster["name"] for cluster in values["clusters"])
    assert values["trust"]["calibration"]["n_tasks"] == 5
    assert values["versions"]["robusttc"] == values["robusttc"]
    assert document.matrices is not None
    assert set(document.matrices.names) == {f"task {number}" for number in range(5)}


def test_the_table_of_tasks_as_csv_and_a_title(run: Path, capsys: Out) -> None:
    assert main(["report", str(run), "--csv"]) == 0
    assert capsys.readouterr().out == write_csv(make_document(open_run(run)))
    assert not (run / "report.html").exists()
    assert main(["report", str(run), "--csv", "--json"]) == 2
    assert "not both" in capsys.readouterr().err
    assert main(["report", str(run), "--title", "Our <bots>"]) == 0
    assert "<title>Our &lt;bots&gt; · robusttc report</title>" in (run / "report.html").read_text(
        encoding="utf-8"
    )


def test_the_page_can_go_elsewhere(
    run: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_nothing(uri: str) -> bool:
        opened.append(uri)
        return False

    monkeypatch.setattr(webbrowser, "open", open_nothing)
    page = tmp_path / "pages" / "my page.html"
    assert main(["report", str(run), "--out", str(page), "--open", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["format"] == "robusttc report"
    assert opened == [page.as_uri()]
    assert f"Open it yourself: {page.as_uri()}" in shown.err
    assert page.exists()
    assert not (run / "report.html").exists()
    for place in (page / "below.html", tmp_path):
        assert main(["report", str(run), "--out", str(place)]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith(f"Error: '{tmp_path}")
        assert shown.out == ""


def test_no_torch_is_needed(run: Path) -> None:
    code = (
        "import sys; from robusttc.report import write_report; from robusttc.run import open_run; "
        "write_report(open_run(sys.argv[1])); "
        "print([name for name in ('torch', 'sentence_transformers', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_cannot_be_reported(run: Path, tmp_path: Path, capsys: Out) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    file = (run / "current" / "similarity.safetensors").resolve()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert main(["report", str(run)]) == 5
    assert "similarity.safetensors" in capsys.readouterr().err
    assert not (run / "report.html").exists()
    with pytest.raises(UsageError):
        write_report(open_run(tiny_run.finished_run()), path=tmp_path)


def test_private_tasks_with_any_name_and_one_that_cannot_be_learned(tmp_path: Path, capsys: Out) -> None:
    first = tiny_run.make_task(0)
    tasks = TaskSet(
        [
            Task(NASTY, first.texts, first.labels.tolist(), first.splits.tolist()),
            Task("no test rows", first.texts, first.labels.tolist()),
            Task("unfit", ["hello"], ["greet"]),
        ]
    )
    folder = tmp_path / "run"
    fit_run(folder, tasks, FitSettings(encoder="cnn", private=(NASTY, "no test rows")))
    events: list[ProgressEvent] = []
    document = make_document(open_run(folder), progress=events.append)
    check_document(document)
    assert document.matrices is None
    assert [task["name"] for task in document.values["tasks"]] == [NASTY, "no test rows", "unfit"]
    assert (events[0].done, events[-1].done, events[-1].total) == (0, 2, 2)
    assert main(["report", str(folder)]) == 3
    assert "1 task could not be learned: unfit." not in capsys.readouterr().err
    content = (folder / "report.html").read_text(encoding="utf-8")
    assert NASTY not in content
    assert main(["report", str(folder), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["matrices"] is None

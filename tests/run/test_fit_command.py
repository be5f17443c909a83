"""`robusttc fit` as a user runs it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_run
import typer
from rich.console import Console

from robusttc.cli import main
from robusttc.run import Run
from robusttc.run.folder import FolderWriter

PROGRAM = [sys.executable, "-c", "import sys; from robusttc.cli import main; sys.exit(main())"]


def fit(out: Path, *options: str) -> int:
    return main([*tiny_run.fit_options(), "--out", str(out), *options])


def test_a_finished_run_says_so_and_shows_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    out = tiny_run.finished_run()
    capsys.readouterr()
    assert fit(out) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"The run in {out} is finished: there is nothing to do.")
    for words in (
        "6 tasks, 1 of them private, 180 rows.",
        "2 clusters of 3, 2 tasks (given",
        "Multi-task: Too few tasks to tell whether clusters help",
        "Test accuracy: mean over 5 tasks",
        "served: what predicts",
        "On test rows sharing helps ",
        "Took encode ",
        f"Next: robusttc evaluate {out}",
    ):
        assert words in captured.out
    assert captured.err == f"Going on with the run in {out}.\n"
    assert fit(out, "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert fit(out, "--json") == 0
    assert json.loads(capsys.readouterr().out) == Run(out).summary


@pytest.mark.parametrize("umask", [0, 0o022])
def test_only_its_owner_may_read_a_run(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robusttc.run.fit.make_executor", lambda *_, **__: tiny_run.Inline())
    out = tmp_path / "run"
    (tmp_path / "examples.csv").write_text("text,label\na,x\nb,x\nc,y\nd,y\n")
    before = os.umask(umask)
    try:
        out.mkdir()  # by the user: all others may read it
        assert fit(out, "--quiet") == 0
        assert main(["adapt", str(out), str(tmp_path / "examples.csv"), "--name", "late"]) == 0
        assert main(["report", str(out)]) == 0
    finally:
        os.umask(before)
    for part in ("current/scores.csv", "current/models/multitask/settings.json", "report.html", "objects"):
        assert (out / part).exists()
    for path in (out, *out.rglob("*")):
        if not path.is_symlink():
            mode = 0o700 if path.is_dir() else 0o600
            assert oct(path.stat().st_mode & 0o777) == oct(mode), path


def test_a_fit_ends_with_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tiny_run.copy_of_run(tmp_path / "run")
    page = out / "report.html"
    before = page.read_bytes()
    command = [*tiny_run.fit_options(), "--out", str(out)]
    assert main(command) == 0
    assert capsys.readouterr().out.endswith(f"\nReport, to open in a browser: {page}\n")
    assert page.read_bytes() == before  # that of a finished run is kept
    page.unlink()
    assert main([*command, "--quiet"]) == 0
    assert b"fall into 2 clusters" in page.read_bytes()
    assert capsys.readouterr().out == ""


def test_a_stopped_run_says_how_to_go_on_and_a_killed_one_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = [*PROGRAM, *tiny_run.fit_options(), "--out", str(out)]
    environment = {**os.environ, "ROBUSTTC_FIT_WORKERS": "2"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("multitask"):
                break
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopping: what is finished is kept" in rest
    assert rest.endswith(
        f"Error: {out}: stopped. All finished work is kept: run the same command again to go on\n"
    )
    assert "Traceback" not in rest
    # The next life is killed.
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("fewshot"):
                break
        process.kill()
    assert main(["evaluate", str(out)]) == 2
    assert "Run the same fit again to finish it" in capsys.readouterr().err
    assert fit(out, "--quiet") == 0
    assert tiny_run.digest_results(out) == tiny_run.digest_results(tiny_run.finished_run())


def test_the_cost_is_told_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    out = tmp_path / "run"
    arguments = [*tiny_run.fit_options(), "--out", str(out), "--seed", "4", "--private", "task 4"]
    arguments.remove("--no-cost")
    with pytest.MonkeyPatch.context() as patch:

        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("robusttc.run.fit.fit_run", stop)
        assert main(arguments) == 130
    told = capsys.readouterr().err
    assert told.startswith("Measuring transfer: all 12 scores, about ")
    assert "run the same command again" in told
    assert not out.exists()


@pytest.mark.parametrize("answer", ["no", "nothing", "yes"])
def test_a_person_is_asked_before_hours_of_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    def confirm(question: str, *, err: bool) -> bool:
        assert (question, err) == ("Go on?", True)
        if answer == "nothing":
            raise typer.Abort
        return answer == "yes"

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, highlight=False)
    monkeypatch.setattr("robusttc.cli.fit.error_console", lambda: console)
    monkeypatch.setattr("robusttc.cli.fit.LONG_SECONDS", 0.0)
    monkeypatch.setattr("typer.confirm", confirm)
    monkeypatch.setattr("robusttc.run.fit.fit_run", stop)
    arguments = [*tiny_run.fit_options(), "--out", str(tmp_path / "run"), "--pairs", "6"]
    arguments.remove("--no-cost")
    assert main(arguments) == (130 if answer == "yes" else 0)
    assert shown.getvalue().startswith("Measuring transfer: 6 scores, about ")
    assert not (tmp_path / "run").exists()
    # With one task that may share there is nothing to measure.
    private = [part for number in range(5) for part in ("--private", f"task {number}")]
    arguments = [*arguments[:-2], "--clusters", "1"]
    assert main([*arguments, *private[2:]]) == 130
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--clusters", "none"], "option --clusters: clusters cannot be used; got 'none'"),
        (["--clusters", "6"], "fewer tasks than clusters"),
        (
            ["--pairs", "4"],
            "pairs cannot be used; got 4; expected 'all' or 'auto' or an integer from 5 to 20",
        ),
        (["--encoder", "cnm"], "option --encoder: encoder cannot be used"),
        (["--workers", "0"], "option --workers: workers cannot be used"),
        (["--executor", "spark"], "expected local or ray"),
        (["--seed", "-1"], "option --seed"),
        (["--config", "no.yaml"], "no.yaml: the settings file cannot be read"),
        (
            ["--encoder", "cnn", "--model", "x"],
            "a sentence model is for the encoders sentence, static",
        ),
        (["--split-value", "="], "option --split-value: split_values cannot be used"),
        (["--delimiter", "ab"], "delimiter cannot be used"),
    ],
)
def test_wrong_usage(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(tmp_path / "run", *options) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_wrong_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "run")]
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "acme.csv").write_text("text,label\nhello,greet\n,greet\n")
    assert main(["fit", str(bad), *out]) == 4
    assert "acme.csv:3" in capsys.readouterr().err
    assert main(["fit", str(tmp_path / "nowhere"), *out]) == 4
    capsys.readouterr()
    (bad / "acme.csv").write_text("text,label\nhello,greet\nhi,greet\n")
    assert main(["fit", str(bad), *out, "--no-cost"]) == 4
    assert "no task can be learned" in capsys.readouterr().err
    assert fit(tmp_path / "run", "--private", "task 9") == 4
    assert "no task has this name; got 'task 9'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious.txt").write_text("precious")
    assert fit(tmp_path) == 2
    assert "the folder holds something else; got 'precious.txt'" in capsys.readouterr().err
    assert fit(tmp_path / "precious.txt") == 2
    assert "a file where the run's folder should be" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_another_configuration_and_another_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tiny_run.copy_of_run(tmp_path / "run")
    assert fit(out, "--n-random", "1") == 2
    assert "n_random: 0 then, 1 now" in capsys.readouterr().err
    with FolderWriter(out):
        assert fit(out) == 5
    assert f"another process works on this run; got process {os.getpid()} on" in capsys.readouterr().err


def test_settings_come_from_file_and_environment_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_run.tiny_model()
    (tmp_path / "fit.yaml").write_text(f"model: {model}\nclusters: 2\nn_folds: 9\nprivate: [task 5]\n")
    monkeypatch.setenv("ROBUSTTC_FIT_N_RANDOM", "0")
    arguments = ["fit", str(tiny_run.good_tasks()), "--out", str(tiny_run.finished_run())]
    arguments += ["--config", str(tmp_path / "fit.yaml"), "--n-folds", "2"]
    assert main(arguments) == 0
    assert "there is nothing to do" in capsys.readouterr().out

"""How the command line fails and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from robusttc import __version__
from robusttc.cli import main
from robusttc.cli.app import take_debug
from robusttc.cli.console import without_controls
from robusttc.errors import StoreError

GOOD = "text,label\nhello,greet\nhi,greet\nbye,leave\nciao,leave\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"robusttc {__version__}\n"


def test_the_shell_completes_commands_and_options() -> None:
    program = [sys.executable, "-c", "from robusttc.cli import main; main()"]
    for words, expected in (("robusttc ex", {"explain"}), ("robusttc fit --n-f", {"--n-folds"})):
        asked = {
            "_ROBUSTTC_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": f"{words.count(' ')}",
        }
        done = subprocess.run(
            program, env={**os.environ, **asked}, capture_output=True, text=True, check=True
        )
        assert set(done.stdout.split()) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspct", "x"],
        ["inspect"],
        ["inspect", "x", "--limit", "-1"],
        ["inspect", "x", "--nonsense"],
        ["inspect", "x", "--seed", "-1"],
        ["inspect", "x", "--delimiter", "ab"],
        ["inspect", "x", "--encoding", "klingon"],
        ["inspect", "x", "--split-value", "=train"],
        ["inspect", "x", "--split-value", "a=b"],
        ["inspect", "x", "--text-column", "a", "--label-column", "a"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert "Error" in captured.err
    assert "Traceback" not in captured.err
    assert not captured.out


def test_no_arguments_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert "inspect" in captured.out + captured.err


def test_bad_data_is_4_and_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("text,label\nhello,greet\n,leave\n")
    assert main(["inspect", str(tmp_path)]) == 4
    captured = capsys.readouterr()
    assert "a.csv:3: the text is empty" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_shows_the_traceback(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["inspect", "no such file"]
    arguments.insert(place, "--debug")
    assert main(arguments) == 4
    captured = capsys.readouterr()
    assert "Traceback" in captured.err
    assert "Error: 'no such file': no such file or folder" in captured.err


def test_debug_behind_dashes_is_an_argument() -> None:
    assert take_debug(["a", "--debug", "--", "--debug"]) == (["a", "--", "--debug"], True)
    assert take_debug(["a", "--", "--debug"]) == (["a", "--", "--debug"], False)


@pytest.mark.parametrize(
    ("error", "code", "phrase"),
    [
        (StoreError("the store is damaged"), 5, "the store is damaged"),
        (KeyboardInterrupt(), 130, "stopped"),
        (ZeroDivisionError("oops"), 1, "internal error: ZeroDivisionError: oops"),
    ],
)
def test_other_ends(
    error: BaseException,
    code: int,
    phrase: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("robusttc.cli.inspect.read_aloud", fail)
    assert main(["inspect", "x"]) == code
    captured = capsys.readouterr()
    assert phrase in captured.err
    assert "Traceback" not in captured.err


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"task {number}.csv").write_text(GOOD)
    program = Path(sys.executable).parent / "robusttc"
    result = subprocess.run(
        [
            "bash",
            "-c",
            f"'{program}' inspect '{tmp_path}' --no-cost --json | head -n 1; exit ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0
    assert result.stderr == ""


def test_control_characters_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert without_controls("a\x1b[31mb\nc") == "a\\x1b[31mb\nc"
    (tmp_path / "evil\x1b[31m.csv").write_text("text,label\n,x\n")
    assert main(["inspect", str(tmp_path)]) == 4
    assert "\x1b" not in capsys.readouterr().err

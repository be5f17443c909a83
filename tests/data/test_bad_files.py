"""Every file of `tests/bad_files` is refused with its place and the reason, as the index beside them says."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from robusttc.cli import main
from robusttc.data import ReadOptions, load_tasks, read_tasks
from robusttc.errors import DataError, ExitCode, Problem, TaskFilesError

BAD_FILES = Path(__file__).parent.parent / "bad_files"
INDEX: list[dict[str, Any]] = json.loads((BAD_FILES / "index.json").read_text(encoding="utf-8"))
MAX_SECONDS = 5


def place_of(entry: dict[str, Any]) -> str:
    """Give the end of the place that the message must name."""
    line = entry.get("line")
    place = str(entry.get("at", entry["path"]))
    if line:
        place += f":row {line}" if entry.get("unit") == "row" else f":{line}"
    return place + (f":{entry['column']}" if "column" in entry else "")


@pytest.mark.parametrize("entry", INDEX, ids=[entry["path"] for entry in INDEX])
def test_a_bad_file_is_refused_with_place_and_reason(entry: dict[str, Any]) -> None:
    start = time.perf_counter()
    with pytest.raises(TaskFilesError) as caught:
        load_tasks(BAD_FILES / entry["path"], **entry.get("options", {}))
    assert time.perf_counter() - start < MAX_SECONDS
    assert caught.value.exit_code == ExitCode.BAD_DATA
    message = str(caught.value)
    assert f"{place_of(entry)}: " in message
    assert entry["says"] in message
    expected = (entry.get("line"), entry.get("column"))
    assert expected in {(problem.line, problem.column) for problem in caught.value.problems}
    assert message.isprintable() or "\n" in message
    assert all(len(line) < 1_000 for line in message.splitlines())


def test_the_index_names_every_file_once() -> None:
    indexed = [entry["path"] for entry in INDEX]
    assert len(indexed) == len(set(indexed)) >= 70
    on_disk = {path.name for path in BAD_FILES.iterdir()} - {"index.json", ".gitattributes"}
    assert set(indexed) == on_disk


def test_no_file_of_the_corpus_was_run() -> None:
    assert not Path("/tmp/robusttc-was-here").exists()  # noqa: S108 - yaml_python_object.yml would make it


@pytest.mark.parametrize("entry", INDEX, ids=[entry["path"] for entry in INDEX])
def test_leaving_out_bad_rows_is_counted_or_refused(entry: dict[str, Any]) -> None:
    options = ReadOptions(**entry.get("options", {}), skip_bad_rows=True, allow_incomplete=True)
    try:
        loaded = read_tasks(BAD_FILES / entry["path"], options)
    except TaskFilesError:
        return
    # Either rows were left out, or the tasks were only incomplete.
    assert loaded.n_skipped > 0 or "train" in entry["says"] or "two labels" in entry["says"]
    assert len(loaded.skipped) == min(loaded.n_skipped, 20)


@pytest.mark.parametrize("entry", INDEX, ids=[entry["path"] for entry in INDEX])
def test_the_command_line_says_the_same_and_ends_with_4(
    entry: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in entry.get("options", {}).items()]
    assert main(["inspect", str(BAD_FILES / entry["path"]), *options]) == ExitCode.BAD_DATA
    output = capsys.readouterr()
    assert output.out == ""
    assert f"{place_of(entry)}: " in output.err
    assert "Traceback" not in output.err


def problems_of(path: Path, **options: Any) -> list[Problem]:
    with pytest.raises(TaskFilesError) as caught:
        load_tasks(path, **options)
    return list(caught.value.problems)


def test_all_problems_of_all_files_are_found(tmp_path: Path) -> None:
    shutil.copy(BAD_FILES / "csv_empty_text.csv", tmp_path / "a.csv")
    shutil.copy(BAD_FILES / "jsonl_nan.jsonl", tmp_path / "b.jsonl")
    shutil.copy(BAD_FILES / "yaml_tabs.yml", tmp_path / "c.yml")
    shutil.copy(BAD_FILES / "csv_one_label.csv", tmp_path / "d.csv")
    found = [(Path(problem.path).name, problem.line) for problem in problems_of(tmp_path)]
    assert found == [("a.csv", 3), ("b.jsonl", 3), ("c.yml", 3), ("d.csv", None)]


def test_twenty_problems_are_listed_and_the_rest_counted(tmp_path: Path) -> None:
    file = tmp_path / "acme.csv"
    file.write_text("text,label\n" + ",a\n" * 50 + "one,a\ntwo,b\n")
    with pytest.raises(TaskFilesError) as caught:
        load_tasks(file)
    assert [problem.line for problem in caught.value.problems] == list(range(2, 22))
    assert caught.value.n_problems == 50
    assert "50 problems in the task files" in str(caught.value)
    assert "… and 30 more" in str(caught.value)
    assert "nearly all rows of" in str(caught.value)
    assert "skip_bad_rows" not in str(caught.value)


def test_bad_rows_do_not_crowd_out_other_problems(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + ",a\n" * 50 + "one,a\ntwo,b\n")
    (tmp_path / "b.csv").write_text("")
    problems = problems_of(tmp_path)
    assert len(problems) == 20
    assert problems[-1].what == "the file is empty"


def test_a_pipe_does_not_keep_us_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "acme.csv")
    (tmp_path / "other.csv").write_text("text,label\none,a\ntwo,b\n")
    assert [problem.what for problem in problems_of(tmp_path)] == ["not a regular file"]
    assert [problem.what for problem in problems_of(tmp_path / "acme.csv")] == ["not a regular file"]


def test_a_device_is_no_file() -> None:
    assert [problem.what for problem in problems_of(Path("/dev/zero"))] == ["not a regular file"]


def test_links_in_a_circle_or_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "circle.csv").symlink_to(tmp_path / "circle.csv")
    (tmp_path / "nothing.csv").symlink_to(tmp_path / "gone")
    assert [problem.what for problem in problems_of(tmp_path)] == ["not a regular file"] * 2
    with pytest.raises(DataError, match="no such file or folder"):
        load_tasks(tmp_path / "circle.csv")


@pytest.mark.parametrize("name", ["missing.csv", "with\0nul", "missing/folder.csv"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        load_tasks(tmp_path / name)


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    assert [problem.what for problem in problems_of(tmp_path / ("x" * 5_000))] == ["the file cannot be read"]


def test_a_file_whose_name_is_not_text(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).write_text("text,label\none,a\ntwo,b\n")
    problems = problems_of(tmp_path)
    assert {problem.what for problem in problems} == {
        "the task name contains a control character or a lone surrogate"
    }


def test_what_may_not_be_read(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything; see the test with a refusing file system")
    (tmp_path / "acme.csv").write_text("text,label\none,a\ntwo,b\n")
    (tmp_path / "acme.csv").chmod(0)
    assert "cannot be read" in problems_of(tmp_path)[0].what
    tmp_path.chmod(0)
    try:
        assert "cannot be read" in problems_of(tmp_path)[0].what
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("method", ["open", "iterdir", "exists", "is_dir", "is_file", "stat"])
def test_a_file_system_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    (tmp_path / "acme.csv").write_text("text,label\none,a\ntwo,b\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, method, refuse)
        problems = problems_of(tmp_path)
    assert "cannot be read" in problems[0].what
    assert problems[0].got == "Permission denied"


@pytest.mark.parametrize("name", ["acme.jsonl", "acme.csv", "acme.md", "acme.json", "acme.yml"])
@pytest.mark.parametrize("size", [100_000, 10_000_000])
def test_one_huge_line(tmp_path: Path, name: str, size: int) -> None:
    forms = {
        "acme.jsonl": '{"text": "%s", "label": "a"}\n{"text": "one", "label": ""}\n',
        "acme.csv": "text,label\n%s,a\none,\n",
        "acme.md": "## intent:a\n- %s\n- \n",
        "acme.json": '{"rasa_nlu_data": {"common_examples": [{"text": "%s", "intent": "a"}, 5]}}',
        "acme.yml": "nlu:\n- intent: a\n  examples: |\n    - %s\n    -\n",
    }
    file = tmp_path / name
    file.write_text(forms[name] % ("x" * size))
    start = time.perf_counter()
    problems = problems_of(file)
    assert time.perf_counter() - start < MAX_SECONDS
    assert any("too long" in problem.what for problem in problems) == (size > 131_072)


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"text": [', "- ", "{a: ", "? ", "!!map {"])
@pytest.mark.parametrize("name", ["acme.jsonl", "acme.json", "acme.yml"])
def test_a_hundred_thousand_levels(tmp_path: Path, name: str, opening: str) -> None:
    file = tmp_path / name
    file.write_text(opening * 100_000)
    start = time.perf_counter()
    assert problems_of(file)
    assert time.perf_counter() - start < MAX_SECONDS


def test_a_bomb_of_a_gigabyte_is_not_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "acme.jsonl.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        for _ in range(100):
            stream.write(b" " * 10_000_000)
    start = time.perf_counter()
    assert [problem.what for problem in problems_of(file)] == ["the file expands beyond the limit"]
    assert time.perf_counter() - start < MAX_SECONDS


def test_two_hundred_thousand_bad_rows_take_seconds(tmp_path: Path) -> None:
    file = tmp_path / "acme.csv"
    file.write_text("text,label,split\n" + "some text,a,unsupervised\n" * 200_000)
    start = time.perf_counter()
    with pytest.raises(TaskFilesError, match=r"200,00. problems"):
        load_tasks(file)
    assert time.perf_counter() - start < MAX_SECONDS

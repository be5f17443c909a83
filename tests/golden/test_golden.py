"""The public surface is what the records in this folder say."""

from __future__ import annotations

import difflib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from golden_surface import describe_json, describe_option, name_file
from settings_table import PAGE, put_table

HERE = Path(__file__).parent
RECORDS = HERE / "records"
WHAT_TO_DO = """
If this change is intended: run `make golden`, look at `git diff tests/golden`, and commit the records with
the change. If version 0.1 (commit b918f4f) had it otherwise, give the reason in tests/golden/intended.toml,
which `make compare-old` reads."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of the code as it is, made in a process of its own as `make golden` does."""
    out = tmp_path_factory.mktemp("golden") / "records"
    command = [sys.executable, str(HERE / "record_golden.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return out


def read_folder(folder: Path) -> dict[str, list[str]]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8").splitlines()
        for path in sorted(folder.rglob("*.txt"))
    }


def test_the_public_surface_is_as_recorded(found: Path) -> None:
    recorded, now = read_folder(RECORDS), read_folder(found)
    lines = [
        line
        for name in sorted({*recorded, *now})
        for line in difflib.unified_diff(
            recorded.get(name, []), now.get(name, []), f"recorded/{name}", f"now/{name}", n=0, lineterm=""
        )
    ]
    if lines:
        pytest.fail("\n".join([*lines, WHAT_TO_DO]), pytrace=False)


def test_the_table_of_settings_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == put_table(page), "run `make golden`"


def test_every_intended_difference_has_a_fate_and_a_reason() -> None:
    entries = tomllib.loads((HERE / "intended.toml").read_text(encoding="utf-8")).get("difference", [])
    for entry in entries:
        assert entry.keys() == {"what", "fate", "reason"}, entry
        assert entry["fate"] in {"kept", "renamed", "dropped", "added", "changed"}, entry
        assert entry["reason"].strip().endswith("."), entry
    assert len({entry["what"] for entry in entries}) == len(entries)


def test_keys_that_are_data_are_replaced() -> None:
    document = {"tasks": {"task 0": [1, 2.0], "task 1": []}, "clusters": {"0": {"track": None}}, "of": {}}
    assert describe_json(document) == {
        "tasks.<task>[]": "float or int",
        "tasks.<task>": "empty list",
        "clusters.<number>.<label>": "None",
        "of": "empty object",
    }


def test_hashes_numbers_and_tasks_in_file_names_are_replaced() -> None:
    assert name_file("tasks/07144f0f4bbcc94ac1633cf0adb46cc9.parquet") == "tasks/<hash>.parquet"
    assert name_file("versions/0001/task 3.csv") == "versions/<number>/<task>.csv"


def test_options_are_read_from_help() -> None:
    assert describe_option(" N  How many.\n      [default: 3]\n") == "N, default 3"
    assert (
        describe_option(" <int range>  How many.  [default: 20; x>=0]\n") == "<int range>, default 20; x>=0"
    )
    assert describe_option(" NAME\n      The task.  [required]\n") == "NAME, required"
    assert describe_option("  Print JSON.\n") == "flag"

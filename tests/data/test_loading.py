from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.data import LoadedTasks, ReadOptions, load_tasks, read_tasks
from robusttc.data.loading import task_name_of
from robusttc.errors import DataWarning, TaskFilesError, UsageError

Read = Callable[..., LoadedTasks]

GOOD = "text,label\none,a\ntwo,b\nthree,a\n"


def names(paths: tuple[str, ...]) -> list[str]:
    return [Path(path).name for path in paths]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("acme.csv", "acme"),
        ("acme.CSV", "acme"),
        ("acme.csv.gz", "acme"),
        ("acme.v2.jsonl.gz", "acme.v2"),
        ("acme.csv.json", "acme.csv"),
        ("acme inc. (old).yaml", "acme inc. (old)"),
        ("acme", "acme"),
        ("acme.gz", "acme.gz"),
        ("acme.txt", "acme.txt"),
    ],
)
def test_the_task_is_named_after_its_file(name: str, task: str) -> None:
    assert task_name_of(Path("folder.csv", name)) == task


def test_a_folder_is_one_task_a_file_in_the_order_of_the_names(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(GOOD)
    (tmp_path / "b.tsv").write_text(GOOD.replace(",", "\t"))
    (tmp_path / "a.jsonl.gz").write_bytes(
        gzip.compress(b'{"text": "one", "label": 1}\n{"text": "two", "label": 2}\n')
    )
    (tmp_path / "d.md").write_text("## intent:x\n- one\n## intent:y\n- two\n")
    (tmp_path / "README.md").write_text("# About\n")
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / ".hidden.csv").write_text("broken")
    loaded = read_tasks(tmp_path)
    assert loaded.tasks.names == ("a", "b", "c", "d")
    assert names(loaded.files) == ["a.jsonl.gz", "b.tsv", "c.csv", "d.md"]
    assert names(loaded.ignored) == ["README.md", "notes.txt"]
    assert (loaded.n_skipped, loaded.skipped) == (0, ())
    assert load_tasks(str(tmp_path)) == loaded.tasks


def test_a_folder_with_one_file_of_all_tasks(tmp_path: Path) -> None:
    rows = [{"task": task, "text": f"{task} {label}", "label": label} for task in "xy" for label in "ab"]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "tasks.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    (tmp_path / "names.csv").write_text("name\nx\n")
    (tmp_path / "README.md").write_text("# About\n")
    loaded = read_tasks(tmp_path)
    assert loaded.tasks.names == ("x", "y")
    assert names(loaded.files) == ["tasks.jsonl.gz"]
    assert names(loaded.ignored) == ["README.md", "names.csv"]


def test_a_task_that_is_called_tasks(tmp_path: Path) -> None:
    (tmp_path / "tasks.csv").write_text(GOOD)
    (tmp_path / "README.md").write_text("# About\n")
    assert load_tasks(tmp_path).names == ("tasks",)
    assert load_tasks(tmp_path / "tasks.csv").names == ("tasks",)
    (tmp_path / "tasks.tsv").write_text(GOOD.replace(",", "\t"))
    with pytest.raises(TaskFilesError, match="duplicate task name 'tasks'"):
        load_tasks(tmp_path)


def test_a_folder_may_hold_files_with_a_task_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,text,label\ny,one,a\nx,one,a\ny,two,b\nx,two,b\n")
    (tmp_path / "b.csv").write_text(GOOD)
    assert load_tasks(tmp_path).names == ("y", "x", "b")


@pytest.mark.parametrize("name", ["acme.csv", "acme.jsonl"])
def test_split_values(read_file: Read, name: str) -> None:
    values = ["train", "train", "validation", "dev", "valid", "test", "oos", "eval", ""]
    rows = [{"text": f"text {i}", "label": "ab"[i % 2], "split": value} for i, value in enumerate(values)]
    if name.endswith("csv"):
        content = "text,label,split\n" + "".join(",".join(row.values()) + "\n" for row in rows)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows)
    with pytest.raises(TaskFilesError) as caught:
        read_file(name, content)
    assert [problem.got for problem in caught.value.problems] == ["'oos'", "'eval'", "''"]
    task = read_file(name, content, split_values={"oos": "oos", "eval": "test", "": "train"}).tasks["acme"]
    assert task.splits.tolist() == ["train", "train", *["valid"] * 3, "test", "oos", "test", "train"]
    assert task.split_names == ("train", "valid", "test", "oos")


def test_rows_without_split_are_split_by_seed_and_not_by_company(tmp_path: Path) -> None:
    rows = "".join(f"text {row},{'ab'[row % 2]}\n" for row in range(100))
    (tmp_path / "acme.csv").write_text(f"text,label\n{rows}")
    alone = load_tasks(tmp_path)["acme"]
    assert [len(alone.rows(split)) for split in ("train", "valid", "test")] == [64, 16, 20]
    assert load_tasks(tmp_path)["acme"] == alone
    assert load_tasks(tmp_path, random_state=1)["acme"] != alone
    assert load_tasks(tmp_path, random_state=np.random.default_rng(0)).n_rows == 100
    (tmp_path / "aaa.csv").write_text(GOOD)
    (tmp_path / "zzz.csv").write_text(GOOD)
    assert load_tasks(tmp_path)["acme"] == alone


def test_bad_rows_are_left_out_aloud(tmp_path: Path) -> None:
    file = tmp_path / "acme.csv"
    file.write_text(GOOD + ",a\nfour,\nfive,b\n")
    with pytest.warns(DataWarning, match=r"2 bad rows left out, the first: .*acme\.csv:5: the text is empty"):
        tasks = load_tasks(file, skip_bad_rows=True)
    assert list(tasks["acme"].texts) == ["one", "two", "three", "five"]
    loaded = read_tasks(file, ReadOptions(skip_bad_rows=True))
    assert loaded.n_skipped == 2
    assert [problem.line for problem in loaded.skipped] == [5, 6]


def test_a_task_of_bad_rows_alone_is_not_left_out(tmp_path: Path) -> None:
    file = tmp_path / "acme.csv"
    file.write_text("task,text,label\nx,one,a\nx,two,b\ny,,a\n")
    with pytest.raises(TaskFilesError, match="task 'y' has no row that can be used"):
        load_tasks(file, skip_bad_rows=True)


def test_incomplete_tasks_are_kept_on_request(tmp_path: Path) -> None:
    file = tmp_path / "acme.csv"
    file.write_text("text,label,split\none,a,train\ntwo,b,test\n")
    with pytest.raises(TaskFilesError, match="allow_incomplete=True"):
        load_tasks(file)
    assert load_tasks(file, allow_incomplete=True)["acme"].label_names == ("a", "b")


def test_label_codes_do_not_depend_on_the_order_of_rows(read_file: Read) -> None:
    first = read_file("acme.csv", "text,label\none,b\ntwo,a\nthree,c\n").tasks["acme"]
    second = read_file("acme.csv", "text,label\nthree,c\ntwo,a\none,b\n").tasks["acme"]
    assert first.label_names == second.label_names == ("a", "b", "c")
    assert (first.label_codes.tolist(), second.label_codes.tolist()) == ([1, 0, 2], [2, 0, 1])


@pytest.mark.parametrize(
    "options",
    [
        {"text_column": "label", "label_column": "label"},
        {"split_column": "text", "task_column": "text"},
        {"skip_bad_rows": "no"},
        {"allow_incomplete": 1},
        {"shares": (0.5, 0.5)},
        {"shares": (0.5, 0.5, 0.5)},
        {"shares": (0.0, 0.5, 0.5)},
        {"shares": (1.2, -0.1, -0.1)},
        {"shares": "0.8,0.1,0.1"},
        {"shares": None},
        {"label_column": 5},
        {"task_column": b"task"},
        {"delimiter": ""},
        {"delimiter": ",,"},
        {"delimiter": "\n"},
        {"delimiter": '"'},
        {"delimiter": 5},
        {"encoding": "utf-9"},
        {"encoding": "base64"},
        {"encoding": "a\0b"},
        {"encoding": ""},
        {"encoding": 8},
        {"split_values": {"x": "y"}},
        {"split_values": {"x": ""}},
        {"split_values": {"": ""}},
        {"split_values": {"x": None}},
        {"split_values": {5: "test"}},
        {"split_values": {f"s{i}": f"s{i}" for i in range(200)}},
        {"random_state": -1},
        {"random_state": "0"},
        {"random_state": True},
    ],
)
def test_wrong_options_are_wrong_usage(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "acme.csv").write_text(GOOD)
    with pytest.raises(UsageError):
        load_tasks(tmp_path, **options)


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(UsageError, match="the path is empty"):
        load_tasks("")


@pytest.mark.parametrize(
    "encoding",
    ["utf-7", "idna", "punycode", "undefined", "cp037", "shift_jis", "iso2022_jp", "utf-32-be", "hz"],
)
def test_odd_encodings_read_or_refuse(tmp_path: Path, encoding: str) -> None:
    for content in (GOOD.encode(), b"\xff\xfe\x1b$\x80+~{\n" * 20):
        (tmp_path / "acme.csv").write_bytes(content)
        with contextlib.suppress(TaskFilesError):
            load_tasks(tmp_path, encoding=encoding)


def test_a_task_knows_whether_its_splits_were_drawn(tmp_path: Path) -> None:
    rows = "".join(f"text {number},{'ab'[number % 2]}\n" for number in range(20))
    (tmp_path / "drawn.csv").write_text(f"text,label\n{rows}")
    given = "".join(f"{line},train\n" for line in rows.splitlines())
    (tmp_path / "given.csv").write_text(f"text,label,split\n{given}")
    tasks = load_tasks(tmp_path)
    assert {task.name: task.splits_drawn for task in tasks} == {"drawn": True, "given": False}
    drawn = tasks["drawn"]
    assert all(made.splits_drawn for made in (drawn.take([0, 1]), drawn.with_sharing(False)))
    assert not drawn.with_splits(["train"] * 20).splits_drawn

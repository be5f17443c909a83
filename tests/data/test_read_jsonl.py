from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robusttc.data import LoadedTasks
from robusttc.errors import TaskFilesError

Read = Callable[..., LoadedTasks]
Row = tuple[str, str, str]
RowsOf = Callable[..., list[Row]]

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
AWKWARD = ['"', "\\", "\n", "\r", "\t", "\ufeff", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x7f"]
TEXTS = st.lists(st.sampled_from(AWKWARD) | CHARACTERS, max_size=12).map("".join).filter(str.strip)
LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)
ROWS = st.lists(st.tuples(TEXTS, LABELS, st.sampled_from(["train", "valid", "test"])), min_size=1, max_size=8)


def write_jsonl(rows: list[Row], *, ensure_ascii: bool = False, line_end: str = "\n") -> str:
    objects = [{"text": text, "label": label, "split": split} for text, label, split in rows]
    return line_end.join(json.dumps(row, ensure_ascii=ensure_ascii) for row in objects)


@given(
    rows=ROWS,
    ensure_ascii=st.booleans(),
    line_end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_every_text_and_label_survives(
    read_file: Read, rows_of: RowsOf, rows: list[Row], ensure_ascii: bool, line_end: str, encoding: str
) -> None:
    content = write_jsonl(rows, ensure_ascii=ensure_ascii, line_end=line_end).encode(encoding)
    loaded = read_file("acme.jsonl", content, allow_incomplete=True)
    assert rows_of(loaded.tasks["acme"]) == rows


@pytest.mark.parametrize("name", ["acme.jsonl", "acme.ndjson", "acme.jsonl.gz", "acme.JSONL"])
def test_names_of_files(read_file: Read, rows_of: RowsOf, name: str) -> None:
    rows = [("one", "a", "train"), ("two", "b", "train")]
    assert rows_of(read_file(name, write_jsonl(rows)).tasks["acme"]) == rows


def lines(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in objects)


def test_whole_numbers_are_their_digits(read_file: Read) -> None:
    content = lines(
        {"text": "one", "label": 1}, {"text": "two", "label": -20}, {"text": "three", "label": "1"}
    )
    task = read_file("acme.jsonl", content).tasks["acme"]
    assert task.labels.tolist() == ["1", "-20", "1"]
    content = lines(
        {"task": 7, "text": "one", "label": "a"},
        {"task": "7", "text": "two", "label": "b"},
        {"task": 8, "text": "two", "label": "b"},
    )
    assert read_file("acme.jsonl", content, allow_incomplete=True).tasks.names == ("7", "8")


@pytest.mark.parametrize("label", [True, 1.5, [], {}, ["a"], 1e999])
def test_other_values_are_no_labels(read_file: Read, label: object) -> None:
    content = lines({"text": "one", "label": "a"}, {"text": "two", "label": "b"}).encode()
    value = b"1e999" if label == 1e999 else json.dumps(label).encode()
    with pytest.raises(TaskFilesError, match=r"acme\.jsonl:3: the label is not a string"):
        read_file("acme.jsonl", content + b'{"text": "three", "label": ' + value + b"}")


@pytest.mark.parametrize("text", [True, 1, ["a"]])
def test_other_values_are_no_texts(read_file: Read, text: object) -> None:
    with pytest.raises(TaskFilesError, match=r"acme\.jsonl:1: the text is not a string"):
        read_file("acme.jsonl", lines({"text": text, "label": "a"}, {"text": "one", "label": "b"}))


def test_null_is_no_value(read_file: Read) -> None:
    content = lines({"text": None, "label": "a"}, {"text": "one", "label": None}, {"text": "x", "label": "a"})
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.jsonl", content, allow_incomplete=True)
    found = [(problem.line, problem.what, problem.got) for problem in caught.value.problems]
    assert found == [(1, "the text is empty", "null"), (2, "the label is empty", "null")]


def test_keys_by_other_names(read_file: Read, rows_of: RowsOf) -> None:
    content = lines(
        {"u": "one", "i": "a", "p": "train", "c": "x", "text": 5, "task": "no"},
        {"u": "two", "i": "b", "p": "train", "c": "x"},
    )
    names = {"text_column": "u", "label_column": "i", "split_column": "p", "task_column": "c"}
    assert rows_of(read_file("acme.jsonl", content, **names).tasks["x"]) == [
        ("one", "a", "train"),
        ("two", "b", "train"),
    ]


def test_a_column_that_is_named_must_be_in_every_row(read_file: Read) -> None:
    rows = [{"text": "one", "label": "a"}, {"text": "two", "label": "b", "part": "train", "client": "x"}]
    with pytest.raises(TaskFilesError, match=r"acme\.jsonl:1: missing split: .* 'part'"):
        read_file("acme.jsonl", lines(*rows), split_column="part")
    with pytest.raises(TaskFilesError, match=r"acme\.jsonl:1: missing task: .* 'client'"):
        read_file("acme.jsonl", lines(*rows), task_column="client")


def test_all_rows_name_their_task_or_none(read_file: Read) -> None:
    first, second = {"text": "one", "label": "a"}, {"text": "two", "label": "b", "task": "x"}
    with pytest.raises(TaskFilesError, match=r":2: the row names a task, but the first"):
        read_file("acme.jsonl", lines(first, second))
    with pytest.raises(TaskFilesError, match=r":2: missing task"):
        read_file("acme.jsonl", lines(second, first))


def test_rows_with_and_without_a_split_in_one_task(read_file: Read) -> None:
    rows = [{"text": f"t{i}", "label": "ab"[i % 2], "split": "train"} for i in range(4)]
    content = lines(*rows, {"text": "none", "label": "a"})
    with pytest.raises(
        TaskFilesError, match=r":5: the row has no split, but other rows of its task have one"
    ):
        read_file("acme.jsonl", content)
    loaded = read_file("acme.jsonl", content, skip_bad_rows=True)
    assert (len(loaded.tasks["acme"]), loaded.n_skipped) == (4, 1)


@pytest.mark.parametrize("depth", [900, 950, 960, 970, 980, 985, 990, 995, 1_000, 1_100, 100_000])
@pytest.mark.parametrize("form", ["%s", '{"text": "x", "label": %s}', '{"text": %s, "label": "a"}'])
def test_nesting_ends_in_a_message_at_every_depth(read_file: Read, depth: int, form: str) -> None:
    with pytest.raises(TaskFilesError, match=r"acme\.jsonl:1: "):
        read_file("acme.jsonl", form % ("[" * depth + "]" * depth))


def test_the_column_of_broken_json(read_file: Read) -> None:
    content = lines({"text": "one", "label": "a"}) + '{"text": "é", label: "b"}\n'
    with pytest.raises(TaskFilesError, match=r"acme\.jsonl:2:15: the line is not JSON"):
        read_file("acme.jsonl", content)

"""Excel workbooks, pandas frames, folders of Rasa projects, and columns under their usual names."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

from robusttc.data import LoadedTasks, ReadOptions, Task, TaskSet, load_tasks, read_examples, read_tasks
from robusttc.errors import DataError, TaskFilesError, UsageError

Read = Callable[..., LoadedTasks]
Row = tuple[str, str, str]
RowsOf = Callable[..., list[Row]]

ROWS = [("one", "a", "train"), ("two", "b", "train"), ("three", "a", "test")]


def write_excel(**sheets: list[tuple[Any, ...]]) -> bytes:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.worksheets[0])
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(row)
    stream = io.BytesIO()
    workbook.save(stream)
    return stream.getvalue()


# --- Excel


@pytest.mark.parametrize("name", ["acme.xlsx", "acme.XLSX", "acme.xlsx.gz"])
def test_a_sheet_is_the_task_of_its_file(read_file: Read, rows_of: RowsOf, name: str) -> None:
    content = write_excel(data=[(), ("text", "label", "split", None), ROWS[0], (), *ROWS[1:]])
    loaded = read_file(name, content)
    assert loaded.tasks.names == ("acme",)
    assert rows_of(loaded.tasks["acme"]) == ROWS
    assert loaded.notes == ()


def test_several_sheets_are_a_task_each(read_file: Read, rows_of: RowsOf) -> None:
    header = ("text", "label", "split")
    content = write_excel(globex=[header, *ROWS], acme=[header, *ROWS], notes=[("about",), ("x",)], empty=[])
    loaded = read_file("clients.xlsx", content)
    assert loaded.tasks.names == ("globex", "acme")
    assert rows_of(loaded.tasks["acme"]) == ROWS
    (note,) = loaded.unread
    assert "clients.xlsx: 1 sheet without columns for text and label not read: 'notes'" in note


def test_a_task_column_goes_before_the_name_of_the_sheet(read_file: Read) -> None:
    content = write_excel(data=[("task", "text", "label"), ("x", "one", 1), ("x", "two", 2)])
    task = read_file("all.xlsx", content).tasks["x"]
    assert task.labels.tolist() == ["1", "2"]


def test_bad_rows_of_a_sheet_have_the_numbers_that_excel_shows(read_file: Read) -> None:
    content = write_excel(
        data=[(), ("text", "label"), ("one", "a"), (), ("two", None), (True, "b"), ("x", "b")]
    )
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.xlsx", content)
    assert [(problem.line, problem.what) for problem in caught.value.problems] == [
        (5, "the label is empty"),
        (6, "the text is not a string"),
    ]
    assert "acme.xlsx:row 5: " in str(caught.value)


def test_excel_without_openpyxl_says_what_to_install(
    read_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TaskFilesError, match=r"Excel files need openpyxl.*robusttc\[excel\]"):
        read_file("acme.xlsx", b"PK")


def test_the_old_excel_format_is_pointed_out(read_file: Read) -> None:
    with pytest.raises(TaskFilesError, match=r"unknown file format.*Save the workbook as \.xlsx"):
        read_file("acme.xls", b"x")


# --- pandas


def make_frame(**columns: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_a_frame_with_other_names_and_numbers_for_labels() -> None:
    frame = make_frame(client=["b", "a"] * 2, query=list("wxyz"), intent=[1, 1, 2, 2], more=[None] * 4)
    tasks = TaskSet.from_frame(frame, task="client", text="query", label="intent")
    assert tasks.names == ("b", "a")
    assert tasks["b"].labels.tolist() == ["1", "2"]
    assert load_tasks(frame, task_column="client") == tasks


def test_a_frame_there_and_back() -> None:
    tasks = TaskSet(
        [
            Task("acme", ["one", "two"], ["a", "b"], ["train", "test"], may_share=False),
            Task("globex", ["three", "four"], ["c", "d"]),
        ]
    )
    frame = tasks.to_frame()
    assert frame.columns.tolist() == ["task", "text", "label", "split", "may_share"]
    assert read_tasks(frame, ReadOptions(allow_incomplete=True)).tasks == tasks
    assert read_tasks(frame.astype("category"), ReadOptions(allow_incomplete=True)).tasks == tasks
    assert load_tasks(frame[frame["task"] == "globex"]) == tasks.subset(["globex"])


def test_a_split_column_of_a_frame() -> None:
    frame = make_frame(task=["a"] * 3, text=list("xyz"), label=list("ppq"), part=["train", "dev", "train"])
    assert TaskSet.from_frame(frame, split="part")["a"].splits.tolist() == ["train", "valid", "train"]


def test_a_frame_without_a_task_column_is_one_task() -> None:
    assert load_tasks(make_frame(text=["one", "two"], label=["a", "b"])).names == ("tasks",)
    with pytest.raises(TaskFilesError, match="missing column 'task' for the task"):
        TaskSet.from_frame(make_frame(text=["one", "two"], label=["a", "b"]))


def test_bad_rows_of_a_frame_have_their_positions() -> None:
    frame = make_frame(
        task=["a"] * 6,
        text=["one", None, 5, float("nan"), "two", "three"],
        label=["x", "x", "x", "x", pd.NA, "y"],
    ).set_index(pd.Index(range(100, 106)))
    with pytest.raises(TaskFilesError) as caught:
        TaskSet.from_frame(frame)
    assert [(problem.line, problem.what) for problem in caught.value.problems] == [
        (1, "the text is empty"),
        (2, "the text is not a string"),
        (3, "the text is empty"),
        (4, "the label is empty"),
    ]
    assert "DataFrame:iloc 1: the text is empty; got null" in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (make_frame(text=[], label=[]), "has no rows"),
        (pd.DataFrame(), "missing column 'text'.*got no columns"),
        (pd.DataFrame([["a", "b"], ["c", "d"]]), "missing column 'text'.*got columns '0', '1'"),
        (pd.DataFrame([["a", "b", "c"]], columns=["text", "text", "label"]), "'text' is there 2 times"),
        (make_frame(text=["a", "b"], label=[1.5, 2.5]), "the label is not a string; got 1.5"),
        (make_frame(text=["a", "b"], label=["x", "y"], split=["train", "tset"]), "unknown split; got 'tset'"),
    ],
)
def test_frames_that_make_no_tasks(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(TaskFilesError, match=message):
        load_tasks(frame)


@pytest.mark.parametrize("source", [None, 5, ["a.csv"], {"text": ["a"]}])
def test_what_is_neither_path_nor_frame(source: Any) -> None:
    with pytest.raises(UsageError, match="a path or a DataFrame"):
        load_tasks(source)


def test_frames_without_pandas_say_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import robusttc as rtc\n"
        "tasks = rtc.TaskSet([rtc.Task('a', ['t'], ['x'])])\n"
        "try: tasks.to_frame()\n"
        "except rtc.UsageError as error: print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "needs pandas" in shown
    assert "pip install pandas" in shown


# --- Folders of Rasa projects


def write_project(folder: Path, n_files: int = 1) -> None:
    (folder / "data" / "nlu").mkdir(parents=True)
    for number in range(n_files):
        examples = "".join(
            f"- intent: {intent}\n  examples: |\n    - {intent} {number}\n" for intent in ("greet", "leave")
        )
        (folder / "data" / "nlu" / f"part {number}.yml").write_text(f"version: '3.1'\nnlu:\n{examples}")
    (folder / "data" / "stories.yml").write_text("stories:\n- story: x\n")
    (folder / "domain.yml").write_text("intents:\n- greet\n")
    (folder / "config.yml").write_text("language: en\n")
    (folder / ".rasa").mkdir()
    (folder / ".rasa" / "nlu.yml").write_text("nlu: broken")


def test_a_folder_of_rasa_projects_is_a_task_each(tmp_path: Path) -> None:
    write_project(tmp_path / "globex", 2)
    write_project(tmp_path / "acme")
    (tmp_path / "initech.csv").write_text("text,label\none,a\ntwo,b\n")
    (tmp_path / "README.md").write_text("# about")
    loaded = read_tasks(tmp_path)
    assert loaded.tasks.names == ("acme", "globex", "initech")
    assert len(loaded.tasks["globex"]) == 4
    assert [Path(file).name for file in loaded.files] == [
        "part 0.yml",
        "part 0.yml",
        "part 1.yml",
        "initech.csv",
    ]
    assert sorted(Path(file).name for file in loaded.ignored) == ["README.md", "stories.yml", "stories.yml"]


def test_a_project_of_older_forms_without_a_data_folder(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "nlu.md").write_text("## intent:greet\n- hi\n- hello\n")
    (tmp_path / "acme" / "nlu.json").write_text(
        '{"rasa_nlu_data": {"common_examples": [{"text": "bye", "intent": "leave"}]}}'
    )
    (tmp_path / "acme" / "stories.md").write_text("## story 1\n* greet\n")
    loaded = read_tasks(tmp_path)
    assert sorted(loaded.tasks["acme"].texts) == ["bye", "hello", "hi"]
    assert [Path(file).name for file in loaded.ignored] == ["stories.md"]


def test_one_project_can_be_the_path_itself(tmp_path: Path) -> None:
    write_project(tmp_path / "acme", 3)
    assert load_tasks(tmp_path / "acme").names == ("acme",)


def test_a_bad_example_of_a_project_is_found_in_its_file(tmp_path: Path) -> None:
    write_project(tmp_path / "acme", 2)
    file = tmp_path / "acme" / "data" / "nlu" / "part 1.yml"
    file.write_text(file.read_text() + "    -\n")
    with pytest.raises(TaskFilesError, match=r"part 1\.yml:9: the text is empty"):
        load_tasks(tmp_path)


def test_a_project_and_a_file_of_the_same_name(tmp_path: Path) -> None:
    write_project(tmp_path / "acme", 2)
    (tmp_path / "acme.csv").write_text("text,label\none,a\ntwo,b\n")
    with pytest.raises(TaskFilesError, match=r"1 problem.*\n.*acme\.csv:2: duplicate task name 'acme'"):
        load_tasks(tmp_path)


# --- Columns under their usual names


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("utterance,intent", "'utterance' as the text, 'intent' as the label"),
        ("Query,CATEGORY", "'Query' as the text, 'CATEGORY' as the label"),
        ("text,class", "'class' as the label"),
        ("sentence, label", "'sentence' as the text, ' label' as the label"),
        ("User Message,target", "'User Message' as the text, 'target' as the label"),
        ("message;tag", "'message' as the text, 'tag' as the label"),
        ("Text|Label", "'Text' as the text, 'Label' as the label"),
    ],
)
def test_usual_names_are_recognised_and_noted(read_file: Read, header: str, note: str) -> None:
    delimiter = next(mark for mark in "|;," if mark in header)
    content = f"{header}\none{delimiter}a\ntwo{delimiter}b\n"
    loaded = read_file("acme.csv", content)
    assert sorted(loaded.tasks["acme"].texts) == ["one", "two"]
    assert loaded.notes == (f"acme.csv: read the column {note}",)


@pytest.mark.parametrize("name", ["acme.jsonl", "acme.csv"])
def test_the_exact_names_go_before_others(read_file: Read, name: str) -> None:
    content = "Text,query,text,intent,label\nx,x,one,y,a\nx,x,two,y,b\n"
    if name.endswith("jsonl"):
        content = "".join(
            f'{{"Text": "x", "query": "x", "text": "{text}", "intent": "y", "label": "{label}"}}\n'
            for text, label in [("one", "a"), ("two", "b")]
        )
    loaded = read_file(name, content)
    assert loaded.tasks["acme"].label_names == ("a", "b")
    assert sorted(loaded.tasks["acme"].texts) == ["one", "two"]
    assert loaded.notes == ()


def test_notes_name_the_files_that_they_are_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(5):
        (tmp_path / f"task {number}.csv").write_text("utterance,intent\none,a\ntwo,b\n")
    (tmp_path / "other.csv").write_text("text,class\none,a\ntwo,b\n")
    (tmp_path / "plain.csv").write_text("text,label\none,a\ntwo,b\n")
    with caplog.at_level(logging.INFO, logger="robusttc"):
        load_tasks(tmp_path)
    assert sorted(caplog.messages) == [
        "other.csv: read the column 'class' as the label",
        "task 0.csv, task 1.csv, task 2.csv and 2 more: read the column 'utterance' as the text, 'intent' as "
        "the label",
    ]


@pytest.mark.parametrize("column", ["client", "Tenant", "bot", "project", "domain", "Account ID"])
def test_a_column_that_probably_names_tasks_is_said_to_be_unused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    file = tmp_path / "all.csv"
    file.write_text(f"text,label,{column}\none,a,x\ntwo,b,x\nthree,a,y\nfour,b,y\n")
    assert load_tasks(file).names == ("all",)
    (message,) = caplog.messages
    assert message == (
        f"all.csv: all rows are one task; the column {column!r} is not used, and task_column={column!r} "
        "would make one task of each of its values"
    )
    assert read_tasks(file, ReadOptions(task_column=column)).unread == ()
    assert read_tasks(pd.read_csv(file)).unread == (message.replace("all.csv", "DataFrame"),)
    # In a folder every file is a task anyway, and a task column goes before.
    (tmp_path / "other.csv").write_text("text,label\none,a\ntwo,b\n")
    assert read_tasks(tmp_path).unread == ()
    file.write_text(f"task,text,label,{column}\nt,one,a,x\nt,two,b,x\n")
    assert read_tasks(file).unread == ()


@pytest.mark.parametrize("header", ["text,intent,category", "query,message,label", "Text,TEXT,label"])
def test_names_that_could_both_be_meant_are_not_guessed(read_file: Read, header: str) -> None:
    with pytest.raises(TaskFilesError, match=r"several columns could be the (text|label)"):
        read_file("acme.csv", f"{header}\none,a,b\ntwo,c,d\n")


def test_a_missing_column_is_not_taken_for_that_of_another_role(read_file: Read) -> None:
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.csv", "wording,intent\none,a\ntwo,b\n")
    assert "missing column 'text'" in str(caught.value)
    assert "did you mean" not in str(caught.value)
    with pytest.raises(TaskFilesError, match=r"text_column='utterance' \(did you mean 'utterance'\?\)"):
        read_file("acme.csv", "utterance,intent\none,a\ntwo,b\n", text_column="txt")


def test_where_nearly_all_rows_are_bad_the_advice_is_not_to_skip_them(read_file: Read) -> None:
    rows = "".join(f"text {row},,x\n" for row in range(20))
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.csv", f"text,label,intent\n{rows}one,a,x\n")
    assert "nearly all rows of" in str(caught.value)
    assert "label_column" in str(caught.value)
    assert "skip_bad_rows" not in str(caught.value)
    with pytest.raises(TaskFilesError, match="leave out the 1 bad row with skip_bad_rows=True"):
        read_file("acme.csv", "text,label\none,a\ntwo,b\n,b\n")


def test_a_stray_quote_in_a_tsv_is_a_character(read_file: Read, rows_of: RowsOf) -> None:
    content = 'text\tlabel\tsplit\n"one\ta\ttrain\ntwo\tb\ttrain\n5" pipe\tb\ttrain\n"x" y\ta\ttest\n'
    assert rows_of(read_file("acme.tsv", content).tasks["acme"]) == [
        ('"one', "a", "train"),
        ("two", "b", "train"),
        ('5" pipe', "b", "train"),
        ('"x" y', "a", "test"),
    ]


def test_shares_of_the_splits(tmp_path: Path) -> None:
    rows = "".join(f"text {row},{'ab'[row % 2]}\n" for row in range(100))
    (tmp_path / "acme.csv").write_text(f"text,label\n{rows}")
    for shares in [(0.8, 0.1, 0.1), (0.5, 0.0, 0.5), (1.0, 0.0, 0.0), [0.9, 0.1, 0]]:
        task = load_tasks(tmp_path, shares=shares)["acme"]
        found = [len(task.rows(split)) for split in ("train", "valid", "test")]
        assert found == [round(100 * share) for share in shares]


def test_rows_that_disagree_on_sharing_are_no_rows_to_skip(read_file: Read) -> None:
    content = "text,label,may_share\none,a,TRUE\ntwo,b,true\nthree,b,false\n"
    with pytest.raises(TaskFilesError, match=r":4: rows of task 'acme' disagree on may_share"):
        read_file("acme.csv", content, skip_bad_rows=True)
    assert read_file("acme.csv", content.replace("false", " True")).tasks["acme"].may_share


def test_examples_of_one_task(tmp_path: Path) -> None:
    file = tmp_path / "any name.csv"
    file.write_text("utterance,intent\none,a\ntwo,b\nthree,c\n")
    loaded = read_examples(file, "new")
    assert loaded.tasks["new"].splits.tolist() == ["train"] * 3
    assert len(loaded.notes) == 1
    file.write_text("task,text,label\nx,one,a\ny,two,b\n")
    with pytest.raises(DataError, match="several tasks"):
        read_examples(file, "new")
    with pytest.raises(DataError, match="a folder instead of a file"):
        read_examples(tmp_path, "new")

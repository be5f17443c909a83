"""Folders that the real `datasets` library writes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from robusttc.data import load_tasks
from robusttc.errors import DataWarning, TaskFilesError

Row = tuple[str, str, str]
RowsOf = Callable[..., list[Row]]

TEXTS = ["one", 'say "two"', "drei\n\u2028", "four", "five", "six"]
LABELS = ["a", "b", "a", "b", "a", "b"]
CODES = [0, 1, 0, 1, 0, 1]


@pytest.fixture(autouse=True)
def no_progress_bars() -> None:
    datasets.disable_progress_bars()


def make(labels: list[Any], *, classes: list[str] | None = None, **columns: list[Any]) -> Any:
    data = {"text": TEXTS[: len(labels)], "label": labels, **columns}
    made = datasets.Dataset.from_dict(data)
    return made.cast_column("label", datasets.ClassLabel(names=classes)) if classes else made


@pytest.mark.parametrize("classes", [None, ["a", "b"]])
@pytest.mark.parametrize("num_shards", [1, 3])
def test_a_data_set(tmp_path: Path, classes: list[str] | None, num_shards: int) -> None:
    labels: list[Any] = list(CODES if classes else LABELS)
    make(labels, classes=classes).save_to_disk(tmp_path / "acme", num_shards=num_shards)
    assert len(list((tmp_path / "acme").glob("*.arrow"))) == num_shards
    task = load_tasks(tmp_path / "acme")["acme"]
    assert list(task.texts) == TEXTS
    assert task.labels.tolist() == LABELS


@pytest.mark.parametrize("classes", [None, ["a", "b"]])
def test_a_dictionary_of_data_sets(tmp_path: Path, rows_of: RowsOf, classes: list[str] | None) -> None:
    labels: list[Any] = list(CODES if classes else LABELS)
    splits = {"train": make(labels, classes=classes), "validation": make(labels[:2], classes=classes)}
    datasets.DatasetDict({**splits, "test": make(labels[:3], classes=classes)}).save_to_disk(
        tmp_path / "acme"
    )
    rows = list(zip(TEXTS, LABELS, strict=True))
    assert rows_of(load_tasks(tmp_path / "acme")["acme"]) == [
        *((*row, "train") for row in rows),
        *((*row, "valid") for row in rows[:2]),
        *((*row, "test") for row in rows[:3]),
    ]


def test_whole_numbers_without_names_are_their_digits(tmp_path: Path) -> None:
    make(list(CODES)).save_to_disk(tmp_path / "acme")
    assert load_tasks(tmp_path / "acme")["acme"].label_names == ("0", "1")


def test_rows_without_a_label_are_refused_by_number(tmp_path: Path) -> None:
    make([0, 1, 0, -1, 1, -1], classes=["a", "b"]).save_to_disk(tmp_path / "acme", num_shards=2)
    with pytest.raises(TaskFilesError) as caught:
        load_tasks(tmp_path / "acme")
    assert [(problem.line, problem.got) for problem in caught.value.problems] == [(4, "-1"), (6, "-1")]
    assert "acme:row 4: the value of 'label' is not one of the data set's classes" in str(caught.value)
    with pytest.warns(DataWarning, match="2 bad rows"):
        assert list(load_tasks(tmp_path / "acme", skip_bad_rows=True)["acme"].texts) == [*TEXTS[:3], "five"]


def test_a_task_column_also_with_class_names(tmp_path: Path) -> None:
    made = make(list(LABELS), task=[0, 0, 0, 1, 1, 1])
    made.cast_column("task", datasets.ClassLabel(names=["x", "y"])).save_to_disk(tmp_path / "all")
    assert load_tasks(tmp_path / "all").names == ("x", "y")
    made.save_to_disk(tmp_path / "digits")
    assert load_tasks(tmp_path / "digits").names == ("0", "1")


def test_a_split_column_must_agree_with_the_folder(tmp_path: Path) -> None:
    first = make(list(LABELS), split=["train"] * 6)
    agreeing = datasets.DatasetDict({"train": first, "validation": make(["a", "b"], split=["dev", "valid"])})
    agreeing.save_to_disk(tmp_path / "acme")
    assert load_tasks(tmp_path / "acme")["acme"].splits.tolist() == ["train"] * 6 + ["valid"] * 2
    datasets.DatasetDict({"train": first, "test": make(["a", "b"], split=["test", "train"])}).save_to_disk(
        tmp_path / "other"
    )
    with pytest.raises(
        TaskFilesError, match="row 8: the split column and the folder of the row do not agree"
    ):
        load_tasks(tmp_path / "other")
    splits = load_tasks(tmp_path / "other", split_column="split")["other"].splits.tolist()
    assert splits == ["train"] * 6 + ["test", "train"]


def test_selected_and_shuffled_rows_are_those_that_were_saved(tmp_path: Path) -> None:
    make(list(LABELS)).select([3, 0, 1]).save_to_disk(tmp_path / "acme")
    assert list(load_tasks(tmp_path / "acme")["acme"].texts) == ["four", "one", 'say "two"']


def test_several_data_sets_in_a_folder_are_tasks(tmp_path: Path) -> None:
    for name in ("z", "a"):
        make(list(LABELS)).save_to_disk(tmp_path / name)
    (tmp_path / "m.csv").write_text("text,label\none,a\ntwo,b\n")
    assert load_tasks(tmp_path).names == ("a", "m", "z")


def test_other_splits_have_to_be_named(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": make(list(LABELS)), "ood": make(["a", "b"])}).save_to_disk(
        tmp_path / "acme"
    )
    with pytest.raises(TaskFilesError, match="row 7: unknown split; got 'ood'"):
        load_tasks(tmp_path / "acme")
    task = load_tasks(tmp_path / "acme", split_values={"ood": "ood"})["acme"]
    assert task.rows("ood").tolist() == [6, 7]


def test_rows_chosen_by_indices_are_not_read_as_if_they_were_not(tmp_path: Path) -> None:
    make(list(LABELS)).save_to_disk(tmp_path / "acme")
    state = tmp_path / "acme" / "state.json"
    state.write_text(
        json.dumps({**json.loads(state.read_text()), "_indices_data_files": [{"filename": "x"}]})
    )
    with pytest.raises(TaskFilesError, match="file of indices"):
        load_tasks(tmp_path / "acme")


def test_a_pipe_in_place_of_a_data_file_does_not_keep_us_waiting(tmp_path: Path) -> None:
    make(list(LABELS)).save_to_disk(tmp_path / "acme")
    data = next((tmp_path / "acme").glob("*.arrow"))
    data.unlink()
    os.mkfifo(data)
    with pytest.raises(TaskFilesError, match="missing"):
        load_tasks(tmp_path / "acme")

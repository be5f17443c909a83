"""What is written is read back to the letter."""

from __future__ import annotations

import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.data import Task, TaskSet, load_tasks, make_planted_tasks, write_tasks
from robusttc.errors import StoreError, UsageError

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
).filter(str.strip)


@pytest.mark.parametrize("place", ["tasks", "tasks.jsonl"])
def test_round_trip(tmp_path: Path, place: str) -> None:
    tasks = make_planted_tasks(n_tasks=7, random_state=3).tasks
    files = write_tasks(tasks, tmp_path / place)
    assert all(file.is_file() for file in files)
    assert load_tasks(tmp_path / place) == tasks


@settings(max_examples=80, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=8), st.sampled_from(["tasks", "tasks.jsonl"]))
def test_any_text_survives(texts: list[str], place: str) -> None:
    labels = [f"label {number % 2}" for number in range(len(texts))]
    tasks = TaskSet([Task("a task", texts, labels)])
    with TemporaryDirectory() as folder:
        write_tasks(tasks, Path(folder) / place)
        assert load_tasks(Path(folder) / place) == tasks


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "a\\b", "a.csv", "a.jsonl.gz", "x" * 300])
def test_name_that_cannot_be_a_file(tmp_path: Path, name: str) -> None:
    tasks = TaskSet([Task("good", ["t"], ["x"]), Task(name, ["t", "u"], ["x", "y"])])
    with pytest.raises(UsageError, match="name of a file"):
        write_tasks(tasks, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    write_tasks(tasks, tmp_path / "all.jsonl")
    assert load_tasks(tmp_path / "all.jsonl", allow_incomplete=True) == tasks


@pytest.mark.parametrize("place", ["tasks", "tasks.jsonl"])
def test_private_tasks_stay_private(tmp_path: Path, place: str) -> None:
    private = Task("private", ["t", "u"], ["x", "y"], may_share=False)
    tasks = TaskSet([private, Task("public", ["t", "u"], ["x", "y"])])
    write_tasks(tasks, tmp_path / place)
    loaded = load_tasks(tmp_path / place)
    assert [task.may_share for task in loaded] == [False, True]
    assert loaded == tasks
    assert TaskSet.from_frame(tasks.to_frame()) == tasks


def test_other_splits_are_read_back_by_name(tmp_path: Path) -> None:
    task = Task("a", ["t", "u", "v"], ["x", "y", "x"], ["train", "train", "own"], other_splits=["own"])
    write_tasks(TaskSet([task]), tmp_path)
    assert load_tasks(tmp_path, split_values={"own": "own"}) == TaskSet([task])


def test_a_failing_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = TaskSet([Task("a", ["t", "u"], ["x", "y"])])
    (file,) = write_tasks(old, tmp_path)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("robusttc.files.os.fsync", fail)
    with pytest.raises(StoreError, match="disk full"):
        write_tasks(TaskSet([Task("a", ["new", "u"], ["x", "y"])]), tmp_path)
    assert load_tasks(tmp_path) == old
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

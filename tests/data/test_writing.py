"""What is written is read back to the letter."""

from __future__ import annotations

import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.data.loading import load_tasks
from robusttc.data.synthetic import make_planted_tasks
from robusttc.data.task import Task
from robusttc.data.taskset import TaskSet
from robusttc.data.writing import write_tasks
from robusttc.errors import UsageError

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


def test_a_failing_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = TaskSet([Task("a", ["t", "u"], ["x", "y"])])
    (file,) = write_tasks(old, tmp_path)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("robusttc.data.writing.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_tasks(TaskSet([Task("a", ["new", "u"], ["x", "y"])]), tmp_path)
    assert load_tasks(tmp_path) == old
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]
    assert stat.S_ISREG(file.stat().st_mode)

"""Writing tasks as files that `load_tasks` reads back to the letter."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from robusttc.data.task import Task
from robusttc.data.taskset import TaskSet
from robusttc.errors import UsageError, quote

__all__ = ["write_tasks"]


def write_tasks(tasks: TaskSet, path: str | Path) -> list[Path]:
    """Write tasks to a folder, one CSV file a task, or to one JSON Lines file.

    Parameters
    ----------
    tasks
        The tasks.
    path
        A folder, made if it is not there, or a file that ends in ``.jsonl``.

    Returns
    -------
    list of Path
        The files written. Each was written beside its place and then moved there whole.

    Raises
    ------
    UsageError
        If the name of a task cannot be the name of a file; write JSON Lines then.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        write_whole(path, lambda stream: write_jsonl(tasks, stream))
        return [path]
    files = {task.name: path / file_name_of(task.name) for task in tasks}
    path.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        write_whole(files[task.name], lambda stream, task=task: write_csv(task, stream))  # type: ignore[misc]
    return list(files.values())


def file_name_of(task_name: str) -> str:
    """Give the name of a task's CSV file."""
    bad = task_name.startswith(".") or Path(task_name).name != task_name or "\\" in task_name
    # A name that ends like a format would lose its ending when it is read back.
    from robusttc.data.readers import task_name_of

    if bad or task_name_of(Path(task_name)) != task_name or len(task_name.encode()) > 200:
        raise UsageError(
            "the name of a task cannot be the name of a file",
            got=quote(task_name),
            todo="write the tasks to one file that ends in .jsonl",
        )
    return f"{task_name}.csv"


def write_whole(path: Path, write: Callable[[TextIO], None]) -> None:
    """Write a file so that a crash leaves either the old one or the new one, never half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8", newline="") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_csv(task: Task, stream: TextIO) -> None:
    """Write one task as CSV with the columns text, label and split."""
    # Every field in quotes: an unquoted line break or blank would not come back as it was.
    writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["text", "label", "split"])
    writer.writerows(zip(task.texts, task.labels.tolist(), task.splits.tolist(), strict=True))


def write_jsonl(tasks: TaskSet, stream: TextIO) -> None:
    """Write all tasks as JSON Lines with a task column."""
    for task in tasks:
        for text, label, split in zip(task.texts, task.labels.tolist(), task.splits.tolist(), strict=True):
            row = {"task": task.name, "text": text, "label": label, "split": split}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")

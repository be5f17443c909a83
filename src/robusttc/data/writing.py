"""Writing tasks as files that `load_tasks` reads back unchanged."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from robusttc.data.loading import task_name_of
from robusttc.data.task import Task, TaskSet
from robusttc.errors import UsageError, quote
from robusttc.files import write_file

__all__ = ["write_tasks"]

MAX_FILE_NAME_BYTES = 200


def write_tasks(tasks: TaskSet, path: str | Path) -> list[Path]:
    """Write tasks to a folder, one CSV file per task, or to one JSON Lines file with a task column.

    Tasks that may not share have a further column ``may_share``. Rows in splits other than train, valid and
    test are read back with the ``split_values`` of `load_tasks`.

    Parameters
    ----------
    tasks
        The tasks.
    path
        A folder, created if it is missing, or a file that ends in ``.jsonl``.

    Returns
    -------
    list of Path
        The files, each written completely or not at all, readable by their owner alone.

    Raises
    ------
    UsageError
        If the name of a task cannot be the name of a file; write JSON Lines then.
    StoreError
        If a file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> tasks = TaskSet([Task("acme", ["hi", "bye"], ["greet", "leave"], may_share=False)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(write_tasks(tasks, folder)[0].read_text(), end="")
    "text","label","split","may_share"
    "hi","greet","train","false"
    "bye","leave","train","false"
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        lines = (
            json.dumps({"task": task.name, **row}, ensure_ascii=False) + "\n"
            for task in tasks
            for row in rows_of(task, private=False)
        )
        write_file(path, "".join(lines).encode())
        return [path]
    files = [path / file_name_of(task.name) for task in tasks]
    for file, task in zip(files, tasks, strict=True):
        stream = io.StringIO(newline="")
        columns = ["text", "label", "split", *([] if task.may_share else ["may_share"])]
        # Every field in quotes: an unquoted line break or blank would not come back as it was.
        writer = csv.DictWriter(stream, columns, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows_of(task, private="false"))
        write_file(file, stream.getvalue().encode())
    return files


def rows_of(task: Task, *, private: object) -> Iterator[dict[str, object]]:
    """Yield the rows of a task by column; `private` is how the format writes that a task may not share."""
    sharing = {} if task.may_share else {"may_share": private}
    for text, label, split in zip(task.texts, task.labels.tolist(), task.splits.tolist(), strict=True):
        yield {"text": text, "label": label, "split": split, **sharing}


def file_name_of(task_name: str) -> str:
    bad = task_name.startswith(".") or Path(task_name).name != task_name or "\\" in task_name
    # A name that ends like a format would lose its ending when it is read back.
    if bad or task_name_of(Path(task_name)) != task_name or len(task_name.encode()) > MAX_FILE_NAME_BYTES:
        todo = "write the tasks to one file that ends in .jsonl"
        raise UsageError("the name of a task cannot be the name of a file", got=quote(task_name), todo=todo)
    return f"{task_name}.csv"

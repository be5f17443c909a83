"""What the tests of the readers share: a file written, read, and its rows compared."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from robusttc.data import LoadedTasks, ReadOptions, Task, read_tasks

Row = tuple[str, str, str]

# Others work on the machine that runs the tests: the time of one example says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


@pytest.fixture(scope="session")
def read_file() -> Callable[..., LoadedTasks]:
    """Write one file of the given name into a folder of its own and read it."""

    def write_and_read(name: str, content: str | bytes, **options: Any) -> LoadedTasks:
        data = content.encode() if isinstance(content, str) else content
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
            return read_tasks(path, ReadOptions(**options))

    return write_and_read


@pytest.fixture(scope="session")
def rows_of() -> Callable[[Task], list[Row]]:
    """Give the rows of a task as text, label and split."""

    def rows(task: Task) -> list[Row]:
        return list(zip(task.texts, task.labels.tolist(), task.splits.tolist(), strict=True))

    return rows

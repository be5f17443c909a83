"""The tasks of a run, kept with it: what comes later needs their rows, and files elsewhere may change.

One Parquet file a task, named by the hash of the task's name, since a name may be anything. A file says whose
it is, so whoever finds one can tell; the manifest of the run has its SHA-256.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from robusttc.data import Task, TaskSet
from robusttc.errors import DataError, StoreError, UnknownTaskError, quote
from robusttc.files import explain_disk_errors, sync_folder, write_file
from robusttc.run.places import TASKS

__all__ = ["KeptTasks"]

COLUMNS = ("text", "label", "split")
NAME, MAY_SHARE, DRAWN = b"robusttc task", b"robusttc may share", b"robusttc splits drawn"
# What pyarrow raises on a damaged file.
ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError)


class KeptTasks:
    """The tasks that a run keeps.

    Parameters
    ----------
    run
        The run's folder.

    Examples
    --------
    >>> import tempfile
    >>> tasks = TaskSet([Task("acme", ["hi", "bye"], ["greet", "leave"])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     KeptTasks(Path(folder)).write(tasks)
    ...     KeptTasks(Path(folder)).read() == tasks
    True
    """

    def __init__(self, run: Path) -> None:
        self.folder = run / TASKS

    def place(self, name: str) -> Path:
        """Give the file of a task."""
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.parquet"

    def write(self, tasks: Iterable[Task]) -> None:
        """Keep tasks, each in the place of one of the same name; a file that is the same is left alone."""
        for task in tasks:
            content, place = as_parquet(task), self.place(task.name)
            if not place.is_file() or place.read_bytes() != content:
                write_file(place, content)

    def read(self, names: Iterable[str] | None = None) -> TaskSet:
        """Read tasks, in the order of their names.

        Parameters
        ----------
        names
            Which; None reads all.

        Raises
        ------
        UnknownTaskError
            If one of them is not kept.
        StoreError
            If a file is damaged, or the run keeps no tasks.
        """
        wanted = None if names is None else list(names)
        for name in wanted or ():
            if not self.place(name).is_file():
                raise UnknownTaskError(name, self.names())
        places = self.places() if wanted is None else [self.place(name) for name in wanted]
        if not places:
            raise StoreError(
                "the run keeps no tasks", where=repr(str(self.folder)), todo="fit it again in another folder"
            )
        return TaskSet(sorted((read_parquet(place) for place in places), key=lambda task: task.name))

    def names(self) -> list[str]:
        """Give the names of all kept tasks."""
        return sorted(task_name(read_schema(place), place) for place in self.places())

    def remove(self, names: Iterable[str]) -> None:
        """Remove tasks; those that are not there are gone already."""
        with explain_disk_errors("a task cannot be removed", self.folder):
            for name in names:
                self.place(name).unlink(missing_ok=True)
            if self.folder.is_dir():
                sync_folder(self.folder)

    def places(self) -> list[Path]:
        """Give the files of all tasks; hidden ones are half-written."""
        found = self.folder.glob("*.parquet") if self.folder.is_dir() else ()
        return sorted(path for path in found if not path.name.startswith("."))


def as_parquet(task: Task) -> bytes:
    """Write a task as the bytes of a Parquet file."""
    columns = [task.texts, task.labels.tolist(), task.splits.tolist()]
    facts = {MAY_SHARE: task.may_share, DRAWN: task.splits_drawn}
    metadata = {NAME: task.name.encode(), **{key: b"yes" if is_so else b"no" for key, is_so in facts.items()}}
    schema = pa.schema([(name, pa.large_string()) for name in COLUMNS], metadata=metadata)
    arrays = [pa.array(list(column), pa.large_string()) for column in columns]
    stream = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema), stream, compression="zstd", write_page_checksum=True
    )
    return stream.getvalue()


def read_schema(place: Path) -> pa.Schema:
    """Read what a file says of itself."""
    try:
        with pa.OSFile(str(place)) as source:
            return pq.read_schema(source)
    except ARROW_ERRORS as error:
        raise_damaged(place, str(error) or type(error).__name__)


def task_name(schema: pa.Schema, place: Path) -> str:
    """Give the name of the task that a file is of."""
    metadata = schema.metadata or {}
    if not {NAME, MAY_SHARE, DRAWN} <= metadata.keys() or schema.names != list(COLUMNS):
        raise_damaged(place, "no task that a run has kept")
    return str(metadata[NAME].decode())


def read_parquet(place: Path) -> Task:
    """Read the file of one task."""
    schema = read_schema(place)
    name = task_name(schema, place)
    try:
        with pq.ParquetFile(place, page_checksum_verification=True) as file:
            columns = [column.to_pylist() for column in file.read(use_threads=False).columns]
        texts, labels, splits = columns
        facts = {
            "may_share": schema.metadata[MAY_SHARE] == b"yes",
            "splits_drawn": schema.metadata[DRAWN] == b"yes",
        }
        return Task(name, texts, labels, splits, other_splits=sorted({*splits}), **facts)
    except (*ARROW_ERRORS, DataError) as error:
        raise_damaged(place, str(error) or type(error).__name__)


def raise_damaged(place: Path, why: str) -> NoReturn:
    """Say that a file is not what was written."""
    raise StoreError(
        "a task that the run has kept is damaged",
        where=repr(str(place)),
        got=quote(why),
        todo="bring the file back from a copy",
    )

"""The rows of a run's tasks, kept with it: what comes later needs them, and files elsewhere may change.

One Parquet file per task, named by the hash of the task's name, since a name may be anything. A task that was
learned from a handful of examples has a file of examples, and one of what is its own in the few-shot model.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from robusttc.data import Task, TaskSet
from robusttc.errors import DataError, StoreError, quote
from robusttc.files import decode_json, encode_json
from robusttc.jobs import Result, pack, unpack
from robusttc.run.version import Version

if TYPE_CHECKING:
    from robusttc.fewshot import ClusterFewShot, FewShotModel

__all__ = [
    "adapted_files",
    "adapted_names",
    "pack_adapted",
    "pack_names",
    "pack_task",
    "read_adapted",
    "read_examples",
    "read_task",
    "read_tasks",
    "task_file",
]

TASKS, ADAPTED = "tasks", "adapted"
ADAPTED_NAMES = f"{ADAPTED}/names.json"
COLUMNS = ("text", "label", "split")
NAME, MAY_SHARE, DRAWN = b"robusttc task", b"robusttc may share", b"robusttc splits drawn"
# What pyarrow raises on a damaged file.
ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError)


def hash_name(name: str) -> str:
    """Return what files of a task are named by."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def task_file(name: str) -> str:
    """Return the path of the rows of a task in a version."""
    return f"{TASKS}/{hash_name(name)}.parquet"


def pack_task(task: Task) -> bytes:
    """Return a task as the bytes of a Parquet file: equal tasks, equal bytes."""
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


def unpack_task(content: bytes, path: Path) -> Task:
    """Return the task from the bytes of `pack_task`."""
    try:
        table = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True).read(use_threads=False)
        metadata = table.schema.metadata or {}
        if not {NAME, MAY_SHARE, DRAWN} <= metadata.keys() or table.schema.names != list(COLUMNS):
            raise_damaged(path, "not the rows of a task")
        texts, labels, splits = (column.to_pylist() for column in table.columns)
        facts = {"may_share": metadata[MAY_SHARE] == b"yes", "splits_drawn": metadata[DRAWN] == b"yes"}
        return Task(metadata[NAME].decode(), texts, labels, splits, other_splits=sorted({*splits}), **facts)
    except StoreError:
        raise
    except (*ARROW_ERRORS, DataError) as error:
        raise_damaged(path, str(error) or type(error).__name__)


def read_task(version: Version, name: str) -> Task | None:
    """Return the rows of a task; None if the version has none of this name.

    Raises
    ------
    StoreError
        If its file is damaged.
    """
    file = task_file(name)
    return unpack_task(version.read(file), version.path(file)) if file in version else None


def read_tasks(version: Version) -> TaskSet:
    """Return all tasks that have rows, in the order of their names."""
    found = [unpack_task(version.read(file), version.path(file)) for file in version.names(TASKS)]
    return TaskSet(sorted(found, key=lambda task: task.name))


def adapted_files(name: str) -> tuple[str, str]:
    """Return the paths of the model and of the examples of an adapted task."""
    return f"{ADAPTED}/{hash_name(name)}.safetensors", f"{ADAPTED}/{hash_name(name)}.parquet"


def adapted_names(version: Version) -> tuple[str, ...]:
    """Return the names of the adapted tasks, without reading their models."""
    if ADAPTED_NAMES not in version:
        return ()
    names = decode_json(version.read(ADAPTED_NAMES).decode())
    return tuple(name for name in names if adapted_files(name)[0] in version)  # others were erased later


def pack_names(names: list[str]) -> Mapping[str, bytes]:
    """Return the file that lists the adapted tasks."""
    return {ADAPTED_NAMES: encode_json(sorted(names)).encode()}


def pack_adapted(model: FewShotModel, examples: Task) -> Mapping[str, bytes]:
    """Return the files of an adapted task, by path; its layers are those of the run's learner."""
    file, rows = adapted_files(model.name)
    return {file: pack(Result(*model.describe())), rows: pack_task(examples)}


def read_adapted(version: Version, name: str, learner: ClusterFewShot) -> FewShotModel:
    """Return the model of an adapted task, on top of the learner of the run.

    Raises
    ------
    StoreError
        If it is damaged, or of another task or learner.
    """
    file = adapted_files(name)[0]
    stored = unpack(version.read(file), where=repr(str(version.path(file))))
    model = learner.restore(stored.values, stored.arrays)
    if model.name != name:
        raise_damaged(version.path(file), f"the model of {quote(model.name)}, not of {quote(name)}")
    return model


def read_examples(version: Version, name: str) -> Task:
    """Return the examples of an adapted task."""
    file = adapted_files(name)[1]
    return unpack_task(version.read(file), version.path(file))


def raise_damaged(path: Path, got: str) -> NoReturn:
    """Raise the StoreError of a file that is not what was written."""
    raise StoreError(
        "a task of the run is damaged",
        where=repr(str(path)),
        got=quote(got),
        todo="bring the file back from a copy",
    )

"""Hugging Face `datasets` folders, as `save_to_disk` writes them, read through pyarrow alone.

A data set is a folder with ``state.json`` (the names of its Arrow files), ``dataset_info.json`` (its
features) and the Arrow files; a dictionary of data sets is a folder with ``dataset_dict.json`` and one such
folder a split.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from robusttc.data.problems import FileFault
from robusttc.data.readers.arrow import ARROW_ERRORS, add_batches, choose_columns, reason_of
from robusttc.data.readers.files import read_text
from robusttc.data.rows import MISSING, FileRows
from robusttc.errors import quote
from robusttc.files import InvalidJSONError, decode_json

__all__ = ["read_hugging_face"]

INDICES = ("_indices_data_files", "_indices_files")


def read_hugging_face(folder: Path, rows: FileRows) -> None:
    """Read a data set, or each split of a dictionary of data sets; class labels become their names."""
    if not (folder / "dataset_dict.json").is_file():
        read_split(folder, rows, MISSING, first_row=1)
        return
    splits = read_object(folder / "dataset_dict.json").get("splits")
    if not isinstance(splits, list) or not splits:
        raise FileFault(
            "dataset_dict.json names no splits", got=quote(splits), expected='{"splits": [names]}'
        )
    first_row = 1
    for split in splits:
        first_row = read_split(folder / plain_name(split), rows, split, first_row)


def read_split(folder: Path, rows: FileRows, split: object, first_row: int) -> int:
    """Read one data set; gives the number of the row after its last."""
    state = read_object(folder / "state.json")
    files = state.get("_data_files")
    if not isinstance(files, list) or not files or not all(isinstance(file, dict) for file in files):
        raise FileFault(f"{folder.name}/state.json names no data files", got=quote(files))
    if any(state.get(key) for key in INDICES):
        raise FileFault(
            f"{folder.name}/state.json chooses rows by a file of indices, which only old versions wrote",
            todo="save the data set again with flatten_indices() and a newer version of datasets",
        )
    features = read_object(folder / "dataset_info.json").get("features")
    for file in files:
        path = folder / plain_name(file.get("filename"))
        # A pipe would keep us waiting for ever.
        if not path.is_file():
            raise FileFault(f"the data file {folder.name}/{path.name} is missing")
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
                columns = choose_columns(stream.schema, rows)
                names: dict[str, list[str]] = {
                    role: found
                    for role in ("label", "task")
                    if role in columns and (found := class_names(features, columns[role]))
                }
                for batch in stream:
                    # Offsets that point outside the file would read foreign memory.
                    batch.validate(full=True)
                    first_row = add_batches(
                        [batch], columns, rows, class_names=names, split=split, first_row=first_row
                    )
        except ARROW_ERRORS as error:
            what = f"{folder.name}/{path.name} is not an Arrow file, or it is damaged"
            raise FileFault(what, got=reason_of(error)) from None
    return first_row


def plain_name(name: object) -> str:
    """Refuse a file name that would lead out of the folder."""
    if not isinstance(name, str) or Path(name).name != name or name in {"", ".", ".."} or "\0" in name:
        raise FileFault(
            "the data set names a file that is not in its folder",
            got=quote(name),
            expected="a plain file name",
        )
    return name


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that must hold an object."""
    if not path.is_file():
        raise FileFault(f"{path.parent.name}/{path.name} is missing from the data set")
    try:
        value = decode_json(read_text(path, "utf-8"))
    except InvalidJSONError as fault:
        raise FileFault(f"{path.name} is not JSON", got=fault.what) from None
    if not isinstance(value, dict):
        raise FileFault(f"{path.name} is not a JSON object", got=quote(value))
    return value


def class_names(features: object, column: str) -> list[str] | None:
    """Give the names behind the integers of a ClassLabel column; None for a column of another kind."""
    feature = features.get(column) if isinstance(features, dict) else None
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names = feature.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise FileFault(f"the class label {quote(column)} has no names", got=quote(names))
    if len(set(names)) < len(names):
        raise FileFault(f"the class label {quote(column)} has a name twice", got=quote(names))
    return names

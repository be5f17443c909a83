"""Hugging Face `datasets` folders, as `save_to_disk` writes them, read through pyarrow alone.

A data set is a folder with ``state.json`` (the names of its Arrow files), ``dataset_info.json`` (its
features) and the Arrow files; a dictionary of data sets is a folder with ``dataset_dict.json`` and one such
folder per split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from robusttc.data.tables import Row, Table, arrow_rows, damage_reported
from robusttc.data.text_files import ProblemList, ReadError, read_text
from robusttc.errors import quote
from robusttc.files import InvalidJSONError, decode_json

__all__ = ["is_hugging_face_folder", "read_hugging_face"]

INDICES = ("_indices_data_files", "_indices_files")


def is_hugging_face_folder(folder: Path) -> bool:
    """Return whether a folder was written by `save_to_disk`."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def read_hugging_face(folder: Path, problems: ProblemList) -> Iterator[tuple[str | None, Table]]:
    """Yield a table per Arrow file, with the split that its folder is for; class labels become their names.

    Rows are numbered over all files. A part that is missing or damaged is a `ReadError`.
    """
    import pyarrow as pa

    splits: list[Any] = [None]
    if (folder / "dataset_dict.json").is_file():
        splits = read_list(folder, "dataset_dict.json", "splits")
    n_rows = 0
    for split in splits:
        part = folder if split is None else folder / plain_name(split)
        files = find_data_files(part)
        features = read_object(part, "dataset_info.json").get("features")
        for file in files:
            damaged = f"{part.name}/{file.name} is not an Arrow file, or it is damaged"
            with damage_reported(damaged), pa.memory_map(str(file)) as source:
                data = pa.ipc.open_stream(source).read_all()
                data.validate(full=True)  # offsets that point outside the file would read foreign memory
                yield split, make_table(str(folder), data, features, n_rows + 1, problems)
                n_rows += data.num_rows


def find_data_files(folder: Path) -> list[Path]:
    files = read_list(folder, "state.json", "_data_files")
    if any(read_object(folder, "state.json").get(key) for key in INDICES):
        raise ReadError(
            f"{folder.name}/state.json selects rows by a file of indices, which old versions wrote",
            todo="save the data set again with flatten_indices() and a newer version of datasets",
        )
    paths = [folder / plain_name(file.get("filename") if isinstance(file, dict) else file) for file in files]
    for path in paths:
        if not path.is_file():  # a pipe would keep us waiting for ever
            raise ReadError(f"the data file {folder.name}/{path.name} is missing")
    return paths


def make_table(path: str, data: Any, features: object, first_row: int, problems: ProblemList) -> Table:
    """Return the rows of Arrow data, with names for class numbers; an unknown class is a problem."""

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        classes = [class_names(features, column) for column in columns]
        for row, cells in arrow_rows(data.to_batches(), columns, first_row):
            named = []
            for column, names, cell in zip(columns, classes, cells, strict=True):
                is_class = isinstance(cell, int) and 0 <= cell < len(names or ())
                if names and cell is not None and not is_class:
                    what = f"the value of {quote(column)} is not one of the data set's classes"
                    expected = f"a number from 0 to {len(names) - 1}"
                    problems.add_row(path, row, what, unit="row", got=quote(cell), expected=expected)
                    break
                named.append(names[cell] if names and is_class else cell)
            else:
                yield row, named

    types = {column.name: str(column.type) for column in data.schema}
    return Table(path, tuple(data.schema.names), rows, unit="row", types=types)


def plain_name(name: object) -> str:
    """Refuse a file name that would lead out of the folder."""
    if not isinstance(name, str) or Path(name).name != name or name in {"", ".", ".."} or "\0" in name:
        what = "the data set names a file that is not in its folder"
        raise ReadError(what, got=quote(name), expected="a plain file name")
    return name


def read_object(folder: Path, name: str) -> dict[str, Any]:
    if not (folder / name).is_file():
        raise ReadError(f"{folder.name}/{name} is missing from the data set")
    try:
        value = decode_json(read_text(folder / name, "utf-8"))
    except InvalidJSONError as error:
        raise ReadError(f"{name} is not JSON", got=error.what) from None
    if not isinstance(value, dict):
        raise ReadError(f"{name} is not a JSON object", got=quote(value))
    return value


def read_list(folder: Path, name: str, key: str) -> list[Any]:
    found = read_object(folder, name).get(key)
    if not isinstance(found, list) or not found:
        what = f"{folder.name}/{name} names no {'splits' if key == 'splits' else 'data files'}"
        raise ReadError(what, got=quote(found), expected="a list of names")
    return found


def class_names(features: object, column: str | None) -> list[str] | None:
    """Return the names behind the integers of a ClassLabel column; None for a column of another kind."""
    feature = features.get(column) if isinstance(features, dict) else None
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names = feature.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ReadError(f"the class label {quote(column)} has no names", got=quote(names))
    if len(set(names)) < len(names):
        raise ReadError(f"the class label {quote(column)} has a name twice", got=quote(names))
    return names

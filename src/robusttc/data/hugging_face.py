"""Hugging Face `datasets` folders, as `save_to_disk` writes them, read through pyarrow alone.

A data set is a folder with ``state.json`` (the names of its Arrow files), ``dataset_info.json`` (its
features) and the Arrow files; a dictionary of data sets is a folder with ``dataset_dict.json`` and one such
folder per split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from robusttc.data.tables import Row, Table, arrow_errors, arrow_rows
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

    Raises
    ------
    ReadError
        If a part of the data set is missing or damaged.
    """
    if not (folder / "dataset_dict.json").is_file():
        yield from ((None, table) for table in DataSet(folder, folder, problems).tables())
        return
    splits = read_object(folder / "dataset_dict.json").get("splits")
    if not isinstance(splits, list) or not splits:
        raise ReadError(
            "dataset_dict.json names no splits", got=quote(splits), expected='{"splits": [names]}'
        )
    n_rows = 0
    for split in splits:
        part = DataSet(folder, folder / plain_name(split), problems, n_rows)
        for table in part.tables():
            yield split, table
        n_rows = part.n_rows


class DataSet:
    """One data set of a folder; rows are numbered over all of its parts, after `n_rows` earlier ones."""

    def __init__(self, root: Path, folder: Path, problems: ProblemList, n_rows: int = 0) -> None:
        self.path = str(root)
        self.folder = folder
        self.problems = problems
        self.n_rows = n_rows

    def tables(self) -> Iterator[Table]:
        """Yield a table per Arrow file."""
        import pyarrow as pa

        state = read_object(self.folder / "state.json")
        files = state.get("_data_files")
        if not isinstance(files, list) or not files or not all(isinstance(file, dict) for file in files):
            raise ReadError(f"{self.folder.name}/state.json names no data files", got=quote(files))
        if any(state.get(key) for key in INDICES):
            raise ReadError(
                f"{self.folder.name}/state.json selects rows by a file of indices, which old versions wrote",
                todo="save the data set again with flatten_indices() and a newer version of datasets",
            )
        features = read_object(self.folder / "dataset_info.json").get("features")
        for file in files:
            path = self.folder / plain_name(file.get("filename"))
            if not path.is_file():  # a pipe would keep us waiting for ever
                raise ReadError(f"the data file {self.folder.name}/{path.name} is missing")
            damaged = f"{self.folder.name}/{path.name} is not an Arrow file, or it is damaged"
            with (
                arrow_errors(damaged),
                pa.memory_map(str(path)) as source,
                pa.ipc.open_stream(source) as stream,
            ):
                yield self.make_table(stream, features, damaged)

    def make_table(self, stream: Any, features: object, damaged: str) -> Table:
        """Return the table of an open Arrow stream."""
        names = tuple(stream.schema.names)
        types = {name: str(stream.schema.field(at).type) for at, name in enumerate(names)}

        def rows(columns: Sequence[str | None]) -> Iterator[Row]:
            classes = [None if column is None else class_names(features, column) for column in columns]
            with arrow_errors(damaged):
                for batch in stream:
                    batch.validate(full=True)  # offsets that point outside the file would read foreign memory
                    for row, cells in arrow_rows([batch], columns, self.n_rows + 1):
                        if (named := self.name_classes(row, cells, columns, classes)) is not None:
                            yield row, named
                    self.n_rows += batch.num_rows

        return Table(self.path, names, rows, unit="row", types=types)

    def name_classes(
        self,
        row: int,
        cells: Sequence[Any],
        columns: Sequence[str | None],
        classes: Sequence[Sequence[str] | None],
    ) -> Sequence[Any] | None:
        """Return the cells with names for class numbers; None, and a problem, for an unknown class."""
        named = list(cells)
        for at, names in enumerate(classes):
            if names is None or named[at] is None:
                continue
            if not isinstance(named[at], int) or not 0 <= named[at] < len(names):
                self.problems.add_row(
                    self.path,
                    row,
                    f"the value of {quote(columns[at])} is not one of the data set's classes",
                    unit="row",
                    got=quote(named[at]),
                    expected=f"a number from 0 to {len(names) - 1}",
                )
                return None
            named[at] = names[named[at]]
        return named


def plain_name(name: object) -> str:
    """Refuse a file name that would lead out of the folder."""
    if not isinstance(name, str) or Path(name).name != name or name in {"", ".", ".."} or "\0" in name:
        what = "the data set names a file that is not in its folder"
        raise ReadError(what, got=quote(name), expected="a plain file name")
    return name


def read_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file."""
    if not path.is_file():
        raise ReadError(f"{path.parent.name}/{path.name} is missing from the data set")
    try:
        value = decode_json(read_text(path, "utf-8"))
    except InvalidJSONError as error:
        raise ReadError(f"{path.name} is not JSON", got=error.what) from None
    if not isinstance(value, dict):
        raise ReadError(f"{path.name} is not a JSON object", got=quote(value))
    return value


def class_names(features: object, column: str) -> list[str] | None:
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

"""One reader a format: each takes a path and hands raw rows, with their lines, to a `FileRows`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from robusttc.data.readers.files import ending_of, is_gzipped
from robusttc.data.rows import FileRows

__all__ = ["FORMATS", "HUGGING_FACE", "Format", "find_format", "is_hugging_face_folder", "task_name_of"]


@dataclass(frozen=True)
class Format:
    """A file format: its reader, found when it is first needed, and what it calls a row's number."""

    module: str
    function: str
    unit: str = "line"

    def read(self, path: Path, rows: FileRows) -> None:
        """Read a file of this format."""
        # Late, because pyarrow and the YAML parser take longer to import than most files to read.
        module = import_module(f"robusttc.data.readers.{self.module}")
        reader: Callable[[Path, FileRows], None] = getattr(module, self.function)
        reader(path, rows)


DELIMITED = Format("delimited", "read_delimited")
JSONL = Format("jsonl", "read_jsonl")
RASA_YAML = Format("rasa_yaml", "read_rasa_yaml")
HUGGING_FACE = Format("hugging_face", "read_hugging_face", unit="row")

FORMATS = {
    ".csv": DELIMITED,
    ".tsv": DELIMITED,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".parquet": Format("parquet", "read_parquet", unit="row"),
    ".yml": RASA_YAML,
    ".yaml": RASA_YAML,
    ".md": Format("rasa_markdown", "read_rasa_markdown"),
    ".json": Format("rasa_json", "read_rasa_json"),
}


def find_format(path: Path) -> Format | None:
    """Give the format of a file by its name (also ``.gz``), or None."""
    return FORMATS.get(ending_of(path))


def task_name_of(path: Path) -> str:
    """Give the task that a file is named after: its name without the endings of its format.

    >>> task_name_of(Path("clients/acme.v2.csv.gz"))
    'acme.v2'
    """
    name = path.stem if is_gzipped(path) and find_format(path) else path.name
    return Path(name).stem if find_format(Path(name)) else name


def is_hugging_face_folder(folder: Path) -> bool:
    """Tell whether a folder was written by `save_to_disk` of Hugging Face `datasets`."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()

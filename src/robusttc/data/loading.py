"""From a path to a `TaskSet`: finding the files, reading each, and judging the tasks as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robusttc.data.options import ReadOptions
from robusttc.data.problems import FileFault, Problems
from robusttc.data.readers import (
    FORMATS,
    HUGGING_FACE,
    Format,
    find_format,
    is_hugging_face_folder,
    task_name_of,
)
from robusttc.data.rows import FileRows, TaskRows
from robusttc.data.taskset import TaskSet
from robusttc.errors import DataError, DataWarning, Problem, TaskFilesError, UsageError, quote
from robusttc.random import RandomState, run_seed

__all__ = ["LoadedTasks", "load_tasks", "read_tasks"]

ALL_TASKS = "tasks"  # the name of a file that holds the tasks of its whole folder
RENAME = "rename the file, or give it as the path if it is the only one that is meant"


@dataclass(frozen=True)
class LoadedTasks:
    """Tasks as they were read, with what was left out on the way.

    Attributes
    ----------
    tasks
        The tasks.
    files
        The files that were read, as they were named.
    ignored
        Files of the folder that are no task files and were left alone.
    skipped
        The first of the rows that were left out, each with its place and reason.
    n_skipped
        How many rows were left out.
    """

    tasks: TaskSet
    files: tuple[str, ...]
    ignored: tuple[str, ...]
    skipped: tuple[Problem, ...]
    n_skipped: int


def load_tasks(
    path: str | Path,
    *,
    text_column: str = "text",
    label_column: str = "label",
    split_column: str | None = None,
    task_column: str | None = None,
    split_values: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    skip_bad_rows: bool = False,
    allow_incomplete: bool = False,
    random_state: RandomState = 0,
) -> TaskSet:
    """Read tasks from a folder (one file a task) or from one file with a ``task`` column.

    CSV, TSV, JSON Lines and Parquet, each also gzipped; Rasa NLU files in YAML, Markdown and JSON; folders
    that Hugging Face `datasets` saved to disk. Where the rows have no split they are split 64/16/20 within
    each label, by `random_state`. A folder with one file named ``tasks`` is read from that file.

    Parameters
    ----------
    path
        The folder or file.
    text_column, label_column, split_column, task_column, split_values, delimiter, encoding
        How the files are to be read; see `ReadOptions`.
    skip_bad_rows
        Leave out rows that are wrong, with a `DataWarning` that counts them.
    allow_incomplete
        Keep tasks that cannot be trained as they are.
    random_state
        The seed of the splits.

    Returns
    -------
    TaskSet
        The tasks: of a folder by file name, of a file in the order in which they first occur.

    Raises
    ------
    TaskFilesError
        If anything is wrong with the files; it lists every problem with its place.
    """
    options = ReadOptions(
        text_column=text_column,
        label_column=label_column,
        split_column=split_column,
        task_column=task_column,
        split_values=dict(split_values or {}),
        delimiter=delimiter,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        allow_incomplete=allow_incomplete,
        seed=run_seed(random_state),
    )
    loaded = read_tasks(path, options)
    if loaded.n_skipped:
        warnings.warn(
            f"{loaded.n_skipped:,} bad rows were left out, the first: {loaded.skipped[0]}",
            DataWarning,
            stacklevel=2,
        )
    return loaded.tasks


def read_tasks(path: str | Path, options: ReadOptions | None = None) -> LoadedTasks:
    """Read tasks as `load_tasks` does, and tell what was left out.

    Raises
    ------
    TaskFilesError
        If anything is wrong with the files; it lists every problem with its place.
    """
    options = options or ReadOptions()
    problems = Problems()
    if not str(path):
        raise UsageError("the path is empty", expected="a folder of task files, or a file")
    sources: list[tuple[Path, Format]] = []
    ignored: list[Path] = []
    with problems.catching(str(path)):
        sources, ignored = find_sources(Path(path), problems)
    collected: dict[str, TaskRows] = {}
    for source, file_format in sources:
        read_source(source, file_format, options, problems, collected)
    left_out = [file for file in ignored if find_format(file) and not is_about_the_folder(file)]
    if left_out and ALL_TASKS in collected:
        what = "the file names no tasks, so the task files beside it would be left out"
        problems.add(Problem(str(sources[0][0]), what, got=quote(left_out[0].name), todo=RENAME))
    # Taken out one by one, so that the rows of all tasks are not there twice.
    tasks = [collected.pop(name).finish(options, problems) for name in list(collected)]

    if problems.n_others and options.skip_bad_rows:
        raise TaskFilesError(problems.first_others, problems.n_others)
    if problems.n_all and not options.skip_bad_rows:
        raise TaskFilesError(problems.first, problems.n_all, todo=advise(problems))
    return LoadedTasks(
        tasks=TaskSet(tasks),
        files=tuple(str(source) for source, _ in sources),
        ignored=tuple(str(file) for file in ignored),
        skipped=problems.first_rows,
        n_skipped=problems.n_rows,
    )


def read_source(
    source: Path,
    file_format: Format,
    options: ReadOptions,
    problems: Problems,
    collected: dict[str, TaskRows],
) -> None:
    """Read one file (or Hugging Face folder) into `collected`; what is wrong is noted in `problems`."""
    with problems.catching(str(source), file_format.unit):
        files = [source] if source.is_file() else [file for file in source.rglob("*") if file.is_file()]
        size_bytes = sum(file.stat().st_size for file in files)
        rows = FileRows(
            str(source), task_name_of(source), size_bytes, options, problems, collected, file_format.unit
        )
        n_before = problems.n_all
        file_format.read(source, rows)
        if rows.n_rows == 0 and problems.n_all == n_before:
            raise FileFault("the file has no rows", expected="at least one row of text and label")


def advise(problems: Problems) -> str | None:
    """Say what can be done about the problems as a whole."""
    if not problems.n_rows:
        return None
    noun = "row" if problems.n_rows == 1 else "rows"
    return f"mend the files, or leave out the {problems.n_rows:,} bad {noun} with --skip-bad-rows"


def find_sources(path: Path, problems: Problems) -> tuple[list[tuple[Path, Format]], list[Path]]:
    """Give the files to read with their formats, and the files that are left alone."""
    if not path.exists():
        raise DataError(
            "no such file or folder", where=quote(str(path)), expected="a folder of task files, or a file"
        )
    if not path.is_dir():
        return ([(path, file_format)] if (file_format := check_file(path, problems)) else []), []
    if is_hugging_face_folder(path):
        return [(path, HUGGING_FACE)], []

    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    # One file that holds all tasks may have company (a README, lists of names) that is not task data.
    whole = [entry for entry in entries if task_name_of(entry) == ALL_TASKS and find_format(entry)]
    if len(whole) == 1 and whole[0].is_file():
        sources, _ = find_sources(whole[0], problems)
        return sources, [entry for entry in entries if entry != whole[0]]

    sources, ignored = [], []
    for entry in entries:
        if entry.is_dir() and is_hugging_face_folder(entry):
            sources.append((entry, HUGGING_FACE))
        elif entry.is_file() and (find_format(entry) is None or is_about_the_folder(entry)):
            ignored.append(entry)
        elif file_format := check_file(entry, problems):
            sources.append((entry, file_format))
    if not sources and not problems.n_all:
        problems.add(
            Problem(
                str(path),
                "the folder has no task files",
                got=f"{len(ignored)} other files" if ignored else "an empty folder",
                expected=f"files that end in {', '.join(FORMATS)}, also with .gz",
            )
        )
    return sources, ignored


def check_file(path: Path, problems: Problems) -> Format | None:
    """Give the format of a file; what cannot be read as a task file is noted."""
    file_format = find_format(path)
    if path.is_dir():
        what = "a directory where a file was meant" if file_format else "a folder inside the folder of tasks"
        todo = "move it away, or give it as the path if the tasks are in there"
        problems.add(Problem(str(path), what, expected="one file a task", todo=todo))
        return None
    # A pipe or a device could keep us waiting for ever.
    if not path.is_file():
        problems.add(Problem(str(path), "not a regular file", expected="one file a task"))
        return None
    if file_format is None:
        expected = f"a file that ends in {', '.join(FORMATS)}, also with .gz"
        problems.add(Problem(str(path), "not a kind of file that can be read", expected=expected))
    return file_format


def is_about_the_folder(path: Path) -> bool:
    """Tell the Markdown files that describe a folder from Rasa's training data."""
    stem = path.name.split(".")[0].lower()
    return path.suffix.lower() == ".md" and stem in {"readme", "license", "changelog", "contributing"}

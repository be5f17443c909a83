"""From a path or a pandas frame to a `TaskSet`: find the files, find the columns, check every row and task.

All problems are looked for and reported with their places; nothing is repaired or dropped silently.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robusttc.data.hugging_face import is_hugging_face_folder, read_hugging_face
from robusttc.data.options import KNOWN_NAMES, ROLES, ReadOptions, find_columns
from robusttc.data.rows import RowCollector, Source, TaskRows
from robusttc.data.tables import TABLE_ENDINGS, Table, ending_of, normalise_name, open_tables
from robusttc.data.task import SHARES, Task, TaskSet
from robusttc.data.text_files import ProblemList, ReadError, is_gzipped
from robusttc.errors import DataError, DataWarning, Problem, TaskFilesError, UsageError, quote
from robusttc.formatting import count
from robusttc.random import RandomState, run_seed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoadedTasks", "load_tasks", "read_examples", "read_tasks", "task_name_of"]

RASA_ENDINGS = (".yml", ".yaml", ".md", ".json")
ENDINGS = (*TABLE_ENDINGS, *RASA_ENDINGS)
ALL_TASKS = "tasks"  # the name of a file that holds the tasks of its whole folder
ABOUT_THE_FOLDER = {"readme", "license", "changelog", "contributing"}
RASA_PROJECT_FILES = ("config.yml", "config.yaml", "domain.yml", "domain.yaml")

NEARLY_ALL = 0.9
MIN_ROWS_TO_JUDGE = 5
MAX_NOTED_FILES = 3

log = logging.getLogger("robusttc")


@dataclass(frozen=True)
class LoadedTasks:
    """Tasks as they were read, and what a user should know about the reading.

    Attributes
    ----------
    tasks
        The tasks.
    files
        The files that were read, as they were named.
    ignored
        Files of the folder that are not task files and were not read.
    notes
        Decisions that the reader made: columns that were recognised, sheets that were not read.
    skipped
        The first of the rows that were left out, each with its place and reason.
    n_skipped
        How many rows were left out.
    """

    tasks: TaskSet
    files: tuple[str, ...]
    ignored: tuple[str, ...]
    notes: tuple[str, ...]
    skipped: tuple[Problem, ...]
    n_skipped: int


def load_tasks(
    source: str | Path | pd.DataFrame,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    task_column: str | None = None,
    split_values: Mapping[str, str] | None = None,
    shares: Sequence[float] = SHARES,
    delimiter: str | None = None,
    encoding: str | None = None,
    skip_bad_rows: bool = False,
    allow_incomplete: bool = False,
    random_state: RandomState = 0,
) -> TaskSet:
    """Read tasks from a folder (one file per task), from one file with a ``task`` column, or from a frame.

    CSV, TSV, JSON Lines, Parquet and Excel, each also gzipped; Rasa NLU files in YAML, Markdown and JSON, and
    folders with one Rasa project each; folders that Hugging Face `datasets` saved to disk; pandas frames. A
    folder with one file named ``tasks`` is read from that file alone.

    Parameters
    ----------
    source
        The folder, file or frame.
    text_column, label_column, split_column, task_column, split_values, shares, delimiter, encoding
        How the files are read; see `ReadOptions`. Columns that were recognised by another usual name are
        logged (logger ``robusttc``, level INFO); `read_tasks` returns them.
    skip_bad_rows
        Leave out bad rows, with a `DataWarning` that counts them.
    allow_incomplete
        Keep tasks that cannot be trained as they are.
    random_state
        The seed of the splits.

    Returns
    -------
    TaskSet
        The tasks: of a folder by file name, of a file or frame in the order in which they first occur.

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
        shares=shares,
        delimiter=delimiter,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        allow_incomplete=allow_incomplete,
        seed=run_seed(random_state),
    )
    loaded = read_tasks(source, options)
    for note in loaded.notes:
        log.info(note)
    if loaded.n_skipped:
        skipped = f"{count(loaded.n_skipped, 'bad row')} left out, the first: {loaded.skipped[0]}"
        warnings.warn(skipped, DataWarning, stacklevel=2)
    return loaded.tasks


def read_tasks(source: str | Path | pd.DataFrame, options: ReadOptions | None = None) -> LoadedTasks:
    """Read tasks as `load_tasks` does, and return also what was left out or decided on the way.

    Raises
    ------
    TaskFilesError
        If anything is wrong with the files; it lists every problem with its place.
    """
    reader = Reader(options or ReadOptions())
    if isinstance(source, str | Path):
        if not str(source):
            raise UsageError("the path is empty", expected="a folder of task files, or a file")
        sources, ignored = reader.find(Path(source))
    elif hasattr(source, "iloc") and hasattr(source, "columns"):
        sources, ignored = [Source(source, ALL_TASKS, (source,))], []
    else:
        raise UsageError(
            "tasks cannot be read from this", got=quote(source), expected="a path or a DataFrame"
        )
    for one in sources:
        reader.read(one)
    if reader.skipped_task_files and ALL_TASKS in reader.collected:
        reader.problems.add(
            Problem(
                str(sources[0].path),
                "the file names no tasks, so the task files beside it would be left out",
                got=quote(reader.skipped_task_files[0].name),
                todo="rename the file, or pass its own path if it is the only one that is meant",
            )
        )
    return reader.finish(sources, ignored)


def read_examples(path: Path, name: str, options: ReadOptions | None = None) -> LoadedTasks:
    """Read one file as one task of this name; without a split column, all of its rows are for training.

    Raises
    ------
    TaskFilesError
        If anything is wrong with the file; it lists every problem with its place.
    DataError
        If there is no such file, or it has several tasks.
    """
    if path.is_dir():
        raise DataError("a folder instead of a file", where=quote(str(path)), expected="one file")
    options = replace(options or ReadOptions(allow_incomplete=True), shares=(1.0, 0.0, 0.0))
    loaded = read_tasks(path, options)
    if len(loaded.tasks) > 1:
        raise DataError(
            "the file has several tasks",
            where=str(path),
            got=", ".join(quote(task) for task in loaded.tasks.names[:3]),
            expected="the examples of one task",
        )
    (task,) = loaded.tasks
    columns = (task.texts, task.label_names, task.label_codes, task.split_names, task.split_codes)
    return replace(loaded, tasks=TaskSet([Task.from_codes(name, *columns, task.may_share)]))


def task_name_of(path: Path) -> str:
    """Return the task that a file is named after: its name without the endings of its format.

    >>> task_name_of(Path("clients/acme.v2.csv.gz"))
    'acme.v2'
    """
    if ending_of(path) not in ENDINGS:
        return path.name
    return Path(path.stem if is_gzipped(path) else path.name).stem


class Reader:
    """Reads sources one after the other and collects rows by task, problems and notes."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.problems = ProblemList()
        self.collected: dict[str, TaskRows] = {}
        self.skipped_task_files: list[Path] = []
        self.recognised: dict[tuple[tuple[str, str], ...], list[str]] = {}
        self.notes: list[str] = []
        self.mostly_bad: list[str] = []

    # --- Finding files

    def find(self, path: Path) -> tuple[list[Source], list[Path]]:
        """Return what is to be read, and the files that are ignored."""
        sources: list[Source] = []
        ignored: list[Path] = []
        with self.problems.collecting(str(path)):
            if not path.exists():
                raise DataError(
                    "no such file or folder",
                    where=quote(str(path)),
                    expected="a folder of task files, or a file",
                )
            sources, ignored = self._find(path)
        return sources, ignored

    def _find(self, path: Path) -> tuple[list[Source], list[Path]]:
        if not path.is_dir():
            return ([Source(path, task_name_of(path), (path,))] if self._is_task_file(path) else []), []
        if is_hugging_face_folder(path):
            return [Source(path, path.name, (path,))], []
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        has_tables = any(ending_of(entry) in TABLE_ENDINGS for entry in entries)
        if not has_tables and any((path / name).is_file() for name in RASA_PROJECT_FILES):
            return self._find_project(path)
        # One file that holds all tasks may have company (a README, lists of names) that is not task data.
        whole = [entry for entry in entries if task_name_of(entry) == ALL_TASKS and is_candidate(entry)]
        if len(whole) == 1 and whole[0].is_file():
            others = [entry for entry in entries if entry != whole[0]]
            self.skipped_task_files = [entry for entry in others if is_candidate(entry)]
            return [Source(whole[0], ALL_TASKS, (whole[0],))], others
        return self._find_each(path, entries)

    def _find_each(self, folder: Path, entries: list[Path]) -> tuple[list[Source], list[Path]]:
        """Return a source for each entry of a folder."""
        sources: list[Source] = []
        ignored: list[Path] = []
        for entry in entries:
            if entry.is_dir() and is_hugging_face_folder(entry):
                sources.append(Source(entry, entry.name, (entry,)))
            elif entry.is_dir():
                found, left = self._find_project(entry)
                sources += found
                ignored += left
            elif entry.is_file() and not is_candidate(entry):
                ignored.append(entry)
            elif self._is_task_file(entry):
                sources.append(Source(entry, task_name_of(entry), (entry,)))
        if not sources and not self.problems.n_all:
            self.problems.add(
                Problem(
                    str(folder),
                    "the folder has no task files",
                    got=count(len(ignored), "other file") if ignored else "an empty folder",
                    expected=f"files that end in {', '.join(ENDINGS)}, also with .gz",
                )
            )
        return sources, ignored

    def _find_project(self, folder: Path) -> tuple[list[Source], list[Path]]:
        """Return the Rasa project of a folder: its files with examples together are one task."""
        from robusttc.data.rasa import has_rasa_examples

        examples: list[Path] = []
        others: list[Path] = []
        # Rasa's own place for training data; elsewhere there are models, actions, reports and tests.
        start = folder / "data" if (folder / "data").is_dir() else folder
        for path in sorted(start.rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if hidden or not path.is_file():
                continue
            with self.problems.collecting(str(path)):
                has_examples = path.stat().st_size and has_rasa_examples(path, self.options.encoding)
                (examples if has_examples else others).append(path)
        if not examples:
            named = "a folder named like a task file" if ending_of(folder) in ENDINGS else "a folder"
            self.problems.add(
                Problem(
                    str(folder),
                    f"{named} inside the folder of tasks has no Rasa NLU data",
                    expected="task files, or one Rasa project per folder",
                    todo="move it away, or pass its own path if the tasks are in there",
                )
            )
            return [], []
        return [Source(folder, folder.name, tuple(examples))], others

    def _is_task_file(self, path: Path) -> bool:
        # A pipe or a device could keep us waiting for ever.
        if not path.is_file():
            self.problems.add(Problem(str(path), "not a regular file", expected="one file per task"))
        elif ending_of(path) not in ENDINGS:
            expected = f"a file that ends in {', '.join(ENDINGS)}, also with .gz"
            todo = "save the workbook as .xlsx" if ending_of(path) == ".xls" else None
            self.problems.add(Problem(str(path), "unknown file format", expected=expected, todo=todo))
        else:
            return True
        return False

    # --- Reading rows

    def read(self, source: Source) -> None:
        """Read one source; what is wrong is added to the problems."""
        rows = RowCollector(source, self.options, self.problems, self.collected)
        n_bad, n_all = self.problems.n_rows, self.problems.n_all
        for file in source.files:
            path = "DataFrame" if not isinstance(file, Path) else str(file)
            is_binary = not isinstance(file, Path) or file.is_dir() or ending_of(file) == ".parquet"
            with self.problems.collecting(path, "row" if is_binary else "line"):
                self._read_file(file, path, rows)
        n_bad = self.problems.n_rows - n_bad
        n_rows = rows.n_good + n_bad
        name = str(source.path) if isinstance(source.path, Path) else "the frame"
        if not n_rows and self.problems.n_all == n_all:
            what = "the file has no rows" if isinstance(source.path, Path) else "the frame has no rows"
            self.problems.add(Problem(name, what, expected="at least one row of text and label"))
        if n_rows >= MIN_ROWS_TO_JUDGE and n_bad > NEARLY_ALL * n_rows:
            self.mostly_bad.append(name)

    def _read_file(self, file: Any, path: str, rows: RowCollector) -> None:
        options = self.options
        if isinstance(file, Path) and file.is_dir():
            for split, table in read_hugging_face(file, self.problems):
                rows.add_table(table, self._find_columns(table), options.split_column is None and split)
        elif isinstance(file, Path) and ending_of(file) in RASA_ENDINGS:
            from robusttc.data.rasa import read_rasa

            rows.start_file(path, "line")
            for line, (text, label) in read_rasa(file, self.problems, options.encoding):
                rows.add(line, text, label)
        else:
            tables = open_tables(
                file,
                self.problems,
                delimiter=options.delimiter,
                encoding=options.encoding,
                known=KNOWN_NAMES | {normalise_name(name) for name in self._named_columns().values()},
            )
            if isinstance(file, Path) and ending_of(file) in {".xlsx", ".xlsm"}:
                self._read_sheets(list(tables), path, rows)
                return
            for table in tables:
                rows.add_table(table, self._find_columns(table))

    def _read_sheets(self, sheets: list[Table], path: str, rows: RowCollector) -> None:
        """Read the sheets that have a text and a label column: one is the task, several are a task each."""
        usable: list[tuple[Table, dict[str, str]]] = []
        errors: dict[str | None, ReadError] = {}
        for sheet in sheets:
            try:
                usable.append((sheet, find_columns(sheet, self.options)))
            except ReadError as error:
                errors[sheet.sheet] = error
        if not usable and errors:
            raise next(iter(errors.values()))
        if errors:
            self.notes.append(
                f"{path}: {count(len(errors), 'sheet')} without columns for text and label not read: "
                + ", ".join(quote(sheet) for sheet in errors)
            )
        for sheet, columns in usable:
            self._note_columns(sheet, columns)
            rows.default_task = rows.source.task if len(usable) == 1 else str(sheet.sheet)
            rows.add_table(sheet, columns)

    def _named_columns(self) -> dict[str, str]:
        named = {role: self.options.column_named(role) for role in ROLES}
        return {role: column for role, column in named.items() if column is not None}

    def _find_columns(self, table: Table) -> dict[str, str]:
        columns = find_columns(table, self.options)
        self._note_columns(table, columns)
        return columns

    def _note_columns(self, table: Table, columns: Mapping[str, str]) -> None:
        """Remember columns that are named otherwise than by the caller and by us."""
        found = tuple(
            (role, column)
            for role, column in columns.items()
            if self.options.column_named(role) is None and column != role
        )
        if found:
            self.recognised.setdefault(found, []).append(table.path)

    # --- The result

    def finish(self, sources: Sequence[Source], ignored: Sequence[Path]) -> LoadedTasks:
        """Make and judge the tasks; raise if anything is wrong."""
        problems, options = self.problems, self.options
        # Taken out one by one, so that the rows of all tasks are not in memory twice.
        tasks = [self.collected.pop(name).make_task(options, problems) for name in list(self.collected)]
        if problems.n_others and options.skip_bad_rows:
            raise TaskFilesError(problems.first_others, problems.n_others)
        if problems.n_all and not options.skip_bad_rows:
            raise TaskFilesError(problems.first, problems.n_all, todo=self._advice())
        return LoadedTasks(
            tasks=TaskSet(tasks),
            files=tuple(str(file) for one in sources for file in one.files if isinstance(file, Path)),
            ignored=tuple(str(file) for file in ignored),
            notes=(*(describe_columns(*one) for one in self.recognised.items()), *self.notes),
            skipped=problems.first_rows,
            n_skipped=problems.n_rows,
        )

    def _advice(self) -> str | None:
        if self.mostly_bad:
            more = f" and {len(self.mostly_bad) - 1:,} more" if len(self.mostly_bad) > 1 else ""
            return (
                f"nearly all rows of {self.mostly_bad[0]}{more} are bad, so a column, the delimiter or the "
                "encoding is probably wrong: check text_column, label_column, split_column, delimiter and "
                "encoding"
            )
        n_rows = self.problems.n_rows
        if not n_rows:
            return None
        return f"fix the files, or leave out the {count(n_rows, 'bad row')} with skip_bad_rows=True"


def is_candidate(path: Path) -> bool:
    """Return whether a file may be a task file by its name; a README in Markdown is none."""
    stem = path.name.split(".")[0].lower()
    return ending_of(path) in ENDINGS and not (ending_of(path) == ".md" and stem in ABOUT_THE_FOLDER)


def describe_columns(columns: tuple[tuple[str, str], ...], files: list[str]) -> str:
    """Return the note on columns that were recognised in some files."""
    names = ", ".join(Path(file).name for file in files[:MAX_NOTED_FILES])
    more = f" and {len(files) - MAX_NOTED_FILES:,} more" if len(files) > MAX_NOTED_FILES else ""
    found = ", ".join(f"{quote(column)} as the {role.replace('_', ' ')}" for role, column in columns)
    return f"{names}{more}: read the column {found}"

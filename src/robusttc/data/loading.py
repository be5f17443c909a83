"""From a path or a pandas frame to a `TaskSet`: find the files, find the columns, check every row and task.

All problems are looked for and reported with their places; nothing is repaired or dropped silently.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robusttc.data.hugging_face import is_hugging_face_folder, read_hugging_face
from robusttc.data.options import KNOWN_NAMES, SHARES, ReadOptions, find_columns, find_unused_task_column
from robusttc.data.rows import RowCollector, Source, TaskRows
from robusttc.data.tables import TABLE_ENDINGS, Table, ending_of, normalise_name, open_tables
from robusttc.data.task import Task, TaskSet
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
    """Tasks as they were read, and what a user should know about the reading."""

    tasks: TaskSet
    files: tuple[str, ...]  # that were read
    ignored: tuple[str, ...]  # files of the folder that are not task files
    notes: tuple[str, ...]  # on columns that were recognised by another usual name
    unread: tuple[str, ...]  # sheets without texts, a column that probably names tasks
    skipped: tuple[Problem, ...]  # the first of the rows that were left out
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

    Columns that were recognised by another usual name are logged (logger ``robusttc``, level INFO), and so is
    what was not read (level WARNING): sheets without texts, or a column that probably names tasks.

    Parameters
    ----------
    source
        The folder, file or frame.
    text_column, label_column
        The columns of texts and labels. None finds ``text`` and ``label``, in upper or lower case, or else
        the usual names (utterance, query, sentence …; intent, category, class …).
    split_column, task_column
        The columns of splits and task names. None uses ``split`` and ``task``, if the file has them; a name
        that is given must be in the file.
    split_values
        What further values of the split column mean: a value maps to ``train``, ``valid`` or ``test``, or to
        itself to be kept as a split of its own name.
    shares
        The shares of train, valid and test where the files have no splits.
    delimiter
        The delimiter of CSV and TSV files; None finds it from the header.
    encoding
        The encoding of text files; None means UTF-8, or UTF-16 where the file begins with its mark.
    skip_bad_rows
        Whether to leave out bad rows, with a `DataWarning` that counts them, instead of refusing the files.
    allow_incomplete
        Whether to keep tasks that cannot be trained as they are: fewer than two labels in train, or labels
        that occur only in valid or test.
    random_state
        The seed of the splits where the files have none.

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
    for note in loaded.unread:
        log.warning(note)
    if loaded.n_skipped:
        skipped = f"{count(loaded.n_skipped, 'bad row')} left out, the first: {loaded.skipped[0]}"
        warnings.warn(skipped, DataWarning, stacklevel=2)
    return loaded.tasks


def read_tasks(source: str | Path | pd.DataFrame, options: ReadOptions | None = None) -> LoadedTasks:
    """Read tasks as `load_tasks` does, and return also what was left out or decided on the way."""
    reader = Reader(options or ReadOptions())
    if isinstance(source, str | Path):
        if not str(source):
            raise UsageError("the path is empty", expected="a folder of task files, or a file")
        sources = reader.find(Path(source))
    elif hasattr(source, "iloc") and hasattr(source, "columns"):
        sources = [Source("DataFrame", ALL_TASKS, (source,))]
    else:
        expected = "a path or a DataFrame"
        raise UsageError("tasks cannot be read from this", got=quote(source), expected=expected)
    for one in sources:
        reader.read(one)
    return reader.finish(sources)


def read_examples(path: Path, name: str, options: ReadOptions | None = None) -> LoadedTasks:
    """Read one file as one task of this name; without a split column, all of its rows are for training."""
    if path.is_dir():
        raise DataError("a folder instead of a file", where=quote(str(path)), expected="one file")
    options = replace(options or ReadOptions(allow_incomplete=True), shares=(1.0, 0.0, 0.0))
    loaded = read_tasks(path, options)
    if len(loaded.tasks) > 1:
        got = ", ".join(quote(task) for task in loaded.tasks.names[:3])
        expected = "the examples of one task"
        raise DataError("the file has several tasks", where=str(path), got=got, expected=expected)
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
        self.tasks: dict[str, TaskRows] = {}
        self.ignored: list[Path] = []
        self.skipped_task_files: list[Path] = []
        self.recognised: dict[str, list[str]] = {}  # files by what was recognised in them
        self.unread: list[str] = []
        self.unused_columns: list[tuple[str, str]] = []  # file and column
        self.mostly_bad: list[str] = []

    def refuse(self, path: Path | str, what: str, **details: Any) -> None:
        """Add a problem of a file or folder as a whole."""
        self.problems.add(Problem(str(path), what, **details))

    # --- Finding files

    def find(self, path: Path) -> list[Source]:
        """Return what is to be read; files that are ignored are remembered."""
        sources: list[Source] = []
        with self.problems.collecting(str(path)):
            if not path.exists():
                expected = "a folder of task files, or a file"
                raise DataError("no such file or folder", where=quote(str(path)), expected=expected)
            sources += self._find(path)
        return sources

    def _find(self, path: Path) -> Iterator[Source]:
        if not path.is_dir() or is_hugging_face_folder(path):
            yield from self._find_one(path)
            return
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        has_tables = any(ending_of(entry) in TABLE_ENDINGS for entry in entries)
        if not has_tables and any((path / name).is_file() for name in RASA_PROJECT_FILES):
            yield from self._find_project(path)
            return
        # One file that holds all tasks may have company (a README, lists of names) that is not task data.
        whole = [entry for entry in entries if task_name_of(entry) == ALL_TASKS and is_candidate(entry)]
        if len(whole) == 1 and whole[0].is_file():
            self.ignored = [entry for entry in entries if entry != whole[0]]
            self.skipped_task_files = [entry for entry in self.ignored if is_candidate(entry)]
            entries = whole
        for entry in entries:
            if entry.is_file() and not is_candidate(entry):
                self.ignored.append(entry)
            elif entry.is_dir() and not is_hugging_face_folder(entry):
                yield from self._find_project(entry)
            else:
                yield from self._find_one(entry)
        if all(entry in self.ignored for entry in entries):
            got = count(len(self.ignored), "other file") if self.ignored else "an empty folder"
            expected = f"files that end in {', '.join(ENDINGS)}, also with .gz"
            self.refuse(path, "the folder has no task files", got=got, expected=expected)

    def _find_project(self, folder: Path) -> Iterator[Source]:
        """Yield the Rasa project of a folder: its files with examples together are one task."""
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
        if examples:
            self.ignored += others
            yield Source(str(folder), folder.name, tuple(examples))
            return
        named = "a folder named like a task file" if ending_of(folder) in ENDINGS else "a folder"
        what = f"{named} inside the folder of tasks has no Rasa NLU data"
        todo = "move it away, or pass its own path if the tasks are in there"
        self.refuse(folder, what, expected="task files, or one Rasa project per folder", todo=todo)

    def _find_one(self, path: Path) -> Iterator[Source]:
        """Yield a file or the folder of a data set as a source, or add the problem that it is none."""
        if is_hugging_face_folder(path):
            yield Source(str(path), path.name, (path,))
        # A pipe or a device could keep us waiting for ever.
        elif not path.is_file():
            self.refuse(path, "not a regular file", expected="one file per task")
        elif ending_of(path) not in ENDINGS:
            expected = f"a file that ends in {', '.join(ENDINGS)}, also with .gz"
            todo = "save the workbook as .xlsx" if ending_of(path) == ".xls" else None
            self.refuse(path, "unknown file format", expected=expected, todo=todo)
        else:
            yield Source(str(path), task_name_of(path), (path,))

    # --- Reading rows

    def read(self, source: Source) -> None:
        """Read one source; what is wrong is added to the problems."""
        rows = RowCollector(source, self.options, self.problems, self.tasks)
        n_bad, n_all = self.problems.n_rows, self.problems.n_all
        for file in source.files:
            is_binary = not isinstance(file, Path) or file.is_dir() or ending_of(file) == ".parquet"
            path = str(file) if isinstance(file, Path) else source.path
            with self.problems.collecting(path, "row" if is_binary else "line"):
                self._read_tables(self._open(file), path, rows)
        n_bad = self.problems.n_rows - n_bad
        n_rows = rows.n_good + n_bad
        if not n_rows and self.problems.n_all == n_all:
            self.refuse(source.path, "the file has no rows", expected="at least one row of text and label")
        if n_rows >= MIN_ROWS_TO_JUDGE and n_bad > NEARLY_ALL * n_rows:
            self.mostly_bad.append(source.path)

    def _open(self, file: Any) -> Iterator[tuple[str | None, Table]]:
        """Yield the tables of a file, folder or frame, each with the split that its folder is for."""
        options = self.options
        if isinstance(file, Path) and file.is_dir():
            for split, table in read_hugging_face(file, self.problems):
                yield (split if options.split_column is None else None), table
        elif isinstance(file, Path) and ending_of(file) in RASA_ENDINGS:
            from robusttc.data.rasa import read_rasa

            yield None, read_rasa(file, self.problems, options.encoding)
        else:
            known = KNOWN_NAMES | {normalise_name(name) for name in options.named_columns.values()}
            reading = {"delimiter": options.delimiter, "encoding": options.encoding}
            for table in open_tables(file, self.problems, known=known, **reading):
                yield None, table

    def _read_tables(self, tables: Iterator[tuple[str | None, Table]], path: str, rows: RowCollector) -> None:
        """Read the rows of all tables; of sheets those with text and label, which are a task each."""
        sheets: list[tuple[Table, dict[str, str]]] = []
        errors: dict[str, ReadError] = {}
        for split, table in tables:
            if table.sheet is None:
                rows.add_table(table, self._find_columns(table), split)
                continue
            try:
                sheets.append((table, self._find_columns(table)))
            except ReadError as error:
                errors[table.sheet] = error
        if errors and not sheets:
            raise next(iter(errors.values()))
        if errors:
            unread = f"{count(len(errors), 'sheet')} without columns for text and label not read"
            self.unread.append(f"{path}: {unread}: {', '.join(map(quote, errors))}")
        for table, columns in sheets:
            rows.default_task = rows.default_task if len(sheets) == 1 else str(table.sheet)
            rows.add_table(table, columns)

    def _find_columns(self, table: Table) -> dict[str, str]:
        """Return the column of each role; remember those that are named otherwise, and one that is unused."""
        columns = find_columns(table, self.options)
        found = [
            f"{quote(column)} as the {role.replace('_', ' ')}"
            for role, column in columns.items()
            if role not in self.options.named_columns and column != role
        ]
        if found:
            self.recognised.setdefault(", ".join(found), []).append(table.path)
        if unused := find_unused_task_column(table, columns):
            self.unused_columns.append((table.path, unused))
        return columns

    # --- The result

    def finish(self, sources: Sequence[Source]) -> LoadedTasks:
        """Return the tasks, judged as a whole; raise if anything is wrong."""
        problems, options = self.problems, self.options
        if self.skipped_task_files and ALL_TASKS in self.tasks:
            what = "the file names no tasks, so the task files beside it would be left out"
            got = quote(self.skipped_task_files[0].name)
            todo = "rename the file, or pass its own path if it is the only one that is meant"
            self.refuse(sources[0].path, what, got=got, todo=todo)
        # Taken out one by one, so that the rows of all tasks are not in memory twice.
        tasks = [self.tasks.pop(name).make_task(options, problems) for name in list(self.tasks)]
        if problems.n_others and options.skip_bad_rows:
            raise TaskFilesError(problems.listed(rows=False), problems.n_others)
        if problems.n_all and not options.skip_bad_rows:
            raise TaskFilesError(problems.first, problems.n_all, todo=self._advice())
        # In a folder every file is a task anyway.
        unused = [
            f"{Path(path).name}: all rows are one task; the column {quote(column)} is not used, and "
            f"task_column={quote(column)} would make one task of each of its values"
            for path, column in self.unused_columns
            if len(sources) == 1 and len(tasks) == 1
        ]
        return LoadedTasks(
            tasks=TaskSet(tasks),
            files=tuple(str(file) for one in sources for file in one.files if isinstance(file, Path)),
            ignored=tuple(str(file) for file in self.ignored),
            notes=tuple(
                f"{shorten(files)}: read the column {what}" for what, files in self.recognised.items()
            ),
            unread=(*self.unread, *unused),
            skipped=problems.listed(rows=True),
            n_skipped=problems.n_rows,
        )

    def _advice(self) -> str | None:
        if self.mostly_bad:
            more = f" and {len(self.mostly_bad) - 1:,} more" if len(self.mostly_bad) > 1 else ""
            options = "check text_column, label_column, split_column, delimiter and encoding"
            return f"nearly all rows of {self.mostly_bad[0]}{more} are bad: {options}"
        bad_rows = count(self.problems.n_rows, "bad row")
        advice = f"fix the files, or leave out the {bad_rows} with skip_bad_rows=True"
        return advice if self.problems.n_rows else None


def is_candidate(path: Path) -> bool:
    """Return whether a file may be a task file by its name; a README in Markdown is none."""
    stem = path.name.split(".")[0].lower()
    return ending_of(path) in ENDINGS and not (ending_of(path) == ".md" and stem in ABOUT_THE_FOLDER)


def shorten(files: list[str]) -> str:
    more = f" and {len(files) - MAX_NOTED_FILES:,} more" if len(files) > MAX_NOTED_FILES else ""
    return ", ".join(Path(file).name for file in files[:MAX_NOTED_FILES]) + more

"""Checking rows as they come in, collecting them by task, and judging the tasks as a whole."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robusttc.data.options import ROLES, ReadOptions
from robusttc.data.tables import MISSING, Table
from robusttc.data.task import SPLITS, Task, name_problem, split_rows, text_problem
from robusttc.data.text_files import ProblemList, ReadError
from robusttc.errors import MAX_LISTED_PROBLEMS, Problem, nearest_name, quote

__all__ = ["RowCollector", "Source", "TaskRows"]

TRUTHS = {True: True, False: False, "true": True, "false": False}
NO_SPLIT = -1

Place = tuple[str, str]  # the file, and what its lines count


@dataclass(frozen=True)
class Source:
    """What is read together: one file, one frame, one folder of a data set, or the files of a project."""

    path: str  # as messages name it
    task: str
    files: tuple[Any, ...]


@dataclass(slots=True)
class TaskRows:
    """The rows of one task while they are read."""

    name: str
    source: Source
    texts: list[str] = field(default_factory=list)
    code_of_label: dict[str, int] = field(default_factory=dict)
    label_codes: array[int] = field(default_factory=lambda: array("i"))
    split_codes: array[int] = field(default_factory=lambda: array("b"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    places: list[Place] = field(default_factory=list)
    may_share: bool | None = None

    def place(self, row: int) -> dict[str, Any]:
        """Return the fields of a `Problem` that name the place of a row."""
        path, unit = self.places[row]
        return {"path": path, "line": self.lines[row], "unit": unit}

    def make_task(self, options: ReadOptions, problems: ProblemList) -> Task:
        """Make the task; what is wrong with it as a whole is added to the problems."""
        names = tuple(sorted(self.code_of_label))
        sorted_code = np.empty(len(names), dtype=np.int32)
        sorted_code[[self.code_of_label[name] for name in names]] = np.arange(len(names))
        label_codes = sorted_code[np.asarray(self.label_codes, dtype=np.int32)]
        split_codes = np.array(self.split_codes, dtype=np.int8)

        kept = np.arange(len(self.texts))
        if (split_codes == NO_SPLIT).all():
            labels = [names[code] for code in label_codes.tolist()]
            splits = split_rows(self.name, self.texts, labels, options.seed, options.shares)
            split_codes = np.array([SPLITS.index(split) for split in splits], dtype=np.int8)
        else:
            kept = np.flatnonzero(split_codes != NO_SPLIT)
            what = "the row has no split, but other rows of its task have one"
            for row in np.flatnonzero(split_codes == NO_SPLIT).tolist():
                problems.add_row(**self.place(row), what=what)
        columns = (self.texts, names, label_codes, options.split_names, split_codes)
        task = Task.from_codes(self.name, *columns, may_share=self.may_share is not False)
        task = task if len(kept) == len(task) else task.take(kept)
        if not self.texts:
            what = f"task {quote(self.name)} has no row that can be used"
            problems.add(Problem(self.source.path, what))
        elif not options.allow_incomplete:
            self.check_training_rows(task, kept.tolist(), problems)
        return task

    def check_training_rows(self, task: Task, kept: list[int], problems: ProblemList) -> None:
        """Add problems of a task that cannot be trained as it is."""
        trained = np.unique(task.label_codes[task.rows("train")]).tolist()
        keep = "or keep the task as it is with allow_incomplete=True"
        if len(trained) < 2:
            problems.add(
                Problem(
                    self.source.path,
                    f"task {quote(self.name)} has fewer than two labels in train",
                    got=", ".join(quote(task.label_names[code]) for code in trained) or "no training row",
                    expected="training rows of at least two labels",
                    todo=f"add training rows, {keep}",
                )
            )
            return
        held_out = task.rows("valid", "test")
        codes, first = np.unique(task.label_codes[held_out], return_index=True)
        for code, at in zip(codes.tolist(), first.tolist(), strict=True):
            if code not in trained:
                what = (
                    f"label {quote(task.label_names[code])} of task {quote(self.name)} has no training row: "
                    "it occurs only in valid or test"
                )
                place = self.place(kept[held_out[at]])
                problems.add(Problem(what=what, todo=f"add training rows for it, {keep}", **place))


class RowCollector:
    """Checks the rows of one source and collects them by task.

    Good rows are taken with three look-ups (task, split, label); whatever is not found there is a new task or
    label, or a bad row, and only then are reasons looked for. `collected` has all tasks so far, over all
    sources; new ones are added.
    """

    def __init__(
        self, source: Source, options: ReadOptions, problems: ProblemList, collected: dict[str, TaskRows]
    ) -> None:
        self.source = source
        self.options = options
        self.default_task = source.task
        self.n_good = 0
        self._problems = problems
        self._collected = collected
        self._of_source: dict[str, TaskRows] = {}
        self.start_file(source.path)

    def start_file(
        self, path: str, unit: str = "line", columns: Mapping[str, str] | None = None, split: Any = MISSING
    ) -> None:
        """Set the place of the rows that follow, their columns, and their split by where the file lies."""
        self._place: Place = (path, unit)
        self._columns = columns or {}
        self._folder_split = split
        self._names_tasks = True if columns and self.options.task_column else None
        self._rows_of_task: dict[Any, TaskRows] = {}  # by the cell of the task column
        meanings, names = self.options.split_meanings, self.options.split_names
        self._code_of_split: dict[Any, int] = {
            value: names.index(meaning)
            for value, meaning in meanings.items()
            if split is MISSING or meaning == meanings.get(split)
        }
        if split is not MISSING and split in self._code_of_split:
            self._code_of_split[MISSING] = self._code_of_split[split]
        elif split is MISSING and (columns is None or self.options.split_column is None):
            self._code_of_split[MISSING] = NO_SPLIT

    def add_table(self, table: Table, columns: Mapping[str, str], split: str | None = None) -> None:
        """Add the rows of a table; `split` is that of all its rows by where the table lies."""
        self.start_file(table.path, table.unit, columns, MISSING if split is None else split)
        for line, cells in table.rows([columns.get(role) for role in ROLES]):
            self.add(line, *cells)

    def add(
        self,
        line: int,
        text: Any,
        label: Any,
        split: Any = MISSING,
        task: Any = MISSING,
        may_share: Any = MISSING,
    ) -> None:
        """Add one row; a bad one is reported and left out."""
        try:
            # An integer is its decimal digits, as it would be in a CSV file.
            label = str(label) if type(label) is int else label
            task = str(task) if type(task) is int else task
            try:
                rows = self._rows_of_task[task]
                split_code = self._code_of_split[split]
                label_code = rows.code_of_label[label]
            except (KeyError, TypeError):  # TypeError: a list or an object as a cell
                rows = self._open_task(line, task)
                split_code = self._find_split(split)
                label_code = self._find_label(label, rows)
            if problem := text_problem(text):
                raise self._text_error(text, problem)
            if may_share is not MISSING and not self._set_sharing(line, rows, may_share):
                return
        except ReadError as error:
            path, unit = self._place
            self._problems.add_row(path, line, error.what, unit=unit, **error.details)
            return
        if label_code == len(rows.code_of_label):
            rows.code_of_label[label] = label_code
        rows.texts.append(text)
        rows.label_codes.append(label_code)
        rows.split_codes.append(split_code)
        rows.lines.append(line)
        rows.places.append(self._place)
        self.n_good += 1

    def _open_task(self, line: int, task: Any) -> TaskRows:
        """Return the rows of a task, which may be new to this file."""
        # The first row decides whether rows name tasks, so that none gets the file's name by an oversight.
        if self._names_tasks is None:
            self._names_tasks = task is not MISSING
        if self._names_tasks and task is MISSING:
            column = self._columns.get("task", "task")
            raise ReadError(f"missing task: the row has no field {quote(column)}")
        if task is not MISSING and not self._names_tasks:
            what = "the row names a task, but the first row of the file does not"
            raise ReadError(what, got=quote(task))
        name = self.default_task if task is MISSING else task
        if problem := name_problem(name, "task name"):
            raise ReadError(problem, got=quote(name), expected="one line of text")
        rows = self._of_source.get(name)
        if rows is None:
            rows = self._of_source[name] = TaskRows(name, self.source)
            other = self._collected.setdefault(name, rows)
            if other is not rows:
                path, unit = self._place
                what = f"duplicate task name {quote(name)}: {other.source.path} has it too"
                todo = "rename one of the files, or put all rows of the task in one file"
                self._problems.add(Problem(path, what, line, unit=unit, todo=todo))
        self._rows_of_task[task] = rows
        return rows

    def _find_split(self, split: Any) -> int:
        """Return the code of a split."""
        if isinstance(split, str) or split is MISSING:
            code = self._code_of_split.get(split)
            if code is not None:
                return code
        folder = self._folder_split
        if split is MISSING and folder is MISSING:
            raise ReadError(f"missing split: the row has no field {quote(self.options.split_column)}")
        if split is not MISSING and folder is not MISSING and split != folder:
            raise ReadError(
                "the split column and the folder of the row do not agree",
                got=quote(split),
                expected=quote(folder),
                todo="use the column with split_column='split', or remove the column",
            )
        split = folder if split is MISSING else split
        allowed = list(self.options.split_meanings)
        todo = None
        if isinstance(split, str) and split.strip() and self._problems.n_rows < MAX_LISTED_PROBLEMS:
            todo = (
                f"map it to a split, split_values={{{quote(split)}: 'train'}} (or valid, or test), or keep "
                f"it as a split of its own, split_values={{{quote(split)}: {quote(split)}}}"
            )
            if nearest := nearest_name(split, allowed):
                todo = f"did you mean {quote(nearest)}? If not, {todo}"
        raise ReadError("unknown split", got=quote(split), expected=", ".join(allowed), todo=todo)

    def _find_label(self, label: Any, rows: TaskRows) -> int:
        """Return the code of a label, which may be new to the task."""
        if label is MISSING or label is None:
            raise self._empty_error("label", label)
        if problem := name_problem(label, "label"):
            expected = "one line of text" if isinstance(label, str) else "a string or a whole number"
            raise ReadError(problem, got=quote(label), expected=expected)
        return rows.code_of_label.get(label, len(rows.code_of_label))

    def _text_error(self, text: Any, problem: str) -> ReadError:
        if text is MISSING or text is None:
            return self._empty_error("text", text)
        column = text.index("\0") + 1 if isinstance(text, str) and "NUL" in problem else None
        return ReadError(problem, column=column, got=quote(text))

    def _empty_error(self, role: str, value: object) -> ReadError:
        if value is None:
            return ReadError(f"the {role} is empty", got="null")
        what = f"missing {role}: the row has no field {quote(self._columns.get(role, role))}"
        return ReadError(what, todo=f"if the {role} is in another field, name it: {role}_column='...'")

    def _set_sharing(self, line: int, rows: TaskRows, value: Any) -> bool:
        """Enter whether a task may share, which all of its rows must agree on; return whether they do."""
        value = value.strip().lower() if isinstance(value, str) else value
        may_share = TRUTHS.get(value) if isinstance(value, str | bool) else None
        if may_share is None:
            raise ReadError("may_share is neither true nor false", got=quote(value))
        if rows.may_share not in (None, may_share):
            # Not a problem of the row: leaving it out could make a private task public.
            path, unit = self._place
            what = f"rows of task {quote(rows.name)} disagree on may_share"
            self._problems.add(Problem(path, what, line, unit=unit, got=quote(value)))
            return False
        rows.may_share = may_share
        return True

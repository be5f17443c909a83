"""Checking rows as they are read, collecting them by task, splitting them, and judging the tasks."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data.options import ROLES, SHARES, ReadOptions
from robusttc.data.tables import MISSING, Table
from robusttc.data.task import SPLITS, Task, name_problem, text_problem
from robusttc.data.text_files import ProblemList, ReadError
from robusttc.errors import MAX_LISTED_PROBLEMS, Problem, nearest_name, quote
from robusttc.random import numpy_generator

__all__ = ["RowCollector", "Source", "TaskRows", "split_rows"]

TRUTHS = {True: True, False: False, "true": True, "false": False}
NO_SPLIT = -1


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
    path: str  # of its source
    texts: list[str] = field(default_factory=list)
    code_of_label: dict[str, int] = field(default_factory=dict)
    label_codes: array[int] = field(default_factory=lambda: array("i"))
    split_codes: array[int] = field(default_factory=lambda: array("b"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    files: list[tuple[str, str]] = field(default_factory=list)  # of each row, with what its lines count
    may_share: bool | None = None

    def make_task(self, options: ReadOptions, problems: ProblemList) -> Task:
        """Return the task; what is wrong with it as a whole is added to the problems."""
        names = tuple(sorted(self.code_of_label))
        sorted_code = np.empty(len(names), dtype=np.int32)
        sorted_code[[self.code_of_label[name] for name in names]] = np.arange(len(names))
        label_codes = sorted_code[np.asarray(self.label_codes, dtype=np.int32)]
        split_codes = np.array(self.split_codes, dtype=np.int8)
        kept = np.flatnonzero(split_codes != NO_SPLIT)
        is_drawn = not len(kept)
        if is_drawn:
            kept = np.arange(len(self.texts))
            labels = [names[code] for code in label_codes.tolist()]
            splits = split_rows(self.name, self.texts, labels, options.seed, options.shares)
            split_codes = np.array([SPLITS.index(split) for split in splits], dtype=np.int8)
        columns = (self.texts, names, label_codes, options.split_names, split_codes)
        may_share = self.may_share is not False
        task = Task.from_codes(self.name, *columns, may_share=may_share, splits_drawn=is_drawn)
        if len(kept) < len(task):
            task = task.take(kept)
            for row in np.flatnonzero(split_codes == NO_SPLIT).tolist():
                path, unit = self.files[row]
                what = "the row has no split, but other rows of its task have one"
                problems.add_row(path, self.lines[row], what, unit=unit)
        if not self.texts:
            problems.add(Problem(self.path, f"task {quote(self.name)} has no row that can be used"))
        elif not options.allow_incomplete:
            self._check_training_rows(task, kept, problems)
        return task

    def _check_training_rows(self, task: Task, kept: NDArray[np.intp], problems: ProblemList) -> None:
        trained = np.unique(task.label_codes[task.rows("train")]).tolist()
        todo = "add training rows, or keep the task as it is with allow_incomplete=True"
        if len(trained) < 2:
            what = f"task {quote(self.name)} has fewer than two labels in train"
            got = ", ".join(quote(task.label_names[code]) for code in trained) or "no training row"
            problems.add(Problem(self.path, what, got=got, todo=todo))
            return
        held_out = task.rows("valid", "test")
        codes, first = np.unique(task.label_codes[held_out], return_index=True)
        for code, at in zip(codes.tolist(), kept[held_out[first]].tolist(), strict=True):
            if code not in trained:
                label = f"label {quote(task.label_names[code])} of task {quote(self.name)}"
                what = f"{label} has no training row: it occurs only in valid or test"
                path, unit = self.files[at]
                problems.add(Problem(path, what, self.lines[at], unit=unit, todo=todo))


class RowCollector:
    """Checks the rows of one source and collects them by task; `tasks` has those of all sources so far.

    A good row takes three look-ups (task, split, label); what they do not find is a new task or label, or a
    bad row, and only then are reasons looked for.
    """

    def __init__(
        self, source: Source, options: ReadOptions, problems: ProblemList, tasks: dict[str, TaskRows]
    ) -> None:
        self.options = options
        self.default_task = source.task
        self.n_good = 0
        self._source = source
        self._problems = problems
        self._tasks = tasks
        self._own_tasks: dict[str, TaskRows] = {}

    def add_table(self, table: Table, columns: Mapping[str, str], folder: str | None = None) -> None:
        """Add the rows of a table; `folder` is the split that all of its rows have by where it lies.

        Without columns the rows are texts and labels, and the options on splits and tasks are not for them.
        """
        options = self.options
        self._file = (table.path, table.unit)
        self._columns = columns
        self._folder = folder
        self._names_tasks = True if columns and options.task_column else None
        self._rows_of_task: dict[Any, TaskRows] = {}  # by the cell of the task column
        meanings, names = options.split_meanings, options.split_names
        self._code_of_split: dict[Any, int] = {
            value: names.index(meaning)
            for value, meaning in meanings.items()
            if folder is None or meaning == meanings.get(folder)
        }
        if folder in self._code_of_split:
            self._code_of_split[MISSING] = self._code_of_split[folder]
        elif folder is None and not (columns and options.split_column):
            self._code_of_split[MISSING] = NO_SPLIT
        for line, cells in table.rows([columns.get(role) for role in ROLES]):
            self._add(line, *cells)

    def _add(
        self,
        line: int,
        text: Any,
        label: Any,
        split: Any = MISSING,
        task: Any = MISSING,
        may_share: Any = MISSING,
    ) -> None:
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
                self._refuse_problem("label", label, name_problem(label, "label"))
                label_code = rows.code_of_label.get(label, len(rows.code_of_label))
            if problem := text_problem(text):
                self._refuse_problem("text", text, problem)
            if may_share is not MISSING and not self._set_sharing(line, rows, may_share):
                return
        except ReadError as error:
            path, unit = self._file
            self._problems.add_row(path, line, error.what, unit=unit, **error.details)
            return
        if label_code == len(rows.code_of_label):
            rows.code_of_label[label] = label_code
        rows.texts.append(text)
        rows.label_codes.append(label_code)
        rows.split_codes.append(split_code)
        rows.lines.append(line)
        rows.files.append(self._file)
        self.n_good += 1

    def _refuse_problem(self, role: str, value: Any, problem: str | None) -> None:
        if value is MISSING:
            what = f"missing {role}: the row has no field {quote(self._columns.get(role, role))}"
            raise ReadError(what, todo=f"if the {role} is in another field, name it: {role}_column='...'")
        if value is None:
            raise ReadError(f"the {role} is empty", got="null")
        if problem:
            column = value.index("\0") + 1 if "NUL" in problem else None
            raise ReadError(problem, column=column, got=quote(value))

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
        if name not in self._own_tasks:
            rows = self._own_tasks[name] = TaskRows(name, self._source.path)
            other = self._tasks.setdefault(name, rows)
            if other is not rows:
                path, unit = self._file
                what = f"duplicate task name {quote(name)}: {other.path} has it too"
                todo = "rename one of the files, or put all rows of the task in one file"
                self._problems.add(Problem(path, what, line, unit=unit, todo=todo))
        self._rows_of_task[task] = self._own_tasks[name]
        return self._own_tasks[name]

    def _find_split(self, split: Any) -> int:
        if isinstance(split, str) or split is MISSING:
            code = self._code_of_split.get(split)
            if code is not None:
                return code
        folder = self._folder
        if split is MISSING and folder is None:
            raise ReadError(f"missing split: the row has no field {quote(self.options.split_column)}")
        if split is not MISSING and folder is not None and split != folder:
            what = "the split column and the folder of the row do not agree"
            todo = "use the column with split_column='split', or remove the column"
            raise ReadError(what, got=quote(split), expected=quote(folder), todo=todo)
        split = folder if split is MISSING else split
        allowed, todo = list(self.options.split_meanings), ""
        if isinstance(split, str) and split.strip() and self._problems.n_rows < MAX_LISTED_PROBLEMS:
            nearest, value = nearest_name(split, allowed), quote(split)
            other, own = f"split_values={{{value}: 'train'}}", f"split_values={{{value}: {value}}}"
            todo = f"did you mean {quote(nearest)}? If not, " if nearest else ""
            todo += f"map it to a split, {other} (or valid, or test), or keep it as a split of its own, {own}"
        raise ReadError("unknown split", got=quote(split), expected=", ".join(allowed), todo=todo or None)

    def _set_sharing(self, line: int, rows: TaskRows, value: Any) -> bool:
        """Set whether a task may share, which all of its rows must agree on; return whether they do."""
        value = value.strip().lower() if isinstance(value, str) else value
        may_share = TRUTHS.get(value) if isinstance(value, str | bool) else None
        if may_share is None:
            raise ReadError("may_share is neither true nor false", got=quote(value))
        if rows.may_share not in (None, may_share):
            # Not a problem of the row: leaving it out could make a private task public.
            path, unit = self._file
            what = f"rows of task {quote(rows.name)} disagree on may_share"
            self._problems.add(Problem(path, what, line, unit=unit, got=quote(value)))
            return False
        rows.may_share = may_share
        return True


def split_rows(
    task_name: str,
    texts: Sequence[str],
    labels: Sequence[str],
    seed: int,
    shares: Sequence[float] = SHARES,
) -> list[str]:
    """Split the rows of one task by the shares within each label; every label keeps a training row.

    Rows of one label that have the same text stay together, so that splitting puts no copy of a training row
    into test. What rounding takes from a split in one label is made up for in the next, so a task of many
    tiny labels still has its share of valid and test rows. The result depends on the seed, the shares, the
    name of the task and its rows, on nothing else.

    Examples
    --------
    >>> splits = split_rows("acme", [f"text {i}" for i in range(100)], ["a"] * 100, seed=0)
    >>> splits.count("train"), splits.count("valid"), splits.count("test")
    (64, 16, 20)
    """
    rows_of_label: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows_of_label.setdefault(label, []).append(row)
    splits = [SPLITS[0]] * len(labels)
    owed = np.zeros(len(SPLITS))
    for label, rows in sorted(rows_of_label.items()):
        number_of_text: dict[str, int] = {}
        numbers = [number_of_text.setdefault(texts[row], len(number_of_text)) for row in rows]
        counts, owed = allocate(len(number_of_text), np.asarray(shares), owed)
        order = numpy_generator(seed, "split", [task_name, label]).permutation(len(number_of_text))
        split_of_number = np.empty(len(number_of_text), dtype=np.int8)
        split_of_number[order] = np.repeat(np.arange(len(SPLITS)), counts)
        for row, number in zip(rows, numbers, strict=True):
            splits[row] = SPLITS[split_of_number[number]]
    return splits


def allocate(
    n_rows: int, shares: NDArray[np.float64], owed: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Round `n_rows` times the shares to integers; `owed` carries the rounding from label to label."""
    ideal = n_rows * shares
    # The small number keeps 0.16 * 100 from being 15.999… and so losing a whole row.
    counts = np.floor(ideal + 1e-9).astype(np.int64)
    owed = owed + ideal - counts
    # Stable, so that equal debts are settled in the order train, valid, test on every machine.
    claims = np.where(shares > 0, owed, -np.inf)
    rounded_up = np.argsort(-claims, kind="stable")[: n_rows - int(counts.sum())]
    counts[rounded_up] += 1
    owed[rounded_up] -= 1
    if counts[0] == 0:
        donor = int(np.argmax(counts))
        counts[[0, donor]] += [1, -1]
        owed[[0, donor]] += [-1, 1]
    return counts, owed

"""Checking rows as they come in, collecting them by task, and judging the tasks as a whole."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robusttc.data.options import ROLES, ReadOptions
from robusttc.data.tables import MISSING, Table
from robusttc.data.task import SPLITS, Task, name_problem, split_rows, text_problem
from robusttc.data.text_files import ProblemList
from robusttc.errors import MAX_LISTED_PROBLEMS, Problem, nearest_name, quote

__all__ = ["RowCollector", "Source", "TaskRows"]

TRUTHS = {True: True, False: False, "true": True, "false": False}
NO_SPLIT = -1


@dataclass(frozen=True)
class Source:
    """What is read together: one file, one frame, one folder of a data set, or the files of a project."""

    path: Any
    task: str
    files: tuple[Any, ...]


@dataclass(slots=True)
class TaskRows:
    """The rows of one task while they are read; `places` has from which row on which file and unit count."""

    name: str
    source: Source
    texts: list[str] = field(default_factory=list)
    code_of_label: dict[str, int] = field(default_factory=dict)
    label_codes: array[int] = field(default_factory=lambda: array("i"))
    split_codes: array[int] = field(default_factory=lambda: array("b"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    may_share: bool | None = None
    places: list[tuple[int, str, str]] = field(default_factory=list)

    def place(self, row: int) -> dict[str, Any]:
        """Return the fields of a `Problem` that name the place of a row."""
        starts = [start for start, _, _ in self.places]
        _, path, unit = self.places[bisect_right(starts, row) - 1]
        return {"path": path, "line": self.lines[row], "unit": unit}

    def make_task(self, options: ReadOptions, problems: ProblemList) -> Task:
        """Make the task; what is wrong with it as a whole is added to the problems."""
        path = str(self.source.path) if isinstance(self.source.path, Path) else "DataFrame"
        if not self.lines:
            problems.add(Problem(path, f"task {quote(self.name)} has no row that can be used"))
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
            for row in np.flatnonzero(split_codes == NO_SPLIT).tolist():
                problems.add_row(
                    **self.place(row), what="the row has no split, but other rows of its task have one"
                )
        may_share = self.may_share is not False
        task = Task.from_codes(
            self.name, self.texts, names, label_codes, options.split_names, split_codes, may_share
        )
        task = task if len(kept) == len(task) else task.take(kept)
        if not options.allow_incomplete and self.lines:
            self.check_training_rows(task, kept, path, problems)
        return task

    def check_training_rows(self, task: Task, kept: Any, path: str, problems: ProblemList) -> None:
        """Add problems of a task that cannot be trained as it is."""
        trained = np.unique(task.label_codes[task.rows("train")])
        keep = "or keep the task as it is with allow_incomplete=True"
        if len(trained) < 2:
            problems.add(
                Problem(
                    path,
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
                place = self.place(int(kept[held_out[at]]))
                problems.add(Problem(what=what, todo=f"add training rows for it, {keep}", **place))


class RowCollector:
    """Checks the rows of one source and collects them by task.

    Parameters
    ----------
    source
        What is read.
    options
        How files are read.
    problems
        Where problems are added.
    collected
        All tasks so far, over all sources; new ones are added.
    """

    def __init__(
        self, source: Source, options: ReadOptions, problems: ProblemList, collected: dict[str, TaskRows]
    ) -> None:
        self.source = source
        self.options = options
        self.default_task = source.task
        self.path, self.unit = "", "line"
        self.n_good = 0
        self._problems = problems
        self._collected = collected
        self._own: dict[Any, TaskRows] = {}
        self._columns: Mapping[str, str] = {}
        self._code_of_split: dict[Any, int] = {
            value: options.split_names.index(split) for value, split in options.split_meanings.items()
        }
        self._code_of_split[MISSING] = NO_SPLIT

    def start_file(self, path: str, unit: str) -> None:
        """Set the place of the rows that follow."""
        self.path, self.unit = path, unit
        self._own.pop(MISSING, None)  # the default task may be another one now

    def add_table(self, table: Table, columns: Mapping[str, str], split: object = None) -> None:
        """Add the rows of a table; `split` is that of all its rows by where the table lies."""
        self.start_file(table.path, table.unit)
        self._columns = columns
        meanings = self.options.split_meanings
        wanted = [columns.get(role) for role in ROLES]
        names_task: bool | None = True if self.options.task_column else None
        for line, (text, label, row_split, task, may_share) in table.rows(wanted):
            if names_task is None:
                # The first row decides, so that no row falls under the file's name by an oversight.
                names_task = task is not MISSING
            if names_task is (task is MISSING):
                self._refuse_task(line, task)
            elif split and row_split is MISSING:
                self.add(line, text, label, split, task, may_share)
            elif split and meanings.get(row_split, row_split) != meanings.get(str(split), split):
                self.refuse(
                    line,
                    "the split column and the folder of the row do not agree",
                    got=quote(row_split),
                    expected=quote(split),
                    todo="use the column with split_column='split', or remove the column",
                )
            elif row_split is MISSING and self.options.split_column is not None:
                self.refuse(line, f"missing split: the row has no field {quote(self.options.split_column)}")
            else:
                self.add(line, text, label, row_split, task, may_share)

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
        # Called once per row: good rows pass with few look-ups, the reasons are found for bad ones alone.
        rows = self._own.get(task) if type(task) is str or task is MISSING else None
        if rows is None and (rows := self._open_task(line, task)) is None:
            return
        split_code = self._code_of_split.get(split) if type(split) is str or split is MISSING else None
        if split_code is None:
            self._refuse_split(line, split)
            return
        # An integer label is its decimal digits, as it would be in a CSV file.
        name = str(label) if type(label) is int else label
        label_code = rows.code_of_label.get(name) if type(name) is str else None
        if label_code is None:
            if not self._check_label(line, name):
                return
            label_code = len(rows.code_of_label)
        if problem := text_problem(text):
            self._refuse_text(line, text, problem)
            return
        if may_share is not MISSING and not self._set_sharing(line, rows, may_share):
            return
        rows.code_of_label.setdefault(name, label_code)
        rows.texts.append(text)
        rows.label_codes.append(label_code)
        rows.split_codes.append(split_code)
        rows.lines.append(line)
        self.n_good += 1

    def refuse(self, line: int, what: str, **details: Any) -> None:
        """Report a bad row; it is left out."""
        self._problems.add_row(self.path, line, what, unit=self.unit, **details)

    def _open_task(self, line: int, task: Any) -> TaskRows | None:
        name = self.default_task if task is MISSING else str(task) if type(task) is int else task
        if problem := name_problem(name, "task name"):
            self.refuse(line, problem, got=quote(name), expected="one line of text")
            return None
        rows = self._collected.get(name)
        if rows is None:
            rows = self._collected[name] = TaskRows(name, self.source)
        elif rows.source is not self.source:
            if name not in self._own:
                other = rows.source.path if isinstance(rows.source.path, Path) else "the frame"
                self._problems.add(
                    Problem(
                        self.path,
                        f"duplicate task name {quote(name)}: {other} has it too",
                        line=line,
                        unit=self.unit,
                        todo="rename one of the files, or put all rows of the task in one file",
                    )
                )
            rows = self._own.get(name) or TaskRows(name, self.source)
        rows.places.append((len(rows.texts), self.path, self.unit))
        self._own[MISSING if task is MISSING else name] = self._own[name] = rows
        return rows

    def _refuse_task(self, line: int, task: Any) -> None:
        if task is MISSING:
            column = self._columns.get("task", "task")
            self.refuse(line, f"missing task: the row has no field {quote(column)}")
        else:
            self.refuse(line, "the row names a task, but the first row of the file does not", got=quote(task))

    def _refuse_split(self, line: int, split: Any) -> None:
        allowed = list(self.options.split_meanings)
        todo = None
        if isinstance(split, str) and split.strip() and self._problems.n_rows < MAX_LISTED_PROBLEMS:
            todo = (
                f"map it to a split, split_values={{{quote(split)}: 'train'}} (or valid, or test), or keep "
                f"it as a split of its own, split_values={{{quote(split)}: {quote(split)}}}"
            )
            if nearest := nearest_name(split, allowed):
                todo = f"did you mean {quote(nearest)}? If not, {todo}"
        self.refuse(line, "unknown split", got=quote(split), expected=", ".join(allowed), todo=todo)

    def _check_label(self, line: int, label: Any) -> bool:
        if label is MISSING or label is None:
            self._refuse_empty(line, "label", label)
        elif problem := name_problem(label, "label"):
            expected = "one line of text" if isinstance(label, str) else "a string or a whole number"
            self.refuse(line, problem, got=quote(label), expected=expected)
        else:
            return True
        return False

    def _refuse_text(self, line: int, text: Any, problem: str) -> None:
        if text is MISSING or text is None:
            self._refuse_empty(line, "text", text)
            return
        is_nul = isinstance(text, str) and "\0" in text
        column = text.index("\0") + 1 if is_nul and "NUL" in problem else None
        self.refuse(line, problem, column=column, got=quote(text))

    def _refuse_empty(self, line: int, role: str, value: object) -> None:
        if value is None:
            self.refuse(line, f"the {role} is empty", got="null")
            return
        column = self._columns.get(role, role)
        todo = f"if the {role} is in another field, name it: {role}_column='...'"
        self.refuse(line, f"missing {role}: the row has no field {quote(column)}", todo=todo)

    def _set_sharing(self, line: int, rows: TaskRows, value: Any) -> bool:
        """Enter whether a task may share, which all of its rows must agree on."""
        value = value.strip().lower() if isinstance(value, str) else value
        may_share = TRUTHS.get(value) if isinstance(value, str | bool) else None
        if may_share is None:
            self.refuse(line, "may_share is neither true nor false", got=quote(value))
            return False
        if rows.may_share is not None and rows.may_share is not may_share:
            # Not a problem of the row: leaving it out could make a private task public.
            what = f"rows of task {quote(rows.name)} disagree on may_share"
            self._problems.add(Problem(self.path, what, line, unit=self.unit, got=quote(value)))
            return False
        rows.may_share = may_share
        return True

"""Checking rows as they come in and keeping them by task.

Readers know formats; this module knows what a good row is. Each reader hands over raw values with their line,
and every value is checked here, once, the same way for all formats.
"""

from __future__ import annotations

from array import array
from unicodedata import category

import numpy as np

from robusttc.data.options import ReadOptions
from robusttc.data.packed import PackedStrings
from robusttc.data.problems import FileFault, Problems
from robusttc.data.splitting import split_rows
from robusttc.data.task import SPLITS, Task
from robusttc.errors import Problem, nearest_name, quote

__all__ = ["MISSING", "FileRows", "TaskRows"]

MISSING = object()  # the row has no such field at all

# The csv module's own limit, so that every format has the same one.
MAX_TEXT_CHARACTERS = 131_072
MAX_NAME_CHARACTERS = 1_000
# A file may not become much more text than it has bytes (aliases in YAML, dictionaries in Parquet).
FREE_TEXT_BYTES = 64 * 2**20
MAX_EXPANSION = 100

NO_SPLIT = -1


class TaskRows:
    """The rows of one task while they come in; about as large as their text."""

    __slots__ = (
        "buffer",
        "code_of_label",
        "ends",
        "label_codes",
        "lines",
        "name",
        "path",
        "split_codes",
        "unit",
    )

    def __init__(self, name: str, path: str, unit: str) -> None:
        self.name = name
        self.path = path
        self.unit = unit
        self.buffer = bytearray()
        self.ends = array("q", [0])
        self.code_of_label: dict[str, int] = {}
        self.label_codes = array("i")
        self.split_codes = array("b")
        self.lines = array("q")

    def finish(self, options: ReadOptions, problems: Problems) -> Task:
        """Make the task; what is wrong with it as a whole is noted in `problems`."""
        if not self.lines:
            problems.add(Problem(self.path, f"task {quote(self.name)} has no row that can be used"))
        names = tuple(sorted(self.code_of_label))
        sorted_code = np.empty(len(names), dtype=np.int32)
        sorted_code[[self.code_of_label[name] for name in names]] = np.arange(len(names))
        label_codes = sorted_code[np.asarray(self.label_codes, dtype=np.int32)]
        split_codes = np.array(self.split_codes, dtype=np.int8)
        texts = PackedStrings(bytes(self.buffer), self.ends)

        without_split = np.flatnonzero(split_codes == NO_SPLIT)
        if 0 < len(without_split) < len(split_codes):
            for row in without_split.tolist():
                what = "the row has no split, but other rows of its task have one"
                problem = Problem(self.path, what, line=self.lines[row], unit=self.unit)
                problems.add(problem, of_row=True)
        elif len(without_split):
            labels = np.array(names, dtype=object)[label_codes].tolist()
            splits = split_rows(self.name, texts, labels, options.seed)
            split_codes = np.array([SPLITS.index(split) for split in splits], dtype=np.int8)

        task = Task.from_codes(self.name, texts, names, label_codes, options.split_names, split_codes)
        if 0 < len(without_split) < len(task):
            with_split = np.flatnonzero(task.split_codes != NO_SPLIT)
            self.lines = array("q", (self.lines[row] for row in with_split))
            task = task.take(with_split)
        if not options.allow_incomplete and self.lines:
            self._check_training_rows(task, problems)
        return task

    def _check_training_rows(self, task: Task, problems: Problems) -> None:
        trained = np.unique(task.label_codes[task.rows("train")])
        keep = "or keep the task as it is with --allow-incomplete"
        if len(trained) < 2:
            problems.add(
                Problem(
                    self.path,
                    f"task {quote(self.name)} has fewer than two labels in train",
                    got=", ".join(quote(task.label_names[code]) for code in trained) or "no training row",
                    expected="training rows of at least two labels",
                    todo=f"add training rows, {keep}",
                )
            )
            return
        judged = task.rows("valid", "test")
        codes, first = np.unique(task.label_codes[judged], return_index=True)
        for code, place in zip(codes.tolist(), first.tolist(), strict=True):
            if code not in trained:
                self._note(
                    problems,
                    f"label {quote(task.label_names[code])} of task {quote(self.name)} has no training row: "
                    "it only occurs in valid or test",
                    int(judged[place]),
                    todo=f"add training rows for it, {keep}",
                )

    def _note(self, problems: Problems, what: str, row: int, todo: str | None = None) -> None:
        problems.add(Problem(self.path, what, line=self.lines[row], unit=self.unit, todo=todo))


class FileRows:
    """Takes the rows of one file, checks them, and files them under their tasks.

    Parameters
    ----------
    path
        The file, as the user knows it.
    default_task
        The task of the rows where the file does not name one.
    size_bytes
        The size of the file on disk, to see when it expands without measure.
    options
        How files are read.
    problems
        Where problems are noted.
    tasks
        All tasks so far, over all files; new ones are added.
    unit
        What the line numbers count.
    """

    def __init__(
        self,
        path: str,
        default_task: str,
        size_bytes: int,
        options: ReadOptions,
        problems: Problems,
        tasks: dict[str, TaskRows],
        unit: str = "line",
    ) -> None:
        self.path = path
        self.unit = unit
        self.options = options
        self.n_rows = 0
        self._default_task = default_task
        self._problems = problems
        self._tasks = tasks
        self._own_tasks: dict[object, TaskRows] = {}
        self._code_of_split: dict[object, int] = {
            value: options.split_names.index(split) for value, split in options.split_meanings.items()
        }
        self._code_of_split[MISSING] = NO_SPLIT
        self._bytes_left = max(FREE_TEXT_BYTES, MAX_EXPANSION * size_bytes)

    def add(
        self,
        line: int,
        text: object,
        label: object,
        split: object = MISSING,
        task: object = MISSING,
    ) -> None:
        """Take one row; a wrong one is noted and left out."""
        # One call a row and hundreds of thousands of rows: good rows pass with few look-ups, and only a row
        # that fails one of them takes the slow way that finds out why.
        self.n_rows += 1
        rows = self._own_tasks.get(task) if type(task) is str or task is MISSING else None
        if rows is None:
            rows = self._open_task(line, task)
            if rows is None:
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
        encoded = self._encode_text(line, text)
        if encoded is None:
            return
        self._bytes_left -= len(encoded)
        if self._bytes_left < 0:
            raise FileFault(
                "the file expands to far more text than it has bytes",
                line=line,
                expected=f"at most {MAX_EXPANSION} times its size",
                todo="check where the file comes from; cut it into smaller files if it is really yours",
            )
        rows.code_of_label.setdefault(name, label_code)  # type: ignore[arg-type]
        rows.buffer += encoded
        rows.ends.append(len(rows.buffer))
        rows.label_codes.append(label_code)
        rows.split_codes.append(split_code)
        rows.lines.append(line)

    def refuse(
        self,
        line: int,
        what: str,
        *,
        column: int | None = None,
        got: str | None = None,
        expected: str | None = None,
        todo: str | None = None,
    ) -> None:
        """Note that a row is wrong; it is left out."""
        self._problems.add(
            Problem(self.path, what, line, column, self.unit, got=got, expected=expected, todo=todo),
            of_row=True,
        )

    def _open_task(self, line: int, task: object) -> TaskRows | None:
        name = self._default_task if task is MISSING else str(task) if type(task) is int else task
        why = describe_bad_name(name)
        if why is not None or not isinstance(name, str):
            self.refuse(line, f"the task name {why}", got=quote(name), expected="a short line of text")
            return None
        if name in self._own_tasks:
            return self._own_tasks[name]
        rows = TaskRows(name, self.path, self.unit)
        if name in self._tasks:
            other = self._tasks[name]
            self._problems.add(
                Problem(
                    self.path,
                    f"duplicate task name {quote(name)}: {other.path} has it too",
                    line=line,
                    unit=self.unit,
                    todo="rename one of the files, or put all rows of the task in one file",
                )
            )
        else:
            self._tasks[name] = rows
        self._own_tasks[MISSING if task is MISSING else name] = rows
        return rows

    def _refuse_split(self, line: int, split: object) -> None:
        allowed = list(self.options.split_meanings)
        todo = None
        if isinstance(split, str) and split.strip() and not self._problems.rows_are_full:
            todo = (
                f"say what it means with --split-value {quote(split)}=train (or valid, or test), "
                f"or keep it as a split of its own with --split-value {quote(split)}"
            )
            nearest = nearest_name(split, allowed)
            if nearest:
                todo = f"did you mean {quote(nearest)}? If not, {todo}"
        self.refuse(line, "unknown split", got=quote(split), expected=", ".join(allowed), todo=todo)

    def _check_label(self, line: int, label: object) -> bool:
        if label is MISSING:
            self._refuse_missing(line, "label")
        elif not isinstance(label, str):
            self.refuse(
                line, "the label is not text", got=quote(label), expected="a string or a whole number"
            )
        elif not label.strip():
            self.refuse(line, "empty label", got=quote(label))
        else:
            why = describe_bad_name(label)
            if why is None:
                return True
            self.refuse(line, f"the label {why}", got=quote(label), expected="a short line of text")
        return False

    def _encode_text(self, line: int, text: object) -> bytes | None:
        if type(text) is not str:
            if text is MISSING:
                self._refuse_missing(line, "text")
            else:
                self.refuse(line, "the text is not a string", got=quote(text), expected="a string")
        elif not text or text.isspace():
            self.refuse(line, "empty text", got=quote(text))
        elif len(text) > MAX_TEXT_CHARACTERS:
            self.refuse(
                line,
                "the text is too long",
                got=f"{len(text):,} characters",
                expected=f"at most {MAX_TEXT_CHARACTERS:,}",
            )
        elif "\0" in text:
            self.refuse(
                line, "the text contains a NUL character", column=text.index("\0") + 1, got=quote(text)
            )
        else:
            try:
                return text.encode("utf-8")
            except UnicodeEncodeError as error:
                self.refuse(line, "the text is not Unicode (a lone surrogate)", got=quote(text[error.start]))
        return None

    def _refuse_missing(self, line: int, role: str) -> None:
        column = self.options.column_of_role[role]
        self.refuse(
            line,
            f"missing {role}: the row has no field {quote(column)}",
            todo=f"if the {role} is in another field, name it with --{role}-column",
        )


def describe_bad_name(name: object) -> str | None:
    """Say what is wrong with a label or the name of a task, or None if nothing is."""
    if not isinstance(name, str):
        return "is not a string"
    if not name.strip():
        return "is empty"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"is longer than {MAX_NAME_CHARACTERS:,} characters"
    if not name.isprintable() and any(category(character) in {"Cc", "Cs"} for character in name):
        return "contains a control character or half a character"
    return None

"""Tasks and sets of tasks: texts, their labels as strings, and the split of every row."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UnknownTaskError, UsageError, quote
from robusttc.random import RandomState, run_seed

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MAX_SPLITS",
    "SPLITS",
    "SPLIT_SYNONYMS",
    "Task",
    "TaskSet",
    "is_unicode",
    "name_problem",
    "text_problem",
]

SPLITS = ("train", "valid", "test")
SPLIT_SYNONYMS = {**{split: split for split in SPLITS}, "validation": "valid", "dev": "valid"}

# The csv module's own limit, so that every format has the same one.
MAX_TEXT_CHARACTERS = 131_072
MAX_NAME_CHARACTERS = 1_000
MAX_SPLITS = 100  # a split is one byte per row
MAX_HTML_TASKS = 20
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Task:
    """One text-classification task; immutable.

    Labels are strings and are never re-coded for the user: `label_codes` are positions in the sorted
    `label_names`, for the arithmetic inside.

    Parameters
    ----------
    name
        The name of the task: one line of at most 1,000 characters.
    texts
        One text per row: not blank, without NUL, at most 131,072 characters.
    labels
        One label per row, strings with the limits of a name.
    splits
        One split per row: ``train``, ``valid`` (also ``validation``, ``dev``), ``test``, or one of
        `other_splits`. None puts every row in ``train``.
    other_splits
        Further splits, which training and evaluation ignore.
    may_share
        Whether other tasks may learn from this one. With False its texts and labels stay out of every model,
        weight and threshold that serves another task; it is then served by a model of its own.
    splits_drawn
        Whether the splits were drawn when the task was read, because its file has none. Models that serve may
        then be trained on all rows in the end; test rows that somebody set aside are never trained on.

    Raises
    ------
    DataError
        If the columns differ in length or hold anything that a task file may not hold.

    Examples
    --------
    >>> task = Task("acme", ["hi", "bye", "hello"], ["greet", "leave", "greet"])
    >>> task.label_names, task.label_codes.tolist(), len(task)
    (('greet', 'leave'), [0, 1, 0], 3)
    """

    name: str
    texts: tuple[str, ...]
    label_names: tuple[str, ...]
    label_codes: NDArray[np.int32]
    split_names: tuple[str, ...]
    split_codes: NDArray[np.int8]
    may_share: bool
    splits_drawn: bool = False

    def __init__(
        self,
        name: str,
        texts: Sequence[str],
        labels: Sequence[str],
        splits: Sequence[str] | None = None,
        *,
        other_splits: Sequence[str] = (),
        may_share: bool = True,
        splits_drawn: bool = False,
    ) -> None:
        if problem := name_problem(name, "task name"):
            raise DataError(problem, got=quote(name), expected="one line of text")
        where = f"task {quote(name)}"
        columns = {"texts": as_column(where, "texts", texts), "labels": as_column(where, "labels", labels)}
        train = [SPLITS[0]] * len(columns["texts"])
        columns["splits"] = train if splits is None else as_column(where, "splits", splits)
        if len({len(column) for column in columns.values()}) != 1:
            got = ", ".join(f"{len(column):,} {role}" for role, column in columns.items())
            expected = "one text, one label and one split per row"
            raise DataError("the columns of a task differ in length", where=where, got=got, expected=expected)
        check_rows(where, columns["texts"], columns["labels"])
        split_names, split_codes = encode_splits(where, columns["splits"], other_splits)
        label_names = tuple(sorted(set(columns["labels"])))
        code_of = {label: code for code, label in enumerate(label_names)}
        label_codes = np.array([code_of[label] for label in columns["labels"]], dtype=np.int32)
        values = (label_names, label_codes, split_names, split_codes, may_share, splits_drawn)
        self._fill(name, columns["texts"], *values)

    @classmethod
    def from_codes(
        cls,
        name: str,
        texts: Iterable[str],
        label_names: tuple[str, ...],
        label_codes: NDArray[np.int32],
        split_names: tuple[str, ...],
        split_codes: NDArray[np.int8],
        may_share: bool = True,
        splits_drawn: bool = False,
    ) -> Task:
        """Return a task of columns that are already checked and encoded; `label_names` must be sorted."""
        task = cls.__new__(cls)
        values = (label_names, label_codes, split_names, split_codes, may_share, splits_drawn)
        task._fill(name, texts, *values)
        return task

    def _fill(self, name: str, texts: Iterable[str], *values: Any) -> None:
        for field, value in zip(fields(self), (name, tuple(texts), *values), strict=True):
            object.__setattr__(self, field.name, value)
        # A word such as "no" would pass for True, and texts would end up where they must not.
        may_share: Any = self.may_share
        if not isinstance(may_share, bool):
            got, where = quote(may_share), f"task {quote(name)}"
            raise DataError("may_share is not a boolean", where=where, got=got, expected="True or False")
        self.label_codes.flags.writeable = self.split_codes.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Task.from_codes, tuple(getattr(self, field.name) for field in fields(self))

    def _replace(self, **changes: Any) -> Task:
        return Task.from_codes(**{field.name: getattr(self, field.name) for field in fields(self)} | changes)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labels(self) -> NDArray[np.object_]:
        """The label of every row, as an array of strings."""
        return np.array(self.label_names, dtype=object)[self.label_codes]

    @property
    def splits(self) -> NDArray[np.object_]:
        """The split of every row, as an array of strings."""
        return np.array(self.split_names, dtype=object)[self.split_codes]

    def rows(self, *splits: str) -> NDArray[np.intp]:
        """Return the row numbers of one or more splits, in the order of the task."""
        for split in splits:
            if split not in self.split_names:
                where, expected = f"task {quote(self.name)}", " or ".join(self.split_names)
                raise UsageError(
                    "the task has no such split", where=where, got=quote(split), expected=expected
                )
        selected = np.zeros(len(self.split_names), dtype=np.bool_)
        selected[[self.split_names.index(split) for split in splits]] = True
        return np.flatnonzero(selected[self.split_codes])

    def texts_at(self, rows: ArrayLike) -> list[str]:
        """Return the texts of these rows, in this order."""
        return [self.texts[row] for row in np.asarray(rows, dtype=np.intp).tolist()]

    def take(self, rows: ArrayLike) -> Task:
        """Return a task of the same name with only these rows; labels that do not occur are dropped."""
        selected = np.asarray(rows, dtype=np.intp)
        kept, codes = np.unique(self.label_codes[selected], return_inverse=True)
        return self._replace(
            texts=self.texts_at(selected),
            label_names=tuple(self.label_names[code] for code in kept),
            label_codes=codes.astype(np.int32),
            split_codes=self.split_codes[selected],
        )

    def with_splits(self, splits: Sequence[str], *, other_splits: Sequence[str] = ()) -> Task:
        """Return the same rows with other splits; those of the task and `other_splits` are allowed."""
        allowed = [*self.split_names, *other_splits]
        columns = (self.name, self.texts, self.labels.tolist(), splits)
        return Task(*columns, other_splits=allowed, may_share=self.may_share)

    def with_sharing(self, may_share: bool) -> Task:
        """Return the same task with another `may_share`."""
        return self._replace(may_share=may_share)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the name, every row in order and `may_share`, the same on every machine."""
        digest = hashlib.sha256(b"robusttc-task-1")
        for column in ([self.name], self.texts, self.label_names, self.splits.tolist()):
            encoded = [value.encode() for value in column]
            # The offsets keep ("ab", "c") apart from ("a", "bc").
            digest.update(len(encoded).to_bytes(8, "little"))
            digest.update(np.cumsum([0, *map(len, encoded)], dtype="<i8").tobytes())
            digest.update(b"".join(encoded))
        digest.update(self.label_codes.astype("<i4").tobytes())
        if not self.may_share:
            digest.update(b"may not share")
        return digest.hexdigest()

    def __eq__(self, other: Any) -> bool:
        return self.content_hash == other.content_hash if isinstance(other, Task) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __repr__(self) -> str:
        private = "" if self.may_share else ", may not share"
        return f"Task({self.name!r}, {len(self):,} rows, {len(self.label_names):,} labels{private})"


class TaskSet:
    """An ordered set of tasks with unique names; immutable. Iterating over it yields the tasks.

    Parameters
    ----------
    tasks
        The tasks, in the order to keep.

    Raises
    ------
    DataError
        If two tasks have the same name, or something is not a `Task`.

    Examples
    --------
    >>> tasks = TaskSet([Task("b", ["hi"], ["x"]), Task("a", ["ho"], ["x"])])
    >>> tasks.names, tasks["a"], tasks.same_label_sets
    (('b', 'a'), Task('a', 1 rows, 1 labels), True)
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        by_name: dict[str, Task] = {}
        for task in tasks:
            if not isinstance(task, Task):
                raise DataError("a set of tasks holds something else", got=quote(task), expected="a Task")
            if task.name in by_name:
                raise DataError("two tasks have the same name", got=quote(task.name), expected="unique names")
            by_name[task.name] = task
        self._by_name = by_name

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        task: str = "task",
        text: str = "text",
        label: str = "label",
        split: str | None = None,
        random_state: RandomState = 0,
    ) -> TaskSet:
        """Return the tasks of a pandas frame; `robusttc.load_tasks` takes frames too, with more options.

        Parameters
        ----------
        frame
            One row per example.
        task, text, label
            The columns with the name of the task, the text and the label (strings or whole numbers).
        split
            The column with the split; None uses ``split`` if there is one, and else splits 64/16/20 within
            each label.
        random_state
            The seed of the splits.

        Raises
        ------
        TaskFilesError
            If a column is missing or a row cannot be used; it lists every problem with its position (iloc).

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"client": ["a"] * 4, "query": list("abcd"), "intent": list("xyxy")})
        >>> TaskSet.from_frame(frame, task="client", text="query", label="intent")
        TaskSet(1 tasks, 4 rows)
        """
        from robusttc.data.loading import read_tasks
        from robusttc.data.options import ReadOptions

        columns = {"text_column": text, "label_column": label, "split_column": split, "task_column": task}
        return read_tasks(frame, ReadOptions(**columns, seed=run_seed(random_state))).tasks  # type: ignore[arg-type]

    def to_frame(self) -> pd.DataFrame:
        """Return all rows as a pandas frame with the columns task, text, label, split and may_share.

        Raises
        ------
        UsageError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("to_frame needs pandas", todo="install it: pip install pandas") from None
        rows = [
            (task.name, *row, task.may_share)
            for task in self
            for row in zip(task.texts, task.labels.tolist(), task.splits.tolist(), strict=True)
        ]
        return pd.DataFrame(rows, columns=["task", "text", "label", "split", "may_share"])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks, in order."""
        return tuple(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Task:
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            raise UnknownTaskError(name, self.names) from None

    def subset(self, names: Iterable[str]) -> TaskSet:
        """Return the tasks of these names, in this order."""
        return TaskSet(self[name] for name in names)

    def keep_private(self, names: Iterable[str]) -> TaskSet:
        """Return the same tasks; those of these names may not share (see `Task`), as well as those before.

        Examples
        --------
        >>> tasks = TaskSet([Task("b", ["hi"], ["x"]), Task("a", ["ho"], ["x"])])
        >>> tasks.keep_private(["b"]).shareable().names
        ('a',)
        """
        private = {self[name].name for name in ([names] if isinstance(names, str) else names)}
        return TaskSet(task.with_sharing(False) if task.name in private else task for task in self)

    def shareable(self) -> TaskSet:
        """Return the tasks that other tasks may learn from."""
        return TaskSet(task for task in self if task.may_share)

    @property
    def n_rows(self) -> int:
        """The number of rows in all tasks."""
        return sum(len(task) for task in self)

    @cached_property
    def same_label_sets(self) -> bool:
        """Whether all tasks have identical label sets (then a model of one can serve another as it is)."""
        return len({task.label_names for task in self}) <= 1

    @property
    def content_hashes(self) -> dict[str, str]:
        """The content hash of each task, by name."""
        return {task.name: task.content_hash for task in self}

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the content hashes of the tasks, in order."""
        return hashlib.sha256("\n".join(task.content_hash for task in self).encode()).hexdigest()

    def __eq__(self, other: Any) -> bool:
        return self.content_hash == other.content_hash if isinstance(other, TaskSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __repr__(self) -> str:
        return f"TaskSet({len(self):,} tasks, {self.n_rows:,} rows)"

    def _repr_html_(self) -> str:
        def table_row(kind: str, cells: Iterable[str]) -> str:
            return f"<tr>{''.join(f'<{kind}>{html.escape(cell)}</{kind}>' for cell in cells)}</tr>"

        table = [table_row("th", ("task", "rows", "labels", *SPLITS, ""))]
        for task in islice(self, MAX_HTML_TASKS):
            sizes = (len(task), len(task.label_names), *(len(task.rows(split)) for split in SPLITS))
            private = "" if task.may_share else "private"
            table.append(table_row("td", (task.name, *(f"{size:,}" for size in sizes), private)))
        if len(self) > MAX_HTML_TASKS:
            table.append(table_row("td", [f"… and {len(self) - MAX_HTML_TASKS:,} more"]))
        return f"<table><caption>{self!r}</caption>{''.join(table)}</table>"


def text_problem(text: object) -> str | None:
    """Return what is wrong with a text, or None."""
    if not isinstance(text, str):
        return "the text is not a string"
    if not text or text.isspace():
        return "the text is empty"
    if len(text) > MAX_TEXT_CHARACTERS:
        return f"the text is too long: more than {MAX_TEXT_CHARACTERS:,} characters"
    if "\0" in text:
        return "the text contains a NUL character"
    return None if is_unicode(text) else "the text is not Unicode (a lone surrogate)"


def name_problem(name: object, role: str) -> str | None:
    """Return what is wrong with a label or the name of a task, or None."""
    if not isinstance(name, str):
        return f"the {role} is not a string"
    if not name.strip():
        return f"the {role} is empty"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"the {role} is longer than {MAX_NAME_CHARACTERS:,} characters"
    if not name.isprintable() and any(category(character) in {"Cc", "Cs"} for character in name):
        return f"the {role} contains a control character or a lone surrogate"
    return None


def is_unicode(value: str) -> bool:
    """Return whether a string can be written as UTF-8 (a lone surrogate cannot)."""
    return value.isascii() or not SURROGATE.search(value)


def as_column(where: str, role: str, values: object) -> list[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DataError(f"{role} is not a list", where=where, got=quote(values), expected="a list of strings")
    found = values.tolist() if hasattr(values, "tolist") else values
    # Members of an object array may still be NumPy's own strings.
    return [str(value) if isinstance(value, np.str_) else value for value in found]


def check_rows(where: str, texts: list[Any], labels: list[Any]) -> None:
    good: set[str] = set()
    for row, (text, label) in enumerate(zip(texts, labels, strict=True)):
        if problem := text_problem(text):
            raise DataError(problem, where=f"{where}, row {row}", got=quote(text))
        if isinstance(label, str) and label in good:
            continue
        if problem := name_problem(label, "label"):
            expected = "strings of one line each"
            raise DataError(problem, where=f"{where}, row {row}", got=quote(label), expected=expected)
        good.add(label)


def encode_splits(
    where: str, splits: list[Any], other_splits: Sequence[str]
) -> tuple[tuple[str, ...], NDArray[np.int8]]:
    """Return the names of all splits, the usual three first, and the code of every row."""
    others = as_column(where, "other_splits", other_splits)
    for split in others:
        if problem := name_problem(split, "name of a split"):
            raise DataError(problem, where=where, got=quote(split))
    names = (*SPLITS, *sorted(set(others) - set(SPLITS)))
    if len(names) > MAX_SPLITS:
        got, expected = f"{len(names):,}", f"at most {MAX_SPLITS}"
        raise DataError("the task has too many splits", where=where, got=got, expected=expected)
    code_of: dict[Any, int] = {split: SPLITS.index(meaning) for split, meaning in SPLIT_SYNONYMS.items()}
    code_of |= {split: code for code, split in enumerate(names)}
    for row, split in enumerate(splits):
        if not isinstance(split, str) or split not in code_of:
            place, todo = f"{where}, row {row}", "name further splits in other_splits"
            expected = ", ".join(code_of)
            raise DataError("unknown split", where=place, got=quote(split), expected=expected, todo=todo)
    return names, np.array([code_of[split] for split in splits], dtype=np.int8)

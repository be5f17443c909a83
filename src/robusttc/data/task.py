"""A task: texts, their labels as strings, and the split of every row."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data.packed import PackedStrings
from robusttc.errors import DataError, UsageError, quote

__all__ = ["SPLITS", "Task"]

SPLITS = ("train", "valid", "test")


class Task:
    """One text-classification task; immutable.

    Labels are strings and are never re-coded for the user: `label_codes` are positions in the sorted
    `label_names`, for the arithmetic inside.

    Parameters
    ----------
    name
        The name of the task.
    texts
        One text a row.
    labels
        One label a row.
    splits
        One split a row: ``train``, ``valid``, ``test``, or a name of the caller's own, which training and
        evaluation leave alone until it is asked for. None puts every row in ``train``.
    may_share
        Whether other tasks may learn from this one. With False its texts and labels stay out of every model,
        weight and threshold that serves another task; it is then served by a model of its own.

    Raises
    ------
    DataError
        If the columns differ in length, a value is not a non-empty string, or `may_share` is not a truth.

    Examples
    --------
    >>> task = Task("acme", ["hi", "bye", "hello"], ["greet", "leave", "greet"])
    >>> task.label_names, task.label_codes.tolist(), len(task)
    (('greet', 'leave'), [0, 1, 0], 3)
    """

    __slots__ = (
        "_content_hash",
        "label_codes",
        "label_names",
        "may_share",
        "name",
        "split_codes",
        "split_names",
        "texts",
    )

    name: str
    texts: PackedStrings
    label_names: tuple[str, ...]
    label_codes: NDArray[np.int32]
    split_names: tuple[str, ...]
    split_codes: NDArray[np.int8]
    may_share: bool
    _content_hash: str | None

    def __init__(
        self,
        name: str,
        texts: Sequence[str],
        labels: Sequence[str],
        splits: Sequence[str] | None = None,
        *,
        may_share: bool = True,
    ) -> None:
        splits = [SPLITS[0]] * len(texts) if splits is None else splits
        columns = {"text": list(texts), "label": list(labels), "split": list(splits)}
        check_columns(name, columns)
        label_names, label_codes = encode_labels(columns["label"])
        split_names = (*SPLITS, *sorted(set(columns["split"]) - set(SPLITS)))
        split_code = {split: code for code, split in enumerate(split_names)}
        self._fill(
            name,
            PackedStrings.pack(columns["text"]),
            label_names,
            label_codes,
            split_names,
            np.array([split_code[split] for split in columns["split"]], dtype=np.int8),
            may_share,
        )

    @classmethod
    def from_codes(
        cls,
        name: str,
        texts: PackedStrings,
        label_names: tuple[str, ...],
        label_codes: NDArray[np.int32],
        split_names: tuple[str, ...],
        split_codes: NDArray[np.int8],
        may_share: bool = True,
    ) -> Task:
        """Make a task from columns that are already checked and coded; `label_names` must be sorted."""
        task = cls.__new__(cls)
        task._fill(name, texts, label_names, label_codes, split_names, split_codes, may_share)
        return task

    def _fill(
        self,
        name: str,
        texts: PackedStrings,
        label_names: tuple[str, ...],
        label_codes: NDArray[np.int32],
        split_names: tuple[str, ...],
        split_codes: NDArray[np.int8],
        may_share: bool,
    ) -> None:
        # A word such as "no" would pass for True, and texts would get where they must not.
        if not isinstance(may_share, bool):
            raise DataError(
                "may_share is not a truth",
                where=f"task {quote(name)}",
                got=quote(may_share),
                expected="True or False",
            )
        label_codes.flags.writeable = False
        split_codes.flags.writeable = False
        values = {
            "name": name,
            "texts": texts,
            "label_names": label_names,
            "label_codes": label_codes,
            "split_names": split_names,
            "split_codes": split_codes,
            "may_share": may_share,
            "_content_hash": None,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a Task is immutable; cannot set {field}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers get their tasks pickled, and unpickling would set the fields one by one.
        columns = (self.label_names, self.label_codes, self.split_names, self.split_codes)
        return Task.from_codes, (self.name, self.texts, *columns, self.may_share)

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
        """Give the row numbers of one split or several, in the order of the task."""
        for split in splits:
            if split not in self.split_names:
                raise UsageError(
                    "the task has no such split",
                    where=f"task {quote(self.name)}",
                    got=quote(split),
                    expected=" or ".join(self.split_names),
                )
        chosen = np.zeros(len(self.split_names), dtype=np.bool_)
        chosen[[self.split_names.index(split) for split in splits]] = True
        return np.flatnonzero(chosen[self.split_codes])

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Task:
        """Give a task of the same name with only these rows; labels that do not occur are gone."""
        chosen = np.asarray(rows, dtype=np.intp)
        kept, codes = np.unique(self.label_codes[chosen], return_inverse=True)
        return Task.from_codes(
            self.name,
            self.texts.take(chosen),
            tuple(self.label_names[code] for code in kept),
            codes.astype(np.int32),
            self.split_names,
            self.split_codes[chosen],
            self.may_share,
        )

    def with_splits(self, splits: Sequence[str]) -> Task:
        """Give the same rows with other splits."""
        return Task(self.name, self.texts, self.labels.tolist(), splits, may_share=self.may_share)

    def with_sharing(self, may_share: bool) -> Task:
        """Give the same task, from which other tasks may learn or not."""
        columns = (self.label_names, self.label_codes, self.split_names, self.split_codes)
        return Task.from_codes(self.name, self.texts, *columns, may_share)

    @property
    def content_hash(self) -> str:
        """SHA-256 over the name, every row in order and `may_share`, the same on every machine."""
        if self._content_hash is None:
            object.__setattr__(self, "_content_hash", self._compute_hash())
        return str(self._content_hash)

    def _compute_hash(self) -> str:
        digest = hashlib.sha256(b"robusttc-task-1")
        columns = [
            PackedStrings.pack([self.name]),
            self.texts,
            PackedStrings.pack(self.label_names),
            PackedStrings.pack(self.splits.tolist()),
        ]
        for column in columns:
            digest.update(len(column).to_bytes(8, "little"))
            digest.update(column.offsets.astype("<i8").tobytes())
            digest.update(column.buffer)
        digest.update(self.label_codes.astype("<i4").tobytes())
        # Only where it is False: the hashes of all other tasks stay those that runs on disk know.
        if not self.may_share:
            digest.update(b"may not share")
        return digest.hexdigest()

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Task):
            return NotImplemented
        return self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __repr__(self) -> str:
        private = "" if self.may_share else ", may not share"
        return f"Task({self.name!r}, {len(self):,} rows, {len(self.label_names):,} labels{private})"


def encode_labels(labels: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Give the sorted label names and the code of every row."""
    names = tuple(sorted(set(labels)))
    code_of = {label: code for code, label in enumerate(names)}
    return names, np.array([code_of[label] for label in labels], dtype=np.int32)


def check_columns(name: object, columns: dict[str, list[str]]) -> None:
    """Refuse columns that cannot make a task, naming task, row and value."""
    if not isinstance(name, str) or not name.strip():
        raise DataError("the name of a task is not usable", got=quote(name), expected="a non-empty string")
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) != 1:
        raise DataError(
            "the columns of a task differ in length",
            where=f"task {quote(name)}",
            got=", ".join(f"{length} {column}s" for column, length in lengths.items()),
            expected="one text, one label and one split a row",
        )
    for column, values in columns.items():
        for row, value in enumerate(values):
            if not isinstance(value, str) or not value.strip() or not is_unicode(value):
                raise DataError(
                    f"a {column} is not usable",
                    where=f"task {quote(name)}, row {row}",
                    got=quote(value),
                    expected="a non-empty string of Unicode text",
                )


def is_unicode(value: str) -> bool:
    """Tell whether a string can be written as UTF-8 (a lone surrogate cannot)."""
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

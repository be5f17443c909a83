"""How task files are read: the options, and the columns of texts and labels by their usual names."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from robusttc.data.tables import Table, normalise_name
from robusttc.data.task import MAX_SPLITS, SPLIT_SYNONYMS, SPLITS
from robusttc.data.text_files import ReadError
from robusttc.errors import UsageError, nearest_name, quote
from robusttc.params import Boolean, Number, check_params

__all__ = [
    "KNOWN_NAMES",
    "ROLES",
    "SHARES",
    "ReadOptions",
    "check_shares",
    "find_columns",
    "find_unused_task_column",
]

SHARES = (0.64, 0.16, 0.20)  # of train, valid, test

# The columns of each role by their usual names, the first being the name that we write ourselves.
USUAL_NAMES = {
    "text": (
        *("text", "texts", "utterance", "query", "sentence", "message", "question", "phrase", "example"),
        *("input", "content", "comment", "review", "document", "tweet", "user_query", "user_message"),
    ),
    "label": (
        *("label", "labels", "intent", "category", "class", "target", "tag", "topic", "sentiment"),
        *("label_name", "intent_name", "class_name", "category_name"),
    ),
    "split": ("split",),
    "task": ("task",),
    "may_share": ("may_share",),
}
ROLES = tuple(USUAL_NAMES)
# Columns that often say whose text a row is. One of these is never used unasked: a wrong guess would cut a
# task into pieces. The reader says that it is there.
PROBABLE_TASKS = (
    *("tasks", "task_name", "task_id", "client", "client_name", "client_id", "tenant", "tenant_id", "bot"),
    *("bot_name", "bot_id", "project", "project_id", "customer", "customer_id", "domain", "account"),
    *("account_id", "company", "organisation", "organization", "workspace", "dataset", "data_set", "brand"),
)
KNOWN_NAMES = frozenset(name for names in USUAL_NAMES.values() for name in names)
TEXT_TYPE = re.compile(r"(large_)?string(_view)?|null|dictionary<values=(large_)?string.*")
INTEGER_TYPE = re.compile(r"u?int\d+|dictionary<values=u?int.*")


@dataclass(frozen=True)
class ReadOptions:
    """How task files are read: the options of `load_tasks`, and the seed of the splits.

    Raises
    ------
    UsageError
        If an option cannot be used.
    """

    text_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    task_column: str | None = None
    split_values: Mapping[str, str] = field(default_factory=dict)
    shares: Sequence[float] = SHARES
    delimiter: str | None = None
    encoding: str | None = None
    skip_bad_rows: bool = False
    allow_incomplete: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        flags = {"skip_bad_rows": self.skip_bad_rows, "allow_incomplete": self.allow_incomplete}
        check_params(flags, dict.fromkeys(flags, (Boolean(),)))
        columns = [*self.named_columns.values()]
        for role, column in self.named_columns.items():
            is_usable = isinstance(column, str) and columns.count(column) == 1
            refuse_unless(is_usable, f"{role}_column", column, "the name of one column, unlike the others")
        mark, encoding = self.delimiter, self.encoding
        is_mark = isinstance(mark, str) and len(mark) == 1 and mark not in '"\r\n\0'
        expected = "one character that is neither a quote nor a line break"
        refuse_unless(mark is None or is_mark, "delimiter", mark, expected)
        expected = "a text encoding, such as utf-8, utf-16 or cp1252"
        refuse_unless(encoding is None or is_text_encoding(encoding), "encoding", encoding, expected)
        object.__setattr__(self, "shares", check_shares(self.shares))
        for value, meaning in self.split_values.items():
            is_own = meaning == value and isinstance(value, str) and bool(value.strip())
            is_usable = isinstance(value, str) and (meaning in SPLITS or is_own)
            expected = f"each value mapped to {', '.join(SPLITS)}, or to itself as a split of its own"
            refuse_unless(is_usable, "split_values", {value: meaning}, expected)
        n_splits = len(self.split_names)
        refuse_unless(n_splits <= MAX_SPLITS, "split_values", n_splits, f"at most {MAX_SPLITS} splits")

    @property
    def named_columns(self) -> dict[str, str]:
        """The columns that the caller named, by role."""
        named = {role: getattr(self, f"{role}_column", None) for role in ROLES}
        return {role: column for role, column in named.items() if column is not None}

    @property
    def split_names(self) -> tuple[str, ...]:
        """All splits that a row may be in: the usual three, then the caller's own."""
        return (*SPLITS, *sorted(set(self.split_values.values()) - set(SPLITS)))

    @property
    def split_meanings(self) -> dict[str, str]:
        """Every value that the split column may have, and the split it means."""
        return {**SPLIT_SYNONYMS, **self.split_values}


def refuse_unless(is_usable: bool, option: str, value: object, expected: str) -> None:
    if not is_usable:
        raise UsageError(f"{option} cannot be used", got=quote(value), expected=expected)


def is_text_encoding(name: object) -> bool:
    try:
        return isinstance(name, str) and codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        return False


def check_shares(shares: Sequence[float]) -> tuple[float, float, float]:
    """Return the shares of train, valid and test; refuse what is not three shares that sum to 1."""
    is_triple = isinstance(shares, tuple | list | np.ndarray) and len(shares) == len(SPLITS)
    is_usable = is_triple and all(map(Number(0, 1).accepts, shares)) and shares[0] > 0
    expected = "three numbers from 0 to 1 that sum to 1, the first above 0, such as (0.64, 0.16, 0.2)"
    refuse_unless(is_usable and abs(sum(shares) - 1) <= 1e-6, "shares", shares, expected)
    train, valid, test = map(float, shares)
    return train, valid, test


def find_columns(table: Table, options: ReadOptions) -> dict[str, str]:
    """Return the column of each role; a missing, repeated or ambiguous one is a `ReadError`."""
    if table.is_keyed and not table.columns:
        return {}  # rows without a header, or none that could be read
    named = options.named_columns
    columns: dict[str, str] = {}
    for role in ROLES:
        column = named[role] if role in named else recognise(table, role, set(named.values()))
        if column in table.columns or (column is not None and table.is_keyed):
            columns[role] = column
        elif role in named or role in {"text", "label"}:
            raise_missing(table, role, named.get(role), {*named.values(), *columns.values()})
    for role, column in columns.items():
        if (n_columns := table.columns.count(column)) > 1:
            raise table.error(f"the column {quote(column)} is there {n_columns} times")
        check_type(table, role, column)
    return columns


def find_unused_task_column(table: Table, columns: Mapping[str, str]) -> str | None:
    """Return a column that probably names tasks, if no column is read as the task."""
    if columns.get("task") in table.columns:
        return None
    free = (name for name in table.columns if name not in columns.values())
    return next((name for name in free if normalise_name(name) in PROBABLE_TASKS), None)


def recognise(table: Table, role: str, taken: set[str]) -> str | None:
    """Return the column that has one of the usual names of a role, or None."""
    free = [column for column in dict.fromkeys(table.columns) if column not in taken]
    if role in free or (table.is_keyed and role in {"split", "task", "may_share"} and role not in taken):
        return role
    same_name = [column for column in free if normalise_name(column) == role]
    found = same_name or [column for column in free if normalise_name(column) in USUAL_NAMES[role]]
    if len(found) > 1:
        got, todo = (
            ", ".join(map(quote, found)),
            f"name the one that is meant: {role}_column={quote(found[0])}",
        )
        raise table.error(f"several columns could be the {role}", got=got, todo=todo)
    return found[0] if found else None


def raise_missing(table: Table, role: str, named: str | None, taken: set[str]) -> NoReturn:
    """Raise the error of a column that is not there, with the one that was probably meant."""
    foreign = {name for other in ROLES if other != role for name in USUAL_NAMES[other]}
    free = [name for name in table.columns if name not in taken and normalise_name(name) not in foreign]
    usual = [name for name in free if normalise_name(name) in USUAL_NAMES[role]]
    meant = nearest_name(named or role, free) or (usual[0] if usual else None)
    todo = f"name the column of the {role}: {role}_column="
    todo += f"{quote(meant)} (did you mean {quote(meant)}?)" if meant else "..."
    if len(table.columns) == 1 and re.search(r"[,;|\t]", table.columns[0]):
        todo = "the header is one field: pass the delimiter of the file, for instance delimiter=','"
    got = f"columns {', '.join(map(quote, table.columns[:12]))}" if table.columns else "no columns"
    expected = None if named else f"{role}, or a usual name such as {', '.join(USUAL_NAMES[role][2:6])}"
    what = f"missing column {quote(named or role)} for the {role}"
    raise table.error(what, got=got, expected=expected, todo=todo)


def check_type(table: Table, role: str, column: str) -> None:
    """Refuse a column whose declared type can hold no texts, labels or names."""
    found = table.types.get(column, "string")
    is_name = role in {"label", "task"}
    is_usable = TEXT_TYPE.fullmatch(found) or (is_name and INTEGER_TYPE.fullmatch(found))
    if not is_usable and (role, found) != ("may_share", "bool"):
        what = f"the {role} column {quote(column)} has a type that cannot be read"
        raise ReadError(what, got=found, expected="strings or whole numbers" if is_name else "strings")

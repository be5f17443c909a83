"""How task files are read: the options, and the columns of texts and labels by their usual names."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from robusttc.data.tables import Table, normalise_name
from robusttc.data.task import MAX_SPLITS, SHARES, SPLIT_SYNONYMS, SPLITS, check_shares
from robusttc.data.text_files import ReadError
from robusttc.errors import UsageError, nearest_name, quote
from robusttc.params import Boolean, check_params

__all__ = ["KNOWN_NAMES", "ROLES", "ReadOptions", "find_columns", "find_unused_task_column"]

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
    """How task files are read.

    Parameters
    ----------
    text_column, label_column
        The columns of texts and labels. None finds ``text`` and ``label``, in upper or lower case, or else
        the usual names (utterance, query, sentence …; intent, category, class …).
    split_column, task_column
        The columns that may be there. None uses ``split`` and ``task``, if the file has them; a name that is
        given must be in the file.
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
        Whether to leave out bad rows, with a count, instead of refusing the files.
    allow_incomplete
        Whether to keep tasks that cannot be trained as they are: fewer than two labels in train, or labels
        that occur only in valid or test.
    seed
        The seed of the splits where the files have none.
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
        columns = {f"{role}_column": column for role, column in self.named_columns.items()}
        for option, value in {**columns, "delimiter": self.delimiter, "encoding": self.encoding}.items():
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{option} cannot be used", got=quote(value), expected="a string")
        flags = {"skip_bad_rows": self.skip_bad_rows, "allow_incomplete": self.allow_incomplete}
        check_params(flags, dict.fromkeys(flags, (Boolean(),)))
        if len(set(columns.values())) < len(columns):
            got = ", ".join(f"{option}={quote(column)}" for option, column in columns.items())
            raise UsageError("two columns have the same name", got=got, expected="different columns")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n\0'):
            expected = "one character that is neither a quote nor a line break"
            raise UsageError("the delimiter cannot be used", got=quote(self.delimiter), expected=expected)
        if self.encoding is not None and not is_text_encoding(self.encoding):
            expected = "a text encoding, such as utf-8, utf-16 or cp1252"
            raise UsageError("unknown encoding", got=quote(self.encoding), expected=expected)
        object.__setattr__(self, "shares", check_shares(self.shares))
        for value, meaning in self.split_values.items():
            is_own = meaning == value and isinstance(value, str) and bool(value.strip())
            if not isinstance(value, str) or not (meaning in SPLITS or is_own):
                raise UsageError(
                    f"split value {quote(value)} is mapped to a split that does not exist",
                    got=quote(meaning),
                    expected=f"{', '.join(SPLITS)}, or {quote(value)} to keep it as a split of its own",
                )
        if len(self.split_names) > MAX_SPLITS:
            got, expected = f"{len(self.split_names):,} splits", f"at most {MAX_SPLITS}"
            raise UsageError("split_values has too many splits", got=got, expected=expected)

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


def is_text_encoding(name: str) -> bool:
    """Return whether Python knows a text encoding of this name."""
    try:
        return codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        return False


def find_columns(table: Table, options: ReadOptions) -> dict[str, str]:
    """Return the column of each role; a missing, repeated or ambiguous one is a `ReadError`."""
    if table.is_keyed and not table.columns:
        return {}  # no row could be read; each has its own problem
    named = options.named_columns
    columns: dict[str, str] = {}
    for role in ROLES:
        column = named[role] if role in named else recognise(table, role, set(named.values()))
        if column in table.columns or (column is not None and table.is_keyed):
            columns[role] = column
        elif role in named or role in {"text", "label"}:
            raise_missing(table, role, named.get(role), {*named.values(), *columns.values()})
    for role, column in columns.items():
        if table.columns.count(column) > 1:
            what = f"the column {quote(column)} is there {table.columns.count(column)} times"
            raise ReadError(what, line=table.line, unit=table.unit)
        check_type(table, role, column)
    return columns


def find_unused_task_column(table: Table, columns: Mapping[str, str]) -> str | None:
    """Return a column that probably names tasks, if no column is read as the task."""
    free = [name for name in table.columns if name not in columns.values()]
    found = [name for name in free if normalise_name(name) in PROBABLE_TASKS]
    return found[0] if found and table.columns.count(columns.get("task", "")) == 0 else None


def recognise(table: Table, role: str, taken: set[str]) -> str | None:
    """Return the column that has one of the usual names of a role, or None."""
    free = [column for column in dict.fromkeys(table.columns) if column not in taken]
    if role in free or (table.is_keyed and role in {"split", "task", "may_share"} and role not in taken):
        return role
    same_name = [column for column in free if normalise_name(column) == role]
    usual = [column for column in free if normalise_name(column) in USUAL_NAMES[role]]
    found = same_name or usual
    if len(found) > 1:
        raise ReadError(
            f"several columns could be the {role}",
            line=table.line,
            unit=table.unit,
            got=", ".join(map(quote, found)),
            todo=f"name the one that is meant: {role}_column={quote(found[0])}",
        )
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
    raise ReadError(
        f"missing column {quote(named or role)} for the {role}",
        line=table.line,
        unit=table.unit,
        got=f"columns {', '.join(map(quote, table.columns[:12]))}" if table.columns else "no columns",
        expected=None if named else f"{role}, or a usual name such as {', '.join(USUAL_NAMES[role][2:6])}",
        todo=todo,
    )


def check_type(table: Table, role: str, column: str) -> None:
    """Refuse a column whose declared type can hold no texts, labels or names."""
    found = table.types.get(column)
    may_be_integer = role in {"label", "task"}
    if found is None or TEXT_TYPE.fullmatch(found) or (may_be_integer and INTEGER_TYPE.fullmatch(found)):
        return
    if role == "may_share" and found == "bool":
        return
    what = f"the {role} column {quote(column)} has a type that cannot be read"
    expected = "strings or whole numbers" if may_be_integer else "strings"
    raise ReadError(what, got=found, expected=expected)

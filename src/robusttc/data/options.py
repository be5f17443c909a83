"""How task files are read: the options, and the columns of texts and labels by their usual names."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from robusttc.data.tables import Table, normalise_name
from robusttc.data.task import MAX_SPLITS, SHARES, SPLIT_SYNONYMS, SPLITS, check_shares
from robusttc.data.text_files import ReadError
from robusttc.errors import UsageError, nearest_name, quote
from robusttc.params import Boolean, check_params

__all__ = ["KNOWN_NAMES", "ROLES", "ReadOptions", "find_columns"]

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
        named = {role: self.column_named(role) for role in ROLES}
        strings: dict[str, object] = {f"{role}_column": column for role, column in named.items()}
        strings |= {"delimiter": self.delimiter, "encoding": self.encoding}
        for option, value in strings.items():
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{option} cannot be used", got=quote(value), expected="a string")
        flags = {"skip_bad_rows": self.skip_bad_rows, "allow_incomplete": self.allow_incomplete}
        check_params(flags, dict.fromkeys(flags, (Boolean(),)))
        given = [column for column in named.values() if column is not None]
        if len(set(given)) < len(given):
            raise UsageError(
                "two columns have the same name",
                got=", ".join(f"{role}: {quote(column)}" for role, column in named.items() if column),
                expected="different columns for text, label, split and task",
            )
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n\0'):
            raise UsageError(
                "the delimiter cannot be used",
                got=quote(self.delimiter),
                expected="one character that is neither a quote nor a line break",
            )
        if self.encoding is not None and not is_text_encoding(self.encoding):
            expected = "a text encoding, such as utf-8, utf-16 or cp1252"
            raise UsageError("unknown encoding", got=quote(self.encoding), expected=expected)
        object.__setattr__(self, "shares", check_shares(self.shares))
        self._check_split_values()

    def _check_split_values(self) -> None:
        values: Mapping[Any, Any] = self.split_values
        for value, meaning in values.items():
            if not isinstance(value, str) or not isinstance(meaning, str):
                got = quote({value: meaning})
                raise UsageError("split_values cannot be used", got=got, expected="strings")
            if not meaning.strip() or (meaning not in SPLITS and meaning != value):
                raise UsageError(
                    f"split value {quote(value)} is mapped to a split that does not exist",
                    got=quote(meaning),
                    expected=f"{', '.join(SPLITS)}, or {quote(value)} to keep it as a split of its own",
                )
        if len(self.split_names) > MAX_SPLITS:
            got, expected = f"{len(self.split_names):,} splits", f"at most {MAX_SPLITS}"
            raise UsageError("split_values has too many splits", got=got, expected=expected)

    def column_named(self, role: str) -> str | None:
        """Return the column of a role as the caller named it, or None."""
        name: str | None = getattr(self, f"{role}_column", None)
        return name

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
    """Return the column of each role that the table has.

    Raises
    ------
    ReadError
        If a column that must be there is missing, there twice, or one of several that could be meant.
    """
    if table.is_keyed and not table.columns:
        return {}  # no row could be read; each has its own problem
    taken = {column for role in ROLES if (column := options.column_named(role)) is not None}
    columns: dict[str, str] = {}
    for role in ROLES:
        named = options.column_named(role)
        column = named if named is not None else recognise(table, role, taken)
        if column is not None and table.columns.count(column) > 1:
            what = f"the column {quote(column)} is there {table.columns.count(column)} times"
            raise ReadError(what, line=table.line, unit=table.unit)
        if column in table.columns or (column is not None and table.is_keyed):
            columns[role] = str(column)
        elif named is not None or role in {"text", "label"}:
            raise_missing(table, role, named, taken | set(columns.values()))
    for role, column in columns.items():
        check_type(table, role, column)
    return columns


def recognise(table: Table, role: str, taken: set[str]) -> str | None:
    """Return the column that has one of the usual names of a role, or None."""
    free = [column for column in dict.fromkeys(table.columns) if column not in taken]
    if role in free or (table.is_keyed and role in {"split", "task", "may_share"} and role not in taken):
        return role
    names = USUAL_NAMES[role]
    same_name = [column for column in free if normalise_name(column) == role]
    for found in (same_name, [column for column in free if normalise_name(column) in names]):
        if len(found) > 1:
            raise ReadError(
                f"several columns could be the {role}",
                line=table.line,
                unit=table.unit,
                got=", ".join(map(quote, found)),
                todo=f"name the one that is meant: {role}_column={quote(found[0])}",
            )
        if found:
            return found[0]
    return None


def raise_missing(table: Table, role: str, named: str | None, taken: set[str]) -> NoReturn:
    """Raise the error of a column that is not there, with the one that was probably meant."""
    foreign = {name for other in ROLES if other != role for name in USUAL_NAMES[other]}
    free = [name for name in table.columns if name not in taken and normalise_name(name) not in foreign]
    usual = [name for name in free if normalise_name(name) in USUAL_NAMES[role]]
    meant = nearest_name(named or role, free) or (usual[0] if usual else None)
    if len(table.columns) == 1 and re.search(r"[,;|\t]", table.columns[0]):
        todo = "the header is one field: pass the delimiter of the file, for instance delimiter=','"
    else:
        todo = f"name the column of the {role}: {role}_column={quote(meant) if meant else '...'}"
        todo += f" (did you mean {quote(meant)}?)" if meant else ""
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
    raise ReadError(
        f"the {role} column {quote(column)} has a type that cannot be read",
        got=found,
        expected="strings" + (" or whole numbers" if may_be_integer else ""),
    )

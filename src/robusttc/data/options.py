"""How task files are to be read: one value that every reader gets."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field

from robusttc.data.task import SPLITS
from robusttc.errors import UsageError, quote

__all__ = ["SPLIT_SYNONYMS", "ReadOptions"]

SPLIT_SYNONYMS = {**{split: split for split in SPLITS}, "validation": "valid", "dev": "valid"}

# A split is one byte a row.
MAX_SPLITS = 100


@dataclass(frozen=True)
class ReadOptions:
    """How task files are to be read.

    Parameters
    ----------
    text_column, label_column
        The columns that must be there.
    split_column, task_column
        The columns that may be there. None means ``split`` and ``task``, if the file has them; a name that is
        given must be in the file.
    split_values
        What further values of the split column mean: a value maps to ``train``, ``valid`` or ``test``, or to
        itself to be kept as a split of its own name.
    delimiter
        The delimiter of CSV and TSV files; None finds it from the header.
    encoding
        The encoding of text files; None means UTF-8, or UTF-16 where the file begins with its mark.
    skip_bad_rows
        Leave out rows that are wrong, with a count, in place of refusing the files.
    allow_incomplete
        Keep tasks that cannot be trained as they are: fewer than two labels in train, or labels that only
        occur in valid or test.
    seed
        The seed of the splits where the files have none.
    """

    text_column: str = "text"
    label_column: str = "label"
    split_column: str | None = None
    task_column: str | None = None
    split_values: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    encoding: str | None = None
    skip_bad_rows: bool = False
    allow_incomplete: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_types()
        names = {role: name for role, name in self.column_of_role.items() if name is not None}
        if len(set(names.values())) < len(names):
            raise UsageError(
                "two columns have the same name",
                got=", ".join(f"{role}: {quote(name)}" for role, name in names.items()),
                expected="a column of its own for text, label, split and task",
            )
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n\0'):
            raise UsageError(
                "the delimiter cannot be used",
                got=quote(self.delimiter),
                expected="one character that is neither a quote nor a line break",
            )
        if self.encoding is not None:
            try:
                text_encoding = codecs.lookup(self.encoding)._is_text_encoding
            except (LookupError, ValueError):
                text_encoding = False
            if not text_encoding:
                raise UsageError(
                    "unknown encoding",
                    got=quote(self.encoding),
                    expected="a text encoding, such as utf-8, utf-16 or cp1252",
                )
        for value, meaning in self.split_values.items():
            if not meaning.strip() or (meaning not in SPLITS and meaning != value):
                raise UsageError(
                    f"split value {quote(value)} is given a meaning that does not exist",
                    got=quote(meaning),
                    expected=f"{', '.join(SPLITS)}, or {quote(value)} to keep it as a split of its own",
                )

        if len(self.split_names) > MAX_SPLITS:
            raise UsageError(
                "too many splits of their own",
                got=f"{len(self.split_names):,} splits",
                expected=f"at most {MAX_SPLITS}",
            )

    def _check_types(self) -> None:
        required: list[tuple[str, object]] = [
            ("text_column", self.text_column),
            ("label_column", self.label_column),
            *(("split_values", text) for pair in self.split_values.items() for text in pair),
        ]
        optional: list[tuple[str, object]] = [
            ("split_column", self.split_column),
            ("task_column", self.task_column),
            ("delimiter", self.delimiter),
            ("encoding", self.encoding),
        ]
        for option, value in required + [(option, value) for option, value in optional if value is not None]:
            if not isinstance(value, str):
                raise UsageError(f"{option} cannot be used", got=quote(value), expected="a string")

    def column_for(self, role: str) -> str | None:
        """Give the column in which to look for a role.

        That is None for an optional role where the caller gave the column of that name to another.
        """
        named = self.column_of_role[role]
        if named is not None:
            return named
        return None if role in self.column_of_role.values() else role

    @property
    def column_of_role(self) -> dict[str, str | None]:
        """The column of each role as the caller named it; None for an optional one that was not named."""
        return {
            "text": self.text_column,
            "label": self.label_column,
            "split": self.split_column,
            "task": self.task_column,
        }

    @property
    def split_names(self) -> tuple[str, ...]:
        """All splits that a row may be in: the three of always, then the caller's own."""
        extra = {meaning for meaning in self.split_values.values() if meaning not in SPLITS}
        return (*SPLITS, *sorted(extra))

    @property
    def split_meanings(self) -> dict[str, str]:
        """Every value that the split column may have, and the split it means."""
        return {**SPLIT_SYNONYMS, **self.split_values}

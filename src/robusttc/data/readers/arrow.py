"""Rows out of Arrow tables: what Parquet files and Hugging Face folders have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from robusttc.data.problems import FileFault
from robusttc.data.readers.columns import find_columns
from robusttc.data.rows import MISSING, FileRows
from robusttc.errors import quote

__all__ = ["ARROW_ERRORS", "add_batches", "choose_columns", "reason_of"]

# What pyarrow raises on a damaged file, besides its own tree.
ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError)


def reason_of(error: BaseException) -> str:
    """Give what pyarrow says, on one line; it may quote the bytes of the file."""
    said = str(error).splitlines()
    return quote(said[0][:200]) if said else type(error).__name__


def choose_columns(schema: Any, rows: FileRows) -> dict[str, str]:
    """Give the column name of each role, having checked that its type can be read."""
    places = find_columns(schema.names, rows.options)
    for role, place in places.items():
        column_type = schema.field(place).type
        value_type = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
        allowed = [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null]
        if role in {"label", "task"}:
            allowed.append(pa.types.is_integer)
        if not any(is_allowed(value_type) for is_allowed in allowed):
            raise FileFault(
                f"the {role} column {quote(schema.names[place])} has a type that cannot be read",
                got=str(column_type),
                expected="strings" + (" or whole numbers" if role in {"label", "task"} else ""),
            )
    return {role: schema.names[place] for role, place in places.items()}


def add_batches(
    batches: Iterable[Any],
    columns: dict[str, str],
    rows: FileRows,
    *,
    class_names: Mapping[str, Sequence[str]] | None = None,
    split: object = MISSING,
    first_row: int = 1,
) -> int:
    """Hand over the rows of Arrow record batches; gives the number of the row after the last.

    Parameters
    ----------
    batches
        The record batches.
    columns
        The column name of each role.
    rows
        Where the rows go.
    class_names
        The names behind the integers of a role, where they are positions in a list of names.
    split
        The split of all rows by where the table lies. A split column that nobody asked for must agree.
    first_row
        The number of the first row.
    """
    number = first_row
    class_names = class_names or {}
    meanings = rows.options.split_meanings
    must_agree = split is not MISSING and "split" in columns and rows.options.split_column is None
    for batch in batches:
        values = {role: column_values(batch.column(name), number) for role, name in columns.items()}
        for role, names in class_names.items():
            values[role] = name_classes(values[role], names)
        splits = values.get("split", [split] * batch.num_rows)
        tasks = values.get("task", [MISSING] * batch.num_rows)
        for text, label, row_split, task in zip(values["text"], values["label"], splits, tasks, strict=True):
            if text is None:
                rows.refuse(number, "empty text", got="null")
            elif label is None:
                rows.refuse(number, "empty label", got="null")
            elif "label" in class_names and not isinstance(label, str):
                refuse_class(number, "label", label, class_names, rows)
            elif "task" in class_names and not isinstance(task, str):
                refuse_class(number, "task", task, class_names, rows)
            elif must_agree and meanings.get(row_split, row_split) != meanings.get(str(split), split):
                rows.refuse(
                    number,
                    "the split column and the folder of the row do not agree",
                    got=quote(row_split),
                    expected=quote(split),
                    todo="go by the column with --split-column, or take the column away",
                )
            else:
                rows.add(number, text, label, row_split, task)
            number += 1
    return number


def name_classes(values: Sequence[object], names: Sequence[str]) -> list[object]:
    """Give the names of integers that are positions in a list of names; what is none stays as it is."""
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else value for value in values]


def refuse_class(
    row: int, role: str, value: object, class_names: Mapping[str, Sequence[str]], rows: FileRows
) -> None:
    """Say that an integer is no position in the list of names."""
    rows.refuse(
        row,
        f"the {role} is not one of the data set's names",
        got=quote(value),
        expected=f"a number from 0 to {len(class_names[role]) - 1}",
    )


def column_values(column: Any, first_row: int) -> list[Any]:
    """Turn a column into Python values; a string that is not UTF-8 is a `FileFault` with its row."""
    if not pa.types.is_dictionary(column.type):
        return python_values(column, range(first_row, first_row + len(column)))
    # One Python string a distinct value, not one a row: a long value may be there a thousand times. And only
    # those of this batch: the dictionary may be that of the whole file.
    codes = column.indices.to_pylist()
    first_place = {code: place for place, code in reversed(list(enumerate(codes))) if code is not None}
    used = column.dictionary.take(pa.array(list(first_place), column.type.index_type))
    values = python_values(used, [first_row + place for place in first_place.values()])
    value_of = {None: None, **dict(zip(first_place, values, strict=True))}
    return [value_of[code] for code in codes]


def python_values(column: Any, row_numbers: Sequence[int]) -> list[Any]:
    """Turn a column without a dictionary into Python values; `row_numbers` are for the message."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        for value, row in zip(column, row_numbers, strict=True):
            try:
                value.as_py()
            except UnicodeDecodeError as error:
                raise FileFault("a string is not UTF-8", line=row, got=str(error)) from None
        raise

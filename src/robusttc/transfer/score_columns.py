"""Columns of transfer scores: conversion, checks that name task and value, order, and duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import is_unicode
from robusttc.errors import DataError, quote

__all__ = [
    "HALVES",
    "Columns",
    "as_array",
    "average_duplicates",
    "check_columns",
    "check_names",
    "duplicate_mask",
    "find_faults",
    "is_task_name",
    "refuse_duplicates",
    "sort_columns",
]

ENDS = ("source", "target")
HALVES = ("first_half", "second_half")  # both or neither
MAX_SCORE = 1e150  # beyond, the square of a score overflows
FINITE = (-MAX_SCORE, MAX_SCORE, "a finite number")
# The lowest and the highest value of each column, and what is expected.
RANGES: dict[str, tuple[float, float, str]] = {
    "score": FINITE,
    "n_examples": (0, 2**53, "0 (not known) or more"),
    "standard_error": (0, MAX_SCORE, "a finite number, 0 or more"),
    "first_half": FINITE,
    "second_half": FINITE,
}
ACCURACY = (0, 1, "from 0 to 1, or another kind of score")

Columns = dict[str, NDArray[Any]]


def check_names(task_names: Sequence[str]) -> tuple[str, ...]:
    """Refuse task names that are empty, not strings, or not unique."""
    if isinstance(task_names, str):
        raise DataError("the task names are one string", got=quote(task_names), expected="a list of names")
    names = tuple(task_names)
    if not names:
        raise DataError("there are no tasks", expected="at least one task name")
    seen: set[str] = set()
    for number, name in enumerate(names):
        if not is_task_name(name):
            raise DataError(
                "the name of a task is not usable",
                where=f"task {number}",
                got=quote(name),
                expected="a non-empty string of Unicode text",
            )
        if name in seen:
            raise DataError("two tasks have the same name", got=quote(name), expected="unique names")
        seen.add(name)
    return names


def is_task_name(name: object) -> bool:
    """Return whether a value can name a task: a string that is not blank and can be written as UTF-8."""
    return isinstance(name, str) and bool(name.strip()) and is_unicode(name)


def as_array(name: str, values: ArrayLike, *, whole: bool = False, n_dimensions: int = 1) -> NDArray[Any]:
    """Return the caller's values as a new array of float64, or of int64 if they must be whole numbers."""
    form = "list" if n_dimensions == 1 else "square matrix"
    try:
        array = np.array(values, dtype=np.int64 if np.shape(values) == (0,) else None)
        if array.dtype.kind not in ("iu" if whole else "iuf") or array.ndim != n_dimensions:
            raise ValueError(f"{array.dtype} of shape {array.shape}")
    except ValueError as error:
        expected = f"a {form} of {'whole ' if whole else ''}numbers"
        raise DataError(f"{name} cannot be used", got=str(error), expected=expected) from None
    return array.astype(np.int64 if whole else np.float64)


def check_columns(names: tuple[str, ...], columns: Columns, kind: str) -> None:
    """Refuse columns that are not scores, naming tasks and value."""
    given = [name for name in HALVES if name in columns]
    if len(given) == 1:
        raise DataError(
            "only one of the two halves of the scores is given",
            got=given[0],
            expected=" and ".join(HALVES),
            todo="give both, or neither",
        )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise DataError("the columns of the scores differ in length", got=got, expected="equal lengths")
    for name, places, expected in find_faults(columns, len(names), kind):
        first, more = places[0], len(places) - 1
        ends = [int(columns[end][first]) for end in ENDS]
        source, target = (
            quote(names[end]) if 0 <= end < len(names) else f"task number {end}" for end in ends
        )
        raise DataError(
            f"the {name} is out of its range",
            where=f"score {first}, {source} → {target}",
            got=f"{columns[name][first]}" + (f" (and {more:,} more such scores)" if more else ""),
            expected=expected,
        )


def find_faults(columns: Columns, n_tasks: int, kind: str) -> Iterator[tuple[str, list[int], str]]:
    """Yield each column with values out of its range, their positions, and what is expected."""
    ends = dict.fromkeys(ENDS, (0, n_tasks - 1, f"from 0 to {n_tasks - 1:,}"))
    for name, values in columns.items():
        low, high, expected = {**RANGES, **ends}[name]
        if kind == "accuracy" and name == "score":
            low, high, expected = ACCURACY
        bad = ~((values >= low) & (values <= high))
        if bad.any():
            yield name, np.flatnonzero(bad).tolist(), expected


def sort_columns(columns: Columns, n_tasks: int) -> Columns:
    """Return the scores in the order of (source, target)."""
    order = np.argsort(columns["source"] * n_tasks + columns["target"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def duplicate_mask(columns: Columns) -> NDArray[np.bool_]:
    """Return which of the sorted scores are of the same pair as the score before."""
    is_again = np.zeros(len(columns["score"]), dtype=np.bool_)
    source, target = columns["source"], columns["target"]
    is_again[1:] = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    return is_again


def refuse_duplicates(names: tuple[str, ...], columns: Columns) -> None:
    """Refuse a pair that was measured twice, naming tasks and values."""
    is_again = duplicate_mask(columns)
    if is_again.any():
        place = int(np.argmax(is_again))
        source, target = names[columns["source"][place]], names[columns["target"][place]]
        raise DataError(
            "a pair has more than one score",
            where=f"{quote(source)} → {quote(target)}",
            got=" and ".join(
                ", ".join(f"{name} {column[m]}" for name, column in columns.items() if name not in ENDS)
                for m in (place - 1, place)
            ),
            expected="one score per pair",
            todo='leave out all but one, or average them: TransferScores(..., duplicates="average")',
        )


def average_duplicates(columns: Columns) -> Columns:
    """Replace the scores of a pair that was measured more than once by their mean; see `TransferScores`."""
    is_again = duplicate_mask(columns)
    if not is_again.any():
        return columns
    first = np.flatnonzero(~is_again)
    group = np.cumsum(~is_again) - 1
    n_examples = columns.get("n_examples", np.zeros(len(is_again), dtype=np.int64))
    known = np.minimum.reduceat(n_examples, first) > 0
    weight = np.where(known[group], n_examples, 1).astype(np.float64)
    weight /= np.add.reduceat(weight, first)[group]
    averaged = {name: column[first] for name, column in columns.items()}
    for name in {"score", *HALVES} & columns.keys():
        # Rounding must not take the mean of equal scores away from them, nor an accuracy above 1.
        lowest, highest = (reduce.reduceat(columns[name], first) for reduce in (np.minimum, np.maximum))
        averaged[name] = np.clip(np.add.reduceat(weight * columns[name], first), lowest, highest)
    if "n_examples" in columns:
        averaged["n_examples"] = np.where(known, np.add.reduceat(n_examples, first), 0)
    if "standard_error" in columns:
        squares = (weight * columns["standard_error"]) ** 2
        averaged["standard_error"] = np.sqrt(np.add.reduceat(squares, first))
    return averaged

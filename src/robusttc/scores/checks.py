"""Refusing scores that cannot be used, naming task and value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UsageError, nearest_name, quote

__all__ = [
    "DUPLICATES",
    "HALVES",
    "KINDS",
    "as_floats",
    "as_integers",
    "average_duplicates",
    "check_choice",
    "check_columns",
    "check_names",
    "find_again",
    "is_task_name",
    "refuse_duplicates",
    "sort_columns",
]

KINDS = ("accuracy", "log_likelihood", "brier", "logme", "overlap", "other")
DUPLICATES = ("error", "average")
ENDS = ("source", "target")
HALVES = ("first_half", "second_half")  # both or neither
MAX_SCORE = 1e150  # beyond, the square of a score is no longer a number
MAX_EXAMPLES = 2**53


def check_choice(option: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a value that is not one of the allowed names."""
    if value not in allowed:
        nearest = nearest_name(value, allowed) if isinstance(value, str) else None
        raise UsageError(
            f"unknown {option}",
            got=quote(value),
            expected=", ".join(allowed),
            todo=f"did you mean {quote(nearest)}?" if nearest else None,
        )


def check_names(task_names: Sequence[str]) -> tuple[str, ...]:
    """Refuse names of tasks that are empty, no text, or there twice."""
    if isinstance(task_names, str):
        raise DataError("the task names are one string", got=quote(task_names), expected="a list of names")
    names = tuple(task_names)
    if not names:
        raise DataError("there are no tasks", expected="at least one task name")
    for number, name in enumerate(names):
        if not is_task_name(name):
            raise DataError(
                "the name of a task is not usable",
                where=f"task {number}",
                got=quote(name),
                expected="a non-empty string of Unicode text",
            )
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError("two tasks have the same name", got=quote(twice), expected="unique names")
    return names


def is_task_name(name: object) -> bool:
    """Tell whether a value can name a task: a string that is not blank and can be written as UTF-8."""
    if not isinstance(name, str) or not name.strip():
        return False
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def as_integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Make an array of whole numbers of the caller's values, a new one; refuse any other numbers."""
    array = np.array(values)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.int64)
    # NumPy makes floats of whole numbers that it finds too large, so those are refused here too.
    if (
        array.dtype.kind not in "iu"
        or array.ndim != 1
        or (array.dtype.kind == "u" and array.max() > MAX_EXAMPLES)
    ):
        got = f"{array.dtype} of shape {array.shape}"
        raise DataError(f"{name} cannot be used", got=got, expected="a list of whole numbers")
    return array.astype(np.int64)


def as_floats(name: str, values: ArrayLike, *, n_dimensions: int = 1) -> NDArray[np.float64]:
    """Make an array of numbers of the caller's values, a new one; refuse what is no number."""
    try:
        array = np.array(values)
        if array.dtype.kind not in "iuf" or array.ndim != n_dimensions:
            raise ValueError(f"{array.dtype} of shape {array.shape}")
    except ValueError as error:
        expected = "a list of numbers" if n_dimensions == 1 else "a square matrix of numbers"
        raise DataError(f"{name} cannot be used", got=str(error), expected=expected) from None
    return array.astype(np.float64)


def check_columns(names: tuple[str, ...], columns: dict[str, NDArray[Any]], kind: str) -> None:
    """Refuse columns that cannot make scores, naming tasks and value."""
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
        raise DataError("the columns of the scores differ in length", got=got, expected="one of each a score")

    def refuse(name: str, bad: NDArray[np.bool_], what: str, expected: str) -> None:
        if not bad.any():
            return
        place = int(np.argmax(bad))
        ends = [columns[end][place] for end in ENDS]
        shown = [quote(names[end]) if 0 <= end < len(names) else f"task number {end}" for end in ends]
        more = int(np.count_nonzero(bad)) - 1
        raise DataError(
            what,
            where=f"score {place}, {shown[0]} → {shown[1]}",
            got=f"{columns[name][place]}" + (f" (and {more:,} more such scores)" if more else ""),
            expected=expected,
        )

    for end in ENDS:
        wrong = (columns[end] < 0) | (columns[end] >= len(names))
        refuse(end, wrong, f"the {end} is not the number of a task", f"from 0 to {len(names) - 1:,}")
    score = columns["score"]
    refuse("score", ~(np.abs(score) <= MAX_SCORE), "a score is not a finite number", "a finite number")
    if kind == "accuracy":
        outside = (score < 0) | (score > 1)
        refuse("score", outside, "an accuracy is out of its range", "from 0 to 1, or another kind of score")
    if "n_examples" in columns:
        wrong = (columns["n_examples"] < 0) | (columns["n_examples"] > MAX_EXAMPLES)
        refuse("n_examples", wrong, "a number of examples cannot be", "0 (not known) or more")
    if "standard_error" in columns:
        wrong = ~((columns["standard_error"] >= 0) & (columns["standard_error"] <= MAX_SCORE))
        refuse("standard_error", wrong, "a standard error cannot be", "a finite number, 0 or more")
    for name in given:
        wrong = ~(np.abs(columns[name]) <= MAX_SCORE)
        refuse(name, wrong, f"the {name} of a score is not a finite number", "a finite number")


def sort_columns(columns: dict[str, NDArray[Any]], n_tasks: int) -> dict[str, NDArray[Any]]:
    """Put the scores in the order of (source, target)."""
    keys = columns["source"] * n_tasks + columns["target"]
    if np.all(keys[1:] >= keys[:-1]):
        return columns
    order = np.argsort(keys, kind="stable")
    return {name: column[order] for name, column in columns.items()}


def find_again(columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Mark the sorted scores whose pair the score before has too."""
    again = np.zeros(len(columns["score"]), dtype=np.bool_)
    source, target = columns["source"], columns["target"]
    again[1:] = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    return again


def refuse_duplicates(names: tuple[str, ...], columns: dict[str, NDArray[Any]]) -> None:
    """Refuse a pair that was measured twice, naming tasks and values."""
    again = find_again(columns)
    if again.any():
        place = int(np.argmax(again))
        source, target = names[columns["source"][place]], names[columns["target"][place]]
        raise DataError(
            "a pair has more than one score",
            where=f"{quote(source)} → {quote(target)}",
            got=" and ".join(
                ", ".join(f"{name} {column[m]}" for name, column in columns.items() if name not in ENDS)
                for m in (place - 1, place)
            ),
            expected="one score a pair",
            todo='leave out all but one, or average them: TransferScores(..., duplicates="average")',
        )


def average_duplicates(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Put the mean in place of the scores of a pair that was measured more than once."""
    again = find_again(columns)
    if not again.any():
        return columns
    first = np.flatnonzero(~again)
    group = np.cumsum(~again) - 1
    n_examples = columns.get("n_examples", np.zeros(len(again), dtype=np.int64))
    known = np.minimum.reduceat(n_examples, first) > 0
    weight = np.where(known[group], n_examples, 1).astype(np.float64)
    weight /= np.add.reduceat(weight, first)[group]
    averaged: dict[str, NDArray[Any]] = {end: columns[end][first] for end in ENDS}
    for name in ("score", *HALVES):
        if name in columns:
            # From the lowest score on, and never above the highest: the mean of equal scores is that score.
            lowest, highest = (reduce.reduceat(columns[name], first) for reduce in (np.minimum, np.maximum))
            above = np.add.reduceat(weight * (columns[name] - lowest[group]), first)
            averaged[name] = np.minimum(lowest + above, highest)
    if "n_examples" in columns:
        averaged["n_examples"] = np.where(known, np.add.reduceat(n_examples, first), 0)
    if "standard_error" in columns:
        averaged["standard_error"] = np.sqrt(
            np.add.reduceat((weight * columns["standard_error"]) ** 2, first)
        )
    return averaged

"""The cells of a CSV file of scores: one value each, or a problem that is noted with its line."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field

from robusttc.errors import MAX_LISTED_PROBLEMS, Problem, quote
from robusttc.scores.checks import HALVES, KINDS, MAX_EXAMPLES, MAX_SCORE, is_task_name

__all__ = ["Found", "Rows", "take_count", "take_error", "take_kind", "take_name", "take_number"]


@dataclass
class Found:
    """The problems of one file: all counted, the first kept."""

    path: str
    n_problems: int = 0
    kept: list[Problem] = field(default_factory=list)

    def add(
        self,
        what: str,
        line: int | None = None,
        *,
        got: str | None = None,
        expected: str | None = None,
        todo: str | None = None,
    ) -> None:
        """Note one problem."""
        self.n_problems += 1
        if len(self.kept) < MAX_LISTED_PROBLEMS:
            self.kept.append(Problem(self.path, what, line, got=got, expected=expected, todo=todo))


@dataclass
class Rows:
    """Scores as they are read, with the line of each; tasks are numbered as they first occur."""

    number_of: dict[str, int] = field(default_factory=dict)
    source: array[int] = field(default_factory=lambda: array("q"))
    target: array[int] = field(default_factory=lambda: array("q"))
    score: array[float] = field(default_factory=lambda: array("d"))
    line: array[int] = field(default_factory=lambda: array("q"))
    n_examples: array[int] | None = None
    standard_error: array[float] | None = None
    halves: tuple[array[float], array[float]] | None = None
    kind: str | None = None

    def add(
        self,
        line: int,
        source: int,
        target: int,
        score: float,
        n: int = 0,
        error: float = 0.0,
        halves: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Take one score."""
        self.line.append(line)
        self.source.append(source)
        self.target.append(target)
        self.score.append(score)
        if self.n_examples is not None:
            self.n_examples.append(n)
        if self.standard_error is not None:
            self.standard_error.append(error)
        if self.halves is not None:
            for column, half in zip(self.halves, halves, strict=True):
                column.append(half)


def take_name(line: int, role: str, name: str, rows: Rows, found: Found) -> int:
    """Give the number of a task; a new one is numbered."""
    number = rows.number_of.get(name)
    if number is None:
        if not is_task_name(name):
            found.add(f"the {role} has no name", line, got=quote(name), expected="the name of a task")
            return -1
        number = rows.number_of[name] = len(rows.number_of)
    return number


def take_number(line: int, role: str, cell: str, found: Found, *, target: str | None = None) -> float:
    """Give the number in a cell; what is none is noted, with the column of a square table that it is in."""
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if abs(number) <= MAX_SCORE and "_" not in cell:  # Python takes 1_000 for a number; no other program does
        return number
    if target is not None:
        role = f"{role} for {quote(target)}"
    if math.isnan(number) or "_" in cell:
        what = f"the {role} is not a number" if cell.strip() else f"missing {role}"
        todo = None
        if not cell.strip():
            or_column = {
                "standard_error": " or the column",
                **dict.fromkeys(HALVES, " or both columns of halves"),
            }
            todo = "fill it in, leave out the row" + or_column.get(role, "")
        elif re.fullmatch(r"\s*-?\d*,\d+\s*", cell):
            todo = "write a point, not a comma, before the decimals"
        found.add(what, line, got=quote(cell), expected="a number such as 0.75", todo=todo)
    else:
        found.add(f"the {role} is not a finite number", line, got=quote(cell), expected="a finite number")
    return 0.0


def take_error(line: int, cell: str, found: Found) -> float:
    """Give the standard error in a cell."""
    error = take_number(line, "standard_error", cell, found)
    if error < 0:
        found.add("a standard error cannot be negative", line, got=quote(cell), expected="0 or more")
    return error


def take_count(line: int, cell: str, found: Found) -> int:
    """Give the number of examples in a cell; an empty one is 0, not known."""
    if not cell or cell.isspace():
        return 0
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not 0 <= number <= MAX_EXAMPLES or not number.is_integer() or "_" in cell:
        what = "the number of examples is not a whole number, 0 or more"
        found.add(what, line, got=quote(cell), expected="a number such as 120, or nothing")
        return 0
    return int(number)


def take_kind(line: int, cell: str, rows: Rows, found: Found) -> None:
    """Take the kind of the scores, which is the same in all rows."""
    if cell == rows.kind:
        return
    if cell not in KINDS:
        found.add("unknown kind of score", line, got=quote(cell), expected=", ".join(KINDS))
    elif rows.kind is not None:
        found.add("scores of two kinds in one file", line, got=quote(cell), expected=quote(rows.kind))
    else:
        rows.kind = cell

"""Collecting what is wrong with the task files: everything is looked for, the first few are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from robusttc.errors import MAX_LISTED_PROBLEMS, Problem

__all__ = ["FileFault", "Problems"]


class FileFault(Exception):  # noqa: N818 - a signal between reader and loader, never seen by a user
    """The rest of a file cannot be read. Raised by readers, turned into a `Problem` by the loader."""

    def __init__(
        self,
        what: str,
        *,
        line: int | None = None,
        column: int | None = None,
        got: str | None = None,
        expected: str | None = None,
        todo: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.column = column
        self.got = got
        self.expected = expected
        self.todo = todo

    def as_problem(self, path: str, unit: str = "line") -> Problem:
        """Give the problem that the user is told."""
        return Problem(
            path,
            self.what,
            line=self.line,
            column=self.column,
            unit=unit,
            got=self.got,
            expected=self.expected,
            todo=self.todo,
        )


@dataclass
class Problems:
    """All problems counted, the first of them kept: those of single rows, and the others.

    A problem of a row is one that leaving out the row would cure.
    """

    n_rows: int = 0
    n_others: int = 0
    _kept_rows: list[tuple[int, Problem]] = field(default_factory=list)
    _kept_others: list[tuple[int, Problem]] = field(default_factory=list)

    @property
    def n_all(self) -> int:
        """How many problems there are."""
        return self.n_rows + self.n_others

    @property
    def rows_are_full(self) -> bool:
        """Whether a further problem of a row would only be counted: its advice need not be worked out."""
        return len(self._kept_rows) >= MAX_LISTED_PROBLEMS

    def add(self, problem: Problem, *, of_row: bool = False) -> None:
        """Note one problem."""
        kept = self._kept_rows if of_row else self._kept_others
        if len(kept) < MAX_LISTED_PROBLEMS:
            kept.append((self.n_all, problem))
        if of_row:
            self.n_rows += 1
        else:
            self.n_others += 1

    @property
    def first(self) -> tuple[Problem, ...]:
        """The first problems, in the order in which they were found.

        Thousands of bad rows do not crowd out the rest: others have up to half of the places.
        """
        places_of_others = max(MAX_LISTED_PROBLEMS // 2, MAX_LISTED_PROBLEMS - len(self._kept_rows))
        others = self._kept_others[:places_of_others]
        numbered = self._kept_rows[: MAX_LISTED_PROBLEMS - len(others)] + others
        return tuple(problem for _, problem in sorted(numbered, key=lambda kept: kept[0]))

    @property
    def first_rows(self) -> tuple[Problem, ...]:
        """The first problems of rows."""
        return tuple(problem for _, problem in self._kept_rows)

    @property
    def first_others(self) -> tuple[Problem, ...]:
        """The first problems that leaving out rows would not cure."""
        return tuple(problem for _, problem in self._kept_others)

    @contextmanager
    def catching(self, path: str, unit: str = "line") -> Iterator[None]:
        """Note a `FileFault` or `OSError` of the body as a problem of this file and go on behind it."""
        try:
            yield
        except FileFault as fault:
            self.add(fault.as_problem(path, unit))
        except OSError as error:
            self.add(Problem(path, "it cannot be read", got=error.strerror or str(error)))

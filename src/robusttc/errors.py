"""Every way in which robusttc can fail, in one tree.

* RobustTCError                       the root: ``except RobustTCError`` catches all of them
    * UsageError (ValueError)         an argument or option is wrong                     exit code 2
    * DataError (ValueError)          what the user gave as data is wrong                exit code 4
        * ProblemsError               files with problems, each with its place
            * TaskFilesError          task files
            * ScoresError             a file of scores
        * UnknownTaskError (KeyError) a task name that is not in the set
        * WordVectorsError            a word-vector file that cannot be used
    * StoreError (OSError)            a run or an artifact on disk is damaged            exit code 5
    * WorkError (RuntimeError)        a unit of work that others need could not be done  exit code 3
    * VersionRefusedError (same)      the next version of a run breaks a limit           exit code 3

* RobustTCWarning (UserWarning)       the root of the warnings
    * DataWarning                     data was left out, on request
    * DoubtWarning                    finished, but the answer is not to be trusted      exit code 3

A message says what is wrong, where, what was got, what was expected and what to do about it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import IntEnum
from typing import Any

__all__ = [
    "DataError",
    "DataWarning",
    "DoubtWarning",
    "ExitCode",
    "Problem",
    "ProblemsError",
    "RobustTCError",
    "RobustTCWarning",
    "ScoresError",
    "StoreError",
    "TaskFilesError",
    "UnknownTaskError",
    "UsageError",
    "VersionRefusedError",
    "WordVectorsError",
    "WorkError",
    "nearest_name",
    "quote",
    "suggest",
]

MAX_LISTED_PROBLEMS = 20
MAX_QUOTED_CHARACTERS = 60


class ExitCode(IntEnum):
    """What the command line tells the shell."""

    DONE = 0
    USAGE = 2
    DOUBT = 3
    BAD_DATA = 4
    DAMAGED_STORE = 5


def quote(value: object) -> str:
    """Show a value inside a message: on one line, escaped, cut where it is long.

    >>> quote("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…"
    """
    text = repr(value)
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[: MAX_QUOTED_CHARACTERS - 1]}…"


def nearest_name(wrong: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that a misspelt one most likely meant, or None."""
    found = get_close_matches(wrong, list(allowed), n=1)
    return found[0] if found else None


def suggest(wrong: object, allowed: Iterable[str]) -> str | None:
    """Return what to do about a misspelt name, for the end of a message.

    >>> suggest("tset", ["train", "test"])
    "did you mean 'test'?"
    """
    nearest = nearest_name(wrong, allowed) if isinstance(wrong, str) else None
    return f"did you mean {quote(nearest)}?" if nearest else None


def _sentence(parts: RobustTCError | Problem, where: str | None) -> str:
    """Put the parts of a message into the one sentence shape that all messages have."""
    message = f"{where}: {parts.what}" if where else parts.what
    if parts.got is not None:
        message += f"; got {parts.got}"
    if parts.expected is not None:
        message += f"; expected {parts.expected}"
    if parts.todo is not None:
        message += f". {parts.todo[0].upper()}{parts.todo[1:]}"
    return message


class RobustTCError(Exception):
    """The root of all errors of this package.

    Parameters
    ----------
    what
        The fault, in one clause.
    where
        The place: a file and line, a task, an option.
    got, expected
        The value that was found, and what is allowed there.
    todo
        What the user can do next.
    """

    exit_code: int = ExitCode.BAD_DATA

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        got: str | None = None,
        expected: str | None = None,
        todo: str | None = None,
    ) -> None:
        self.what, self.where, self.got, self.expected, self.todo = what, where, got, expected, todo
        super().__init__(what)

    def __str__(self) -> str:
        return _sentence(self, self.where)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers send their errors pickled; by default an exception is made anew from its positional
        # arguments alone, which loses the rest or fails.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class UsageError(RobustTCError, ValueError):
    """An argument or option is wrong."""

    exit_code = ExitCode.USAGE


class DataError(RobustTCError, ValueError):
    """What the user gave as data is wrong."""

    exit_code = ExitCode.BAD_DATA


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file, with its place; `line` and `column` count from 1."""

    path: str
    what: str
    line: int | None = None
    column: int | None = None
    # What `line` counts: "row" where the format has no lines.
    unit: str = "line"
    got: str | None = None
    expected: str | None = None
    todo: str | None = None

    @property
    def place(self) -> str:
        """The place as ``file:line:column``, as far as it is known."""
        place = self.path
        if self.line is not None:
            place += f":{self.line}" if self.unit == "line" else f":{self.unit} {self.line}"
        if self.column is not None:
            place += f":{self.column}"
        return place

    def __str__(self) -> str:
        return _sentence(self, self.place)


class ProblemsError(DataError):
    """Files have problems: `n_problems` in all, of which the first 20 are kept as `problems`."""

    subject = "the files"

    def __init__(self, problems: Sequence[Problem], n_problems: int, *, todo: str | None = None) -> None:
        self.problems = tuple(problems[:MAX_LISTED_PROBLEMS])
        self.n_problems = n_problems
        noun = "problem" if n_problems == 1 else "problems"
        super().__init__(f"{n_problems:,} {noun} in {self.subject}", todo=todo)

    def __str__(self) -> str:
        lines = [f"{self.what}:"]
        advice_given: set[str | None] = set()
        for problem in self.problems:
            # The same advice twenty times would bury the places.
            shown = replace(problem, todo=None) if problem.todo in advice_given else problem
            advice_given.add(problem.todo)
            lines.append(f"  {shown}")
        if self.n_problems > len(self.problems):
            lines.append(f"  … and {self.n_problems - len(self.problems):,} more")
        if self.todo is not None:
            lines.append(f"What to do: {self.todo}")
        return "\n".join(lines)


class TaskFilesError(ProblemsError):
    """The task files have problems."""

    subject = "the task files"


class ScoresError(ProblemsError):
    """A file of scores has problems."""

    subject = "the file of scores"


class UnknownTaskError(DataError, KeyError):
    """A task name that is not in the set."""

    def __init__(self, name: object, known: Sequence[str]) -> None:
        expected = f"one of {len(known):,} task names"
        super().__init__(
            "no task has this name", got=quote(name), expected=expected, todo=suggest(name, known)
        )


class WordVectorsError(DataError):
    """A word-vector file that cannot be used."""


class StoreError(RobustTCError, OSError):
    """A run or an artifact on disk is damaged."""

    exit_code = ExitCode.DAMAGED_STORE


class WorkError(RobustTCError, RuntimeError):
    """A unit of work that others need could not be done."""

    exit_code = ExitCode.DOUBT


class VersionRefusedError(RobustTCError, RuntimeError):
    """The next version of a run would break what it must not break, so it is not published."""

    exit_code = ExitCode.DOUBT


class RobustTCWarning(UserWarning):
    """The root of all warnings of this package."""


class DataWarning(RobustTCWarning):
    """Data was left out, because the caller asked for it."""


class DoubtWarning(RobustTCWarning):
    """A result was reached, but it should not be trusted as it is."""

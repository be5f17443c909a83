"""The options of every command that reads task files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from robusttc.cli.console import error_console, say, show_working
from robusttc.data import LoadedTasks, ReadOptions, Task, read_examples, read_tasks
from robusttc.errors import TaskFilesError
from robusttc.formatting import count
from robusttc.random import run_seed

if TYPE_CHECKING:
    from robusttc.run.updates import Limits

__all__ = ["read_aloud", "read_examples_aloud", "read_limits"]

MAX_IGNORED = 5
SPLIT_VALUE = re.compile(r"split_values=\{('[^']*'|\"[^\"]*\"): '?([^'}]*)'?\}")
PARAMETER = re.compile(
    r"\b(text_column|label_column|split_column|task_column|delimiter|encoding|skip_bad_rows|allow_incomplete)"
    r"\b(?:=(?:True|('[^']*'|\"[^\"]*\"|\.\.\.)))?"
)


def read_aloud(path: Path, options: ReadOptions, *, quiet: bool = False) -> LoadedTasks:
    """Read tasks, and report on standard error what was recognised, ignored and left out."""
    run_seed(options.seed)  # refuses a seed that cannot be used before any file is read
    with show_working(f"Reading {path}"), options_in_messages():
        loaded = read_tasks(path, options)
    if not quiet:
        report_reading(loaded)
    return loaded


def read_examples_aloud(path: Path, name: str, options: ReadOptions) -> Task:
    """Read the examples of one task, and report as `read_aloud` does."""
    with options_in_messages():
        loaded = read_examples(path, name, options)
    report_reading(loaded)
    return loaded.tasks[name]


def read_limits(max_flips: int | None, must_pass: Path | None) -> Limits:
    """Return what the next version of a run must not break, from the options of a command."""
    from robusttc.run.updates import Limits

    if must_pass is None:
        return Limits(max_flips)
    options = ReadOptions(task_column="task", allow_incomplete=True)
    return Limits(max_flips, read_aloud(must_pass, options, quiet=True).tasks)


def report_reading(loaded: LoadedTasks) -> None:
    """Print on standard error what a user should know about the reading of files."""
    lines = [*loaded.notes, *(name_options(note) for note in loaded.unread)]
    if loaded.ignored:
        names = ", ".join(Path(path).name for path in loaded.ignored[:MAX_IGNORED])
        more = len(loaded.ignored) - MAX_IGNORED
        lines.append(f"Ignored, not task files: {names}" + (f" and {more:,} more" if more > 0 else ""))
    if loaded.n_skipped:
        lines.append(f"Left out {count(loaded.n_skipped, 'bad row')} (--skip-bad-rows):")
        lines += [f"  {problem}" for problem in loaded.skipped]
        if loaded.n_skipped > len(loaded.skipped):
            lines.append(f"  … and {loaded.n_skipped - len(loaded.skipped):,} more")
    if lines:
        say(error_console(), "\n".join(lines))


@contextmanager
def options_in_messages() -> Iterator[None]:
    """Name command-line options in the advice of errors, where the library names parameters."""
    try:
        yield
    except TaskFilesError as error:
        error.problems = tuple(
            replace(problem, todo=problem.todo and name_options(problem.todo)) for problem in error.problems
        )
        error.todo = error.todo and name_options(error.todo)
        raise


def name_options(advice: str) -> str:
    """Return an advice with options in the place of parameters.

    >>> name_options("leave out the 2 bad rows with skip_bad_rows=True; check text_column")
    'leave out the 2 bad rows with --skip-bad-rows; check --text-column'
    >>> name_options("keep it, split_values={'oos': 'oos'}, or name it: text_column='user query'")
    "keep it, --split-value 'oos', or name it: --text-column 'user query'"
    """
    advice = SPLIT_VALUE.sub(
        lambda found: f"--split-value {found[1]}" + ("" if found[1][1:-1] == found[2] else f"={found[2]}"),
        advice,
    )
    return PARAMETER.sub(
        lambda found: f"--{found[1].replace('_', '-')}" + (f" {found[2]}" if found[2] else ""), advice
    )

"""The options of every command that reads task files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from robusttc.cli.console import error_console, show_working, without_controls
from robusttc.data.loading import LoadedTasks, read_tasks
from robusttc.data.options import ReadOptions
from robusttc.errors import UsageError, quote
from robusttc.random import run_seed

__all__ = [
    "AllowIncomplete",
    "Delimiter",
    "Encoding",
    "LabelColumn",
    "Seed",
    "SkipBadRows",
    "SplitColumn",
    "SplitValues",
    "TaskColumn",
    "TasksPath",
    "TextColumn",
    "parse_split_values",
    "read_aloud",
]

TasksPath = Annotated[
    Path, typer.Argument(metavar="TASKS", help="A folder of task files, or one file with a task column.")
]
TextColumn = Annotated[str, typer.Option(help="The column that has the text.")]
LabelColumn = Annotated[str, typer.Option(help="The column that has the label.")]
SplitColumn = Annotated[
    str | None, typer.Option(help="The column that has the split.  [default: split, if there is one]")
]
TaskColumn = Annotated[
    str | None, typer.Option(help="The column that names the task.  [default: task, if there is one]")
]
SplitValues = Annotated[
    list[str] | None,
    typer.Option(
        "--split-value",
        metavar="VALUE[=MEANING]",
        help="A further value of the split column: VALUE=train (or valid, test) says what it means, VALUE "
        "alone keeps its rows as a split of that name. Can be given several times.",
    ),
]
Delimiter = Annotated[
    str | None, typer.Option(help="The delimiter of CSV files.  [default: found from the header]")
]
Encoding = Annotated[
    str | None, typer.Option(help="The encoding of text files.  [default: UTF-8, or UTF-16]")
]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave out bad rows, and say how many, in place of stopping.")
]
AllowIncomplete = Annotated[
    bool,
    typer.Option(
        "--allow-incomplete", help="Keep tasks that cannot be trained as they are, for lack of training rows."
    ),
]
Seed = Annotated[int, typer.Option(help="The seed of everything random.")]


def parse_split_values(given: Sequence[str] | None) -> dict[str, str]:
    """Turn ``VALUE=MEANING`` and ``VALUE`` into a mapping."""
    meanings: dict[str, str] = {}
    for entry in given or ():
        value, equals, meaning = entry.rpartition("=")
        value, meaning = (value, meaning) if equals else (entry, entry)
        if not value or not meaning:
            raise UsageError(
                "--split-value cannot be read", got=quote(entry), expected="VALUE or VALUE=MEANING"
            )
        meanings[value] = meaning
    return meanings


def read_aloud(path: Path, options: ReadOptions) -> LoadedTasks:
    """Read tasks, and say on standard error what was left out."""
    run_seed(options.seed)  # refuses a seed that cannot be used before any file is read
    with show_working(f"Reading {path}"):
        loaded = read_tasks(path, options)
    if loaded.n_skipped:
        lines = [f"Left out {loaded.n_skipped:,} bad rows (--skip-bad-rows):"]
        lines += [f"  {problem}" for problem in loaded.skipped]
        if loaded.n_skipped > len(loaded.skipped):
            lines.append(f"  … and {loaded.n_skipped - len(loaded.skipped):,} more")
        error_console().print(without_controls("\n".join(lines)), markup=False, soft_wrap=True)
    return loaded

"""`robusttc evaluate`: what the test rows of every task say about the models of a run."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.console import output_console, print_json, say
from robusttc.cli.options import RunFolder
from robusttc.cli.run_view import show_doubts, show_means, show_task, show_tasks
from robusttc.errors import ExitCode, StoreError, UnknownTaskError, UsageError

if TYPE_CHECKING:
    from robusttc.run import Evaluation, Run, TaskFigures

__all__ = ["evaluate"]


def evaluate(
    run: RunFolder,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="A file that gets a row a task.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show this task alone, and which labels it confuses.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="How many tasks are shown at the most; 0 shows all.")
    ] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> int:
    """Show every task's test accuracy: alone, shared, with its cluster, and as served; who gains or loses.

    Texts that no other task has are told apart from those that another task has in its training.

    The figures were made when the run was finished; the tasks that lose most come first. Ends with code 3
    where the run left something out.
    """
    # Late, so that --help does not wait for SciPy and torch.
    from robusttc.run import Run

    opened = Run(run)
    evaluation, summary = opened.evaluation, opened.summary
    if csv_file is not None:
        write_table(evaluation, csv_file)
    if task is not None:
        figures = find_figures(opened, task)
        if json:
            print_json(figures.to_dict())
        else:
            show_task(output_console(), figures)
    elif json:
        parts = ("tasks", "clusters", "multitask", "fewshot", "doubts", "quarantined")
        print_json({**summary["evaluation"], "run": {part: summary[part] for part in parts}})
    else:
        console = output_console()
        show_tasks(console, evaluation, limit)
        say(console, "")
        show_means(console, evaluation)
        say(console, evaluation.sentence)
        for part in ("multitask", "fewshot"):
            verdict = (summary[part] or {}).get("verdict")
            if verdict is not None:
                say(console, verdict["sentence"])
        show_doubts(console, summary)
    return int(ExitCode.DOUBT if opened.is_doubtful else ExitCode.DONE)


def find_figures(run: Run, task: str) -> TaskFigures:
    """Return the figures of one task; an error names the nearest task."""
    found = {figures.task: figures for figures in run.evaluation.tasks}
    if task not in found:
        raise UnknownTaskError(task, tuple(found))
    return found[task]


def write_table(evaluation: Evaluation, path: Path) -> None:
    """Write a row a task, whole or not at all."""
    from robusttc.files import write_file

    rows = [task.to_row() for task in evaluation.tasks]
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(rows[0]) if rows else ["task"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_cell(name, value) for name, value in row.items()} for row in rows)
    try:
        write_file(path, stream.getvalue().encode())
    except StoreError as error:
        # The run is whole: it is the place that was given that cannot be used.
        raise UsageError(error.what, where=error.where, got=error.got, todo=error.todo) from None


def as_cell(name: str, value: Any) -> str:
    """Return a value as a cell; empty where there is none, and for no cluster."""
    if value is None or (name == "cluster" and value < 0) or value in (float("inf"), -float("inf")):
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)

"""`robusttc evaluate`: what the test rows of every task say about the models of a run."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robusttc.cli.console import output_console, print_json, say
from robusttc.cli.options import RunFolder
from robusttc.cli.run_view import KIND_WORDS, show_doubts, show_means, show_tasks
from robusttc.errors import ExitCode, StoreError, UsageError

if TYPE_CHECKING:
    from robusttc.run import Evaluation
    from robusttc.stats import Estimate

__all__ = ["evaluate"]


def evaluate(
    run: RunFolder,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="A file that gets a row a task.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="How many tasks are shown at the most; 0 shows all.")
    ] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> int:
    """Show every task's test accuracy: alone, shared, with its cluster, and as served; who gains or loses.

    The figures were made when the run was finished; the tasks that lose most come first. Ends with code 3
    where the run left something out.
    """
    # Late, so that --help does not wait for SciPy and torch.
    from robusttc.run import Run

    opened = Run(run)
    evaluation, summary = opened.evaluation, opened.summary
    if csv_file is not None:
        write_table(evaluation, csv_file)
    if json:
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


def write_table(evaluation: Evaluation, path: Path) -> None:
    """Write a row a task, whole or not at all."""
    from robusttc.files import write_file

    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    columns = (*KIND_WORDS, "gain")
    headings = [f"{column}{ending}" for column in columns for ending in ("", "_low", "_high")]
    writer.writerow(["task", "cluster", "n_rows", *headings, "state"])
    for task in evaluation.tasks:
        cells = [cell for column in columns for cell in numbers(getattr(task, column))]
        group = task.group if task.group >= 0 else ""
        writer.writerow([task.task, group, task.n_rows, *cells, task.state])
    try:
        write_file(path, stream.getvalue().encode())
    except StoreError as error:
        # The run is whole: it is the place that was given that cannot be used.
        raise UsageError(error.what, where=error.where, got=error.got, todo=error.todo) from None


def numbers(estimate: Estimate | None) -> list[str]:
    """Give a mean and the ends of its interval as cells; empty where there is none."""
    values = (None,) * 3 if estimate is None else (estimate.mean, estimate.low, estimate.high)
    return ["" if value is None or abs(value) == float("inf") else f"{value:.4f}" for value in values]

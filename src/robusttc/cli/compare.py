"""`robusttc compare`: a run beside what is in use today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robusttc.cli.console import (
    cut,
    make_table,
    name,
    output_console,
    percent,
    print_json,
    print_more,
    print_table,
    say,
    show_working,
)
from robusttc.cli.options import DeviceOption, JsonOption, LimitOption, RunFolder
from robusttc.errors import ExitCode, quote

if TYPE_CHECKING:
    from robusttc.run.comparison import Comparison, TaskComparison

__all__ = ["compare"]


def compare(
    run: RunFolder,
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS",
            help="A table with the columns task, text, label (the right one) and predicted (today's).",
        ),
    ],
    limit: LimitOption = 20,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> int:
    """Compare a run with what is in use today: wins, losses and intervals of every task, on the same texts.

    Texts that the run has learned are left out. Ends with code 3 where tasks or labels are not in the run.
    """
    # Late, so that --help does not wait for SciPy and torch.
    from robusttc.run import open_run
    from robusttc.run.comparison import compare_run

    with show_working("Predicting the texts of the table …"):
        found = compare_run(open_run(run, device=device), predictions)
    if json:
        print_json(found.to_dict())
    else:
        show_comparison(output_console(), found, limit)
    is_whole = not found.not_in_run and not any(one.unknown_labels for one in found.tasks)
    return int(ExitCode.DONE if is_whole else ExitCode.DOUBT)


def show_comparison(console: Console, found: Comparison, limit: int) -> None:
    """Print a row per task, the worst for the run first, and what follows from them."""
    table = make_table("task", "texts", "run", "today", "wins", "losses", "difference", "")
    ordered = sorted(found.tasks, key=order)
    for one in cut(ordered, limit):
        shares = (percent(share, interval=False) for share in (one.run, one.today))
        difference = percent(one.difference, sign="+")
        table.add_row(
            name(one.task),
            f"{one.n_texts:,}",
            *shares,
            f"{one.wins:,}",
            f"{one.losses:,}",
            difference,
            one.state,
        )
    print_table(console, table)
    print_more(console, len(ordered), len(cut(ordered, limit)), "tasks")
    say(console, "")
    for sentence in found.sentences:
        say(console, sentence)
    for task in found.not_in_run:
        say(console, f"Not in the run: {quote(task)}")
    for one in found.tasks:
        if one.unknown_labels:
            labels = ", ".join(map(quote, one.unknown_labels))
            say(console, f"Labels of {quote(one.task)} that the run does not know: {labels}")


def order(one: TaskComparison) -> tuple[float, str]:
    """Sort the tasks for which the run is worst first; those without texts come last."""
    return (2.0 if one.difference is None else one.difference.mean), one.task

"""`robusttc remove`: a task out of a finished run, with all that it has influenced."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robusttc.cli.add import drop_change, flip_rows, show_flips
from robusttc.cli.console import error_console, output_console, print_json, say
from robusttc.cli.options import (
    GiveUp,
    JsonOption,
    MaxFlips,
    MustPass,
    QuietOption,
    RunFolder,
    with_settings,
)
from robusttc.cli.progress import FIT_STAGES, RunStoppedError, show_progress, stop_on_signals
from robusttc.cli.reading import read_limits
from robusttc.errors import ExitCode, UsageError
from robusttc.formatting import command_line, format_seconds
from robusttc.run.settings import Execution, read_settings

if TYPE_CHECKING:
    from robusttc.run.updates import RemovalPlan, RemoveResult

__all__ = ["remove"]


@with_settings(Execution)
def remove(
    run: RunFolder,
    given: dict[str, Any],
    task: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="NAME", help="A task to remove; can be given several times."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before models are trained again; scripts need it.")
    ] = False,
    max_flips: MaxFlips = None,
    must_pass: MustPass = None,
    give_up: GiveUp = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> int:
    """Remove tasks from a finished run: their texts, models and scores go, and only the history names them.

    Of a task that came later nobody has learned. What a task of the fit has influenced is named first, and
    then trained again without it. The run answers as before until all is done; killed at any moment, the same
    command goes on where it was. Ends with code 3 where the next version breaks --max-flips or --must-pass.
    """
    # Late, so that the other commands do not wait for SciPy.
    from robusttc.jobs import Stopped
    from robusttc.run import open_run
    from robusttc.run.updates import plan_removal, remove_tasks

    if give_up:
        return drop_change(run, quiet=quiet)
    if not task:
        raise UsageError("there is nothing to remove", expected="--task NAME")
    execution, _ = read_settings(Execution, options=given)
    limits = read_limits(max_flips, must_pass)
    plan = plan_removal(open_run(run), task)
    if plan.retrains:
        if not quiet and not json:
            show_plan(error_console(), plan)
        if not yes:
            ask()
    with stop_on_signals(quiet=quiet) as stop, show_progress(stages=FIT_STAGES, quiet=quiet) as progress:
        try:
            result = remove_tasks(run, task, limits=limits, execution=execution, progress=progress, stop=stop)
        except (Stopped, KeyboardInterrupt):
            raise RunStoppedError(run) from None
    if json:
        print_json(as_document(result))
    elif not quiet:
        show_removed(output_console(), result, run)
    return int(ExitCode.DOUBT if result.doubts else ExitCode.DONE)


def show_removed(console: Console, result: RemoveResult, run: Path) -> None:
    """Print what went, and what changed for others."""
    for sentence in result.sentences:
        say(console, sentence)
    for doubt in result.doubts:
        say(console, f"Doubtful: {doubt}")
    if result.plan.retrains:
        show_flips(console, result.flips)
    say(console, f"This is version {result.version} of the run.")
    say(console, f"Next: {command_line('report', run)}")


def show_plan(console: Console, plan: RemovalPlan) -> None:
    """Print what has learned from the tasks, and how long it takes to train it again."""
    say(console, "Others have learned from what is to be removed. Trained again, without it:")
    for phrase in plan.retrains:
        say(console, f"  - {phrase}")
    say(console, f"The fit took {format_seconds(plan.seconds)} for that; expect about as long.")


def ask() -> None:
    """Ask a person at a terminal whether to go on; a script must have said so.

    Raises
    ------
    UsageError
        If nobody can be asked.
    Exit
        If the answer is no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "models are trained again, and nobody can be asked whether that is meant",
            todo="say so with --yes",
        )
    try:
        is_wanted = typer.confirm("Go on?", err=True)
    except typer.Abort:
        is_wanted = False
    if not is_wanted:
        raise typer.Exit(int(ExitCode.DONE))


def as_document(result: RemoveResult) -> dict[str, Any]:
    """Return all of it as a JSON document."""
    return {
        "version": result.version,
        "removed": list(result.tasks),
        "learned_from": list(result.plan.learned_from),
        "retrains": list(result.plan.retrains),
        "flips": flip_rows(result.flips),
        "sentences": list(result.sentences),
        "doubts": list(result.doubts),
    }

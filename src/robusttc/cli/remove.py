"""`robusttc remove`: a task out of a finished run, with all that it has influenced."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robusttc.cli.console import error_console, output_console, print_json, say
from robusttc.cli.options import JsonOption, QuietOption, RunFolder, with_settings
from robusttc.cli.progress import FIT_STAGES, RunStoppedError, show_progress, stop_on_signals
from robusttc.errors import ExitCode, UsageError
from robusttc.formatting import command_line
from robusttc.run.settings import Execution, read_settings

if TYPE_CHECKING:
    from robusttc.run.later.influence import Influence
    from robusttc.run.later.removing import RemoveResult

__all__ = ["remove"]


@with_settings(Execution)
def remove(
    run: RunFolder,
    given: dict[str, Any],
    task: Annotated[
        list[str],
        typer.Option("--task", metavar="NAME", help="A task to remove; can be given several times."),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before models are trained again; scripts need it.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> int:
    """Remove tasks from a finished run: their texts, models and scores go, and only the history names them.

    Of a task that came later nobody has learned. What a task of the fit has influenced is named first, and
    then trained again without it. Killed at any moment, the same command goes on where it was.
    """
    # Late, so that the other commands do not wait for SciPy.
    from robusttc.jobs import Stopped
    from robusttc.run.later.removing import plan_removal, remove_tasks

    execution, _ = read_settings(Execution, options=given)
    influence = plan_removal(run, task)
    if influence.retrains:
        if not quiet and not json:
            tell_influence(error_console(), influence)
        if not yes:
            ask()
    with stop_on_signals(quiet=quiet) as stop, show_progress(stages=FIT_STAGES, quiet=quiet) as progress:
        try:
            result = remove_tasks(run, task, execution=execution, progress=progress, stop=stop)
        except (Stopped, KeyboardInterrupt):
            raise RunStoppedError(run) from None
    if json:
        print_json(as_document(result, influence))
    elif not quiet:
        for sentence in result.sentences:
            say(output_console(), sentence)
        for sentence in influence.stays:
            say(output_console(), sentence)
        say(output_console(), f"This is version {result.version} of the run.")
        again = command_line("report", run)
        say(output_console(), f"Next: {again}   (the page of the version before is gone)")
    return int(ExitCode.DONE)


def tell_influence(console: Console, influence: Influence) -> None:
    """Print what tasks have influenced, and how long it takes to train it again."""
    from robusttc.formatting import format_seconds

    say(console, "Others have learned from what is to be removed. Trained again, without it:")
    for phrase in influence.retrains:
        say(console, f"  - {phrase}")
    say(console, f"The fit took {format_seconds(influence.seconds)} for that; expect about as long.")


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


def as_document(result: RemoveResult, influence: Influence) -> dict[str, Any]:
    """Give all of it as a JSON document."""
    return {
        "version": result.version,
        "removed": list(result.tasks),
        "sentences": list(result.sentences),
        **influence.to_dict(),
    }

"""`robusttc add`: new tasks into a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robusttc.cli.console import output_console, percent, print_json, say, without_controls
from robusttc.cli.options import JsonOption, QuietOption, RunFolder, with_settings
from robusttc.cli.progress import FIT_STAGES, RunStoppedError, show_progress, stop_on_signals
from robusttc.cli.reading import read_aloud
from robusttc.errors import ExitCode, UsageError, quote
from robusttc.formatting import command_line, count
from robusttc.run.settings import Execution, FitSettings, ReadSettings, read_settings

if TYPE_CHECKING:
    from robusttc.run.later.adding import AddResult

__all__ = ["add"]

MAX_SHOWN = 40


@with_settings(ReadSettings, Execution, leave_out=["seed"])
def add(
    run: RunFolder,
    given: dict[str, Any],
    tasks: Annotated[
        Path | None,
        typer.Argument(metavar="TASKS", help="A folder of task files, or one file with a task column."),
    ] = None,
    private: Annotated[
        list[str] | None,
        typer.Option(
            "--private",
            metavar="NAME",
            help="A task that no other may learn from; it gets a model of its own. "
            "Can be given several times.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put tasks in the place of those that robusttc adapt made.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Take back an addition that was begun and is not finished.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> int:
    """Add tasks to a finished run: a few pairs are measured, and nobody else's model changes.

    Files are read as the fit read its own, unless an option says otherwise. Killed at any moment, the same
    command goes on where it was. Ends with code 3 where a task was set aside, or something could not be done.
    """
    # Late, so that the other commands do not wait for SciPy.
    from robusttc.jobs import Stopped
    from robusttc.run.later.adding import add_tasks, give_up_adding
    from robusttc.run.store import RunStore

    if give_up:
        names = give_up_adding(run)
        if not quiet:
            say(output_console(), f"Taken back: {count(len(names), 'task')}. The run is as it was before.")
        return int(ExitCode.DONE)
    if tasks is None:
        raise UsageError("there is nothing to add", expected="TASKS, a folder or a file")
    reading, execution = read_settings(ReadSettings, options=given)
    with RunStore.open(run, read_only=True) as store:
        facts = store.value("configuration")
    now = {name: getattr(reading, name) for name in reading.model_fields_set}
    # A run that was never begun in earnest has no facts; what is wrong with it is said below.
    configuration = FitSettings(**{**(facts or {}), **now})
    loaded = read_aloud(tasks, configuration.read_options(allow_incomplete=True), quiet=quiet).tasks
    with stop_on_signals(quiet=quiet) as stop, show_progress(stages=FIT_STAGES, quiet=quiet) as progress:
        try:
            result = add_tasks(
                run,
                loaded,
                private=private or (),
                replace_adapted=replace,
                execution=execution,
                progress=progress,
                stop=stop,
            )
        except (Stopped, KeyboardInterrupt):
            raise RunStoppedError(run) from None
    if json:
        print_json(as_document(result))
    elif not quiet:
        show_added(output_console(), result, run)
    return int(ExitCode.DOUBT if result.is_doubtful else ExitCode.DONE)


def show_added(console: Console, result: AddResult, run: Path) -> None:
    """Print a row a new task, and what is to be said of all."""
    if result.there:
        names = ", ".join(quote(name) for name in result.there[:5]) + (" …" if len(result.there) > 5 else "")
        is_are = "is" if len(result.there) == 1 else "are"
        say(
            console,
            f"{count(len(result.there), 'task')} {is_are} there already, with the same rows: {names}.",
        )
    if not result.added and not result.set_aside:
        say(console, "There is nothing to do.")
        return
    table = Table("task", box=None, pad_edge=False)
    for heading in ("cluster", "sure", "partners", "expected gain", "test rows", "own", "served"):
        table.add_column(heading, justify="right")
    shown = list(result.added.values())[:MAX_SHOWN]
    for one in shown:
        place = str(one.cluster) if one.cluster >= 0 else "none" if one.out_of_cluster else ""
        table.add_row(
            Text(without_controls(one.name)),
            place,
            f"{one.confidence:.0%}" if one.n_measured and (one.cluster >= 0 or one.out_of_cluster) else "",
            f"{one.n_measured:,}",
            percent(one.expected_gain, sign="+"),
            f"{one.figures.n_rows:,}",
            percent(one.figures.own, interval=False),
            percent(one.figures.served, interval=False),
        )
    if shown:
        console.print(table)
    if len(result.added) > len(shown):
        say(console, f"… and {len(result.added) - len(shown):,} more (--json shows all)")
    for sentence in result.sentences:
        say(console, sentence)
    for name, why in result.set_aside.items():
        say(console, f"Set aside: {quote(name)}: {why}")
    for doubt in result.doubts:
        say(console, f"Doubtful: {doubt}")
    say(console, "Gains are in points of accuracy over the task's own model, on held-out training rows.")
    say(console, f"\nThis is version {result.version} of the run; nothing else moved.")
    say(console, f"Next: {command_line('report', run)}   (the page of the version before is gone)")
    say(console, f"      {command_line('predict', run, '--task', 'NAME', 'TEXTS.txt')}")


def as_document(result: AddResult) -> dict[str, Any]:
    """Give all of it as a JSON document."""
    added: list[Mapping[str, Any]] = [
        {**one.to_dict(), "figures": one.figures.to_dict()} for one in result.added.values()
    ]
    return {
        "version": result.version,
        "added": added,
        "there": list(result.there),
        "set_aside": dict(result.set_aside),
        "sentences": list(result.sentences),
        "doubts": list(result.doubts),
    }

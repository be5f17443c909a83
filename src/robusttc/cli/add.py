"""`robusttc add`: new tasks into a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    say,
)
from robusttc.cli.options import (
    GiveUp,
    JsonOption,
    LimitOption,
    MaxFlips,
    MustPass,
    QuietOption,
    RunFolder,
    with_settings,
)
from robusttc.cli.progress import FIT_STAGES, RunStoppedError, show_progress, stop_on_signals
from robusttc.cli.reading import read_aloud, read_limits
from robusttc.errors import ExitCode, UsageError, quote
from robusttc.formatting import command_line, count
from robusttc.run.settings import Execution, FitSettings, ReadSettings, read_settings

if TYPE_CHECKING:
    from robusttc.run.updates import AddResult, Flip

__all__ = ["add", "drop_change", "flip_rows", "show_flips"]


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
    max_flips: MaxFlips = None,
    must_pass: MustPass = None,
    give_up: GiveUp = False,
    limit: LimitOption = 40,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> int:
    """Add tasks to a finished run: a few pairs are measured, and nobody else's model changes.

    Files are read as the fit read its own, unless an option says otherwise. The run answers as before until
    all is done; killed at any moment, the same command goes on where it was. Ends with code 3 where a task
    was set aside, something could not be done, or the next version breaks --max-flips or --must-pass.
    """
    # Late, so that the other commands do not wait for SciPy.
    from robusttc.jobs import Stopped
    from robusttc.run import open_run
    from robusttc.run.updates import add_tasks, settings_of

    if give_up:
        return drop_change(run, quiet=quiet)
    if tasks is None:
        raise UsageError("there is nothing to add", expected="TASKS, a folder or a file")
    reading, execution = read_settings(ReadSettings, options=given)
    limits = read_limits(max_flips, must_pass)
    then = settings_of(open_run(run)).to_dict()
    now = {field: getattr(reading, field) for field in reading.model_fields_set}
    settings = FitSettings(**{**then, **now})
    loaded = read_aloud(tasks, settings.read_options(allow_incomplete=True), quiet=quiet).tasks
    with stop_on_signals(quiet=quiet) as stop, show_progress(stages=FIT_STAGES, quiet=quiet) as progress:
        try:
            result = add_tasks(
                run,
                loaded,
                private=private or (),
                replace_adapted=replace,
                limits=limits,
                execution=execution,
                progress=progress,
                stop=stop,
            )
        except (Stopped, KeyboardInterrupt):
            raise RunStoppedError(run) from None
    if json:
        print_json(as_document(result))
    elif not quiet:
        show_added(output_console(), result, run, limit)
    return int(ExitCode.DOUBT if result.is_doubtful else ExitCode.DONE)


def drop_change(run: Path, *, quiet: bool) -> int:
    """Drop the change of a run that is under way."""
    from robusttc.run.updates import give_up

    kind, names = give_up(run)
    if not quiet:
        what = "An addition" if kind == "add" else "A removal"
        say(
            output_console(),
            f"{what} of {count(len(names), 'task')} was dropped: the run is as it was before.",
        )
    return int(ExitCode.DONE)


def show_added(console: Console, result: AddResult, run: Path, limit: int) -> None:
    """Print a row a new task, and what is to be said of all."""
    if result.there:
        names = ", ".join(quote(task) for task in result.there[:5]) + (" …" if len(result.there) > 5 else "")
        verb = "is" if len(result.there) == 1 else "are"
        there = count(len(result.there), "task")
        say(console, f"{there} {verb} there already, with the same rows: {names}.")
    if not result.added and not result.set_aside:
        say(console, "There is nothing to do.")
        return
    headings = ("cluster", "sure", "compared", "expected gain", "test rows", "own", "served")
    table = make_table("task", *headings)
    added = list(result.added.values())
    for one in cut(added, limit):
        place = str(one.cluster) if one.cluster >= 0 else "none" if one.out_of_cluster else ""
        table.add_row(
            name(one.name),
            place,
            f"{one.confidence:.0%}" if one.n_measured and (one.cluster >= 0 or one.out_of_cluster) else "",
            f"{one.n_measured:,}",
            percent(one.expected_gain, sign="+"),
            f"{one.figures.n_rows:,}",
            percent(one.figures.own, interval=False),
            percent(one.figures.served, interval=False),
        )
    if added:
        console.print(table)
    print_more(console, len(added), len(cut(added, limit)), "tasks")
    for sentence in result.sentences:
        say(console, sentence)
    for task, why in result.set_aside.items():
        say(console, f"Set aside: {quote(task)}: {why}")
    for doubt in result.doubts:
        say(console, f"Doubtful: {doubt}")
    say(console, "Gains are in points of accuracy over the task's own model, on held-out training rows.")
    show_flips(console, result.flips)
    say(console, f"\nThis is version {result.version} of the run.")
    say(console, f"Next: {command_line('report', run)}")
    say(console, f"      {command_line('predict', run, '--task', 'NAME', 'TEXTS.txt')}")


def show_flips(console: Console, flips: tuple[Flip, ...]) -> None:
    """Print which held-out texts are labelled otherwise than before."""
    if not flips:
        say(console, "No held-out text of a task that was there is labelled otherwise than before.")
        return
    n_tasks = len({flip.task for flip in flips})
    texts, tasks = count(len(flips), "held-out text"), count(n_tasks, "task")
    n_better, n_worse = (
        sum(getattr(flip, when) == flip.label for flip in flips) for when in ("after", "before")
    )
    say(
        console,
        f"{texts} of {tasks} are labelled otherwise than before: {n_better:,} right now and wrong before, "
        f"{n_worse:,} wrong now and right before (--json lists them).",
    )


def flip_rows(flips: tuple[Flip, ...]) -> list[dict[str, Any]]:
    """Return flips as values for JSON."""
    keys = ("task", "text", "label", "before", "after")
    return [{key: getattr(flip, key) for key in keys} for flip in flips]


def as_document(result: AddResult) -> dict[str, Any]:
    """Return all of it as a JSON document."""
    added: list[Mapping[str, Any]] = [
        {**one.to_dict(), "figures": one.figures.to_dict()} for one in result.added.values()
    ]
    return {
        "version": result.version,
        "added": added,
        "there": list(result.there),
        "set_aside": dict(result.set_aside),
        "flips": flip_rows(result.flips),
        "sentences": list(result.sentences),
        "doubts": list(result.doubts),
    }

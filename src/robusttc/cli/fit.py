"""`robusttc fit`: from tasks to clusters and models, in a folder that survives anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.console import error_console, output_console, print_json, say, show_working
from robusttc.cli.options import QuietOption, TasksPath, with_settings
from robusttc.cli.progress import FIT_STAGES, RunStoppedError, show_progress, stop_on_signals
from robusttc.cli.reading import read_aloud
from robusttc.cli.run_view import show_run
from robusttc.errors import ExitCode, UsageError, quote
from robusttc.run.settings import Execution, FitSettings, read_settings

if TYPE_CHECKING:
    from robusttc.data import TaskSet
    from robusttc.run import FitResult

__all__ = ["fit"]

# Above this a person at a terminal is asked.
LONG_SECONDS = 3600.0


@with_settings(FitSettings, Execution)
def fit(
    tasks: TasksPath,
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder of the run: new, or the same again.")],
    given: dict[str, Any],
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE.yaml", help="A file of settings, NAME: VALUE a line."),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try again what was given up in an earlier call.")
    ] = False,
    no_cost: Annotated[bool, typer.Option("--no-cost", help="Do not estimate the cost first.")] = False,
    quiet: QuietOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> int:
    """Cluster tasks, train models on the clusters, and judge them; run again to resume.

    The folder remembers every finished piece of work: killed at any moment, the same command goes on where
    it was, to the same result. Ends with code 3 where something was left out or is not proven.
    """
    # Late, so that the other commands do not wait for SciPy and torch.
    from robusttc.jobs import Stopped
    from robusttc.run import fit_run

    configuration, execution = read_settings(FitSettings, file=config, options=given)
    is_new = check_place(out)
    loaded = read_aloud(tasks, configuration.read_options(allow_incomplete=True), quiet=quiet).tasks
    if is_new and not no_cost and not quiet:
        tell_cost(loaded, configuration, execution)
    elif not is_new and not quiet:
        say(error_console(), f"Going on with the run in {out}.")
    with stop_on_signals(quiet=quiet) as stop, show_progress(stages=FIT_STAGES, quiet=quiet) as progress:
        try:
            result = fit_run(
                out, loaded, configuration, execution=execution, retry=retry, progress=progress, stop=stop
            )
        except (Stopped, KeyboardInterrupt):
            raise RunStoppedError(out) from None
    if json:
        print_json(result.run.summary)
    elif not quiet:
        if result.was_finished:
            say(output_console(), f"The run in {out} is finished: there is nothing to do.\n")
        show_run(output_console(), out, result.run)
    page = find_or_write_report(result)
    if not json and not quiet:
        say(output_console(), f"\nReport, to open in a browser: {page}")
    return int(ExitCode.DOUBT if result.run.is_doubtful else ExitCode.DONE)


def find_or_write_report(result: FitResult) -> Path:
    """Give the page of a run; that of a run that was finished before is kept."""
    from robusttc.report import REPORT, write_report

    page = result.run.folder / REPORT
    if result.was_finished and page.is_file():
        return page
    return write_report(result.run).path


def check_place(out: Path) -> bool:
    """Refuse a folder that holds something else before any work is done; tell whether the run is new."""
    from robusttc.run import RunFolder

    if out.exists() and not out.is_dir():
        raise UsageError("there is a file where the run's folder should be", where=quote(str(out)))
    return not RunFolder(out).is_begun()


def tell_cost(tasks: TaskSet, configuration: FitSettings, execution: Execution) -> None:
    """Say what a fit will cost, and ask a person at a terminal whether a long one is meant."""
    from robusttc.clustering import StopRule
    from robusttc.encoders import make_encoder
    from robusttc.formatting import format_seconds
    from robusttc.run import estimate_learning, sort_tasks
    from robusttc.transfer import estimate_cost

    shared = sort_tasks(tasks, configuration).tasks.shareable()
    if len(shared) < 2:
        return
    encoder: Any = make_encoder(
        configuration.encoder,
        vectors=configuration.vectors,
        model=configuration.model,
        device=configuration.device,
    )
    with show_working("Estimating the cost"):
        cost = estimate_cost(
            shared,
            encoder=encoder,
            pairs=configuration.pairs,
            kind=configuration.kind,
            stop=StopRule(),
            n_workers=execution.workers,
            device=configuration.device,
            random_state=configuration.seed,
        )
    console = error_console()
    learning = estimate_learning(shared, configuration, n_workers=execution.workers)
    say(console, cost.describe())
    say(
        console, f"Learning after that: roughly {format_seconds(learning)}, by the number of rows and models."
    )
    if cost.seconds + learning > LONG_SECONDS and console.is_terminal and not is_wanted():
        raise typer.Exit(int(ExitCode.DONE))


def is_wanted() -> bool:
    """Ask whether to go on; no answer is no."""
    try:
        return typer.confirm("Go on?", err=True)
    except typer.Abort:
        return False

"""`robusttc report`: what a run found, as one page that opens anywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.console import error_console, output_console, print_json, say
from robusttc.cli.options import RunFolder
from robusttc.cli.progress import show_progress
from robusttc.errors import ExitCode, UsageError
from robusttc.formatting import format_bytes

if TYPE_CHECKING:
    from robusttc.report import WrittenReport
    from robusttc.run import Run

__all__ = ["report", "show_report"]

# As many sentences as fit on a screen beside other things; the page has them all.
N_SENTENCES = 4
MATRIX_FILES = {"scores": "scores.csv", "similarity": "similarity.safetensors"}


def report(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page; by default RUN/report.html.")
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="What the page is called; by default the folder and date.")
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print what the page says as JSON; a page is only written for --out."),
    ] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print the table of tasks as CSV; a page is only written for --out.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> int:
    """Write what a run found as one HTML page that opens without a network.

    It says in plain words how many tasks and clusters there are, who gains, whether clusters pay, how sure
    that is, and what to do next; then the details. Ends with code 3 where the run left something out.
    """
    # Late, so that --help does not wait for SciPy.
    from robusttc.report import make_document, write_csv
    from robusttc.run import open_run

    if json and csv:
        raise UsageError("one of --json and --csv can be printed, not both")
    written = None
    opened = open_run(run)
    if (json or csv) and out is None and not open_page:
        document = make_document(opened, title=title)
    else:
        written = write_page(opened, out, title)
        document = written.document
    if json:
        print_json({**document.values, "matrices": None if document.matrices is None else MATRIX_FILES})
    elif csv:
        sys.stdout.write(write_csv(document))
    elif written is not None:
        show_report(written)
    if open_page and written is not None:
        open_in_browser(written.path)
    is_doubtful = document.values["quarantined"] or document.values["doubts"]
    return int(ExitCode.DOUBT if is_doubtful else ExitCode.DONE)


def write_page(run: Run, out: Path | None, title: str | None) -> WrittenReport:
    """Write the page; on a terminal a bar shows how far it is."""
    from robusttc.report import write_report

    options: dict[str, Any] = {"path": out, "title": title}
    if not error_console().is_terminal:
        return write_report(run, **options)
    with show_progress() as progress:
        return write_report(run, **options, progress=progress)


def show_report(written: WrittenReport) -> None:
    """Print where the page is, and the first of what it says."""
    console = output_console()
    headline = written.document.values["headline"]
    for sentence in headline["sentences"][:N_SENTENCES]:
        say(console, sentence)
    say(console, f"\nReport: {written.path} ({format_bytes(written.n_bytes)}, {written.seconds:.1f} s)")
    for step in headline["next"][:1]:
        say(console, f"Next: {step['text']}")
        if step["command"]:
            say(console, f"      {step['command']}")


def open_in_browser(path: Path) -> None:
    """Open a page in the browser; where there is none, say how."""
    import webbrowser

    uri = path.resolve().as_uri()
    if not webbrowser.open(uri):
        say(error_console(), f"There is no browser to open the page with. Open it yourself: {uri}")

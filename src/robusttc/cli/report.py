"""`robusttc report`: what a run found, as one page that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.console import error_console, output_console, print_json, say
from robusttc.cli.options import RunFolder
from robusttc.cli.progress import show_progress
from robusttc.errors import ExitCode

if TYPE_CHECKING:
    from robusttc.report.writing import ReportWritten

__all__ = ["report", "show_report"]

# As many sentences as fit on a screen beside other things; the page has them all.
N_SENTENCES = 4


def report(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page; by default RUN/report.html.")
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print what the page says as JSON; a page is only written for --out."),
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> int:
    """Write what a run found as one HTML page that opens without a network.

    It says in plain words how many tasks and clusters there are, who gains, whether clusters pay, how sure
    that is, and what to do next; then the details. Ends with code 3 where the run left something out.
    """
    # Late, so that --help does not wait for SciPy.
    from robusttc.report.document import make_document
    from robusttc.run import Run

    written = None
    if json and out is None and not open_page:
        document = make_document(Run(run))
    else:
        written = write_aloud(run, out)
        document = written.document
    if json:
        print_json({**document.values, "matrices": name_matrices(is_there=document.matrices is not None)})
    elif written is not None:
        show_report(written)
    if open_page and written is not None:
        open_in_browser(written.path)
    is_doubtful = document.values["quarantined"] or document.values["doubts"]
    return int(ExitCode.DOUBT if is_doubtful else ExitCode.DONE)


def write_aloud(run: Path, out: Path | None) -> ReportWritten:
    """Write the page; on a terminal a bar shows how far it is."""
    from robusttc.report.writing import write_report

    if not error_console().is_terminal:
        return write_report(run, path=out)
    with show_progress() as progress:
        return write_report(run, path=out, progress=progress)


def show_report(written: ReportWritten) -> None:
    """Say where the page is, and the first of what it says."""
    console = output_console()
    for sentence in written.document.values["headline"]["sentences"][:N_SENTENCES]:
        say(console, sentence)
    say(console, f"\nReport: {written.path} ({say_size(written.n_bytes)}, {written.seconds:.1f} s)")
    for step in written.document.values["headline"]["next"][:1]:
        say(console, f"Next: {step['text']}")
        if step["command"]:
            say(console, f"      {step['command']}")


def say_size(n_bytes: int) -> str:
    """Give the size of a file.

    >>> say_size(740_000), say_size(2_345_678)
    ('740 kB', '2.3 MB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def name_matrices(*, is_there: bool) -> dict[str, Any] | None:
    """Say where the matrices are, which are too large for JSON."""
    from robusttc.run.outputs import SCORES, SIMILARITY

    return {"scores": SCORES, "similarity": SIMILARITY} if is_there else None


def open_in_browser(path: Path) -> None:
    """Open a page in the browser; where there is none, say how."""
    import webbrowser

    uri = path.resolve().as_uri()
    if not webbrowser.open(uri):
        say(error_console(), f"There is no browser to open the page with. Open it yourself: {uri}")

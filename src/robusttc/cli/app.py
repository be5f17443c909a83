"""The program: its commands, and how errors become one message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from robusttc.cli.adapt import adapt
from robusttc.cli.add import add
from robusttc.cli.cluster import cluster
from robusttc.cli.compare import compare
from robusttc.cli.console import print_error
from robusttc.cli.demo import demo
from robusttc.cli.evaluate import evaluate
from robusttc.cli.explain import explain
from robusttc.cli.fit import fit
from robusttc.cli.inspect import inspect
from robusttc.cli.measure import measure
from robusttc.cli.predict import predict
from robusttc.cli.remove import remove
from robusttc.cli.report import report
from robusttc.cli.serve import keys, serve
from robusttc.errors import ExitCode, RobustTCError
from robusttc.progress import no_default_bar
from robusttc.version import __version__

__all__ = ["app", "run"]

INTERRUPTED = 130  # typer's code for Ctrl-C, and the shells'
INTERNAL_ERROR = 1

app = typer.Typer(
    name="robusttc",
    help="Cluster, train and serve hundreds or thousands of small text-classification tasks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(inspect)
app.command()(fit)
app.command()(evaluate)
app.command()(compare)
app.command()(report)
app.command()(explain)
app.command()(predict)
app.command()(adapt)
app.command()(add)
app.command()(remove)
app.command()(measure)
app.command()(cluster)
app.command()(serve)
app.command()(demo)
app.add_typer(keys, name="keys")


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"robusttc {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works behind a command too.")
    ] = False,
) -> None:
    """Cluster, train and serve hundreds or thousands of small text-classification tasks.

    Exit codes: 0 done, 2 wrong usage, 3 finished but with doubt, 4 bad data, 5 damaged store.
    """


def run(arguments: list[str] | None = None) -> int:
    """Run one command; every error of ours is one readable message and its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    arguments, debug = take_debug(arguments)
    try:
        with no_default_bar():  # a command shows progress itself
            code = app(arguments, prog_name="robusttc", standalone_mode=False)
        # A reader that has left is only noticed when the last of the output is written.
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader of our output (head, less) has seen enough; typer turns that into a SystemExit. Python
        # would complain again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)
    except RobustTCError as error:
        if debug:
            traceback.print_exc()
        print_error(str(error))
        return int(error.exit_code)
    # The last resort: even a fault of ours is one message.
    except Exception as error:
        # The parser's own errors, for which typer exports no class, know how to show themselves.
        show_usage: Callable[[], None] | None = getattr(error, "show", None)
        if show_usage:
            show_usage()
            return int(ExitCode.USAGE)
        if debug:
            traceback.print_exc()
        print_error(
            f"internal error: {type(error).__name__}: {error}\n"
            "This is a fault of robusttc. Please report it with what `--debug` shows."
        )
        return INTERNAL_ERROR
    if code == INTERRUPTED:
        print_error("stopped")
    return code if isinstance(code, int) else int(ExitCode.DONE)


def take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Take ``--debug`` out of the arguments wherever it stands, short of what follows ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != "--debug"]
    return kept + arguments[end:], len(kept) < end

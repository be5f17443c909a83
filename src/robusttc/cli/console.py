"""How commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from robusttc.stats import Estimate

__all__ = [
    "cut",
    "error_console",
    "make_table",
    "name",
    "output_console",
    "percent",
    "print_error",
    "print_examples",
    "print_json",
    "print_more",
    "print_table",
    "print_title",
    "print_wrapped",
    "say",
    "show_working",
    "without_controls",
]

Item = TypeVar("Item")

WIDTH = 80  # of paragraphs, and of tables in a terminal
UNLIMITED = 10_000  # columns where no terminal wraps lines: a row of a table stays one line
NAME_WIDTH = 22
MAX_EXAMPLES = 5


def output_console(*, stderr: bool = False) -> Console:
    """Return the console for results, which never wraps what is piped or written to a file.

    Made anew each time, since tests and callers may redirect the stream.
    """
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=UNLIMITED)


def error_console() -> Console:
    """Return the console for messages and progress."""
    return output_console(stderr=True)


def without_controls(text: str) -> str:
    """Return a text with escapes for control characters, so that data cannot drive the terminal."""
    if text.isprintable():
        return text
    shown = (
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in text
    )
    return "".join(shown)


def say(console: Console, line: str) -> None:
    """Print one line as it is: names and texts of users are no mark-up."""
    console.print(without_controls(line), markup=False, soft_wrap=True)


def print_error(message: str) -> None:
    """Print one error message."""
    say(error_console(), f"Error: {message}")


def print_json(value: Any) -> None:
    """Print one JSON document for machines."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write("\n")


@contextmanager
def show_working(what: str) -> Iterator[None]:
    """Show on a terminal that something is being done; silent elsewhere."""
    console = error_console()
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


def print_wrapped(console: Console, line: str, *, indent: int = 0) -> None:
    """Print a paragraph within 80 columns."""
    width = min(WIDTH, console.width)
    for number, part in enumerate(Text(without_controls(line)).wrap(console, width - indent)):
        say(console, (" " * indent if number else "") + part.plain.rstrip())


def print_title(console: Console, words: str) -> None:
    """Print the title of a part."""
    say(console, "")
    print_wrapped(console, words)


def make_table(*headings: str, n_names: int = 1, name_width: int | None = NAME_WIDTH) -> Table:
    """Return an empty table; the first columns are of names, which may be cut, the others of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for place, heading in enumerate(headings):
        is_name = place < n_names
        table.add_column(
            heading,
            justify="left" if is_name else "right",
            overflow="ellipsis",
            no_wrap=True,
            max_width=name_width if is_name else None,
        )
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table within 80 columns; long names are cut."""
    console.print(table, width=min(WIDTH, console.width))


def cut(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """Return the first items; 0 is no limit."""
    return items[:limit] if limit else items


def name(value: str) -> Text:
    """Return a name as it is: it is no mark-up, and has no line breaks."""
    return Text(" ".join(without_controls(value).split()))


def print_more(console: Console, n_all: int, n_shown: int, noun: str = "") -> None:
    """Print how many rows are not shown."""
    if n_shown < n_all:
        say(console, f"… and {n_all - n_shown:,} more{noun and ' ' + noun} (--limit 0 shows all)")


def print_examples(console: Console, texts: Sequence[str]) -> None:
    """Print some texts of users."""
    for text in texts[:MAX_EXAMPLES]:
        print_wrapped(console, f"    “{' '.join(text.split())}”", indent=4)
    if len(texts) > MAX_EXAMPLES:
        say(console, f"    … and {len(texts) - MAX_EXAMPLES:,} more (--json lists them)")


def percent(estimate: Estimate | None, *, sign: str = "", interval: bool = True, decimals: int = 1) -> str:
    """Return an accuracy or a difference in percent, with its interval.

    >>> percent(Estimate(0.5, 0.4321, float("inf"), 2))
    '50.0 [43.2, ?]'
    """
    if estimate is None:
        return ""
    # Without the sum, a difference that rounds to zero could show as -0.0.
    mean, low, high = (
        format(round(100 * value, decimals) + 0.0, f"{sign}.{decimals}f")
        if abs(value) < float("inf")
        else "?"
        for value in (estimate.mean, estimate.low, estimate.high)
    )
    return f"{mean} [{low}, {high}]" if interval else mean

"""Paragraphs and plain tables that fit into 80 columns, for names that may be anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from robusttc.cli.console import without_controls
from robusttc.cli.inspection_view import say
from robusttc.stats import Estimate

__all__ = ["cut", "make_table", "name", "print_table", "say_more", "share", "show_some", "title", "wrap"]

Item = TypeVar("Item")

WIDTH = 80
NAME_WIDTH = 22
MAX_SHOWN_TEXTS = 5


def wrap(console: Console, line: str, *, indent: int = 0) -> None:
    """Print a paragraph within 80 columns; names of users are no mark-up."""
    width = min(WIDTH, console.width)
    for number, part in enumerate(Text(without_controls(line)).wrap(console, width - indent)):
        say(console, (" " * indent if number else "") + part.plain.rstrip())


def title(console: Console, words: str) -> None:
    """Print the title of a part."""
    say(console, "")
    wrap(console, words)


def make_table(*headings: str, left: int = 1, name_width: int = NAME_WIDTH) -> Table:
    """Make a table; the first columns are of names, the others of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for place, heading in enumerate(headings):
        is_name = place < left
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


def name(value: str) -> Text:
    """Give a name as it is: it is no mark-up, and has no line breaks."""
    return Text(" ".join(without_controls(value).split()))


def cut(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """Give as many as may be shown."""
    return items[:limit] if limit else items


def say_more(console: Console, n_all: int, n_shown: int) -> None:
    """Say how many are not shown."""
    if n_shown < n_all:
        say(console, f"… and {n_all - n_shown:,} more (--limit 0 shows all)")


def share(estimate: Estimate) -> str:
    """Show a share in whole hundredths with its interval."""
    return f"{100 * estimate.mean:.0f} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def show_some(console: Console, texts: Sequence[str]) -> None:
    """Print some texts."""
    for text in texts[:MAX_SHOWN_TEXTS]:
        wrap(console, f"    “{' '.join(text.split())}”", indent=4)
    if len(texts) > MAX_SHOWN_TEXTS:
        say(console, f"    … and {len(texts) - MAX_SHOWN_TEXTS:,} more (--json lists them)")

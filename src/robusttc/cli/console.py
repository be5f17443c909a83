"""How the command line speaks: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

__all__ = ["error_console", "output_console", "print_error", "print_json", "show_working", "without_controls"]


def output_console() -> Console:
    """Give the console for results. Made anew each time, since tests and callers may redirect the stream."""
    return Console(highlight=False)


def error_console() -> Console:
    """Give the console for messages and progress."""
    return Console(stderr=True, highlight=False)


def without_controls(text: str) -> str:
    """Show control characters as escapes, so that data cannot drive the terminal; line breaks stay."""
    if text.isprintable():
        return text
    shown = (
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in text
    )
    return "".join(shown)


def print_error(message: str) -> None:
    """Print one error message."""
    error_console().print(f"Error: {without_controls(message)}", markup=False, soft_wrap=True)


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

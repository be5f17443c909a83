"""What all benchmarks share: finding the data, and tables in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
GLOVE = SHARED / "glove.6B.100d.subset.txt.gz"


def find_data(name: str) -> Path:
    """Give the file of one of the public data sets, or stop with a word on where it should be."""
    path = SHARED / name / "tasks.jsonl.gz"
    if not path.is_file():
        sys.exit(
            f"This benchmark needs the public data set {name!r} beside the clone, in ../shared/data/{name}."
        )
    return path


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table, so that it can go into the documentation as it is."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def worst_and_best(values: Sequence[float]) -> str:
    """Give the range of repeated measurements."""
    return f"{min(values):.2f} to {max(values):.2f}"

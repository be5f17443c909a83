"""How pages show figures: a group of rows as tables, a figure of several seeds with its range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.paper.comparing import estimate_row, show_estimate
from benchmarks.paper.reading import TEXTS, Row
from benchmarks.report import table


def group_section(group: str, rows: Sequence[Row]) -> str:
    """Show the figures of a group, one table for each set; a figure of several seeds with its range."""
    parts = [f"## {group[0].upper()}{group[1:]}"]
    sets = list(dict.fromkeys(row.targets for row in rows))
    # Where hardly any rows share a set it is a column; else a heading of its own.
    if len(sets) * 3 > len(rows):
        parts.append(figure_rows(rows, with_set=True))
    else:
        for name in sets:
            own = [row for row in rows if row.targets == name]
            parts += [f"### {name}", figure_rows(own, with_set=False)]
    parts += [f"{row.title}: left out, {row.left_out}." for row in rows if row.left_out]
    return "\n\n".join(parts)


def figure_rows(rows: Sequence[Row], *, with_set: bool) -> str:
    """Make the table of rows: columns are the figures that any of them has."""
    made = [row for row in rows if not row.left_out]
    names = list(dict.fromkeys(name for row in made for name in row.figures))
    texts = [name for name in TEXTS if any(row.accuracies[name] for row in made)]
    has_encoder = any(row.encoder for row in made)
    header = ["set"] * with_set + ["way"] + [""] * has_encoder + [name.replace("_", " ") for name in names]
    header += [f"accuracy, {name} texts" for name in texts] + ["seeds", "CPU s"]
    body = []
    for row in made:
        cells = [row.targets] * with_set + [row.way] + [row.encoder] * has_encoder
        cells += [show_values(row.figures.get(name, ())) for name in names]
        cells += [show_estimate(estimate_row(row, name)) for name in texts]
        body.append([*cells, str(len(row.seeds)), f"{row.cpu_seconds:.1f}"])
    return table(header, body)


def show_values(values: Sequence[Any]) -> str:
    """Give a figure: its mean over seeds, with the range where it differs; words as they are.

    Examples
    --------
    >>> show_values([0.25, 0.35]), show_values([3]), show_values(["yes", "yes"]), show_values([])
    ('0.3 (0.25 to 0.35)', '3', 'yes', '')
    """
    if not values:
        return ""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return ", ".join(dict.fromkeys(str(value) for value in values))
    if min(numbers) == max(numbers):
        return show_number(numbers[0])
    middle = show_number(sum(numbers) / len(numbers))
    return f"{middle} ({show_number(min(numbers))} to {show_number(max(numbers))})"


def show_number(value: float) -> str:
    """Give a number with three digits, a large one whole.

    Examples
    --------
    >>> show_number(0.12345), show_number(123456.0), show_number(1.0)
    ('0.123', '123,456', '1')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"

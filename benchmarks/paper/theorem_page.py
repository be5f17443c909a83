"""The page of the phase transition: where recovery begins, and what the certificate says there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.completion_page import table
from benchmarks.paper.figure_rows import group_section, show_values
from benchmarks.paper.figures import STYLE, hash_points, write_svg
from benchmarks.paper.page_parts import differences, join_parts, opening, protocol
from benchmarks.paper.reading import Results, Row, natural
from benchmarks.paper.subjects import Subject

CELLS = "cells"
# Lines that differ without colour: one for each number of tasks.
STYLES = (("o", ":"), ("s", "-."), ("D", "--"), ("^", (0, (5, 1))), ("v", "-"))
# What is drawn, with its colour: what the theorem promises, and what clustering needs.
FIGURES = {"x_exact": "black", "clusters_exact": "0.65"}

Cells = dict[str, dict[int, dict[float, Row]]]


def write_theorem_page(subject: Subject, results: Results, *, plot: str | None) -> str:
    """Give the page; `plot` is the file of its plot."""
    parts = [opening(subject, results), certificate_section(results), order_section(results)]
    if plot:
        parts.append(f"![Shares of exact answers by the number of entries]({plot})")
    parts += [protocol(subject), differences(subject)]
    for group in dict.fromkeys(row.group for row in results.rows if row.group != CELLS):
        parts += [group_section(group, [row for row in results.rows if row.group == group])]
    parts += [line_section(line, by_size) for line, by_size in gather_cells(find_cells(results)).items()]
    return join_parts(parts)


def gather_cells(rows: Sequence[Row]) -> Cells:
    """Put the cells in order: by what they have in common, the number of tasks and of entries."""
    found: Cells = {}
    for row in rows:
        size, multiple = int(row.figures["n"][0]), float(row.figures["multiple"][0])
        found.setdefault(row.way, {}).setdefault(size, {})[multiple] = row
    lines = sorted(found, key=natural)
    return {line: dict(sorted(found[line].items())) for line in lines}


def count_draws(rows: Sequence[Row], figure: str) -> int:
    """Count the draws that a share is of, over all cells."""
    shares = ((row.figures.get(figure, (0,))[0], row.figures["draws"][0]) for row in rows)
    return sum(round(float(share) * int(draws)) for share, draws in shares)


def find_cells(results: Results) -> list[Row]:
    """Give the cells of the phase diagram."""
    return results.ran(CELLS)


def count_certified(results: Results) -> dict[str, int]:
    """Count the draws of all cells, and those that were certified or called likely, right and wrong."""
    rows = find_cells(results)
    names = ("certified_right", "certified_not_all", "certified_wrong", "likely_right", "likely_wrong")
    counts = {name: count_draws(rows, name) for name in names}
    return counts | {"draws": sum(int(row.figures["draws"][0]) for row in rows), "cells": len(rows)}


def certificate_section(results: Results) -> str:
    """Say how often what was certified was right, over all draws."""
    counts = count_certified(results)
    said = (
        f"{counts['draws']:,} draws in {counts['cells']:,} cells. Certified: {counts['certified_right']:,} "
        f"right, {counts['certified_not_all']:,} right but for tasks that the certificate does not cover, "
        f"**{counts['certified_wrong']:,} wrong**. Called likely: {counts['likely_right']:,} right, "
        f"{counts['likely_wrong']:,} wrong. Right means that every task is in its planted cluster."
    )
    return f"## What the certificate is worth\n\n{said}"


def order_section(results: Results) -> str:
    """Say how the entries that half of the draws need grow with n, beside n log^2 n."""
    lines = []
    for figure, words in {"x_exact": "X exact", "clusters_exact": "Clusters exact"}.items():
        own = [
            row.figures
            for row in results.rows
            if row.way.startswith(f"transition of {figure}:") and row.figures.get("order")
        ]
        if not own:
            continue
        found, square, single = (
            [float(one[name][0]) for one in own] for name in ("order", "order_n_log2_n", "order_n_log_n")
        )
        slower = sum(one < other for one, other in zip(found, square, strict=True))
        lines.append(
            f"- {words}: as n to the power of {span(found)}; in {slower} of {len(own)} kinds of cells slower "
            f"than n log² n, which grows as n to the power of {span(square)} over the same n (n log n: "
            f"{span(single)})."
        )
    if not lines:
        return ""
    said = (
        "The number m of entries that half of the draws need, as a power of n, fitted over the numbers of "
        "tasks that have such a place:"
    )
    return f"## Is n log² n the right order?\n\n{said}\n\n" + "\n".join(lines)


def span(values: Sequence[float]) -> str:
    """Give the range of some numbers.

    Examples
    --------
    >>> span([1.2, 1.05]), span([1.2])
    ('1.05 to 1.20', '1.20')
    """
    low, high = (f"{value:.2f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def line_section(line: str, by_size: Mapping[int, Mapping[float, Row]]) -> str:
    """Show the shares of one line of cells: a row for each number of tasks, a column for each multiple."""
    multiples = sorted({multiple for own in by_size.values() for multiple in own})
    body = []
    for size, own in by_size.items():
        cells = [show_cell(own.get(multiple)) for multiple in multiples]
        body.append([f"{size:,}", *cells])
    header = ["n", *(f"{multiple:g}" for multiple in multiples)]
    said = (
        "Shares of draws by m / (n log² n): X exact / clusters exact / certified and right. Empty: there are "
        "not so many entries, or it was not run."
    )
    return f"## {line}\n\n{said}\n\n{table(header, body)}"


def show_cell(row: Row | None) -> str:
    """Give the three shares of a cell."""
    if row is None:
        return ""
    names = (*FIGURES, "certified_right")
    return " / ".join(show_values(row.figures.get(name, ())) for name in names)


def draw_theorem(results: Results, title: str) -> str | None:
    """Draw shares of exact answers by the number of entries, a panel a line of cells; give the SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    cells = gather_cells(find_cells(results))
    if not cells:
        return None
    points = [
        (line, str(size), figure, multiple, share_of(row, figure), 0.0)
        for line, by_size in cells.items()
        for size, own in by_size.items()
        for multiple, row in sorted(own.items())
        for figure in FIGURES
    ]
    with mpl.rc_context(STYLE):
        n_columns = min(4, len(cells))
        n_rows = -(-len(cells) // n_columns)
        figure, grid = pyplot.subplots(
            n_rows,
            n_columns,
            figsize=(max(5, 1 + 2.4 * n_columns), 1 + 2.2 * n_rows),
            layout="constrained",
            squeeze=False,
            sharex=True,
            sharey=True,
            facecolor="white",
        )
        sizes = sorted({size for by_size in cells.values() for size in by_size})
        ticks = choose_ticks([point[3] for point in points])
        for axes, (line, by_size) in zip(grid.flat, cells.items(), strict=False):
            for size, own in by_size.items():
                draw_size(axes, size, own, STYLES[sizes.index(size) % len(STYLES)])
            axes.axvline(1, color="0.85", linewidth=0.8)
            axes.set(title=line, ylim=(-0.05, 1.05), xscale="log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False, fontsize=7)
            axes.minorticks_off()
        for axes in grid.flat[len(cells) :]:
            axes.set_axis_off()
        figure.supxlabel("m / (n log² n); black: X exact, grey: clusters exact")
        figure.supylabel("share of draws")
        figure.suptitle(title)
        handles = {
            label: handle for axes in grid.flat for handle, label in zip(*labels_of(axes), strict=True)
        }
        figure.legend(list(handles.values()), list(handles), loc="outside right center", frameon=False)
        return write_svg(figure, hash_points(points, title))


def choose_ticks(multiples: Sequence[float]) -> list[float]:
    """Give the powers of two among the multiples that were measured.

    Examples
    --------
    >>> choose_ticks([0.25, 0.5, 0.75, 1, 1.5, 2, 3])
    [0.25, 0.5, 1, 2]
    """
    return sorted({multiple for multiple in multiples if math.log2(multiple).is_integer()})


def share_of(row: Row, figure: str) -> float:
    """Give the share of draws that a cell has of a figure."""
    return float(row.figures[figure][0])


def draw_size(axes: Any, size: int, own: Mapping[float, Row], style: tuple[Any, Any]) -> None:
    """Draw the lines of one number of tasks."""
    marker, line = style
    for figure, colour in reversed(FIGURES.items()):
        axes.plot(
            sorted(own),
            [share_of(own[multiple], figure) for multiple in sorted(own)],
            marker=marker,
            linestyle=line,
            color=colour,
            markersize=4,
            linewidth=0.9,
            label=f"n = {size}",
        )


def labels_of(axes: Any) -> tuple[list[Any], list[str]]:
    """Give what a panel shows, for the legend."""
    handles, labels = axes.get_legend_handles_labels()
    return handles, labels

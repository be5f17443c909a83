"""A plot of clusterings by the share of pairs that were measured: robust completion beside raw S."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.paper.figures import STYLE, hash_points, write_svg
from benchmarks.paper.reading import Results, Row, mean

GROUP = "pairs"
MARKS = {"robust completion": ("o", "-"), "spectral on raw S": ("s", "--")}
FIGURES = {"ari": "adjusted Rand index", "contrast": "contrast (standard deviations)"}
WAY = re.compile(r"(?P<method>.*), (?P<percent>[0-9.]+) % of pairs$")

# By figure and set: for each method, the share of pairs and the mean over seeds.
Curves = dict[tuple[str, str], dict[str, list[tuple[float, float]]]]


def draw_pairs(results: Results, title: str) -> str | None:
    """Draw what there is, a panel for each set and figure; give the SVG, None where there is nothing."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    curves = gather_curves(results)
    if not curves:
        return None
    points = [
        (name, method, figure, percent, value, 0.0)
        for (figure, name), own in curves.items()
        for method, line in own.items()
        for percent, value in line
    ]
    with mpl.rc_context(STYLE):
        n_columns = min(3, len(curves))
        n_rows = -(-len(curves) // n_columns)
        size = (2 + 2.8 * n_columns, 1 + 2.2 * n_rows)
        figure, grid = pyplot.subplots(
            n_rows, n_columns, figsize=size, layout="constrained", squeeze=False, facecolor="white"
        )
        for axes, ((name_of_figure, name), own) in zip(grid.flat, curves.items(), strict=False):
            axes.set(title=name, ylabel=FIGURES[name_of_figure], xscale="log")
            draw_panel(axes, own)
        for axes in grid.flat[len(curves) :]:
            axes.set_axis_off()
        figure.supxlabel("pairs measured (%)")
        figure.suptitle(title)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False)
        return write_svg(figure, hash_points(points, title))


def draw_panel(axes: Any, own: dict[str, list[tuple[float, float]]]) -> None:
    """Draw the lines of one set and figure."""
    for method, line in own.items():
        marker, style = MARKS[method]
        percents, values = zip(*line, strict=True)
        axes.plot(percents, values, marker=marker, linestyle=style, color="black", markersize=4, label=method)
    ticks = sorted({percent for line in own.values() for percent, _ in line})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="0.9")


def gather_curves(results: Results) -> Curves:
    """Gather the figures of all rows that name a share of pairs and no number of clusters."""
    curves: Curves = {}
    for row in results.rows:
        found = read_way(row)
        if found is None:
            continue
        method, percent = found
        for figure in FIGURES:
            values = row.figures.get(figure, ())
            if values:
                lines = curves.setdefault((figure, row.targets), {})
                lines.setdefault(method, []).append((percent, mean(values)))
    for lines in curves.values():
        for method in lines:
            lines[method].sort()
    return dict(sorted(curves.items()))


def read_way(row: Row) -> tuple[str, float] | None:
    """Give the method and the share of pairs of a row; None for other rows and for a given K."""
    match = WAY.match(row.way)
    if row.group != GROUP or row.left_out or match is None or match["method"] not in MARKS:
        return None
    return match["method"], float(match["percent"])

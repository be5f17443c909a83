"""A dot plot of a table: every way with its interval, on all and on novel texts.

Readable without colour: groups have shapes of their own, all texts are filled and novel ones are hollow. A
plot carries a hash of what it shows, so that it can be checked without comparing pictures, which differ from
one version of the plotting library to the next.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from benchmarks.paper.comparing import best_baseline, estimate_row
from benchmarks.paper.reading import GROUPS, Row, mean

MARKERS = dict(zip(GROUPS, ("o", "s", "D", "^"), strict=True))
ROW_HEIGHT = 0.3
# Text stays text; names of parts do not change from one writing to the next.
STYLE: Any = {"svg.hashsalt": "robusttc", "svg.fonttype": "none", "font.size": 9}
DESCRIPTION = re.compile(r"shows [0-9a-f]{64}")

Point = tuple[str, str, str, float, float, float]


def plot_points(rows: Sequence[Row]) -> list[Point]:
    """Give what is to be shown: way, group, texts, mean, low and high, in per cent to two digits."""
    points = []
    for row in rows:
        for texts in ("all", "novel"):
            figure = estimate_row(row, texts)
            if figure is not None:
                low, high = max(figure.low, 0.0), min(figure.high, 1.0)
                middle, left, right = (round(100 * value, 2) for value in (figure.mean, low, high))
                points.append((row.title, row.group, texts, middle, left, right))
    return points


def hash_points(points: Sequence[Point], title: str) -> str:
    """Give the mark that a plot of these points carries."""
    told = json.dumps([title, *points])
    return f"shows {hashlib.sha256(told.encode()).hexdigest()}"


def draw_table(rows: Sequence[Row], title: str) -> str:
    """Draw the rows of one set of targets, group by group, the best of a group on top; give the SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    ordered = order_rows(rows)
    points = plot_points(ordered)
    with mpl.rc_context(STYLE):
        height = 1.4 + ROW_HEIGHT * len(ordered)
        figure, axes = pyplot.subplots(figsize=(8.5, height), layout="constrained", facecolor="white")
        draw_points(axes, ordered, points)
        draw_baseline(axes, ordered)
        axes.set(title=title, xlabel="accuracy, mean over tasks with its 95 % interval (%)")
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        return write_svg(figure, hash_points(points, title))


def write_svg(figure: Any, description: str) -> str:
    """Give a figure as SVG that is the same at each writing, and close it."""
    from matplotlib import pyplot

    text = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Description": description}
    figure.savefig(text, format="svg", metadata=metadata)
    pyplot.close(figure)
    # The writer ends lines with blanks, which a formatter would take away.
    return "\n".join(part.rstrip() for part in text.getvalue().splitlines()) + "\n"


def order_rows(rows: Sequence[Row]) -> list[Row]:
    """Put groups in their order, and the best way of a group first."""
    shown = [row for row in rows if row.accuracies["all"]]

    def key(row: Row) -> tuple[int, float, str]:
        place = GROUPS.index(row.group) if row.group in GROUPS else len(GROUPS)
        return place, -mean(row.accuracies["all"].values()), row.way

    return sorted(shown, key=key)


def draw_baseline(axes: Any, rows: Sequence[Row]) -> None:
    """Draw a line at the best baseline among those that were run on all tasks."""
    whole = max(rows, key=lambda row: len(row.accuracies["all"]))
    line = best_baseline(rows, whole, "all")
    if line is not None:
        label = f"best baseline, all texts: {line.title}"
        height = 100 * mean(line.accuracies["all"].values())
        axes.axvline(height, color="black", linestyle=":", linewidth=1, label=label)


def draw_points(axes: Any, rows: Sequence[Row], points: Sequence[Point]) -> None:
    """Draw a line for every way: a filled mark for all texts, a hollow one below it for novel ones."""
    places = {(row.title, row.group): len(rows) - 1 - number for number, row in enumerate(rows)}
    told = set()
    for title, group, texts, middle, low, high in points:
        novel = texts == "novel"
        height = places[title, group] - (0.14 if novel else -0.14)
        label = f"{group}: {texts} texts"
        axes.errorbar(
            middle,
            height,
            xerr=[[max(middle - low, 0)], [max(high - middle, 0)]],
            fmt=MARKERS.get(group, "v"),
            color="0.45" if novel else "black",
            markerfacecolor="white" if novel else "black",
            markersize=5,
            linewidth=1,
            label=None if label in told else label,
        )
        told.add(label)
    for upper, lower in pairwise(rows):
        if upper.group != lower.group:
            axes.axhline(places[lower.title, lower.group] + 0.5, color="0.8", linewidth=0.8)
    axes.set_yticks(list(places.values()), [title for title, _ in places])
    axes.set_ylim(-0.6, len(rows) - 0.4)


def same_plot(first: str, second: str) -> bool:
    """Tell whether two plots show the same figures, whatever library drew them.

    Examples
    --------
    >>> same_plot("<svg>shows " + "a" * 64, "<svg >shows " + "a" * 64)
    True
    >>> same_plot("<svg>", "<svg>")
    False
    """
    one, other = DESCRIPTION.findall(first), DESCRIPTION.findall(second)
    return bool(one) and one == other

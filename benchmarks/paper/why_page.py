"""The page of reasons: what clusters are over the model of all tasks, condition by condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.paper.figures import ROW_HEIGHT, STYLE, Point, hash_points, write_svg
from benchmarks.paper.page_parts import differences, join_parts, opening, protocol
from benchmarks.paper.reading import Results, Row
from benchmarks.paper.reasons import figure, places, read_difference, told
from benchmarks.paper.subjects import Subject
from benchmarks.report import table

ORDER = ("base", "phrases", "steps", "width", "rows", "K", "cnn")
MEANS = {"single": "single", "holistic": "all tasks", "clusters": "clusters", "random": "random clusters"}
DIFFERENCES = {
    "clusters_less_holistic_all": "clusters less all tasks",
    "clusters_less_holistic_novel": "the same, novel texts",
    "clusters_less_random_all": "clusters less random ones",
    "holistic_less_single_all": "all tasks less single",
    "holistic_less_single_novel": "the same, novel texts",
    "averaged_less_holistic_all": "averaged less all tasks",
    "averaged_less_random_averaged_all": "averaged less the same with random clusters",
}
# What is drawn, with its mark: filled, and hollow.
DRAWN = {"clusters_less_holistic_all": ("o", "black"), "clusters_less_random_all": ("s", "white")}


def write_why_page(subject: Subject, results: Results, *, plot: str | None) -> str:
    """Give the page; `plot` is the file of its plot."""
    parts = [opening(subject, results), protocol(subject), differences(subject)]
    if plot:
        parts.append(f"![{subject.title}]({plot})")
    rows = order_rows(results)
    for name, encoder in places(rows):
        own = [row for row in rows if (row.targets, row.encoder) == (name, encoder)]
        parts += [f"## {name}, {encoder}", condition_table(own)]
    return join_parts(parts)


def order_rows(results: Results) -> list[Row]:
    """Give the rows of a set and encoder together, what is changed group by group."""
    made = [row for row in results.rows if not row.left_out]
    place = {name: number for number, name in enumerate(ORDER)}
    return sorted(made, key=lambda row: (row.targets, row.encoder == "cnn", place.get(row.group, len(place))))


def condition_table(rows: Sequence[Row]) -> str:
    """Make the table of one set and encoder: accuracies in per cent, differences in points."""
    header = ["condition", *MEANS.values(), *DIFFERENCES.values(), "tasks that lose", "K", "seeds"]
    body = []
    for row in rows:
        cells = [row.way, *(figure(row, name) for name in MEANS), *(told(row, name) for name in DIFFERENCES)]
        counts = [told(row, name) for name in ("tasks_that_lose", "n_clusters")]
        body.append([*cells, *counts, str(len(row.seeds))])
    return table(header, body)


def draw_why(results: Results, title: str) -> str | None:
    """Draw clusters less the model of all tasks, and less random clusters; a panel a set and encoder.

    A baseline that is not trained to its best is left out: beside it, one could see nothing else.
    """
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    rows = [row for row in order_rows(results) if "with the steps" not in row.way]
    panels = places(rows)
    if not panels:
        return None
    points: list[Point] = []
    with mpl.rc_context(STYLE):
        sizes = [sum((row.targets, row.encoder) == panel for row in rows) for panel in panels]
        figure_, grid = pyplot.subplots(
            len(panels),
            1,
            figsize=(8.5, 1.4 + ROW_HEIGHT * sum(sizes) + 0.5 * len(panels)),
            height_ratios=sizes,
            sharex=True,
            layout="constrained",
            squeeze=False,
            facecolor="white",
        )
        for axes, (name, encoder) in zip(grid.flat, panels, strict=True):
            own = [row for row in rows if (row.targets, row.encoder) == (name, encoder)]
            points += draw_panel(axes, own)
            axes.set(title=f"{name}, {encoder}")
        grid.flat[-1].set_xlabel("difference in points, with its 95 % interval over tasks")
        figure_.suptitle(title)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure_.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return write_svg(figure_, hash_points(points, title))


def draw_panel(axes: Any, rows: Sequence[Row]) -> list[Point]:
    """Draw the conditions of one set and encoder from top to bottom; give what was drawn."""
    points: list[Point] = []
    for name, (marker, face) in DRAWN.items():
        shift = 0.14 if face == "black" else -0.14
        read = [read_difference(row, name) for row in rows]
        heights = [len(rows) - 1 - number + shift for number in range(len(rows))]
        means = [mean for mean, _, _ in read]
        widths = [[mean - low for mean, low, _ in read], [high - mean for mean, _, high in read]]
        axes.errorbar(
            means,
            heights,
            xerr=widths,
            fmt=marker,
            color="black",
            markerfacecolor=face,
            markersize=5,
            elinewidth=1,
            label=DIFFERENCES[name],
        )
        points += [
            (row.way, f"{row.targets} {row.encoder}", name, *one) for row, one in zip(rows, read, strict=True)
        ]
    axes.axvline(0, color="black", linestyle=":", linewidth=1)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_yticks(range(len(rows)), [row.way for row in reversed(rows)])
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    return points

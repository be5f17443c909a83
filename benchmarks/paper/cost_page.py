"""The page of the cost: the whole against the plain way, part by part, and the stages of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.paper.figure_rows import show_number
from benchmarks.paper.figures import STYLE, Point, hash_points, write_svg
from benchmarks.paper.page_parts import differences, join_parts, opening, protocol
from benchmarks.paper.reading import Results, Row
from benchmarks.paper.subjects import Subject
from benchmarks.report import table

# What is compared with what: parts of the plain way by how they begin, and the one of ours.
PARTS = {
    "scores and single-task models": (("single-task models", "all pairs"), "the paper's S"),
    "completion": (("completion, textbook",), "completion"),
    "models of clusters": (("models of clusters",), "models of clusters"),
}
DAY = 86_400.0
PLAIN, OURS, STAGES, WHOLE = "plain", "ours", "stages", "end to end"


def write_cost_page(subject: Subject, results: Results, *, plot: str | None) -> str:
    """Give the page; `plot` is the file of its plot."""
    parts = [opening(subject, results), whole_section(results)]
    if plot:
        parts.append(f"![CPU time of the plain way and of ours, part by part]({plot})")
    parts += [part_section(results), plain_section(results), stage_section(results)]
    parts += [protocol(subject), differences(subject)]
    return join_parts(parts)


def number(row: Row, figure: str) -> float | None:
    """Give a figure, None if there is none."""
    values = row.figures.get(figure) or (None,)
    return None if values[0] is None else float(values[0])


def show_time(seconds: float | None) -> str:
    """Give a time; more than two days in days.

    Examples
    --------
    >>> show_time(90), show_time(3 * DAY), show_time(None)
    ('1:30 min', '3.0 days', '')
    """
    if seconds is None:
        return ""
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:,.1f} days"
    if seconds < 59.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    unit, parts = ("min", round(seconds)) if seconds < 3600 else ("h", round(seconds / 60))
    return f"{parts // 60}:{parts % 60:02} {unit}"


def show_range(row: Row, low: str, high: str) -> str:
    """Give the interval of an estimate, nothing where it is none."""
    ends = number(row, low), number(row, high)
    return "" if None in ends else f" [{show_time(ends[0])}, {show_time(ends[1])}]"


def show_ratio(ratio: float | None) -> str:
    """Give how many times faster, to two digits; slower where it is.

    Examples
    --------
    >>> show_ratio(8.83), show_ratio(1234), show_ratio(0.5)
    ('**8.8 times**', '**1,200 times**', '2 times slower')
    """
    if ratio is None:
        return ""
    if ratio < 1:
        return f"{show_number(float(f'{1 / ratio:.2g}'))} times slower"
    return f"**{show_number(float(f'{ratio:.2g}'))} times**"


def whole_section(results: Results) -> str:
    """Show both sums, set by set."""
    body = []
    for row in results.ran(WHOLE):
        seconds = show_time(number(row, "plain_seconds")) + show_range(row, "plain_low", "plain_high")
        ours = show_time(number(row, "ours_seconds"))
        body.append([row.targets, "all pairs", seconds, ours, show_ratio(number(row, "ratio"))])
        at_entries = number(row, "plain_seconds_at_the_papers_entries")
        if at_entries is not None:
            # Ours measured the paper's entries, which is what the plain way is compared on first.
            body[-1][1] = "plain: all pairs; ours: as many as the paper"
            ratio = show_ratio(number(row, "ratio_at_the_papers_entries"))
            body.insert(-1, [row.targets, "as many pairs as the paper", show_time(at_entries), ours, ratio])
    if not body:
        return ""
    header = ["set", "scores", "plain way, estimated", "ours, measured", "faster"]
    said = (
        "The paper's way from single-task CNNs to models of clusters, CPU time of one thread. The plain way "
        "is extrapolated from what ten minutes of it gave; how, and what is assumed, is said below."
    )
    return f"## From end to end\n\n{said}\n\n{table(header, body)}"


def sums_of_parts(results: Results, name: str) -> dict[str, tuple[float, float]]:
    """Give the seconds of both ways, part by part, where both are there."""
    found = {}
    for part, (begins, own) in PARTS.items():
        plain = [row for row in results.ran(PLAIN, name) if begins_with(row, begins)]
        ours = [row for row in results.ran(OURS, name) if begins_with(row, (own,))]
        if len(plain) == len(begins) and ours:
            sums = [
                sum(number(row, "estimated_seconds") or 0.0 for row in rows) for rows in (plain, ours[:1])
            ]
            found[part] = sums[0], sums[1]
    return found


def begins_with(row: Row, words: Sequence[str]) -> bool:
    """Tell whether a part is one of those, the name of its group aside."""
    return row.way.partition(": ")[2].startswith(tuple(words))


def sets_of(results: Results) -> list[str]:
    """Name the sets that both ways were run on."""
    return list(dict.fromkeys(row.targets for row in results.ran(PLAIN)))


def part_section(results: Results) -> str:
    """Compare both ways part by part."""
    body = []
    for name in sets_of(results):
        for part, (plain, ours) in sums_of_parts(results, name).items():
            body.append([name, part, show_time(plain), show_time(ours), show_ratio(plain / ours)])
    if not body:
        return ""
    header = ["set", "part", "plain way, estimated, all pairs", "ours, measured", "faster"]
    return f"## Part by part\n\n{table(header, body)}"


def plain_section(results: Results) -> str:
    """Say how much of each part of the plain way was run, and what follows from it."""
    body = []
    for row in results.ran(PLAIN):
        measured, steps, whole = (
            number(row, name) for name in ("measured_seconds", "steps_measured", "steps_all")
        )
        if measured is None:  # a row of version 0.1 that was extrapolated from another table
            continue
        share = f"{100 * steps / whole:.2g} % of the steps" if steps and whole else "all of it"
        estimate = show_time(number(row, "estimated_seconds")) + show_range(row, "low", "high")
        body.append([row.targets, row.way.partition(": ")[2], share, show_time(measured), estimate])
    if not body:
        return ""
    header = ["set", "part of the plain way", "run", "CPU time", "estimate of the whole"]
    return f"## What was run of the plain way\n\n{table(header, body)}"


def stage_section(results: Results) -> str:
    """Show the stages of whole runs, with their memory."""
    rows = results.ran(STAGES)
    parts = []
    for name, encoder in dict.fromkeys((row.targets, row.encoder) for row in rows):
        own = [row for row in rows if (row.targets, row.encoder) == (name, encoder)]
        runs = [row for row in own if row.way == "fit"]
        stages = [row for row in own if row.way != "fit"]
        body = []
        for row in sorted(stages, key=lambda row: -(number(row, "wall_seconds") or 0.0)):
            figures = [number(row, "wall_seconds"), number(row, "cpu_seconds_of_units")]
            peak = number(row, "peak_mib_of_a_worker")
            cells = [*map(show_time, figures), f"{number(row, 'units') or 0:,.0f}"]
            body.append([row.way.removeprefix("stage: "), *cells, "" if peak is None else f"{peak:,.0f}"])
        parts.append(f"### {name}, {encoder}")
        parts += [say_run(row) for row in runs]
        header = ["stage", "wall time", "CPU time of its units", "units", "MiB of the largest worker"]
        parts.append(table(header, body))
    return "\n\n".join(["## Stages of a run, `robusttc fit`", *parts]) if parts else ""


def say_run(row: Row) -> str:
    """Say what a run was, and took."""
    n_tasks, n_scores, load = (number(row, name) or 0 for name in ("n_tasks", "n_scores", "load"))
    mib, database = (number(row, name) or 0 for name in ("largest_process_mib", "database_mib"))
    return (
        f"{n_tasks:,.0f} tasks, {n_scores:,.0f} scores: {show_time(number(row, 'wall_seconds'))} of wall "
        f"time with two workers (load of the machine at its end, with these, {load:.1f}); {mib:,.0f} MiB in "
        f"the largest process, {database:,.0f} MiB of database. A stage's units end in workers; its wall "
        "time has the starting of these in it."
    )


def draw_cost(results: Results, title: str) -> str | None:
    """Draw both ways part by part on a logarithmic scale, a panel a set; give the SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    sets = {name: sums_of_parts(results, name) for name in sets_of(results)}
    sets = {name: own for name, own in sets.items() if own}
    if not sets:
        return None
    points: list[Point] = [
        (name, part, way, round(seconds, 3), 0.0, 0.0)
        for name, own in sets.items()
        for part, both in own.items()
        for way, seconds in zip((PLAIN, OURS), both, strict=True)
    ]
    with mpl.rc_context(STYLE):
        figure, grid = pyplot.subplots(
            len(sets),
            1,
            figsize=(8.5, 0.8 + 1.7 * len(sets)),
            sharex=True,
            layout="constrained",
            squeeze=False,
            facecolor="white",
        )
        for axes, (name, own) in zip(grid.flat, sets.items(), strict=True):
            draw_panel(axes, name, own)
        grid.flat[-1].set_xlabel("CPU seconds of one thread, logarithmic")
        figure.suptitle(title)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return write_svg(figure, hash_points(points, title))


def draw_panel(axes: Any, name: str, own: dict[str, tuple[float, float]]) -> None:
    """Draw the parts of one set, the plain way above ours."""
    places = range(len(own))
    looks = ((-0.19, "white", "plain way, estimated"), (0.19, "0.35", "ours, measured"))
    for which, (shift, colour, label) in enumerate(looks):
        bars = axes.barh(
            [place + shift for place in places],
            [both[which] for both in own.values()],
            height=0.36,
            color=colour,
            edgecolor="black",
            label=label,
        )
        axes.bar_label(bars, [show_time(both[which]) for both in own.values()], padding=3, fontsize=7)
    axes.set(title=name, xscale="log")
    axes.margins(x=0.15)
    axes.set_yticks(list(places), list(own))
    axes.invert_yaxis()

"""The first thing that people read: the answer, a few large figures, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robusttc.report.figures import as_count, as_difference, as_percent, as_points, as_range, number_of
from robusttc.report.markup import Markup, element, join
from robusttc.report.sections.frame import copyable, note, section
from robusttc.report.strips import MODELS, draw_strip, find_axis
from robusttc.report.wording import WORTHWHILE

__all__ = ["show_summary"]

Values = Mapping[str, Any]


def show_summary(values: Values) -> Markup:
    """Show the summary of a run."""
    sentences = values["headline"]["sentences"]
    lead = element("p", {"class": "lead"}, sentences[0]) if sentences else None
    findings = element("ul", {"class": "findings"}, *(element("li", None, text) for text in sentences[1:]))
    return section(
        "summary",
        "In short",
        None,
        lead,
        show_tiles(values),
        findings if sentences[1:] else None,
        show_means(values["means"]),
        show_next(values["headline"].get("next") or []),
        show_doubts(values),
    )


def show_tiles(values: Values) -> Markup:
    """Show the figures that people take away."""
    run, means = values["run"], values["means"]
    tiles = [tile("Tasks", as_count(run["n_tasks"]), sizes_of(values))]
    served = means.get("served")
    if served:
        over = means.get("gain_served")
        below = f"{as_difference(over)} points over each task's own model" if over else as_range(served)
        tiles.append(tile("Right on test rows", as_percent(number_of(served, "mean")), below))
    tiles += [verdict_tile(values), harm_tile(values)]
    return element("dl", {"class": "tiles"}, *tiles)


def sizes_of(values: Values) -> str:
    """Say in how many clusters the tasks are, and of how many rows."""
    n = len(values["clusters"])
    clusters = "no clusters" if n == 0 else "1 cluster" if n == 1 else f"{as_count(n)} clusters"
    return f"in {clusters}, {as_count(values['run'].get('n_rows'))} rows"


def tile(title: str, figure: str, below: str) -> Markup:
    """Show one large figure."""
    return element(
        "div",
        {"class": "tile"},
        element("dt", None, title),
        element("dd", None, element("strong", None, figure), " ", element("small", None, below)),
    )


def verdict_tile(values: Values) -> Markup:
    """Say whether clusters pay."""
    verdict = (values.get("verdicts") or {}).get("multitask")
    if not verdict:
        return tile("Do clusters pay?", "Not known", "it was not measured")
    over = verdict.get("over_shared")
    below = "not enough tasks to tell"
    if number_of(over, "mean") is not None and number_of(over, "low") is not None:
        below = f"{as_difference(over)} points over one model of all"
    answer = "No"
    if verdict.get("clusters_help"):
        answer = "Yes" if (number_of(over, "mean") or 0.0) >= WORTHWHILE else "Barely"
    return tile("Do clusters pay?", answer, below)


def harm_tile(values: Values) -> Markup:
    """Say how many tasks lose by sharing."""
    tasks = values["tasks"]
    judged = [task for task in tasks if task.get("gain")]
    harmed = sum(bool(task.get("harmed")) for task in tasks)
    gaining = sum((number_of(task["gain"], "low") or 0.0) > 0 for task in judged)
    if not judged:
        return tile("Harmed by sharing", "Not known", "no test rows")
    below = f"{as_count(gaining)} gain for sure, of {as_count(len(judged))} with test rows"
    return tile("Harmed by sharing", as_count(harmed), below)


def show_means(means: Values) -> Markup | None:
    """Show the mean accuracy of each kind of model beside each other."""
    known = [(kind, means[kind]) for kind in MODELS if means.get(kind)]
    if not known:
        return None
    axis = find_axis([found for _, found in known])
    rows = []
    for kind, found in known:
        text = f"{as_percent(number_of(found, 'mean'))} {as_range(found)}"
        over = means.get(f"gain_{kind}")
        cells = [
            element("th", {"scope": "row"}, MODELS[kind]),
            element("td", {"class": "plot"}, draw_strip([(kind, found)], axis, label=text)),
            element("td", {"class": "figure"}, as_percent(number_of(found, "mean"))),
            element("td", {"class": "figure soft"}, as_points(number_of(over, "mean")) if over else ""),
        ]
        rows.append(element("tr", None, *cells))
    ends = join(element("span", None, as_percent(end, 0)) for end in axis)
    axis_row = element(
        "tr",
        {"class": "axis", "aria-hidden": "true"},
        *(element("td", None), element("td", None, element("div", {"class": "ends"}, ends))),
        *(element("td", None), element("td", None)),
    )
    header = [element("th", {"scope": "col"}, text) for text in ("Model", "", "Right", "Over own")]
    return element(
        "figure",
        {"class": "means"},
        element("figcaption", None, "Mean share of test rows that each kind of model gets right, over tasks"),
        element(
            "table",
            None,
            element("thead", None, element("tr", None, *header)),
            element("tbody", None, *rows, axis_row),
        ),
    )


def show_next(steps: list[Values]) -> Markup | None:
    """Say what to do next, with commands to copy."""
    if not steps:
        return None
    shown = []
    for step in steps:
        command = copyable(step["command"]) if step.get("command") else None
        shown.append(element("li", None, element("p", None, step["text"]), command))
    return element(
        "div", {"class": "next"}, element("h3", None, "What to do next"), element("ol", None, *shown)
    )


def show_doubts(values: Values) -> Markup | None:
    """Say what in this run is doubtful, and what was left out of it."""
    said = [element("li", None, str(doubt)) for doubt in values.get("doubts") or []]
    for left in values.get("quarantined") or []:
        tasks = left.get("tasks") or []
        who = ", ".join(tasks[:5]) + (f" and {len(tasks) - 5:,} more" if len(tasks) > 5 else "")
        said.append(element("li", None, f"Left out in {left.get('stage')}: {who}: {left.get('error')}"))
    if not said:
        return None
    return note("doubt", element("h3", None, "With a grain of salt"), element("ul", None, *said))

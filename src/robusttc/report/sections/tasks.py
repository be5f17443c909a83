"""All tasks as a plain table: what remains of the page's table where no program runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robusttc.report.figures import as_count, as_difference, as_percent, number_of
from robusttc.report.markup import Markup, element
from robusttc.report.sections.frame import name_of, section, table
from robusttc.report.strips import MODELS, draw_legend

__all__ = ["show_tasks"]

Values = Mapping[str, Any]

INTRO = (
    "The share of test rows that each model gets right, with its 95 % interval. Own is a model of the task "
    "alone, shared is one model of all tasks, cluster is that of its cluster, served is what answers."
)
MOST_ROWS = 2_000  # of the table without a program; the other one has all
HEADER = ["Task", "Cluster", "Rows", "Own", "Shared", "Cluster model", "Served", "Gain in points"]


def show_tasks(values: Values) -> Markup:
    """Show the tasks: a place for the page's program, and a table for where none runs."""
    tasks = values["tasks"]
    caption = f"{as_count(len(tasks))} tasks"
    if len(tasks) > MOST_ROWS:
        caption += f", the first {as_count(MOST_ROWS)} of them shown"
    plain = table(caption, HEADER, [row_of(task) for task in tasks[:MOST_ROWS]])
    return section(
        "tasks",
        "Every task",
        INTRO,
        element("div", {"class": "by-program", "id": "task-table"}, draw_legend(MODELS)),
        element("noscript", None, plain),
    )


def row_of(task: Values) -> list[object]:
    """Give the cells of a task."""
    cluster = "private" if task.get("private") else task.get("cluster")
    accuracy = task.get("accuracy") or {}
    rows = sum(task.get(key) or 0 for key in ("n_train", "n_valid", "n_test"))
    return [
        name_of(task["name"]),
        "none" if cluster is None else cluster,
        as_count(rows),
        *(as_percent(number_of(accuracy.get(kind), "mean")) for kind in MODELS),
        as_difference(task.get("gain")),
    ]

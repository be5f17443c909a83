"""Tasks that lose by sharing, and the tasks that they lose by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robusttc.report.figures import as_difference, as_number, number_of
from robusttc.report.markup import Markup, element
from robusttc.report.sections.frame import name_of, note, section, table
from robusttc.report.strips import draw_strip, find_axis

__all__ = ["show_harm"]

Values = Mapping[str, Any]

INTRO = (
    "Tasks that are worse off with others than alone. Beside them stand the tasks that serve them worst, "
    "with how many standard deviations their help is below that of an average task."
)
SHOWN = 12
MOST_CULPRITS = 5


def show_harm(values: Values) -> Markup:
    """Show who is harmed, and by whom."""
    harm = values.get("harm") or {}
    tasks = harm.get("tasks") or []
    sentence = note("good" if not harm.get("n_harmed") else "doubt", element("p", None, harm.get("sentence")))
    if not tasks:
        return section("harm", "Who is harmed", None, sentence if harm.get("sentence") else None)
    axis = find_axis([task.get("change") for task in tasks], around=0.0)
    rows = []
    for task in tasks:
        text = as_difference(task.get("change"))
        evidence = task.get("evidence") or "test rows"
        strip = draw_strip([("gain", task.get("change"))], axis, label=f"change {text} points", zero=True)
        culprits = list_culprits(task.get("culprits") or [])
        rows.append([name_of(task["task"]), text, strip or "", evidence, culprits])
    header = ["Task", "Change in points", "95 % interval", "Seen on", "Served worst by"]
    shown = table("Tasks that lose by sharing", header, rows[:SHOWN], "harm")
    rest = None
    if len(rows) > SHOWN:
        more = table("More tasks that lose by sharing", header, rows[SHOWN:], "harm")
        rest = element("details", None, element("summary", None, f"{len(rows) - SHOWN:,} more"), more)
    return section("harm", "Who is harmed", INTRO, sentence if harm.get("sentence") else None, shown, rest)


def list_culprits(culprits: Sequence[Values]) -> Markup:
    """List the tasks that serve a task worst, each with how far its score is from that of the others."""
    shown = []
    for culprit in culprits[:MOST_CULPRITS]:
        effect = number_of(culprit, "effect")
        said = None if effect is None else element("small", None, f" {as_number(effect, 1)}")
        shown.append(element("li", None, name_of(culprit["task"]), said))
    if len(culprits) > MOST_CULPRITS:
        shown.append(element("li", None, f"and {len(culprits) - MOST_CULPRITS:,} more"))
    return element("ul", {"class": "names"}, *shown) if shown else Markup("no single task stands out")

"""What comes last: what changed, what the run cost, how it was configured."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from robusttc.report.figures import as_bytes, as_count, as_seconds, number_of
from robusttc.report.markup import Markup, element, join
from robusttc.report.sections.frame import list_names, name_of, section, table

__all__ = ["show_configuration", "show_costs", "show_history"]

Values = Mapping[str, Any]

MOST_NAMES = 8
KINDS = {"fit": "First fit", "add": "Tasks added", "remove": "Tasks removed"}


def show_history(values: Values) -> Markup | None:
    """Show the versions of the run, the latest first, and what moved in each."""
    history = values.get("history") or []
    if not history:
        return None
    versions = [show_change(change) for change in reversed(history)]
    intro = "Nothing yet: this is the first version of the run." if len(history) == 1 else None
    adapted = [str(name) for name in values.get("adapted") or []]
    beside = fold(f"Tasks learned from a handful of examples ({len(adapted):,})", list_names(adapted))
    listed = element("ol", {"class": "history"}, *versions)
    return section("history", "What changed", intro, listed, beside if adapted else None)


def show_change(change: Values) -> Markup:
    """Show one version."""
    heading = element(
        "h3",
        None,
        f"Version {change['version']}: {KINDS.get(change['kind'], change['kind'])}",
        element("span", {"class": "size"}, as_time(number_of(change, "when"))),
    )
    tasks = [] if change["kind"] == "fit" else list(change.get("tasks") or [])
    moved = [
        element(
            "li",
            None,
            name_of(move["task"]),
            f": {as_cluster(move.get('from'))} → {as_cluster(move.get('to'))}",
        )
        for move in change.get("moved") or []
    ]
    return element(
        "li",
        None,
        heading,
        element("p", None, change.get("sentence")),
        list_tasks(tasks),
        fold(f"What moved ({len(moved):,})", element("ul", None, *moved), opened=len(moved) <= MOST_NAMES)
        if moved
        else None,
    )


def list_tasks(names: list[str]) -> Markup | None:
    """List the tasks of a change; many of them are folded."""
    if not names:
        return None
    listed = list_names(names)
    return listed if len(names) <= MOST_NAMES else fold(f"The {len(names):,} tasks", listed)


def as_time(when: float | None) -> str:
    """Write a moment in UTC, to the minute."""
    return "" if when is None else datetime.fromtimestamp(when, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def as_cluster(number: int | None) -> str:
    """Name a cluster; a task without one has none, or -1."""
    return "no cluster" if number is None or number < 0 else f"cluster {number}"


def show_costs(values: Values) -> Markup | None:
    """Show what each stage cost."""
    costs = values.get("costs") or []
    if not costs:
        return None
    longest = max((number_of(cost, "wall_seconds") or 0.0 for cost in costs), default=0.0) or 1.0
    rows = []
    for cost in costs:
        wall = number_of(cost, "wall_seconds")
        bar = element("rect", {"width": f"{100 * (wall or 0.0) / longest:.2f}%", "height": 10, "rx": 2})
        rows.append(
            [
                cost["stage"],
                element("svg", {"class": "bar", "width": "100%", "height": 10, "aria-hidden": "true"}, bar),
                as_seconds(wall),
                as_seconds(number_of(cost, "cpu_seconds") or None),
                # A stage without workers has no memory of its own.
                as_bytes(number_of(cost, "peak_bytes") or None),
                as_count(number_of(cost, "units")),
            ]
        )
    walls = [number_of(cost, "wall_seconds") or 0.0 for cost in costs]
    header = ["Stage", "Share", "Time", "Processor time", "Memory at most", "Pieces of work"]
    shown = table(f"{as_seconds(sum(walls))} in all", header, rows, "costs")
    return section("costs", "What it cost", None, shown)


def show_configuration(values: Values) -> Markup:
    """Show the settings and versions, folded."""
    run = values["run"]
    facts = {"name": run["name"], "version": run["version"], "made": values.get("made")}
    return section(
        "configuration",
        "How it was made",
        None,
        fold("This run", list_values(facts)),
        fold("Configuration", list_values(values.get("configuration") or {})),
        fold("Versions", list_values({"robusttc": values.get("robusttc"), **(values.get("versions") or {})})),
    )


def fold(title: str, content: Markup, *, opened: bool = False) -> Markup:
    """Fold something under its title."""
    return element("details", {"open": opened}, element("summary", None, title), content)


def list_values(values: Mapping[str, Any]) -> Markup:
    """List settings and their values."""
    rows = [
        join((element("dt", None, key), element("dd", None, as_setting(value))))
        for key, value in values.items()
    ]
    return element("dl", {"class": "settings"}, *rows)


def as_setting(value: Any) -> str:
    """Write the value of a setting."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(as_setting(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {as_setting(item)}" for key, item in value.items()) or "none"
    return str(value)

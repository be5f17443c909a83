"""What the models of a table say of themselves: clusters found, values chosen, fallbacks, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.paper.page_parts import name_targets
from benchmarks.paper.reading import Record, Results, Row
from benchmarks.report import table


def notes_section(results: Results) -> str:
    """Show it, a row for each way that says something."""
    body = []
    for targets in results.targets():
        for row in results.of(targets):
            said = [note for note in make_notes(row) if note]
            if said:
                body.append([row.title, name_targets(targets), "; ".join(said)])
    if not body:
        return ""
    return f"## What the models say of themselves\n\n{table(['way', 'on', 'seed by seed'], body)}"


def make_notes(row: Row) -> list[str]:
    """Give all that the records of a row say, the same words once."""
    records = [record for record in row.records if record.get("extra")]
    extras = [record["extra"] for record in records]
    return [
        note_clusters(row, extras),
        join("chosen", [show_value(extra["chosen"]) for extra in extras if "chosen" in extra]),
        note_fallback(records),
        "trained in an environment of its own: its cost is not here" if "SetFit" in row.way else "",
        *dict.fromkeys(note_verdict(extra) for extra in extras),
    ]


def note_clusters(row: Row, extras: Sequence[Mapping[str, Any]]) -> str:
    """Tell how many clusters there were, and the size of the largest."""
    if not row.n_clusters and row.group != "ours":
        return ""
    found = []
    for extra in extras:
        sizes = extra.get("sizes") or [0]
        if "n_clusters" in extra:
            alone = f", {extra['n_in_none']} tasks in none" if extra.get("n_in_none") else ""
            found.append(f"{extra['n_clusters']} (largest {max(sizes)}{alone})")
    return join("clusters", found)


def note_fallback(records: Sequence[Record]) -> str:
    """Tell how often the task's own model served, where it may."""
    found = [
        f"{record['extra']['out_of_cluster']} of {record['extra']['n_adapted']}"
        for record in records
        if "n_adapted" in record["extra"] and record.get("settings", {}).get("threshold")
    ]
    return join("fell back", found)


def note_verdict(extra: Mapping[str, Any]) -> str:
    """Give the verdict that a model gave before any test row was looked at."""
    verdict = extra.get("verdict")
    return str(verdict.get("sentence", "")) if isinstance(verdict, dict) else ""


def join(name: str, values: Sequence[str]) -> str:
    """Put the values of all seeds after their name; one of them where all are alike.

    Examples
    --------
    >>> join("chosen", ["10", "10"]), join("chosen", ["10", "30"]), join("chosen", [])
    ('chosen 10', 'chosen 10, 30', '')
    """
    if not values:
        return ""
    return f"{name} {', '.join(values if len(set(values)) > 1 else values[:1])}"


def show_value(value: object) -> str:
    """Give a chosen value in words."""
    return f"{value:g}" if isinstance(value, float) else str(value)

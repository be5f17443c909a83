"""What all pages of tables begin with: what was run on what, how, and what differs from the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.paper.reading import Results
from benchmarks.paper.subjects import Subject, read_protocol

SIZES = {"n_tasks": "tasks", "n_rows": "rows as used"}
QUICK = (
    "**QUICK: these are figures of the quick setting, on a few tasks and with hardly any training. They show "
    "that the command works, and nothing else.**"
)


EARLIER = (
    "**Clusters of version 0.1.** These records were made before the clustering was replaced: Eq. 2 where a "
    "lambda was found, refined spectral clustering elsewhere. The protocol on this page is that of the "
    "present code; what it says about clustering and completion does not hold for these figures."
)


def missing_page(subject: Subject) -> str:
    """Say that a table was not run."""
    return (
        f"# {subject.title}\n\n**Not run yet.** `{subject.command}` makes it; `{subject.quick_command}` "
        "tries it in minutes.\n"
    )


def join_parts(parts: Iterable[str]) -> str:
    """Put the parts of a page together; one that is empty is left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def opening(subject: Subject, results: Results) -> str:
    """Say what was run, on what, with what, and when."""
    facts = [
        *describe_data(results.data),
        "versions: " + ", ".join(f"{name} {version}" for name, version in results.versions.items()),
        f"{results.machine.get('cores')} cores; the last record was made on {results.made}; "
        f"{count_cpu_minutes(results):.0f} CPU minutes in all, shared work counted where it was done",
    ]
    place = f"In the paper: {subject.source}." if subject.source else "The paper has no such table."
    quick = f"{QUICK}\n\n" if results.is_quick else ""
    return (
        f"# {subject.title}\n\n{quick}{place} Written by `python -m "
        f"benchmarks.paper.pages` from [{results.table}.json]({results.table}.json), which "
        f"`{subject.command}` makes; `{subject.quick_command}` tries the same in minutes.\n\n"
        + "\n".join(f"- {fact}" for fact in facts)
        + (f"\n\n{EARLIER}" if is_earlier(results) else "")
        + say_missing(results)
    )


def is_earlier(results: Results) -> bool:
    """Tell whether records have clusters of version 0.1, by what only that version recorded."""
    for record in (record for row in results.rows for record in row.records):
        settings, extra = record.get("settings", {}), record.get("extra", {})
        if "remove_donor_effect" in {**settings, **settings.get("clusters from", {})}:
            return True
        if ("certified" in extra and "supported" not in extra) or "(SCS)" in record["way"]:
            return True
    return False


def say_missing(results: Results) -> str:
    """Say which rows are not there yet, with the seeds that they lack."""
    if not results.missing:
        return ""
    seeds: dict[str, set[str]] = {}
    for key in results.missing:
        way, encoder, seed, _ = key.split(" | ")
        seeds.setdefault(f"{way} ({encoder})", set()).add(seed)
    by_seeds: dict[str, list[str]] = {}
    for way, own in seeds.items():
        by_seeds.setdefault(", ".join(sorted(own)), []).append(way)
    lines = [f"- seeds {own}: {'; '.join(ways)}" for own, ways in sorted(by_seeds.items())]
    n_missing = f"{len(results.missing):,} of {results.n_wanted:,}"
    return f"\n\n**Not finished**: {n_missing} records are still to be made.\n\n" + "\n".join(lines)


def count_cpu_minutes(results: Results) -> float:
    """Add up the processor time; a fit that serves several sets of targets has its cost in all of them."""
    spent = {
        (row.way, row.encoder, record["seed"], record["seconds"], record["cpu_seconds"])
        for row in results.rows
        for record in row.records
    }
    return sum(float(one[-1]) for one in spent) / 60


def describe_data(data: Mapping[str, Any]) -> list[str]:
    """Name the data with their sizes and hashes, set by set where there are several.

    Examples
    --------
    >>> describe_data({"name": "bots175", "sha256": "ab" * 32, "n_tasks": 175, "n_rows": 90880})
    ['data: bots175, 175 tasks, 90,880 rows as used, content hash `abababababababab`']
    """
    sets = data.get("sets") or {data.get("name"): data}
    lines = []
    for name, own in sets.items():
        facts = [f"data: {name}"]
        facts += [f"{own[key]:,} {words}" for key, words in SIZES.items() if own.get(key)]
        if own.get("sha256"):
            facts.append(f"content hash `{own['sha256'][:16]}`")
        lines.append(", ".join(facts))
    return lines


def name_targets(targets: str) -> str:
    """Name a set of targets; a set of tasks has its own name.

    Examples
    --------
    >>> name_targets("10"), name_targets("all"), name_targets("bots175")
    ('10 targets', 'all tasks', 'bots175')
    """
    if targets.isdigit():
        return f"{targets} targets"
    return "all tasks" if targets == "all" else targets


def protocol(subject: Subject) -> str:
    """Say how it was done."""
    said = [one for module in subject.modules for one in read_protocol(module)[0]]
    return "## Protocol\n\n" + "\n\n".join(said) if said else ""


def differences(subject: Subject) -> str:
    """Say what differs from the paper."""
    departs = [one for module in subject.modules for one in read_protocol(module)[1]]
    differs = [*subject.data, *departs]
    return "## What differs from the paper\n\n" + "\n".join(f"- {one}" for one in differs) if differs else ""

"""How much hangs on the seed: intervals are over tasks, and hold little of the noise of training."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.paper.page_parts import name_targets
from benchmarks.paper.reading import Results, Row, mean
from benchmarks.paper.roles import DEFAULT

__all__ = ["seed_section"]


def seed_section(results: Results) -> str:
    """Say for each set of targets how far apart seeds of the same row are; nothing where all have one."""
    lines = [
        f"- {name_targets(targets)}: {said}"
        for targets in results.targets()
        if (said := say_spread(results.of(targets)))
    ]
    if not lines:
        return ""
    opening = (
        "Intervals are over tasks. How far apart the mean accuracies of one row are with other seeds of its "
        "scores, clusters and models, in points, all texts:"
    )
    return "\n\n".join(["## How much hangs on the seed", opening, "\n".join(lines)])


def say_spread(rows: Sequence[Row]) -> str:
    """Give the median and the greatest distance between seeds, and our default seed by seed."""
    by_row = {row.title: seed_means(row) for row in rows}
    spreads = {title: max(own) - min(own) for title, own in by_row.items() if len(own) > 1}
    if not spreads:
        return ""
    largest = max(spreads, key=lambda title: spreads[title])
    many = "row that was" if len(spreads) == 1 else "rows that were"
    said = (
        f"{median(spreads.values()):.1f} in the median of {len(spreads)} {many} run with several seeds, "
        f"{spreads[largest]:.1f} at the most (*{largest}*)"
    )
    ours = next((by_row[row.title] for row in rows if row.role == DEFAULT), [])
    if len(ours) > 1:
        said += f"; our default has {', '.join(f'{one:.1f}' for one in ours)} %"
    return said


def seed_means(row: Row) -> list[float]:
    """Give the mean accuracy over tasks of each seed, in per cent."""
    made = [record for record in row.records if not record.get("extra", {}).get("left_out")]
    return [100 * mean(record["all"].values()) for record in made if record.get("all")]

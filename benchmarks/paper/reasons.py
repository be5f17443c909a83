"""Why clusters do or do not pay, in words: every figure, and every word that hangs on it, is made from JSON.

A sentence that lacks a figure is left out. What a difference says is chosen by its interval, so that words
cannot outlive the figures they were written for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks.paper.claims import PAPER_GROUPS, is_few_shot
from benchmarks.paper.comparing import compare_rows, show_difference
from benchmarks.paper.published import (
    ADAPTIVE,
    CLUSTERS,
    HOLISTIC,
    PUBLISHED_TARGETS,
    SINGLE,
    find_published,
    published_margin,
)
from benchmarks.paper.reading import Results, Row
from benchmarks.paper.roles import RANDOM
from benchmarks.paper.subjects import SUBJECTS

__all__ = ["reason_section"]

ENCODERS = dict(zip(PAPER_GROUPS, ("cnn", "sentence"), strict=True))
BASE = "as in the tables"
NOT_MENDED = "clusters do not come out ahead in any of them"
SHOWN = re.compile(r"(?P<mean>[+-][0-9.]+) \[(?P<low>[+-][0-9.]+), (?P<high>[+-][0-9.]+)\]$")


def reason_section(tables: Mapping[str, Results]) -> str:
    """Give all reasons that there are figures for."""
    found = [say_baseline(tables), say_averaging(tables), say_fallback(tables)]
    if "why" in tables:
        rows = [row for row in tables["why"].rows if not row.left_out]
        found += [say_steps(rows), say_phrases(rows), say_beyond(rows)]
        found += [
            say_changes(rows, "width", "Do tasks fight for room in the shared layer?"),
            say_changes(rows, "rows", "Are there too many rows a task for others to help?"),
            say_changes(rows, "K", "Is it the number of clusters, or the instrument?"),
        ]
    lines = [f"- {text}" for text in found if text]
    if not lines:
        return ""
    opening = (
        "What was asked where a claim does not hold, and what came of it (differences in points with 95 % "
        "intervals over tasks, all texts unless it says otherwise; [all conditions](paper/why.md))."
    )
    return "## Why\n\n" + "\n\n".join([opening, "\n".join(lines)])


def say_baseline(tables: Mapping[str, Results]) -> str:
    """Compare what one model of all tasks gains over single tasks, in the paper and here."""
    parts = []
    for name, targets in PUBLISHED_TARGETS.items():
        results = tables.get(name)
        first, second = (find_published(name, role) for role in (HOLISTIC, SINGLE))
        margin = published_margin(first, second)
        if results is None or margin is None:
            continue
        here = [
            f"{encoder} {shown}"
            for group, encoder in ENCODERS.items()
            if (shown := between(results.of(targets, group), HOLISTIC, SINGLE))
        ]
        if here:
            parts.append(f"{name}, {targets}: {margin:+.1f} in the paper, here {', '.join(here)}")
    if not parts:
        return ""
    return (
        "**Is the baseline stronger than the paper's?** What one model of all tasks gains over a model for "
        f"each task: {'; '.join(parts)}."
    )


def say_steps(rows: Sequence[Row]) -> str:
    """Say what a model of all tasks that is trained too little would have made of the claim."""
    parts = []
    for place, base, short in beside_base(rows, "with the steps"):
        parts.append(
            f"{place}: {figure(short, 'holistic')} % in place of {figure(base, 'holistic')} %, "
            f"and clusters {word(short, 'clusters_less_holistic_all')}"
        )
    if not parts:
        return ""
    return (
        "**Would a baseline that is trained too little explain the paper's margin?** With as many steps as "
        "the model of one cluster has, in place of as many looks at each row, the model of all tasks has: "
        f"{'; '.join(parts)}."
    )


def say_phrases(rows: Sequence[Row]) -> str:
    """Say how much of the gain of sharing is texts that several tasks have."""
    parts = []
    gain = "holistic_less_single"
    for place, base, without in beside_base(rows, "no text of another"):
        parts.append(
            f"{place}: {told(base, f'{gain}_all')} on all, {told(base, f'{gain}_novel')} on novel "
            f"texts; with those texts out of training {told(without, f'{gain}_all')}, and clusters "
            f"{word(without, 'clusters_less_holistic_all')}"
        )
    if not parts:
        return ""
    return (
        "**Is it phrases that many tasks share?** One model of all tasks has them all, that of a cluster "
        f"only some. What the former gains over single tasks: {'; '.join(parts)}."
    )


def beside_base(rows: Sequence[Row], words: str) -> Iterator[tuple[str, Row, Row]]:
    """Give for each set and encoder the row without changes, and the one whose way has these words."""
    for name, encoder in places(rows):
        base = find(rows, BASE, name, encoder)
        changed = next((row for row in own(rows, name, encoder) if words in row.way), None)
        if base is not None and changed is not None:
            yield f"{name}, {encoder}", base, changed


def say_changes(rows: Sequence[Row], group: str, question: str) -> str:
    """List what clusters are over the model of all tasks under a group of conditions."""
    parts, verdicts = [], []
    for name, encoder in places(rows):
        changed = [row for row in own(rows, name, encoder) if row.group == group]
        cells = [f"{row.way} {told(row, 'clusters_less_holistic_all')}" for row in changed]
        if cells:
            parts.append(f"{name}: {', '.join(cells)}")
            verdicts += [read_difference(row, "clusters_less_holistic_all") for row in changed]
    if not parts:
        return ""
    n_above = sum(low > 0 for _, low, _ in verdicts)
    said = NOT_MENDED if not n_above else f"clusters are ahead in {n_above} of {len(verdicts)}"
    return (
        f"**{question}** Clusters less the model of all tasks: {'; '.join(parts)}. By these intervals {said}."
    )


def say_beyond(rows: Sequence[Row]) -> str:
    """Say whether clusters know anything that the model of all tasks does not."""
    parts = []
    for name, encoder in places(rows):
        base = find(rows, BASE, name, encoder)
        if base is not None:
            parts.append(
                f"{name}, {encoder}: {told(base, 'averaged_less_holistic_all')} over the model of all tasks, "
                f"{told(base, 'averaged_less_random_averaged_all')} over the same with random clusters"
            )
    if not parts:
        return ""
    return (
        "**Do clusters know anything beyond it?** The mean of both models' probabilities: "
        f"{'; '.join(parts)}. What follows is our default: it averages, starts cluster models from the one "
        "of all tasks where that is better, and asks out-of-fold rows whether clusters are to serve at all."
    )


def say_averaging(tables: Mapping[str, Results]) -> str:
    """Say whether it is the clusters that gain in few-shot learning, or that there are several models."""
    parts = []
    for name, targets, group, rows in few_shot_rows(tables):
        drawn = {row.n_clusters: row for row in rows if row.role == RANDOM}
        for row in rows:
            if row.role == CLUSTERS and row.n_clusters in drawn:
                shown = compare(row, drawn[row.n_clusters])
                parts.append(f"{name}, {targets}, {ENCODERS[group]}: {shown}")
    if not parts:
        return ""
    return (
        "**Is it kinship, or that there are several models?** In few-shot learning, clusters less random "
        f"clusters of the same sizes: {'; '.join(parts)}."
    )


def say_fallback(tables: Mapping[str, Results]) -> str:
    """Say how often the adaptive rule left the clusters."""
    found: dict[tuple[str, str], str] = {}
    for name, targets, group, rows in few_shot_rows(tables):
        extras = [
            record["extra"]
            for row in rows
            if row.role == ADAPTIVE
            for record in row.records
            if "n_adapted" in record.get("extra", {})
        ]
        adapted = sum(int(extra["n_adapted"]) for extra in extras)
        if adapted:
            fell = sum(int(extra["out_of_cluster"]) for extra in extras)
            # One fit serves all sets of targets of a table: the largest, which comes last, has all of them.
            found[name, group] = f"{name}, {targets}, {ENCODERS[group]}: {fell:,} of {adapted:,}"
    if not found:
        return ""
    listed = "; ".join(found.values())
    return (
        "**What does the adaptive rule do?** It leaves the clusters where none of them reaches 20 % on a "
        f"target's own support set. Of all targets and draws (all K together) that were: {listed}."
    )


def few_shot_rows(tables: Mapping[str, Results]) -> Iterable[tuple[str, str, str, list[Row]]]:
    """Give the paper's rows of every set of few-shot targets."""
    for subject in SUBJECTS:
        results = tables.get(subject.name)
        if results is None or not subject.has_accuracies:
            continue
        for targets in results.targets():
            for group in PAPER_GROUPS:
                rows = [row for row in results.of(targets, group) if not row.left_out]
                if rows and is_few_shot(rows):
                    yield subject.name, targets, group, rows


def between(rows: Sequence[Row], first: str, second: str) -> str:
    """Give the difference of two roles; empty where one is missing."""
    made = [row for row in rows if not row.left_out]
    found = [next((row for row in made if row.role == role), None) for role in (first, second)]
    return "" if found[0] is None or found[1] is None else compare(found[0], found[1])


def compare(first: Row, second: Row) -> str:
    """Give the paired difference of two rows on all texts."""
    return show_difference(compare_rows(first, second, "all"))


def places(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Give the sets and encoders that there are rows of."""
    return sorted({(row.targets, row.encoder) for row in rows}, key=lambda pair: (pair[0], pair[1] == "cnn"))


def own(rows: Sequence[Row], name: str, encoder: str) -> list[Row]:
    """Give the rows of one set and encoder."""
    return [row for row in rows if (row.targets, row.encoder) == (name, encoder)]


def find(rows: Sequence[Row], way: str, name: str, encoder: str) -> Row | None:
    """Give one row."""
    return next((row for row in own(rows, name, encoder) if row.way == way), None)


def figure(row: Row, name: str) -> str:
    """Give the mean of a figure over seeds."""
    values = [float(value) for value in row.figures[name]]
    return f"{sum(values) / len(values):.1f}"


def told(row: Row, name: str) -> str:
    """Give a difference as it was recorded, seed by seed."""
    return ", ".join(dict.fromkeys(str(value) for value in row.figures[name]))


def read_difference(row: Row, name: str) -> tuple[float, float, float]:
    """Give a recorded difference and the ends of its interval, of the first seed.

    Raises
    ------
    ValueError
        If the figure is no difference with its interval.
    """
    found = SHOWN.match(str(row.figures[name][0]))
    if found is None:
        raise ValueError(f"no difference with an interval: {row.figures[name][0]!r}")
    return float(found["mean"]), float(found["low"]), float(found["high"])


def word(row: Row, name: str) -> str:
    """Give a difference with what its interval says.

    A difference whose interval has zero in it is neither.
    """
    _, low, high = read_difference(row, name)
    said = "are ahead" if low > 0 else "are behind" if high < 0 else "are about even"
    return f"{said} ({told(row, name)})"

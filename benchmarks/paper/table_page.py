"""The page of one table of accuracies, written from its JSON: nothing on it is typed by hand."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.paper.claims import find_verdicts, is_few_shot
from benchmarks.paper.comparing import (
    best_baseline,
    compare_rows,
    estimate_row,
    show_difference,
    show_estimate,
)
from benchmarks.paper.figures import order_rows
from benchmarks.paper.notes import notes_section
from benchmarks.paper.page_parts import differences, join_parts, name_targets, opening, protocol
from benchmarks.paper.published import PAPER_BASELINES, PUBLISHED, PUBLISHED_TARGETS, PublishedRow
from benchmarks.paper.reading import GROUPS, SHARED, TEXTS, Results, Row
from benchmarks.paper.roles import BASELINES, DEFAULT
from benchmarks.paper.seed_noise import seed_section
from benchmarks.paper.subjects import Subject
from benchmarks.paper.verdicts import Finding
from benchmarks.report import table

COLUMNS = (
    "way",
    "all texts",
    "novel texts",
    "shared texts",
    "all, to the best",
    "wins / ties / losses",
    "novel, to the best",
)
COST_COLUMNS = ("novel, wins / ties / losses", "tasks", "seeds", "CPU s", "MiB")
GROUP_TITLES = {
    "paper, cnn": "The paper's ways with a convolution (`cnn`)",
    "paper, sentence": "The paper's ways on frozen sentence vectors",
    "ours": "Ours",
    "today": "What a user would pick today",
}


def write_table_page(subject: Subject, results: Results, *, plots: dict[str, str]) -> str:
    """Give the page of a table; `plots` has the file of the plot of each set of targets."""
    parts = [opening(subject, results), differences(subject), beside_paper(subject, results)]
    parts += [targets_section(results, targets, plots.get(targets)) for targets in results.targets()]
    parts.append(seed_section(results))
    parts.append(verdict_section(find_verdicts(results)))
    parts.append(notes_section(results))
    parts.append(protocol(subject))
    parts.append(missing_section(subject, results))
    return join_parts(parts)


def beside_paper(subject: Subject, results: Results) -> str:
    """Put the paper's rows beside ours of the same kind."""
    published = PUBLISHED.get(subject.name)
    targets = PUBLISHED_TARGETS.get(subject.name, "")
    if not published or targets not in results.targets():
        return ""
    body = []
    for row in published:
        own = [find_alike(row, results.of(targets, group)) for group in GROUPS[:2]]
        body.append([row.row, f"{row.accuracy:.2f}", *(one or "not run" for one in own)])
    header = [f"row of {subject.source}", "paper", "here, cnn", "here, sentence vectors"]
    return f"## The paper's rows, and the same here\n\nAll texts, {targets} targets.\n\n{table(header, body)}"


def find_alike(published: PublishedRow, rows: Sequence[Row]) -> str:
    """Give our figure for a row of the paper; nothing where there is none."""
    wanted = "" if published.n_clusters is None else str(published.n_clusters)
    for row in rows:
        if row.role == published.role and row.n_clusters == wanted:
            return row.left_out or show_estimate(estimate_row(row, "all"))
    return ""


def targets_section(results: Results, targets: str, plot: str | None) -> str:
    """Show all ways on one set of targets, group by group."""
    rows = results.of(targets)
    setting = "few-shot" if is_few_shot(rows) else "multi-task"
    n_tasks = max(len(row.accuracies["all"]) for row in rows)
    name = f"All tasks ({n_tasks:,})" if targets == "all" else f"{targets} targets"
    parts = [f"## {name}, {setting}", explain_columns()]
    if plot:
        parts.append(f"![Every way with its interval]({plot})")
    parts += [group_section(group, results.of(targets, group), rows) for group in results.groups(targets)]
    return "\n\n".join(parts)


def explain_columns() -> str:
    """Say what the columns of a table are."""
    return (
        "Accuracy in %, mean over tasks [95 % bootstrap interval over tasks], every task being the mean over "
        "its seeds. Differences in points, paired by task, to the baseline that is strongest on these very "
        "test rows, chosen for all and for novel texts each for itself. *Novel* texts stand in no other "
        "task, *shared* ones in another task too; tasks with hardly any of a kind do not count there. "
        "CPU s has no scores in it, which several rows share; MiB is the peak of the process up to that row."
    )


def group_section(group: str, own: Sequence[Row], rows: Sequence[Row]) -> str:
    """Show the ways of a group; the paper's beside baselines of their own encoder, others beside all."""
    is_paper = group.startswith("paper")
    others, roles = (own, PAPER_BASELINES) if is_paper else (rows, tuple(BASELINES))
    body = [row_cells(row, others, roles) for row in order_rows(own)]
    left_out = [f"{row.way}: left out, {row.left_out}." for row in own if row.left_out]
    against = "of this group" if is_paper else "of all groups"
    whole = max(own, key=lambda row: len(row.accuracies["all"]))
    best = [best_baseline(others, whole, texts, roles=roles) for texts in TEXTS]
    names = ["none" if row is None else row.title for row in best]
    said = f"Best baseline {against}: on all texts {names[0]}, on novel ones {names[1]}."
    parts = [f"### {GROUP_TITLES.get(group, group)}", said, table([*COLUMNS, *COST_COLUMNS], body), *left_out]
    return "\n\n".join(parts)


def row_cells(row: Row, others: Sequence[Row], roles: Sequence[str]) -> list[str]:
    """Give the cells of a row."""
    cells = [f"**{row.way}**" if row.role == DEFAULT else row.way]
    cells += [show_estimate(estimate_row(row, texts)) for texts in (*TEXTS, SHARED)]
    for texts in TEXTS:
        best = best_baseline(others, row, texts, roles=roles)
        if best is row:
            cells += ["the best", ""]
            continue
        comparison = None if best is None else compare_rows(row, best, texts)
        cells += [show_difference(comparison), "" if comparison is None else comparison.counts]
    draws = max((int(record.get("settings", {}).get("draws", 1)) for record in row.records), default=1)
    seeds = ", ".join(str(seed) for seed in row.seeds) + (f" ({draws} draws)" if draws > 1 else "")
    return [*cells, f"{len(row.accuracies['all']):,}", seeds, f"{row.cpu_seconds:.0f}", f"{row.peak_mib:.0f}"]


def verdict_section(findings: Sequence[Finding]) -> str:
    """Show what the figures say to the paper's claims."""
    if not findings:
        return ""
    body = []
    for one in findings:
        second = one.comparisons.get("all")
        margin = "" if one.paper_margin is None else f"{one.paper_margin:+.1f}"
        against = f"not run: {one.missing}" if one.missing else "" if second is None else second.second.way
        novel = one.comparisons.get("novel")
        body.append(
            [
                one.claim,
                name_targets(one.targets),
                one.group,
                one.n_clusters,
                against,
                one.show(),
                margin,
                f"**{one.verdict()}**",
                one.margin_verdict,
                f"{one.show('novel')}, {one.verdict('novel')}" if novel else "",
            ]
        )
    header = ["claim", "on", "encoder", "K", "against", "all texts", "the paper's margin", "verdict"]
    said = (
        "Holds: the 95 % interval of the paired difference is above zero. Does not: the whole interval is "
        "below half a point. Cannot be told: neither. Intervals are over tasks; they do not "
        "hold the noise of training."
    )
    return f"## The paper's claims\n\n{said}\n\n{table([*header, 'beside its margin', 'novel texts'], body)}"


def missing_section(subject: Subject, results: Results) -> str:
    """Say what is not there."""
    missing = []
    for targets in results.targets():
        there = results.groups(targets)
        name = name_targets(targets)
        missing += [f"{name}: no records of the group “{group}”" for group in GROUPS if group not in there]
        missing += [
            f"{name}: {row.title} left out, {row.left_out}" for row in results.of(targets) if row.left_out
        ]
        if not any(row.role == DEFAULT for row in results.of(targets)):
            missing.append(f"{name}: no records of our default")
        if targets == PUBLISHED_TARGETS.get(subject.name):
            missing += missing_rows(subject, results, targets)
    if subject.name in PUBLISHED_TARGETS and PUBLISHED_TARGETS[subject.name] not in results.targets():
        missing.append(f"the paper's own number of targets ({PUBLISHED_TARGETS[subject.name]})")
    if not missing:
        return ""
    return "## What is missing\n\n" + "\n".join(f"- {one}" for one in missing)


def missing_rows(subject: Subject, results: Results, targets: str) -> list[str]:
    """Name the rows of the paper that have no records here."""
    return [
        f"{targets} targets, {group}: the paper's row “{row.row}”"
        for group in GROUPS[:2]
        for row in PUBLISHED[subject.name]
        if results.of(targets, group) and not find_alike(row, results.of(targets, group))
    ]

"""The page of the clustering itself: what is ahead of what, in words that figures make, and the figures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from benchmarks.paper.claims import find_verdicts
from benchmarks.paper.comparing import estimate_row, show_estimate
from benchmarks.paper.figure_rows import show_values
from benchmarks.paper.page_parts import differences, join_parts, opening, protocol
from benchmarks.paper.pairs_plot import MARKS, gather_curves
from benchmarks.paper.reading import Results, Row, mean
from benchmarks.paper.subjects import Subject
from benchmarks.paper.table_page import verdict_section
from benchmarks.report import table

GROUPS = {
    "method": "Ways to cluster",
    "scores": "Kinds of score",
    "filter": "Rules of the filter",
    "pairs": "Shares of the pairs",
}
# What is compared, with the factor that its figures are shown with and their digits.
MEASURES = {
    "contrast": ("contrast, standard deviations", 1.0, 2),
    "accuracy, all texts": ("accuracy, all texts, points", 100.0, 1),
    "accuracy, novel texts": ("accuracy, novel texts, points", 100.0, 1),
}
COLUMNS = {
    "n_clusters": "K",
    "ari": "ARI",
    "nmi": "NMI",
    "ami": "AMI",
    "contrast": "contrast",
    "ari_of_halves": "halves (ARI)",
    "n_without_cluster": "tasks without",
    "share_of_largest": "share of the largest",
}
STABLE, LEARNED = "stability of ", "learned on: "
DIFFERENCE = re.compile(r"(?P<measure>.*): robust less (?P<other>.*)$")
GIVEN = re.compile(r", K = \d+$")
# Of the contrast that all pairs give, what is called nearly as good.
NEARLY = 0.9


def write_clustering_page(subject: Subject, results: Results, *, plot: str | None) -> str:
    """Give the page; `plot` is the file of its plot."""
    parts = [opening(subject, results), short_section(results), difference_section(results)]
    if plot:
        parts.append(f"![{subject.title}]({plot})")
    parts += [protocol(subject), differences(subject)]
    for group, title in GROUPS.items():
        parts.append(group_section(title, results, group))
    parts.append(learned_section(results))
    parts.append(verdict_section(find_verdicts(results)))
    return join_parts(parts)


def short_section(results: Results) -> str:
    """Say what the figures say; a sentence that lacks its figures is left out."""
    methods = [row for row in results.ran("method") if not GIVEN.search(row.way)]
    stable = [row for row in results.ran("stability") if not GIVEN.search(row.way)]
    ways = {row.way for row in methods}
    scores = [row for row in results.ran("scores") if not GIVEN.search(row.way)]
    filters = [row for row in results.ran("filter") if not GIVEN.search(row.way)]
    of_methods = [row for row in stable if row.way.removeprefix(STABLE) in ways]
    found = [
        *(say_ahead(results, measure) for measure in MEASURES),
        say_ranks("Agreement of ways to cluster with what is said of the tasks (ARI)", methods, "ari"),
        say_ranks("Stability of ways to cluster (ARI between seeds)", of_methods, "ari_of_seeds"),
        say_ranks("Agreement by kind of score (ARI)", scores, "ari"),
        say_ranks("Contrast by rule of the filter", filters, "contrast"),
        say_pairs(results),
    ]
    lines = [f"- {text}" for text in found if text]
    return "## In short\n\n" + "\n".join(lines) if lines else ""


def set_of(row: Row) -> str:
    """Name the set of a row; where seeds are compared, their number stands behind it.

    Some records are of all seeds at once: ``diverse, 5 seeds``.
    """
    return row.targets.partition(",")[0]


def find_differences(results: Results) -> dict[str, dict[tuple[str, str], tuple[float, float, float]]]:
    """Give robust less each other way, by what is measured, then by the other way and the set."""
    found: dict[str, dict[tuple[str, str], tuple[float, float, float]]] = {}
    for row in results.ran("differences"):
        match = DIFFERENCE.match(row.way)
        if match is not None:
            middle, low, high = (float(row.figures[name][0]) for name in ("mean", "low", "high"))
            found.setdefault(match["measure"], {})[match["other"], set_of(row)] = middle, low, high
    return found


def say_ahead(results: Results, measure: str) -> str:
    """Say what robust completion is ahead of and behind of, set by set."""
    found = find_differences(results).get(measure, {})
    parts = []
    for name in dict.fromkeys(name for _, name in found):
        own = {other: one for (other, of), one in found.items() if of == name}
        words = {
            "ahead of": [other for other, (_, low, _) in own.items() if low > 0],
            "behind": [other for other, (_, _, high) in own.items() if high < 0],
            "about even with": [other for other, (_, low, high) in own.items() if low <= 0 <= high],
        }
        said = [f"{word} {join(others)}" for word, others in words.items() if others]
        parts.append(f"on {name} {', '.join(said)}")
    title = MEASURES[measure][0].rpartition(",")[0]
    return f"**Robust completion, {title}**: {'; '.join(parts)}." if parts else ""


def join(names: Sequence[str]) -> str:
    """Give names in a row of words.

    Examples
    --------
    >>> join(["a"]), join(["a", "b", "c"])
    ('*a*', '*a*, *b* and *c*')
    """
    shown = [f"*{name}*" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def say_ranks(title: str, rows: Iterable[Row], figure: str) -> str:
    """Give the means over seeds of a figure, the highest first, set by set."""
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.figures.get(figure):
            way = row.way.removeprefix(STABLE).removeprefix("scores: ")
            values.setdefault(set_of(row), {})[way] = mean(row.figures[figure])
    parts = []
    for name, own in values.items():
        ranked = sorted(own.items(), key=lambda item: -item[1])
        parts.append(f"{name}: " + ", ".join(f"*{way}* {value:.2f}" for way, value in ranked))
    return f"**{title}**: {'; '.join(parts)}." if parts else ""


def say_pairs(results: Results) -> str:
    """Say how many pairs are enough for clusters nearly as good as of the most that were measured."""
    parts = []
    for (figure, name), lines in gather_curves(results).items():
        if figure != "contrast" or set(lines) != set(MARKS):
            continue
        robust, raw = (dict(lines[method]) for method in MARKS)
        most = max(robust)
        enough = least(robust, {percent for percent in robust if robust[percent] >= NEARLY * robust[most]})
        ahead = [f"{percent:g}" for percent in sorted(robust) if robust[percent] > raw[percent]]
        above = f"the mean of robust is above that of raw S at {', '.join(ahead) or 'no'} %"
        share = f"{100 * NEARLY:.0f} % of the contrast"
        parts.append(f"{name}: {enough:g} % of the pairs give {share} of {most:g} %, {above}")
    return f"**Shares of the pairs**: {'; '.join(parts)}." if parts else ""


def least(measured: Iterable[float], good: Collection[float]) -> float:
    """Give the least share from which on all are good; 0 if not even the largest is.

    Examples
    --------
    >>> least([1.0, 2.0, 5.0, 10.0], {1.0, 5.0, 10.0}), least([1.0, 2.0], {1.0})
    (5.0, 0.0)
    """
    return min(takewhile(good.__contains__, sorted(measured, reverse=True)), default=0.0)


def difference_section(results: Results) -> str:
    """Show robust completion less each other way, a column for each set and measure."""
    found = find_differences(results)
    columns = [
        (measure, name)
        for measure in MEASURES
        for name in dict.fromkeys(name for _, name in found.get(measure, {}))
    ]
    if not columns:
        return ""
    others = list(dict.fromkeys(other for own in found.values() for other, _ in own))
    body = []
    for other in others:
        cells = [show_one(found[measure].get((other, name)), measure) for measure, name in columns]
        body.append([other, *cells])
    header = ["robust completion less", *(f"{name}: {MEASURES[measure][0]}" for measure, name in columns)]
    said = (
        "Paired over tasks, the mean over seeds, with 95 % bootstrap intervals; bold where zero is outside. "
        "All ways have as many clusters as the robust one found."
    )
    return f"## What completion adds\n\n{said}\n\n{table(header, body)}"


def show_one(difference: tuple[float, float, float] | None, measure: str) -> str:
    """Give a difference with its interval, bold where that has no zero in it."""
    if difference is None:
        return ""
    _, factor, digits = MEASURES[measure]
    middle, low, high = (f"{factor * value:+.{digits}f}" for value in difference)
    shown = f"{middle} [{low}, {high}]"
    return f"**{shown}**" if difference[1] > 0 or difference[2] < 0 else shown


def group_section(title: str, results: Results, group: str) -> str:
    """Show the ways of a group, a table a set: found and given numbers of clusters, stability beside."""
    rows = results.ran(group)
    stability = {
        (row.way.removeprefix(STABLE), set_of(row)): row.figures["ari_of_seeds"]
        for row in results.ran("stability")
    }
    parts = []
    for name in dict.fromkeys(row.targets for row in rows):
        own = [row for row in rows if row.targets == name]
        names = [figure for figure in COLUMNS if any(row.figures.get(figure) for row in own)]
        header = ["way", *(COLUMNS[figure] for figure in names), "seeds (ARI)", "seeds"]
        body = []
        for row in own:
            cells = [show_values(row.figures.get(figure, ())) for figure in names]
            seeds = show_values(stability.get((row.way, name), ()))
            body.append([row.way, *cells, seeds, str(len(row.seeds))])
        parts += [f"### {name}", table(header, body)]
    return "\n\n".join([f"## {title}", *parts]) if parts else ""


def learned_section(results: Results) -> str:
    """Show the accuracy of the paper's models on the clusters of each way."""
    rows = results.ran("learned")
    body = [
        [
            row.targets,
            row.way.removeprefix(LEARNED),
            *(show_estimate(estimate_row(row, texts)) for texts in ("all", "novel")),
            show_values(row.figures.get("n_clusters", ())),
            str(len(row.seeds)),
        ]
        for row in sorted(rows, key=lambda row: row.targets)
    ]
    if not body:
        return ""
    header = ["set", "clusters of", "accuracy, all texts", "accuracy, novel texts", "K", "seeds"]
    said = "The paper's multi-task models on these clusters: accuracy in % on test rows, mean over tasks."
    return f"## What is learned on them\n\n{said}\n\n{table(header, body)}"

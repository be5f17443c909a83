"""The first page of the results: the paper's figures, ours, and what the paper's claims came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.paper.claims import CLAIM_NAMES, find_verdicts
from benchmarks.paper.comparing import (
    Comparison,
    best_baseline,
    compare_rows,
    estimate_row,
    show_difference,
    show_estimate,
)
from benchmarks.paper.goals import goal_section
from benchmarks.paper.headlines import Headline, find_headlines, find_usual
from benchmarks.paper.page_parts import is_earlier, join_parts, name_targets
from benchmarks.paper.reading import GROUPS, TEXTS, Results
from benchmarks.paper.reasons import reason_section
from benchmarks.paper.subjects import SUBJECTS
from benchmarks.paper.verdicts import FAILS, HOLDS, NOT_RUN, UNKNOWN, Finding
from benchmarks.report import table


def write_overview(tables: Mapping[str, Results], *, others: Mapping[str, str]) -> str:
    """Give the first page; `others` are the titles of other pages of results, by file."""
    headlines = find_headlines(tables)
    findings = [one for results in tables.values() for one in find_verdicts(results)]
    parts = ["# Results", opening_table(headlines), explain_table()]
    if any(is_earlier(results) for results in tables.values()):
        parts.append("Tables whose page says so were made with the clusters of version 0.1.")
    parts += [
        goal_section(headlines, tables),
        encoder_section(tables),
        claim_section(findings),
        reason_section(tables),
    ]
    parts.append(beyond_section(tables))
    parts.append("## Pages\n\n" + "\n".join(page_lines(tables, others)))
    return join_parts(parts)


def opening_table(headlines: Sequence[Headline]) -> str:
    """Make the one table that says it all."""
    if not headlines:
        return "No table was run in full yet."
    body = []
    for one in headlines:
        published = one.published()
        paper = "" if published is None else f"{published['accuracy']:.1f} ({published['margin']:+.1f})"
        body.append(
            [
                f"[{one.title}](paper/{one.subject.name}.md)",
                f"{one.name}, {one.setting}",
                paper,
                *(show_paper_way(one.paper_ways[group]) for group in GROUPS[:2]),
                *(show_ours(one, texts) for texts in TEXTS),
                f"`{one.subject.command}`",
            ]
        )
    header = ["table", "on", "paper: its best (over its best baseline)", "the paper's way here, cnn"]
    header += ["the same, sentence vectors", "our default, all texts", "our default, novel texts", "command"]
    return table(header, body)


def show_paper_way(comparison: Comparison | None) -> str:
    """Give the paper's way here, and its difference to the best baseline of its group."""
    if comparison is None:
        return NOT_RUN
    figure = estimate_row(comparison.first, "all")
    mean = "" if figure is None else f"{100 * figure.mean:.1f}"
    return f"{mean} ({show_difference(comparison)})"


def show_ours(headline: Headline, texts: str) -> str:
    """Give our default, the best baseline and the difference."""
    comparison = headline.differences[texts]
    if headline.ours is None or comparison is None:
        return NOT_RUN
    own, other = (estimate_row(row, texts) for row in (comparison.first, comparison.second))
    if own is None or other is None:
        return NOT_RUN
    shown = show_bold(comparison)
    return f"{100 * own.mean:.1f}, {shown} over {comparison.second.title} ({100 * other.mean:.1f})"


def explain_table() -> str:
    """Say how the first table is to be read."""
    return (
        "Accuracy in %, mean over tasks; differences in points, paired by task, with 95 % bootstrap "
        "intervals over tasks; every task is the mean over its seeds. The paper's figures are of its own "
        "data, most of which are private: only the shape can be compared. *The paper's way here* has the "
        "paper's best number of clusters, and is compared with the best baseline of the same encoder; *our "
        "default* with the best of all baselines, tuned regression on sentence vectors among them. Best is "
        "what is best on these test rows, the hardest choice for us. *Novel* texts occur in no other "
        "task. Bold: the interval is above zero.\n\n"
        "All pages are written by `python -m benchmarks.paper.pages` from the JSON beside them, which names "
        "data hash, seeds, settings, versions and times; `python -m benchmarks.paper.pages --check` tells "
        "whether they still are what it gives. Whoever distrusts a figure can try its command with `--quick`."
    )


def encoder_section(tables: Mapping[str, Results]) -> str:
    """Show what fine-tuning the encoder adds to our default, where it was run."""
    body = []
    for subject in SUBJECTS:
        if not subject.has_accuracies or subject.name not in tables:
            continue
        results = tables[subject.name]
        for targets in results.targets():
            rows = [row for row in results.of(targets) if not row.left_out]
            by_way = {row.way: row for row in rows}
            tuned, default = by_way.get("ours: blend, tuned encoder"), by_way.get("ours: blend")
            if tuned is None or default is None:
                continue
            best, usual = best_baseline(rows, tuned, "all"), find_usual(rows)
            body.append(
                [
                    f"[{subject.title}](paper/{subject.name}.md), {name_targets(targets)}",
                    show_estimate(estimate_row(tuned, "all")),
                    *(show_bold(compare_rows(tuned, default, texts)) for texts in TEXTS),
                    "" if best is None else show_bold(compare_rows(tuned, best, "all")),
                    *(
                        "" if usual is None else show_bold(compare_rows(tuned, usual, texts))
                        for texts in TEXTS
                    ),
                    f"{tuned.cpu_seconds / 60:.0f}",
                ]
            )
    if not body:
        return ""
    header = ["table", "accuracy, all texts", "over our default, all texts", "novel texts"]
    header += ["over the best baseline, all texts", "over tuned regression, all texts", "novel texts"]
    header += ["CPU minutes"]
    said = (
        'Our default leaves the sentence model as it is. With `tune="encoder"` a copy of it is trained on '
        "the source tasks first, and what is learned sees the vectors of both:"
    )
    return f"## With a fine-tuned encoder\n\n{said}\n\n{table(header, body)}"


def show_bold(comparison: Comparison | None) -> str:
    """Give a difference, bold where its interval is above zero."""
    shown = show_difference(comparison)
    return f"**{shown}**" if comparison is not None and comparison.difference.above_zero else shown


def claim_section(findings: Sequence[Finding]) -> str:
    """Count up what the figures say to each claim, a row a claim and a column a table."""
    if not findings:
        return ""
    body = []
    for claim in CLAIM_NAMES:
        own = [one for one in findings if one.claim == claim]
        for place, (name, targets) in enumerate(dict.fromkeys((one.table, one.targets) for one in own)):
            here = [one for one in own if (one.table, one.targets) == (name, targets)]
            margins = dict.fromkeys(
                f"{one.paper_margin:+.1f}" for one in here if one.paper_margin is not None
            )
            cells = [
                "<br>".join(show_finding(one) for one in here if (one.group == "paper, cnn") == is_cnn)
                for is_cnn in (True, False)
            ]
            body.append(
                [f"**{claim}**" if place == 0 else "", f"{name}, {targets}", *cells, ", ".join(margins)]
            )
    verdicts = [one.verdict() for one in findings if one.verdict() != NOT_RUN]
    counts = (verdicts.count(name) for name in (HOLDS, FAILS, UNKNOWN))
    said = (
        "{} comparisons: {} hold, {} do not, {} cannot be told. ".format(len(verdicts), *counts)
        + "Each is the paired difference on all texts with its 95 % interval, for one encoder and number of "
        "clusters K (the paper's best, and the one that is found; for controls, theirs). Holds: the interval "
        "is above zero. Does not: it is below half a point. With so many comparisons, one in forty of those "
        "without any truth in them would hold by chance. The page of a table has novel texts too."
    )
    header = ["claim", "table, targets", "cnn", "sentence vectors", "the paper's margin"]
    parts = ["## The paper's claims", said, count_claims(findings), table(header, body)]
    return "\n\n".join(parts)


def count_claims(findings: Sequence[Finding]) -> str:
    """Count for each claim how often it holds, does not, and cannot be told."""
    body = []
    for claim in CLAIM_NAMES:
        cells = []
        for is_cnn in (True, False):
            own = [
                one.verdict()
                for one in findings
                if one.claim == claim and (one.group == "paper, cnn") == is_cnn and one.verdict() != NOT_RUN
            ]
            cells.append(" / ".join(str(own.count(name)) for name in (HOLDS, FAILS, UNKNOWN)) if own else "")
        if any(cells):
            body.append([claim, *cells])
    return table(["claim: holds / does not / cannot be told", "cnn", "sentence vectors"], body)


def show_finding(finding: Finding) -> str:
    """Give a verdict in one cell."""
    clusters = f"K={finding.n_clusters}: " if finding.n_clusters else ""
    if finding.verdict() == NOT_RUN:
        return NOT_RUN
    return f"{clusters}**{finding.verdict()}** {finding.show()}"


def beyond_section(tables: Mapping[str, Results]) -> str:
    """Say in a line each what the cost came to."""
    lines = []
    for row in tables["cost"].rows if "cost" in tables else ():
        if row.way == "end to end" and row.figures.get("ratio"):
            # Where ours measures a part of the pairs, the plain way is held against with as many.
            same = "_at_the_papers_entries" if row.figures.get("ratio_at_the_papers_entries") else ""
            plain, ours, ratio = (
                row.figures[name][0] for name in (f"plain_seconds{same}", "ours_seconds", f"ratio{same}")
            )
            lines.append(
                f"- Scores, completion and cluster models of {row.targets}: {show_time(ours)} of one core, "
                f"against {show_time(plain)} written plainly, extrapolated from a part "
                f"({ratio:,.0f} times; [how](paper/cost.md))"
            )
    return "## The cost\n\n" + "\n".join(lines) if lines else ""


def show_time(seconds: float) -> str:
    """Give a time in the unit that suits it.

    Examples
    --------
    >>> show_time(55.2), show_time(600), show_time(90000)
    ('55 seconds', '10 minutes', '25 hours')
    """
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


def page_lines(tables: Mapping[str, Results], others: Mapping[str, str]) -> list[str]:
    """List all pages of results."""
    lines = []
    for subject in SUBJECTS:
        results = tables.get(subject.name)
        note = ": **not run in full**" if results is None else ""
        if results is not None and results.missing:
            note = f": **not finished**, {len(results.missing):,} of {results.n_wanted:,} records missing"
        lines.append(f"- [{subject.title}](paper/{subject.name}.md), `{subject.command}`{note}")
    return lines + [f"- [{title}]({name})" for name, title in others.items()]

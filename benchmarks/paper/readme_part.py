"""The headline figures in the project's README, between two marks: what holds and what does not."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.paper.comparing import Comparison, estimate_row, show_difference
from benchmarks.paper.headlines import Headline
from benchmarks.paper.verdicts import NOT_RUN
from benchmarks.report import table
from robusttc.errors import StoreError

__all__ = ["put_readme_part", "write_readme_part"]

BEGIN, END = "<!-- figures: made by make table-pages -->", "<!-- end of figures -->"


def put_readme_part(readme: str, headlines: Sequence[Headline]) -> str:
    """Put the figures between the marks of a README.

    Raises
    ------
    StoreError
        If a mark is missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise StoreError(f"README.md has no place for the figures: it needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{write_readme_part(headlines)}\n{END}{after}"


def write_readme_part(headlines: Sequence[Headline]) -> str:
    """Give a table of differences in points, and a sentence on what was missed."""
    if not headlines:
        return "No table was run in full yet."
    body = []
    for one in headlines:
        published = one.published()
        own = None if one.ours is None else estimate_row(one.ours, "all")
        body.append(
            [
                f"[{one.title}](docs/results/paper/{one.subject.name}.md): {one.name}",
                "" if own is None else f"{100 * own.mean:.1f} %",
                show(one.alone["all"]),
                show(one.differences["all"]),
                show(one.differences["novel"]),
                "" if published is None else f"{published['margin']:+.1f}",
                show(one.paper_ways["paper, cnn"]),
                show(one.paper_ways["paper, sentence"]),
            ]
        )
    header = ["", "our default", "over each task alone", "over the best baseline", "on novel texts"]
    header += ["paper's way over its best baseline, in the paper", "here, cnn", "here, sentence vectors"]
    return f"{table(header, body)}\n\n{say_missed(headlines)}"


def show(comparison: Comparison | None) -> str:
    """Give a difference with its interval; bold where it is above zero."""
    if comparison is None:
        return NOT_RUN
    shown = show_difference(comparison)
    return f"**{shown}**" if comparison.difference.above_zero else shown


def say_missed(headlines: Sequence[Headline]) -> str:
    """Count where the paper's way and our default are above the best baseline, and where below."""
    paper = [way for one in headlines for way in one.paper_ways.values() if way is not None]
    ours = [one.differences["all"] for one in headlines if one.differences["all"] is not None]
    novel = [one.differences["novel"] for one in headlines if one.differences["novel"] is not None]

    def count(comparisons: Sequence[Comparison]) -> str:
        above = sum(one.difference.above_zero for one in comparisons)
        below = sum(one.difference.below_zero for one in comparisons)
        return f"above the best baseline {above} of {len(comparisons)} times, below it {below} times"

    return (
        "Accuracy on test rows, and differences in points [95 % interval over tasks], bold where it "
        f"is above zero. Our default is {count(ours)} (on novel texts, which no other task has: "
        f"{count(novel)}); the paper's way as it stands is {count(paper)}. Each task alone has regression on "
        "sentence vectors, tuned. The best baseline is the one that is best on these very test rows: of all "
        "for our default, of those with the same encoder for the paper's way."
    )

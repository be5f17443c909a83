"""What our default was to reach, whether it did, and how far away the few-shot goal is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.paper.comparing import show_difference
from benchmarks.paper.headlines import Headline
from benchmarks.paper.reading import SHARED, Results, Row, mean
from benchmarks.paper.roles import DEFAULT
from benchmarks.report import table

__all__ = ["goal_section"]

# What our default is to reach in few-shot learning on bots175 over tuned logistic regression, in points.
FEW_SHOT_GOAL = {"all": 16.0, "novel": 8.0}
FEW_SHOT, WITH_ALL_ROWS = "intents-fsl", "intents-mtl"
REACHED, MISSED = "reached", "**missed**"


def goal_section(headlines: Sequence[Headline], tables: Mapping[str, Results]) -> str:
    """Say what our default was to reach, and whether it did."""
    body, distances = [], []
    for one in headlines:
        every, novel = one.differences["all"], one.differences["novel"]
        name = f"{one.subject.title}, {one.name}"
        if every is None:
            continue
        above = REACHED if every.difference.above_zero else MISSED
        body.append([name, "above the best baseline, all texts", show_difference(every), above])
        if novel is not None:
            kept = MISSED if novel.difference.below_zero else REACHED
            body.append([name, "not below the best baseline, novel texts", show_difference(novel), kept])
        if one.subject.name == FEW_SHOT:
            body += few_shot_goals(one, name)
            distances.append(say_distance(one, tables))
    if not body:
        return ""
    header = ["table", "our default was to be", "difference", ""]
    parts = [f"## What our default was to reach\n\n{table(header, body)}", *filter(None, distances)]
    return "\n\n".join(parts)


def few_shot_goals(headline: Headline, name: str) -> list[list[str]]:
    """Compare with tuned regression, which the goals of few-shot learning were set by."""
    found = []
    for texts, goal in FEW_SHOT_GOAL.items():
        comparison = headline.alone[texts]
        if comparison is not None:
            reached = REACHED if 100 * comparison.difference.mean >= goal else MISSED
            wanted = f"{goal:.0f} points over tuned logistic regression, {texts} texts"
            found.append([name, wanted, show_difference(comparison), reached])
    return found


def say_distance(headline: Headline, tables: Mapping[str, Results]) -> str:
    """Say what both few-shot goals would take on texts that other tasks have too; nothing if not missed."""
    every, novel = headline.alone["all"], headline.alone["novel"]
    ours = headline.ours
    shares = tables[headline.subject.name].novel_shares
    if every is None or novel is None or ours is None or not shares or not ours.accuracies[SHARED]:
        return ""
    share = mean(shares[task] for task in ours.accuracies["all"])
    short, short_novel = (
        FEW_SHOT_GOAL[texts] - 100 * comparison.difference.mean
        for texts, comparison in (("all", every), ("novel", novel))
    )
    if short <= 0 or share >= 1:
        return ""
    more = (short - share * max(short_novel, 0.0)) / (1 - share)
    there, usual = (shared_accuracy(row) for row in (ours, every.second))
    needed = f"{there + more:.1f} %" if there + more <= 100 else "more than 100 %"
    text = (
        f"{headline.name}: on texts that other tasks have too, our default has {there:.1f} %, regression "
        f"{usual:.1f} %. With {FEW_SHOT_GOAL['novel']:.0f} points over it on novel texts, "
        f"{FEW_SHOT_GOAL['all']:.0f} on all would take {needed} there."
    )
    full = find_default(tables.get(WITH_ALL_ROWS), headline.targets)
    if full is not None:
        text += (
            f" With all training rows, in multi-task learning, our default has {shared_accuracy(full):.1f} %."
        )
    return text


def shared_accuracy(row: Row) -> float:
    """Give the mean accuracy on texts that other tasks have too, in per cent."""
    return 100 * mean(row.accuracies[SHARED].values())


def find_default(results: Results | None, targets: str) -> Row | None:
    """Give our default on some targets of a table, if it was run."""
    rows = [] if results is None else results.of(targets)
    return next((row for row in rows if row.role == DEFAULT and not row.left_out), None)

"""The headline figures of a table: the paper's way and our default, each beside the best baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.paper.claims import is_few_shot
from benchmarks.paper.comparing import Comparison, best_baseline, compare_rows, estimate_row
from benchmarks.paper.published import (
    ADAPTIVE,
    CLUSTERS,
    PAPER_BASELINES,
    PUBLISHED_TARGETS,
    PublishedRow,
    best_published,
    paper_clusters,
    published_margin,
)
from benchmarks.paper.reading import GROUPS, TEXTS, Results, Row, mean
from benchmarks.paper.roles import BASELINES, DEFAULT, TODAY
from benchmarks.paper.subjects import SUBJECTS, Subject


@dataclass(frozen=True, slots=True)
class Headline:
    """What one set of targets of one table came to."""

    subject: Subject
    targets: str
    n_tasks: int
    setting: str
    ours: Row | None
    paper_ways: Mapping[str, Comparison | None]
    differences: Mapping[str, Comparison | None]
    alone: Mapping[str, Comparison | None] = field(default_factory=dict)
    is_finished: bool = True

    @property
    def title(self) -> str:
        """Name the table, and say so where records of it are still to be made."""
        return self.subject.title if self.is_finished else f"{self.subject.title} (not finished)"

    @property
    def name(self) -> str:
        """Name the set of targets."""
        return f"all {self.n_tasks:,} tasks" if self.targets == "all" else f"{self.targets} targets"

    def to_dict(self) -> dict[str, Any]:
        """Give all of it for JSON: accuracies in per cent, differences in points."""
        return {
            "table": self.subject.name,
            "title": self.subject.title,
            "targets": self.targets,
            "n_tasks": self.n_tasks,
            "setting": self.setting,
            "finished": self.is_finished,
            "command": self.subject.command,
            "paper": self.published(),
            "paper_way_here": {group: to_json(one) for group, one in self.paper_ways.items()},
            "ours": {texts: to_json(one) for texts, one in self.differences.items()},
            "ours_over_each_alone": {texts: to_json(one) for texts, one in self.alone.items()},
        }

    def published(self) -> dict[str, Any] | None:
        """Give the paper's best figure and its margin; None where it has none for as many targets."""
        best, base = published_best(self.subject.name), best_published(self.subject.name, PAPER_BASELINES)
        margin = published_margin(best, base)
        if best is None or base is None or margin is None:
            return None
        if PUBLISHED_TARGETS.get(self.subject.name) != self.targets:
            return None
        return {
            "source": best.source,
            "row": best.row,
            "accuracy": best.accuracy,
            "baseline": base.row,
            "baseline_accuracy": base.accuracy,
            "margin": round(margin, 2),
        }


def to_json(comparison: Comparison | None) -> dict[str, Any] | None:
    """Give a comparison with its figures, in per cent."""
    if comparison is None:
        return None
    found: dict[str, Any] = {
        "way": comparison.first.way,
        "baseline": comparison.second.title,
        "wins": comparison.wins,
        "ties": comparison.ties,
        "losses": comparison.losses,
    }
    for name, row in (("accuracy", comparison.first), ("baseline_accuracy", comparison.second)):
        figure = estimate_row(row, comparison.texts)
        found[name] = None if figure is None else round(100 * figure.mean, 2)
    difference = comparison.difference.to_dict()
    ends = {key: difference[key] for key in ("mean", "low", "high")}
    found["difference"] = {key: None if end is None else round(100 * end, 2) for key, end in ends.items()}
    return found


def published_best(name: str) -> PublishedRow | None:
    """Give the paper's best row of its own method, the adaptive one where there is one."""
    return best_published(name, (CLUSTERS, ADAPTIVE))


def find_headlines(tables: Mapping[str, Results]) -> list[Headline]:
    """Give the headline figures of all tables of accuracies that were run in full."""
    found = []
    for subject in SUBJECTS:
        results = tables.get(subject.name)
        if results is None or not subject.has_accuracies:
            continue
        for targets in results.targets():
            rows = [row for row in results.of(targets) if not row.left_out]
            if rows:
                headline = make_headline(subject, targets, rows)
                found.append(replace(headline, is_finished=not results.missing))
    return found


def make_headline(subject: Subject, targets: str, rows: Sequence[Row]) -> Headline:
    """Compare our default, and the paper's own way, with the strongest baseline."""
    ours = next((row for row in rows if row.role == DEFAULT), None)
    paper_ways = {}
    for group in GROUPS[:2]:
        own = [row for row in rows if row.group == group]
        way = find_paper_way(subject.name, own)
        paper_ways[group] = None if way is None else compare_best(way, own, "all", PAPER_BASELINES)
    usual = find_usual(rows)
    alone = {
        texts: compare_rows(ours, usual, texts) if ours is not None and usual is not None else None
        for texts in TEXTS
    }
    return Headline(
        subject=subject,
        targets=targets,
        n_tasks=max(len(row.accuracies["all"]) for row in rows),
        setting="few-shot" if is_few_shot(rows) else "multi-task",
        ours=ours,
        paper_ways=paper_ways,
        differences={texts: None if ours is None else compare_best(ours, rows, texts) for texts in TEXTS},
        alone=alone,
    )


def find_usual(rows: Sequence[Row]) -> Row | None:
    """Give what a user would pick today for each task alone: tuned regression, balanced or not.

    Of the two the one that is better on these test rows.
    """
    usual = [row for row in rows if row.role == TODAY and "logistic" in row.way]
    return max(usual, key=lambda row: mean(row.accuracies["all"].values()), default=None)


def compare_best(
    row: Row, rows: Sequence[Row], texts: str, roles: Collection[str] = BASELINES
) -> Comparison | None:
    """Compare a row with the strongest baseline among others."""
    best = best_baseline(rows, row, texts, roles=roles)
    return None if best is None else compare_rows(row, best, texts)


def find_paper_way(name: str, rows: Sequence[Row]) -> Row | None:
    """Give the row of the paper's best way: its number of clusters, adaptive if its best row is."""
    published = published_best(name)
    role = CLUSTERS if published is None else published.role
    wanted = str(paper_clusters(name)) if published is not None else "auto"
    own = [row for row in rows if row.role == role]
    return next((row for row in own if row.n_clusters == wanted), next(iter(own), None))

"""What to measure next, so that clusters are surer: how many pairs, and of which tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robusttc.clustering import MIN_PAIRS
from robusttc.formatting import count
from robusttc.report.facts import RunFacts
from robusttc.report.task_space import TaskSpace
from robusttc.report.wording import list_names

__all__ = ["MeasureNext", "advise_measuring"]

MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class MeasureNext:
    """What to measure next.

    Attributes
    ----------
    sentence
        In plain words.
    n_more
        How many more pairs; None where none are needed, or no number would do.
    n_scores
        How many scores that makes altogether, for the option ``--pairs``: two a pair.
    tasks
        The tasks without a clear place, and those with too few observed partners.
    """

    sentence: str
    n_more: int | None = None
    n_scores: int | None = None
    tasks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            "sentence": self.sentence,
            "n_more": self.n_more,
            "n_scores": self.n_scores,
            "tasks": list(self.tasks),
        }


def advise_measuring(facts: RunFacts, space: TaskSpace | None) -> MeasureNext:
    """Say what to measure next."""
    scores, verdict = facts.scores, facts.verdict
    if scores is None or verdict is None or space is None:
        return MeasureNext("Nothing was measured between tasks: it takes two that may share.")
    tasks = tuple(name for name in find_poor(space) if name not in facts.added)
    poor = ""
    if tasks:
        poor = (
            f" {count(len(tasks), 'task')} can be compared with fewer than {MIN_PAIRS} others: "
            f"{list_names(tasks)}."
        )
    unclear = find_unclear(facts)
    if unclear:
        poor += f" {list_names(unclear)} {'has' if len(unclear) == 1 else 'have'} no clear place."
    listed = tuple(dict.fromkeys([*unclear, *tasks]))[:MAX_LISTED]
    if verdict["supported"]:
        sentence = f"Nothing more needs to be measured: held-out pairs confirm the clusters.{poor}"
        return MeasureNext(sentence, tasks=listed)
    n_measured, n_pairs = count_pairs(facts)
    if n_measured >= n_pairs:
        return MeasureNext(
            f"All {n_pairs:,} pairs are measured already. Scores with less chance in them would help: more "
            f"validation and training rows a task, or another kind of score.{poor}",
            tasks=listed,
        )
    stopped = (facts.summary.get("transfer") or {}).get("stopped_early")
    if stopped is not None:
        return MeasureNext(
            f"{stopped['sentence']} Scores with less chance in them would help: more validation and training "
            f"rows a task, or another kind of score.{poor}",
            tasks=listed,
        )
    n_more = min(n_measured, n_pairs - n_measured)
    return MeasureNext(
        f"Measure about {n_more:,} more pairs: {n_measured:,} of {n_pairs:,} are measured, and groups that "
        f"are weak show only with more of them.{poor}",
        n_more,
        2 * (n_measured + n_more),
        listed,
    )


def count_pairs(facts: RunFacts) -> tuple[int, int]:
    """Count the measured pairs of the tasks that were clustered, and all of their pairs."""
    if facts.scores is None:
        return 0, 0
    # Of tasks that came later only a few pairs are measured, and that is meant so.
    at_fit = [name for name in facts.scores.task_names if name in facts.tasks and name not in facts.added]
    n = len(at_fit)
    return (len(facts.scores.subset(at_fit).pairs().first) if n else 0), n * (n - 1) // 2


def find_unclear(facts: RunFacts) -> tuple[str, ...]:
    """Give the tasks of which another cluster is as probable as their own, the least sure first."""
    unclear = [
        name
        for name, confidence in facts.confidence.items()
        if confidence < 0.5 and facts.partition.get(name, -1) >= 0
    ]
    return tuple(sorted(unclear, key=lambda name: (facts.confidence[name], name)))


def find_poor(space: TaskSpace) -> tuple[str, ...]:
    """Give the tasks with too few measured partners for a cluster, the poorest first."""
    partners = np.diff(space.verdicts.indptr)
    poor = np.flatnonzero(partners < MIN_PAIRS)
    return tuple(space.names[task] for task in poor[np.argsort(partners[poor], kind="stable")])

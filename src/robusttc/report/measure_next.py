"""What to measure next, so that clusters are surer: how many pairs, of which tasks, and whether it would do.

The diagnosis says how many observed partners a task needs. A measured pair becomes an observed one only if
its two scores are clear (Eq. 1), so more pairs must be measured than are missing; and there may be no more to
measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from robusttc.report.facts import RunFacts
from robusttc.report.task_space import TaskSpace
from robusttc.report.wording import list_names
from robusttc.wording import count

__all__ = ["MeasureNext", "advise_measuring", "find_useful_advice"]

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
    scores, diagnosis = facts.scores, facts.diagnosis
    if scores is None or diagnosis is None or space is None:
        return MeasureNext("Nothing was measured between tasks: it takes two that may share.")
    tasks = tuple(
        name for name in find_poor(space, int(diagnosis["min_partners"])) if name not in facts.added
    )
    poor = ""
    if tasks:
        poor = (
            f" {count(len(tasks), 'task')} can be compared with fewer than {diagnosis['min_partners']:,} "
            f"others: {list_names(tasks)}."
        )
    unclear = find_unclear(facts)
    if unclear:
        poor += f" {list_names(unclear)} {'has' if len(unclear) == 1 else 'have'} no clear place."
    listed = tuple(dict.fromkeys([*unclear, *tasks]))[:MAX_LISTED]
    if diagnosis["verdict"] == "certified":
        return MeasureNext(f"Nothing more needs to be measured: the clusters are proven.{poor}", tasks=listed)
    n, n_measured, n_pairs = count_pairs(facts)
    n_observed = int(diagnosis["n_observed_pairs"])
    have = (
        f"a task has {diagnosis['mean_partners']:.0f} others that it can be compared with, after unclear "
        "scores are left out"
    )
    more, needed = diagnosis["more_partners_per_task"], diagnosis["partners_needed"]
    wanted = "" if needed is None else f", where a proof would need about {needed:,.0f}"
    if n_measured >= n_pairs:
        return MeasureNext(
            f"All {n_pairs:,} pairs are measured already, and {have}{wanted}. Scores with less "
            f"chance in them would help: more validation and training rows a task, or another kind of "
            f"score.{poor}",
            tasks=listed,
        )
    if more is None:
        reason = (
            "within clusters too many pairs are not alike"
            if needed is None
            else f"{needed:,.0f} would be needed, of {n - 1:,} others"
        )
        return MeasureNext(
            f"More pairs alone would not prove these clusters ({have}; {reason}). Scores with less chance in "
            f"them would help, or fewer clusters.{poor}",
            tasks=listed,
        )
    clear_share = n_observed / n_measured if n_measured and n_observed else 1.0
    n_more = math.ceil(more * n / 2 / clear_share)
    n_possible = n_pairs - n_measured
    if n_more > n_possible:
        return MeasureNext(
            f"Measure all pairs: {n_possible:,} are left, and about {n_more:,} more would be wanted ({have}, "
            f"and needs about {needed:,.0f}). That may not prove the clusters, but will make them surer."
            f"{poor}",
            n_possible,
            2 * n_pairs,
            listed,
        )
    order = n * math.log(max(n, 1)) ** 2 / 2
    return MeasureNext(
        f"Measure about {n_more:,} more pairs: {have}, and needs about {needed:,.0f}. {n_measured:,} of "
        f"{n_pairs:,} pairs are measured; the theory asks for the order of n log² n, here {order:,.0f}, and "
        f"leaves the factor open.{poor}",
        n_more,
        2 * (n_measured + n_more),
        listed,
    )


def count_pairs(facts: RunFacts) -> tuple[int, int, int]:
    """Count the tasks that were clustered, the pairs of them that are measured, and all of their pairs."""
    if facts.scores is None:
        return 0, 0, 0
    # Of tasks that came later only a few pairs are measured, and that is meant so.
    at_fit = [name for name in facts.scores.task_names if name in facts.tasks and name not in facts.added]
    n = len(at_fit)
    n_measured = len(facts.scores.subset(at_fit).pairs().first) if n else 0
    return n, n_measured, n * (n - 1) // 2


def find_useful_advice(facts: RunFacts) -> list[str]:
    """Give what the diagnosis advises and a reader of the report can follow.

    The diagnosis knows neither that there may be no more pairs to measure, nor that the run has removed the
    donor effect.
    """
    if facts.diagnosis is None:
        return []
    is_removed = bool(facts.summary["configuration"]["remove_donor_effect"])
    _, n_measured, n_pairs = count_pairs(facts)
    useful = []
    for advice in facts.diagnosis["advice"]:
        is_idle = n_measured >= n_pairs and "measure" in advice.lower() and "fewer clusters" not in advice
        if not is_idle and not (is_removed and "remove_donor_effect" in advice):
            useful.append(advice)
    return useful


def find_unclear(facts: RunFacts) -> tuple[str, ...]:
    """Give the tasks that the completed matrix puts nowhere clearly, the worst first."""
    # The diagnosis numbers tasks as they were at the fit.
    if facts.diagnosis is None or facts.scores is None or len(facts.history) > 1:
        return ()
    return tuple(facts.scores.task_names[task] for task in facts.diagnosis["not_separated"])


def find_poor(space: TaskSpace, least: int) -> tuple[str, ...]:
    """Give the tasks with fewer observed partners than this, the poorest first."""
    partners = np.diff(space.verdicts.indptr)
    poor = np.flatnonzero(partners < least)
    return tuple(space.names[task] for task in poor[np.argsort(partners[poor], kind="stable")])

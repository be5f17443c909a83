"""Which tasks are worse off with others than alone, and who is to blame.

Test rows decide; of a task without any, its held-out training rows. Culprits are not found by training again:
they are the tasks in the same model whose encoders were measured to serve the task clearly worse than others
do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robusttc.formatting import count
from robusttc.report.facts import RunFacts
from robusttc.report.plain_values import as_estimate
from robusttc.report.task_space import TaskSpace
from robusttc.report.wording import list_names
from robusttc.stats import Estimate

__all__ = ["Harm", "TaskHarm", "find_harm"]

MAX_CULPRITS = 5
# Standard deviations below the mean of all sources from which on a source counts as bad: that of Eq. 1.
BAD = -0.5
# One end of a 95 % interval: of so many tasks that nothing harms, one looks harmed.
ONE_IN = 40


@dataclass(frozen=True, slots=True)
class TaskHarm:
    """A task that loses.

    Attributes
    ----------
    task
        The task.
    change
        What serves less its own model.
    evidence
        ``test rows`` or ``held-out training rows``.
    culprits
        Tasks of the same model that serve it worst, each with how far its transfer score is from the mean of
        all sources, in standard deviations.
    """

    task: str
    change: Estimate
    evidence: str
    culprits: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Harm:
    """What sharing does to tasks.

    Attributes
    ----------
    tasks
        The harmed ones, the worst first.
    n_judged, n_gaining
        How many could be judged, and how many gain for sure.
    is_shared
        Whether there are two tasks that may share.
    """

    tasks: tuple[TaskHarm, ...]
    n_judged: int
    n_gaining: int
    is_shared: bool = True

    @property
    def n_by_chance(self) -> float:
        """How many would look harmed if nothing harmed them."""
        return self.n_judged / ONE_IN

    @property
    def sentence(self) -> str:
        """All this in plain words."""
        if not self.is_shared:
            return "Nothing is shared between tasks, so sharing harms nobody."
        if not self.n_judged:
            return "Nobody can tell whether sharing harms a task: no task has test rows, or held-out rows."
        if not self.tasks:
            return f"Sharing harms none of {count(self.n_judged, 'task')} for sure (95 % intervals)."
        names = list_names([task.task for task in self.tasks])
        verb = "is" if len(self.tasks) == 1 else "are"
        chance = (
            f"; about {max(1, round(self.n_by_chance)):,} would look so by chance alone"
            if self.n_by_chance >= 0.5
            else ""
        )
        return (
            f"{len(self.tasks):,} of {count(self.n_judged, 'task')} {verb} worse off with sharing than alone "
            f"(95 % intervals): {names}{chance}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            "sentence": self.sentence,
            "method": "scores",
            "n_harmed": len(self.tasks),
            "n_gaining": self.n_gaining,
            "n_judged": self.n_judged,
            "n_by_chance": self.n_by_chance,
            "tasks": [
                {
                    "task": task.task,
                    "change": as_estimate(task.change),
                    "evidence": task.evidence,
                    "culprits": [{"task": name, "effect": effect} for name, effect in task.culprits],
                }
                for task in self.tasks
            ],
        }


def find_harm(facts: RunFacts, space: TaskSpace | None) -> Harm:
    """Find the tasks that lose, and those that serve them worst."""
    harmed: list[TaskHarm] = []
    n_judged = n_gaining = 0
    all_figures = facts.figures
    for name, figures in all_figures.items():
        change, evidence = figures.gain, "test rows"
        if change is None:
            change, evidence = facts.held_out.gain(name), "held-out training rows"
        if change is None or not is_sharing(facts, name):
            continue
        n_judged += 1
        n_gaining += change.above_zero
        if change.below_zero:
            harmed.append(TaskHarm(name, change, evidence, find_culprits(facts, space, name)))
    harmed.sort(key=lambda task: (task.change.mean, task.task))
    is_shared = len([name for name in all_figures if is_sharing(facts, name)]) > 1
    return Harm(tuple(harmed), n_judged, n_gaining, is_shared)


def is_sharing(facts: RunFacts, name: str) -> bool:
    """Tell whether a task may share; one that may not has its own model, so there is nothing to lose."""
    return name in facts.tasks and facts.tasks[name].may_share


def find_culprits(facts: RunFacts, space: TaskSpace | None, name: str) -> tuple[tuple[str, float], ...]:
    """Give the tasks of the same model that were measured to serve a task worst, the worst first."""
    if space is None or name not in space.names:
        return ()
    place = space.names.index(name)
    column = space.measured[:, [place]].tocoo()
    is_mate = np.ones(len(space.names), dtype=np.bool_)
    if facts.clusters_serve:
        is_mate = space.labels == space.labels[place]
    # Tasks that came later taught the models nothing.
    taught = {other: other not in facts.added for other in space.names}
    found = [
        (space.names[source], float(effect))
        for source, effect in zip(column.row, column.data, strict=True)
        if is_mate[source] and effect < BAD and taught[space.names[source]]
    ]
    return tuple(sorted(found, key=lambda entry: (entry[1], entry[0]))[:MAX_CULPRITS])

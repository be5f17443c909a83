"""The tasks of a run, an entry each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robusttc.report.facts import RunFacts
from robusttc.report.harm_entries import Harm
from robusttc.report.plain_values import as_estimate
from robusttc.run.evaluation import KINDS

__all__ = ["describe_tasks", "find_last_moves", "find_moves"]


def describe_tasks(
    facts: RunFacts,
    names: Sequence[str],
    harm: Harm,
    nearest: Mapping[str, Sequence[tuple[str, float]]],
) -> list[dict[str, Any]]:
    """Give what is known of every task.

    Parameters
    ----------
    facts
        The run.
    names
        The tasks, in the order of the report.
    harm
        Who is worse off.
    nearest
        The nearest tasks of each.
    """
    culprits = {task.task: [name for name, _ in task.culprits] for task in harm.tasks}
    moves = find_last_moves(facts)
    figures, set_aside = facts.figures, facts.set_aside
    entries = []
    for name in names:
        task, added = facts.tasks[name], facts.added.get(name)
        own, cluster = figures.get(name), facts.partition.get(name, -1)
        entries.append(
            {
                "name": name,
                "cluster": cluster if cluster >= 0 else None,
                "confidence": facts.confidence.get(name) if cluster >= 0 else None,
                "private": not task.may_share,
                "learned": own is not None,
                "added": None if added is None else added.version,
                "out_of_cluster": added is not None and added.out_of_cluster,
                "why_not": say_why_not(facts, name, set_aside),
                "n_train": len(task.rows("train")),
                "n_valid": len(task.rows("valid")),
                "n_test": len(task.rows("test")),
                "n_labels": len(task.label_names),
                "accuracy": {
                    kind: None if own is None else as_estimate(getattr(own, kind)) for kind in KINDS
                },
                "gain": None if own is None else as_estimate(own.gain),
                "harmed": name in culprits,
                "culprits": culprits.get(name, []),
                "nearest": [[other, similarity] for other, similarity in nearest.get(name, ())],
                "moved": moves.get(name),
                "expected_gain": None if added is None else as_estimate(added.expected_gain),
            }
        )
    return entries


def say_why_not(facts: RunFacts, name: str, set_aside: Mapping[str, str]) -> str | None:
    """Say why a task was not learned, or is in no cluster."""
    if name in set_aside:
        return set_aside[name]
    if facts.partition.get(name, -1) >= 0:
        return None
    if not facts.tasks[name].may_share:
        return "It is private: it learns alone, and nobody learns from it."
    if name in facts.added and facts.added[name].out_of_cluster:
        return "It was compared with every cluster, and none fits."
    if facts.summary["clusters"] is None:
        return "There are no clusters: it takes two tasks that may share and can be compared."
    return "What was measured of it does not say where it belongs."


def find_moves(before: Mapping[str, int], after: Mapping[str, int]) -> list[dict[str, Any]]:
    """Give the tasks of both partitions whose cluster is another; None is no cluster.

    >>> find_moves({"a": 0, "b": 1, "gone": 0}, {"a": 0, "b": -1, "new": 0})
    [{'task': 'b', 'from': 1, 'to': None}]
    """
    moved = sorted(name for name in before if name in after and before[name] != after[name])
    return [{"task": name, "from": number(before[name]), "to": number(after[name])} for name in moved]


def number(label: int) -> int | None:
    """Give the number of a cluster; None for none."""
    return label if label >= 0 else None


def find_last_moves(facts: RunFacts) -> dict[str, dict[str, Any]]:
    """Give the last move of every task that ever moved."""
    found: dict[str, dict[str, Any]] = {}
    for change in facts.history[1:]:
        before, after = (facts.partitions.get(change.version + step, {}) for step in (-1, 0))
        for move in find_moves(before, after):
            found[move["task"]] = {"from": move["from"], "to": move["to"], "version": change.version}
    return found

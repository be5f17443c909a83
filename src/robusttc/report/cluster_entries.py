"""The clusters of a run, an entry each, and what lies between them as a small square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from robusttc.report.cluster_words import find_labels, find_words
from robusttc.report.facts import RunFacts
from robusttc.report.neighbours import find_representatives, measured_both_ways
from robusttc.report.plain_values import as_estimate
from robusttc.report.task_space import TaskSpace
from robusttc.run.evaluation import KINDS, Evaluation

__all__ = ["Blocks", "describe_clusters", "measure_blocks"]


class Blocks:
    """What lies between clusters: means over blocks of the matrices.

    Parameters
    ----------
    space
        The tasks.

    Attributes
    ----------
    numbers
        The clusters.
    completed
        The mean of the completed similarity of the tasks of two clusters; a task is not counted with itself,
        unless it is alone in its cluster.
    measured
        The mean of the measured scores from the tasks of one cluster (row) to those of another (column), in
        standard deviations; NaN where there are none.
    observed
        How many scores that is the mean of.
    similar, different
        How many of the measured pairs are more likely of one group, and of two, by their own scores.
    """

    def __init__(self, space: TaskSpace) -> None:
        self.numbers = space.numbers
        members = (space.labels == np.array(self.numbers, dtype=np.int64)[:, None]).astype(np.float64)
        self.sizes = members.sum(axis=1)
        sums = members @ space.points  # cluster x rank
        itself = np.einsum("ir,ir->i", space.points, space.points)
        total, pairs = sums @ sums.T, np.outer(self.sizes, self.sizes)
        several = self.sizes > 1
        total[several, several] -= (members @ itself)[several]
        pairs[several, several] -= self.sizes[several]
        self.completed = total / pairs
        self.observed = self._sum(members, np.ones(space.measured.nnz), space.measured)
        with np.errstate(invalid="ignore"):
            self.measured = self._sum(members, space.measured.data, space.measured) / self.observed
        self.similar, self.different = (
            self._sum(members, sign * space.verdicts.data > 0, space.verdicts) for sign in (1, -1)
        )
        for counted in (self.similar, self.different):
            # Both directions of a pair within a cluster are there.
            counted[np.diag_indices(len(counted))] /= 2

    def _sum(self, members: Any, values: Any, pattern: sparse.csr_array) -> Any:
        matrix = sparse.csr_array(
            (np.asarray(values, dtype=np.float64), pattern.indices, pattern.indptr), shape=pattern.shape
        )
        return members @ (matrix @ members.T)

    def between(self, place: int) -> float | None:
        """Give the mean similarity of the tasks of a cluster to those of all others."""
        others = np.arange(len(self.numbers)) != place
        weight = self.sizes[others]
        return float(self.completed[place, others] @ weight / weight.sum()) if others.any() else None

    def within(self, place: int) -> float | None:
        """Give the mean similarity of the tasks of a cluster; None for one task."""
        return float(self.completed[place, place]) if self.sizes[place] > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            "n": len(self.numbers),
            "clusters": list(self.numbers),
            "completed": self.completed,
            "measured": self.measured,
            "observed": self.observed.astype(np.int64),
            "similar": self.similar.astype(np.int64),
            "different": self.different.astype(np.int64),
        }


def measure_blocks(space: TaskSpace | None) -> dict[str, Any]:
    """Give the blocks of a run; without clusters, none."""
    if space is None:
        empty: list[Any] = []
        parts = ("clusters", "completed", "measured", "observed", "similar", "different")
        return {"n": 0, **dict.fromkeys(parts, empty)}
    return Blocks(space).to_dict()


def describe_clusters(facts: RunFacts, names: Sequence[str], space: TaskSpace | None) -> list[dict[str, Any]]:
    """Give what is known of every cluster.

    Parameters
    ----------
    facts
        The run.
    names
        All tasks, in the order of the report.
    space
        What lies between them.
    """
    numbers = sorted({number for number in facts.partition.values() if number >= 0})
    place_of = {name: place for place, name in enumerate(names)}
    members = {
        number: [name for name in names if facts.partition.get(name, -1) == number] for number in numbers
    }
    words = find_words(facts.tasks, members)
    blocks = None if space is None else Blocks(space)
    both = None if space is None else measured_both_ways(space)
    entries = []
    for number in numbers:
        own = members[number]
        found = judge_cluster(facts, own)
        entry: dict[str, Any] = {
            "number": number,
            "size": len(own),
            "tasks": [place_of[name] for name in own],
            "words": [list(word) for word in words[number]],
            "labels": [list(label) for label in find_labels(facts.tasks, own)],
            "accuracy": {kind: found.get(kind) for kind in KINDS},
            "gain": found.get("gain"),
            "within": None,
            "between": None,
            "confidence": mean_of([facts.confidence[name] for name in own if name in facts.confidence]),
            "representatives": own[:3],
        }
        if space is not None and blocks is not None and both is not None and number in blocks.numbers:
            place = blocks.numbers.index(number)
            entry["within"], entry["between"] = blocks.within(place), blocks.between(place)
            places = np.flatnonzero(space.labels == number)
            entry["representatives"] = find_representatives(space, places, both)
        entries.append(entry)
    return entries


def judge_cluster(facts: RunFacts, names: Sequence[str]) -> Mapping[str, Any]:
    """Give the mean accuracies of a cluster's tasks, and their mean gain."""
    figures = facts.figures
    evaluation = Evaluation.of([figures[name] for name in names if name in figures])
    means = {kind: as_estimate(mean) for kind, mean in evaluation.means.items()}
    return {**means, "gain": as_estimate(evaluation.gains.get("served"))}


def mean_of(values: Sequence[float]) -> float | None:
    """Give the mean; None for no values."""
    return float(np.mean(values)) if values else None

"""The sets that clusterings are compared on: tasks, what is known of their clusters, and their scores.

Deviation: bots175 has no true clusters to agree with; `FAMILIES.tsv` of clients1491 names the source that a
client was cut out of (two sources can be alike), `KINDS.tsv` of diverse the kind of task. Both are sanity
checks.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning_data import load_set
from benchmarks.reliability import read_kinds
from benchmarks.report import find_data
from robusttc import Task, TaskSet, TransferScores, measure_transfer
from robusttc.encoders import DenseInputs, Encoder, FeatureEncoder, SentenceEncoder
from robusttc.random import numpy_generator
from robusttc.transfer import choose_pairs, count_entries

__all__ = ["SETS", "ClusteringSet", "load_clustering_set", "restrict"]

SETS = ("planted", "bots175", "diverse", "clients1491")
QUICK_TASKS = {"planted": 24, "bots175": 40, "diverse": 40, "clients1491": 60}
# Of clients1491 as many entries as the paper measured of its 1,491 tasks: 4.5 % of them.
BASE_PERCENT = {"clients1491": 4.5}
# The numbers of clusters that are given beside the one that is found.
GIVEN = {"planted": (3,), "bots175": (10, 20), "diverse": (6,), "clients1491": (40,)}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClusteringSet:
    """A set of tasks, and all that clusterings of it need.

    Attributes
    ----------
    name
        The name of the set.
    tasks
        The tasks; only rows of train and valid are looked at by any clustering.
    truth
        A name for each task of what it is said to belong to; None where nothing is.
    encoder
        The encoder that scores are measured with, and whose vectors text centroids are the means of.
    base_percent
        The share of all pairs that is measured unless it says otherwise.
    given
        Numbers of clusters that are tried beside the one that is found.
    n_workers
        How many processes measure.
    """

    name: str
    tasks: TaskSet
    truth: tuple[str, ...] | None
    encoder: Encoder
    base_percent: float
    given: tuple[int, ...]
    n_workers: int

    @cached_property
    def centroids(self) -> Floats:
        """The mean vector of the texts of each task, over train and valid."""
        prepared = self.encoder.prepare(self.tasks, splits=("train", "valid"))
        assert isinstance(prepared.inputs, DenseInputs)
        means = []
        for task in self.tasks:
            items = prepared.items_of(task.name, task.rows("train", "valid"))
            means.append(prepared.inputs.matrix[items].mean(axis=0))
        return np.array(means, dtype=np.float64)

    @cached_property
    def _measured(self) -> dict[tuple[str, float, int], TransferScores]:
        return {}

    def has_all(self, kind: str) -> bool:
        """Tell whether all pairs were measured already."""
        return (kind, 100.0, 0) in self._measured

    def can_measure(self, percent: float) -> bool:
        """Tell whether so few pairs give each task a partner."""
        return self.count(percent) >= len(self.tasks) + len(self.tasks) % 2

    def count(self, percent: float) -> int:
        """Give the number of entries that are a share of all."""
        everything = count_entries(len(self.tasks), "all")
        return everything if percent >= 100 else 2 * round(everything * percent / 200)

    def scores(self, kind: str, percent: float, seed: int) -> TransferScores:
        """Measure a share of all pairs, or give what was measured.

        The seed draws the pairs. A score of any kind but ``accuracy``, for which a layer is trained, does not
        depend on it, so what was measured of all pairs is not measured again.
        """
        own_seed = seed if kind == "accuracy" else 0
        if (kind, 100.0, own_seed) in self._measured and percent < 100:
            pairs = choose_pairs(self.tasks.names, self.count(percent), random_state=seed)
            return restrict(self._measured[kind, 100.0, own_seed], *pairs.entries())
        key = (kind, float(percent), own_seed if percent >= 100 else seed)
        if key not in self._measured:
            self._measured[key] = measure_transfer(
                self.tasks,
                encoder=self.encoder,
                pairs="all" if percent >= 100 else self.count(percent),
                kind=kind,
                n_workers=self.n_workers,
                random_state=key[2],
            )
        return self._measured[key]


def restrict(scores: TransferScores, source: NDArray[np.int64], target: NDArray[np.int64]) -> TransferScores:
    """Keep the scores of these entries.

    Examples
    --------
    >>> scores = TransferScores(["a", "b"], source=[0, 1], target=[1, 0], score=[0.5, 0.75])
    >>> restrict(scores, np.array([1]), np.array([0])).score.tolist()
    [0.75]
    """
    kept = np.isin(scores.source * scores.n_tasks + scores.target, source * scores.n_tasks + target)
    columns: dict[str, Any] = {name: column[kept] for name, column in scores.columns.items()}
    return TransferScores(scores.task_names, **columns, kind=scores.kind)


def load_clustering_set(name: str, *, quick: bool, n_workers: int = 2) -> ClusteringSet:
    """Read a set; in the quick setting a seeded choice of its tasks."""
    truth_of: Mapping[str, str] | None = None
    encoder: Encoder
    if name == "planted":
        tasks, families, vectors = plant_set(QUICK_TASKS[name])
        truth_of = dict(zip(tasks.names, families, strict=True))
        encoder = FeatureEncoder(vectors)
    else:
        tasks = load_set(name)
        if name == "diverse":
            truth_of = dict(zip(tasks.names, read_kinds(tasks), strict=True))
        if name == "clients1491":
            truth_of = read_families()
        if quick:
            drawn = numpy_generator(0, "tasks of a quick table").permutation(len(tasks))[: QUICK_TASKS[name]]
            tasks = tasks.subset(tasks.names[place] for place in sorted(drawn))
        encoder = SentenceEncoder(device="cpu")
    return ClusteringSet(
        name=name,
        tasks=tasks,
        truth=None if truth_of is None else tuple(truth_of[task] for task in tasks.names),
        encoder=encoder,
        base_percent=100.0 if quick else BASE_PERCENT.get(name, 100.0),
        given=GIVEN[name],
        n_workers=1 if quick else n_workers,
    )


def read_families() -> dict[str, str]:
    """Give the source of each client of clients1491."""
    path = find_data("clients1491").parent / "FAMILIES.tsv"
    with path.open(encoding="utf-8") as file:
        return {row["client"]: row["source"] for row in csv.DictReader(file, delimiter="\t")}


def plant_set(
    n_tasks: int, *, n_families: int = 3, n_rows: int = 60, n_labels: int = 4
) -> tuple[TaskSet, tuple[str, ...], dict[str, Floats]]:
    """Make tasks whose vectors tell labels apart in directions that only their family shares.

    No model is needed for them. All families have the same mean, so text centroids cannot tell them apart.
    """
    tasks, truth, vectors = [], [], {}
    for number in range(n_tasks):
        name, family = f"task-{number:04d}", number % n_families
        generator = numpy_generator(0, "planted set of a table", [name])
        codes = np.arange(n_rows) % n_labels
        matrix = generator.normal(size=(n_rows, n_families * n_labels))
        corner = generator.permutation(n_labels)[codes]
        matrix[np.arange(n_rows), family * n_labels + corner] += 3.0
        matrix[:, family * n_labels : (family + 1) * n_labels] -= 3.0 / n_labels
        splits = ["valid" if row % 5 == 4 else "train" for row in range(n_rows)]
        labels = [f"label-{code}" for code in codes]
        tasks.append(Task(name, [f"{name} row {row}" for row in range(n_rows)], labels, splits))
        truth.append(f"family-{family}")
        vectors[name] = matrix
    return TaskSet(tasks), tuple(truth), vectors

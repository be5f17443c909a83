"""The data of the learning benchmarks: tasks, their clusters, and which test texts are novel."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.pair_gain import find_novel
from benchmarks.reliability import read_kinds
from benchmarks.report import find_data
from robusttc import DoubtWarning, RobustTaskClustering, TaskSet, load_tasks, measure_transfer
from robusttc.models import random_clusters_like
from robusttc.random import numpy_generator

# Rows a task of `diverse`: train, valid, test. Its sentence vectors take an hour if all rows are used.
DIVERSE_ROWS = (96, 24, 60)

Groups = dict[str, int]


@cache
def load_set(name: str) -> TaskSet:
    """Read `bots175` whole, or `diverse` with so many rows of each split, drawn by the task's name."""
    tasks = load_tasks(find_data(name))
    if name != "diverse":
        return tasks
    kept = []
    for task in tasks:
        generator = numpy_generator(0, "rows of a benchmark", [task.name])
        rows = [
            np.sort(generator.permutation(task.rows(split))[:count])
            for split, count in zip(("train", "valid", "test"), DIVERSE_ROWS, strict=True)
        ]
        # A task that is left with one label cannot be learned.
        if len(np.unique(task.label_codes[rows[0]])) > 1:
            kept.append(task.take(np.concatenate(rows)))
    return TaskSet(kept)


@cache
def targets(count: int = 30) -> tuple[str, ...]:
    """Give the names of the few-shot targets of `bots175`."""
    name = "TARGETS.txt" if count == 10 else "TARGETS30.txt"
    text = (find_data("bots175").parent / name).read_text(encoding="utf-8")
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def novel_rows(tasks: TaskSet, split: str) -> dict[str, NDArray[np.bool_]]:
    """Tell of the rows of a split of every task which have a text that no other task has."""
    novel = find_novel(tasks)
    return {task.name: novel[task.name][task.rows(split)] for task in tasks}


def cluster_tasks(tasks: TaskSet, seed: int) -> Groups:
    """Give the clusters of tasks by the default scores, measured on training and validation rows."""
    scores = measure_transfer(tasks, encoder="sentence", pairs="all", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        model = RobustTaskClustering(random_state=seed).fit(scores)
    return dict(zip(scores.task_names, model.labels_.tolist(), strict=True))


def shuffle_groups(groups: Mapping[str, int], seed: int) -> Groups:
    """Give random clusters of the same sizes."""
    names = sorted(groups)
    drawn = random_clusters_like([groups[name] for name in names], seed)
    return dict(zip(names, drawn.tolist(), strict=True))


def true_kinds(tasks: TaskSet) -> Groups:
    """Give the kind of every task of `diverse` as a cluster."""
    _, numbers = np.unique(read_kinds(tasks), return_inverse=True)
    return dict(zip(tasks.names, numbers.tolist(), strict=True))

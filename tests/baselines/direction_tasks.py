"""Planted tasks with ready-made vectors: a label is a direction, and a row is near that of its label."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders.features import FeatureEncoder

Vectors = dict[str, NDArray[np.float32]]


def direction_tasks(
    seed: int,
    *,
    n_tasks: int = 4,
    n_labels: int = 4,
    n_rows: int = 64,
    n_telling: int = 16,
    n_idle: int = 0,
    noise: float = 0.5,
    idle_noise: float = 2.0,
    same_labels: bool = False,
) -> tuple[TaskSet, Vectors]:
    """Labels differ in `n_telling` dimensions, the same of all tasks; `n_idle` others are noise.

    A half of the rows is in ``train``, a quarter each in ``valid`` and ``test``, in this order.
    """
    generator = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(generator.normal(size=(n_telling + n_idle, n_telling + n_idle)))
    tasks, vectors = [], {}
    for number in range(n_tasks):
        codes = np.arange(n_rows) % n_labels
        labels = [f"label {code}" if same_labels else f"label {number}-{code}" for code in codes]
        splits = ["train"] * (n_rows // 2) + ["valid"] * (n_rows // 4)
        splits += ["test"] * (n_rows - len(splits))
        name = f"task {number}"
        tasks.append(Task(name, [f"row {row}" for row in range(n_rows)], labels, splits))
        directions = generator.normal(size=(n_labels, n_telling))
        telling = directions[codes] + noise * generator.normal(size=(n_rows, n_telling))
        idle = idle_noise * generator.normal(size=(n_rows, n_idle))
        rows = np.hstack([telling, idle]) @ turned
        # Of about the length of sentence vectors, 1.
        vectors[name] = (rows / np.sqrt((rows**2).sum(axis=1).mean())).astype(np.float32)
    return TaskSet(tasks), vectors


def encoder_of(vectors: Mapping[str, ArrayLike]) -> FeatureEncoder:
    return FeatureEncoder(vectors)


def accuracy_on(
    split: str, predictor: object, task: Task, vectors: Vectors, *, by_name: bool = False
) -> float:
    """Give the accuracy on a split, of a baseline by the task's name or of an adapted model."""
    rows = task.rows(split)
    queries = vectors[task.name][rows]
    found = predictor.predict(task.name, queries) if by_name else predictor.predict(queries)  # type: ignore[attr-defined]
    return float((found == task.labels[rows]).mean())

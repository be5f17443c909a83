"""Tasks on ready-made vectors whose kinds are known: tasks of a kind look at the same few numbers.

A vector has a loud and a quiet part. Each kind has its own hidden directions in the quiet part; a task's
labels depend on these alone, so a layer that has learned to listen to them serves all tasks of the kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders.features import FeatureEncoder


@dataclass(frozen=True)
class PlantedVectors:
    tasks: TaskSet
    features: dict[str, NDArray[np.float32]]
    kinds: NDArray[np.int64]

    @property
    def encoder(self) -> FeatureEncoder:
        return FeatureEncoder(self.features)


def make_planted_vectors(
    n_tasks: int,
    n_kinds: int,
    *,
    seed: int,
    n_train: int = 24,
    n_valid: int = 12,
    n_test: int = 60,
    dimension: int = 40,
    n_directions: int = 2,
    n_labels: int = 3,
    noise: float = 0.6,
) -> PlantedVectors:
    generator = np.random.default_rng(seed)
    # Orthonormal directions: kind k has its own `n_directions` of them.
    basis = np.linalg.qr(generator.normal(size=(dimension, dimension)))[0]
    tasks, features = [], {}
    kinds = np.arange(n_tasks) % n_kinds
    splits = ["train"] * n_train + ["valid"] * n_valid + ["test"] * n_test
    for number, kind in enumerate(kinds):
        own = basis[:, kind * n_directions : (kind + 1) * n_directions]
        angles = generator.permutation(n_labels) * 2 * np.pi / n_labels + generator.uniform(0, 2 * np.pi)
        centres = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        codes = np.arange(len(splits)) % n_labels
        # Everything that is not the kind's own is loud noise; so a single task of few rows is hard.
        vectors = generator.normal(size=(len(splits), dimension))
        vectors -= vectors @ own @ own.T
        inside = centres[codes] * 1.6 + noise * generator.normal(size=(len(splits), n_directions))
        vectors += inside @ own.T
        name = f"task-{number:02d}"
        tasks.append(
            Task(name, [f"{name} text {row}" for row in range(len(splits))], [f"L{c}" for c in codes], splits)
        )
        features[name] = vectors.astype(np.float32)
    return PlantedVectors(TaskSet(tasks), features, kinds.astype(np.int64))


def mean_test_accuracy(model: Any, planted: PlantedVectors) -> float:
    """Give the mean over tasks of the accuracy on their rows in ``test``."""
    found = []
    for task in planted.tasks:
        rows = task.rows("test")
        predicted = model.predict(task.name, planted.features[task.name][rows])
        found.append(float((predicted == task.labels[rows]).mean()))
    return float(np.mean(found))

"""The commonest label: what can be had without reading a text, below which nothing has learned anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc import Task, TaskSet

__all__ = ["CommonestLabels", "CommonestOfSources"]


class CommonestLabels:
    """Gives every text of a task the commonest label of its training rows."""

    def fit(self, tasks: TaskSet) -> CommonestLabels:
        """Count the labels of every task."""
        self.found = {task.name: find_commonest([task]) for task in tasks}
        return self

    def predict(self, name: str, texts: list[str]) -> NDArray[np.object_]:
        """Give the same label to every text."""
        return np.full(len(texts), self.found[name], dtype=object)


class CommonestOfSources:
    """Gives every text of a new task the commonest label of all sources, which have the same labels."""

    def fit(self, sources: TaskSet) -> CommonestOfSources:
        """Count the labels of all sources together."""
        self.found = find_commonest(list(sources))
        return self

    def adapt(self, task: Task) -> SameAnswer:
        """Give the predictor; a support set of as many rows of each label says nothing."""
        del task
        return SameAnswer(self.found)


@dataclass(frozen=True)
class SameAnswer:
    """Gives every text one label."""

    label: str

    def predict(self, texts: list[str]) -> NDArray[np.object_]:
        """Give it."""
        return np.full(len(texts), self.label, dtype=object)


def find_commonest(tasks: list[Task]) -> str:
    """Give the commonest label of the training rows of some tasks, the first by name among equals."""
    labels = np.concatenate([task.labels[task.rows("train")] for task in tasks])
    names, counts = np.unique(labels.astype(str), return_counts=True)
    return str(names[counts.argmax()])

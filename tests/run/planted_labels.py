"""Tasks whose labels are known to be the same, parts of each other, or nothing to each other.

A concept is a direction; a text is its name and a number, and its vector the direction with noise. What a
task calls a label is a set of concepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.encoders import DenseInputs
from robusttc.multitask import MultiTaskSettings, TaskRows, fit_own
from robusttc.run.explain import LabelConflict, LabelMatch, find_conflicts, find_matches
from robusttc.run.explain.cross_predictions import Sample, choose_texts, cross_predict, make_sample

N_DIMENSIONS = 24
SETTINGS = MultiTaskSettings()
Vectors = dict[str, NDArray[np.float32]]


class World:
    """Texts and their vectors; each text is the same in all tasks that have it."""

    def __init__(self, seed: int, *, noise: float = 0.12) -> None:
        self.generator = np.random.default_rng(seed)
        self.noise = noise
        self.directions: dict[str, NDArray[np.float64]] = {}
        self.vectors: Vectors = {}

    def write(self, concept: str, number: int) -> str:
        """Give a text about a concept."""
        if concept not in self.directions:
            direction = self.generator.normal(size=N_DIMENSIONS)
            self.directions[concept] = direction / np.linalg.norm(direction)
        text = f"{concept} number {number}"
        if text not in self.vectors:
            noise = self.generator.normal(size=N_DIMENSIONS) * self.noise
            self.vectors[text] = (self.directions[concept] + noise).astype(np.float32)
        return text

    def task(
        self, name: str, labels: Mapping[str, Sequence[str]], *, n_texts: int = 16, first: int | None = None
    ) -> Task:
        """Make a task; its texts are its own unless `first`, the number of the first text, says otherwise."""
        begin = int(self.generator.integers(1_000_000_000)) if first is None else first
        texts, given, splits = [], [], []
        for label, concepts in labels.items():
            for place in range(n_texts):
                texts.append(self.write(concepts[place % len(concepts)], begin + place))
                given.append(label)
                splits.append("valid" if place % 4 == 3 else "train")
        return Task(name, texts, given, splits)

    def sample(self, task: Task) -> Sample:
        """Fit the own model of a task, and make it ready to be predicted."""
        texts = choose_texts(task)
        matrix = np.array([self.vectors[text] for text in texts.shown], dtype=np.float32)
        inputs = DenseInputs(matrix)
        trained = np.flatnonzero(~texts.is_held)
        part = TaskRows(task.name, len(task.label_names), trained, texts.codes[trained])
        model = fit_own(inputs, part, settings=SETTINGS, seed=0, stage="own")
        return make_sample(texts, inputs, matrix, model)

    def compare(self, task: Task, *others: Task) -> tuple[tuple[LabelMatch, ...], tuple[LabelConflict, ...]]:
        """Compare the labels of a task with those of others."""
        own = self.sample(task)
        predicted = [cross_predict(own, self.sample(other)) for other in others]
        tables = [one for one, _ in predicted]
        matches = find_matches(tables)
        return matches, find_conflicts(tables, {one.task: common for one, common in predicted}, matches)


def kinds(matches: Sequence[LabelMatch]) -> set[tuple[str, str, str, str]]:
    """What was found, without figures."""
    return {(one.kind, one.label, one.task, one.other_label) for one in matches}

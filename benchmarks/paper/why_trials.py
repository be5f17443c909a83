"""The models of a condition of `benchmarks.paper.why`, trained and compared by task."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.clusters import Clusterings, Instrument, word_vectors
from benchmarks.paper.figure_table import Measured
from benchmarks.paper.plan import Plan
from benchmarks.paper.sets import cut_rows
from benchmarks.records import score_answers
from robusttc import Task, TaskSet
from robusttc.baselines import SingleTaskBaseline
from robusttc.models import random_clusters_like
from robusttc.multitask import ClusterMultiTask, MultiTaskSettings
from robusttc.stats import difference_interval
from robusttc.transfer import normalise_text

__all__ = ["Condition", "Trials", "cut_share", "drop_phrases"]

LEAST_ROWS = 8
Accuracies = dict[str, dict[str, float]]
# The probabilities of all labels of every test row, by task.
Probabilities = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is changed."""

    way: str
    group: str
    encoder: str = "sentence"
    width: int = 200
    share: float = 1.0
    without_phrases: bool = False
    equal_steps: bool = False
    number: int = 20
    instrument: Instrument = "paper"

    @property
    def data(self) -> tuple[Any, ...]:
        """Give what a model of single tasks depends on."""
        return self.encoder, self.share, self.without_phrases


@dataclass(eq=False)
class Trials:
    """All models of one set; those that several conditions share are trained once."""

    plan: Plan
    kept: dict[tuple[Any, ...], Probabilities] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clusterings = Clusterings(self.plan)

    def compare(self, condition: Condition, seed: int) -> Measured:
        """Train all models of a condition, and compare them by task."""
        tasks = self.change(condition)
        clusters = self.clusterings.robust(
            condition.instrument,
            condition.number,
            encoder=condition.encoder,
            tasks=self.plan.data.tasks,
            seed=seed,
        )
        labels = [clusters.groups[name] for name in tasks.names]
        shuffled = dict(zip(tasks.names, random_clusters_like(labels, seed).tolist(), strict=True))
        model = (*condition.data, condition.width, seed)
        of_clusters = (*model, condition.instrument, condition.number)
        own = self.once(("single", *condition.data, seed), lambda: self.single(tasks, condition, seed))
        shared = self.once(
            ("holistic", *model, condition.equal_steps), lambda: self.holistic(tasks, condition, seed)
        )
        found = self.once(
            ("clusters", *of_clusters), lambda: self.on(tasks, dict(clusters.groups), condition, seed)
        )
        drawn = self.once(("random", *of_clusters), lambda: self.on(tasks, shuffled, condition, seed))
        accuracies = {
            name: self.judge(probabilities)
            for name, probabilities in {
                "single": own,
                "holistic": shared,
                "clusters": found,
                "random": drawn,
                "averaged": average(shared, found),
                "random_averaged": average(shared, drawn),
            }.items()
        }
        n_rows = sum(len(task.rows("train")) for task in tasks)
        return Measured(
            figures={"n_clusters": clusters.extra["n_clusters"], **compare_all(accuracies)},
            settings={**vars(condition), "settings": self.settings(condition)},
            extra={**clusters.extra, "n_training_rows": n_rows},
        )

    def once(self, key: tuple[Any, ...], fit: Callable[[], Any]) -> Probabilities:
        """Train a model that other conditions may have too, and keep its answers on test rows."""
        if key not in self.kept:
            model = fit()
            self.kept[key] = {task.name: answer(model, task) for task in self.plan.data.tasks}
        return self.kept[key]

    def judge(self, probabilities: Probabilities) -> Accuracies:
        """Give the accuracy of every task on all and on novel texts."""
        right = {
            task.name: probabilities[task.name].argmax(axis=1) == task.label_codes[task.rows("test")]
            for task in self.plan.data.tasks
        }
        return score_answers(right, dict(self.plan.data.novel))

    def change(self, condition: Condition) -> TaskSet:
        """Give the tasks with the training rows of a condition."""
        tasks = self.plan.data.tasks
        if condition.without_phrases:
            tasks = drop_phrases(tasks)
        if condition.share < 1:
            tasks = TaskSet(cut_share(task, condition.share) for task in tasks)
        return tasks

    def settings(self, condition: Condition) -> MultiTaskSettings:
        """Give how models are trained."""
        return self.plan.multitask[condition.encoder].replace(width=condition.width)

    def holistic(self, tasks: TaskSet, condition: Condition, seed: int) -> ClusterMultiTask:
        """Train one model for all tasks."""
        settings = self.settings(condition)
        if condition.equal_steps:
            epochs = math.ceil(settings.epochs / condition.number)
            settings = settings.replace(epochs=epochs, min_steps=1)
        return self.train(tasks, None, condition.encoder, settings, seed)

    def on(self, tasks: TaskSet, groups: dict[str, int], condition: Condition, seed: int) -> ClusterMultiTask:
        """Train a model for each cluster."""
        return self.train(tasks, groups, condition.encoder, self.settings(condition), seed)

    def train(
        self,
        tasks: TaskSet,
        groups: dict[str, int] | None,
        encoder: str,
        settings: MultiTaskSettings,
        seed: int,
    ) -> ClusterMultiTask:
        """Train as the paper does; without clusters all tasks have one model."""
        model = ClusterMultiTask(
            encoder,
            strategy="paper",
            settings=settings,
            vectors=word_vectors(encoder),
            random_state=seed,
        )
        return model.fit(tasks, groups)

    def single(self, tasks: TaskSet, condition: Condition, seed: int) -> SingleTaskBaseline:
        """Train a model for each task, as the tables do."""
        settings = self.plan.single if condition.encoder == "cnn" else self.plan.frozen_single
        model = SingleTaskBaseline(
            condition.encoder,
            settings=settings,
            vectors=word_vectors(condition.encoder),
            random_state=seed,
        )
        return model.fit(tasks)


def answer(model: ClusterMultiTask | SingleTaskBaseline, task: Task) -> NDArray[np.float64]:
    """Give the probability of every label of a task, also of those that the model was not taught."""
    found = np.zeros((len(task.rows("test")), len(task.label_names)))
    places = [task.label_names.index(name) for name in model.label_names(task.name)]
    found[:, places] = model.predict_proba(task.name, list(task.texts_at(task.rows("test"))))
    return found


def average(first: Probabilities, second: Probabilities) -> Probabilities:
    """Give the mean of two models' probabilities."""
    return {name: (first[name] + second[name]) / 2 for name in first}


def compare_all(accuracies: dict[str, Accuracies]) -> dict[str, Any]:
    """Give the mean of every model over tasks, and the differences that reasons are read from."""
    figures: dict[str, Any] = {}
    for name, own in accuracies.items():
        figures[name] = 100 * float(np.mean(list(own["all"].values())))
    for first, second in (
        ("clusters", "holistic"),
        ("clusters", "random"),
        ("holistic", "single"),
        ("averaged", "holistic"),
        ("averaged", "random_averaged"),
    ):
        for texts in ("all", "novel"):
            figures[f"{first}_less_{second}_{texts}"] = show(
                accuracies[first][texts], accuracies[second][texts]
            )
    alone, shared = (np.array(list(accuracies[name]["all"].values())) for name in ("single", "holistic"))
    figures["tasks_that_lose"] = int(np.count_nonzero(shared < alone))
    return figures


def show(first: dict[str, float], second: dict[str, float]) -> str:
    """Give the paired difference in points, with its interval."""
    names = sorted(first)
    found = difference_interval([first[name] for name in names], [second[name] for name in names])
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def cut_share(task: Task, share: float) -> Task:
    """Keep a part of a task's training rows, at least eight and one of every label."""
    n_rows = max(LEAST_ROWS, round(share * len(task.rows("train"))))
    return cut_rows(task, (n_rows,))


def drop_phrases(tasks: TaskSet) -> TaskSet:
    """Leave out training rows whose text stands among the test rows of another task.

    The first row of a label stays, else the task would lose it.
    """
    tested: dict[str, set[str]] = {}
    for task in tasks:
        for text in task.texts_at(task.rows("test")):
            tested.setdefault(normalise_text(text), set()).add(task.name)
    kept = []
    for task in tasks:
        rows = task.rows("train")
        elsewhere = [
            bool(tested.get(normalise_text(text), set()) - {task.name}) for text in task.texts_at(rows)
        ]
        _, first = np.unique(task.label_codes[rows], return_index=True)
        stays = ~np.array(elsewhere)
        stays[first] = True
        kept.append(task.take(np.sort(np.concatenate([rows[stays], task.rows("valid", "test")]))))
    return TaskSet(kept)

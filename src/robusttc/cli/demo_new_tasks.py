"""The new tasks of the demo: how well a run learns them, beside what one would have without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.data import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robusttc.data import TaskSet
    from robusttc.fewshot import ClusterFewShot

__all__ = ["NewTask", "compare_learners", "cut_new_task"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class NewTask:
    """A task that was not in the run: the few examples that it comes with, and rows to judge it by."""

    examples: Task
    test: Task


def cut_new_task(task: Task, seed: int, *, name: str | None = None) -> NewTask:
    """Cut a task to the paper's few-shot setting: an example a label and twenty more.

    Examples
    --------
    >>> task = Task("a", ["hi", "hey", "bye"], ["x", "x", "y"], ["train", "test", "train"])
    >>> cut = cut_new_task(task, 0, name="b")
    >>> cut.examples, cut.test
    (Task('b', 2 rows, 2 labels), Task('b', 1 rows, 1 labels))
    """
    # Late, so that --help does not wait for SciPy.
    from robusttc.fewshot import few_shot_rows

    def take(rows: NDArray[np.intp], split: str) -> Task:
        texts, labels = list(task.texts_at(rows)), task.labels[rows].tolist()
        return Task(name or task.name, texts, labels, [split] * len(rows))

    return NewTask(take(few_shot_rows(task, random_state=seed), "train"), take(task.rows("test"), "test"))


def compare_learners(
    learner: ClusterFewShot, sources: TaskSet, new_tasks: Sequence[NewTask], seed: int
) -> dict[str, NDArray[np.float64]]:
    """Give the accuracy on every new task: ``own`` logistic regression, the ``shared`` metric, and ``ours``.

    Parameters
    ----------
    learner
        What the run has learned; it is what serves, with clusters or without.
    sources
        The tasks of the run; the penalty of the tasks' own models is chosen on them.
    new_tasks
        The new tasks.
    seed
        The seed.
    """
    from robusttc.baselines import LogisticRegressionBaseline

    own = LogisticRegressionBaseline(few_shot=True, random_state=seed).fit(sources)
    learners: dict[str, Any] = {"own": own, "shared": learner.without_clusters(), "ours": learner}
    return {
        way: np.array([judge(one.adapt(new.examples), new.test) for new in new_tasks])
        for way, one in learners.items()
    }


def judge(model: Any, test: Task) -> float:
    """Give the share of rows that a model predicts right."""
    return float((model.predict(list(test.texts)) == test.labels).mean())

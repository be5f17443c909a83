"""The models of an estimator, task by task, as those of a baseline that uses the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from robusttc.baselines.task_model import Floats, TaskModel

__all__ = ["ByName", "serve_tasks"]


class ByName(Protocol):
    """An estimator that predicts by the name of a task."""

    task_names_: tuple[str, ...]

    def label_names(self, task_name: str) -> tuple[str, ...]:
        """Give the labels of a task."""

    def predict_proba(self, task_name: str, texts: Any) -> NDArray[Any]:
        """Give the probability of every label of the task for every text."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedPredictor:
    """One task of an estimator."""

    estimator: ByName
    task_name: str

    def probabilities(self, inputs: Any) -> Floats:
        """Ask the estimator; it reads texts itself."""
        return self.estimator.predict_proba(self.task_name, inputs)


class PassOn:
    """Reads nothing: the estimator behind does."""

    def read(self, texts: Any) -> Any:
        """Give the texts as they are."""
        return texts


def serve_tasks(estimator: ByName) -> dict[str, TaskModel]:
    """Give the model of every task of a fitted estimator."""
    return {
        name: TaskModel(estimator.label_names(name), PassOn(), ServedPredictor(estimator, name))
        for name in estimator.task_names_
    }

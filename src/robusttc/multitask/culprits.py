"""Which mates are to blame where sharing hurts a task, by a cheap estimate.

The estimate trains the model in question for half of its epochs without the held-out rows of the task.
There it takes the gradient of the task's held-out loss and that of each mate's training loss, both for the
shared layer. A step that serves the mate lowers the task's loss by about their product: the cosine of the two
tells how much the mate's training works for the task or, if negative, against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.models import Gradients, RowGradients, head_gradients
from robusttc.multitask.components import Shared, train_copies
from robusttc.multitask.fitting import uses
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.persistence import Fitted
from robusttc.multitask.shared_model import SharedModel
from robusttc.multitask.task_rows import deal_all_folds, make_part
from robusttc.multitask.training_data import TrainingData
from robusttc.progress import Progress, report

__all__ = ["Culprit", "FoldParts", "Found", "estimate_culprits", "mates_of"]

# Rows of a task that a gradient is taken of.
MAX_ROWS = 512


@dataclass(frozen=True, slots=True)
class Culprit:
    """A mate that works against a task.

    Attributes
    ----------
    name
        The mate.
    blame
        From retraining: by how much the mean log-probability of the task's held-out labels rises without
        the mate. From the estimate: the cosine of the two gradients with its sign turned. Above zero the mate
        does harm.
    accuracy_gain
        From retraining: how much accuracy the task gains without the mate; None for the estimate.
    """

    name: str
    blame: float
    accuracy_gain: float | None = None


Found = dict[str, tuple[Culprit, ...]]


def mates_of(fitted: Fitted, data: TrainingData, name: str) -> list[str]:
    """Give the tasks that a task shares its model with: its cluster if clusters serve, else all."""
    cluster = fitted.serving.tasks[name].cluster
    clusters_serve = uses(fitted.weights, "cluster")
    return [
        other
        for other in sorted(data.parts)
        if other != name and (not clusters_serve or fitted.serving.tasks[other].cluster == cluster)
    ]


class FoldParts:
    """The rows of every task that a fold trains on, and those that it holds out."""

    def __init__(self, data: TrainingData, n_folds: int, seed: int) -> None:
        self.data = data
        self.folds = deal_all_folds(data.tasks, n_folds, seed)

    def train(self, name: str, fold: int) -> TaskPart:
        """Give the rows of a task without a fold."""
        task, own = self.data.tasks[name], self.folds[name]
        assert self.data.prepared is not None  # noqa: S101 - tasks that share are prepared
        rows = task.rows("train")
        return make_part(task, self.data.prepared, rows[own[rows] != fold])

    def held(self, name: str, fold: int) -> TaskPart:
        """Give the held-out rows of a task."""
        assert self.data.prepared is not None  # noqa: S101 - tasks that share are prepared
        return make_part(self.data.tasks[name], self.data.prepared, np.flatnonzero(self.folds[name] == fold))


def estimate_culprits(
    fitted: Fitted,
    data: TrainingData,
    names: Sequence[str],
    *,
    n_folds: int,
    progress: Progress | None = None,
) -> Found:
    """Give the mates of each task whose gradients are against it, the worst first."""
    rows = FoldParts(data, n_folds, fitted.seed)
    short = fitted.settings.replace(
        # Where training ends gradients are small, and where it begins they are all alike.
        epochs=max(1, fitted.settings.epochs // 2),
        min_steps=max(1, fitted.settings.min_steps // 2),
        n_copies=1,
        head_c=0.0,
    )
    assert data.prepared is not None  # noqa: S101 - tasks that share are prepared
    inputs = data.prepared.inputs
    trained: dict[tuple[str, ...], Shared] = {}
    found: Found = {}
    for done, name in enumerate(names):
        mates = mates_of(fitted, data, name)
        everybody = tuple(sorted([name, *mates]))
        if everybody not in trained:  # one model without the first fold serves all tasks of a cluster
            trained[everybody] = train_copies(
                inputs,
                [rows.train(other, 0) for other in everybody],
                settings=short,
                seed=fitted.seed,
                stage="culprits",
            )
        model = trained[everybody].copies[0]
        own = layer_gradient(model, inputs, rows.held(name, 0))
        blames = {}
        for mate in mates:
            other = layer_gradient(model, inputs, rows.train(mate, 0))
            length = float(np.linalg.norm(own) * np.linalg.norm(other))
            blames[mate] = -float(own @ other) / length if length > 0 else 0.0
        found[name] = tuple(Culprit(mate, blames[mate]) for mate in worst_first(blames))
        report(progress, "culprits", done + 1, len(names), "tasks")
    return found


def layer_gradient(model: SharedModel, inputs: FrozenInputs, part: TaskPart) -> NDArray[np.float64]:
    """Give the gradient of a task's mean loss for the layer, as one long vector."""
    items, codes = part.items[:MAX_ROWS], part.codes[:MAX_ROWS]
    if len(items) == 0:
        return np.zeros(1)
    representation = model.layer.forward(inputs, items)
    place = np.array([model.names.index(part.name)])
    _, gradient, *_ = head_gradients(
        representation,
        np.array([0, len(items)]),
        model.starts[place],
        model.ends[place],
        codes,
        model.weight,
        model.bias,
        0.0,
    )
    return flatten(model.layer.backward(gradient), model.layer.parameters())


def flatten(gradients: Gradients, parameters: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float64]:
    """Put gradients behind each other; rows that were not touched have none."""
    whole = []
    for name in sorted(parameters):
        gradient = gradients[name]
        if isinstance(gradient, RowGradients):
            dense = np.zeros(parameters[name].shape)
            dense[gradient.rows] = gradient.values
            whole.append(dense.reshape(-1))
        else:
            whole.append(gradient.astype(np.float64).reshape(-1))
    return np.concatenate(whole)


def worst_first(blames: Mapping[str, float]) -> list[str]:
    """Give the mates that do harm, the worst first."""
    return sorted((mate for mate in blames if blames[mate] > 0), key=lambda mate: (-blames[mate], mate))

"""Predictions for training rows by models that have not seen them: what all choices are made on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robusttc.data.taskset import TaskSet
from robusttc.encoders.encoder import PreparedTasks
from robusttc.encoders.inputs import FrozenInputs
from robusttc.learning.familiar import FamiliarTexts
from robusttc.learning.groups import members
from robusttc.multitask.components import OwnModel, Shared, fit_own, train_copies
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.task_rows import deal_all_folds, make_part
from robusttc.progress import Progress

__all__ = ["Fold", "HeldOut", "OutOfFold", "train_clusters"]

Numbers = NDArray[np.int64]
Probabilities = NDArray[np.float64]
Table = dict[str, Probabilities]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The rows of a task that are held out in one fold or another.

    Attributes
    ----------
    rows
        Their numbers, fold after fold.
    codes
        Their labels.
    """

    rows: NDArray[np.intp]
    codes: Numbers


@dataclass(slots=True)
class Fold:
    """One fold: what its models are trained on, what they are asked, and the models that are needed again."""

    number: int
    parts: dict[str, TaskPart]
    held: dict[str, NDArray[np.intp]]
    own: dict[str, OwnModel] = field(default_factory=dict)
    shared: Shared | None = None


def train_clusters(
    inputs: FrozenInputs,
    parts: Mapping[str, TaskPart],
    labels: Mapping[str, int],
    *,
    settings: MultiTaskSettings,
    seed: int,
    stage: str,
    start: Shared | None = None,
    stop_early: bool = False,
    progress: Progress | None = None,
    title: str = "cluster models",
) -> dict[int, Shared]:
    """Train one model a cluster of at least two tasks.

    Draws depend on the names of a cluster's tasks, not on its number: numbering clusters otherwise changes
    nothing.
    """
    names = sorted(parts)
    trained: dict[int, Shared] = {}
    for cluster, own in members(names, [labels[name] for name in names]).items():
        if len(own) > 1:
            trained[cluster] = train_copies(
                inputs,
                [parts[name] for name in own],
                settings=settings,
                seed=seed,
                stage=stage,
                start=start,
                stop_early=stop_early,
                progress=progress,
                title=f"{title} ({len(own)} tasks)",
            )
    return trained


class OutOfFold:
    """Held-out predictions of every kind of model, made as they are asked for.

    Parameters
    ----------
    tasks
        The tasks, all of which may share.
    prepared
        Their frozen inputs.
    n_folds
        Into how many folds training rows are dealt. None holds out the rows in ``valid`` in their place: for
        encoders that were tuned on the training rows, and so have seen every one of them.
    settings, seed
        How the models of a fold are trained.
    familiar
        Which texts other tasks have; None if inputs are no texts.
    progress
        Who is told how far it is.
    """

    def __init__(
        self,
        tasks: TaskSet,
        prepared: PreparedTasks,
        *,
        n_folds: int | None,
        settings: MultiTaskSettings,
        seed: int,
        familiar: FamiliarTexts | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.inputs = prepared.inputs
        self.settings, self.seed, self.progress = settings, seed, progress
        self.items = prepared.items
        if n_folds is None:
            whole = {task.name: make_part(task, prepared) for task in tasks}
            self.folds = [Fold(0, whole, {task.name: task.rows("valid") for task in tasks})]
        else:
            self.folds = deal_parts(tasks, prepared, n_folds, seed)
        self.held = {
            task.name: HeldOut(rows, task.label_codes[rows].astype(np.int64))
            for task in tasks
            for rows in [np.concatenate([fold.held[task.name] for fold in self.folds])]
        }
        self.familiar: dict[str, NDArray[np.bool_]] | None = None
        if familiar is not None:
            self.familiar = {
                task.name: familiar.find(task.name, task.texts.take(self.held[task.name].rows))
                for task in tasks
            }
        # A task that has two rows of no label has nothing to hold out.
        self.names = sorted(name for name, held in self.held.items() if len(held.rows))

    def predict_own(self) -> Table:
        """Give what each task's own models say."""
        for fold in self.folds:
            fold.own = {
                name: fit_own(
                    self.inputs,
                    part,
                    settings=self.settings,
                    seed=self.seed,
                    stage=f"own, fold {fold.number}",
                )
                for name, part in fold.parts.items()
            }
        return self.gather(lambda fold, name, inputs: fold.own[name].probabilities(inputs))

    def predict_shared(self) -> Table:
        """Give what the models of all tasks say."""
        for fold in self.folds:
            fold.shared = train_copies(
                self.inputs,
                fold.parts.values(),
                settings=self.settings,
                seed=self.seed,
                stage=f"shared, fold {fold.number}",
                progress=self.progress,
                title=f"shared model without fold {fold.number + 1} of {len(self.folds)}",
            )
        return self.gather(lambda fold, name, inputs: need(fold.shared).probabilities(name, inputs))

    def predict_clusters(self, labels: Mapping[str, int], *, from_shared: bool, title: str) -> Table:
        """Give what cluster models say; a task alone in its cluster is asked of its own model."""
        trained = {
            fold.number: train_clusters(
                self.inputs,
                fold.parts,
                labels,
                settings=self.settings,
                seed=self.seed,
                stage=f"cluster, fold {fold.number}",
                start=need(fold.shared) if from_shared else None,
                progress=self.progress,
                title=f"{title} without fold {fold.number + 1} of {len(self.folds)}",
            )
            for fold in self.folds
        }

        def ask(fold: Fold, name: str, inputs: FrozenInputs) -> NDArray[np.floating]:
            model = trained[fold.number].get(labels[name])
            return (
                fold.own[name].probabilities(inputs) if model is None else model.probabilities(name, inputs)
            )

        return self.gather(ask)

    def gather(self, ask: Callable[[Fold, str, FrozenInputs], NDArray[np.floating]]) -> Table:
        """Ask the models of every fold about its held-out rows, task by task."""
        found: Table = {}
        for name in self.names:
            tables = [
                np.asarray(ask(fold, name, self.inputs.take(self.items[name][fold.held[name]])), np.float64)
                for fold in self.folds
                if len(fold.held[name])
            ]
            found[name] = np.concatenate(tables)
        return found


def deal_parts(tasks: TaskSet, prepared: PreparedTasks, n_folds: int, seed: int) -> list[Fold]:
    """Give for every fold the rows that its models are trained on, and those that they are asked."""
    numbers = deal_all_folds(tasks, n_folds, seed)
    folds = []
    for number in range(n_folds):
        parts, held = {}, {}
        for task in tasks:
            own, train = numbers[task.name], task.rows("train")
            parts[task.name] = make_part(task, prepared, train[own[train] != number])
            held[task.name] = np.flatnonzero(own == number)
        folds.append(Fold(number, parts, held))
    return folds


def need(shared: Shared | None) -> Shared:
    """Give the shared model of a fold, which is trained before anything that starts from it."""
    assert shared is not None  # noqa: S101 - the order of calls in `robusttc.multitask.choosing`
    return shared

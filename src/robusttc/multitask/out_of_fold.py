"""Predictions for training rows by models that have not seen them: what all choices are made on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders import PreparedTasks
from robusttc.jobs import Result
from robusttc.models import TrainingJobs, cluster_members, require_result, warn_about_tasks
from robusttc.multitask.familiar import FamiliarTexts
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.label_power import shares_by_fold
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.task_rows import deal_all_folds, make_part
from robusttc.multitask.training import Trained, train_all
from robusttc.multitask.units import (
    STAGE,
    JointOrder,
    Material,
    OwnOrder,
    Round,
    answers_of,
    batch_tasks,
    joint_unit,
)

__all__ = ["ClusterModels", "Fold", "HeldOut", "OutOfFold", "clusters_of_two"]

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
    """One fold: what its models are trained on, and what they are asked."""

    number: int
    parts: dict[str, TaskPart]
    held: dict[str, NDArray[np.intp]]

    @property
    def place(self) -> str:
        """Its name among the rounds of training."""
        return f"fold {self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class ClusterModels:
    """Models of clusters that are asked for.

    Attributes
    ----------
    labels
        The cluster of every task.
    from_shared
        Whether they start from the shared model of their fold.
    """

    labels: Mapping[str, int]
    from_shared: bool


Wanted = Literal["own", "shared"] | ClusterModels


def clusters_of_two(names: Iterable[str], labels: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    """Give the tasks of every cluster of at least two, in the order of their names.

    Examples
    --------
    >>> clusters_of_two(["b", "a", "c"], {"a": 4, "b": 4, "c": 1})
    {4: ('a', 'b')}
    """
    ordered = sorted(names)
    found = cluster_members(ordered, [labels[name] for name in ordered])
    return {cluster: own for cluster, own in found.items() if len(own) > 1}


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
    keeps_start
        Whether models may be asked for that start from the shared ones.
    bench
        Who trains.
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
        keeps_start: bool = True,
        bench: TrainingJobs | None = None,
    ) -> None:
        self.bench = bench or TrainingJobs(STAGE)
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
                task.name: familiar.find(task.name, task.texts_at(self.held[task.name].rows))
                for task in tasks
            }
        # A task that has two rows of no label has nothing to hold out.
        self.names = sorted(name for name, held in self.held.items() if len(held.rows))
        self.keeps_start = keeps_start
        self.material = Material(
            {
                fold.place: Round(
                    fold.place,
                    prepared.inputs,
                    fold.parts,
                    {name: prepared.items_of(name, held) for name, held in fold.held.items() if len(held)},
                    f", fold {fold.number}",
                )
                for fold in self.folds
            },
            settings,
            seed,
        )
        # What was answered so far: random clusters may have the tasks of others.
        self._own: dict[tuple[str, str], Probabilities] = {}
        self._joint: dict[JointOrder, Table | None] = {}

    def predict(self, *wanted: Wanted) -> list[Table]:
        """Give what models of every fold say about their held-out rows, one table for each that is wanted.

        All models are trained in one go. A task alone in its cluster is asked of its own model, and so is one
        whose cluster has a model that could not be trained; ``own`` must be asked for in time.

        Parameters
        ----------
        wanted
            ``own``, ``shared``, or models of clusters.

        Raises
        ------
        WorkError
            If a shared model could not be trained.
        """
        joint: list[JointOrder] = []
        own: list[OwnOrder] = []
        for one in wanted:
            for fold in self.folds:
                if one == "own":
                    own += self.own_orders(fold)
                elif one == "shared":
                    joint.append(self.shared_order(fold))
                else:
                    joint += self.cluster_orders(fold, one).values()
        new = [order for order in joint if order not in self._joint]
        trained = train_all(self.bench, self.material, new, own)
        self._own |= trained.own_answers
        for order, payload in trained.joint.items():
            self._joint[order] = None if payload is None else answers_of(payload, order.names)
        if "shared" in wanted:
            self.take_starts(trained)
        self.note_failures(own)
        return [self.gather(one) for one in wanted]

    def log_shares(self) -> Table:
        """Give for every held-out row how frequent labels are among the rows that its fold was trained on."""
        return {
            name: shares_by_fold((fold.parts[name], len(fold.held[name])) for fold in self.folds)
            for name in self.names
        }

    def take_starts(self, trained: Trained) -> None:
        """Lay out the shared models for those that start from them."""
        starts: dict[str, Result] = {}
        for fold in self.folds:
            order = self.shared_order(fold)
            unit = joint_unit(self.material, order)
            starts[fold.place] = require_result("the model of all tasks", unit, trained.joint[order])
        if self.keeps_start:
            self.material = with_starts(self.material, starts)

    def own_orders(self, fold: Fold) -> list[OwnOrder]:
        """Order the own models of a fold."""
        inputs = self.material.rounds[fold.place].inputs
        return [OwnOrder(fold.place, names) for names in batch_tasks(inputs, fold.parts.values())]

    def shared_order(self, fold: Fold) -> JointOrder:
        """Order the model of all tasks of a fold."""
        names = tuple(sorted(fold.parts))
        return JointOrder(fold.place, names, "shared", keeps="start" if self.keeps_start else "nothing")

    def cluster_orders(self, fold: Fold, wanted: ClusterModels) -> dict[int, JointOrder]:
        """Order the models of clusters of a fold, by cluster.

        Draws depend on the names of a cluster's tasks, not on its number: numbering clusters otherwise
        changes nothing.
        """
        return {
            cluster: JointOrder(fold.place, names, "cluster", from_start=wanted.from_shared)
            for cluster, names in clusters_of_two(fold.parts, wanted.labels).items()
        }

    def note_failures(self, own: Sequence[OwnOrder]) -> None:
        """Let a task without an own model have no opinion, and say so."""
        failed = []
        for order in own:
            own_round = self.material.rounds[order.round]
            for name in order.names:
                if name in own_round.asked and (order.round, name) not in self._own:
                    failed.append(name)
                    shape = (len(own_round.asked[name]), own_round.parts[name].n_labels)
                    self._own[order.round, name] = np.full(shape, 1 / shape[1])
        warn_about_tasks("own models of some tasks could not be trained in some folds", failed)

    def gather(self, wanted: Wanted) -> Table:
        """Put the answers of all folds together, task by task."""
        by_fold: dict[str, dict[str, Probabilities]] = {}
        for fold in self.folds:
            said = {name: self._own.get((fold.place, name)) for name in fold.parts}
            if wanted != "own":
                orders = (
                    [self.shared_order(fold)]
                    if wanted == "shared"
                    else list(self.cluster_orders(fold, wanted).values())
                )
                for order in orders:
                    said |= self._joint[order] or {}
            by_fold[fold.place] = {name: table for name, table in said.items() if table is not None}
        return {
            name: np.concatenate([by_fold[fold.place][name] for fold in self.folds if len(fold.held[name])])
            for name in self.names
        }


def with_starts(material: Material, starts: Mapping[str, Result]) -> Material:
    """Give the material with models to start from."""
    rounds = {place: dataclasses.replace(one, start=starts[place]) for place, one in material.rounds.items()}
    return dataclasses.replace(material, rounds=rounds)


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

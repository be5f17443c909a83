"""What is to be measured, cut into units of work that any process can do and that can be stored one by one.

There are two kinds of unit: the model of one task, and the block of scores of one source (its model, with all
targets it is paired with). A unit depends on the plan alone, through seeds made from task names: not on the
order of work, the number of workers, nor on which other pairs are measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import FrozenInputs, PreparedTasks, WordInputs
from robusttc.errors import DataError, UsageError, quote
from robusttc.random import numpy_generator
from robusttc.transfer.pairs import PairList
from robusttc.transfer.settings import TransferSettings

__all__ = ["TaskRows", "TransferPlan", "find_rows", "make_plan"]

Items = NDArray[np.int64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TaskRows:
    """The rows of a task that measuring may look at: train and valid, never test.

    Attributes
    ----------
    name
        The name of the task.
    items
        The place of each row among the frozen inputs, first those of train, then those of valid.
    codes
        The label of each row: its place among the sorted labels that rows of train or valid have.
    n_train
        How many of the rows are of train.
    n_labels
        How many labels there are; one that only test rows have does not count.
    order
        The rows in an order that the seed and the name decide, for splitting them into halves or folds.
    """

    name: str
    items: Items
    codes: Codes
    n_train: int
    n_labels: int
    order: NDArray[np.int64]

    @property
    def n_valid(self) -> int:
        """How many of the rows are of valid."""
        return len(self.items) - self.n_train


@dataclass(frozen=True, eq=False)
class TransferPlan:
    """Everything that the units of work need; see the module.

    Attributes
    ----------
    rows
        The rows of each task, in the order of the tasks.
    inputs
        The frozen inputs of all distinct texts.
    pairs
        The pairs to measure.
    settings
        What is measured, and how.
    same_labels
        Whether models are used on other tasks as they are, since all tasks have the same labels.
    seed
        The seed of the run.
    """

    rows: tuple[TaskRows, ...]
    inputs: FrozenInputs
    pairs: PairList
    settings: TransferSettings
    same_labels: bool
    seed: int

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return tuple(rows.name for rows in self.rows)

    @cached_property
    def targets(self) -> tuple[NDArray[np.int64], ...]:
        """For each source, the targets to be measured, ascending."""
        source, target = self.pairs.entries()
        by_source = np.lexsort((target, source))
        ends = np.cumsum(np.bincount(source, minlength=len(self.rows)))
        return tuple(np.split(target[by_source], ends[:-1]))

    @property
    def trains_layers(self) -> bool:
        """Whether every source trains a layer of its own, or is narrowed from the frozen vectors at once."""
        settings = self.settings
        if settings.kind == "accuracy" or isinstance(self.inputs, WordInputs):
            return True
        return bool(settings.train_layer is True)

    @property
    def sources(self) -> tuple[int, ...]:
        """The tasks that are the source of at least one score: these need a model."""
        return tuple(task for task, targets in enumerate(self.targets) if len(targets))


def find_rows(
    task: Task, prepared: PreparedTasks, *, pooled: bool, seed: int, needs_valid: bool = True
) -> TaskRows:
    """Collect the rows of a task for measuring.

    Parameters
    ----------
    task
        The task.
    prepared
        The frozen part of all tasks.
    pooled
        Whether train and valid are one pool of which rows are left out. Then a text that occurs again with
        the same label counts once: else leaving one row out would leave its twin in. And a task without
        valid rows is measured on train alone. If not pooled, such a task has a fifth of every label's
        training rows held out in place of valid, drawn by the seed and the task's name.
    seed
        The seed of the run.
    needs_valid
        Whether valid rows are needed at all.

    Raises
    ------
    DataError
        If the training rows have fewer than two labels, or nothing can be held out.
    """
    train, valid = task.rows("train"), task.rows("valid")
    found = np.unique(task.label_codes[train])
    if len(found) < 2:
        names = ", ".join(quote(task.label_names[code]) for code in found)
        raise DataError(
            "the training rows of the task have fewer than two labels, so there is nothing to learn",
            where=f"task {quote(task.name)}",
            got=f"{len(train):,} training rows, labels: {names or 'none'}",
            todo="leave the task out, or give it rows of another label",
        )
    if not pooled and needs_valid and not len(valid):
        train, valid = hold_out(task, train, seed=seed)
    # Numbered anew: a label that only test rows have must not change a score.
    seen, codes = np.unique(task.label_codes[np.concatenate([train, valid])], return_inverse=True)
    n_labels = len(seen)
    items = prepared.items_of(task.name, np.concatenate([train, valid]))
    n_train = len(train)
    if pooled:
        _, first = np.unique(items * n_labels + codes, return_index=True)
        first.sort()  # the order of the rows stays
        n_train = int(np.count_nonzero(first < n_train))
        items, codes = items[first], codes[first]
    order = numpy_generator(seed, "halves", [task.name]).permutation(len(items))
    return TaskRows(task.name, items, codes, n_train, n_labels, order)


def seen_labels(task: Task) -> tuple[str, ...]:
    """Name the labels that rows of train or valid have."""
    return tuple(task.label_names[code] for code in np.unique(task.label_codes[task.rows("train", "valid")]))


def hold_out(task: Task, train: NDArray[np.intp], *, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Part the training rows of a task without valid rows: a fifth of every label that has two or more."""
    shuffled = numpy_generator(seed, "hold out", [task.name]).permutation(train)
    codes = task.label_codes[shuffled]
    held: list[NDArray[np.intp]] = []
    for code in np.unique(codes):
        own = shuffled[codes == code]
        if len(own) > 1:
            held.append(own[: max(1, len(own) // 5)])
    if not held:
        raise DataError(
            "the task has no valid rows, and one training row a label, so nothing can be held out",
            where=f"task {quote(task.name)}",
            todo="give it valid rows, leave it out, or measure another kind than 'accuracy'",
        )
    valid = np.sort(np.concatenate(held))
    return np.setdiff1d(train, valid), valid


def make_plan(
    tasks: TaskSet,
    prepared: PreparedTasks,
    pairs: PairList,
    *,
    settings: TransferSettings,
    seed: int,
) -> TransferPlan:
    """Put together what the units of work need; of the inputs, those of train and valid alone.

    Raises
    ------
    DataError
        If a task has too few labels, or identical label sets were asked for and are not there.
    """
    names_of = {seen_labels(task): task.name for task in tasks}
    if settings.label_sets == "identical" and len(names_of) > 1:
        first, second = list(names_of.values())[:2]
        raise DataError(
            "the tasks have different label sets, so a model cannot be used on another task as it is",
            got=f"{quote(first)} and {quote(second)} differ",
            todo="measure with label_sets='auto'",
        )
    if settings.train_layer is False and isinstance(prepared.inputs, WordInputs):
        raise UsageError(
            "words cannot be measured without a trained layer",
            got="train_layer=False",
            expected="'auto' or True with the encoder 'cnn'",
        )
    identical = settings.kind == "accuracy" and settings.label_sets != "different" and len(names_of) == 1
    rows = [
        find_rows(task, prepared, pooled=settings.is_left_out, needs_valid=not identical, seed=seed)
        for task in tasks
    ]
    used, places = np.unique(np.concatenate([each.items for each in rows]), return_inverse=True)
    ends = np.cumsum([len(each.items) for each in rows])[:-1]
    renumbered = tuple(
        replace(each, items=items) for each, items in zip(rows, np.split(places, ends), strict=True)
    )
    return TransferPlan(renumbered, prepared.inputs.take(used), pairs, settings, identical, seed)

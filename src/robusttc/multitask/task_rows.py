"""The rows of tasks as models take them: items among the frozen inputs, and labels as numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import PreparedTasks
from robusttc.errors import DataError, quote
from robusttc.multitask.folds import deal_folds
from robusttc.multitask.joint import TaskPart

__all__ = ["check_learnable", "deal_all_folds", "make_part", "make_parts"]

Numbers = NDArray[np.int64]


def check_learnable(tasks: TaskSet) -> None:
    """Refuse tasks that no classifier can be fitted to.

    Raises
    ------
    DataError
        If there are no tasks, or one does not have training rows of two labels.
    """
    if len(tasks) == 0:
        raise DataError("there are no tasks to train on", expected="at least one task")
    for task in tasks:
        rows = task.rows("train")
        found = np.unique(task.label_codes[rows])
        if len(found) < 2:
            raise DataError(
                "the task cannot be learned",
                where=f"task {quote(task.name)}",
                got=f"{len(rows):,} training rows, all of label {quote(task.label_names[found[0]])}"
                if len(found)
                else "no training rows",
                expected="training rows of at least two labels",
                todo="add rows of another label, or leave the task out",
            )


def make_part(task: Task, prepared: PreparedTasks, rows: NDArray[np.intp] | None = None) -> TaskPart:
    """Give what training sees of a task: the given rows, else all in ``train``, and those in ``valid``."""
    train = task.rows("train") if rows is None else rows
    valid = task.rows("valid")
    return TaskPart(
        task.name,
        len(task.label_names),
        prepared.items_of(task.name, train),
        task.label_codes[train].astype(np.int64),
        prepared.items_of(task.name, valid),
        task.label_codes[valid].astype(np.int64),
        task.label_names,
    )


def make_parts(tasks: TaskSet, prepared: PreparedTasks) -> dict[str, TaskPart]:
    """Give what training sees of every task, by name."""
    return {task.name: make_part(task, prepared) for task in tasks}


def deal_all_folds(tasks: TaskSet, n_folds: int, seed: int) -> Mapping[str, Numbers]:
    """Give the fold of every row of every task; see `robusttc.multitask.folds.deal_folds`."""
    return {task.name: deal_folds(task, n_folds, seed) for task in tasks}

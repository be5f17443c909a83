"""Clusters as the learners take them: one number a task, checked; and random ones of the same sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import TaskSet
from robusttc.errors import DataError, UnknownTaskError, UsageError, quote
from robusttc.random import numpy_generator

__all__ = ["check_groups", "members", "random_groups_like"]


def check_groups(tasks: TaskSet, labels: ArrayLike | Mapping[str, int]) -> NDArray[np.int64]:
    """Give the cluster of every task, in the order of the tasks.

    Parameters
    ----------
    tasks
        The tasks.
    labels
        One whole number a task, in the order of the tasks, as in `RobustTaskClustering.labels_`; or by name,
        where names of tasks that are not in `tasks` are an error. Equal numbers mean one cluster, except -1:
        a task with -1 is in no cluster.

    Raises
    ------
    UsageError
        If there is not one number a task, or a value is not a whole number from -1 up.
    DataError
        If, by name, a task has no cluster or a name is not that of a task.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["hi"], ["x"]), Task("b", ["ho"], ["x"])])
    >>> check_groups(tasks, {"b": 0, "a": 3}).tolist(), check_groups(tasks, [1, -1]).tolist()
    ([3, 0], [1, -1])
    """
    values = order_by_name(tasks, labels) if isinstance(labels, Mapping) else labels
    try:
        numbers = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise UsageError(
            "the clusters cannot be read", got=str(error), expected="one whole number a task"
        ) from error
    if numbers.ndim != 1 or len(numbers) != len(tasks):
        raise UsageError(
            "there is not one cluster a task",
            got=f"clusters of shape {numbers.shape} for {len(tasks):,} tasks",
            expected="one whole number a task, in the order of the tasks",
            todo="or give a dictionary of clusters by the names of the tasks",
        )
    if len(numbers) == 0:
        return np.zeros(0, dtype=np.int64)
    is_whole = numbers.dtype.kind in "iu" or (
        numbers.dtype.kind == "f" and bool(np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all())
    )
    if not is_whole or float(numbers.min()) < -1 or float(numbers.max()) >= 2**62:
        wrong = [
            place
            for place, number in enumerate(numbers.tolist())
            if isinstance(number, bool | str) or not is_group_number(number)
        ]
        where = f"task {quote(tasks.names[wrong[0]])}" if wrong else None
        raise UsageError(
            "a cluster is not a whole number",
            where=where,
            got=quote(numbers.tolist()[wrong[0]]) if wrong else str(numbers.dtype),
            expected="a whole number from 0 up, or -1 for a task that is in no cluster",
        )
    return numbers.astype(np.int64)


def is_group_number(number: object) -> bool:
    """Tell whether a single value can be the number of a cluster."""
    return isinstance(number, int | float) and -1 <= number < 2**62 and float(number).is_integer()


def order_by_name(tasks: TaskSet, labels: Mapping[str, int]) -> list[int]:
    """Put clusters that are given by name into the order of the tasks."""
    for name in labels:
        if name not in tasks:
            raise UnknownTaskError(name, tasks.names)
    for name in tasks.names:
        if name not in labels:
            raise DataError(
                "a task has no cluster",
                where=f"task {quote(name)}",
                expected="one cluster a task",
                todo="give -1 to a task that is in no cluster",
            )
    return [labels[name] for name in tasks.names]


def random_groups_like(labels: ArrayLike, seed: int, draw: int = 0) -> NDArray[np.int64]:
    """Draw clusters of the same sizes at random; tasks in no cluster (-1) stay so.

    The draw permutes the given numbers, so it depends on the order of the tasks: sort them by name where
    that must not matter.

    Examples
    --------
    >>> drawn = random_groups_like([0, 0, 1, -1, 1, 1], seed=0)
    >>> sorted(drawn.tolist()), int(drawn[3])
    ([-1, 0, 0, 1, 1, 1], -1)
    """
    numbers = np.array(labels, dtype=np.int64)
    inside = np.flatnonzero(numbers >= 0)
    generator = numpy_generator(seed, "random clusters", [str(draw)])
    numbers[inside] = numbers[inside][generator.permutation(len(inside))]
    return numbers


def members(names: Sequence[str], labels: ArrayLike) -> dict[int, tuple[str, ...]]:
    """Give the names of the tasks of every cluster, by its number in ascending order.

    Tasks that are in no cluster (-1) are left out.

    Examples
    --------
    >>> members(["a", "b", "c", "d"], [1, 0, 1, -1])
    {0: ('b',), 1: ('a', 'c')}
    """
    numbers = np.asarray(labels, dtype=np.int64)
    if len(numbers) != len(names):
        raise UsageError(
            "there is not one cluster a task", got=f"{len(numbers):,} clusters for {len(names):,} tasks"
        )
    return {
        cluster: tuple(names[place] for place in np.flatnonzero(numbers == cluster).tolist())
        for cluster in sorted(set(numbers[numbers >= 0].tolist()))
    }

"""Which tasks of a run can be learned; the others are set aside with the reason, and stop nobody."""

from __future__ import annotations

from dataclasses import dataclass

from robusttc.data import TaskSet
from robusttc.errors import DataError, UsageError
from robusttc.multitask import check_learnable
from robusttc.run.settings import FitSettings
from robusttc.transfer import choose_pairs

__all__ = ["Learnable", "sort_tasks"]


@dataclass(frozen=True, slots=True)
class Learnable:
    """Tasks, parted.

    Attributes
    ----------
    tasks
        Those that can be learned, in the order of their names: the order of files means nothing.
    set_aside
        Why each of the others cannot, by name.
    """

    tasks: TaskSet
    set_aside: dict[str, str]


def sort_tasks(tasks: TaskSet, configuration: FitSettings) -> Learnable:
    """Part tasks into those that can be learned and the others; the private ones are marked.

    Raises
    ------
    UnknownTaskError
        If a private task is not there.
    UsageError
        If there are fewer tasks than clusters, or not so many pairs of them.
    DataError
        If no task can be learned.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("b", ["hi", "bye"], ["x", "y"]), Task("a", ["hi"], ["x"])])
    >>> found = sort_tasks(tasks, FitSettings())
    >>> found.tasks.names, found.set_aside["a"].partition(";")[0]
    (('b',), "task 'a': the task cannot be learned")
    """
    tasks = tasks.keep_private(configuration.private)
    names: list[str] = []
    set_aside: dict[str, str] = {}
    for task in sorted(tasks, key=lambda task: task.name):
        try:
            check_learnable(TaskSet([task]))
        except DataError as error:
            set_aside[task.name] = str(error)
        else:
            names.append(task.name)
    if not names:
        first = next(iter(set_aside.values()), "there are no tasks")
        raise DataError("no task can be learned", got=f"{len(set_aside):,} tasks, the first: {first}")
    learnable = tasks.subset(names)
    shared = learnable.shareable().names
    n_shared = len(shared)
    if isinstance(configuration.pairs, int) and n_shared > 1:
        # Refuses a number that these tasks cannot have, before a run is begun with it.
        choose_pairs(shared, configuration.pairs, random_state=configuration.seed)
    if configuration.clusters != "auto" and configuration.clusters > n_shared:
        raise UsageError(
            "there are fewer tasks than clusters",
            got=f"clusters {configuration.clusters:,}",
            expected=f"at most {n_shared:,}, the number of tasks that can be learned and may share",
        )
    return Learnable(learnable, set_aside)

"""A set of tasks: ordered, unique names, immutable."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from robusttc.data.task import Task
from robusttc.errors import DataError, UnknownTaskError, quote

__all__ = ["TaskSet"]


class TaskSet:
    """An ordered set of tasks with unique names; immutable. Going through it gives the tasks.

    Parameters
    ----------
    tasks
        The tasks, in the order that is to be kept.

    Raises
    ------
    DataError
        If two tasks have the same name.

    Examples
    --------
    >>> tasks = TaskSet([Task("b", ["hi"], ["x"]), Task("a", ["ho"], ["x"])])
    >>> tasks.names, tasks["a"], tasks.same_label_sets
    (('b', 'a'), Task('a', 1 rows, 1 labels), True)
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        by_name: dict[str, Task] = {}
        for task in tasks:
            if task.name in by_name:
                raise DataError("two tasks have the same name", got=quote(task.name), expected="unique names")
            by_name[task.name] = task
        self._by_name = by_name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks, in order."""
        return tuple(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Task:
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            raise UnknownTaskError(name, self.names) from None

    def subset(self, names: Iterable[str]) -> TaskSet:
        """Give the tasks of these names, in this order."""
        return TaskSet(self[name] for name in names)

    def keep_private(self, names: Iterable[str]) -> TaskSet:
        """Give the same tasks in the same order; those of these names may not share (see `Task.may_share`).

        Tasks that may not share already stay so.

        Examples
        --------
        >>> tasks = TaskSet([Task("b", ["hi"], ["x"]), Task("a", ["ho"], ["x"])])
        >>> tasks.keep_private(["b"]).shareable().names
        ('a',)
        """
        private = {self[name].name for name in ([names] if isinstance(names, str) else names)}
        return TaskSet(task.with_sharing(False) if task.name in private else task for task in self)

    def shareable(self) -> TaskSet:
        """Give the tasks that other tasks may learn from, in their order."""
        return TaskSet(task for task in self if task.may_share)

    @property
    def n_rows(self) -> int:
        """The number of rows in all tasks."""
        return sum(len(task) for task in self)

    @cached_property
    def same_label_sets(self) -> bool:
        """Whether all tasks have identical label sets (then a model of one can serve another as it is)."""
        return len({task.label_names for task in self}) <= 1

    @property
    def content_hashes(self) -> dict[str, str]:
        """The content hash of each task, by name."""
        return {task.name: task.content_hash for task in self}

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the content hashes of the tasks, in order."""
        return hashlib.sha256("\n".join(task.content_hash for task in self).encode()).hexdigest()

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, TaskSet):
            return NotImplemented
        return self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __repr__(self) -> str:
        return f"TaskSet({len(self):,} tasks, {self.n_rows:,} rows)"

"""The tasks that a command wants to add: those that are new, those that are there, those that cannot come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robusttc.data import TaskSet
from robusttc.errors import DataError, UsageError, quote
from robusttc.multitask import check_learnable
from robusttc.run.adapted import AdaptedModels
from robusttc.run.identity import hash_task

__all__ = ["NewTasks", "sort_new"]

MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class NewTasks:
    """Tasks to be added, parted.

    Attributes
    ----------
    tasks
        All that are new, in the order of their names, also those that cannot be learned.
    there
        The names of those that the run has with the same rows.
    set_aside
        Why some of the new ones cannot be learned, by name.
    replaced
        Those in whose place one stands that `adapt` made.
    """

    tasks: TaskSet
    there: tuple[str, ...]
    set_aside: dict[str, str]
    replaced: tuple[str, ...]

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every new task, by name."""
        return {task.name: hash_task(task) for task in self.tasks}

    @property
    def learnable(self) -> TaskSet:
        """The new tasks that can be learned."""
        return self.tasks.subset([name for name in self.tasks.names if name not in self.set_aside])


def sort_new(folder: Path, known: Mapping[str, str], tasks: TaskSet, *, replace: bool) -> NewTasks:
    """Part tasks; refuse all that cannot come, in one message.

    Parameters
    ----------
    folder
        The run's folder.
    known
        The tasks that the run has, each with the SHA-256 of its content.
    tasks
        What is to be added.
    replace
        Whether tasks may take the place of those that `adapt` made.

    Raises
    ------
    UsageError
        If a name is taken; it lists every such name.
    DataError
        If there is something new, and nothing of it can be learned.
    """
    adapted = AdaptedModels(folder)
    ordered = sorted(tasks, key=lambda task: task.name)
    there = tuple(task.name for task in ordered if known.get(task.name) == hash_task(task))
    taken = [task.name for task in ordered if task.name in known and task.name not in there]
    used = [task.name for task in ordered if task.name not in known and adapted.has(task.name)]
    problems = [
        f"{quote(name)} is in the run with other rows, or private where this is not" for name in taken
    ]
    if not replace:
        problems += [f"{quote(name)} was made by robusttc adapt" for name in used]
    if problems:
        refuse(folder, problems, has_taken=bool(taken), has_used=bool(used) and not replace)
    new = TaskSet(task for task in ordered if task.name not in known)
    set_aside: dict[str, str] = {}
    for task in new:
        try:
            check_learnable(TaskSet([task]))
        except DataError as error:
            set_aside[task.name] = str(error)
    if len(new) and len(set_aside) == len(new):
        first = next(iter(set_aside.values()))
        raise DataError("no new task can be learned", got=f"{len(new):,} tasks, the first: {first}")
    return NewTasks(new, there, set_aside, tuple(used))


def refuse(folder: Path, problems: list[str], *, has_taken: bool, has_used: bool) -> None:
    """Say which names are taken, and what to do."""
    lines = [f"  {line}" for line in problems[:MAX_LISTED]]
    if len(problems) > MAX_LISTED:
        lines.append(f"  … and {len(problems) - MAX_LISTED:,} more")
    todo = []
    if has_taken:
        todo.append("give it another name, or take the old one out first with: robusttc remove")
    if has_used:
        todo.append("put it in the place of the adapted one with --replace")
    lines.append(f"What to do: {'; '.join(todo)}")
    what = f"{len(problems):,} names are taken:" if len(problems) > 1 else "a name is taken:"
    raise UsageError("\n".join([what, *lines]), where=repr(str(folder)))

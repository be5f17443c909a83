"""The seam of all encoders: a frozen part that is computed once, and what it hands to the trained part.

An encoder, as transfer, multi-task and few-shot learning see it, is three things on top of each other:

* a *frozen part*, the same for all tasks: it turns every distinct input into `FrozenInputs` (word numbers
  with their vectors, or one vector an input), once;
* a *trained layer*, one a task or one a cluster: it maps them to a representation;
* a *classifier* on the representation, one a task.

This module is about the first; `robusttc.encoders.layer` is about the second. The frozen part knows nothing
of labels, so one computed on all rows tells nothing about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet, Vocabulary
from robusttc.encoders.inputs import FrozenInputs
from robusttc.errors import UnknownTaskError
from robusttc.progress import Progress

__all__ = ["Encoder", "PreparedTasks", "distinct_texts"]


@dataclass(frozen=True)
class PreparedTasks:
    """The frozen part of all rows of a set of tasks, every distinct text once.

    Attributes
    ----------
    inputs
        What the frozen part made of the distinct texts.
    items
        For every task, by its name, the item of `inputs` that belongs to each of its rows; -1 for rows that
        were not asked for.
    vocabulary
        The words behind word numbers, for reading new texts; None where the inputs are not words.
    """

    inputs: FrozenInputs
    items: dict[str, NDArray[np.int64]]
    vocabulary: Vocabulary | None = None

    def items_of(self, task: str, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Give the items of some rows of a task."""
        if task not in self.items:
            raise UnknownTaskError(task, tuple(self.items))
        return self.items[task][rows]

    def inputs_of(self, task: str, rows: NDArray[np.intp]) -> FrozenInputs:
        """Give the frozen inputs of some rows of a task, one a row."""
        return self.inputs.take(self.items_of(task, rows))


@runtime_checkable
class Encoder(Protocol):
    """A kind of encoder, with its frozen part.

    Attributes
    ----------
    name
        A short name for people.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """What the frozen inputs depend on besides the texts: equal fingerprints, equal inputs."""

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Compute the frozen part of the rows of some splits, of all tasks; None takes all rows."""


def distinct_texts(
    tasks: TaskSet, splits: Sequence[str] | None = None
) -> tuple[list[str], dict[str, NDArray[np.int64]]]:
    """Give the distinct texts of all tasks, and for each row the place of its text among them.

    They are in the order of their characters: then the order of the tasks changes nothing. With `splits`,
    only rows of these count, and the place of all others is -1.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["yo", "hi"], ["x", "y"]), Task("b", ["hi"], ["z"])])
    >>> texts, items = distinct_texts(tasks)
    >>> texts, items["a"].tolist(), items["b"].tolist()
    (['hi', 'yo'], [1, 0], [0])
    """
    rows = {task.name: np.arange(len(task)) if splits is None else task.rows(*splits) for task in tasks}
    texts = sorted({text for task in tasks for text in task.texts_at(rows[task.name])})
    place_of = {text: place for place, text in enumerate(texts)}
    items: dict[str, NDArray[np.int64]] = {}
    for task in tasks:
        chosen = rows[task.name]
        items[task.name] = np.full(len(task), -1, dtype=np.int64)
        items[task.name][chosen] = [place_of[text] for text in task.texts_at(chosen)]
    return texts, items

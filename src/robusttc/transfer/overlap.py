"""Overlap of texts between tasks: a score that needs no model, as a control and as side information."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.data import TaskSet
from robusttc.errors import DataError, quote

__all__ = ["normalise_text", "text_overlap"]

OTHER_CHARACTERS = re.compile(r"[\W_]+")


def normalise_text(text: str) -> str:
    """Return a text in lower case, with one space for whatever is neither letter nor digit.

    A text without any letter or digit is only stripped.

    Examples
    --------
    >>> normalise_text("Where's my  PARCEL?"), normalise_text(" ?! ")
    ('where s my parcel', '?!')
    """
    return OTHER_CHARACTERS.sub(" ", text.lower()).strip() or text.strip()


def text_overlap(tasks: TaskSet, *, splits: Sequence[str] = ("train", "valid")) -> NDArray[np.float64]:
    """Return, for every source i and target j, the share of j's rows whose text occurs in i.

    Texts are compared after `normalise_text`. The result is not symmetric: a small task can lie within a
    large one. Its diagonal is 1.

    Parameters
    ----------
    tasks
        The tasks, whose order is that of rows and columns.
    splits
        The splits whose rows count, of source and target alike.

    Raises
    ------
    DataError
        If a task has no row in these splits.
    UsageError
        If a task has no such split.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> a = Task("a", ["Hi!", "bye"], ["x", "y"])
    >>> b = Task("b", ["hi", "hi", "hi?", "yes"], ["x", "x", "x", "y"])
    >>> text_overlap(TaskSet([a, b])).tolist()
    [[1.0, 0.75], [0.5, 1.0]]
    """
    number_of: dict[str, int] = {}
    numbers: list[int] = []
    ends = [0]
    for task in tasks:
        rows = task.rows(*splits)
        if len(rows) == 0:
            raise DataError(
                "a task has no row to compare",
                where=f"task {quote(task.name)}",
                expected=f"rows in {' or '.join(splits)}",
                todo="leave the task out, or choose other splits",
            )
        texts = (normalise_text(task.texts[row]) for row in rows.tolist())
        numbers += [number_of.setdefault(text, len(number_of)) for text in texts]
        ends.append(len(numbers))
    shape = (len(tasks), len(number_of))
    counts = sparse.csr_array((np.ones(len(numbers)), numbers, ends), shape=shape)
    counts.sum_duplicates()
    return np.asarray((counts.sign() @ counts.T).toarray() / np.diff(ends), dtype=np.float64)

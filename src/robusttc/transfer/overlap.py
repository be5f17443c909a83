"""Plain overlap of texts and of words between tasks: scores that need no model, to hold the others against.

If a trained transfer score does no better than these, it has only found out who shares texts with whom.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.data import Task, TaskSet, Vocabulary
from robusttc.errors import DataError, quote

__all__ = ["normalise_text", "text_overlap", "word_overlap"]

Matrix = NDArray[np.float64]

SPLITS = ("train", "valid")
OTHER_CHARACTERS = re.compile(r"[\W_]+")


def normalise_text(text: str) -> str:
    """Bring a text to lower case, with one space for whatever is neither letter nor digit.

    A text without any letter or digit stays as it is, without the space around it.

    Examples
    --------
    >>> normalise_text("Where's my  PARCEL?"), normalise_text(" ?! ")
    ('where s my parcel', '?!')
    """
    return OTHER_CHARACTERS.sub(" ", text.lower()).strip() or text.strip()


def text_overlap(tasks: TaskSet, *, splits: Sequence[str] = SPLITS) -> Matrix:
    """Give, for every source i and target j, the share of j's rows whose text occurs in i.

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
    >>> a = Task("a", ["Hi!", "bye"], ["x", "y"])
    >>> b = Task("b", ["hi", "hi", "hi?", "yes"], ["x", "x", "x", "y"])
    >>> text_overlap(TaskSet([a, b])).tolist()
    [[1.0, 0.75], [0.5, 1.0]]
    """
    number_of: dict[str, int] = {}
    columns = [
        [number_of.setdefault(normalise_text(text), len(number_of)) for text in chosen_texts(task, splits)]
        for task in tasks
    ]
    counts = count_matrix(columns, len(number_of))
    occurs = counts.sign()
    shares = (occurs @ counts.T).toarray() / np.array([len(column) for column in columns])
    return np.asarray(shares, dtype=np.float64)


def word_overlap(tasks: TaskSet, *, splits: Sequence[str] = SPLITS) -> Matrix:
    """Give the cosine between the words of every two tasks, weighted by tf-idf; symmetric, 1 on the diagonal.

    A task is the bag of all its words (lower-cased tokens). A word that d of the n tasks have gets the weight
    ``log((1 + n) / (1 + d)) + 1``, as in scikit-learn.

    Parameters
    ----------
    tasks
        The tasks, whose order is that of rows and columns.
    splits
        The splits whose rows count.

    Raises
    ------
    DataError
        If a task has no row in these splits.
    UsageError
        If a task has no such split.

    Examples
    --------
    >>> a = Task("a", ["pay the bill", "hello"], ["x", "y"])
    >>> b = Task("b", ["pay my bill"], ["x"])
    >>> c = Task("c", ["rain"], ["x"])
    >>> word_overlap(TaskSet([a, b, c])).round(2).tolist()
    [[1.0, 0.44, 0.0], [0.44, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    texts = [chosen_texts(task, splits) for task in tasks]
    vocabulary = Vocabulary.build(tasks, splits=list(splits))
    counts = count_matrix([vocabulary.encode(rows).ids for rows in texts], len(vocabulary))
    n_tasks_of_word = np.asarray(counts.sign().sum(axis=0)).ravel()
    weights = np.log((1 + len(tasks)) / (1 + n_tasks_of_word)) + 1
    weighted = counts @ sparse.diags_array(weights)
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    # A task whose texts have no token at all is like nothing but itself.
    unit = sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ weighted
    cosines = np.asarray((unit @ unit.T).toarray(), dtype=np.float64)
    np.fill_diagonal(cosines, 1.0)
    return np.clip(cosines, 0.0, 1.0)


def chosen_texts(task: Task, splits: Sequence[str]) -> list[str]:
    """Give the texts of some splits of a task; there must be one."""
    rows = task.rows(*splits)
    if len(rows) == 0:
        raise DataError(
            "a task has no row to compare",
            where=f"task {quote(task.name)}",
            expected=f"rows in {' or '.join(splits)}",
            todo="leave the task out, or choose other splits",
        )
    return list(task.texts_at(rows))


def count_matrix(columns: Sequence[Sequence[int] | NDArray[np.int32]], width: int) -> sparse.csr_array:
    """Count the numbers of each row: shape (rows, width)."""
    ends = np.cumsum([0, *(len(column) for column in columns)])
    numbers = np.concatenate([np.asarray(column, dtype=np.int64) for column in columns])
    counts = sparse.csr_array((np.ones(len(numbers)), numbers, ends), shape=(len(columns), width))
    counts.sum_duplicates()
    return counts

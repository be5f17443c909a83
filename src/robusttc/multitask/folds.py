"""Folds within the training rows of a task: every model is judged on rows that it has not seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.errors import UsageError, quote
from robusttc.random import numpy_generator

__all__ = ["deal_folds"]


def deal_folds(task: Task, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Give the fold of every row, for cross-validation within ``train``.

    Rows of a label are dealt out like cards, so the folds have as many of each label as can be, give or take
    one, and are of equal size, give or take one. The only row of a label is in no fold (-1): held out, no
    model could know its label; it is always trained on. Rows that have the same text and label are dealt
    together: a copy of a held-out row in training would flatter the model. Rows of other splits have -1.

    Parameters
    ----------
    task
        The task; only its rows in ``train`` are dealt.
    n_folds
        How many folds.
    seed
        Of the dealing; the name of the task and its labels count too.

    Raises
    ------
    UsageError
        If there are fewer than two folds.

    Examples
    --------
    >>> task = Task("a", ["one", "two", "three", "four", "five"], ["x", "x", "x", "x", "y"])
    >>> folds = deal_folds(task, 2, seed=0)
    >>> sorted(folds[:4].tolist()), int(folds[4])
    ([0, 0, 1, 1], -1)
    """
    if not isinstance(n_folds, int) or isinstance(n_folds, bool) or n_folds < 2:
        raise UsageError("n_folds cannot be used", got=quote(n_folds), expected="an integer from 2 up")
    folds = np.full(len(task), -1, dtype=np.int64)
    train = task.rows("train")
    sizes = np.zeros(n_folds, dtype=np.int64)
    for code, label in enumerate(task.label_names):
        rows = train[task.label_codes[train] == code]
        number_of_text: dict[str, int] = {}
        numbers = np.array(
            [number_of_text.setdefault(text, len(number_of_text)) for text in task.texts_at(rows)],
            dtype=np.int64,
        )
        n_texts = len(number_of_text)
        if n_texts < 2:
            continue
        generator = numpy_generator(seed, "folds", [task.name, label])
        order = generator.permutation(n_texts)
        # Among folds of equal size chance decides, or the first folds would get all small labels.
        preference = np.lexsort((generator.random(n_folds), sizes))
        fold_of_text = np.empty(n_texts, dtype=np.int64)
        fold_of_text[order] = preference[np.arange(n_texts) % n_folds]
        folds[rows] = fold_of_text[numbers]
        sizes += np.bincount(folds[rows], minlength=n_folds)
    return folds

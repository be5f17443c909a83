"""The few-shot protocol of the paper, and what a support set must be.

Some tasks are targets, the rest are sources. Of a target's training rows a few are kept: one per label and
twenty more. A target has no validation rows; whatever is to be tuned is tuned on validation tasks, which are
drawn among the sources and treated as if they were targets.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from robusttc.data import SPLITS, Task, TaskSet
from robusttc.errors import DataError, DoubtWarning, UsageError, quote
from robusttc.params import Integer, check_params
from robusttc.random import RandomState, numpy_generator, run_seed

__all__ = [
    "EXTRA_ROWS",
    "check_support",
    "choose_targets",
    "choose_validation_tasks",
    "few_shot_rows",
    "make_few_shot",
    "pick_rows",
]

# The paper's setting: one row per label, and twenty more.
EXTRA_ROWS = 20


def choose_targets(tasks: TaskSet, n: int, *, random_state: RandomState = 0) -> tuple[str, ...]:
    """Draw the names of target tasks, in the order of `tasks`.

    The draw depends on the set of names, not on the order of the tasks.

    Raises
    ------
    UsageError
        If `n` is not between 1 and the number of tasks less one: a source must be left.

    Examples
    --------
    >>> tasks = TaskSet(Task(name, ["hi", "bye"], ["x", "y"]) for name in ("a", "b", "c", "d"))
    >>> len(choose_targets(tasks, 2)), choose_targets(tasks, 2) == choose_targets(tasks, 2)
    (2, True)
    """
    return draw_names(tasks, n, stage="few-shot targets", random_state=random_state)


def choose_validation_tasks(tasks: TaskSet, n: int, *, random_state: RandomState = 0) -> tuple[str, ...]:
    """Draw validation tasks among the source tasks, as `choose_targets` does, with draws of their own.

    Examples
    --------
    >>> tasks = TaskSet(Task(name, ["hi", "bye"], ["x", "y"]) for name in ("a", "b", "c"))
    >>> len(choose_validation_tasks(tasks, 1))
    1
    """
    return draw_names(tasks, n, stage="few-shot validation tasks", random_state=random_state)


def draw_names(tasks: TaskSet, n: int, *, stage: str, random_state: RandomState) -> tuple[str, ...]:
    """Draw some names of a set of tasks, whatever its order."""
    if not Integer(1, len(tasks) - 1).accepts(n):
        raise UsageError(
            "so many tasks cannot be drawn",
            got=quote(n),
            expected=f"an integer from 1 to {len(tasks) - 1}: of {len(tasks)} tasks one must be left",
        )
    names = sorted(tasks.names)
    order = numpy_generator(run_seed(random_state), stage).permutation(len(names))
    drawn = {names[place] for place in order[:n]}
    return tuple(name for name in tasks.names if name in drawn)


def few_shot_rows(
    task: Task, *, per_label: int = 1, extra: int = EXTRA_ROWS, random_state: RandomState = 0
) -> NDArray[np.intp]:
    """Draw the few rows of ``train`` that a target keeps: some per label, and some more.

    The default is the paper's (one per label plus 20); ``per_label=5, extra=0`` is five-shot. Where there are
    fewer rows than that, all of them are taken. The draw depends on the seed and the task's name.

    Parameters
    ----------
    task
        The target task.
    per_label
        How many rows of each label are kept at the least.
    extra
        How many more, drawn among all rows that are left.
    random_state
        The seed.

    Returns
    -------
    numpy.ndarray
        Row numbers of the task, ascending.

    Raises
    ------
    DataError
        If the task has no training rows.
    UsageError
        If a number is negative, or both are 0.

    Examples
    --------
    >>> task = Task("a", ["hi", "hello", "bye", "ciao"], ["x", "x", "y", "y"])
    >>> len(few_shot_rows(task, extra=0)), few_shot_rows(task).tolist()
    (2, [0, 1, 2, 3])
    """
    check_params(
        {"per_label": per_label, "extra": extra}, {"per_label": (Integer(0),), "extra": (Integer(0),)}
    )
    if per_label == 0 and extra == 0:
        raise UsageError("no rows are to be drawn", expected="per_label or extra above 0")
    rows = task.rows("train")
    if len(rows) == 0:
        raise DataError("the task has no training rows", where=f"task {quote(task.name)}")
    generator = numpy_generator(run_seed(random_state), "few-shot rows", [task.name])
    chosen = pick_rows(task.label_codes[rows], per_label=per_label, extra=extra, generator=generator)
    return np.asarray(np.sort(rows[chosen]), dtype=np.intp)


def pick_rows(
    codes: NDArray[np.integer], *, per_label: int, extra: int, generator: np.random.Generator
) -> NDArray[np.intp]:
    """Draw places in `codes`: the first `per_label` of each label in a random order, then `extra` others.

    Examples
    --------
    >>> codes = np.array([0, 0, 0, 1, 1])
    >>> picked = pick_rows(codes, per_label=1, extra=1, generator=np.random.default_rng(0))
    >>> len(picked), np.unique(codes[picked]).tolist()
    (3, [0, 1])
    """
    order = generator.permutation(len(codes))
    shuffled = codes[order]
    # Stable: within a label the random order is kept, so the place in it is the row's rank in its label.
    by_label = np.argsort(shuffled, kind="stable")
    starts = np.searchsorted(shuffled[by_label], shuffled[by_label])
    rank = np.empty(len(codes), dtype=np.intp)
    rank[by_label] = np.arange(len(codes)) - starts
    is_kept = rank < per_label
    # Shuffled again: which rows are left depends on the first order.
    return np.concatenate([order[is_kept], generator.permutation(order[~is_kept])[:extra]])


def make_few_shot(
    task: Task, *, per_label: int = 1, extra: int = EXTRA_ROWS, random_state: RandomState = 0
) -> Task:
    """Cut a task to the few-shot setting: few training rows, no validation rows, all other rows as they are.

    Raises
    ------
    DataError
        If the task has no training rows.
    UsageError
        If a number cannot be used.

    Examples
    --------
    >>> splits = ["train", "train", "valid", "train"]
    >>> task = Task("a", ["hi", "hey", "yo", "bye"], ["x", "x", "x", "y"], splits)
    >>> make_few_shot(task, extra=0).splits.tolist()
    ['train', 'train']
    """
    rows = few_shot_rows(task, per_label=per_label, extra=extra, random_state=random_state)
    others = [split for split in task.split_names if split not in SPLITS[:2]]
    return task.take(np.sort(np.concatenate([rows, task.rows(*others)])))


def check_support(task: Task, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the label codes of a support set and the names of its labels.

    Codes are numbered anew: a label without a row among these is not known. Rows of one label are refused; a
    text that has two labels is doubted.
    """
    where = f"task {quote(task.name)}"
    present, codes = np.unique(task.label_codes[rows], return_inverse=True)
    if len(present) < 2:
        only = f", all of label {quote(task.label_names[present[0]])}" if len(present) else ""
        raise DataError(
            "the support set cannot be learned from",
            where=where,
            got=f"{len(rows):,} training rows{only}",
            expected="training rows of at least two labels",
            todo="add rows of another label",
        )
    first: dict[str, int] = {}
    for text, code in zip(task.texts_at(rows), codes.tolist(), strict=True):
        if first.setdefault(text, code) != code:
            names = [task.label_names[present[number]] for number in (first[text], code)]
            warnings.warn(
                f"{where}: the text {quote(text)} stands under two labels, {quote(names[0])} and "
                f"{quote(names[1])}; all rows are used as they are",
                DoubtWarning,
                stacklevel=3,
            )
            break
    return codes.astype(np.int64), tuple(task.label_names[code] for code in present)

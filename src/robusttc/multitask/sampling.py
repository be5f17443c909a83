"""Which rows an epoch of joint training sees, so that big tasks do not drown small ones.

Of a task with n rows an epoch sees about `share` of n, with n raised to a power below 1 where big tasks are
to be held back; within it a row of a label with m rows counts 1 / m^balance. Rows are drawn by systematic
sampling: a row that should be seen 2.3 times is seen twice or three times, never otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_rows", "expected_counts", "make_steps"]

Numbers = NDArray[np.int64]


def expected_counts(codes: Numbers, *, balance: float, power: float, cap: int) -> NDArray[np.float64]:
    """Give how often an epoch sees each row of a task, on average.

    Parameters
    ----------
    codes
        The label of every row.
    balance
        How much labels are evened out: 0 takes them as they are, with 1 every label is seen alike.
    power
        How much tasks are evened out: a task of n rows has cap * (n / cap)^power of them seen if it has more
        than `cap`, else all.
    cap
        The number of rows above which a task is held back.

    Examples
    --------
    >>> expected_counts(np.array([0, 0, 0, 1]), balance=1.0, power=0.5, cap=100).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    n_rows = len(codes)
    n_seen = n_rows if n_rows <= cap else cap * (n_rows / cap) ** power
    shares = 1.0 / np.bincount(codes)[codes].astype(np.float64) ** balance
    return np.asarray(shares * (n_seen / shares.sum()), dtype=np.float64)


def draw_rows(counts: NDArray[np.float64], generator: np.random.Generator) -> Numbers:
    """Draw rows so that each is there as often as it should be, up to rounding; in random order.

    Examples
    --------
    >>> from robusttc.random import numpy_generator
    >>> rows = draw_rows(np.array([1.0, 2.0, 0.5, 0.5]), numpy_generator(0, "rows"))
    >>> np.bincount(rows, minlength=4)[:2].tolist(), len(rows)
    ([1, 2], 4)
    """
    order = generator.permutation(len(counts))
    ends = np.floor(np.cumsum(counts[order]) + generator.random() + 1e-9).astype(np.int64)
    return generator.permutation(np.repeat(order, np.diff(ends, prepend=0)))


def make_steps(
    drawn: Sequence[Numbers], *, rows_a_task: int, tasks_a_step: int, generator: np.random.Generator
) -> Iterator[tuple[Numbers, list[Numbers]]]:
    """Deal an epoch's rows into steps: the tasks of a step in rising order, and the rows of each.

    The rows of a task are cut into parts of at most `rows_a_task`; the parts of all tasks are shuffled, and a
    step takes `tasks_a_step` of them. Parts of the same task that meet are put together.
    """
    parts = [(task, start) for task, rows in enumerate(drawn) for start in range(0, len(rows), rows_a_task)]
    order = generator.permutation(len(parts))
    for first in range(0, len(parts), tasks_a_step):
        by_task: dict[int, list[Numbers]] = {}
        for number in order[first : first + tasks_a_step]:
            task, start = parts[number]
            by_task.setdefault(task, []).append(drawn[task][start : start + rows_a_task])
        tasks = sorted(by_task)
        yield (
            np.array(tasks, dtype=np.int64),
            [np.concatenate(by_task[task]) for task in tasks],
        )

"""Splitting rows into train, valid and test where the data does not say."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.data.task import SPLITS
from robusttc.random import numpy_generator

__all__ = ["SHARES", "split_rows"]

SHARES = (0.64, 0.16, 0.20)  # of train, valid, test


def split_rows(task_name: str, texts: Sequence[str], labels: Sequence[str], seed: int) -> list[str]:
    """Split the rows of one task 64/16/20 within each label; every label keeps at least one training row.

    Rows of one label that have the same text stay together, so that splitting plants no copy of a training
    row in test (one text with two labels is a fault of the data, which `inspect` shows). What rounding takes
    from a split in one label it gets back in the next, so a task of many tiny labels still has its share of
    valid and test rows. The result depends on the seed, the name of the task and its rows, on nothing else.

    Examples
    --------
    >>> splits = split_rows("acme", [f"text {i}" for i in range(100)], ["a"] * 100, seed=0)
    >>> splits.count("train"), splits.count("valid"), splits.count("test")
    (64, 16, 20)
    """
    rows_of_label: dict[str, array[int]] = {}
    for row, label in enumerate(labels):
        rows_of_label.setdefault(label, array("q")).append(row)

    splits = [SPLITS[0]] * len(labels)
    owed = np.zeros(len(SPLITS))
    # One label after the other, so that the texts of one alone are there as Python strings.
    for label, rows in sorted(rows_of_label.items()):
        number_of_text: dict[str, int] = {}
        numbers = array("q", (number_of_text.setdefault(texts[row], len(number_of_text)) for row in rows))
        counts, owed = share_out(len(number_of_text), owed)
        order = numpy_generator(seed, "split", [task_name, label]).permutation(len(number_of_text))
        split_of_number = np.empty(len(number_of_text), dtype=np.int8)
        split_of_number[order] = np.repeat(np.arange(len(SPLITS)), counts)
        for row, number in zip(rows, numbers, strict=True):
            splits[row] = SPLITS[split_of_number[number]]
    return splits


def share_out(n_rows: int, owed: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cut `n_rows` into whole numbers near the shares; `owed` carries the rounding from label to label."""
    ideal = n_rows * np.array(SHARES)
    # The small number keeps 0.16 * 100 from being 15.999… and so losing a whole row.
    counts = np.floor(ideal + 1e-9).astype(np.int64)
    owed = owed + ideal - counts
    # Stable, so that equal debts are settled in the order train, valid, test on every machine.
    for split in np.argsort(-owed, kind="stable")[: n_rows - int(counts.sum())]:
        counts[split] += 1
        owed[split] -= 1
    if counts[0] == 0:
        donor = int(np.argmax(counts))
        counts[[0, donor]] += [1, -1]
        owed[[0, donor]] += [-1, 1]
    return counts, owed

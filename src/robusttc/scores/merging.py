"""Putting two sets of scores together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.errors import DataError
from robusttc.scores.checks import sort_columns

if TYPE_CHECKING:
    from robusttc.scores.transfer_scores import TransferScores

__all__ = ["merge_columns"]

# Without them a score says something else, so that nothing can stand in for those that are not there.
BOTH_OR_NEITHER = {"standard_error": "standard errors", "first_half": "halves"}


def merge_columns(one: TransferScores, other: TransferScores) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Give the names and the columns of the scores of both; see `TransferScores.merged_with`.

    A pair that both have is there once where all is equal, and twice where it is not.
    """
    if one.kind != other.kind:
        raise DataError("scores of two kinds cannot be merged", got=f"{one.kind} and {other.kind}")
    for column, plural in BOTH_OR_NEITHER.items():
        if (column in one.columns) != (column in other.columns):
            raise DataError(
                f"only one of the two has {plural}",
                got=f"{plural} of the {'first' if column in one.columns else 'second'} scores",
                todo=f"give both their {plural}, or none",
            )
    names = tuple(dict.fromkeys(one.task_names + other.task_names))
    number_of = {name: number for number, name in enumerate(names)}
    new_number = np.array([number_of[name] for name in other.task_names], dtype=np.int64)
    first: dict[str, Any] = one.columns
    second = {**other.columns, "source": new_number[other.source], "target": new_number[other.target]}
    if ("n_examples" in first) != ("n_examples" in second):
        for columns in (first, second):
            columns.setdefault("n_examples", np.zeros(len(columns["score"]), dtype=np.int64))
    merged = {name: np.concatenate([values, second[name]]) for name, values in first.items()}
    merged = sort_columns(merged, len(names))
    kept = np.zeros(len(merged["score"]), dtype=np.bool_)
    kept[:1] = True
    for values in merged.values():
        kept[1:] |= values[1:] != values[:-1]
    return names, {name: values[kept] for name, values in merged.items()}

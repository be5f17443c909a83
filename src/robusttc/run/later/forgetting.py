"""What a run holds of tasks that go: their units of work, their scores, and their names in what is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from robusttc.errors import quote
from robusttc.jobs import Result, pack, unpack
from robusttc.models import name_tasks
from robusttc.multitask import ADD_STAGE as JOIN
from robusttc.run.records import FinishedUnit
from robusttc.run.similarity import Similarity
from robusttc.run.store import RunStore
from robusttc.run.workers import as_score_rows
from robusttc.transfer import STAGE as TRANSFER

__all__ = ["LEARNING", "find_units", "forget_names", "without_tasks"]

# Units of these depend on all tasks: once one has gone they are done again, under new names.
LEARNING = ("multitask", "fewshot", "evaluate", "cluster", JOIN)
COLUMNS = ("score", "standard_error", "first_half", "second_half", "n_examples")


def find_units(
    store: RunStore, names: Iterable[str], *, kept: Iterable[str] | None = None
) -> tuple[list[str], list[FinishedUnit]]:
    """Find the units that hold something of tasks that go.

    Parameters
    ----------
    store
        The run.
    names
        The tasks.
    kept
        The names under which learning was done again without them: all other units of learning go. None
        where nobody learned from these tasks, so that only their own units go.

    Returns
    -------
    gone, changed
        The keys of units to be removed, and units of scores without those of the tasks.
    """
    gone_tasks = set(names)
    own = {f"/{name_tasks([name])}" for name in gone_tasks}
    names_kept = None if kept is None else tuple(kept)
    gone: list[str] = []
    changed: list[FinishedUnit] = []
    for key in store.unit_keys():
        stage = key.partition("/")[0]
        if stage == TRANSFER:
            content = store.find([key]).get(key)
            if content is None:  # it failed
                continue
            payload = unpack(content, where=key)
            if payload.values["source"] in gone_tasks:
                gone.append(key)
            elif mentions(payload, gone_tasks):
                unit = without_targets(key, payload, gone_tasks)
                if unit is None:
                    gone.append(key)
                else:
                    changed.append(unit)
        elif stage in LEARNING:
            is_old = names_kept is not None and not any(f"/{name}" in key for name in names_kept)
            # Units of one task are its own: those of a task that came later, or may not share.
            if is_old or any(key.endswith(ending) for ending in own):
                gone.append(key)
    return gone, changed


def mentions(payload: Result, names: set[str]) -> bool:
    """Tell whether the scores of a source are also about some tasks."""
    failed = {name for name, _ in payload.values["failed"]}
    return bool(names & ({*payload.values["targets"]} | failed))


def without_targets(key: str, payload: Result, names: set[str]) -> FinishedUnit | None:
    """Give a unit of scores without some targets; None if nothing is left."""
    values = payload.values
    kept = [place for place, target in enumerate(values["targets"]) if target not in names]
    failed = [pair for pair in values["failed"] if pair[0] not in names]
    if not kept and not failed:
        return None
    less = Result(
        {**values, "targets": [values["targets"][place] for place in kept], "failed": failed},
        {name: payload.arrays[name][kept] for name in COLUMNS},
    )
    return FinishedUnit(stage=TRANSFER, key=key, content=pack(less), scores=as_score_rows(less))


def without_tasks(similarity: Similarity, names: Iterable[str]) -> Similarity:
    """Give the matrices of a clustering without some tasks."""
    gone = set(names)
    kept = np.array(
        [place for place, name in enumerate(similarity.task_names) if name not in gone], dtype=int
    )
    return Similarity(
        tuple(similarity.task_names[place] for place in kept),
        similarity.points[kept],
        similarity.same_group[kept][:, kept],
        similarity.outliers[kept][:, kept],
    )


def forget_names(summary: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Give a summary without the entries of some tasks, and without their names in its sentences.

    The settings are left as they are.

    Examples
    --------
    >>> told = {"added": [{"name": "a"}, {"name": "b"}], "doubts": ["'a' is harmed by 'b'"]}
    >>> forget_names(told, ["a"])
    {'added': [{'name': 'b'}], 'doubts': ["a removed task is harmed by 'b'"]}
    >>> forget_names(told, ["added", "name"]) == told
    True
    """
    gone = set(names)
    # The longest first: a name can have another one in quotes inside it.
    quoted = sorted((quote(name) for name in gone), key=len, reverse=True)

    def is_of_a_task(entry: Any) -> bool:
        return isinstance(entry, Mapping) and any(entry.get(field) in gone for field in ("task", "name"))

    def clean(value: Any) -> Any:
        if isinstance(value, Mapping):
            # No key of a summary is the name of a task, but a task can have the name of a key.
            return {key: clean(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [clean(part) for part in value if not is_of_a_task(part)]
        if isinstance(value, str):
            for name in quoted:
                value = value.replace(name, "a removed task")
        return value

    return {part: value if part == "configuration" else clean(value) for part, value in summary.items()}

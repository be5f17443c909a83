"""The versions of a run: the fit is the first, every later addition or removal of tasks makes the next.

The database has the list; ``versions/0002/`` has the clusters as they were then, and what changed.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from robusttc.errors import StoreError, UsageError, quote
from robusttc.files import explain_disk_errors
from robusttc.formatting import count
from robusttc.run.later.changing import CHANGE, Pending, describe_tasks
from robusttc.run.places import CLUSTERS, VERSIONS
from robusttc.run.records import StageCost
from robusttc.run.store import RunStore

__all__ = [
    "HISTORY",
    "Change",
    "changes_in",
    "partition_place",
    "read_change",
    "read_partition",
    "refuse_later",
    "tell_history",
    "version_folder",
]

Kind = Literal["fit", "add", "remove"]

# The value of the store that lists all changes after the fit.
HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Change:
    """What made one version of a run.

    Attributes
    ----------
    version
        Its number; 1 is the fit.
    kind
        ``fit``, ``add`` or ``remove``.
    when
        When it was begun (of a fit: ended), in seconds since 1970.
    tasks
        The tasks that came, or went.
    sentence
        What changed, in plain words.

    Examples
    --------
    >>> change = Change(2, "add", 0.0, ("acme",), "1 task was added.")
    >>> Change.from_dict(change.to_dict()) == change
    True
    """

    version: int
    kind: Kind
    when: float
    tasks: tuple[str, ...]
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {**asdict(self), "tasks": list(self.tasks)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Change:
        """Make it from what `to_dict` gave."""
        return cls(
            int(values["version"]),
            values["kind"],
            float(values["when"]),
            tuple(values["tasks"]),
            str(values["sentence"]),
        )


def changes_in(store: RunStore) -> tuple[Change, ...]:
    """Give the changes after the fit."""
    return tuple(Change.from_dict(values) for values in store.value(HISTORY, []))


def tell_history(folder: Path, later: Sequence[Change], costs: Sequence[StageCost]) -> tuple[Change, ...]:
    """Give all versions of a finished run, the fit first.

    Parameters
    ----------
    folder
        The run's folder.
    later
        The changes after the fit.
    costs
        What the stages cost: they know when the fit ended.
    """
    partition = read_partition(partition_place(folder, 1, n_versions=1 + len(later)))
    n_clusters = len({number for number in partition.values() if number >= 0})
    sentence = f"The fit, of {count(len(partition), 'task')} in {count(n_clusters, 'cluster')}."
    # Stages that later changes did again end later: the fit ended before the first of them began.
    ends = [cost.ended for cost in costs if cost.ended is not None]
    before = [end for end in ends if not later or end <= later[0].when]
    fit = Change(1, "fit", max(before, default=0.0), tuple(sorted(partition)), sentence)
    return (fit, *later)


def version_folder(folder: Path, version: int) -> Path:
    """Give the folder of a version."""
    return folder / VERSIONS / f"{version:04d}"


def partition_place(folder: Path, version: int, *, n_versions: int) -> Path:
    """Give the file of the clusters of a version.

    Raises
    ------
    UsageError
        If there is no such version.
    """
    is_number = isinstance(version, int) and not isinstance(version, bool)
    if not is_number or not 1 <= version <= n_versions:
        raise UsageError(
            "there is no such version of the run",
            where=repr(str(folder)),
            got=quote(version),
            expected=f"a whole number from 1 to {n_versions:,}",
        )
    return folder / CLUSTERS if version == n_versions else version_folder(folder, version) / CLUSTERS


def read_partition(path: Path) -> dict[str, int]:
    """Read the cluster of every task from a file of clusters; -1 for none.

    Raises
    ------
    StoreError
        If the file cannot be read, or is no such file.
    """
    with explain_disk_errors("the clusters cannot be read", path):
        content = path.read_bytes()
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
        return {row["task"]: int(row["cluster"]) if row["cluster"] else -1 for row in rows}
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise StoreError("the clusters cannot be read", where=repr(str(path)), got=quote(error)) from error


def refuse_later(store: RunStore) -> None:
    """Refuse to fit a run again that has changed since.

    Raises
    ------
    UsageError
        If tasks were added or removed; it names the versions.
    """
    later, pending = changes_in(store), store.value(CHANGE)
    if not later and pending is None:
        return
    said = say_versions(later)
    if pending is not None:
        under_way = Pending.from_dict(pending)
        kind = "adding" if under_way.kind == "add" else "removing"
        begun = f"version {under_way.version} under way: {kind} {describe_tasks(under_way.tasks)}"
        said = f"{said}; {begun}" if said else begun
    raise UsageError(
        "tasks were added to this run or removed since it was fitted",
        where=repr(str(store.folder)),
        got=said,
        todo="fit all tasks in another folder, or use robusttc add and robusttc remove on this one",
    )


def say_versions(changes: Sequence[Change]) -> str:
    """List changes in one line."""
    return "; ".join(f"version {change.version}: {change.sentence.rstrip('.')}" for change in changes)


def read_change(folder: Path, version: int) -> dict[str, Any]:
    """Read all that is known of a change after the fit.

    Raises
    ------
    StoreError
        If it cannot be read.
    """
    path = version_folder(folder, version) / "change.json"
    with explain_disk_errors("what changed cannot be read", path):
        content = path.read_bytes()
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StoreError("what changed cannot be read", where=repr(str(path)), got=quote(error)) from error
    if not isinstance(values, dict):
        raise StoreError("what changed cannot be read", where=repr(str(path)), got="no mapping")
    return values

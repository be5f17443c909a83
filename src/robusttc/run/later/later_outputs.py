"""The files of a new version of a run, made from those of the version before and what has changed."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robusttc.errors import StoreError
from robusttc.files import explain_disk_errors, make_folder, write_file
from robusttc.run.evaluation import Evaluation, TaskFigures
from robusttc.run.later.added_tasks import ADDED
from robusttc.run.later.history import Change, read_partition, version_folder
from robusttc.run.places import CLUSTERS, PAGE, SCORES, SUMMARY, VERSIONS
from robusttc.run.store import RunStore
from robusttc.run.summary import evaluation_of, read_summary
from robusttc.transfer import TransferScores

__all__ = [
    "Row",
    "count_sizes",
    "forget_before",
    "keep_before",
    "read_before",
    "read_now",
    "table_with",
    "with_figures",
    "write_version",
]

HEADER = ("task", "cluster", "confidence", "private", "learned", "quarantined")
CHANGE_FILE = "change.json"
# The summary of the version before, while files are written; hidden, for it is of no version.
BEFORE = ".before"

Row = Mapping[str, str]


def keep_before(folder: Path, version: int) -> None:
    """Put the clusters and the summary aside, as they are now, before anything is written.

    Parameters
    ----------
    folder
        The run's folder.
    version
        The version that is there now.
    """
    place = version_folder(folder, version)
    with explain_disk_errors("the version before cannot be kept", folder):
        clusters, summary = (folder / CLUSTERS).read_bytes(), (folder / SUMMARY).read_bytes()
    write_file(place / CLUSTERS, clusters)
    write_file(folder / VERSIONS / BEFORE / SUMMARY, summary)


def read_before(folder: Path, version: int) -> tuple[dict[str, Any], list[Row]]:
    """Read what `keep_before` has kept: the summary, and the rows of the clusters."""
    rows = read_rows(version_folder(folder, version) / CLUSTERS)
    return read_summary(folder / VERSIONS / BEFORE), rows


def read_now(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """Read the summary and the rows of the clusters as they are now."""
    return read_summary(folder), read_rows(folder / CLUSTERS)


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a table of clusters."""
    with explain_disk_errors("the clusters cannot be read", path):
        content = path.read_bytes()
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def forget_before(folder: Path) -> None:
    """Remove the summary that was put aside."""
    shutil.rmtree(folder / VERSIONS / BEFORE, ignore_errors=True)


def table_with(rows: Iterable[Row], new: Iterable[Row] = (), *, without: Iterable[str] = ()) -> bytes:
    """Write the table of clusters with some rows more, in the order of names, and without some tasks."""
    gone = set(without)
    kept = [row for row in [*rows, *new] if row["task"] not in gone]
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HEADER)
    for row in sorted(kept, key=lambda row: row["task"]):
        writer.writerow([row.get(name, "") for name in HEADER])
    return stream.getvalue().encode()


def with_figures(
    summary: Mapping[str, Any], figures: Sequence[TaskFigures], *, without: Iterable[str] = ()
) -> dict[str, Any]:
    """Give the evaluation of a summary with more tasks, and without some, as values for JSON."""
    gone = {*without, *(one.task for one in figures)}
    kept = [one for one in evaluation_of(summary).tasks if one.task not in gone]
    return Evaluation.of([*kept, *figures]).to_dict()


def count_sizes(summary: dict[str, Any], partition: Mapping[str, int], clustered: Iterable[str]) -> None:
    """Bring the numbers of tasks a cluster in a summary up to date.

    Parameters
    ----------
    summary
        The summary; it is changed.
    partition
        The cluster of every task.
    clustered
        The tasks that were looked at when clusters were made, or a cluster was looked for.
    """
    groups = summary["clusters"]
    if groups is None:
        return
    names = list(clustered)
    numbers = [partition[name] for name in names if partition.get(name, -1) >= 0]
    # A cluster whose last task has gone keeps its number, and has no tasks.
    groups["sizes"] = [
        numbers.count(number) for number in range(max([len(groups["sizes"]) - 1, *numbers]) + 1)
    ]
    groups["n"] = sum(size > 0 for size in groups["sizes"])
    groups["n_without"] = len(names) - len(numbers)


def write_version(
    folder: Path,
    store: RunStore,
    change: Change,
    *,
    summary: Mapping[str, Any],
    table: bytes,
    scores: TransferScores | None,
    details: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the files of a new version; give the summary as it was written.

    Parameters
    ----------
    folder, store
        The run.
    change
        What made the version.
    summary
        Its summary, all but what the books say.
    table
        The table of clusters.
    scores
        All scores; None where there are none.
    details
        What else is to be known of the change.
    """
    place = version_folder(folder, change.version)
    make_folder(place)
    # It is of the version before, and may name who has gone.
    (folder / PAGE).unlink(missing_ok=True)
    before = read_partition(version_folder(folder, change.version - 1) / CLUSTERS)
    write_file(place / CLUSTERS, table)
    after = read_partition(place / CLUSTERS)
    moved = [
        {"task": name, "from": before.get(name), "to": after.get(name)}
        for name in sorted({*before, *after})
        if before.get(name, -2) != after.get(name, -2)
    ]
    told = {**change.to_dict(), "moved": moved, **details}
    write_file(place / CHANGE_FILE, as_text(told))
    if scores is not None:
        with explain_disk_errors("the scores cannot be written", folder / SCORES):
            scores.write_csv(folder / SCORES, owner_only=True)
    write_file(folder / CLUSTERS, table)
    text = as_text(
        {
            **summary,
            "quarantined": [asdict(unit) for unit in store.quarantined()],
            "costs": [asdict(cost) for cost in store.costs()],
        }
    )
    write_file(folder / SUMMARY, text)
    written: dict[str, Any] = json.loads(text)
    return written


def as_text(values: Mapping[str, Any]) -> bytes:
    """Write values as a JSON file."""
    return json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False).encode() + b"\n"


def names_added(summary: Mapping[str, Any]) -> set[str]:
    """Give the names of the tasks that were added after the fit."""
    return {values["name"] for values in summary.get(ADDED, [])}


def refuse_unreadable(folder: Path) -> None:
    """Refuse a run whose former state was not put aside.

    Raises
    ------
    StoreError
        If so.
    """
    if not (folder / VERSIONS / BEFORE / SUMMARY).is_file():
        raise StoreError(
            "what the run was before the change is gone",
            where=repr(str(folder / VERSIONS / BEFORE)),
            todo="bring the folder of the run back from a copy",
        )

"""The files of a finished run beside its models: scores, clusters, summary, and the tasks themselves."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from robusttc.data import TaskSet
from robusttc.files import explain_disk_errors, write_file
from robusttc.run.kept_tasks import KeptTasks
from robusttc.run.learnable import Learnable
from robusttc.run.places import CLUSTERS, SCORES, SUMMARY
from robusttc.run.settings import FitSettings
from robusttc.run.similarity import write_similarity
from robusttc.run.stages import Outcome
from robusttc.run.store import RunStore
from robusttc.run.summary import make_summary

__all__ = ["write_outputs"]


def write_outputs(
    folder: Path,
    store: RunStore,
    tasks: TaskSet,
    found: Learnable,
    configuration: FitSettings,
    outcome: Outcome,
) -> dict[str, Any]:
    """Write the files, each whole or not at all, and give the summary."""
    if outcome.scores is not None:
        with explain_disk_errors("the scores cannot be written", folder / SCORES):
            outcome.scores.write_csv(folder / SCORES, owner_only=True)
    if outcome.groups is not None:
        write_similarity(folder, outcome.groups.similarity)
    KeptTasks(folder).write(tasks)
    write_file(folder / CLUSTERS, table_of_clusters(store, tasks, found, outcome))
    summary = make_summary(store, tasks, configuration, outcome)
    text = json.dumps(summary, ensure_ascii=False, indent=1, allow_nan=False)
    write_file(folder / SUMMARY, text.encode() + b"\n")
    # As whoever reads the file will have it: lists where there were tuples.
    written: dict[str, Any] = json.loads(text)
    return written


def table_of_clusters(store: RunStore, tasks: TaskSet, found: Learnable, outcome: Outcome) -> bytes:
    """Give a row a task: its cluster, how sure, whether it is private, and why something was left out."""
    reasons: dict[str, list[str]] = {}
    for unit in store.quarantined():
        for name in unit.tasks if len(unit.tasks) == 1 else ():
            reasons.setdefault(name, []).append(f"{unit.stage}: {unit.error}")
    groups = outcome.groups
    place_of = {} if groups is None else {name: place for place, name in enumerate(groups.task_names)}
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["task", "cluster", "confidence", "private", "learned", "quarantined"])
    for task in sorted(tasks, key=lambda task: task.name):
        cells = ["", ""]
        if groups is not None and task.name in place_of:
            place = place_of[task.name]
            label = int(groups.labels[place])
            cells = [str(label) if label >= 0 else "", f"{groups.confidence[place]:.4f}"]
        learned = "no" if task.name in found.set_aside else "yes"
        why = "; ".join(reasons.get(task.name, []))
        writer.writerow(
            [task.name, *cells, "no" if task.may_share else "yes", learned, " ".join(why.split())]
        )
    return stream.getvalue().encode()

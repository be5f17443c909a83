"""The report as values: everything that the page shows, and `robusttc report --json` prints.

The form is described in docs/report.md; `VERSION` counts its changes.
"""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.formatting import shell_word
from robusttc.progress import Progress, report
from robusttc.report.data import ReportData, TaskMatrices, find_nearest, find_typical
from robusttc.report.sentences import (
    advise,
    advise_measuring,
    command_path,
    make_title,
    summarise,
    summarise_harm,
)
from robusttc.report.words import describe_clusters
from robusttc.run import Evaluation
from robusttc.stats import Estimate
from robusttc.version import __version__

if TYPE_CHECKING:
    from robusttc.run import Run, TaskFigures

__all__ = ["KINDS", "ReportDocument", "make_document", "write_csv"]

FORMAT, VERSION = "robusttc report", 2
KINDS = ("own", "shared", "cluster", "served")
# A page of 1,500 tasks has a hundred thousand numbers; seven digits are more than any of them deserves.
N_DIGITS = 7
# Beyond this nobody sees single tasks, and the completed matrix alone would take a gigabyte.
MAX_DRAWN = 10_000
MAX_NAMED = 3  # tasks that stand for a cluster where nothing is known of their similarity
OF_QUARANTINED = ("stage", "tasks", "error")
OF_COST = ("stage", "wall_seconds", "cpu_seconds", "peak_bytes", "units")


@dataclass(frozen=True, slots=True, eq=False)
class ReportDocument:
    """A report, before it is a page.

    Attributes
    ----------
    values
        Everything but the matrices, as JSON has it: no NaN, no infinity.
    matrices
        What is drawn; None where tasks were not clustered, or are too many.
    """

    values: dict[str, Any]
    matrices: TaskMatrices | None


def make_document(run: Run, *, title: str | None = None, progress: Progress | None = None) -> ReportDocument:
    """Put together the report of a finished run.

    Parameters
    ----------
    run
        The run; nothing of it changes.
    title
        What the report is called; None makes a title of the run's folder and the date.
    progress
        Called with how far it is.

    Raises
    ------
    StoreError
        If a file of the run is damaged.
    """
    report(progress, "report", 0, 2, "steps", "reading the run")
    data = ReportData(run)
    matrices = data.matrices
    report(progress, "report", 1, 2, "steps", "putting it together")
    measuring, summary = advise_measuring(data), run.summary
    values = {
        "format": FORMAT,
        "version": VERSION,
        "title": title or make_title(run.folder, run.history[-1].when or time.time()),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "robusttc": __version__,
        "run": describe_run(run),
        "headline": {"sentences": summarise(data), "next": advise(data, measuring)},
        "tasks": describe_tasks(data),
        "clusters": list_clusters(data),
        "means": describe_means(run.evaluation),
        "verdicts": {part: (summary[part] or {}).get("verdict") for part in ("multitask", "fewshot")},
        "negative_transfer": describe_harm(data),
        "trust": describe_trust(run, measuring),
        "blocks": {"n": 0} if matrices is None else matrices.block_means(),
        "history": describe_history(run),
        "adapted": list(run.adapted_names),
        "quarantined": [{name: unit[name] for name in OF_QUARANTINED} for unit in run.quarantined],
        "doubts": list(summary["doubts"]),
        "costs": [{name: cost[name] for name in OF_COST} for cost in summary["costs"]],
        "configuration": dict(summary["configuration"]),
        "versions": dict(run.made_with),
    }
    is_drawn = matrices is not None and 2 <= len(matrices.names) <= MAX_DRAWN
    report(progress, "report", 2, 2, "steps")
    return ReportDocument(as_json(values), matrices if is_drawn else None)


def describe_run(run: Run) -> dict[str, Any]:
    """Return how large the run is."""
    tasks, scores = run.tasks, run.scores
    share = None
    if scores is not None and scores.n_tasks > 1:
        share = int(scores.off_diagonal.sum()) / (scores.n_tasks * (scores.n_tasks - 1))
    return {
        "name": run.folder.name,
        "place": shell_word(command_path(run.folder)),
        "version": run.history[-1].version,
        "n_tasks": len(tasks),
        "n_learned": len(run.evaluation.tasks),
        "n_private": len(tasks) - len(tasks.shareable()),
        "n_rows": tasks.n_rows,
        "n_labels": sum(len(task.label_names) for task in tasks),
        "n_scores": None if scores is None else len(scores),
        "kind": None if scores is None else scores.kind,
        "pairs_share": share,
    }


def describe_tasks(data: ReportData) -> list[dict[str, Any]]:
    """Return what is known of every task."""
    run = data.run
    sources = {one.task: [name for name, _ in one.sources] for one in data.negative_transfer}
    nearest = {} if data.matrices is None else find_nearest(data.matrices)
    moves = last_moves(run)
    entries = []
    for name in data.names:
        task, added, cluster = run.tasks[name], run.added.get(name), run.clusters[name]
        entries.append(
            {
                "name": name,
                "cluster": cluster if cluster >= 0 else None,
                "confidence": run.confidence.get(name) if cluster >= 0 else None,
                "private": not task.may_share,
                "learned": name in data.figures,
                "added": None if added is None else added.version,
                "out_of_cluster": added is not None and added.out_of_cluster,
                "why_not": explain_no_cluster(data, name),
                **{f"n_{split}": len(task.rows(split)) for split in ("train", "valid", "test")},
                "n_labels": len(task.label_names),
                **describe_figures(data.figures.get(name)),
                "harmed": name in sources,
                "sources": sources.get(name, []),
                "nearest": nearest.get(name, []),
                "moved": moves.get(name),
                "expected_gain": None if added is None else as_estimate(added.expected_gain),
            }
        )
    return entries


def describe_figures(figures: TaskFigures | None) -> dict[str, Any]:
    """Return what the test rows of a task say."""
    if figures is None:
        nothing: dict[str, Any] = {"accuracy": dict.fromkeys(KINDS), "macro_f1": dict.fromkeys(KINDS)}
        return {**nothing, "gain": None, "novel": None, "seen": None, "confusion": []}
    return {
        "accuracy": {kind: as_estimate(getattr(figures, kind)) for kind in KINDS},
        "macro_f1": {kind: figures.macro_f1.get(kind) for kind in KINDS},
        "gain": as_estimate(figures.gain),
        "novel": as_part(figures.novel),
        "seen": as_part(figures.seen),
        "confusion": [list(entry) for entry in figures.confusion],
    }


def as_part(part: Mapping[str, Estimate]) -> dict[str, Any] | None:
    """Return the accuracies on novel or seen texts; None without such texts."""
    return {kind: as_estimate(part.get(kind)) for kind in (*KINDS, "gain")} if part else None


def explain_no_cluster(data: ReportData, name: str) -> str | None:
    """Say why a task was not learned, or is in no cluster."""
    run = data.run
    if name in run.set_aside:
        return run.set_aside[name]
    if run.clusters[name] >= 0:
        return None
    if not data.is_sharing(name):
        return "It is private: it learns alone, and nobody learns from it."
    if name in run.added and run.added[name].out_of_cluster:
        return "It was compared with every cluster, and none fits."
    if run.similarity is None:
        return "There are no clusters: it takes two tasks that may share and can be compared."
    return "What was measured of it does not say where it belongs."


def find_moves(before: Mapping[str, int], after: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the tasks of both partitions whose cluster is another; None is no cluster.

    >>> find_moves({"a": 0, "b": 1, "gone": 0}, {"a": 0, "b": -1, "new": 0})
    [{'task': 'b', 'from': 1, 'to': None}]
    """
    moved = sorted(name for name in before if name in after and before[name] != after[name])
    number = {-1: None}
    return [
        {
            "task": name,
            "from": number.get(before[name], before[name]),
            "to": number.get(after[name], after[name]),
        }
        for name in moved
    ]


def last_moves(run: Run) -> dict[str, dict[str, Any]]:
    """Return the last move of every task that ever moved."""
    found: dict[str, dict[str, Any]] = {}
    for entry in describe_history(run):
        for move in entry["moved"]:
            found[move["task"]] = {"from": move["from"], "to": move["to"], "version": entry["version"]}
    return found


def describe_history(run: Run) -> list[dict[str, Any]]:
    """Return all versions of the run, each with the tasks that moved."""
    entries: list[dict[str, Any]] = []
    before: Mapping[str, int] = {}
    for change in run.history:
        now = run.partition(change.version)
        entries.append(
            {
                "version": change.version,
                "kind": change.kind,
                "when": round(change.when),
                "tasks": list(change.tasks),
                "sentence": change.sentence,
                "moved": find_moves(before, now),
            }
        )
        before = now
    return entries


def list_clusters(data: ReportData) -> list[dict[str, Any]]:
    """Return what is known of every cluster."""
    run, matrices = data.run, data.matrices
    place_of = {name: place for place, name in enumerate(data.names)}
    members = dict(sorted(data.members().items()))
    described = describe_clusters(run.tasks, members)
    blocks = None if matrices is None else matrices.block_means()
    entries = []
    for number, own in members.items():
        evaluation = Evaluation.of([data.figures[name] for name in own if name in data.figures])
        sure = [run.confidence[name] for name in own if name in run.confidence]
        entry: dict[str, Any] = {
            "number": number,
            "name": described[number].name,
            "size": len(own),
            "tasks": [place_of[name] for name in own],
            "words": described[number].words,
            "labels": described[number].labels,
            "accuracy": {kind: as_estimate(evaluation.means.get(kind)) for kind in KINDS},
            "gain": as_estimate(evaluation.gains.get("served")),
            "within": None,
            "between": None,
            "confidence": float(np.mean(sure)) if sure else None,
            "representatives": own[:MAX_NAMED],
        }
        if matrices is not None and blocks is not None and number in blocks["clusters"]:
            place = int(np.flatnonzero(blocks["clusters"] == number)[0])
            similarity = blocks["completed"][place]
            sizes = np.array([len(members[int(other)]) for other in blocks["clusters"]], dtype=np.float64)
            sizes[place] = 0
            if len(own) > 1:
                entry["within"] = similarity[place]
            if sizes.any():
                entry["between"] = float(similarity @ sizes / sizes.sum())
            entry["representatives"] = find_typical(matrices, number)
        entries.append(entry)
    return entries


def describe_means(evaluation: Evaluation) -> dict[str, Any]:
    """Return the means over tasks: accuracies, gains over the own models, macro-F1, novel and seen texts."""
    means, gains = evaluation.means, evaluation.gains
    return {
        **{kind: as_estimate(means.get(kind)) for kind in KINDS},
        **{f"gain_{kind}": as_estimate(gains.get(kind)) for kind in KINDS if kind != "own"},
        "macro_f1": {kind: as_estimate(evaluation.macro_f1.get(kind)) for kind in KINDS},
        "novel": as_part(evaluation.novel),
        "seen": as_part(evaluation.seen),
        "n_tasks": next((mean.n for mean in means.values()), 0),
    }


def describe_harm(data: ReportData) -> dict[str, Any]:
    """Return who loses by sharing."""
    return {
        "sentence": summarise_harm(data),
        "method": "scores",
        "n_harmed": len(data.negative_transfer),
        "n_gaining": sum(change.above_zero for change, _ in data.changes.values()),
        "n_judged": len(data.changes),
        "tasks": [
            {
                "task": one.task,
                "change": as_estimate(one.change),
                "evidence": one.evidence,
                "sources": [{"task": name, "effect": effect} for name, effect in one.sources],
            }
            for one in data.negative_transfer
        ],
    }


def describe_trust(run: Run, measuring: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far scores, clusters and probabilities can be trusted."""
    clusters: Mapping[str, Any] = run.summary["clusters"] or {}
    return {
        "reliability": None if run.scores is None else asdict(run.scores.reliability()),
        **{name: clusters.get(name) for name in ("certificate", "verdict", "reason")},
        "measure_next": measuring,
        "calibration": run.summary["multitask"].get("trust"),
    }


def write_csv(document: ReportDocument) -> str:
    """Return the table of tasks as CSV: a row a task; shares from 0 to 1, empty where nothing is known."""
    names = {cluster["number"]: cluster["name"] for cluster in document.values["clusters"]}
    rows = [csv_row(task, names) for task in document.values["tasks"]]
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, CSV_HEADER, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


CSV_HEADER = (
    *("task", "cluster", "cluster_name", "confidence", "private", "learned", "labels"),
    *("train_rows", "valid_rows", "test_rows", "own", "shared", "cluster_model", "served"),
    *("macro_f1_own", "macro_f1_served", "novel_rows", "novel_own", "novel_served"),
    *("seen_rows", "seen_own", "seen_served", "gain", "gain_low", "gain_high", "harmed"),
)


def csv_row(task: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Return a row of the table."""
    accuracy, gain = task["accuracy"], task["gain"] or {}
    values: dict[str, Any] = {
        "task": task["name"],
        "cluster": task["cluster"],
        "cluster_name": names.get(task["cluster"]),
        "confidence": task["confidence"],
        "private": task["private"],
        "learned": task["learned"],
        "labels": task["n_labels"],
        **{f"{split}_rows": task[f"n_{split}"] for split in ("train", "valid", "test")},
        **{kind: mean_of(accuracy[kind]) for kind in KINDS if kind != "cluster"},
        "cluster_model": mean_of(accuracy["cluster"]),
        **{f"macro_f1_{kind}": task["macro_f1"][kind] for kind in ("own", "served")},
        "gain": gain.get("mean"),
        "gain_low": gain.get("low"),
        "gain_high": gain.get("high"),
        "harmed": task["harmed"],
    }
    for part in ("novel", "seen"):
        found = task[part] or {}
        values[f"{part}_rows"] = (found.get("served") or {}).get("n", 0)
        values |= {f"{part}_{kind}": mean_of(found.get(kind)) for kind in ("own", "served")}
    return {key: csv_cell(value) for key, value in values.items()}


def csv_cell(value: Any) -> Any:
    """Return a value as it stands in the table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else value


def mean_of(estimate: Mapping[str, Any] | None) -> float | None:
    """Return the mean of an estimate that may not be there."""
    return None if estimate is None else float(estimate["mean"])


def as_estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate as values; None for one without a mean."""
    return None if estimate is None or not math.isfinite(estimate.mean) else estimate.to_dict()


def as_json(value: Any) -> Any:
    """Return a value as JSON can hold it; a number that is not finite becomes None.

    >>> as_json({"a": (np.float64("nan"), np.int64(3)), 4: [1 / 3]})
    {'a': [None, 3], '4': [0.3333333]}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return as_json(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.{N_DIGITS}g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, str) else str(value)

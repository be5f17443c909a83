"""The facts of a finished run, for people and programs: ``summary.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robusttc.data import TaskSet
from robusttc.errors import StoreError, quote
from robusttc.run.evaluation import Evaluation
from robusttc.run.places import SUMMARY
from robusttc.run.settings import FitSettings
from robusttc.run.stages import Outcome
from robusttc.run.store import RunStore
from robusttc.version import __version__

__all__ = ["evaluation_of", "make_summary", "read_summary"]

FORMAT, VERSION = "robusttc run", 1
MAX_BYTES = 2**28


def make_summary(
    store: RunStore, tasks: TaskSet, configuration: FitSettings, outcome: Outcome
) -> dict[str, Any]:
    """Put together what a run found, and what it cost.

    Parameters
    ----------
    store
        What was left out, and the times.
    tasks
        All tasks of the run.
    configuration
        What it was told.
    outcome
        What the stages gave.
    """
    quarantined = [asdict(unit) for unit in store.quarantined()]
    return {
        "format": FORMAT,
        "version": VERSION,
        "robusttc": __version__,
        "configuration": configuration.to_dict(),
        "tasks": {
            "n": len(tasks),
            "n_learned": len(outcome.multitask.task_names_),
            "n_private": len(tasks) - len(tasks.shareable()),
            "n_rows": tasks.n_rows,
        },
        "transfer": None
        if outcome.scores is None
        else {
            "n_scores": len(outcome.scores),
            "kind": outcome.scores.kind,
            "stopped_early": outcome.stopped_early,
        },
        "clusters": describe_groups(outcome),
        "multitask": describe_multitask(outcome),
        "fewshot": describe_fewshot(outcome),
        "evaluation": outcome.evaluation.to_dict(),
        "doubts": list(outcome.doubts),
        "quarantined": quarantined,
        "costs": [asdict(cost) for cost in store.costs()],
    }


def describe_groups(outcome: Outcome) -> dict[str, Any] | None:
    """Say what the clusters are, and how sure."""
    groups = outcome.groups
    if groups is None:
        return None
    return {
        "n": groups.n_clusters,
        "reason": groups.reason,
        "sizes": [len(names) for names in groups.members().values()],
        "n_without": int((groups.labels < 0).sum()),
        "sentence": groups.verdict["sentence"],
        "certificate": dict(groups.certificate),
        "verdict": dict(groups.verdict),
    }


def describe_multitask(outcome: Outcome) -> dict[str, Any]:
    """Say what serves the tasks, and why."""
    model = outcome.multitask
    return {
        "strategy": model.strategy,
        "verdict": None if model.verdict_ is None else model.verdict_.to_dict(),
        "clusters_serve": model.clusters_serve_,
        "weights": model.weights_,
        "components": {name: estimate.to_dict() for name, estimate in model.held_out_accuracy_.items()},
        "trust": model.trust_.to_dict(),
    }


def describe_fewshot(outcome: Outcome) -> dict[str, Any] | None:
    """Say what new tasks are learned with, and why."""
    learner = outcome.fewshot
    if learner is None:
        return None
    return {
        "verdict": None if learner.verdict_ is None else learner.verdict_.to_dict(),
        "clusters_serve": learner.clusters_serve_,
        "threshold": learner.threshold_,
        "n_sources": len(learner.source_names_),
        "trust": learner.trust_.to_dict(),
    }


def evaluation_of(summary: Mapping[str, Any]) -> Evaluation:
    """Give the figures of the test rows in a summary."""
    return Evaluation.from_dict(summary["evaluation"])


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the summary of a run; whoever asks has checked the manifest.

    Raises
    ------
    StoreError
        If it is not there, or not that of a run, or from a later version.
    """
    path = folder / SUMMARY
    try:
        content = path.read_bytes()
        values = json.loads(content) if len(content) <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError("the summary cannot be read", where=repr(str(path)), got=quote(error)) from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise StoreError("this is no summary of a run", where=repr(str(path)))
    if values.get("version") != VERSION:
        raise StoreError(
            "the summary is of another version",
            where=repr(str(path)),
            got=quote(values.get("version")),
            expected=str(VERSION),
            todo="install the robusttc that made the run",
        )
    return values

"""Scores that tables share, kept in files: a table that goes on, or another of the same tasks, reads them.

A file is named by all that its scores depend on: the tasks, how they were measured, and the source code that
measures. So a file is never wrong, only of no use any more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import robusttc
from benchmarks.paper.table import Cost, plain
from robusttc import TaskSet, TransferScores
from robusttc.transfer import read_scores

__all__ = ["KEPT", "find_scores", "keep_scores"]

KEPT = Path(__file__).parent.parent / "results" / "scores"
MEASURING = ("transfer", "encoders", "scores", "seeds.py")


def find_scores(
    tasks: TaskSet, options: Mapping[str, Any], folder: Path = KEPT
) -> tuple[TransferScores, Cost] | None:
    """Read the scores of these tasks, and what they cost, if they were kept."""
    path = path_of(tasks, options, folder)
    if not path.is_file() or not path.with_suffix(".json").is_file():
        return None
    cost = Cost(**json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["cost"])
    return read_scores(path).subset(tasks.names), cost


def keep_scores(
    tasks: TaskSet, options: Mapping[str, Any], scores: TransferScores, cost: Cost, folder: Path = KEPT
) -> None:
    """Write scores, and beside them what they are and what they cost."""
    path = path_of(tasks, options, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    said = json.dumps({**identify(tasks, options), "cost": asdict(cost)}, indent=1)
    # Scores without their cost are not found: so these come first.
    for target, write in (
        (path, scores.write_csv),
        (path.with_suffix(".json"), lambda part: part.write_text(said + "\n", encoding="utf-8")),
    ):
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        write(part)
        part.replace(target)


def path_of(tasks: TaskSet, options: Mapping[str, Any], folder: Path) -> Path:
    """Give the file of scores."""
    said = json.dumps(identify(tasks, options), sort_keys=True)
    return folder / f"{hashlib.sha256(said.encode()).hexdigest()[:24]}.csv"


def identify(tasks: TaskSet, options: Mapping[str, Any]) -> dict[str, Any]:
    """Give all that scores depend on, as JSON can hold it."""
    given = {name: value.name if isinstance(value, Path) else value for name, value in options.items()}
    return {
        "tasks": tasks.content_hash,
        "options": json.loads(json.dumps(given, default=plain)),
        "source": hash_of_source(),
    }


@cache
def hash_of_source() -> str:
    """Hash the source code that scores come from."""
    package = Path(robusttc.__file__).parent
    files = [file for name in MEASURING for file in (package / name, *sorted((package / name).rglob("*.py")))]
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            found.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()

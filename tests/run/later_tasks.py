"""Tasks that come after the fit of the tiny run, and what is looked at when they came or went."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tiny_run import SPLITS, WORDS, make_task

from robusttc.data import Task, TaskSet

MARKED_TEXT, MARKED_LABEL = "zanzibarquux", "Qyxlabelmark"


class Killed(BaseException):
    """The process is gone."""


def new_tasks() -> TaskSet:
    """Two tasks like those of the run, a private one, and one that cannot be learned."""
    unfit = Task("later unfit", ["hello", "hi", "you"], ["greet"] * 3)
    return TaskSet([make_task(6), make_task(7), make_task(8), unfit])


def marked_task(name: str, number: int = 9) -> Task:
    """A task with a text and a label that nobody else has."""
    task = make_task(number)
    texts = [f"{text} {MARKED_TEXT}" if row % 3 == 0 else text for row, text in enumerate(task.texts)]
    labels = [MARKED_LABEL if label == task.label_names[0] else label for label in task.labels.tolist()]
    return Task(name, texts, labels, task.splits.tolist())


def strange_task(name: str) -> Task:
    """A task of its own kind."""
    texts = [f"{word} {other} {word}" for other in WORDS[:3] for word in WORDS]
    return Task(name, texts, ["odd", "even"] * 15, SPLITS * 3)


def digest_files(folder: Path, *patterns: str) -> dict[str, str]:
    """The SHA-256 of some files of a run."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in patterns
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    }


def digest_all(folder: Path) -> dict[str, Any]:
    """All that a run says but for times: files, and the summary without its costs."""
    found: dict[str, Any] = digest_files(
        folder, "models/**/*", "tasks/*", "*.csv", "*.safetensors", "versions/**/*.csv", "adapted/**/*"
    )
    summary = json.loads((folder / "summary.json").read_text())
    del summary["costs"]
    found["summary"] = summary
    for path in sorted(folder.glob("versions/*/change.json")):
        found[str(path.relative_to(folder))] = {**json.loads(path.read_text()), "when": 0.0}
    # Whoever reads a database leaves files beside it.
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    found["names"] = sorted(name for name in names if not name.startswith("run.sqlite-"))
    return found


def holds(folder: Path, text: str) -> list[str]:
    """The files of a run that have a text somewhere, as UTF-8 or UTF-16 or in another case."""
    asked = [text.encode(), text.lower().encode(), text.encode("utf-16-le")]
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(one in path.read_bytes() for one in asked)
    ]

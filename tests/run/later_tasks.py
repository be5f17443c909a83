"""Tasks that come after the fit of the tiny run, and what is looked at when they came or went."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_run import SPLITS, WORDS, Inline, make_task

from robusttc.data import Task, TaskSet
from robusttc.run import RunFolder

MARKED_TEXT, MARKED_LABEL = "zanzibarquux", "Qyxlabelmark"
# Names that are keys of files, paths, or trouble for shells, terminals and file systems.
ODD_NAMES = (
    "clusters",
    "format",
    "own",
    "added",
    "../../etc/passwd",
    'it\'s "`touch x`"',
    "日本語 🚀",
    "n" * 1000,
)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run jobs in this process, which saves the start of another."""
    monkeypatch.setattr("robusttc.run.fit.make_executor", lambda *_, **__: Inline())


def renamed(number: int, name: str) -> Task:
    """A task like those of the run, with another name."""
    task = make_task(number)
    return Task(name, task.texts, task.labels.tolist(), task.splits.tolist())


def new_tasks() -> TaskSet:
    """Two tasks like those of the run, one to be private, and one that cannot be learned."""
    unfit = Task("later unfit", ["hello", "hi", "you"], ["greet"] * 3)
    return TaskSet([make_task(6), make_task(7), make_task(8), unfit])


def marked_task(name: str, number: int = 9) -> Task:
    """A task with a text and a label that nobody else has."""
    task = make_task(number)
    texts = [f"{text} {MARKED_TEXT}" if row % 3 == 0 else text for row, text in enumerate(task.texts)]
    labels = [MARKED_LABEL if label == task.label_names[0] else label for label in task.labels.tolist()]
    return Task(name, texts, labels, task.splits.tolist())


def odd_task(name: str) -> Task:
    """A task of its own kind."""
    texts = [f"{word} {other} {word}" for other in WORDS[:3] for word in WORDS]
    return Task(name, texts, ["odd", "even"] * 15, SPLITS * 3)


def examples(name: str) -> Task:
    """A handful of examples of a new task."""
    texts = ["where is my parcel", "parcel where now", "hello you", "good morning hello"]
    return Task(name, texts, ["where"] * 2 + ["hello"] * 2)


def files_of(folder: Path, *, under: str = "") -> dict[str, str]:
    """The SHA-256 of the files of the current version."""
    version = RunFolder(folder).current()
    return {name: digest for name, (digest, _) in version.files.items() if name.startswith(under)}


def holds(folder: Path, text: str) -> list[str]:
    """The files of a run that have a text somewhere, as UTF-8 or UTF-16 or in another case."""
    asked = [text.encode(), text.lower().encode(), text.encode("utf-16-le")]
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and any(one in path.read_bytes() for one in asked)
    ]

"""What is in a set of tasks, and what is worth mending before anything is trained on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from robusttc.data.task import Task
from robusttc.data.taskset import TaskSet

__all__ = [
    "ConflictingText",
    "Inspection",
    "Leak",
    "SimilarLabels",
    "SimilarTasks",
    "TaskSummary",
    "ThinLabels",
    "inspect_tasks",
]

FEW_TRAINING_ROWS = 3
MOST_TEXTS = 0.5


@dataclass(frozen=True)
class TaskSummary:
    """The size of one task; `median_words` counts words between spaces."""

    task: str
    n_rows: int
    n_labels: int
    rows_by_split: dict[str, int]
    median_words: float


@dataclass(frozen=True)
class ConflictingText:
    """One text that has several labels in one task."""

    task: str
    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ThinLabels:
    """The labels of one task that have hardly any training rows, with how many they have."""

    task: str
    training_rows: dict[str, int]


@dataclass(frozen=True)
class SimilarLabels:
    """Labels of one task that differ only in case, spaces or punctuation."""

    task: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class SimilarTasks:
    """Two tasks that share most of the distinct texts of the smaller one."""

    first: str
    second: str
    n_shared_texts: int
    share_of_smaller: float
    share_of_larger: float


@dataclass(frozen=True)
class Leak:
    """Test rows of one task whose very text is also in its train."""

    task: str
    n_leaked: int
    n_test: int
    example: str


@dataclass(frozen=True)
class Inspection:
    """What is there, and what is worth mending."""

    tasks: tuple[TaskSummary, ...]
    n_rows: int
    n_labels: int
    n_distinct_texts: int
    rows_by_split: dict[str, int]
    same_label_sets: bool
    conflicting_texts: tuple[ConflictingText, ...]
    thin_labels: tuple[ThinLabels, ...]
    similar_labels: tuple[SimilarLabels, ...]
    similar_tasks: tuple[SimilarTasks, ...]
    leaks: tuple[Leak, ...]


def inspect_tasks(tasks: TaskSet) -> Inspection:
    """Look at a set of tasks before anything is trained.

    Texts are the same where they are equal to the letter.

    Examples
    --------
    >>> task = Task("acme", ["hi", "hi", "bye"], ["greet", "leave", "leave"])
    >>> inspect_tasks(TaskSet([task])).conflicting_texts
    (ConflictingText(task='acme', text='hi', labels=('greet', 'leave')),)
    """
    summaries = tuple(summarise(task) for task in tasks)
    rows_by_split: dict[str, int] = {}
    for summary in summaries:
        for split, count in summary.rows_by_split.items():
            rows_by_split[split] = rows_by_split.get(split, 0) + count
    incidence = text_incidence(tasks)
    return Inspection(
        tasks=summaries,
        n_rows=tasks.n_rows,
        n_labels=sum(summary.n_labels for summary in summaries),
        n_distinct_texts=incidence.shape[1],
        rows_by_split=rows_by_split,
        same_label_sets=tasks.same_label_sets,
        conflicting_texts=tuple(conflict for task in tasks for conflict in find_conflicts(task)),
        thin_labels=tuple(thin for task in tasks if (thin := find_thin_labels(task))),
        similar_labels=tuple(similar for task in tasks for similar in find_similar_labels(task)),
        similar_tasks=tuple(find_similar_tasks(tasks.names, incidence)),
        leaks=tuple(leak for task in tasks if (leak := find_leak(task))),
    )


def summarise(task: Task) -> TaskSummary:
    """Count the rows, labels and words of one task."""
    counts = np.bincount(task.split_codes, minlength=len(task.split_names)).tolist()
    words = [len(text.split()) for text in task.texts.iterate_bytes()]
    return TaskSummary(
        task=task.name,
        n_rows=len(task),
        n_labels=len(task.label_names),
        rows_by_split=dict(zip(task.split_names, counts, strict=True)),
        median_words=float(np.median(words)) if words else 0.0,
    )


def find_conflicts(task: Task) -> Iterator[ConflictingText]:
    """Find the texts of a task that have several labels."""
    labels_of_text: dict[bytes, set[int]] = {}
    for text, code in zip(task.texts.iterate_bytes(), task.label_codes.tolist(), strict=True):
        labels_of_text.setdefault(text, set()).add(code)
    for text, codes in labels_of_text.items():
        if len(codes) > 1:
            labels = tuple(task.label_names[code] for code in sorted(codes))
            yield ConflictingText(task.name, text.decode("utf-8"), labels)


def find_thin_labels(task: Task) -> ThinLabels | None:
    """Find the labels of a task that have fewer than three training rows."""
    counts = np.bincount(task.label_codes[task.rows("train")], minlength=len(task.label_names)).tolist()
    thin = {
        label: count
        for label, count in zip(task.label_names, counts, strict=True)
        if count < FEW_TRAINING_ROWS
    }
    return ThinLabels(task.name, thin) if thin else None


def find_similar_labels(task: Task) -> Iterator[SimilarLabels]:
    """Find labels that read the same: most often one label, written in two ways."""
    written: dict[str, list[str]] = {}
    for label in task.label_names:
        bare = "".join(character for character in label.casefold() if character.isalnum())
        # A label of signs alone ("+", "-") says something by its signs.
        written.setdefault(bare or label, []).append(label)
    for labels in written.values():
        # "1" and "-1" differ in sign, not in writing.
        if len(labels) > 1 and not all(is_number(label) for label in labels):
            yield SimilarLabels(task.name, tuple(labels))


def is_number(label: str) -> bool:
    """Tell whether a label is a number."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def find_leak(task: Task) -> Leak | None:
    """Find test rows whose text is also in train."""
    training = set(task.texts.take(task.rows("train")).iterate_bytes())
    test = list(task.texts.take(task.rows("test")).iterate_bytes())
    leaked = [text for text in test if text in training]
    return Leak(task.name, len(leaked), len(test), leaked[0].decode("utf-8")) if leaked else None


def text_incidence(tasks: TaskSet) -> sparse.csr_array:
    """Make the 0/1 matrix of tasks x distinct texts: which text stands in which task."""
    code_of_text: dict[bytes, int] = {}
    rows_of_task = [
        np.unique([code_of_text.setdefault(text, len(code_of_text)) for text in task.texts.iterate_bytes()])
        for task in tasks
    ]
    starts = np.cumsum([0, *(len(rows) for rows in rows_of_task)])
    columns = np.concatenate([np.empty(0, dtype=np.int64), *rows_of_task]).astype(np.int64)
    ones = np.ones(len(columns), dtype=np.int64)
    return sparse.csr_array((ones, columns, starts), shape=(len(tasks), len(code_of_text)))


def find_similar_tasks(
    names: tuple[str, ...], incidence: sparse.csr_array, *, tasks_a_block: int = 256
) -> Iterator[SimilarTasks]:
    """Find the pairs of tasks that share at least half of the smaller one's distinct texts.

    Tasks are compared with all others a block at a time, which bounds the memory.
    """
    sizes = np.diff(incidence.indptr)
    transposed = incidence.T.tocsc()
    for start in range(0, len(names), tasks_a_block):
        shared = (incidence[start : start + tasks_a_block] @ transposed).tocoo()
        first, second = shared.coords[0] + start, shared.coords[1]
        smaller = np.minimum(sizes[first], sizes[second])
        keep = np.flatnonzero((first < second) & (shared.data >= MOST_TEXTS * smaller))
        order = np.lexsort((second[keep], first[keep]))
        for place in keep[order].tolist():
            one, other = int(first[place]), int(second[place])
            n_shared = int(shared.data[place])
            small, large = sorted((int(sizes[one]), int(sizes[other])))
            yield SimilarTasks(names[one], names[other], n_shared, n_shared / small, n_shared / large)

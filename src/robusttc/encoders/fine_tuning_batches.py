"""Which texts a step of fine-tuning sees: some labels of one task, a few texts of each.

A batch depends on the seed and the number of its step alone, so a run that was stopped goes on with the
batches it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders.fine_tuning_settings import FineTuningSettings
from robusttc.errors import DataError
from robusttc.random import numpy_generator

__all__ = ["Batch", "LabelledTexts", "collect_texts", "draw_batch", "task_shares", "usable_texts"]


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """The usable training texts of one task: for each label its distinct texts, and the text of its name."""

    task: str
    texts: tuple[tuple[str, ...], ...]
    names: tuple[str | None, ...]

    @property
    def n_texts(self) -> int:
        """The number of texts of all labels."""
        return sum(len(texts) for texts in self.texts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts of one task with the number of their label; the numbers mean something within a batch alone."""

    task: str
    texts: tuple[str, ...]
    codes: NDArray[np.int64]


def collect_texts(
    tasks: TaskSet, label_texts: Callable[[str], str | None] | None = None
) -> list[LabelledTexts]:
    """Give what every task that may be shared has to train on, in the order of their names.

    Only rows in ``train`` count. A text that stands under two labels tells nothing about either, and is left
    out; so is a label with a single text and no name, and a task with fewer than two labels.

    Parameters
    ----------
    tasks
        The tasks. Those with ``may_share`` False are passed over.
    label_texts
        Gives the words of a label, or None where its name carries no words.

    Raises
    ------
    DataError
        If no task has anything to train on.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> task = Task("a", ["hi", "hello", "bye", "ciao", "ok"], ["greet", "greet", "leave", "leave", "yes"])
    >>> [(found.task, found.texts) for found in collect_texts(TaskSet([task]))]
    [('a', (('hi', 'hello'), ('bye', 'ciao')))]
    """
    found = usable_texts(tasks, label_texts)
    if not found:
        raise DataError(
            "no task has anything to fine-tune on",
            got=f"{len(tasks):,} tasks",
            expected="a task that may be shared, with two labels of two training texts each",
        )
    return found


def usable_texts(
    tasks: TaskSet, label_texts: Callable[[str], str | None] | None = None
) -> list[LabelledTexts]:
    """Give what `collect_texts` gives, or an empty list."""
    found = []
    for task in sorted(tasks, key=lambda task: task.name):
        if not getattr(task, "may_share", True):
            continue
        rows = task.rows("train")
        labels_of: dict[str, set[int]] = {}
        for text, code in zip(task.texts_at(rows), task.label_codes[rows].tolist(), strict=True):
            labels_of.setdefault(text, set()).add(code)
        texts_of: dict[int, list[str]] = {}
        for text, codes in labels_of.items():
            if len(codes) == 1:
                texts_of.setdefault(codes.pop(), []).append(text)
        name_of = {
            code: label_texts(task.label_names[code]) if label_texts is not None else None
            for code in sorted(texts_of)
        }
        kept = [code for code in name_of if len(texts_of[code]) + (name_of[code] is not None) > 1]
        if len(kept) > 1:
            texts = tuple(tuple(texts_of[code]) for code in kept)
            found.append(LabelledTexts(task.name, texts, tuple(name_of[code] for code in kept)))
    return found


def task_shares(
    tasks: Sequence[LabelledTexts], *, power: float, groups: Sequence[int] | None = None
) -> NDArray[np.float64]:
    """Give the probability with which each task is drawn; with `groups`, all groups are drawn alike.

    Examples
    --------
    >>> small = LabelledTexts("a", (("hi",), ("bye",)), ("greet", "leave"))
    >>> large = LabelledTexts("b", (("hi",) * 4, ("bye",) * 4), ("greet", "leave"))
    >>> task_shares([small, large], power=0.5).round(3).tolist()
    [0.333, 0.667]
    """
    shares = np.array([task.n_texts for task in tasks], dtype=np.float64) ** power
    if groups is not None:
        _, group_of_task = np.unique(np.asarray(groups), return_inverse=True)
        shares /= np.bincount(group_of_task, weights=shares)[group_of_task]
    result: NDArray[np.float64] = shares / shares.sum()
    return result


def draw_batch(
    tasks: Sequence[LabelledTexts],
    shares: NDArray[np.float64],
    *,
    step: int,
    settings: FineTuningSettings,
    seed: int,
) -> Batch:
    """Draw the batch of a step: a task by its share, labels of it alike, texts of each label alike."""
    generator = numpy_generator(seed, "fine-tuning batch", [str(step)])
    task = tasks[int(generator.choice(len(tasks), p=shares))]
    texts: list[str] = []
    codes: list[int] = []
    labels = generator.permutation(len(task.texts))[: settings.labels_a_batch]
    for code, label in enumerate(labels.tolist()):
        chosen = generator.permutation(len(task.texts[label]))[: settings.texts_a_label]
        of_label = [task.texts[label][row] for row in chosen.tolist()]
        name = task.names[label]
        if name is not None:
            of_label.append(name)
        texts += of_label
        codes += [code] * len(of_label)
    return Batch(task.task, tuple(texts), np.array(codes, dtype=np.int64))

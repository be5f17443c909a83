"""What to label next: the labels of a task that cost it most, by texts that no model was trained on."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.stats import Estimate, share_interval

__all__ = ["HeldOutAnswers", "WeakLabel", "find_weak_labels"]

Numbers = NDArray[np.int64]

# A label is judged as if it had so many more texts, of which as many are right as in the whole task: one
# wrong answer out of one is no proof of a hopeless label.
PRIOR_TEXTS = 2.0
MAX_TEXTS = 20


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutAnswers:
    """What is known of rows that were held out.

    Attributes
    ----------
    rows, right
        Rows, each once, and whether what serves is right there, by models that have not seen the row.
    asked, predicted
        Rows, and the label that such a model gives them, for telling what is taken for what. They may be
        answers of the task's own model, where those of what serves were not kept.
    """

    rows: Numbers
    right: NDArray[np.bool_]
    asked: Numbers
    predicted: Numbers


@dataclass(frozen=True, slots=True)
class WeakLabel:
    """How well one label does.

    Attributes
    ----------
    label
        The label.
    n_train
        How many training rows it has.
    recall
        The share of its held-out rows that are predicted right, with Wilson's interval; None without any.
    lost_of_100
        How many of 100 texts of the task are expected to be lost here: the share of the label among the
        rows, times the share of its texts that are missed (drawn a little to the mean of all labels).
    confused_with, n_confused
        The label that most of its texts are taken for, and how many; None where none is.
    missed
        Some of the held-out texts that were missed.
    """

    label: str
    n_train: int
    recall: Estimate | None
    lost_of_100: float
    confused_with: str | None
    n_confused: int
    missed: tuple[str, ...]

    def to_dict(self, *, show_texts: bool = False) -> dict[str, Any]:
        """Give it as values for JSON; the texts themselves only if they are asked for."""
        return {
            **asdict(self),
            "recall": None if self.recall is None else self.recall.to_dict(),
            "missed": list(self.missed) if show_texts else None,
        }


def find_weak_labels(task: Task, answers: HeldOutAnswers) -> tuple[WeakLabel, ...]:
    """Give all labels of a task, the one first that costs most.

    Labels are taken to be as frequent as they are among the rows in ``train`` and ``valid``.

    Examples
    --------
    >>> task = Task("a", ["t1", "t2", "t3", "t4"], ["x", "x", "y", "y"])
    >>> rows = np.arange(4)
    >>> answers = HeldOutAnswers(rows, np.array([1, 0, 1, 1], dtype=bool), rows, np.array([0, 1, 1, 1]))
    >>> worst = find_weak_labels(task, answers)[0]
    >>> worst.label, worst.recall.mean, worst.confused_with
    ('x', 0.5, 'y')
    """
    codes = task.label_codes.astype(np.int64)
    n_labels = len(task.label_names)
    trained = np.bincount(codes[task.rows("train")], minlength=n_labels)
    all_rows = np.bincount(codes[task.rows("train", "valid")], minlength=n_labels)
    n_held = np.bincount(codes[answers.rows], minlength=n_labels)
    n_right = np.bincount(codes[answers.rows[answers.right]], minlength=n_labels)
    mean_recall = float(n_right.sum() / n_held.sum()) if n_held.sum() else 0.5
    found = []
    for code, label in enumerate(task.label_names):
        shrunk = (n_right[code] + PRIOR_TEXTS * mean_recall) / (n_held[code] + PRIOR_TEXTS)
        # A label without a training row is never predicted.
        missed_share = 1.0 if trained[code] == 0 else 1.0 - float(shrunk)
        confused, n_confused = find_confusion(task, answers, code)
        missed = answers.rows[~answers.right & (codes[answers.rows] == code)]
        found.append(
            WeakLabel(
                label,
                int(trained[code]),
                share_interval(int(n_right[code]), int(n_held[code])) if n_held[code] else None,
                100.0 * float(all_rows[code]) / max(1, int(all_rows.sum())) * missed_share,
                confused,
                n_confused,
                tuple(sorted(set(task.texts_at(missed))))[:MAX_TEXTS],
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.lost_of_100, one.label)))


def find_confusion(task: Task, answers: HeldOutAnswers, code: int) -> tuple[str | None, int]:
    """Give the label that most texts of another are taken for; of several alike the first by name."""
    is_own = task.label_codes[answers.asked] == code
    counted = Counter(int(other) for other in answers.predicted[is_own] if other != code)
    if not counted:
        return None, 0
    most = min(counted, key=lambda other: (-counted[other], other))
    return task.label_names[most], counted[most]

"""What to label next: the labels of a task that cost it most, by texts that no model was trained on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task
from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.errors import quote
from robusttc.multitask import HeldOutRows, MultiTaskSettings, TaskRows, deal_folds, fit_own
from robusttc.stats import Estimate, share_interval

__all__ = ["HeldOutPredictions", "WeakLabel", "find_weak_labels", "predict_held_out", "weakest_sentence"]

Numbers = NDArray[np.int64]
Rows = NDArray[np.intp]

# A label is judged as if it had so many more texts, of which as many are right as in the whole task: one
# wrong prediction out of one is no proof of a hopeless label.
PRIOR_TEXTS = 2.0
MAX_TEXTS = 20
# Own models are fitted once more, without a fold, only where that is a matter of a moment.
MAX_ROWS = 2500


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutPredictions:
    """What is known of rows that were held out, by models that have not seen them."""

    rows: Numbers  # each once
    right: NDArray[np.bool_]  # whether what serves is right there
    # What is taken for what: predictions of the task's own model, where those of what serves were not kept.
    predicted_rows: Numbers
    predicted: Numbers


@dataclass(frozen=True, slots=True)
class WeakLabel:
    """How well one label does.

    `lost_of_100` is the share of the label among the rows, times the share of its texts that are missed,
    drawn a little to the mean of all labels.
    """

    label: str
    n_train: int
    recall: Estimate | None  # the share of its held-out rows that are predicted right; None without any
    lost_of_100: float  # how many of 100 texts of the task are expected to be lost here
    confused_with: str | None  # the label that most of its texts are taken for; None where none is
    n_confused: int
    missed: tuple[str, ...]  # some of the held-out texts that were missed


def find_weak_labels(task: Task, held_out: HeldOutPredictions) -> tuple[WeakLabel, ...]:
    """Return all labels of a task, the one first that costs most.

    Labels are taken to be as frequent as they are among the rows in ``train`` and ``valid``.

    Examples
    --------
    >>> task = Task("a", ["t1", "t2", "t3", "t4"], ["x", "x", "y", "y"])
    >>> rows = np.arange(4)
    >>> held_out = HeldOutPredictions(rows, np.array([1, 0, 1, 1], dtype=bool), rows, np.array([0, 1, 1, 1]))
    >>> worst = find_weak_labels(task, held_out)[0]
    >>> worst.label, worst.recall.mean, worst.confused_with
    ('x', 0.5, 'y')
    """
    codes = task.label_codes.astype(np.int64)
    n_labels = len(task.label_names)
    trained = np.bincount(codes[task.rows("train")], minlength=n_labels)
    all_rows = np.bincount(codes[task.rows("train", "valid")], minlength=n_labels)
    n_held = np.bincount(codes[held_out.rows], minlength=n_labels)
    n_right = np.bincount(codes[held_out.rows[held_out.right]], minlength=n_labels)
    mean_recall = float(n_right.sum() / n_held.sum()) if n_held.sum() else 0.5
    found = []
    for code, label in enumerate(task.label_names):
        shrunk = (n_right[code] + PRIOR_TEXTS * mean_recall) / (n_held[code] + PRIOR_TEXTS)
        # A label without a training row is never predicted.
        missed_share = 1.0 if trained[code] == 0 else 1.0 - float(shrunk)
        confused, n_confused = find_confusion(task, held_out, code)
        missed = held_out.rows[~held_out.right & (codes[held_out.rows] == code)]
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


def find_confusion(task: Task, held_out: HeldOutPredictions, code: int) -> tuple[str | None, int]:
    """Return the label that most texts of another are taken for; of several alike the first by name."""
    is_own = task.label_codes[held_out.predicted_rows] == code
    counted = Counter(int(other) for other in held_out.predicted[is_own] if other != code)
    if not counted:
        return None, 0
    most = min(counted, key=lambda other: (-counted[other], other))
    return task.label_names[most], counted[most]


def weakest_sentence(weak_labels: tuple[WeakLabel, ...]) -> str:
    """Say which label to label next; nothing where none was judged."""
    judged = [one for one in weak_labels if one.recall is not None or one.n_train == 0]
    if not judged:
        return ""
    worst = judged[0]
    if worst.recall is not None and worst.recall.mean == 1.0:
        return "No label stands out as weak: of the one that costs most, every held-out text is found."
    taken = "" if worst.confused_with is None else f"; most are taken for {quote(worst.confused_with)}"
    found = (
        "none of its texts can be found without a training row"
        if worst.recall is None
        else f"{worst.recall.mean:.0%} of its {worst.recall.n:,} held-out texts are found"
    )
    return f"Label more texts of {quote(worst.label)} next: {found}{taken}."


def predict_held_out(
    task: Task,
    inputs: FrozenInputs,
    held_out: HeldOutRows | None,
    *,
    n_folds: int | None,
    seed: int,
    settings: MultiTaskSettings,
) -> HeldOutPredictions:
    """Gather what is known of held-out rows of a task.

    `inputs` are those of its rows in ``train`` and ``valid``, in their order; `held_out` says which rows were
    predicted right in the training, None where nothing was held out then; `n_folds` is None where the rows in
    ``valid`` were held out.
    """
    known = task.rows("train", "valid")
    if n_folds is None:
        folds = np.where(task.splits == "valid", 0, -1).astype(np.int64)
    else:
        folds = deal_folds(task, n_folds, seed, splits=("train", "valid"))
    asked = np.flatnonzero(folds >= 0).astype(np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    rows, right = nothing, np.zeros(0, dtype=np.bool_)
    if held_out is not None:
        rows, right = held_out.rows.astype(np.int64), held_out.right["served"]
    if not isinstance(inputs, DenseInputs) or not len(asked) or len(known) > MAX_ROWS:
        return HeldOutPredictions(rows, right, nothing, nothing)
    with threadpool_limits(1):
        predicted = predict_out_of_fold(task, inputs, known, folds, settings)[asked]
    if held_out is None:
        # Of a task that came later nothing was kept; its own model stands for what serves.
        rows, right = asked, predicted == task.label_codes[asked]
    return HeldOutPredictions(rows, right, asked, predicted)


def predict_out_of_fold(
    task: Task, inputs: DenseInputs, known: Rows, folds: Numbers, settings: MultiTaskSettings
) -> Numbers:
    """Predict every held-out row by an own model that was fitted without its fold; -1 for the others."""
    place_of = np.full(len(task), -1, dtype=np.int64)
    place_of[known] = np.arange(len(known))
    predicted = np.full(len(task), -1, dtype=np.int64)
    for number in np.unique(folds[folds >= 0]):
        kept, asked = known[folds[known] != number], np.flatnonzero(folds == number)
        rows = TaskRows(
            task.name, len(task.label_names), place_of[kept], task.label_codes[kept].astype(np.int64)
        )
        model = fit_own(inputs, rows, settings=settings, seed=0, stage="own")
        predicted[asked] = model.probabilities(inputs.take(place_of[asked])).argmax(axis=1)
    return predicted

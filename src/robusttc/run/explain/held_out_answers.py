"""Answers of a run's models to rows that they were not trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task
from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.multitask import HeldOutRows, MultiTaskSettings, TaskRows, deal_folds, fit_own
from robusttc.run.explain.weak_labels import HeldOutAnswers

__all__ = ["ask_held_out"]

Numbers = NDArray[np.int64]
Rows = NDArray[np.intp]

# Own models are fitted once more, without a fold, only where that is a matter of a moment.
MAX_ROWS = 2500


def ask_held_out(
    task: Task,
    inputs: FrozenInputs,
    held_out: HeldOutRows | None,
    *,
    n_folds: int | None,
    seed: int,
    settings: MultiTaskSettings,
) -> HeldOutAnswers:
    """Gather what is known of held-out rows of a task.

    Parameters
    ----------
    task
        The task.
    inputs
        The frozen inputs of its rows in ``train`` and ``valid``, in their order.
    held_out
        Which held-out rows were predicted right in the training; None where nothing was held out then.
    n_folds, seed
        How rows were dealt into folds; `n_folds` is None where those in ``valid`` were held out.
    settings
        How own models are fitted.
    """
    known = task.rows("train", "valid")
    if n_folds is None:
        folds = np.where(task.splits == "valid", 0, -1).astype(np.int64)
    else:
        folds = deal_folds(task, n_folds, seed, splits=("train", "valid"))
    asked = np.flatnonzero(folds >= 0)
    own: Numbers | None = None
    if isinstance(inputs, DenseInputs) and len(asked) and len(known) <= MAX_ROWS:
        with threadpool_limits(1):
            own = predict_out_of_fold(task, inputs, known, folds, settings)[asked]
    rows, right = asked, np.zeros(0, dtype=np.bool_)
    if held_out is not None:
        rows, right = held_out.rows, held_out.right["served"]
    elif own is not None:
        # Of a task that came later nothing was kept; its own model stands for what serves.
        right = own == task.label_codes[asked]
    nothing = np.zeros(0, dtype=np.int64)
    return HeldOutAnswers(
        rows[: len(right)].astype(np.int64),
        right,
        nothing if own is None else asked.astype(np.int64),
        nothing if own is None else own,
    )


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

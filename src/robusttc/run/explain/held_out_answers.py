"""Answers of a run's models to rows that they were not trained on: out of fold, and the rows in ``valid``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task
from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.multitask.components import fit_own
from robusttc.multitask.folds import deal_folds
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.run.answering import Answers
from robusttc.run.explain.weak_labels import HeldOutAnswers

__all__ = ["ask_held_out"]

Numbers = NDArray[np.int64]
Rows = NDArray[np.intp]

# Own models are fitted once more, without a fold, only where that is a matter of a moment.
MAX_ROWS = 2500


def ask_held_out(
    task: Task,
    answers: Answers,
    inputs: FrozenInputs,
    right: Mapping[str, NDArray[np.bool_]] | None,
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
    answers
        What serves it: asked about the rows in ``valid``.
    inputs
        The frozen inputs of its training rows, in their order.
    right
        For ``own`` and ``served``, which rows of the folds were predicted right in the training; None where
        nothing was held out then.
    n_folds, seed
        How the training rows were dealt into folds; `n_folds` is None where the encoder has seen them all.
    settings
        How own models are fitted.
    """
    train, valid = task.rows("train"), task.rows("valid")
    with threadpool_limits(1):
        predicted = (
            answers.ask(list(task.texts_at(valid))).argmax(axis=1).astype(np.int64)
            if len(valid)
            else np.zeros(0, dtype=np.int64)
        )
        predicted = in_codes_of(task, answers.label_names, predicted)
        rows, hits = [valid], [predicted == task.label_codes[valid]]
        asked, given = [valid], [predicted]
        if n_folds is not None:
            folds = deal_folds(task, n_folds, seed)
            held = np.concatenate([np.flatnonzero(folds == number) for number in range(n_folds)])
            own = None
            if isinstance(inputs, DenseInputs) and len(held) > 0 and len(train) <= MAX_ROWS:
                own = predict_out_of_fold(task, inputs, folds, held, settings)
                asked.append(held)
                given.append(own)
            if right is not None and len(right["served"]) == len(held):
                rows.append(held)
                hits.append(right["served"])
            elif own is not None:
                # Of a task that came later nothing was kept; its own model stands for what serves.
                rows.append(held)
                hits.append(own == task.label_codes[held])
    return HeldOutAnswers(
        np.concatenate(rows).astype(np.int64),
        np.concatenate(hits),
        np.concatenate(asked).astype(np.int64),
        np.concatenate(given),
    )


def in_codes_of(task: Task, label_names: tuple[str, ...], codes: Numbers) -> Numbers:
    """Turn places among a model's labels into codes of the task; a label that it lacks is -1."""
    code_of = {label: code for code, label in enumerate(task.label_names)}
    places = np.array([code_of.get(label, -1) for label in label_names], dtype=np.int64)
    return np.asarray(places[codes], dtype=np.int64)


def predict_out_of_fold(
    task: Task, inputs: DenseInputs, folds: Numbers, held: Rows, settings: MultiTaskSettings
) -> Numbers:
    """Predict every held-out row by an own model that was fitted without its fold."""
    train = task.rows("train")
    place_of = np.full(len(task), -1, dtype=np.int64)
    place_of[train] = np.arange(len(train))
    predicted = np.full(len(task), -1, dtype=np.int64)
    for number in np.unique(folds[held]):
        kept = train[folds[train] != number]
        asked = np.flatnonzero(folds == number)
        part = TaskPart(
            task.name, len(task.label_names), place_of[kept], task.label_codes[kept].astype(np.int64)
        )
        model = fit_own(inputs, part, settings=settings, seed=0, stage="own")
        predicted[asked] = model.probabilities(inputs.take(place_of[asked])).argmax(axis=1)
    return predicted[held]

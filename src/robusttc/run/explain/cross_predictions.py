"""How tasks predict each other's texts: the cross tables that labels are matched by.

The predictions are those of each task's own model. Deviation: what serves is a blend with models of many
tasks, but these have seen the texts of all tasks, and give labels of the same name a part of their
classifiers in common; asked whether two labels mean the same, they would answer what they were told.

A classifier gives every text one of its labels, also one that it has never seen the like of. So a prediction
only counts if the text is as near to the texts of that label as these are to each other (the mean cosine to
the three nearest is no lower than for 95 % of the task's own texts, each left out in its turn), or if the
model is as sure of it as of four out of five texts in ``valid`` that it gets right: texts of another trade
may be worded otherwise and still say the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task
from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.formatting import count
from robusttc.models import N_NEIGHBOURS, TrainedModel, multiply_rows, to_unit_length
from robusttc.multitask import ClusterMultiTask, Predictor, SingleTaskModel, TaskRows, fit_own
from robusttc.run.explain.labels import (
    MIN_TEXTS,
    CommonText,
    CrossTable,
    LabelConflict,
    LabelMatch,
    find_conflicts,
    find_matches,
)
from robusttc.transfer import normalise_text

__all__ = ["LabelComparison", "compare_labels"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

# More texts of a task make no interval that matters much narrower.
MAX_TEXTS = 1200
UNLIKE_SHARE, UNSURE_SHARE = 0.05, 0.2
# So many right predictions tell how sure a model is of them.
MIN_RIGHT = 5
TINY = 1e-12
NONE = -1


@dataclass(frozen=True, slots=True)
class LabelComparison:
    """How the labels of a task stand to those of others."""

    compared: tuple[str, ...] = ()  # the tasks that it was compared with
    matches: tuple[LabelMatch, ...] = ()
    conflicts: tuple[LabelConflict, ...] = ()
    n_texts: int = 0  # distinct texts of the task that were used
    too_few: tuple[str, ...] = ()  # its labels with too few texts for anything to be said of them
    sentence: str = "Its labels were compared with no other task."


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The distinct texts of a task, in an order that does not depend on that of its rows."""

    task: str
    label_names: tuple[str, ...]
    keys: tuple[str, ...]  # without case and punctuation; a text that has two labels is there twice
    shown: tuple[str, ...]  # as they are
    codes: Numbers  # their labels
    is_held: NDArray[np.bool_]  # which are in ``valid`` alone, so that the task's own model has not seen them


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Texts of a task, its model, and how near its texts are to each other."""

    texts: Texts
    inputs: FrozenInputs
    directions: Floats  # of length 1
    model: SingleTaskModel
    least: float  # mean cosine to the nearest texts of a label with which a text may be one of them
    sure: float  # margin between the two most probable labels, in nats, from which on the model is sure


def compare_labels(
    task: Task, others: Iterable[Task], fitted: ClusterMultiTask, own_models: Mapping[str, SingleTaskModel]
) -> LabelComparison:
    """Compare the labels of a task with those of others; tasks that may not share take no part.

    `fitted` has the models of the run, `own_models` the own models of tasks, as far as they are there.
    """
    with threadpool_limits(1):
        own = sample_task(task, fitted, own_models.get(task.name))
        found = (sample_task(one, fitted, own_models.get(one.name)) for one in others if one.may_share)
        samples = [sample for sample in found if sample is not None]
        if own is None or not samples or not task.may_share:
            return LabelComparison()
        predicted = [cross_predict(own, other) for other in samples]
    tables = [table for table, _ in predicted]
    matches = find_matches(tables)
    conflicts = find_conflicts(tables, {table.task: common for table, common in predicted}, matches)
    counted = np.bincount(own.texts.codes, minlength=len(task.label_names))
    n_matched = len({one.label for one in matches if one.kind != "overlaps"})
    n_conflicts = len({(one.label, one.task) for one in conflicts})
    verbs = "corresponds to, contains or lies" if n_matched == 1 else "correspond to, contain or lie"
    return LabelComparison(
        tuple(table.task for table in tables),
        matches,
        conflicts,
        len(own.texts.keys),
        tuple(label for label, n in zip(task.label_names, counted, strict=True) if n < MIN_TEXTS),
        f"Compared with {count(len(tables), 'task')}: {n_matched:,} of its {len(task.label_names):,} labels "
        f"{verbs} within a label there, and there {'is' if n_conflicts == 1 else 'are'} "
        f"{count(n_conflicts, 'conflict')}.",
    )


def sample_task(task: Task, fitted: ClusterMultiTask, model: SingleTaskModel | None) -> Sample | None:
    """Return texts of a task with its model; None where it has no own model, and none is quickly made."""
    texts = choose_texts(task)
    if len(np.unique(texts.codes[~texts.is_held])) < 2:
        return None
    predictor = fitted.predictor_
    inputs = predictor.reader.read(list(texts.shown))
    if model is None and isinstance(inputs, DenseInputs):
        trained = np.flatnonzero(~texts.is_held)
        part = TaskRows(task.name, len(texts.label_names), trained, texts.codes[trained])
        model = fit_own(inputs, part, settings=fitted.settings_, seed=fitted.seed_, stage="own")
    return None if model is None else make_sample(texts, inputs, represent(predictor, model, inputs), model)


def represent(predictor: Predictor, model: SingleTaskModel, inputs: FrozenInputs) -> Floats:
    """Return what likeness is judged by: vectors as they are, words by the layer of the task's own model."""
    if isinstance(inputs, DenseInputs):
        return inputs.matrix
    if predictor.shared is not None:
        return predictor.shared.layer.represent(inputs)
    assert isinstance(model, TrainedModel)  # noqa: S101 - words have convolutions
    return model.layer.represent(inputs)


def choose_texts(task: Task, *, n_most: int = MAX_TEXTS) -> Texts:
    """Return the distinct texts of a task in ``train`` and ``valid``, by chance where there are many.

    >>> choose_texts(Task("a", ["Hi!", "bye", "hi"], ["x", "y", "x"])).shown
    ('bye', 'Hi!')
    """
    rows = task.rows("train", "valid")
    first: dict[tuple[str, int], str] = {}
    for text, code in zip(task.texts_at(rows), task.label_codes[rows].tolist(), strict=True):
        key = (normalise_text(text), code)
        first[key] = min(text, first.get(key, text))
    chosen = sorted(first)
    if len(chosen) > n_most:
        # By the hash of the text: neither the order of rows nor the names of labels have an influence.
        chosen = sorted(sorted(chosen, key=lambda key: (hash_text(key[0]), key))[:n_most])
    trained = {normalise_text(text) for text in task.texts_at(task.rows("train"))}
    return Texts(
        task.name,
        task.label_names,
        tuple(key for key, _ in chosen),
        tuple(first[key] for key in chosen),
        np.array([code for _, code in chosen], dtype=np.int64),
        np.array([key not in trained for key, _ in chosen], dtype=np.bool_),
    )


def hash_text(text: str) -> bytes:
    """Return what texts are drawn by."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def make_sample(texts: Texts, inputs: FrozenInputs, representation: Floats, model: SingleTaskModel) -> Sample:
    """Return a sample; `representation` is what likeness is judged by, one row per text."""
    directions = to_unit_length(np.asarray(representation, dtype=np.float64))
    held = np.flatnonzero(texts.is_held)
    sure = np.inf
    if len(held):
        codes, margins = predict_with_margin(model, inputs.take(held))
        right = margins[codes == texts.codes[held]]
        sure = float(np.quantile(right, UNSURE_SHARE)) if len(right) >= MIN_RIGHT else np.inf
    return Sample(texts, inputs, directions, model, least_likeness(directions, texts.codes), sure)


def predict_with_margin(model: SingleTaskModel, inputs: FrozenInputs) -> tuple[Numbers, NDArray[np.float64]]:
    """Return the most probable label of every text, and its margin over the next in nats."""
    table = np.asarray(model.probabilities(inputs), dtype=np.float64)
    ordered = np.log(np.maximum(np.sort(table, axis=1)[:, -2:], TINY))
    return table.argmax(axis=1).astype(np.int64), ordered[:, 1] - ordered[:, 0]


def least_likeness(directions: Floats, codes: Numbers) -> float:
    """Return the likeness that 95 % of the texts reach to others of their label; 2 if no label has two texts.

    >>> least_likeness(np.eye(2, dtype=np.float32)[[0, 0, 1]], np.array([0, 0, 1]))
    1.0
    """
    found: list[NDArray[np.float64]] = []
    for code in np.unique(codes):
        own = directions[codes == code]
        if len(own) > 1:
            cosines = multiply_rows(own, own.T)
            np.fill_diagonal(cosines, -2.0)
            found.append(mean_nearest(cosines, len(own) - 1))
    return float(np.quantile(np.concatenate(found), UNLIKE_SHARE)) if found else 2.0


def mean_nearest(cosines: Floats, n_others: int) -> NDArray[np.float64]:
    """Return the mean of the highest cosines of each row."""
    n_nearest = min(N_NEIGHBOURS, n_others)
    return np.asarray(np.sort(cosines, axis=1)[:, -n_nearest:].astype(np.float64).mean(axis=1))


def cross_predict(own: Sample, other: Sample) -> tuple[CrossTable, tuple[CommonText, ...]]:
    """Let two tasks predict each other's texts; those that both have get the label given there."""
    common = np.zeros((len(own.texts.label_names), len(other.texts.label_names)), dtype=np.int64)
    listed: list[CommonText] = []
    label_of, other_label_of = only_labels(own.texts), only_labels(other.texts)
    for key, shown in zip(own.texts.keys, own.texts.shown, strict=True):
        if key in label_of and key in other_label_of:
            codes = label_of[key], other_label_of[key]
            common[codes] += 1
            label, other_label = own.texts.label_names[codes[0]], other.texts.label_names[codes[1]]
            listed.append(CommonText(shown, label, other_label))
    forward, backward = count_predictions(own, other), count_predictions(other, own)
    forward[:, :-1] += common
    backward[:, :-1] += common.T
    names, own_names = other.texts.label_names, own.texts.label_names
    return CrossTable(other.texts.task, names, own_names, forward, backward, common), tuple(listed)


def count_predictions(sample: Sample, by: Sample) -> Numbers:
    """Count what a task's model predicts for the texts of every label of another, but for those it has."""
    counts = np.zeros((len(sample.texts.label_names), len(by.texts.label_names) + 1), dtype=np.int64)
    seen = set(by.texts.keys)
    rows = np.array([place for place, key in enumerate(sample.texts.keys) if key not in seen], dtype=np.int64)
    if len(rows):
        # The last column, that of no label, is also place -1.
        predicted = predict_if_alike(by, sample.inputs.take(rows), sample.directions[rows])
        np.add.at(counts, (sample.texts.codes[rows], predicted), 1)
    return counts


def predict_if_alike(by: Sample, inputs: FrozenInputs, directions: Floats) -> Numbers:
    """Return the label that a task's model predicts; -1 where the text is unlike, and the model unsure."""
    codes, margins = predict_with_margin(by.model, inputs)
    counts = margins >= by.sure
    for code in np.unique(codes):
        places, own = np.flatnonzero(codes == code), np.flatnonzero(by.texts.codes == code)
        if len(own):
            cosines = multiply_rows(directions[places], by.directions[own].T)
            # A hair below: a text that is there word for word has a likeness of 1 up to rounding.
            counts[places] |= mean_nearest(cosines, len(own)) >= by.least - 1e-6
    return np.where(counts, codes, NONE)


def only_labels(texts: Texts) -> dict[str, int]:
    """Return the label of every text that has one label only; one with two is at odds with itself."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for key, code in zip(texts.keys, texts.codes.tolist(), strict=True):
        if key in found:
            twice.add(key)
        found[key] = code
    return {key: code for key, code in found.items() if key not in twice}

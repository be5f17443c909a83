"""What tasks say of each other's texts: the tables that `corresponding` and `conflicting` look at.

The answers are those of each task's own model. Deviation: what serves is a blend with models of many tasks,
but these have seen the texts of all tasks, and give labels of the same name a part of their classifiers in
common; asked whether two labels mean the same, they would answer what they were told.

A classifier gives every text one of its labels, also one that it has never seen the like of. So an answer
only counts if the text is as near to the texts of that label as these are to each other (the mean cosine to
the three nearest is no lower than for 95 % of the task's own texts, each left out in its turn), or if the
model is as sure of it as of four out of five texts in ``valid`` that it gets right: texts of another trade
may be worded otherwise and still say the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.encoders import FrozenInputs
from robusttc.models import N_NEIGHBOURS, multiply_rows, to_unit_length
from robusttc.multitask import SingleTaskModel
from robusttc.run.explain.conflicting import CommonText
from robusttc.run.explain.corresponding import CrossTables
from robusttc.transfer import normalise_text

__all__ = ["Sample", "Texts", "ask_each_other", "choose_texts", "make_sample"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

# More texts of a task make no interval that matters much narrower.
MAX_TEXTS = 1200
UNLIKE_SHARE, UNSURE_SHARE = 0.05, 0.2
# So many right answers tell how sure a model is of them.
MIN_RIGHT = 5
TINY = 1e-12
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The distinct texts of a task, in an order that does not depend on that of its rows.

    Attributes
    ----------
    task, label_names
        The task, and its labels.
    keys
        The texts without case and punctuation; a text that has two labels is there twice.
    shown
        The texts as they are.
    codes
        Their labels.
    is_held
        Which of them are in ``valid`` alone, so that the task's own model has not seen them.
    """

    task: str
    label_names: tuple[str, ...]
    keys: tuple[str, ...]
    shown: tuple[str, ...]
    codes: Numbers
    is_held: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Texts of a task, its model, and how near its texts are to each other.

    Attributes
    ----------
    texts
        The texts.
    inputs, directions
        The same as models take them, and as directions of length 1.
    model
        The task's own model.
    least
        The least mean cosine to the nearest texts of a label with which a text may be one of them.
    sure
        The margin between the two most probable labels, in nats, from which on the model is sure.
    """

    texts: Texts
    inputs: FrozenInputs
    directions: Floats
    model: SingleTaskModel
    least: float
    sure: float


def choose_texts(task: Task, *, n_most: int = MAX_TEXTS) -> Texts:
    """Take the distinct texts of a task in ``train`` and ``valid``, by chance where there are many.

    Examples
    --------
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
    """Give what texts are drawn by."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def make_sample(texts: Texts, inputs: FrozenInputs, representation: Floats, model: SingleTaskModel) -> Sample:
    """Make a sample.

    Parameters
    ----------
    texts
        The texts.
    inputs
        As the model takes them.
    representation
        As likeness is judged by, one row a text.
    model
        The task's own model.
    """
    directions = to_unit_length(np.asarray(representation, dtype=np.float64))
    held = np.flatnonzero(texts.is_held)
    sure = np.inf
    if len(held):
        codes, margins = decide(model, inputs.take(held))
        right = margins[codes == texts.codes[held]]
        sure = float(np.quantile(right, UNSURE_SHARE)) if len(right) >= MIN_RIGHT else np.inf
    return Sample(texts, inputs, directions, model, find_least(directions, texts.codes), sure)


def decide(model: SingleTaskModel, inputs: FrozenInputs) -> tuple[Numbers, NDArray[np.float64]]:
    """Give the most probable label of every text, and its margin over the next in nats."""
    table = np.asarray(model.probabilities(inputs), dtype=np.float64)
    ordered = np.log(np.maximum(np.sort(table, axis=1)[:, -2:], TINY))
    return table.argmax(axis=1).astype(np.int64), ordered[:, 1] - ordered[:, 0]


def find_least(directions: Floats, codes: Numbers) -> float:
    """Give the likeness that 95 % of the texts reach to others of their label; 2 if no label has two texts.

    Examples
    --------
    >>> find_least(np.eye(2, dtype=np.float32)[[0, 0, 1]], np.array([0, 0, 1]))
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
    """Give the mean of the highest cosines of each row."""
    n_nearest = min(N_NEIGHBOURS, n_others)
    return np.asarray(np.sort(cosines, axis=1)[:, -n_nearest:].astype(np.float64).mean(axis=1))


def answer(asked: Sample, inputs: FrozenInputs, directions: Floats) -> Numbers:
    """Give the label that a task's model gives each text; -1 where it is unlike, and the model unsure."""
    codes, margins = decide(asked.model, inputs)
    counts = margins >= asked.sure
    for code in np.unique(codes):
        places, own = np.flatnonzero(codes == code), np.flatnonzero(asked.texts.codes == code)
        if len(own):
            cosines = multiply_rows(directions[places], asked.directions[own].T)
            # A hair below: a text that is there word for word has a likeness of 1 up to rounding.
            counts[places] |= mean_nearest(cosines, len(own)) >= asked.least - 1e-6
    return np.where(counts, codes, NONE)


def ask_each_other(own: Sample, other: Sample) -> tuple[CrossTables, tuple[CommonText, ...]]:
    """Let two tasks answer each other's texts. Those that both have are answered by the label given there."""
    shape = (len(own.texts.label_names), len(other.texts.label_names))
    common = np.zeros(shape, dtype=np.int64)
    listed: list[CommonText] = []
    label_of, other_label_of = only_labels(own.texts), only_labels(other.texts)
    for key, shown in zip(own.texts.keys, own.texts.shown, strict=True):
        if key in label_of and key in other_label_of:
            codes = label_of[key], other_label_of[key]
            common[codes] += 1
            names = own.texts.label_names[codes[0]], other.texts.label_names[codes[1]]
            listed.append(CommonText(shown, *names))
    forward, backward = count_answers(own, other), count_answers(other, own)
    forward[:, :-1] += common
    backward[:, :-1] += common.T
    tables = CrossTables(
        other.texts.task, other.texts.label_names, own.texts.label_names, forward, backward, common
    )
    return tables, tuple(listed)


def count_answers(texts_of: Sample, asked: Sample) -> Numbers:
    """Count what a task's model answers to the texts of every label of another, but for those it has seen."""
    shape = (len(texts_of.texts.label_names), len(asked.texts.label_names) + 1)
    counts = np.zeros(shape, dtype=np.int64)
    seen = set(asked.texts.keys)
    rows = np.array(
        [place for place, key in enumerate(texts_of.texts.keys) if key not in seen], dtype=np.int64
    )
    if len(rows):
        # The last column, that of no label, is also place -1.
        given = answer(asked, texts_of.inputs.take(rows), texts_of.directions[rows])
        np.add.at(counts, (texts_of.texts.codes[rows], given), 1)
    return counts


def only_labels(texts: Texts) -> dict[str, int]:
    """Give the label of every text that has one label only; one with two is at odds with itself."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for key, code in zip(texts.keys, texts.codes.tolist(), strict=True):
        if key in found:
            twice.add(key)
        found[key] = code
    return {key: code for key, code in found.items() if key not in twice}

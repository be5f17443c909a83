"""What a baseline has learned of one task: from texts to labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.encoders.encoder import PreparedTasks
from robusttc.encoders.inputs import DenseInputs, FrozenInputs
from robusttc.errors import DataError, UsageError, quote

__all__ = [
    "Predictor",
    "TaskModel",
    "TextReader",
    "normalise_shares",
    "require_vectors",
    "training_part",
    "unit_rows",
]

Floats = NDArray[np.float64]


class TextReader(Protocol):
    """From texts to what a predictor takes: a `robusttc.encoders.reading.Reader`, or a bag of words."""

    def read(self, texts: Any) -> Any:
        """Give the inputs of texts, one a text."""


class Predictor(Protocol):
    """From inputs to probabilities."""

    def probabilities(self, inputs: Any) -> NDArray[Any]:
        """Give the probability of every label for every item; an item's depend on the item alone."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskModel:
    """One task, learned.

    Attributes
    ----------
    label_names
        The labels of the task, in the order of the columns of `predict_proba`.
    reader
        From texts to inputs.
    predictor
        From inputs to probabilities.
    """

    label_names: tuple[str, ...]
    reader: TextReader
    predictor: Predictor

    def predict_proba(self, texts: Sequence[str] | NDArray[Any]) -> Floats:
        """Give the probability of every label for every text."""
        shares = np.asarray(self.predictor.probabilities(self.reader.read(texts)), dtype=np.float64)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict(self, texts: Sequence[str] | NDArray[Any]) -> NDArray[np.object_]:
        """Give the most probable label of every text; of equal ones the first."""
        names = np.array(self.label_names, dtype=object)
        return np.asarray(names[self.predict_proba(texts).argmax(axis=1)])


def training_part(task: Task, prepared: PreparedTasks) -> tuple[FrozenInputs, NDArray[np.int64]]:
    """Give the inputs and the codes of a task's rows in ``train``.

    Raises
    ------
    DataError
        If they have fewer than two labels.
    """
    rows = task.rows("train")
    codes = task.label_codes[rows].astype(np.int64)
    present = np.unique(codes)
    if len(present) < 2:
        only = f", all of label {quote(task.label_names[present[0]])}" if len(present) else ""
        raise DataError(
            "the task cannot be learned",
            where=f"task {quote(task.name)}",
            got=f"{len(rows):,} training rows{only}",
            expected="training rows of at least two labels",
            todo="add rows of another label, or leave the task out",
        )
    return prepared.inputs_of(task.name, rows), codes


def require_vectors(inputs: FrozenInputs, method: str) -> NDArray[np.float32]:
    """Give the vectors of the items; refuse inputs that are words.

    Raises
    ------
    UsageError
        If an item is not one vector.
    """
    if not isinstance(inputs, DenseInputs):
        raise UsageError(
            f"{method} needs one vector a text",
            got="words (encoder 'cnn')",
            todo="take encoder='sentence', or a FeatureEncoder",
        )
    return inputs.matrix


def unit_rows(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to length 1; a row of zeros stays.

    Examples
    --------
    >>> unit_rows(np.array([[3, 4], [0, 0]], dtype=np.float32)).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, None]
    return np.asarray(matrix / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def normalise_shares(logits: NDArray[Any]) -> Floats:
    """Turn logits into probabilities, row by row.

    Examples
    --------
    >>> normalise_shares(np.log([[1.0, 3.0]])).round(2).tolist()
    [[0.25, 0.75]]
    """
    shares = np.exp(np.asarray(logits, dtype=np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))

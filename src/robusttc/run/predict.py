"""Predictions for one task of a run: texts are encoded once, and kept nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.errors import UsageError
from robusttc.fewshot import FewShotModel, NearestExample
from robusttc.jobs import one_thread
from robusttc.models import check_threshold, multiply_rows, pick_labels
from robusttc.multitask import ClusterMultiTask

if TYPE_CHECKING:
    import pandas as pd

    from robusttc.data import Task

__all__ = ["Prediction", "TaskPredictor"]

Floats = NDArray[np.float64]
# A text with a higher score is more likely to be out of scope than not.
OUT_OF_SCOPE = 0.5


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a task's model says of some texts.

    Attributes
    ----------
    task, label_names
        The task, and its labels in the order of the columns of `probabilities`.
    texts
        The texts.
    labels
        The most probable label of each; None where its probability is below the threshold that was asked for.
    probabilities
        The probability of every label, shape (texts, labels).
    out_of_scope
        How likely each text is to belong to none of the labels, from 0 to 1; None where that was not learned.
    """

    task: str
    label_names: tuple[str, ...]
    texts: tuple[str, ...]
    labels: NDArray[np.object_]
    probabilities: Floats
    out_of_scope: Floats | None
    _find_nearest: Callable[[], list[NearestExample]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def confidence(self) -> Floats:
        """The probability of the most probable label of each text."""
        return self.probabilities.max(axis=1, initial=0.0)

    @property
    def in_scope(self) -> NDArray[np.bool_]:
        """Which texts are more likely to belong to one of the labels than to none."""
        if self.out_of_scope is None:
            return np.ones(len(self), dtype=np.bool_)
        return self.out_of_scope <= OUT_OF_SCOPE

    @cached_property
    def nearest(self) -> list[NearestExample]:
        """The most similar training example of each text; the examples are encoded when first asked for."""
        return self._find_nearest()

    def to_frame(self) -> pd.DataFrame:
        """Return a row per text: label, probability, out_of_scope, and the probability of every label.

        Raises
        ------
        UsageError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("to_frame needs pandas", todo="install it: pip install pandas") from None
        scope = np.full(len(self), np.nan) if self.out_of_scope is None else self.out_of_scope
        columns: dict[str, Any] = {
            "text": self.texts,
            "label": self.labels,
            "probability": self.confidence,
            "out_of_scope": scope,
        }
        shares = {f"p({label})": self.probabilities[:, k] for k, label in enumerate(self.label_names)}
        return pd.DataFrame({**columns, **shares})


class TaskPredictor:
    """The model of one task: made by `Run.predictor`.

    Attributes
    ----------
    task, label_names
        The task, and its labels.
    """

    def __init__(
        self,
        task: str,
        label_names: tuple[str, ...],
        predict: Callable[[list[str]], tuple[Any, Floats, Floats | None]],
        find_nearest: Callable[[Any], list[NearestExample]],
    ) -> None:
        self.task = task
        self.label_names = label_names
        self._predict = predict
        self._find_nearest = find_nearest

    @classmethod
    def of_model(cls, model: ClusterMultiTask, name: str, read_rows: Callable[[], Task]) -> TaskPredictor:
        """Return the predictor of a learned task; `read_rows` gives its rows, for the nearest examples."""
        predictor = model.predictor_
        reader = predictor.private_readers.get(name, predictor.reader)
        examples: list[tuple[Task, NDArray[np.intp], NDArray[np.float32]]] = []

        def predict(texts: list[str]) -> tuple[Any, Floats, Floats | None]:
            inputs, seen = predictor.read(name, texts)
            scope = None if predictor.scope is None else predictor.scope_score(name, inputs)
            return inputs, predictor.probabilities(name, inputs, seen), scope

        def find_nearest(inputs: FrozenInputs) -> list[NearestExample]:
            if not examples:
                task = read_rows()
                rows = task.rows("train")
                read = reader.read(list(task.texts_at(rows)))
                examples.append((task, rows, as_directions(predictor.represent(name, read))))
            task, rows, known = examples[0]
            cosines = multiply_rows(as_directions(predictor.represent(name, inputs)), known.T)
            found = cosines.argmax(axis=1).tolist() if len(cosines) else []
            return [
                NearestExample(task.texts[rows[k]], task.labels[rows[k]], float(row[k]))
                for row, k in zip(cosines, found, strict=True)
            ]

        return cls(name, model.label_names(name), predict, find_nearest)

    @classmethod
    def of_adapted(cls, model: FewShotModel) -> TaskPredictor:
        """Return the predictor of a task that was learned from a handful of examples."""

        def predict(texts: list[str]) -> tuple[Any, Floats, Floats | None]:
            inputs = model.read(texts)
            scope = None if model.scope_ is None else model.score_scope(inputs)
            return inputs, model.probabilities(inputs), scope

        return cls(model.name, model.label_names, predict, model.find_nearest)

    def predict(self, texts: str | Sequence[str], *, abstain_below: float | None = None) -> Prediction:
        """Return what the model says of texts; the order stays.

        Parameters
        ----------
        texts
            The texts, or one.
        abstain_below
            Where the highest probability is below this number, the label is None.

        Raises
        ------
        UsageError, DataError
            If these are not texts, or `abstain_below` is no probability.
        """
        threshold = check_threshold(abstain_below)
        asked = [texts] if isinstance(texts, str) else list(texts)
        with one_thread():
            inputs, table, scope = self._predict(asked)
        labels = pick_labels(table, self.label_names, threshold=threshold)

        def find_nearest() -> list[NearestExample]:
            with one_thread():
                return self._find_nearest(inputs)

        return Prediction(self.task, self.label_names, tuple(asked), labels, table, scope, find_nearest)


def as_directions(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors of length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)

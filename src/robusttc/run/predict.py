"""Predictions for one task of a run: texts are encoded once, and kept nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import Encoder, FrozenInputs
from robusttc.errors import UsageError
from robusttc.fewshot import FewShotModel, NearestExample
from robusttc.jobs import one_thread
from robusttc.models import REJECTED, check_threshold, multiply_rows, pick_labels
from robusttc.multitask import COMPONENTS, ClusterMultiTask

if TYPE_CHECKING:
    import pandas as pd

    from robusttc.data import Task

__all__ = ["Component", "Prediction", "TaskPredictor"]

Floats = NDArray[np.float64]


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
    scope_threshold
        The score above which 5 % of the task's own new texts are expected.
    """

    task: str
    label_names: tuple[str, ...]
    texts: tuple[str, ...]
    labels: NDArray[np.object_]
    probabilities: Floats
    out_of_scope: Floats | None
    scope_threshold: float
    _find_nearest: Callable[[], list[NearestExample]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def confidence(self) -> Floats:
        """The probability of the most probable label of each text."""
        return np.asarray(self.probabilities.max(axis=1, initial=0.0), dtype=np.float64)

    @property
    def in_scope(self) -> NDArray[np.bool_]:
        """Which texts are as near to the task as 95 % of its own; all of them where that was not learned."""
        if self.out_of_scope is None:
            return np.ones(len(self), dtype=np.bool_)
        return self.out_of_scope <= self.scope_threshold

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


@dataclass(frozen=True, slots=True)
class Component:
    """A model behind a task's predictions: its weight, and the probabilities that it gives."""

    name: str
    weight: float
    probabilities: Floats


class TaskPredictor:
    """The model of one task: made by `Run.predictor`.

    Attributes
    ----------
    task, label_names
        The task, and its labels.
    encoder
        What turns texts into inputs; predictors with encoders of one fingerprint take the same inputs.
    temperature
        What the probabilities were scaled with.
    """

    def __init__(
        self,
        task: str,
        label_names: tuple[str, ...],
        encoder: Encoder,
        temperature: float,
        predict: Callable[[Sequence[str], FrozenInputs], tuple[Floats, Floats | None]],
        find_nearest: Callable[[FrozenInputs], list[NearestExample]],
        find_components: Callable[[Sequence[str], FrozenInputs], list[Component]],
        find_threshold: Callable[[], float] | None,
    ) -> None:
        self.task = task
        self.label_names = label_names
        self.encoder = encoder
        self.temperature = temperature
        self._predict = predict
        self._find_nearest = find_nearest
        self._find_components = find_components
        self._find_threshold = find_threshold

    @cached_property
    def scope_threshold(self) -> float:
        """The out-of-scope score above which 5 % of the task's own new texts are expected."""
        return 1.0 if self._find_threshold is None else self._find_threshold()

    @classmethod
    def of_model(cls, model: ClusterMultiTask, name: str, read_rows: Callable[[], Task]) -> TaskPredictor:
        """Return the predictor of a learned task; `read_rows` gives its rows, for the nearest examples."""
        predictor = model.predictor_
        reader, served = predictor.private_readers.get(name, predictor.reader), predictor.find(name)
        examples: list[tuple[Task, NDArray[np.intp], NDArray[np.float32]]] = []

        def predict(texts: Sequence[str], inputs: FrozenInputs) -> tuple[Floats, Floats | None]:
            scope = None if predictor.scope is None else predictor.scope_score(name, inputs)
            return predictor.probabilities(name, inputs, predictor.find_seen(name, texts)), scope

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

        def find_components(texts: Sequence[str], inputs: FrozenInputs) -> list[Component]:
            seen = predictor.find_seen(name, texts)
            weights = served.weights.seen if seen is not None and seen.all() else served.weights.novel
            tables = [(kind, predictor.component(kind, name, inputs)) for kind in COMPONENTS]
            return [
                Component(kind, weight, table)
                for (kind, table), weight in zip(tables, weights, strict=True)
                if weight > 0 and table is not None
            ]

        return cls(
            name,
            model.label_names(name),
            reader,
            served.temperature,
            predict,
            find_nearest,
            find_components,
            None if predictor.scope is None else partial(predictor.scope_threshold, name, rejects=REJECTED),
        )

    @classmethod
    def of_adapted(cls, model: FewShotModel) -> TaskPredictor:
        """Return the predictor of a task that was learned from a handful of examples."""

        def predict(_: Sequence[str], inputs: FrozenInputs) -> tuple[Floats, Floats | None]:
            return model.probabilities(inputs), None if model.scope_ is None else model.score_scope(inputs)

        def find_components(_: Sequence[str], inputs: FrozenInputs) -> list[Component]:
            adapted = model.adapted_
            return [
                Component(f"{type(part).__name__.lower()} {number}", share, part.probabilities(inputs))
                for number, (part, share) in enumerate(
                    zip(adapted.components, adapted.shares, strict=True), start=1
                )
                if share > 0
            ]

        reader = model.metrics_.reader
        assert reader is not None  # noqa: S101 - a learner that was fitted has one
        return cls(
            model.name,
            model.label_names,
            reader,
            model.temperature_,
            predict,
            model.find_nearest,
            find_components,
            None if model.scope_ is None else model.scope_threshold,
        )

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
        check_threshold(abstain_below)
        asked = [texts] if isinstance(texts, str) else list(texts)
        with one_thread():
            return self.predict_encoded(asked, self.encoder.read(asked), abstain_below=abstain_below)

    def predict_encoded(
        self, texts: Sequence[str], inputs: FrozenInputs, *, abstain_below: float | None = None
    ) -> Prediction:
        """Return what `predict` does, for texts that `encoder` has read; on one thread, see `one_thread`."""
        table, scope = self._predict(texts, inputs)
        labels = pick_labels(table, self.label_names, threshold=check_threshold(abstain_below))

        def find_nearest() -> list[NearestExample]:
            with one_thread():
                return self._find_nearest(inputs)

        return Prediction(
            self.task,
            self.label_names,
            tuple(texts),
            labels,
            table,
            scope,
            self.scope_threshold,
            find_nearest,
        )

    def components(self, text: str) -> list[Component]:
        """Return the models that are blended for a text, each with its weight and its probabilities."""
        with one_thread():
            return self._find_components([text], self.encoder.read([text]))


def as_directions(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors of length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)

"""Prototypes on frozen sentence vectors: a label is the mean of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.own_task import OwnTaskBaseline, check_values
from robusttc.baselines.task_model import Floats, normalise_shares, require_vectors, unit_rows
from robusttc.data import Task
from robusttc.encoders.encoder import Encoder
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.products import multiply_rows
from robusttc.encoders.softmax import NEVER
from robusttc.random import RandomState

__all__ = ["PrototypeBaseline"]


class PrototypeBaseline(OwnTaskBaseline):
    """The label whose prototype, the mean of its training rows, is most similar by cosine.

    It is not in the paper: it is the frozen form of prototypical networks. The softmax of ``scale`` times the
    cosines gives probabilities; the scale changes no prediction, and the probabilities are not calibrated.

    Parameters
    ----------
    encoder
        ``sentence``, or an encoder that gives one vector a row.
    scale
        What cosines are multiplied with, above 0.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        Has no effect: nothing is drawn.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> task = Task("acme", ["hi", "hello", "bye"], ["greet", "greet", "leave"])
    >>> rows = np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]])
    >>> PrototypeBaseline(FeatureEncoder({"acme": rows})).adapt(task).predict(rows).tolist()
    ['greet', 'greet', 'leave']
    """

    def __init__(
        self,
        encoder: str | Encoder = "sentence",
        *,
        scale: float = 10.0,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(
            encoder, few_shot=False, vectors=vectors, model=model, device=device, random_state=random_state
        )
        self.scale = scale

    def _values(self) -> tuple[Any, ...]:
        return check_values("scale", self.scale, default=())

    def _learn(
        self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64], value: Any, seed: int
    ) -> PrototypePredictor:
        del seed  # nothing is drawn
        rows = unit_rows(require_vectors(inputs, "a prototype"))
        sums = np.zeros((len(task.label_names), rows.shape[1]), dtype=np.float64)
        np.add.at(sums, codes, rows)
        prototypes = unit_rows(sums.astype(np.float32))
        never = np.where(np.bincount(codes, minlength=len(sums)) > 0, 0.0, NEVER)
        return PrototypePredictor(np.ascontiguousarray(prototypes.T), never, value)


@dataclass(frozen=True, slots=True, eq=False)
class PrototypePredictor:
    """The prototypes as columns of length 1; what is added is `NEVER` for a label without rows."""

    columns: NDArray[np.float32]
    added: Floats
    scale: float

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item."""
        rows = unit_rows(require_vectors(inputs, "a prototype"))
        return normalise_shares(
            self.scale * multiply_rows(rows, self.columns).astype(np.float64) + self.added
        )

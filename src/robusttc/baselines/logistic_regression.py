"""Logistic regression on frozen sentence vectors: what most people would try first today."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.own_task import AUTO, OwnTaskBaseline, check_values
from robusttc.baselines.task_model import Floats, normalise_shares, require_vectors
from robusttc.data import Task
from robusttc.encoders.encoder import Encoder
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.products import multiply_rows
from robusttc.encoders.softmax import fit_softmax
from robusttc.random import RandomState

__all__ = ["LogisticRegressionBaseline"]

# The first is the default where nothing can be tuned.
FULL_GRID = (30.0, 1.0, 3.0, 10.0, 100.0, 300.0, 1000.0)
# A large C on many labels takes more steps than the usual 200.
MAX_ITERATIONS = 1000
FEW_SHOT_GRID = (1000.0, 10.0, 30.0, 100.0, 300.0, 3000.0, 10_000.0)


class LogisticRegressionBaseline(OwnTaskBaseline):
    """Class-balanced softmax regression of every task on frozen vectors, fitted to convergence.

    It is not in the paper: it is what a user would have without any of it. Its C is chosen by the mean over
    tasks of the accuracy on validation rows, one C for all tasks.

    Parameters
    ----------
    encoder
        ``sentence``, or an encoder that gives one vector a row.
    C
        The inverse strength of the penalty (that of `robusttc.encoders.softmax`), or ``auto``: chosen at
        `fit`; `adapt` without `fit` takes 30, or 1000 with `few_shot`.
    balanced
        Whether every label counts alike.
    few_shot
        Whether C is for few-shot tasks: then `fit` chooses it, with the training rows of every
        task cut to one a label and 20 more, and learns no source task.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        The seed of the cut.

    Examples
    --------
    >>> from robusttc.data import TaskSet
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> baseline = LogisticRegressionBaseline(FeatureEncoder({"acme": np.eye(2)})).fit(TaskSet([task]))
    >>> baseline.predict("acme", np.eye(2, dtype=np.float32)).tolist(), baseline.value_
    (['greet', 'leave'], 30.0)
    """

    def __init__(
        self,
        encoder: str | Encoder = "sentence",
        *,
        C: float | str = AUTO,
        balanced: bool = True,
        few_shot: bool = False,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(
            encoder,
            few_shot=few_shot,
            vectors=vectors,
            model=model,
            device=device,
            random_state=random_state,
        )
        self.C = C
        self.balanced = balanced

    def _values(self) -> tuple[Any, ...]:
        return check_values("C", self.C, default=FEW_SHOT_GRID if self.few_shot else FULL_GRID)

    def _learn(
        self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64], value: Any, seed: int
    ) -> LinearPredictor:
        del seed  # nothing is drawn
        matrix = require_vectors(inputs, "logistic regression")
        fitted = fit_softmax(
            matrix,
            codes,
            n_labels=len(task.label_names),
            C=value,
            balanced=self.balanced,
            max_iter=MAX_ITERATIONS,
        )
        return LinearPredictor(fitted.weight.astype(np.float32), fitted.bias.astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class LinearPredictor:
    """A softmax classifier on the vectors of items."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item."""
        matrix = require_vectors(inputs, "logistic regression")
        return normalise_shares(multiply_rows(matrix, self.weight) + self.bias)

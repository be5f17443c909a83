"""Nearest neighbours on frozen sentence vectors."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.own_task import AUTO, OwnTaskBaseline, check_values
from robusttc.baselines.task_model import Floats, require_vectors, unit_rows
from robusttc.data import Task
from robusttc.encoders.encoder import Encoder
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.products import multiply_rows
from robusttc.random import RandomState

__all__ = ["NearestNeighbourBaseline"]

GRID = (1, 3, 5, 10, 20)
# A neighbour whose cosine is 0.1 lower has 1 / e of the vote: near ones count, and ties are rare.
VOTE_TEMPERATURE = 0.1


class NearestNeighbourBaseline(OwnTaskBaseline):
    """The labels of the most similar training rows, by cosine, vote; nearer ones have more of a vote.

    It is not in the paper: it is the plainest use of sentence vectors, and the frozen form of its matching
    network.

    Parameters
    ----------
    encoder
        ``sentence``, or an encoder that gives one vector a row.
    n_neighbours
        How many vote, or ``auto``: chosen at `fit` by the mean over tasks of the accuracy on validation
        rows; `adapt` without `fit` takes 1.
    few_shot
        Whether the number is for few-shot tasks: then `fit` chooses it, with the training rows of every
        task cut to one a label and 20 more, and learns no source task.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        The seed of the cut.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> model = NearestNeighbourBaseline(FeatureEncoder({"acme": np.eye(2)})).adapt(task)
    >>> model.predict(np.array([[0.2, 0.9]], dtype=np.float32)).tolist()
    ['leave']
    """

    def __init__(
        self,
        encoder: str | Encoder = "sentence",
        *,
        n_neighbours: int | str = AUTO,
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
        self.n_neighbours = n_neighbours

    def _values(self) -> tuple[Any, ...]:
        return check_values("n_neighbours", self.n_neighbours, default=GRID, whole=True)

    def _learn(
        self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64], value: Any, seed: int
    ) -> NeighbourPredictor:
        del seed  # nothing is drawn
        rows = unit_rows(require_vectors(inputs, "the nearest neighbour"))
        return NeighbourPredictor(np.ascontiguousarray(rows.T), codes, len(task.label_names), value)


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourPredictor:
    """The training rows, as columns of length 1, with their labels."""

    columns: NDArray[np.float32]
    codes: NDArray[np.int64]
    n_labels: int
    n_neighbours: int

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the share of the vote of every label for every item."""
        cosines = multiply_rows(unit_rows(require_vectors(inputs, "the nearest neighbour")), self.columns)
        # Stable: of equally similar rows the first count.
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, : self.n_neighbours]
        similarity = np.take_along_axis(cosines, nearest, axis=1).astype(np.float64)
        votes = np.exp((similarity - similarity[:, :1]) / VOTE_TEMPERATURE)
        shares = np.zeros((len(cosines), self.n_labels))
        np.add.at(shares, (np.arange(len(cosines))[:, None], self.codes[nearest]), votes)
        return np.asarray(shares / votes.sum(axis=1, keepdims=True))

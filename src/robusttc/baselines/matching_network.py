"""One global matching network: few-shot learning by a metric that all source tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.source_encoder import SourceBaseline
from robusttc.baselines.task_model import Floats
from robusttc.data import Task, TaskSet
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import FrozenInputs, WordInputs
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.lessons import train_metrics
from robusttc.fewshot.matching import match
from robusttc.fewshot.settings import FewShotSettings, default_settings
from robusttc.fewshot.spaces import Space
from robusttc.progress import Progress
from robusttc.random import RandomState

__all__ = ["MatchingNetworkBaseline"]


class MatchingNetworkBaseline(SourceBaseline):
    """A matching network (Vinyals et al. 2016) trained on episodes of all source tasks; Eq. 4 predicts.

    It is what `robusttc.fewshot.estimator.ClusterFewShot` with ``strategy="paper"`` would be with one cluster
    of all sources, but it never falls back to the task's own model, and it matches where label sets are
    identical too. Deviation: Vinyals et al. compare by cosines and may let the whole support set change an
    embedding; the paper's Eq. 4 has plain inner products, and so has this.

    Parameters
    ----------
    encoder
        ``cnn`` as in the paper, ``sentence``, or an encoder.
    settings
        How the metric is trained; None takes those of ``strategy="paper"``.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        The seed.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["a", "b"] * 8, ["x", "y"] * 8) for name in ("one", "two"))
    >>> vectors = dict.fromkeys(tasks.names, np.tile(np.eye(2), (8, 1))) | {"new": np.eye(2)}
    >>> baseline = MatchingNetworkBaseline(FeatureEncoder(vectors)).fit(tasks)
    >>> baseline.adapt(Task("new", ["a", "b"], ["yes", "no"])).predict(np.eye(2)).tolist()
    ['yes', 'no']
    """

    def __init__(
        self,
        encoder: str | Encoder = "cnn",
        *,
        settings: FewShotSettings | None = None,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(encoder, vectors=vectors, model=model, device=device, random_state=random_state)
        self.settings = settings

    def _learn_sources(
        self, tasks: TaskSet, prepared: PreparedTasks, seed: int, progress: Progress | None
    ) -> None:
        sources = []
        for task in tasks:
            rows = task.rows("train", "valid")
            codes = task.label_codes[rows].astype(np.int64)
            no_names = np.full(len(task.label_names), -1, dtype=np.int64)
            sources.append(SourceRows(task.name, prepared.items_of(task.name, rows), codes, no_names))
        settings = self.settings or default_settings("paper", words=isinstance(prepared.inputs, WordInputs))
        metrics = train_metrics(prepared.inputs, sources, {}, settings=settings, seed=seed, progress=progress)
        self.space_: Space = metrics.shared

    def _learn_task(self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64]) -> MatchingPredictor:
        return MatchingPredictor(self.space_, self.space_.represent(inputs), codes, len(task.label_names))


@dataclass(frozen=True, slots=True, eq=False)
class MatchingPredictor:
    """The metric, the support set under it, and its labels."""

    space: Space
    support: NDArray[np.float32]
    codes: NDArray[np.int64]
    n_labels: int

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item (Eq. 4)."""
        return match(self.space.represent(inputs), self.support, self.codes, n_labels=self.n_labels)

"""ASAP-Clus-MTL and ASAP-Clus-FSL: our multi-task and few-shot learning on the clusters of ASAP."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from robusttc.baselines.asap import asap_clusters
from robusttc.baselines.own_task import TaskBaseline
from robusttc.baselines.served import serve_tasks
from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder
from robusttc.errors import UsageError
from robusttc.fewshot.estimator import ClusterFewShot
from robusttc.fewshot.model import FewShotModel
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import Progress
from robusttc.random import RandomState

__all__ = ["AsapClusterFewShot", "AsapClusterMultiTask"]

Strategy = Literal["blend", "paper"]


class AsapClusterMultiTask(TaskBaseline):
    """ASAP-Clus-MTL: `asap_clusters` cuts the tasks, `ClusterMultiTask` learns on these clusters.

    For tasks with identical label sets. The paper does so because ASAP itself is bound to linear models.

    Parameters
    ----------
    n_clusters
        The number of clusters.
    encoder
        That of the models: ``cnn`` as in the paper, ``sentence``, or an encoder.
    features
        That of the clustering: ``sentence``, ``words``, or an encoder; see `AsapBaseline`.
    strategy
        ``paper`` or ``blend``; see `ClusterMultiTask`. Cluster models always serve.
    vectors, model, device
        See `robusttc.encoders.make_encoder`.
    random_state
        The seed.

    Attributes
    ----------
    labels_
        The cluster of every task.
    estimator_
        The estimator behind.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(f"t{i}", ["a", "b"] * 4, ["x", "y"][:: 1 - 2 * (i % 2)] * 4) for i in range(4))
    >>> encoder = FeatureEncoder(dict.fromkeys(tasks.names, np.tile(np.eye(2), (4, 1))))
    >>> baseline = AsapClusterMultiTask(2, encoder=encoder, features=encoder).fit(tasks)
    >>> baseline.predict("t1", np.eye(2)).tolist(), baseline.labels_.tolist()
    (['y', 'x'], [0, 1, 0, 1])
    """

    labels_: NDArray[np.int64]
    estimator_: ClusterMultiTask

    def __init__(
        self,
        n_clusters: int = 5,
        *,
        encoder: str | Encoder = "cnn",
        features: str | Encoder = "sentence",
        strategy: Strategy = "paper",
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.features = features
        self.strategy = strategy
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    def fit(
        self, tasks: TaskSet, labels: Sequence[int] | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Cluster the tasks, and learn them on these clusters.

        Parameters
        ----------
        tasks
            The tasks.
        labels
            Clusters; they have no effect, because the method makes its own.
        progress
            Is told how far it is.

        Raises
        ------
        UsageError
            If a parameter cannot be used, or the label sets differ.
        """
        del labels
        self.labels_ = asap_clusters(
            tasks,
            self.n_clusters,
            encoder=self.features,
            random_state=self.random_state,
            progress=progress,
        )
        estimator = ClusterMultiTask(
            self.encoder,
            strategy=self.strategy,
            cluster_models="always",
            vectors=self.vectors,
            model=self.model,
            device=self.device,
            random_state=self.random_state,
        )
        self.estimator_ = estimator.fit(tasks, self.labels_, progress=progress)
        self.models_ = serve_tasks(self.estimator_)
        return self


class AsapClusterFewShot:
    """ASAP-Clus-FSL: `asap_clusters` cuts the source tasks, `ClusterFewShot` learns on these clusters.

    For source tasks with identical label sets.

    Parameters
    ----------
    n_clusters
        The number of clusters.
    encoder, features, vectors, model, device, random_state
        As for `AsapClusterMultiTask`.
    strategy
        ``paper`` or ``blend``; see `ClusterFewShot`. Clusters always serve.
    threshold
        Below this accuracy on its rows a task is out of all clusters; 0, the default, is the paper's method
        without *Adaptive*.

    Attributes
    ----------
    labels_
        The cluster of every source task.
    estimator_
        The estimator behind.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(f"t{i}", ["a", "b"] * 4, ["x", "y"][:: 1 - 2 * (i % 2)] * 4) for i in range(4))
    >>> rows = dict.fromkeys(tasks.names, np.tile(np.eye(2), (4, 1))) | {"new": np.eye(2)}
    >>> encoder = FeatureEncoder(rows)
    >>> baseline = AsapClusterFewShot(2, encoder=encoder, features=encoder).fit(tasks)
    >>> baseline.adapt(Task("new", ["a", "b"], ["x", "y"])).predict(np.eye(2)).tolist()
    ['x', 'y']
    """

    labels_: NDArray[np.int64]
    estimator_: ClusterFewShot

    def __init__(
        self,
        n_clusters: int = 5,
        *,
        encoder: str | Encoder = "cnn",
        features: str | Encoder = "sentence",
        strategy: Strategy = "paper",
        threshold: float = 0.0,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.features = features
        self.strategy = strategy
        self.threshold = threshold
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters by their names, as they were given."""
        del deep  # scikit-learn's signature; no parameter has parameters of its own
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def fit(
        self, tasks: TaskSet, labels: Sequence[int] | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Cluster the source tasks, and learn from them on these clusters.

        Parameters
        ----------
        tasks
            The source tasks.
        labels
            Clusters; they have no effect, because the method makes its own.
        progress
            Is told how far it is.

        Raises
        ------
        UsageError
            If a parameter cannot be used, or the label sets differ.
        """
        del labels
        sources = tasks.shareable()
        self.labels_ = asap_clusters(
            sources,
            self.n_clusters,
            encoder=self.features,
            random_state=self.random_state,
            progress=progress,
        )
        estimator = ClusterFewShot(
            self.encoder,
            strategy=self.strategy,
            clusters="always",
            threshold=self.threshold,
            vectors=self.vectors,
            model=self.model,
            device=self.device,
            random_state=self.random_state,
        )
        self.estimator_ = estimator.fit(sources, self.labels_, progress=progress)
        return self

    def adapt(self, task: Task) -> FewShotModel:
        """Learn a new task from its rows in ``train``.

        Raises
        ------
        UsageError
            If `fit` was not called.
        """
        if not hasattr(self, "estimator_"):
            raise UsageError(f"this {type(self).__name__} is not fitted", todo="call fit(source_tasks) first")
        return self.estimator_.adapt(task)

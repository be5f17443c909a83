"""The stage `cluster`: from transfer scores to clusters, as one unit of work."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.clustering import RobustTaskClustering
from robusttc.errors import DoubtWarning
from robusttc.jobs import Job, Result, Runner
from robusttc.progress import Progress
from robusttc.run.settings import FitSettings
from robusttc.run.similarity import Similarity, similarity_of
from robusttc.transfer import TransferScores

__all__ = ["Groups", "find_groups"]

STAGE = "cluster"


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A clustering.

    Attributes
    ----------
    task_names
        The tasks that were clustered.
    labels
        The cluster of each, -1 for none.
    confidence
        The posterior probability of each task's cluster.
    n_clusters, reason
        How many there are, and why.
    certificate, verdict
        What is proven of the completion, and whether held-out pairs support the clusters, as values for JSON.
    similarity
        The matrices behind it.
    """

    task_names: tuple[str, ...]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    n_clusters: int
    reason: str
    certificate: Mapping[str, Any]
    verdict: Mapping[str, Any]
    similarity: Similarity

    @property
    def by_name(self) -> dict[str, int]:
        """The cluster of each task, by its name."""
        return dict(zip(self.task_names, self.labels.tolist(), strict=True))

    def members(self) -> dict[int, tuple[str, ...]]:
        """Give the names of the tasks of each cluster."""
        return {
            number: tuple(self.task_names[place] for place in np.flatnonzero(self.labels == number))
            for number in range(self.n_clusters)
        }


def find_groups(
    scores: TransferScores,
    configuration: FitSettings,
    *,
    task_features: NDArray[np.float64] | None = None,
    runner: Runner,
    progress: Progress | None = None,
) -> Groups | None:
    """Cluster the tasks of some scores; None where that was tried in vain.

    `task_features` are side information about the tasks, such as the mean vectors of their texts.

    Examples
    --------
    >>> from robusttc.clustering import make_planted_scores
    >>> from robusttc.jobs import Runner
    >>> scores = make_planted_scores([f"task {i}" for i in range(24)], np.arange(24) % 2, random_state=0)
    >>> find_groups(scores, FitSettings(), runner=Runner()).n_clusters
    2
    """
    argument = {
        "n_clusters": configuration.clusters,
        "strategy": "paper" if configuration.strategy == "paper" else "default",
        "rule": configuration.rule,
        "random_state": configuration.seed,
    }
    # Scores that are there after units were tried again make another clustering, with a key of its own.
    unit = Job(f"{STAGE}/{scores.content_hash[:16]}", cluster_scores, argument)
    handle = runner.share((scores, task_features))
    try:
        payload = runner.run(STAGE, [unit], handle, progress=progress, unit="clusterings")[0]
    finally:
        runner.release(handle)
    if payload is None:
        return None
    return Groups(
        scores.task_names,
        payload.arrays["labels"],
        payload.arrays["confidence"],
        payload.values["n_clusters"],
        payload.values["reason"],
        payload.values["certificate"],
        payload.values["verdict"],
        Similarity.from_arrays(scores.task_names, payload.arrays),
    )


def cluster_scores(
    given: tuple[TransferScores, NDArray[np.float64] | None], argument: Mapping[str, Any]
) -> Result:
    """Do the unit."""
    scores, task_features = given
    estimator = RobustTaskClustering(**argument)
    with warnings.catch_warnings():
        # What is doubtful is part of the certificate.
        warnings.simplefilter("ignore", DoubtWarning)
        estimator.fit(scores, task_features=task_features)
    return Result(
        {
            "n_clusters": int(estimator.n_clusters_),
            "reason": estimator.n_clusters_reason_,
            "certificate": estimator.certificate_.as_dict(),
            "verdict": estimator.verdict_.as_dict(),
        },
        {
            "labels": estimator.labels_.astype(np.int64),
            "confidence": estimator.confidence_.astype(np.float64),
            **similarity_of(estimator).arrays(),
        },
    )

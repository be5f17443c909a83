"""The clusters that a table learns on, from its own scores: the paper's, the default ones, and controls."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, SpectralClustering
from threadpoolctl import threadpool_limits

from benchmarks.paper.kept_scores import find_scores, keep_scores
from benchmarks.paper.plan import NumberOfClusters, Plan
from benchmarks.paper.table import Cost, Stopwatch
from benchmarks.report import GLOVE
from robusttc import DoubtWarning, RobustTaskClustering, TaskSet, TransferScores, measure_transfer
from robusttc.baselines import AsapBaseline
from robusttc.encoders import make_encoder
from robusttc.models import random_clusters_like
from robusttc.transfer import TransferSettings, estimate_cost

__all__ = ["Clusterings", "Grouping", "word_vectors"]

Instrument = Literal["paper", "default"]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """The cluster of every task by name, how they were made, and what came out."""

    groups: Mapping[str, int]
    settings: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)


class Clusterings:
    """All clusters of the tasks of a table; scores are measured once for each encoder and seed.

    The paper's: accuracy on validation rows of a classifier on the frozen encoder of another task (with
    identical label sets, of the other task's own model), Eq. 1, Eq. 2, spectral clustering; no more.
    The default instrument: `measure_transfer` and `RobustTaskClustering` as they come.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._scores: dict[tuple[str, str, int], TransferScores] = {}
        self._asap: dict[tuple[int, int, tuple[str, ...]], AsapBaseline] = {}
        self.costs: dict[tuple[str, str, int], Cost] = {}
        self._spent = (0.0, 0.0)

    def spent(self) -> tuple[float, float]:
        """Give the seconds and processor seconds that measuring scores took this process so far.

        Several rows share the scores, so they are in the cost of none; each says what its scores took.
        """
        return self._spent

    def scores(self, instrument: Instrument, encoder: str, seed: int) -> TransferScores:
        """Give the scores of all tasks; in few-shot tables, of all sources."""
        key = (instrument, encoder, seed)
        if key not in self._scores:
            options: dict[str, Any] = {
                "encoder": encoder,
                "pairs": self.plan.pairs,
                "settings": self.settings_of(instrument),
                "vectors": word_vectors(encoder),
                "random_state": seed,
            }
            kept = None if self.plan.is_quick else self._find(options)
            if kept is not None:
                self._scores[key], self.costs[key] = kept
                print(f"{instrument} scores, {encoder}, seed {seed}: measured before", flush=True)
            else:
                self._scores[key], self.costs[key] = self._measure(options)
                took = f"measured in {self.costs[key].seconds:.0f} s"
                print(f"{instrument} scores, {encoder}, seed {seed}: {took}", flush=True)
        return self._scores[key]

    def _find(self, options: Mapping[str, Any]) -> tuple[TransferScores, Cost] | None:
        """Read the scores of these tasks; or those of all tasks, which a multi-task table measured.

        A score depends on its two tasks only; but which pairs are chosen depends on all.
        """
        measured, whole = self.plan.measured, self.plan.data.tasks
        kept = find_scores(measured, options)
        if kept is None and self.plan.pairs == "all" and len(whole) > len(measured):
            kept = find_scores(whole, options)
            if kept is not None:
                kept = kept[0].subset(measured.names), kept[1]
        return kept

    def _measure(self, options: Mapping[str, Any]) -> tuple[TransferScores, Cost]:
        tasks = self.plan.measured
        if not self.plan.is_quick:
            print(f"measuring scores: {estimate_cost(tasks, **options).describe()}", flush=True)
        watch = Stopwatch()
        scores = measure_transfer(tasks, **options)
        cost = watch.read()
        self._spent = (self._spent[0] + cost.seconds, self._spent[1] + cost.cpu_seconds)
        if not self.plan.is_quick:
            keep_scores(tasks, options, scores, cost)
        return scores, cost

    def settings_of(self, instrument: Instrument) -> TransferSettings:
        """Give how scores are measured."""
        training = self.plan.frozen_single
        if instrument == "default":
            return TransferSettings(training=training)
        return TransferSettings(kind="accuracy", training=training)

    def robust(
        self, instrument: Instrument, number: NumberOfClusters, *, encoder: str, tasks: TaskSet, seed: int
    ) -> Grouping:
        """Cluster some of the tasks: the paper's scores by Algorithm 1, the default ones by the default.

        A score depends on its two tasks only, so where a table has both settings, the scores among the
        sources of few-shot learning are taken from those of all tasks; rows in ``test`` are in neither.
        """
        scores = self.scores(instrument, encoder, seed).subset(tasks.names)
        options: dict[str, Any] = {"n_clusters": number, "strategy": instrument, "random_state": seed}
        if instrument == "paper":
            options["rule"] = self.plan.rule
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtWarning)
            model = RobustTaskClustering(**options).fit(scores)
        certificate, verdict = model.certificate_.as_dict(), model.verdict_.as_dict()
        described = {"scores": instrument, "kind": scores.kind, "pairs": self.plan.pairs, **options}
        extra = {
            "n_scores": len(scores),
            "scores_seconds": self.costs[instrument, encoder, seed].seconds,
            "gap": certificate["gap"],
            "certified": certificate["converged"],
            "supported": verdict["supported"],
            "p_value": verdict["p_value"],
            "reason": model.n_clusters_reason_,
        }
        return name_groups(tasks, model.labels_, described, extra)

    def raw(self, number: int, *, encoder: str, tasks: TaskSet, seed: int) -> Grouping:
        """Cluster spectrally on the paper's scores as they are: columns standardised, symmetrised."""
        scores = self.scores("paper", encoder, seed).subset(tasks.names)
        matrix = scores.to_matrix().astype(np.float64)
        np.fill_diagonal(matrix, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            spread = np.nanstd(matrix, axis=0)
            standard = (matrix - np.nanmean(matrix, axis=0)) / np.where(spread > 0, spread, 1)
            both = np.nanmean([standard, standard.T], axis=0)
        # A pair that was not measured is as similar as the mean pair.
        both[np.isnan(both)] = np.nanmean(both)
        affinity = both - both.min()
        np.fill_diagonal(affinity, affinity.max())
        with threadpool_limits(1):
            model = SpectralClustering(number, affinity="precomputed", random_state=seed)
            labels = model.fit_predict(affinity)
        return name_groups(
            tasks, labels, {"scores": "paper", "kind": "accuracy", "raw S, n_clusters": number}
        )

    def random(self, number: int, *, encoder: str, tasks: TaskSet, seed: int) -> Grouping:
        """Give random clusters of the sizes of those of the paper's scores."""
        found = self.robust("paper", number, encoder=encoder, tasks=tasks, seed=seed)
        labels = random_clusters_like([found.groups[name] for name in tasks.names], seed)
        return name_groups(tasks, labels, {"random, sizes of n_clusters": number})

    def centroids(self, number: int, *, tasks: TaskSet, seed: int) -> Grouping:
        """Cluster the mean sentence vectors of training texts by k-means: topics, no transfer."""
        prepared = make_encoder("sentence", device="cpu").prepare(tasks, splits=("train",))
        means = []
        for task in tasks:
            inputs: Any = prepared.inputs_of(task.name, task.rows("train"))
            means.append(inputs.matrix.mean(axis=0))
        with threadpool_limits(1):
            labels = KMeans(number, n_init=10, random_state=seed).fit_predict(np.stack(means))
        return name_groups(tasks, labels, {"text centroids, n_clusters": number})

    def kinds(self, *, tasks: TaskSet) -> Grouping:
        """Give the true kinds."""
        kinds = self.plan.data.kinds or {}
        return name_groups(tasks, np.array([kinds[name] for name in tasks.names]), {"clusters": "true kinds"})

    def asap_model(self, number: int, *, tasks: TaskSet, seed: int) -> AsapBaseline:
        """Give the solved program of ASAP, which is solved once for its own models and its clusters."""
        key = (number, seed, tasks.names)
        if key not in self._asap:
            self._asap[key] = AsapBaseline(number, encoder="sentence", random_state=seed).fit(tasks)
        return self._asap[key]

    def asap(self, number: int, *, tasks: TaskSet, seed: int) -> Grouping:
        """Give the clusters of ASAP, on sentence vectors."""
        labels = self.asap_model(number, tasks=tasks, seed=seed).labels_
        return name_groups(tasks, labels, {"ASAP, n_clusters": number, "features": "sentence"})


def name_groups(
    tasks: TaskSet,
    labels: NDArray[Any],
    settings: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
) -> Grouping:
    """Put clusters under the names of the tasks, and count them."""
    numbers, counts = np.unique(labels[labels >= 0], return_counts=True)
    counted = {
        "n_clusters": len(numbers),
        "sizes": sorted(counts.tolist(), reverse=True),
        "n_in_none": int((labels < 0).sum()),
    }
    groups = dict(zip(tasks.names, np.asarray(labels).tolist(), strict=True))
    return Grouping(groups=groups, settings=settings, extra={**counted, **(extra or {})})


def word_vectors(encoder: str) -> Any:
    """Give the file of GloVe vectors for words, and nothing for any other encoder."""
    return GLOVE if encoder == "cnn" else None

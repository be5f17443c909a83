"""The work whose cost is measured: the pieces of the paper's way, plainly and with the library."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.learning_data import load_set
from benchmarks.paper.figure_table import Measured
from benchmarks.paper.plain_way import PlainWay
from benchmarks.paper.table import Way
from benchmarks.planted import Planted, plant
from benchmarks.report import GLOVE
from benchmarks.textbook_ialm import textbook_ialm
from benchmarks.torch_training import warm_up
from robusttc import TaskSet, complete_similarity, make_planted_tasks, measure_transfer
from robusttc.clustering import CompletionResult
from robusttc.encoders import CnnEncoder, WordInputs
from robusttc.multitask import ClusterMultiTask
from robusttc.random import numpy_generator

__all__ = ["CostSet"]

PAPER_ENTRIES = {"clients1491": 100_000}
N_CLUSTERS = {"planted": 2, "bots175": 20, "clients1491": 40}
QUICK_TASKS = 6
# Seconds of each part of the plain way.
BUDGETS = {
    False: {"models": 180.0, "pairs": 240.0, "steps": 120.0},
    True: {"models": 1.0, "pairs": 1.0, "steps": 1.0},
}


class CostSet:
    """A set of tasks, and the work whose cost is measured on it."""

    def __init__(self, name: str, *, quick: bool) -> None:
        self.name, self.quick = name, quick
        if name == "planted":
            self.tasks: TaskSet = make_planted_tasks(n_tasks=QUICK_TASKS, random_state=0).tasks
        else:
            self.tasks = load_set(name)
            if quick:
                self.tasks = self.tasks.subset(self.tasks.names[:QUICK_TASKS])
        self.budget = BUDGETS[quick]
        self.entries = PAPER_ENTRIES.get(name) if not quick else None

    @cached_property
    def encoder(self) -> CnnEncoder:
        """The encoder of both ways."""
        return CnnEncoder(None if self.name == "planted" else GLOVE)

    @cached_property
    def plain(self) -> PlainWay:
        """The plain way, with its texts tokenised: that is in no time."""
        prepared = self.encoder.prepare(self.tasks, splits=("train", "valid"))
        assert isinstance(prepared.inputs, WordInputs)
        warm_up(prepared.inputs)
        return PlainWay(self.tasks, prepared)

    @cached_property
    def clusters(self) -> list[list[str]]:
        """Equal parts of the tasks in random order."""
        order = numpy_generator(0, "clusters of a cost").permutation(len(self.tasks))
        return [
            [self.tasks.names[place] for place in part]
            for part in np.array_split(order, N_CLUSTERS[self.name])
        ]

    @cached_property
    def similarity(self) -> Planted:
        """Planted similarities of as many tasks, with as many observed partners as filtered scores have."""
        n = len(self.tasks)
        measured = n - 1 if self.entries is None else self.entries / n
        return plant(n, min(4, n), max(0.5 * measured, 2.0), 0.05, 0)

    def plain_models(self) -> Measured:
        """Train single-task models one by one."""
        return Measured(figures=self.plain.train_models(self.budget["models"]).figures())

    def plain_pairs(self) -> Measured:
        """Score pairs one by one."""
        if not self.plain.models:
            self.plain.train_models(self.budget["models"] / 3)
        sampled, scores = self.plain.score_pairs(self.budget["pairs"])
        figures = sampled.figures()
        if self.entries is not None:
            share = self.entries / sampled.n_all
            figures["estimated_seconds_at_the_papers_entries"] = share * float(
                figures["estimated_seconds"] or 0
            )
        return Measured(figures=figures, extra={"mean_accuracy": float(np.nanmean(scores))})

    def plain_clusters(self) -> Measured:
        """Train the models of clusters."""
        return Measured(figures=self.plain.train_clusters(self.clusters, self.budget["steps"]).figures())

    def plain_completion(self) -> Measured:
        """Complete by the textbook, at the lambda that cross-validation chooses in ours."""
        data = self.similarity
        lam = 1 / complete(data).regularisation
        start = time.process_time()
        _, rounds = textbook_ialm(data.Y.toarray(), data.observed.toarray() > 0, lam)
        return whole(time.process_time() - start, rounds=rounds, n_tasks=len(self.tasks))

    def our_scores(self) -> Measured:
        """Measure the paper's S."""
        start = time.process_time()
        pairs: Any = "all" if self.entries is None else self.entries
        scores = measure_transfer(self.tasks, encoder=self.encoder, pairs=pairs, kind="accuracy")
        return whole(time.process_time() - start, n_all=len(scores))

    def our_completion(self) -> Measured:
        """Complete the same planted similarities, lambda by cross-validation."""
        start = time.process_time()
        result = complete(self.similarity)
        return whole(time.process_time() - start, gap=result.gap, n_tasks=len(self.tasks))

    def our_clusters(self) -> Measured:
        """Train the models of clusters the paper's way."""
        groups = {name: number for number, cluster in enumerate(self.clusters) for name in cluster}
        start = time.process_time()
        ClusterMultiTask(self.encoder, strategy="paper", random_state=0).fit(self.tasks, groups)
        return whole(time.process_time() - start, n_all=len(self.clusters))

    def parts(self) -> dict[Way, Any]:
        """Give all parts of both ways."""

        def way(name: str, group: str) -> Way:
            return Way(way=f"{group}: {name}", group=group, encoder="cnn")

        return {
            way("single-task models, one by one", "plain"): self.plain_models,
            way("all pairs of the paper's S, a torch loop a pair", "plain"): self.plain_pairs,
            way("completion, textbook inexact ALM", "plain"): self.plain_completion,
            way("models of clusters, a torch loop each", "plain"): self.plain_clusters,
            way("the paper's S, single-task models included", "ours"): self.our_scores,
            way("completion", "ours"): self.our_completion,
            way("models of clusters", "ours"): self.our_clusters,
        }


def complete(data: Planted) -> CompletionResult:
    """Solve Eq. 2, lambda by cross-validation."""
    return complete_similarity(data.Y, data.observed, loss="absolute")


def whole(seconds: float, **figures: Any) -> Measured:
    """Give the figures of work that was done to its end: its time is no estimate."""
    return Measured(figures={"measured_seconds": seconds, "estimated_seconds": seconds, **figures})

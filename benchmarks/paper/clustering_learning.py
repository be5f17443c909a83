"""What clusters are for: the paper's multi-task models on the clusters of each method, on test rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.learning_data import novel_rows
from benchmarks.learning_multitask import judge as judge_model
from benchmarks.paper.clustering_ways import METHODS, Ablation, Clustered, Comparison
from benchmarks.paper.figure_table import FigureTable, Measured
from benchmarks.paper.table import Way, key_of
from robusttc.multitask import ClusterMultiTask
from robusttc.stats import difference_interval

__all__ = ["learn_on_clusters", "learned_differences"]

# Without those that differ little from the robust way, and the clusters that are said to be there.
LEARNED = ("robust", "paper", "standardised", "raw", "texts", "random", "truth")
LEARNER = "sentence"
NAMES = {**METHODS, "truth": "what is said of the tasks"}


def way_of(method: str) -> Way:
    """Name the models on the clusters of a method."""
    return Way(way=f"learned on: {NAMES[method]}", group="learned", encoder=LEARNER)


def learn_on_clusters(
    table: FigureTable, compared: Comparison, methods: Sequence[Ablation], *, n_seeds: int
) -> None:
    """Make the records of one set: a model of each method and seed; all have one number of clusters."""
    data = compared.data
    chosen = [one for one in methods if one.method in LEARNED]
    if data.truth is not None:
        chosen.append(Ablation(way="", group="", method="truth"))
    for one in chosen:
        for seed in range(n_seeds):

            def work(one: Ablation = one, seed: int = seed) -> Measured:
                return learn(compared, one, compared.cluster(one, seed), seed)

            table.make(way_of(one.method), work, seed=seed, targets=data.name)


def learn(compared: Comparison, one: Ablation, found: Clustered, seed: int) -> Measured:
    """Train the paper's models on these clusters, and give the accuracy of every task on test rows."""
    data = compared.data
    model = ClusterMultiTask(LEARNER, strategy="paper", random_state=seed)
    model.fit(data.tasks, dict(zip(data.tasks.names, found.labels.tolist(), strict=True)))
    judged = judge_model(model, data.tasks, "test", novel_rows(data.tasks, "test"))
    means = {f"accuracy_{texts}": float(np.mean(list(judged[texts].values()))) for texts in ("all", "novel")}
    return Measured(
        figures={**means, "n_clusters": found.n_clusters},
        settings={**one.settings(), "strategy": "paper", "encoder": LEARNER},
        accuracies={texts: judged[texts] for texts in ("all", "novel")},
    )


def learned_differences(table: FigureTable, name: str, *, n_seeds: int) -> None:
    """Compare the models on robust clusters with those on others, paired over tasks, the mean over seeds."""

    def records(method: str) -> list[dict[str, Any]]:
        way = way_of(method)
        keys = [key_of(way, seed=seed, targets=name) for seed in range(n_seeds)]
        return [table.records[key] for key in keys if key in table.records]

    robust = records("robust")
    for method in LEARNED[1:]:
        others = records(method)
        for texts in ("all", "novel"):
            if not others or not robust or not robust[0][texts]:
                continue

            def work(others: list[dict[str, Any]] = others, texts: str = texts) -> Measured:
                first, second = (mean_by_task(own, texts) for own in (robust, others))
                difference = difference_interval(first, second)
                figures = {"mean": difference.mean, "low": difference.low, "high": difference.high}
                wins = int(np.greater(first, second).sum())
                losses = int(np.less(first, second).sum())
                return Measured(figures={**figures, "n": difference.n, "wins": wins, "losses": losses})

            table.make(
                Way(
                    way=f"accuracy, {texts} texts: robust less {NAMES[method]}",
                    group="differences",
                    encoder=LEARNER,
                ),
                work,
                seed=0,
                targets=f"{name}, {n_seeds} seeds",
            )


def mean_by_task(records: Sequence[dict[str, Any]], texts: str) -> list[float]:
    """Give the accuracy of each task, the mean over seeds, in the order of their names."""
    names = sorted(records[0][texts])
    return [float(np.mean([record[texts][name] for record in records])) for name in names]

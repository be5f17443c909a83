"""Multi-task learning on real tasks: every way beside tuned baselines, on all and on novel test texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning_data import (
    Groups,
    cluster_tasks,
    load_set,
    novel_rows,
    shuffle_groups,
    true_kinds,
)
from benchmarks.records import Record, Records, estimate, score_answers, show, show_differences
from benchmarks.report import GLOVE, print_table
from robusttc import TaskSet
from robusttc.baselines import HolisticBaseline, LogisticRegressionBaseline, SingleTaskBaseline
from robusttc.multitask import ClusterMultiTask

PART = "multi-task"
LOGISTIC = "logistic regression, C tuned"
# What clusters add, each beside what it is to be compared with.
PAIRS = (
    ("paper: clusters", "paper: holistic"),
    ("paper: clusters", "paper: random clusters"),
    ("paper: true kinds", "paper: holistic"),
    ("paper: clusters", "paper: true kinds"),
    ("blend", "paper: holistic"),
    ("blend", "blend without clusters"),
    ("blend", "blend, true kinds"),
)


class Predictor(Protocol):
    """What has been fitted."""

    def predict(self, task_name: str, texts: Any) -> NDArray[np.object_]:
        """Give the label of every text."""


Fit = Callable[[int], Predictor]


def ways(
    tasks: TaskSet, encoder: str, groups: Callable[[int], Groups], kinds: Groups | None
) -> dict[str, Fit]:
    """Give every way of learning by its name, as a function of the seed."""
    vectors = GLOVE if encoder == "cnn" else None

    def clusters(**options: Any) -> ClusterMultiTask:
        return ClusterMultiTask(encoder, vectors=vectors, **options)

    found: dict[str, Fit] = {}
    if encoder == "sentence":
        found[LOGISTIC] = lambda seed: LogisticRegressionBaseline(encoder, random_state=seed).fit(tasks)
    found |= {
        "single task": lambda seed: SingleTaskBaseline(encoder, vectors=vectors, random_state=seed).fit(
            tasks
        ),
        "paper: holistic": lambda seed: HolisticBaseline(encoder, vectors=vectors, random_state=seed).fit(
            tasks
        ),
        "paper: clusters": lambda seed: clusters(strategy="paper", random_state=seed).fit(
            tasks, groups(seed)
        ),
        "paper: random clusters": lambda seed: clusters(strategy="paper", random_state=seed).fit(
            tasks, shuffle_groups(groups(seed), seed)
        ),
        "blend without clusters": lambda seed: clusters(cluster_models="never", random_state=seed).fit(tasks),
        "blend": lambda seed: clusters(random_state=seed).fit(tasks, groups(seed)),
    }
    if encoder == "sentence":
        found["blend, tuned encoder"] = lambda seed: clusters(tune="encoder", random_state=seed).fit(
            tasks, groups(seed)
        )
    if kinds is not None:
        found["paper: true kinds"] = lambda seed: clusters(strategy="paper", random_state=seed).fit(
            tasks, kinds
        )
        found["blend, true kinds"] = lambda seed: clusters(random_state=seed).fit(tasks, kinds)
    return found


def judge(model: Predictor, tasks: TaskSet, split: str, novel: dict[str, NDArray[np.bool_]]) -> Record:
    """Give the accuracies of every task, and what the model says of itself."""
    right = {}
    for task in tasks:
        rows = task.rows(split)
        right[task.name] = model.predict(task.name, list(task.texts_at(rows))) == task.labels[rows]
    record: Record = dict(score_answers(right, novel))
    if isinstance(model, ClusterMultiTask):
        record["weights"] = model.weights_
        if model.verdict_ is not None:
            record["verdict"] = model.verdict_.to_dict()
            record["parts"] = {name: part.to_dict() for name, part in model.held_out_accuracy_.items()}
            record["trust"] = model.trust_report().to_dict()
    return record


def measure(
    records: Records, *, data: str, encoder: str, seeds: int, split: str, only: list[str] | None = None
) -> None:
    """Make all records of one set and encoder that are not there yet."""
    tasks = load_set(data)
    novel = novel_rows(tasks, split)
    kinds = true_kinds(tasks) if data == "diverse" else None
    cache: dict[int, Groups] = {}

    def groups(seed: int) -> Groups:
        if seed not in cache:
            cache[seed] = cluster_tasks(tasks, seed)
        return cache[seed]

    for way, fit in ways(tasks, encoder, groups, kinds).items():
        if only and way not in only:
            continue
        # Regression has nothing random.
        for seed in range(1 if way == LOGISTIC else seeds):

            def work(fit: Fit = fit, seed: int = seed) -> Record:
                return judge(fit(seed), tasks, split, novel)

            records.make((PART, data, encoder, split, way, seed), work)


def print_results(records: Records, *, data: str, encoder: str, split: str) -> None:
    """Print the table of one set and encoder: means, and differences to the way that stands first."""
    key = (PART, data, encoder, split)
    found = {way: records.of(*key, way) for way in records.ways(*key)}
    if not found:
        return
    against = next((way for way in (LOGISTIC, "single task") if way in found), None)
    print(f"\n## Multi-task, {data}, encoder {encoder}, rows in {split}\n")
    rows = []
    for way, own in sorted(found.items(), key=lambda item: -estimate(item[1], "all").mean):
        row = [way, show(estimate(own, "all")), show(estimate(own, "novel"))]
        row += show_differences(own, found.get(str(against), own))
        rows.append([*row, f"{np.mean([one['cpu_seconds'] for one in own]):.0f}", str(len(own))])
    header = ["way", "all texts", "novel texts", f"all, to {against}", "novel, to the same", "CPU s", "seeds"]
    print_table(header, rows)
    for first, second in PAIRS:
        if first in found and second in found:
            print(
                f"\n{first} less {second}: {', novel '.join(show_differences(found[first], found[second]))}"
            )
    for way, own in found.items():
        for one in own:
            if "verdict" in one:
                weights = ", ".join(f"{name} {weight:.2f}" for name, weight in one["weights"].items())
                print(f"\n{way}: {one['verdict']['sentence']} Weights: {weights}.")

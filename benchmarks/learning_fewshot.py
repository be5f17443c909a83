"""Few-shot learning on the targets of `bots175`: every way beside tuned baselines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.kept_vectors import keep_vectors
from benchmarks.learning_data import Groups, cluster_tasks, load_set, novel_rows, shuffle_groups, targets
from benchmarks.records import Record, Records, estimate, score_answers, show, show_differences
from benchmarks.report import GLOVE, print_table
from robusttc import Task, TaskSet
from robusttc.baselines import (
    FastTextBaseline,
    FineTunedHolisticBaseline,
    LogisticRegressionBaseline,
    MatchingNetworkBaseline,
    NearestNeighbourBaseline,
    PrototypeBaseline,
    SingleTaskBaseline,
    TaskMixtureBaseline,
)
from robusttc.encoders import SentenceEncoder
from robusttc.fewshot import ClusterFewShot, make_few_shot

PART = "few-shot"


class Learner(Protocol):
    """What has learned from the sources."""

    def adapt(self, task: Task) -> Any:
        """Learn a new task."""


Fit = Callable[[int], Learner]


def ways(
    sources: TaskSet,
    encoder: str,
    groups: Callable[[int], Groups],
    tuned: Callable[[int], SentenceEncoder] | None,
) -> dict[str, Fit]:
    """Give every way of learning by its name, as a function of the seed."""
    vectors = GLOVE if encoder == "cnn" else None

    def fewshot(**options: Any) -> ClusterFewShot:
        return ClusterFewShot(encoder, vectors=vectors, **options)

    found: dict[str, Fit] = {
        "paper: one matching network": lambda seed: MatchingNetworkBaseline(
            encoder, vectors=vectors, random_state=seed
        ).fit(sources),
        "paper: clusters, adaptive": lambda seed: fewshot(strategy="paper", random_state=seed).fit(
            sources, groups(seed)
        ),
        "paper: random clusters": lambda seed: fewshot(strategy="paper", random_state=seed).fit(
            sources, shuffle_groups(groups(seed), seed)
        ),
        "fine-tuned holistic": lambda seed: FineTunedHolisticBaseline(
            encoder, vectors=vectors, random_state=seed
        ).fit(sources),
        "mixture of single tasks": lambda seed: TaskMixtureBaseline(
            encoder, vectors=vectors, random_state=seed
        ).fit(sources),
        "single task": lambda seed: SingleTaskBaseline(encoder, vectors=vectors, random_state=seed),
    }
    if encoder == "cnn":
        found["fastText"] = lambda seed: FastTextBaseline(
            few_shot=True, vectors=vectors, random_state=seed
        ).fit(sources)
        found["blend"] = lambda seed: fewshot(random_state=seed).fit(sources, groups(seed))
        return found
    found |= {
        "logistic regression, C tuned": lambda seed: LogisticRegressionBaseline(
            few_shot=True, random_state=seed
        ).fit(sources),
        "nearest neighbours": lambda seed: NearestNeighbourBaseline(few_shot=True, random_state=seed).fit(
            sources
        ),
        "prototypes": lambda seed: PrototypeBaseline(random_state=seed),
        "blend": lambda seed: fewshot(random_state=seed).fit(sources, groups(seed)),
        "blend, clusters always": lambda seed: fewshot(cluster_models="always", random_state=seed).fit(
            sources, groups(seed)
        ),
        "blend without label names": lambda seed: fewshot(use_label_names=False, random_state=seed).fit(
            sources, groups(seed)
        ),
    }
    if tuned is not None:
        found["blend, tuned encoder"] = lambda seed: ClusterFewShot(tuned(seed), random_state=seed).fit(
            sources, groups(seed)
        )
        found["logistic regression, tuned encoder"] = lambda seed: LogisticRegressionBaseline(
            tuned(seed), few_shot=True, random_state=seed
        ).fit(sources)
    return found


def judge(learner: Learner, tasks: list[Task], novel: dict[str, NDArray[np.bool_]], seed: int) -> Record:
    """Adapt to every target, and give its accuracy on test rows, with the seconds of adaptation."""
    right, seconds, out = {}, [], []
    for task in tasks:
        rows = task.rows("test")
        keep_vectors(learner, task.texts)
        support = make_few_shot(task, random_state=seed)
        start = time.perf_counter()
        model = learner.adapt(support)
        seconds.append(time.perf_counter() - start)
        right[task.name] = model.predict(list(task.texts_at(rows))) == task.labels[rows]
        out.append(bool(getattr(model, "out_of_cluster_", False)))
    record: Record = dict(score_answers(right, novel))
    record["adapt_seconds"] = {name: round(value, 4) for name, value in zip(right, seconds, strict=True)}
    record["out_of_cluster"] = sum(out)
    if isinstance(learner, ClusterFewShot):
        record["verdict"] = None if learner.verdict_ is None else learner.verdict_.to_dict()
    return record


def measure(
    records: Records,
    *,
    encoder: str,
    seeds: int,
    only: list[str] | None = None,
) -> None:
    """Make all records of one encoder that are not there yet."""
    tasks = load_set("bots175")
    novel = novel_rows(tasks, "test")
    names = targets()
    sources = tasks.subset(name for name in tasks.names if name not in names)
    cache: dict[int, Groups] = {}

    def groups(seed: int) -> Groups:
        if seed not in cache:
            cache[seed] = cluster_tasks(sources, seed)
        return cache[seed]

    def tuned(seed: int) -> SentenceEncoder:
        from robusttc.encoders import fine_tune
        from robusttc.models import name_as_text

        return fine_tune(SentenceEncoder(device="cpu"), sources, seed=seed, label_texts=name_as_text)

    for way, fit in ways(sources, encoder, groups, tuned if encoder == "sentence" else None).items():
        if only and way not in only:
            continue
        for seed in range(seeds):

            def work(fit: Fit = fit, seed: int = seed) -> Record:
                start = time.perf_counter()
                learner = fit(seed)
                fit_seconds = time.perf_counter() - start
                record = judge(learner, [tasks[name] for name in names], novel, seed)
                return record | {"fit_seconds": round(fit_seconds, 2)}

            records.make((PART, "bots175", encoder, "test", way, seed), work)


def print_results(records: Records, *, encoder: str) -> None:
    """Print the table of one encoder."""
    key = (PART, "bots175", encoder, "test")
    found = {way: records.of(*key, way) for way in records.ways(*key)}
    if not found:
        return
    against = next((way for way in ("logistic regression, C tuned", "single task") if way in found), None)
    print(f"\n## Few-shot, 30 targets of bots175, encoder {encoder}: one row a label and 20 more\n")
    rows = []
    for way, own in sorted(found.items(), key=lambda item: -estimate(item[1], "all").mean):
        row = [way, show(estimate(own, "all")), show(estimate(own, "novel"))]
        row += show_differences(own, found.get(str(against), own))
        seconds = np.array([list(one["adapt_seconds"].values()) for one in own])
        adapt = f"{1000 * np.median(seconds):.0f} / {1000 * np.percentile(seconds, 95):.0f}"
        rows.append([*row, f"{np.mean([one['fit_seconds'] for one in own]):.0f}", adapt, str(len(own))])
    print_table(
        [
            "way",
            "all texts",
            "novel texts",
            f"all, to {against}",
            f"novel, to {against}",
            "fit s",
            "adapt ms (median / p95)",
            "seeds",
        ],
        rows,
    )
    for way, own in found.items():
        for one in own:
            if "verdict" in one:
                print(f"\n{way}: {one['verdict']['sentence']}")

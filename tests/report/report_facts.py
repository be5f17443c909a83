"""Runs that were never fitted: what the report is made from, put together by hand."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robusttc.clustering import RobustTaskClustering, fit_two_groups, make_planted_scores, pair_values
from robusttc.data import Task, TaskSet
from robusttc.errors import DoubtWarning
from robusttc.report.facts import RunFacts
from robusttc.run import AddedTask, Change
from robusttc.run.evaluation import Evaluation, TaskFigures
from robusttc.run.outputs import Similarity, symmetric
from robusttc.run.settings import FitSettings
from robusttc.stats import mean_interval, share_interval
from robusttc.transfer import TransferScores

FAMILIES = [
    "parcel tracking courier",
    "guitar melody concert",
    "weather cloudy forecast",
    "mortgage invoice tax",
]
SPLITS = ["train"] * 6 + ["valid"] * 2 + ["test"] * 2
N_TEST = 40


def make_task(name: str, family: int = 0, *, may_share: bool = True, splits: Sequence[str] = SPLITS) -> Task:
    """A task of two labels whose texts have the words of a family, and one that all families have."""
    words = FAMILIES[family % len(FAMILIES)].split()
    texts = [
        f"please {words[row % 3]} {words[(row + 1) % 3]} {'now' if row % 2 else ''}" for row in range(10)
    ]
    return Task(name, texts, [f"label_{row % 2}" for row in range(10)], splits, may_share=may_share)


def make_figures(
    name: str, group: int, *, own: int = 20, served: int = 24, has_shared: bool = True
) -> TaskFigures:
    """Test rows of which so many are right; those that one model gets right, the better one does too."""
    change = np.zeros(N_TEST)
    change[: abs(served - own)] = np.sign(served - own)
    between = share_interval((own + served) // 2, N_TEST)
    return TaskFigures(
        name,
        group,
        N_TEST,
        share_interval(own, N_TEST),
        between if has_shared else None,
        between if has_shared and group >= 0 else None,
        share_interval(served, N_TEST),
        mean_interval(change),
    )


def without_rows(name: str, group: int = -1) -> TaskFigures:
    """A task without test rows."""
    return TaskFigures(name, group, 0, None, None, None, None, None)


@functools.cache
def real_verdict(n_families: int = 2) -> dict[str, Any]:
    """What a real clustering says of itself."""
    names = [f"task {number}" for number in range(16)]
    scores = make_planted_scores(names, np.arange(16) % n_families, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        return RobustTaskClustering(random_state=0).fit(scores).verdict_.as_dict()


def make_scores(
    partition: Mapping[str, int], *, density: float = 1.0, seed: int = 0
) -> TransferScores | None:
    """Scores of tasks, higher within clusters; both directions of every pair that is measured."""
    names = list(partition)
    if len(names) < 2:
        return None
    random = np.random.default_rng(seed)
    labels = np.array([partition[name] for name in names])
    matrix = 0.5 + 0.2 * (labels[:, None] == labels) + random.normal(0, 0.03, (len(names), len(names)))
    observed = np.triu(random.random(matrix.shape) < density, 1)
    return TransferScores.from_matrix(matrix, names, observed=observed | observed.T, kind="other")


def make_similarity(partition: Mapping[str, int], scores: TransferScores) -> Similarity:
    """The matrix of the clusters, what the pairs say, and an outlier where that contradicts the clusters."""
    labels = np.array([partition[name] for name in scores.task_names])
    numbers = sorted(set(labels[labels >= 0].tolist()))
    members = np.array([labels == number for number in numbers], dtype=np.float64)
    members = members.reshape(len(numbers), len(labels))
    first, second, value = pair_values(scores)
    same = (labels[first] == labels[second]) & (labels[first] >= 0)
    posterior = fit_two_groups(value, same).posterior(value)
    outlier = np.where(np.abs(posterior - same) > 0.5, posterior - same, 0.0)
    clipped = outlier != 0
    return Similarity(
        scores.task_names,
        members.T,
        symmetric(len(labels), first, second, posterior),
        symmetric(len(labels), first[clipped], second[clipped], outlier[clipped]),
    )


def make_verdict(mean: float, *, n: int = 8, random: bool = True, helps: bool = False) -> dict[str, Any]:
    """The values of a verdict, with an interval of one point to each side."""
    estimate = {"mean": mean, "low": mean - 0.01, "high": mean + 0.01, "n": n}
    return {
        "setting": "multitask",
        "over_shared": estimate,
        "over_random": estimate if random else None,
        "clusters_help": helps,
        "n_tasks": n,
        "sentence": "A sentence.",
    }


def make_summary(**changes: Any) -> dict[str, Any]:
    """What a summary says, with changes by path: ``multitask__strategy="paper"``."""
    verdict = make_verdict(0.0)
    summary: dict[str, Any] = {
        "configuration": FitSettings().to_dict(),
        "clusters": {
            "reason": "clear gap",
            "certificate": {"gap": 1e-6, "converged": True},
            "verdict": dict(real_verdict()),
        },
        "multitask": {
            "strategy": "blend",
            "verdict": verdict,
            "clusters_serve": False,
            "weights": {"own": 1.0, "shared": 0.5, "cluster": 0.0},
        },
        "fewshot": {"verdict": {**verdict, "setting": "fewshot"}},
        "doubts": [],
        "quarantined": [],
        "costs": [
            {
                "stage": "encode",
                "wall_seconds": 1.5,
                "cpu_seconds": 1.0,
                "peak_bytes": 10,
                "units": 3,
                "ended": 1.0,
            }
        ],
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = summary
        for parent in parents:
            place = place[parent]
        place[last] = value
    return summary


def make_facts(
    partition: Mapping[str, int],
    *,
    private: Sequence[str] = (),
    set_aside: Mapping[str, str] | None = None,
    added: Mapping[str, AddedTask] | None = None,
    figures: Mapping[str, TaskFigures] | None = None,
    splits: Mapping[str, Sequence[str]] | None = None,
    confidence: Mapping[str, float] | None = None,
    scores: TransferScores | None = None,
    has_clusters: bool = True,
    history: tuple[Change, ...] = (),
    partitions: Mapping[int, Mapping[str, int]] | None = None,
    summary: dict[str, Any] | None = None,
    folder: Path = Path("/runs/my run"),
    **others: Any,
) -> RunFacts:
    """A run of these tasks in these clusters."""
    aside, later = dict(set_aside or {}), dict(added or {})
    tasks = TaskSet(
        make_task(
            name,
            max(partition[name], 0),
            may_share=name not in private,
            splits=(splits or {}).get(name, SPLITS),
        )
        for name in sorted(partition)
    )
    found = make_summary() if summary is None else summary
    found["quarantined"] = [
        *(
            {"stage": "read", "tasks": [name], "error": why, "key": f"read/{name}"}
            for name, why in aside.items()
        ),
        *found["quarantined"],
    ]
    clustered = {
        name: label
        for name, label in partition.items()
        if name not in private and name not in aside and name not in later
    }
    if has_clusters and scores is None:
        scores = make_scores(clustered)
    similarity = None
    if has_clusters and scores is not None:
        known = {name: partition.get(name, -1) for name in scores.task_names}
        similarity = make_similarity(known, scores)
    if similarity is None:
        found["clusters"] = None
    own = figures or {
        name: make_figures(name, label, has_shared=name not in private)
        for name, label in partition.items()
        if name not in aside and name not in later
    }
    fit = Change("fit", tuple(sorted(partition)), "They were learned.", version=1, when=1_790_000_000.0)
    return RunFacts(
        folder,
        found,
        tasks,
        Evaluation.of([own[name] for name in sorted(own)]),
        partition,
        {name: 0.9 for name, label in partition.items() if label >= 0} if confidence is None else confidence,
        scores,
        similarity,
        (fit, *history),
        partitions or {1: partition},
        later,
        **others,
    )

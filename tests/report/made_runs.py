"""Runs that were never fitted: the public members of a run that the report reads, put together by hand."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.clustering import RobustTaskClustering, fit_two_groups, make_planted_scores, pair_values
from robusttc.data import Task, TaskSet
from robusttc.errors import DoubtWarning
from robusttc.run import Evaluation, FitSettings, TaskFigures
from robusttc.stats import Estimate, mean_interval, share_interval
from robusttc.transfer import TransferScores

FAMILIES = [
    "parcel tracking courier",
    "guitar melody concert",
    "weather cloudy forecast",
    "mortgage invoice tax",
]
SPLITS = ["train"] * 6 + ["valid"] * 2 + ["test"] * 2
N_TEST = 40
# What runs if a page takes text for markup sets this, and tests look for it.
ALARM = "window.robusttcAlarm = true"
NASTY_NAMES = (
    f"</script><script>{ALARM}</script>",
    f'<img src=x onerror="{ALARM}">',
    f"<svg onload='{ALARM}'>&amp;\"quotes\"",
    "__proto__",
    "\u202egnp.evil\u2028line\u2029paragraph",
    "\u00c5\u00e9 \U0001f600 \u4efb\u52a1 \u05d0\u05d1\u05d2",
    "one very long name without any space " + "x" * 160,
    "{{ 7 * 7 }} {% raw %} ${dollars}",
    "=HYPERLINK(1)",
)


def make_task(name: str, family: int = 0, *, may_share: bool = True, splits: Sequence[str] = SPLITS) -> Task:
    """A task of two labels whose texts have the words of a family, and one that all families have."""
    words = FAMILIES[family % len(FAMILIES)].split()
    texts = [
        f"please {words[row % 3]} {words[(row + 1) % 3]} {'now' if row % 2 else ''}" for row in range(10)
    ]
    return Task(name, texts, [f"label_{row % 2}" for row in range(10)], splits, may_share=may_share)


def make_figures(
    name: str, group: int, *, own: int = 20, served: int = 24, n_rows: int = N_TEST, **others: Any
) -> TaskFigures:
    """Test rows of which so many are right; those that one model gets right, the better one does too."""
    change = np.zeros(n_rows)
    change[: abs(served - own)] = np.sign(served - own)
    between = share_interval((own + served) // 2, n_rows)
    return TaskFigures(
        name,
        group,
        n_rows,
        share_interval(own, n_rows),
        between,
        between if group >= 0 else None,
        share_interval(served, n_rows),
        mean_interval(change),
        **others,
    )


def without_rows(name: str, group: int = -1, held_out_gain: Estimate | None = None) -> TaskFigures:
    """A task without test rows."""
    return TaskFigures(name, group, 0, None, None, None, None, None, held_out_gain)


@functools.cache
def real_verdict() -> dict[str, Any]:
    """What a real clustering says of itself."""
    names = [f"task {number}" for number in range(16)]
    scores = make_planted_scores(names, np.arange(16) % 2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        return RobustTaskClustering(random_state=0).fit(scores).verdict_.as_dict()


def make_scores(
    partition: Mapping[str, int], *, density: float = 1.0, seed: int = 0, one_way: bool = False
) -> TransferScores | None:
    """Scores of tasks, higher within clusters; both directions of every pair that is measured, or one."""
    names = list(partition)
    if len(names) < 2:
        return None
    random = np.random.default_rng(seed)
    labels = np.array([partition[name] for name in names])
    matrix = 0.5 + 0.2 * (labels[:, None] == labels) + random.normal(0, 0.03, (len(names), len(names)))
    observed = np.triu(random.random(matrix.shape) < density, 1)
    both = observed if one_way else observed | observed.T
    return TransferScores.from_matrix(matrix, names, observed=both, kind="other")


def symmetric(n: int, first: NDArray[Any], second: NDArray[Any], values: NDArray[Any]) -> sparse.csr_array:
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    return sparse.csr_array((np.concatenate([values, values]), ends), shape=(n, n))


def make_similarity(labels: NDArray[np.int64], scores: TransferScores, *, noise: float = 0.0) -> Any:
    """The matrix of the clusters, what the pairs say, and an outlier where that contradicts the clusters."""
    n = len(labels)
    members = (labels[:, None] == np.unique(labels[labels >= 0])).astype(np.float64)
    members += noise * np.random.default_rng(0).normal(size=members.shape)
    first, second, value = pair_values(scores)
    same = (labels[first] == labels[second]) & (labels[first] >= 0)
    posterior = fit_two_groups(value, same).posterior(value)
    outlier = np.where(np.abs(posterior - same) > 0.5, posterior - same, 0.0)
    clipped = outlier != 0
    return SimpleNamespace(
        task_names=scores.task_names,
        points=members,
        same_group=symmetric(n, first, second, posterior),
        outliers=symmetric(n, first[clipped], second[clipped], outlier[clipped]),
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
    cost = {"wall_seconds": 61.5, "cpu_seconds": 110.0, "peak_bytes": 870_000_000, "units": 3, "ended": 1.0}
    summary: dict[str, Any] = {
        "configuration": FitSettings().to_dict(),
        "transfer": {"stopped_early": None},
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
            "trust": {"error_after": 0.013, "scope_auroc": {"mean": 0.93, "low": 0.9, "high": 0.95}},
        },
        "fewshot": {"verdict": {**verdict, "setting": "fewshot"}},
        "doubts": [],
        "quarantined": [],
        "costs": [{"stage": stage, **cost} for stage in ("encode", "transfer", "multitask")],
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = summary
        for parent in parents:
            place = place[parent]
        place[last] = value
    return summary


def make_change(version: int, kind: str, tasks: Sequence[str], sentence: str) -> Any:
    """A version of a run."""
    return SimpleNamespace(
        version=version, kind=kind, when=1_790_000_000.4 + version, tasks=tuple(tasks), sentence=sentence
    )


def make_added(label: int, *, expected_gain: Estimate | None = None) -> Any:
    """What is known of a task that came later."""
    return SimpleNamespace(version=2, out_of_cluster=label < 0, expected_gain=expected_gain)


def make_run(
    partition: Mapping[str, int],
    *,
    private: Sequence[str] = (),
    set_aside: Mapping[str, str] | None = None,
    added: Mapping[str, Any] | None = None,
    figures: Mapping[str, TaskFigures] | None = None,
    confidence: Mapping[str, float] | None = None,
    scores: TransferScores | None = None,
    has_clusters: bool = True,
    history: Sequence[Any] = (),
    partitions: Mapping[int, Mapping[str, int]] | None = None,
    summary: dict[str, Any] | None = None,
    folder: Path = Path("/runs/my run"),
    noise: float = 0.0,
) -> Any:
    """A run of these tasks in these clusters."""
    aside, later = dict(set_aside or {}), dict(added or {})
    tasks = TaskSet(
        make_task(name, max(partition[name], 0), may_share=name not in private) for name in sorted(partition)
    )
    facts = make_summary() if summary is None else summary
    units = [
        {"stage": "read", "tasks": [name], "error": why, "key": f"read/{name}"} for name, why in aside.items()
    ]
    facts["quarantined"] = [*units, *facts["quarantined"]]
    at_fit = {name: label for name, label in partition.items() if name not in {*private, *aside, *later}}
    if has_clusters and scores is None:
        scores = make_scores(at_fit)
    similarity = None
    if has_clusters and scores is not None:
        labels = np.array([partition.get(name, -1) for name in scores.task_names])
        similarity = make_similarity(labels, scores, noise=noise)
    if similarity is None:
        facts["clusters"] = None
    found = dict(figures or {})
    for name, label in partition.items():
        if name not in aside:
            found.setdefault(name, make_figures(name, label))
    fit = make_change(1, "fit", sorted(partition), "They were learned.")
    by_version = partitions or {1: partition}
    return SimpleNamespace(
        folder=folder,
        summary=facts,
        tasks=tasks,
        scores=scores,
        similarity=similarity,
        clusters=dict(partition),
        confidence={n: 0.9 for n, label in partition.items() if label >= 0}
        if confidence is None
        else confidence,
        partition=lambda version: by_version.get(version, partition),
        added=later,
        adapted_names=("hooli",),
        set_aside=aside,
        evaluation=Evaluation.of([found[name] for name in sorted(found)]),
        history=(fit, *history),
        made_with={"numpy": "2.1.0"},
        verdict=None if facts["clusters"] is None else facts["clusters"]["verdict"],
        quarantined=facts["quarantined"],
    )


def make_large_run(n_tasks: int, *, seed: int = 0) -> Any:
    """A run of so many tasks in likely sizes, some of which have names that mean harm.

    Most gain a little, one in 40 is harmed, one in 30 has no test rows, and a few are in no cluster.
    """
    random = np.random.default_rng([seed, n_tasks])
    n_clusters = max(2, round(np.sqrt(n_tasks) / 1.6))
    labels = np.sort(random.choice(n_clusters, n_tasks, p=random.dirichlet(np.full(n_clusters, 4.0))))
    names = [f"{FAMILIES[label % 4].split()[label % 3]}-{place:04}" for place, label in enumerate(labels)]
    nasty = NASTY_NAMES[: max(3, n_tasks // 3)]
    for number, name in enumerate(nasty):
        names[number * n_tasks // len(nasty)] = name
    labels[n_tasks - max(1, n_tasks // 60) :] = -1
    partition = dict(zip(names, labels.tolist(), strict=True))
    figures = {name: large_figures(name, place, partition[name], random) for place, name in enumerate(names)}
    added = {name: make_added(partition[name]) for name in names[7::50]}
    at_fit = {name: label for name, label in partition.items() if name not in added}
    summary = make_summary(
        multitask__verdict=make_verdict(0.018, n=40, helps=True),
        doubts=["The clusters serve without the proof that they are the best."],
        clusters__verdict={**real_verdict(), "supported": False},
    )
    moved = {**{name: label for name, label in partition.items() if name not in added}, names[9]: 0}
    return make_run(
        partition,
        added=added,
        figures=figures,
        confidence={name: float(random.beta(12, 2)) for name in names if partition[name] >= 0},
        scores=make_scores(at_fit, density=min(0.9, 68 / n_tasks), seed=seed),
        history=[make_change(2, "add", list(added), "Tasks were added.")],
        partitions={1: moved, 2: partition},
        summary=summary,
        noise=0.08,
    )


def large_figures(name: str, place: int, label: int, random: np.random.Generator) -> TaskFigures:
    """The figures of one of many tasks."""
    if place % 30 == 29:
        return without_rows(name, label)
    n_rows = int(random.integers(12, 160))
    own = int(n_rows * random.beta(9, 3))
    change = -max(4, own // 4) if place % 40 == 5 else int(n_rows * random.normal(0.04, 0.05))
    served = min(max(own + change, 0), n_rows)
    part = {
        kind: share_interval(right // 2, n_rows // 2) for kind, right in (("own", own), ("served", served))
    }
    return make_figures(
        name,
        label,
        own=own,
        served=served,
        n_rows=n_rows,
        macro_f1={"own": own / n_rows, "served": served / n_rows},
        novel={**part, "gain": mean_interval([0.0, 0.1])},
        seen={**part, "gain": mean_interval([0.0, 0.2])},
        confusion=(("faq/<b>status</b>", "faq/music", 3, 9), ("a", "b", 1, 4)),
    )

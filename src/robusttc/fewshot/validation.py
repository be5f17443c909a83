"""Decisions on held-out source tasks: whether clusters serve, the temperature, the threshold, the scope.

A share of the sources is held out at a time. Metrics are trained on the other sources; each held-out task
draws support sets, and its other rows are queries. What is decided on the predictions for these queries is
decided for all tasks together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import Encoder, FrozenInputs, WordInputs
from robusttc.fewshot.adaptation import FittedMetrics, Support, accuracy, adapt, fit_own
from robusttc.fewshot.metric import SourceRows, usable_sources
from robusttc.fewshot.protocol import EXTRA_ROWS, pick_rows
from robusttc.fewshot.settings import FewShotSettings, Strategy, default_settings, find_tuning
from robusttc.fewshot.training import (
    STAGE,
    Partition,
    Request,
    Sources,
    Trained,
    TrainingInputs,
    assemble,
    find_clusters,
    plan_requests,
    prepare_sources,
    train_all,
)
from robusttc.jobs import Job, Result, Runner
from robusttc.models import (
    Clusters,
    ScopeExample,
    TrainingJobs,
    Verdict,
    cluster_members,
    make_verdict,
    random_clusters_like,
    warn_about_tasks,
)
from robusttc.params import Integer, check_param
from robusttc.progress import Progress
from robusttc.random import numpy_generator

__all__ = [
    "THRESHOLD",
    "WHOLE",
    "HeldOut",
    "HeldOutTask",
    "Round",
    "assess_fewshot",
    "deal_rounds",
    "draw_support",
    "evaluate_rounds",
    "plan_rounds",
    "requests_of",
    "training_inputs",
    "tune_threshold",
]

Codes = NDArray[np.int64]

# The paper's: below 20 % a task is out of all clusters.
THRESHOLD = 0.2
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
# With fewer usable sources none is held out: what is left would teach too little.
LEAST_TASKS = 6
# So many held-out tasks give an interval that separates half a point from none, on intent tasks.
ENOUGH_TASKS = 30
MAX_QUERIES = 200
# Texts of other tasks that a task is shown.
MAX_OUTSIDE = 40
# The names of splits: all sources, for what serves; and their rows as held-out tasks.
WHOLE, HELD_OUT = "whole", "held out"


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Sources that are held out together, and the partitions of the others that are compared.

    Partitions are ``shared`` (no clusters), ``cluster``, and ``random 0`` and so on.
    """

    name: str
    held: tuple[str, ...]
    rest: tuple[str, ...]
    partitions: Mapping[str, Partition]


def plan_rounds(
    sources: Sources,
    clusters: Partition,
    *,
    strategy: Strategy,
    settings: FewShotSettings,
    n_random: int,
    seed: int,
) -> list[Round]:
    """Plan what is held out, and which partitions of the others are compared; ``paper`` compares none."""
    usable = sorted(source.name for source in usable_sources(list(sources.tasks.values())))
    if len(usable) < LEAST_TASKS:
        return []
    cluster_of = {name: number for number, names in clusters.items() for name in names}
    rounds = []
    for number, held in enumerate(deal_rounds(usable, settings.held_out, seed)):
        rest = tuple(sorted(set(sources.tasks) - held))
        partitions: dict[str, Partition] = {"shared": {}} if strategy == "blend" else {}
        if clusters:
            partitions["cluster"] = clusters
            inside = [name for name in rest if name in cluster_of]
            for draw in range(n_random):
                drawn = random_clusters_like([cluster_of[name] for name in inside], seed, draw)
                partitions[f"random {draw}"] = cluster_members(inside, drawn)
        rounds.append(Round(f"round {number}", tuple(sorted(held)), rest, partitions))
    return rounds


def deal_rounds(names: Sequence[str], share: float, seed: int) -> list[frozenset[str]]:
    """Return the names that are held out together, round after round.

    One round holds out the share. Where that is fewer than `ENOUGH_TASKS` tasks, there are more rounds, until
    they are enough or every task was held out once.

    Examples
    --------
    >>> [len(names) for names in deal_rounds([f"task {number}" for number in range(12)], 1 / 3, 0)]
    [4, 4, 4]
    >>> [len(names) for names in deal_rounds([f"task {number}" for number in range(120)], 1 / 3, 0)]
    [40]
    """
    order = numpy_generator(seed, "rehearsal", names).permutation(len(names))
    n_parts = max(2, round(1 / share)) if share > 0 else len(names)
    parts = [frozenset(names[place] for place in part) for part in np.array_split(order, n_parts)]
    n_rounds = min(n_parts, -(-ENOUGH_TASKS // len(parts[-1])))
    return parts[:n_rounds]


def training_inputs(
    sources: Sources, rounds: Sequence[Round], *, settings: FewShotSettings, seed: int
) -> TrainingInputs:
    """Return what jobs see: all sources, and those that are not held out in each round."""
    splits: dict[str, Mapping[str, SourceRows]] = {
        one.name: {name: sources.tasks[name] for name in one.rest} for one in rounds
    }
    splits |= {WHOLE: sources.served, HELD_OUT: sources.tasks}
    return TrainingInputs(sources.inputs, splits, settings, seed, sources.shared_labels)


def requests_of(inputs: TrainingInputs, rounds: Sequence[Round], strategy: Strategy) -> list[Request]:
    """Return all that is trained for some rounds, each once."""
    planned = (
        plan_requests(inputs, one.name, partition, strategy=strategy)
        for one in rounds
        for partition in one.partitions.values()
    )
    return list(dict.fromkeys(request for plan in planned for own in plan.values() for request in own))


@dataclass(frozen=True, slots=True, eq=False)
class SupportDraw:
    """A support set of a held-out task, and its queries: items of the frozen inputs and their labels."""

    support: Support
    queries: Codes
    codes: Codes


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationInputs:
    """What all jobs see: for every held-out task its round and its draws, and texts of other tasks."""

    inputs: FrozenInputs
    round_of: Mapping[str, str]
    draws: Mapping[str, Sequence[SupportDraw]]
    outside: Mapping[str, Codes]
    metrics: Mapping[str, Mapping[str, FittedMetrics]]
    shared_labels: tuple[str, ...] | None
    with_own: bool


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutTask:
    """What became of a held-out task, draw by draw.

    Attributes
    ----------
    codes
        The labels of the queries.
    tables
        The probabilities of the queries, by partition.
    best
        The accuracy on the support set that the threshold is compared with, by partition.
    own
        The accuracy of the task's own model on the queries; empty where it was not measured.
    example
        The first draw's queries and texts of other tasks, for the out-of-scope model.
    """

    codes: list[Codes]
    tables: Mapping[str, list[NDArray[np.float64]]]
    best: Mapping[str, list[float]]
    own: list[float]
    example: ScopeExample | None


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """All held-out tasks, by name."""

    tasks: Mapping[str, HeldOutTask]

    def accuracies(self, partition: str) -> NDArray[np.float64]:
        """Return the accuracy of each task, the mean over its support sets."""
        return np.array(
            [
                np.mean(
                    [
                        float((table.argmax(axis=1) == codes).mean())
                        for table, codes in zip(task.tables[partition], task.codes, strict=True)
                    ]
                )
                for task in self.tasks.values()
            ]
        )

    def rows(self, partition: str) -> list[tuple[NDArray[np.float64], Codes]]:
        """Return the probabilities of each task's queries, and their labels."""
        return [
            (np.concatenate(task.tables[partition]), np.concatenate(task.codes))
            for task in self.tasks.values()
        ]

    def examples(self) -> list[ScopeExample]:
        """Return what the out-of-scope model is fitted to."""
        return [task.example for task in self.tasks.values() if task.example is not None]

    def judge(self, seed: int, **options: Any) -> Verdict:
        """Return whether clusters help the held-out tasks."""
        partitions = next(iter(self.tasks.values())).tables if self.tasks else {}
        random = [self.accuracies(name) for name in partitions if name.startswith("random")]
        return make_verdict(
            "fewshot",
            cluster=self.accuracies("cluster") if "cluster" in partitions else None,
            shared=self.accuracies("shared") if self.tasks else np.zeros(0),
            random=np.stack(random) if random else None,
            otherwise="the shared metric serves",
            seed=seed,
            **options,
        )


def evaluate_rounds(
    jobs: TrainingJobs,
    rounds: Sequence[Round],
    clusters: Partition,
    inputs: TrainingInputs,
    trained: Trained,
    *,
    strategy: Strategy,
    threshold: float | None,
    with_own: bool = False,
) -> HeldOut:
    """Treat the held-out tasks of all rounds as few-shot targets, one job per task."""
    metrics = {
        one.name: {
            name: assemble(inputs, one.name, trained, partition, strategy=strategy, threshold=threshold)
            for name, partition in one.partitions.items()
        }
        for one in rounds
    }
    round_of = {name: one.name for one in rounds for name in one.held}
    held = inputs.splits[HELD_OUT]
    draws = {
        name: [
            draw
            for number in range(inputs.settings.draws)
            if (draw := draw_support(inputs.inputs, held[name], number, inputs.seed)) is not None
        ]
        for name in round_of
    }
    draws = {name: own for name, own in draws.items() if own}
    shared = EvaluationInputs(
        inputs.inputs,
        round_of,
        draws,
        choose_outside(draws, clusters, inputs.seed),
        metrics,
        inputs.shared_labels,
        with_own,
    )
    jobs.set_inputs(shared)
    made = [
        Job(f"{STAGE}/{round_of[name]}/held out/task {name}", evaluate_task, name, (name,)) for name in draws
    ]
    results = dict(zip(draws, jobs.run(made), strict=True))
    warn_about_tasks(
        "some tasks could not be evaluated as few-shot targets",
        (name for name, result in results.items() if result is None),
    )
    return HeldOut(
        {name: read_evaluation(draws[name], result) for name, result in results.items() if result is not None}
    )


def draw_support(inputs: FrozenInputs, source: SourceRows, draw: int, seed: int) -> SupportDraw | None:
    """Draw the support set and the queries of a held-out task; None if no row is left for a query."""
    generator = numpy_generator(seed, "rehearsal", [source.name, str(draw)])
    present, codes = np.unique(source.codes, return_inverse=True)
    picked = pick_rows(codes, per_label=1, extra=EXTRA_ROWS, generator=generator)
    others = np.setdiff1d(generator.permutation(len(codes)), picked)
    if len(others) > MAX_QUERIES:
        others = np.sort(generator.permutation(others)[:MAX_QUERIES])
    if len(others) == 0 or len(present) < 2:
        return None
    names = source.name_items[present]
    support = Support(
        source.name,
        inputs.take(source.items[picked]),
        codes[picked].astype(np.int64),
        len(present),
        inputs.take(names) if (names >= 0).all() else None,
    )
    return SupportDraw(support, source.items[others], codes[others].astype(np.int64))


def choose_outside(
    draws: Mapping[str, Sequence[SupportDraw]], clusters: Partition, seed: int
) -> dict[str, Codes]:
    """Return for each task some queries of tasks of other clusters, none of which is a query of its own.

    Where there is but one cluster, of all other tasks.
    """
    cluster_of = {name: number for number, names in clusters.items() for name in names}
    is_one = len({cluster_of.get(name) for name in draws}) < 2
    found = {}
    for name, own in draws.items():
        others = [
            other[0].queries
            for other_name, other in draws.items()
            if other_name != name and (is_one or cluster_of.get(other_name) != cluster_of.get(name))
        ]
        outside = np.setdiff1d(np.concatenate([*others, np.zeros(0, np.int64)]), own[0].queries)
        found[name] = numpy_generator(seed, "outside", [name]).permutation(outside)[:MAX_OUTSIDE]
    return found


def evaluate_task(shared: EvaluationInputs, name: str) -> Result:
    """Run a job: adapt to the support sets of a held-out task, and predict its queries."""
    arrays: dict[str, NDArray[Any]] = {}
    metrics = shared.metrics[shared.round_of[name]]
    for number, draw in enumerate(shared.draws[name]):
        queries = shared.inputs.take(draw.queries)
        is_whole = shared.shared_labels is not None and draw.support.n_labels == len(shared.shared_labels)
        label_names = shared.shared_labels if is_whole and shared.shared_labels is not None else ()
        for partition, fitted in metrics.items():
            adapted = adapt(fitted, draw.support, label_names)
            arrays[f"{number}/table/{partition}"] = adapted.probabilities(queries)
            # An array: it may be NaN, which JSON does not have.
            arrays[f"{number}/best/{partition}"] = np.array([adapted.best_accuracy])
        first = next(iter(metrics.values()))
        if shared.with_own:
            everything = np.ones(len(draw.codes), dtype=np.bool_)
            table = fit_own(first, draw.support).probabilities(queries)
            arrays[f"{number}/own"] = np.array([accuracy(table, draw.codes, everything)])
        if number == 0 and len(shared.outside[name]) and first.reference is not None:
            asked = np.concatenate([draw.queries, shared.outside[name]])
            arrays["scope/reference"] = first.reference.directions(draw.support.inputs)
            arrays["scope/asked"] = first.reference.directions(shared.inputs.take(asked))
            arrays["scope/outside"] = np.arange(len(asked)) >= len(draw.queries)
    return Result({}, arrays)


def read_evaluation(draws: Sequence[SupportDraw], result: Result) -> HeldOutTask:
    """Rebuild what a job returned."""
    arrays = result.arrays
    partitions = [key.removeprefix("0/table/") for key in arrays if key.startswith("0/table/")]
    places = range(len(draws))
    example = None
    if "scope/outside" in arrays:
        example = ScopeExample(
            arrays["scope/reference"], arrays["scope/asked"], arrays["scope/outside"].astype(np.bool_)
        )
    return HeldOutTask(
        [draw.codes for draw in draws],
        {name: [arrays[f"{place}/table/{name}"] for place in places] for name in partitions},
        {name: [float(arrays[f"{place}/best/{name}"][0]) for place in places] for name in partitions},
        [float(arrays[f"{place}/own"][0]) for place in places if f"{place}/own" in arrays],
        example,
    )


def tune_threshold(held_out: HeldOut, partition: str) -> float:
    """Return the threshold with which held-out tasks are best served: their own model below it.

    Of equal ones it is the one nearest to the paper's 20 %.
    """
    best, chosen = -1.0, THRESHOLD
    for threshold in sorted(THRESHOLDS, key=lambda value: abs(value - THRESHOLD)):
        values = [
            own if reached < threshold else float((table.argmax(axis=1) == codes).mean())
            for task in held_out.tasks.values()
            for table, codes, reached, own in zip(
                task.tables[partition], task.codes, task.best[partition], task.own, strict=True
            )
        ]
        if values and float(np.mean(values)) > best + 1e-12:
            best, chosen = float(np.mean(values)), threshold
    return chosen


def assess_fewshot(
    tasks: TaskSet,
    clusters: Clusters,
    *,
    encoder: Encoder,
    settings: FewShotSettings | None = None,
    n_random: int = 1,
    seed: int = 0,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Tell whether clusters pay, as `ClusterFewShot.fit` does before it trains what serves.

    Parameters
    ----------
    tasks
        The sources. Those with ``may_share=False`` have no part in it.
    clusters
        As for `ClusterFewShot.fit`.
    encoder
        How texts are read.
    settings
        As for `ClusterFewShot`.
    n_random
        How many draws of random clusters are compared with; 0 for none.
    seed
        The seed of the run.
    runner
        Runs the jobs, see `robusttc.jobs.Runner`; None trains in this process.
    progress
        Progress callback.

    Raises
    ------
    UsageError
        If the clusters or a number cannot be used.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> from robusttc.encoders import FeatureEncoder
    >>> rows = {name: np.repeat(np.eye(4), 6, axis=0) for name in ("a", "b")}
    >>> tasks = TaskSet(Task(name, ["text"] * 24, ["x"] * 12 + ["y"] * 12) for name in rows)
    >>> assess_fewshot(tasks, [0, 1], encoder=FeatureEncoder(rows)).clusters_help
    False
    """
    check_param("n_random", n_random, Integer(0))
    members = find_clusters(tasks, clusters)
    with threadpool_limits(1):
        sources = prepare_sources(tasks.shareable(), encoder, use_label_names=True, progress=progress)
        words = isinstance(sources.inputs, WordInputs)
        settings = settings or default_settings("blend", words=words, tuned=find_tuning(encoder))
        rounds = plan_rounds(
            sources, members, strategy="blend", settings=settings, n_random=n_random, seed=seed
        )
        inputs = training_inputs(sources, rounds, settings=settings, seed=seed)
        requests = requests_of(inputs, rounds, "blend")
        total = len(requests) + sum(len(one.held) for one in rounds)
        with TrainingJobs(STAGE, runner, progress=progress, total=total, unit="jobs") as jobs:
            trained = train_all(jobs, inputs, requests)
            threshold = THRESHOLD if words else None
            held_out = evaluate_rounds(
                jobs, rounds, members, inputs, trained, strategy="blend", threshold=threshold
            )
            jobs.finish()
    return held_out.judge(seed)

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
from robusttc.encoders import Encoder, WordInputs
from robusttc.fewshot.adaptation import Support, adapt, fit_own
from robusttc.fewshot.components import FittedMetrics
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
    "Round",
    "assess_fewshot",
    "deal_rounds",
    "evaluate_rounds",
    "make_inputs",
    "plan_rounds",
    "requests_of",
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

    Partitions are ``shared`` (no clusters), ``cluster``, and ``random 0`` and so on; ``paper`` has
    ``cluster`` alone.
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
    """Plan what is held out, and which partitions of the others are compared."""
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


def make_inputs(
    sources: Sources, rounds: Sequence[Round], *, strategy: Strategy, settings: FewShotSettings, seed: int
) -> TrainingInputs:
    """Return what jobs see: all sources, and those that are not held out in each round."""
    splits: dict[str, Mapping[str, SourceRows]] = {
        one.name: {name: sources.tasks[name] for name in one.rest} for one in rounds
    }
    splits |= {WHOLE: sources.served, HELD_OUT: sources.tasks}
    # The paper's matching takes inner products of whole vectors.
    split = sources.split if strategy == "blend" else 0
    return TrainingInputs(sources.inputs, splits, strategy, settings, seed, sources.shared_labels, split)


def requests_of(inputs: TrainingInputs, rounds: Sequence[Round]) -> list[Request]:
    """Return all that is trained for some rounds, each once."""
    plans = [
        plan
        for one in rounds
        for partition in one.partitions.values()
        for plan in plan_requests(inputs, one.name, partition)
    ]
    return list(dict.fromkeys(request for plan in plans for request in plan.values()))


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationInputs:
    """What all jobs see: the metrics of each partition for every task, and items of other tasks."""

    training: TrainingInputs
    metrics: Mapping[str, Mapping[str, FittedMetrics]]
    outside: Mapping[str, Codes]
    with_own: bool


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """What became of all held-out tasks, by name.

    The arrays of a task are, over the queries of all its support sets: their ``codes``; the probabilities
    ``table/...`` and the accuracy on the support set ``best/...`` of each partition; and whether its ``own``
    model was right, if that was asked for. ``scope/...`` has what the out-of-scope model is fitted to.
    """

    tasks: Mapping[str, Mapping[str, NDArray[Any]]]

    def accuracies(self, partition: str) -> NDArray[np.float64]:
        """Return the accuracy of each task."""
        rows = self.rows(partition)
        return np.array([float((table.argmax(axis=1) == codes).mean()) for table, codes in rows])

    def rows(self, partition: str) -> list[tuple[NDArray[np.float64], Codes]]:
        """Return the probabilities of each task's queries, and their labels."""
        return [(task[f"table/{partition}"], task["codes"]) for task in self.tasks.values()]

    def examples(self) -> list[ScopeExample]:
        """Return what the out-of-scope model is fitted to."""
        return [
            ScopeExample(task["scope/reference"], task["scope/asked"], task["scope/outside"])
            for task in self.tasks.values()
            if "scope/outside" in task
        ]

    def judge(self, *, always: bool = False, seed: int = 0) -> Verdict:
        """Return whether clusters help the held-out tasks."""
        names = [key.partition("/")[2] for task in self.tasks.values() for key in task if "table/" in key]
        random = [self.accuracies(name) for name in dict.fromkeys(names) if name.startswith("random")]
        return make_verdict(
            "fewshot",
            cluster=self.accuracies("cluster") if "cluster" in names else None,
            shared=self.accuracies("shared") if names else np.zeros(0),
            random=np.stack(random) if random else None,
            always=always,
            seed=seed,
        )


def evaluate_rounds(
    jobs: TrainingJobs,
    rounds: Sequence[Round],
    clusters: Partition,
    inputs: TrainingInputs,
    trained: Trained,
    *,
    threshold: float | None,
    with_own: bool = False,
) -> HeldOut:
    """Treat the held-out tasks of all rounds as few-shot targets, one job per task."""
    metrics: dict[str, dict[str, FittedMetrics]] = {}
    for one in rounds:
        of_round = {
            name: assemble(inputs, one.name, trained, partition, threshold=threshold)
            for name, partition in one.partitions.items()
        }
        metrics |= dict.fromkeys(one.held, of_round)
    outside = choose_outside(inputs, list(metrics), clusters)
    jobs.set_inputs(EvaluationInputs(inputs, metrics, outside, with_own))
    made = [
        Job(f"{STAGE}/{one.name}/held out/task {name}", evaluate_task, name, (name,))
        for one in rounds
        for name in one.held
    ]
    results = dict(zip(metrics, jobs.run(made), strict=True))
    warn_about_tasks(
        "some tasks could not be evaluated as few-shot targets",
        (name for name, result in results.items() if result is None),
    )
    # A task without rows for queries has no arrays.
    return HeldOut({name: one.arrays for name, one in results.items() if one is not None and one.arrays})


def choose_outside(inputs: TrainingInputs, names: Sequence[str], clusters: Partition) -> dict[str, Codes]:
    """Return for each held-out task some items of held-out tasks of other clusters that it does not have.

    Where there is but one cluster, of all other tasks.
    """
    rows = inputs.splits[HELD_OUT]
    cluster_of = {name: number for number, own in clusters.items() for name in own}
    is_one = len({cluster_of.get(name) for name in names}) < 2
    found = {}
    for name in names:
        others = [
            rows[other].items
            for other in names
            if other != name and (is_one or cluster_of.get(other) != cluster_of.get(name))
        ]
        outside = np.setdiff1d(np.concatenate([*others, np.zeros(0, np.int64)]), rows[name].items)
        found[name] = numpy_generator(inputs.seed, "outside", [name]).permutation(outside)[:MAX_OUTSIDE]
    return found


def evaluate_task(shared: EvaluationInputs, name: str) -> Result:
    """Run a job: adapt to the support sets of a held-out task, and predict its queries."""
    training, metrics = shared.training, shared.metrics[name]
    source, labels = training.splits[HELD_OUT][name], training.shared_labels
    reference = next(iter(metrics.values()))
    found: dict[str, list[NDArray[Any]]] = {}
    for draw in range(training.settings.draws):
        drawn = draw_support(training, source, draw)
        if drawn is None:
            return Result({})
        support, items, codes = drawn
        queries = training.inputs.take(items)
        label_names = labels if labels is not None and len(labels) == support.n_labels else ()
        found.setdefault("codes", []).append(codes)
        for partition, fitted in metrics.items():
            adapted = adapt(fitted, support, label_names)
            found.setdefault(f"table/{partition}", []).append(adapted.probabilities(queries))
            found.setdefault(f"best/{partition}", []).append(np.full(len(codes), adapted.best_accuracy))
        if shared.with_own:
            own = fit_own(reference, support).probabilities(queries)
            found.setdefault("own", []).append(own.argmax(axis=1) == codes)
        space, outside = reference.reference, shared.outside[name]
        if draw == 0 and space is not None and len(outside):
            asked = training.inputs.take(np.concatenate([items, outside]))
            found["scope/reference"] = [space.directions(support.inputs)]
            found["scope/asked"] = [space.directions(asked)]
            found["scope/outside"] = [np.arange(len(asked)) >= len(items)]
    return Result({}, {key: np.concatenate(parts) for key, parts in found.items()})


def draw_support(
    inputs: TrainingInputs, source: SourceRows, draw: int
) -> tuple[Support, Codes, Codes] | None:
    """Draw a support set of a task, and the items and labels of its queries; None if no row is left."""
    generator = numpy_generator(inputs.seed, "rehearsal", [source.name, str(draw)])
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
        inputs.inputs.take(source.items[picked]),
        codes[picked].astype(np.int64),
        len(present),
        inputs.inputs.take(names) if (names >= 0).all() else None,
    )
    return support, source.items[others], codes[others].astype(np.int64)


def tune_threshold(held_out: HeldOut, partition: str) -> float:
    """Return the threshold with which held-out tasks are best served: their own model below it.

    Of equal ones it is the one nearest to the paper's 20 %.
    """
    best, chosen = -1.0, THRESHOLD
    for threshold in sorted(THRESHOLDS, key=lambda value: abs(value - THRESHOLD)):
        values = []
        for task in held_out.tasks.values():
            mixed = task[f"table/{partition}"].argmax(axis=1) == task["codes"]
            values.append(np.where(task[f"best/{partition}"] < threshold, task["own"], mixed).mean())
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
        options: dict[str, Any] = {"strategy": "blend", "settings": settings, "seed": seed}
        rounds = plan_rounds(sources, members, n_random=n_random, **options)
        inputs = make_inputs(sources, rounds, **options)
        requests = requests_of(inputs, rounds)
        total = len(requests) + sum(len(one.held) for one in rounds)
        with TrainingJobs(STAGE, runner, progress=progress, total=total, unit="jobs") as jobs:
            trained = train_all(jobs, inputs, requests)
            threshold = THRESHOLD if words else None
            held_out = evaluate_rounds(jobs, rounds, members, inputs, trained, threshold=threshold)
            jobs.finish()
    return held_out.judge(seed=seed)

"""Training cut into jobs: one per metric, one per pooled classifier.

A `Request` names what is trained on which sources, so that what several partitions have in common is trained
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, Encoder, FeatureEncoder, FrozenInputs, PairedEncoder
from robusttc.fewshot.adaptation import summarise_clusters
from robusttc.fewshot.components import FittedMetrics, LinearComponent, component_from, describe_component
from robusttc.fewshot.metric import (
    Metric,
    SourceRows,
    check_usable,
    make_metric,
    train_metric,
    usable_sources,
)
from robusttc.fewshot.settings import FewShotSettings, Strategy, find_tuning
from robusttc.jobs import Job, Result
from robusttc.models import (
    Clusters,
    Refit,
    TrainingJobs,
    carries_words,
    check_clusters,
    cluster_members,
    fit_softmax,
    join_arrays,
    label_words,
    name_tasks,
    refit_splits,
    require_result,
    split_arrays,
    train_model,
    warn_about_tasks,
)
from robusttc.progress import Progress
from robusttc.random import numpy_generator

__all__ = [
    "STAGE",
    "Partition",
    "Request",
    "Sources",
    "Trained",
    "TrainingInputs",
    "assemble",
    "find_clusters",
    "plan_requests",
    "prepare_sources",
    "train_all",
]

STAGE = "fewshot"
# The inverse penalty where thousands of rows of many tasks are pooled.
POOLED_C = 3.0
# Decisions are made on these rows.
SPLITS = ("train", "valid")

# The names of the tasks of each cluster.
Partition = Mapping[int, Sequence[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The encoded source tasks: the rows that decide, and the rows that what serves is trained on.

    `reader` turns new texts into frozen inputs; `shared_labels` are those that all sources have, if any;
    `split` is how many columns the first of two encoders has.
    """

    inputs: FrozenInputs
    tasks: dict[str, SourceRows]
    served: dict[str, SourceRows]
    reader: Encoder
    shared_labels: tuple[str, ...] | None
    split: int


def prepare_sources(
    tasks: TaskSet,
    encoder: Encoder,
    *,
    use_label_names: bool,
    refit: Refit = "valid",
    progress: Progress | None = None,
) -> Sources:
    """Encode the rows of tasks that may share, and the names of their labels.

    Names are encoded where they carry words and the encoder can read words. Decisions are made on the rows in
    ``train`` and ``valid``; `refit` says which rows what serves is trained on.

    Examples
    --------
    >>> task = Task("a", ["hi", "bye"], ["greet", "leave"])
    >>> sources = prepare_sources(TaskSet([task]), FeatureEncoder({"a": np.eye(2)}), use_label_names=True)
    >>> sources.tasks["a"].name_items.tolist()
    [-1, -1]
    """
    words: dict[str, list[str]] = {}
    if use_label_names and not isinstance(encoder, FeatureEncoder):
        words = {
            task.name: [label_words(label) for label in task.label_names]
            for task in tasks
            if carries_words(task.label_names)
        }
    named = sorted({name for names in words.values() for name in names})
    free = "names of labels"
    while free in tasks:
        free += "'"
    extra = [Task(free, named, ["name"] * len(named))] if named else []
    splits_of = {task.name: refit_splits(task, refit) for task in tasks}
    served_splits = [split for splits in splits_of.values() for split in splits]
    prepared = encoder.prepare(
        TaskSet([*tasks, *extra]), splits=tuple(dict.fromkeys([*SPLITS, *served_splits])), progress=progress
    )
    place_of: dict[str, int] = {}
    if extra:
        place_of = dict(zip(named, prepared.text_index[free].tolist(), strict=True))

    def rows_of(task: Task, splits: Sequence[str]) -> SourceRows:
        rows = task.rows(*splits)
        names = [place_of.get(name, -1) for name in words.get(task.name, [""] * len(task.label_names))]
        codes = task.label_codes[rows].astype(np.int64)
        return SourceRows(task.name, prepared.items_of(task.name, rows), codes, np.array(names, np.int64))

    own = {task.name: rows_of(task, SPLITS) for task in tasks}
    served = {task.name: rows_of(task, splits_of[task.name]) for task in tasks}
    shared_labels = next(iter(tasks)).label_names if tasks.same_label_sets else None
    split = 0
    if isinstance(encoder, PairedEncoder) and find_tuning(encoder) is None:
        # Two encoders of their own have a metric each; a tuned one and what it was before share one.
        first = encoder.first.prepare(TaskSet([next(iter(tasks))]), splits=SPLITS)
        split = first.inputs.dimension
    return Sources(prepared.inputs, own, served, encoder.for_new_texts(prepared), shared_labels, split)


def find_clusters(tasks: TaskSet, clusters: Clusters) -> dict[int, tuple[str, ...]]:
    """Return the tasks of each cluster that may share; one cluster of all is none.

    Examples
    --------
    >>> tasks = TaskSet(Task(name, ["hi"], ["x"]) for name in ("a", "b", "c"))
    >>> find_clusters(tasks, [3, 5, -1]), find_clusters(tasks, [1, 1, 1]), find_clusters(tasks, None)
    ({3: ('a',), 5: ('b',)}, {}, {})
    """
    if clusters is None:
        return {}
    shared = set(tasks.shareable().names)
    members = cluster_members(tasks.names, check_clusters(tasks, clusters))
    found = {
        number: tuple(sorted(name for name in names if name in shared)) for number, names in members.items()
    }
    found = {number: names for number, names in found.items() if names}
    return found if len(found) > 1 else {}


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInputs:
    """What all jobs see: the rows of the sources of every split, by its name, and how to train.

    A split has the sources that are learned from together: ``whole``, or those not held out in a round.
    """

    inputs: FrozenInputs
    splits: Mapping[str, Mapping[str, SourceRows]]
    strategy: Strategy
    settings: FewShotSettings
    seed: int
    shared_labels: tuple[str, ...] | None
    split: int


@dataclass(frozen=True, slots=True)
class Request:
    """A ``shared metric``, ``cluster metric`` or ``pool`` to be trained on sources, in order of names."""

    split: str
    kind: str
    names: tuple[str, ...]


Trained = dict[Request, Metric | LinearComponent | None]


def plan_requests(
    inputs: TrainingInputs, split: str, clusters: Partition
) -> tuple[dict[str, Request], dict[str, Request]]:
    """Return the metrics and the pooled classifiers of a split, by the names of `FittedMetrics`.

    ``paper`` has models of clusters alone, and where labels are identical pooled classifiers alone.
    """
    rows, is_blend = inputs.splits[split], inputs.strategy == "blend"
    groups = {"shared": tuple(sorted(rows))} if is_blend else {}
    groups |= {
        f"cluster {number}": tuple(sorted(name for name in names if name in rows))
        for number, names in sorted(clusters.items())
    }
    metrics, pools = {}, {}
    if inputs.shared_labels is not None:
        pools = {key: Request(split, "pool", names) for key, names in groups.items() if names}
    if is_blend or not pools:
        metrics = {
            key: Request(split, f"{key.partition(' ')[0]} metric", names)
            for key, names in groups.items()
            if usable_sources([rows[name] for name in names])
        }
    return metrics, pools


def train_all(jobs: TrainingJobs, inputs: TrainingInputs, requests: Iterable[Request]) -> Trained:
    """Train all of these in one go; None for a model of a cluster that could not be trained.

    Raises
    ------
    WorkError
        If a shared metric could not be trained.
    """
    jobs.set_inputs(inputs)
    ordered = list(dict.fromkeys(requests))
    made = [
        Job(
            "/".join([STAGE, request.split, request.kind, name_tasks(request.names)]),
            train_pool if request.kind == "pool" else train_one_metric,
            request,
            request.names,
        )
        for request in ordered
    ]
    trained: Trained = {}
    lost: list[str] = []
    for request, job, result in zip(ordered, made, jobs.run(made), strict=True):
        if request.kind == "shared metric":
            result = require_result("the shared metric", job, result)
        trained[request] = None
        if result is None:
            lost += request.names
        elif request.kind != "pool":
            trained[request] = Metric.from_description(join_arrays(result.values, result.arrays))
        elif result.values:
            pool = component_from(join_arrays(result.values, result.arrays), {})
            trained[request] = pool if isinstance(pool, LinearComponent) else None
    warn_about_tasks("metrics or pooled classifiers of some clusters could not be trained", lost)
    return trained


def train_one_metric(inputs: TrainingInputs, request: Request) -> Result:
    """Run a job: train a metric, and learn where names stand in it."""
    rows = inputs.splits[request.split]
    parts = [inputs.inputs]
    if inputs.split and isinstance(inputs.inputs, DenseInputs):
        matrix = inputs.inputs.matrix
        parts = [DenseInputs(matrix[:, : inputs.split]), DenseInputs(matrix[:, inputs.split :])]
    layers = [
        train_metric(
            part,
            [rows[name] for name in request.names],
            settings=inputs.settings.metric,
            layer_settings=inputs.settings.layer,
            seed=inputs.seed,
        )
        for part in parts
    ]
    # Names are few in a cluster: how texts differ from names is learned from all sources.
    sources = list(rows.values())
    metric = make_metric(layers, inputs.inputs, sources, inputs.settings, inputs.split)
    return Result(*split_arrays(metric.describe()))


def train_pool(inputs: TrainingInputs, request: Request) -> Result:
    """Run a job: train a pooled classifier."""
    sources = [inputs.splits[request.split][name] for name in request.names]
    n_labels = len(inputs.shared_labels or ())
    pool = train_pooled(inputs.inputs, sources, n_labels=n_labels, settings=inputs.settings, seed=inputs.seed)
    return Result({}) if pool is None else Result(*split_arrays(describe_component(pool, {})))


def train_pooled(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    *,
    n_labels: int,
    settings: FewShotSettings,
    seed: int = 0,
) -> LinearComponent | None:
    """Train one classifier on the rows of some tasks of identical label sets (section 3.4).

    For ready-made vectors it is softmax regression, for words a convolution with a softmax classifier (the
    paper's "standard CNN"). Labels weigh as often as they come: a support set has some rows of every label,
    so only the sources know how frequent a label is. The order of the tasks does not matter.

    None where the tasks have rows of fewer than two labels.

    Examples
    --------
    >>> source = SourceRows("a", np.arange(4), np.array([0, 0, 1, 1]), np.array([-1, -1]))
    >>> inputs = DenseInputs(np.array([[1, 0], [1, 1], [-1, 0], [-1, 1]], dtype=np.float32))
    >>> component = train_pooled(inputs, [source], n_labels=2, settings=FewShotSettings())
    >>> component.probabilities(inputs).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    ordered = sorted(sources, key=lambda source: source.name)
    codes = np.concatenate([np.zeros(0, dtype=np.int64), *(source.codes for source in ordered)])
    if len(np.unique(codes)) < 2:
        return None
    own = inputs.take(np.concatenate([source.items for source in ordered]))
    with threadpool_limits(1):
        if isinstance(own, DenseInputs):
            fitted = fit_softmax(own.matrix, codes, n_labels=n_labels, C=POOLED_C, balanced=False)
            weight = np.asarray(fitted.weight, dtype=np.float32)
            return LinearComponent((Metric(None),), False, weight, np.asarray(fitted.bias, dtype=np.float32))
        generator = numpy_generator(seed, "pooled", [source.name for source in ordered])
        model = train_model(own, codes, n_labels=n_labels, settings=settings.layer, generator=generator)
        return LinearComponent((Metric(model.layer),), False, model.head_weight, model.head_bias)


def assemble(
    inputs: TrainingInputs, split: str, trained: Trained, clusters: Partition, *, threshold: float | None
) -> FittedMetrics:
    """Put together what was trained on a split.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.
    """
    rows = inputs.splits[split]
    planned = plan_requests(inputs, split, clusters)
    metrics, pools = (
        {key: found for key, request in plan.items() if (found := trained.get(request)) is not None}
        for plan in planned
    )
    if not ("shared" in planned[0] if inputs.strategy == "blend" else planned[0] or planned[1]):
        check_usable(list(rows.values()))
    if isinstance(inputs.inputs, DenseInputs):
        metrics["vectors"] = Metric(None, split=inputs.split)
    summaries = {}
    if inputs.strategy == "blend" and clusters:
        space: Any = metrics.get("vectors") or metrics["shared"]
        summaries = summarise_clusters(space, inputs.inputs, rows, clusters)
    return FittedMetrics(
        inputs.strategy,
        inputs.settings,
        inputs.seed,
        threshold,
        metrics,  # type: ignore[arg-type]
        pools,  # type: ignore[arg-type]
        summaries,
        inputs.shared_labels,
    )

"""Training cut into jobs: one per metric, one per pooled classifier.

A `Request` names what is trained on which sources, so that what several partitions have in common is trained
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, Encoder, FeatureEncoder, FrozenInputs
from robusttc.fewshot.adaptation import FittedMetrics, LinearComponent, summarise_clusters
from robusttc.fewshot.metric import (
    Metric,
    SourceRows,
    check_usable,
    make_metric,
    train_metric,
    usable_sources,
)
from robusttc.fewshot.settings import FewShotSettings, Strategy
from robusttc.jobs import Job, Result
from robusttc.models import (
    Clusters,
    TrainingJobs,
    arrays_under,
    carries_words,
    check_clusters,
    cluster_members,
    fit_softmax,
    label_words,
    name_tasks,
    require_result,
    train_model,
    warn_about_tasks,
)
from robusttc.progress import Progress
from robusttc.random import numpy_generator

__all__ = [
    "STAGE",
    "Request",
    "Sources",
    "Trained",
    "TrainingInputs",
    "assemble",
    "describe_component",
    "find_clusters",
    "linear_from",
    "plan_requests",
    "prepare_sources",
    "train_all",
    "train_pooled",
]

STAGE = "fewshot"
# The inverse penalty where thousands of rows of many tasks are pooled.
POOLED_C = 3.0

Partition = Mapping[int, Sequence[str]]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The encoded source tasks.

    Attributes
    ----------
    inputs
        The frozen inputs of all distinct texts and label names.
    tasks
        The rows in ``train`` and ``valid`` of every task.
    served
        The rows that what serves is trained on; the same, or those in ``test`` too.
    reader
        What turns new texts into frozen inputs.
    shared_labels
        The labels that all sources have; None where they differ.
    """

    inputs: FrozenInputs
    tasks: dict[str, SourceRows]
    served: dict[str, SourceRows]
    reader: Encoder
    shared_labels: tuple[str, ...] | None


def prepare_sources(
    tasks: TaskSet,
    encoder: Encoder,
    *,
    use_label_names: bool,
    splits: Sequence[str] = ("train", "valid"),
    progress: Progress | None = None,
) -> Sources:
    """Encode the rows of tasks that may share, and the names of their labels.

    Names are encoded where they carry words and the encoder can read words. Decisions are made on the rows in
    ``train`` and ``valid``; `splits` are those of what serves.

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
    decided = ("train", "valid")
    prepared = encoder.prepare(
        TaskSet([*tasks, *extra]), splits=tuple(dict.fromkeys([*decided, *splits])), progress=progress
    )
    place_of: dict[str, int] = {}
    if extra:
        place_of = dict(zip(named, prepared.text_index[free].tolist(), strict=True))

    def rows_of(task: Task, splits: Sequence[str]) -> SourceRows:
        rows = task.rows(*splits)
        names = [place_of.get(name, -1) for name in words.get(task.name, [""] * len(task.label_names))]
        codes = task.label_codes[rows].astype(np.int64)
        return SourceRows(task.name, prepared.items_of(task.name, rows), codes, np.array(names, np.int64))

    own = {task.name: rows_of(task, decided) for task in tasks}
    served = own if set(splits) == set(decided) else {task.name: rows_of(task, splits) for task in tasks}
    shared_labels = next(iter(tasks)).label_names if tasks.same_label_sets else None
    return Sources(prepared.inputs, own, served, encoder.for_new_texts(prepared), shared_labels)


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
    settings: FewShotSettings
    seed: int
    shared_labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A metric of all sources of a split (``shared``) or of a cluster, or a pooled classifier (``pool``)."""

    split: str
    kind: Literal["shared", "cluster", "pool"]
    names: tuple[str, ...]


Trained = dict[Request, Metric | LinearComponent | None]


def plan_requests(
    inputs: TrainingInputs, split: str, clusters: Partition, *, strategy: Strategy
) -> dict[str | int, list[Request]]:
    """Return what is trained on a split: for all sources (``"all"``), and for each cluster by its number.

    ``paper`` has models of clusters alone, and where labels are identical pooled classifiers alone.
    """
    rows = inputs.splits[split]
    has_pools = inputs.shared_labels is not None
    groups: dict[str | int, tuple[str, ...]] = {
        number: tuple(sorted(name for name in names if name in rows)) for number, names in clusters.items()
    }
    if strategy == "blend":
        groups["all"] = tuple(sorted(rows))
    planned: dict[str | int, list[Request]] = {}
    for key, names in groups.items():
        planned[key] = [Request(split, "pool", names)] if has_pools and names else []
        if (strategy == "blend" or not has_pools) and usable_sources([rows[name] for name in names]):
            planned[key].append(Request(split, "shared" if key == "all" else "cluster", names))
    return planned


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
            "/".join(
                [
                    STAGE,
                    one.split,
                    "pool" if one.kind == "pool" else f"{one.kind} metric",
                    name_tasks(one.names),
                ]
            ),
            train_pool_job if one.kind == "pool" else train_metric_job,
            one,
            one.names,
        )
        for one in ordered
    ]
    trained: Trained = {}
    lost: list[str] = []
    for request, job, result in zip(ordered, made, jobs.run(made), strict=True):
        if request.kind == "shared":
            result = require_result("the shared metric", job, result)
        if result is None:
            lost += request.names
            trained[request] = None
        elif request.kind == "pool":
            trained[request] = linear_from(result.values, result.arrays) if result.values else None
        else:
            trained[request] = Metric.from_description(result.values, result.arrays)
    warn_about_tasks("metrics or pooled classifiers of some clusters could not be trained", lost)
    return trained


def train_metric_job(inputs: TrainingInputs, request: Request) -> Result:
    """Run a job: train a metric, and learn where names stand in it."""
    rows = inputs.splits[request.split]
    layer = train_metric(
        inputs.inputs,
        [rows[name] for name in request.names],
        settings=inputs.settings.metric,
        layer_settings=inputs.settings.layer,
        seed=inputs.seed,
    )
    # Names are few in a cluster: how texts differ from names is learned from all sources.
    return Result(*make_metric(layer, inputs.inputs, list(rows.values()), inputs.settings).describe())


def train_pool_job(inputs: TrainingInputs, request: Request) -> Result:
    """Run a job: train a pooled classifier."""
    component = train_pooled(
        inputs.inputs,
        [inputs.splits[request.split][name] for name in request.names],
        n_labels=len(inputs.shared_labels or ()),
        settings=inputs.settings,
        seed=inputs.seed,
    )
    return Result({}) if component is None else Result(*describe_component(component))


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

    Returns
    -------
    LinearComponent or None
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
            return LinearComponent(Metric(None), False, weight, np.asarray(fitted.bias, dtype=np.float32))
        generator = numpy_generator(seed, "pooled", [source.name for source in ordered])
        model = train_model(own, codes, n_labels=n_labels, settings=settings.layer, generator=generator)
        return LinearComponent(Metric(model.layer), False, model.head_weight, model.head_bias)


def describe_component(component: LinearComponent) -> tuple[dict[str, Any], Arrays]:
    """Return the settings and arrays that a classifier with a metric of its own is rebuilt from."""
    metric, arrays = component.metric.describe()
    arrays = {f"metric/{name}": array for name, array in arrays.items()}
    arrays |= {"weight": component.weight, "bias": component.bias}
    return {"metric": metric, "unit": component.unit}, arrays


def linear_from(values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LinearComponent:
    """Rebuild a classifier from what `describe_component` returned."""
    metric = Metric.from_description(values["metric"], arrays_under(arrays, "metric/"))
    return LinearComponent(metric, bool(values["unit"]), arrays["weight"], arrays["bias"])


def assemble(
    inputs: TrainingInputs,
    split: str,
    trained: Trained,
    clusters: Partition,
    *,
    strategy: Strategy,
    threshold: float | None,
) -> FittedMetrics:
    """Put together what was trained on a split.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.
    """
    rows = inputs.splits[split]
    planned = plan_requests(inputs, split, clusters, strategy=strategy)
    metrics: dict[str | int, Metric] = {}
    pools: dict[str | int, LinearComponent] = {}
    for key, requests in planned.items():
        for request in requests:
            found = trained.get(request)
            if isinstance(found, Metric):
                metrics[key] = found
            elif found is not None:
                pools[key] = found
    shared = metrics.pop("all", None)
    if shared is None and not (strategy == "paper" and pools):
        check_usable(list(rows.values()))
    vectors = Metric(None) if isinstance(inputs.inputs, DenseInputs) else None
    space = vectors or shared
    summaries = {}
    if strategy == "blend" and clusters and space is not None:
        summaries = summarise_clusters(space, inputs.inputs, rows, clusters)
    return FittedMetrics(
        strategy,
        inputs.settings,
        inputs.seed,
        threshold,
        vectors,
        shared,
        {int(key): metric for key, metric in metrics.items()},
        summaries,
        inputs.shared_labels,
        pools.pop("all", None),
        {int(key): pool for key, pool in pools.items()},
    )

"""Training cut into jobs: one per model of several tasks, one per batch of single-task models.

A job trains on the rows of a `Split`: those of a fold, all rows, or those of a private task. In a fold it
returns what the model predicts for held-out rows, else the model itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, Encoder, FeatureEncoder, FrozenInputs, PreparedTasks, WordEncoder
from robusttc.errors import DataError, quote
from robusttc.jobs import Job, Result
from robusttc.models import (
    TrainingJobs,
    arrays_under,
    cluster_members,
    label_prior,
    name_tasks,
    require_result,
    warn_about_tasks,
)
from robusttc.multitask.blending import CLUSTER_ONLY, OWN_ONLY, BlendWeights, SeenTexts
from robusttc.multitask.joint_training import SharedModel, TaskRows, train_jointly
from robusttc.multitask.predictor import (
    OwnModel,
    Predictor,
    ServedTask,
    describe_own,
    fit_own,
    own_from,
    own_probabilities,
    uniform_model,
)
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.progress import Progress
from robusttc.random import numpy_generator

__all__ = [
    "STAGE",
    "JobInputs",
    "Request",
    "Split",
    "TrainingData",
    "all_rows",
    "check_learnable",
    "clusters_to_train",
    "draw_references",
    "find_rows",
    "own_requests",
    "prepare_tasks",
    "train_blend",
    "train_models",
    "train_paper",
]

STAGE = "multitask"
WHOLE = "whole"

Numbers = NDArray[np.int64]
Kind = Literal["own", "shared", "cluster"]

# Single-task models of about a second of work go into one job. What they take, measured: on vectors so many
# seconds per row and label, on words so many per row and at the least.
BATCH_SECONDS = 1.0
DENSE_SECONDS = 2e-6
WORD_SECONDS, LEAST_WORD_SECONDS = 2e-3, 0.15
# Training representations of a task that the out-of-scope score compares with: a bound on time and memory.
MAX_REFERENCES = 256


def check_learnable(tasks: TaskSet) -> None:
    """Refuse tasks that no classifier can be fitted to."""
    if len(tasks) == 0:
        raise DataError("there are no tasks to train on", expected="at least one task")
    for task in tasks:
        rows = task.rows("train")
        found = np.unique(task.label_codes[rows])
        if len(found) < 2:
            raise DataError(
                "the task cannot be learned",
                where=f"task {quote(task.name)}",
                got=f"{len(rows):,} training rows, all of label {quote(task.label_names[found[0]])}"
                if len(found)
                else "no training rows",
                expected="training rows of at least two labels",
                todo="add rows of another label, or leave the task out",
            )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """The encoded tasks.

    Attributes
    ----------
    tasks
        All tasks.
    prepared
        The frozen inputs of those that may share; None if there is no such task.
    private
        Those of each private task, prepared on its own, so that nothing of it reaches the others: not even
        its words.
    clusters
        The cluster of every task that may share, by name; None for no clusters.
    seen
        Which training texts of tasks that may share several have; None if inputs are no texts.
    """

    tasks: TaskSet
    prepared: PreparedTasks | None
    private: dict[str, PreparedTasks]
    clusters: dict[str, int] | None
    seen: SeenTexts | None = None

    def find_seen(self, name: str, rows: NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """Return which rows of a task have a text that is seen in another; None for private tasks."""
        if self.seen is None or name in self.private:
            return None
        return self.seen.find(name, self.tasks[name].texts_at(rows))

    @property
    def shareable(self) -> TaskSet:
        """The tasks that may share."""
        return self.tasks.shareable()

    def inputs_of(self, name: str) -> FrozenInputs:
        """Return the frozen inputs that a task's items belong to."""
        prepared = self.private.get(name, self.prepared)
        assert prepared is not None  # noqa: S101 - the task was prepared one way or the other
        return prepared.inputs

    def rows(self, name: str, rows: NDArray[np.intp], *, valid: bool = False) -> TaskRows:
        """Return some rows of a task as training takes them, with those in ``valid`` if asked for."""
        prepared = self.private.get(name, self.prepared)
        assert prepared is not None  # noqa: S101 - as above
        return find_rows(self.tasks[name], rows, lambda own: prepared.items_of(name, own), valid=valid)


def find_rows(task: Task, rows: NDArray[np.intp], items_of: Any, *, valid: bool = False) -> TaskRows:
    """Return some rows of a task as training takes them; `items_of` gives the items of rows."""
    held = task.rows("valid") if valid else np.zeros(0, dtype=np.intp)
    return TaskRows(
        task.name,
        len(task.label_names),
        np.asarray(items_of(rows), dtype=np.int64),
        task.label_codes[rows].astype(np.int64),
        np.asarray(items_of(held), dtype=np.int64),
        task.label_codes[held].astype(np.int64),
        task.label_names,
    )


def prepare_tasks(
    tasks: TaskSet,
    encoder: Encoder,
    clusters: Mapping[str, int] | None,
    *,
    splits: Sequence[str] = ("train", "valid"),
    progress: Progress | None = None,
) -> TrainingData:
    """Encode the tasks that may share together, and each private one alone.

    All rows are encoded, those of other splits too: an encoder of words needs to know their words later.
    `splits` are those that models are trained on.
    """
    shareable = tasks.shareable()
    prepared = encoder.prepare(shareable, progress=progress) if len(shareable) else None
    private = {
        task.name: encoder.prepare(TaskSet([task]), progress=progress) for task in tasks if not task.may_share
    }
    kept = None if clusters is None else {name: clusters[name] for name in shareable.names}
    # Ready-made vectors stand for texts that nobody will give when predictions are asked for.
    has_texts = prepared is not None and not isinstance(encoder, FeatureEncoder)
    seen = SeenTexts.of(shareable, splits) if has_texts else None
    return TrainingData(tasks, prepared, private, kept, seen)


def clusters_to_train(clusters: Mapping[str, int] | None) -> dict[int, tuple[str, ...]]:
    """Return the tasks of every cluster that can be told apart: of at least two tasks, and not of all.

    Examples
    --------
    >>> clusters_to_train({"b": 4, "a": 4, "c": 1}), clusters_to_train({"a": 0, "b": 0})
    ({4: ('a', 'b')}, {})
    """
    names = sorted(clusters or {})
    found = cluster_members(names, [(clusters or {})[name] for name in names], smallest=2)
    return {} if any(len(members) == len(names) for members in found.values()) else found


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Rows to train on, and held-out items to predict.

    Attributes
    ----------
    name
        What it is, for the keys of jobs: ``fold 0``, ``whole``, ``private``.
    inputs
        The frozen inputs.
    rows
        The rows of every task.
    held_out
        In a fold, the items of every task that are held out; a task that is not there has none.
    seed_suffix
        What the names of random draws end with.
    """

    name: str
    inputs: FrozenInputs
    rows: Mapping[str, TaskRows]
    held_out: Mapping[str, Numbers] = field(default_factory=dict)
    seed_suffix: str = ""

    @property
    def is_fold(self) -> bool:
        """Whether predictions are wanted, not models."""
        return self.name.startswith("fold")


@dataclass(frozen=True, slots=True, eq=False)
class JobInputs:
    """What all jobs see: the splits by keys of their own, and how to train."""

    splits: Mapping[str, Split]
    settings: MultiTaskSettings
    seed: int
    stop_early: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """A model of several tasks (``shared``, ``cluster``), or single-task models (``own``), to be trained.

    `names` are in order; `split` is a key of `JobInputs.splits`.
    """

    split: str
    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What came back of a request: in a fold `predictions` by task, else `own` models or a `joint` one."""

    predictions: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    own: Mapping[str, OwnModel] = field(default_factory=dict)
    joint: SharedModel | None = None


def make_job(inputs: JobInputs, request: Request) -> Job:
    """Make the job of a request. Its key has the tasks, not the number of their cluster."""
    split = inputs.splits[request.split]
    key = "/".join([STAGE, split.name, request.kind, name_tasks(request.names)])
    return Job(key, train_own if request.kind == "own" else train_joint, request, request.names)


def train_joint(inputs: JobInputs, request: Request) -> Result:
    """Run a job: train a model of several tasks."""
    split = inputs.splits[request.split]
    stage = f"{request.kind}{split.seed_suffix}, copy 0"
    model = train_jointly(
        split.inputs,
        [split.rows[name] for name in request.names],
        settings=inputs.settings,
        generator=numpy_generator(inputs.seed, stage, request.names),
        stop_early=inputs.stop_early,
    )
    if split.is_fold:
        return Result({}, predict_held_out(split, dict.fromkeys(request.names, model)))
    return Result(*model.describe())


def train_own(inputs: JobInputs, request: Request) -> Result:
    """Run a job: fit the single-task models of some tasks."""
    split, stage = inputs.splits[request.split], f"own{inputs.splits[request.split].seed_suffix}"
    options: dict[str, Any] = {"settings": inputs.settings, "seed": inputs.seed, "stage": stage}
    models = {name: fit_own(split.inputs, split.rows[name], **options) for name in request.names}
    if split.is_fold:
        return Result({}, predict_held_out(split, models))
    arrays: dict[str, NDArray[Any]] = {}
    for place, model in enumerate(models.values()):
        arrays |= {f"{place}/{key}": array for key, array in describe_own(model)[1].items()}
    return Result({}, arrays)


def predict_held_out(split: Split, models: Mapping[str, OwnModel]) -> dict[str, NDArray[Any]]:
    """Return the predictions for the held-out items of every task, by its place among the tasks."""
    return {
        str(place): own_probabilities(model, name, split.inputs.take(split.held_out[name]))
        for place, (name, model) in enumerate(models.items())
        if name in split.held_out
    }


def read_result(inputs: JobInputs, request: Request, result: Result) -> Trained:
    """Rebuild what a job returned."""
    if inputs.splits[request.split].is_fold:
        places = {str(place): name for place, name in enumerate(request.names)}
        return Trained({places[place]: table for place, table in result.arrays.items()})
    if request.kind != "own":
        return Trained(joint=SharedModel.from_description(result.values, result.arrays))
    named = enumerate(request.names)
    return Trained(
        own={name: own_from({}, arrays_under(result.arrays, f"{place}/")) for place, name in named}
    )


def train_models(
    jobs: TrainingJobs, inputs: JobInputs, requests: Iterable[Request]
) -> dict[Request, Trained | None]:
    """Train all of these in one go; None for a model that could not be trained.

    A batch of single-task models that failed is tried again task by task, so that one bad task does not take
    the others with it.

    Raises
    ------
    WorkError
        If a shared model could not be trained.
    """
    jobs.set_inputs(inputs)
    # The longest first, so that no worker waits for it in the end.
    ordered = sorted(dict.fromkeys(requests), key=lambda request: -count_rows(inputs, request))
    made = [make_job(inputs, request) for request in ordered]
    found: dict[Request, Trained | None] = {}
    for request, job, result in zip(ordered, made, jobs.run(made), strict=True):
        if result is None and request.kind == "own" and len(request.names) > 1:
            found[request] = train_one_by_one(jobs, inputs, request)
            continue
        if request.kind == "shared":
            result = require_result("the model of all tasks", job, result)
        found[request] = None if result is None else read_result(inputs, request, result)
    return found


def train_one_by_one(jobs: TrainingJobs, inputs: JobInputs, request: Request) -> Trained:
    """Train the single-task models of a batch each in a job of its own."""
    predictions: dict[str, NDArray[np.float64]] = {}
    own: dict[str, OwnModel] = {}
    alone = [Request(request.split, "own", (name,)) for name in request.names]
    for one, result in zip(alone, jobs.run([make_job(inputs, one) for one in alone]), strict=True):
        if result is not None:
            trained = read_result(inputs, one, result)
            predictions |= trained.predictions
            own |= trained.own
    return Trained(predictions, own)


def count_rows(inputs: JobInputs, request: Request) -> int:
    """Return how many rows a model of several tasks is trained on; batches of single-task ones are short."""
    rows = inputs.splits[request.split].rows
    return 0 if request.kind == "own" else sum(len(rows[name].items) for name in request.names)


def own_requests(key: str, split: Split) -> list[Request]:
    """Batch the single-task models of a split that take about a second together, in the order of names.

    Examples
    --------
    >>> inputs = DenseInputs(np.eye(2, dtype=np.float32))
    >>> zeros = np.zeros(2000, np.int64)
    >>> rows = {name: TaskRows(name, 100, zeros, zeros) for name in "abcd"}
    >>> [request.names for request in own_requests("whole", Split("whole", inputs, rows))]
    [('a', 'b', 'c'), ('d',)]
    """
    batches: list[list[str]] = []
    seconds = BATCH_SECONDS
    for name in sorted(split.rows):
        if seconds >= BATCH_SECONDS:
            batches.append([])
            seconds = 0.0
        batches[-1].append(name)
        rows = split.rows[name]
        if isinstance(split.inputs, DenseInputs):
            seconds += DENSE_SECONDS * len(rows.items) * rows.n_labels
        else:
            seconds += max(LEAST_WORD_SECONDS, WORD_SECONDS * len(rows.items))
    return [Request(key, "own", tuple(batch)) for batch in batches]


def make_splits(
    data: TrainingData, rows: Mapping[str, NDArray[np.intp]], *, name: str = WHOLE, valid: bool = False
) -> dict[str, Split]:
    """Lay out all training rows: those of tasks that share together, those of each private one alone."""
    splits = {
        f"private {task}": Split("private", prepared.inputs, {task: data.rows(task, rows[task], valid=valid)})
        for task, prepared in data.private.items()
    }
    if data.prepared is not None:
        shared = {task: data.rows(task, rows[task], valid=valid) for task in data.shareable.names}
        splits[WHOLE] = Split(name, data.prepared.inputs, shared)
    return splits


def new_predictor(data: TrainingData, encoder: Encoder, splits: Mapping[str, Split]) -> Predictor:
    """Make what predicts, without models."""
    rows = {name: own for split in splits.values() for name, own in split.rows.items()}
    tasks = {}
    for task in data.tasks:
        shares = label_prior(rows[task.name].codes, len(task.label_names))[0]
        cluster = 0 if data.clusters is None else data.clusters.get(task.name, -1)
        cluster = cluster if task.may_share else -1
        tasks[task.name] = ServedTask(
            task.name, task.label_names, tuple(shares.tolist()), cluster, task.may_share
        )
    private = {name: encoder.for_new_texts(prepared) for name, prepared in data.private.items()}
    reader = next(iter(private.values())) if data.prepared is None else encoder.for_new_texts(data.prepared)
    # Only words have numbers that depend on the texts; any other reader serves all tasks alike.
    words = {name: own for name, own in private.items() if isinstance(own, WordEncoder)}
    return Predictor(tasks, reader, words, seen=data.seen)


def draw_references(name: str, items: Numbers, seed: int) -> Numbers:
    """Return the distinct items of a task's training rows, not too many."""
    distinct = np.unique(items)
    if len(distinct) > MAX_REFERENCES:
        drawn = numpy_generator(seed, "references", [name]).permutation(distinct)[:MAX_REFERENCES]
        distinct = np.sort(drawn)
    return distinct


def keep_references(predictor: Predictor, splits: Mapping[str, Split], seed: int) -> None:
    """Keep the training representations of every task that the out-of-scope score compares with."""
    for split in splits.values():
        for name, rows in split.rows.items():
            inputs = split.inputs.take(draw_references(name, rows.items, seed))
            predictor.references[name] = predictor.represent(name, inputs)


def train_blend(
    jobs: TrainingJobs,
    data: TrainingData,
    encoder: Encoder,
    rows: Mapping[str, NDArray[np.intp]],
    *,
    weights: BlendWeights | None,
    settings: MultiTaskSettings,
    seed: int,
    name: str = WHOLE,
) -> Predictor:
    """Train the models that serve on some rows of every task.

    Without weights (fewer than two tasks may share) single-task models serve. `name` is that of the split,
    for the keys of jobs.
    """
    splits = make_splits(data, rows, name=name)
    inputs = JobInputs(splits, settings, seed)
    predictor = new_predictor(data, encoder, splits)
    shared = Request(WHOLE, "shared", tuple(sorted(data.shareable.names)))
    clusters: dict[int, Request] = {}
    if weights is not None and weights.uses("cluster"):
        members = clusters_to_train(data.clusters)
        clusters = {number: Request(WHOLE, "cluster", names) for number, names in members.items()}
    own = [request for key, split in splits.items() for request in own_requests(key, split)]
    trained = train_models(jobs, inputs, [*([shared] if weights else []), *clusters.values(), *own])
    predictor.own = {name: model for one in own for name, model in (trained[one] or Trained()).own.items()}
    if weights is not None:
        predictor.shared = (trained[shared] or Trained()).joint
        for name, task in predictor.tasks.items():
            if task.may_share:
                predictor.tasks[name] = replace(task, weights=weights)
    take_clusters(predictor, trained, clusters, "single-task models take their places")
    fill_gaps(predictor, data)
    keep_references(predictor, splits, seed)
    return predictor


def take_clusters(
    predictor: Predictor,
    trained: Mapping[Request, Trained | None],
    clusters: Mapping[int, Request],
    consequence: str,
) -> list[str]:
    """Keep the models of clusters; warn about those that could not be trained, and return their tasks."""
    lost: list[str] = []
    for number, request in clusters.items():
        joint = (trained[request] or Trained()).joint
        if joint is None:
            lost += request.names
        else:
            predictor.clusters[number] = joint
    warn_about_tasks(f"the models of some clusters could not be trained; {consequence}", lost)
    return lost


def fill_gaps(predictor: Predictor, data: TrainingData) -> None:
    """Give tasks whose single-task model could not be trained a uniform one, and warn about them."""
    served = {name for number, model in predictor.clusters.items() for name in model.names}
    missing = [
        name
        for name, task in predictor.tasks.items()
        if name not in predictor.own and not (task.weights == CLUSTER_ONLY and name in served)
    ]
    for name in missing:
        n_labels = len(predictor.tasks[name].label_names)
        predictor.own[name] = uniform_model(data.inputs_of(name), n_labels)
    warn_about_tasks("own models of some tasks could not be trained; all labels are alike to them", missing)


def train_paper(
    jobs: TrainingJobs,
    data: TrainingData,
    encoder: Encoder,
    *,
    settings: MultiTaskSettings,
    seed: int,
    cluster_models: str,
) -> Predictor:
    """Train as Algorithm 2 does: a cluster has one shared layer and one classifier per task, from scratch.

    The epoch with the highest mean validation accuracy over the cluster's tasks is kept. Without clusters,
    or with ``cluster_models="never"``, all tasks are one cluster; a task in no cluster, or a private one, is
    trained alone in the same way, and so are the tasks of a cluster whose model could not be trained.
    """
    if cluster_models == "never":
        data = replace(data, clusters=None)
    splits = make_splits(data, {task.name: task.rows("train") for task in data.tasks}, valid=True)
    inputs = JobInputs(splits, settings, seed, stop_early=True)
    predictor = new_predictor(data, encoder, splits)
    names = sorted(data.shareable.names)
    numbers = [0 if data.clusters is None else data.clusters[name] for name in names]
    members = cluster_members(names, numbers, smallest=2)
    clusters = {number: Request(WHOLE, "cluster", own) for number, own in members.items()}
    in_cluster = {name for own in members.values() for name in own}
    keys = {name: f"private {name}" if name in data.private else WHOLE for name in predictor.tasks}
    alone = {name: Request(key, "cluster", (name,)) for name, key in keys.items() if name not in in_cluster}
    trained = train_models(jobs, inputs, [*clusters.values(), *alone.values()])
    lost = take_clusters(predictor, trained, clusters, "their tasks are trained alone")
    again = {name: Request(WHOLE, "cluster", (name,)) for name in lost}
    trained |= train_models(jobs, inputs, again.values())
    for name, request in (alone | again).items():
        joint = (trained[request] or Trained()).joint
        if joint is not None:
            predictor.own[name] = joint
    for name, task in predictor.tasks.items():
        is_served = task.may_share and task.cluster in predictor.clusters
        predictor.tasks[name] = replace(task, weights=CLUSTER_ONLY if is_served else OWN_ONLY)
    fill_gaps(predictor, data)
    keep_references(predictor, splits, seed)
    return predictor


def all_rows(tasks: Iterable[Task], splits: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Return the rows of some splits of every task."""
    return {task.name: task.rows(*splits) for task in tasks}

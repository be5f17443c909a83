"""Models trained as jobs: one per model of several tasks, one per batch of single-task models.

A job trains on the rows of a `Split`: those of a fold, all rows, or those of a private task. In a fold it
returns what the model predicts for held-out rows, else the model itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders import DenseInputs, Encoder, FeatureEncoder, FrozenInputs, PreparedTasks, WordEncoder
from robusttc.errors import DataError
from robusttc.jobs import Job, Result
from robusttc.models import (
    TrainingJobs,
    cluster_members,
    join_arrays,
    label_prior,
    name_tasks,
    require_result,
    split_arrays,
    to_unit_length,
    training_rows,
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
from robusttc.random import numpy_generator

STAGE = "multitask"
WHOLE = "whole"

Rows = Mapping[str, NDArray[np.intp]]  # rows by task
Floats = NDArray[np.float32]
Kind = Literal["own", "shared", "cluster"]

# So many single-task models go into one job: about a second of work on vectors, and on words.
DENSE_BATCH, WORD_BATCH = 100, 4
# Training representations of a task that the out-of-scope score compares with: a bound on time and memory.
MAX_REFERENCES = 256


def check_learnable(tasks: TaskSet) -> None:
    """Refuse tasks that no classifier can be fitted to."""
    if len(tasks) == 0:
        raise DataError("there are no tasks to train on", expected="at least one task")
    for task in tasks:
        training_rows(task)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """The encoded tasks.

    Each private task is prepared on its own, so that nothing of it reaches the others: not even its words.
    """

    tasks: TaskSet
    prepared: PreparedTasks | None  # the inputs of the tasks that may share
    private: dict[str, PreparedTasks]
    clusters: dict[str, int] | None  # of the tasks that may share
    seen: SeenTexts | None = None  # None if inputs are no texts

    @property
    def sharing(self) -> tuple[str, ...]:
        """The names of the tasks that may share, sorted."""
        return tuple(sorted(self.tasks.shareable().names))

    def find_seen(self, name: str, rows: NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """Return which rows of a task have a text that is seen in another; None for private tasks."""
        if self.seen is None or name in self.private:
            return None
        return self.seen.find(name, self.tasks[name].texts_at(rows))

    def trained_on(self, rows: Rows) -> TrainingData:
        """Return the same tasks for models that are trained on other rows: these texts are the seen ones."""
        if self.seen is None:
            return self
        return replace(self, seen=SeenTexts.of(self.tasks.shareable(), rows))

    def prepared_of(self, name: str) -> PreparedTasks:
        """Return what a task was prepared with."""
        prepared = self.private.get(name, self.prepared)
        assert prepared is not None  # noqa: S101 - every task was prepared one way or the other
        return prepared

    def inputs_of(self, name: str) -> FrozenInputs:
        """Return the frozen inputs that a task's items belong to."""
        return self.prepared_of(name).inputs

    def rows(self, name: str, rows: NDArray[np.intp], *, valid: bool = False) -> TaskRows:
        """Return some rows of a task as training takes them, with those in ``valid`` if asked for."""
        prepared = self.prepared_of(name)
        return TaskRows.of(self.tasks[name], rows, lambda own: prepared.items_of(name, own), valid=valid)

    def take(self, name: str, rows: NDArray[np.intp]) -> FrozenInputs:
        """Return the inputs of some rows of a task."""
        return self.prepared_of(name).inputs_of(name, rows)


def prepare_tasks(
    tasks: TaskSet,
    encoder: Encoder,
    clusters: Mapping[str, int] | None,
    *,
    splits: Sequence[str] = ("train", "valid"),
    progress: Any = None,
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
    # Ready-made vectors stand for texts that nobody will bring when predictions are asked for.
    has_texts = prepared is not None and not isinstance(encoder, FeatureEncoder)
    rows = {task.name: task.rows(*splits) for task in shareable}
    seen = SeenTexts.of(shareable, rows) if has_texts else None
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
    """Rows to train on and, in a fold, the held-out items of every task that predictions are wanted for."""

    name: str  # for the keys of jobs: fold 0, whole, private
    inputs: FrozenInputs
    rows: Mapping[str, TaskRows]
    held_out: Mapping[str, NDArray[np.int64]] | None = None

    @property
    def seed_suffix(self) -> str:
        """What the names of random draws end with."""
        return "" if self.held_out is None else f", {self.name}"


@dataclass(frozen=True, slots=True)
class Request:
    """A model of several tasks (``shared``, ``cluster``), or single-task models (``own``), to be trained.

    `names` are in order; `split` is a key of `JobInputs.splits`.
    """

    split: str
    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class JobInputs:
    """What all jobs see: the splits by keys of their own, and how to train."""

    splits: Mapping[str, Split]
    settings: MultiTaskSettings
    seed: int
    stop_early: bool = False


def make_splits(
    data: TrainingData, train: Rows, *, name: str = WHOLE, held: Rows | None = None, valid: bool = False
) -> dict[str, Split]:
    """Split the rows of the tasks that share together, and those of each private one alone.

    With `held` it is a fold: a split that holds out nothing is left out.
    """
    groups: dict[str, tuple[str, ...]] = {f"private {private}": (private,) for private in data.private}
    if data.prepared is not None:
        groups[WHOLE] = data.sharing
    splits = {}
    for key, names in groups.items():
        inputs = data.inputs_of(names[0])
        rows = {one: data.rows(one, train[one], valid=valid) for one in names}
        if held is None:
            # The name of a private task is that of its split's model; only another training is named.
            private = "private" if name == WHOLE else f"private {name}"
            splits[key] = Split(name if key == WHOLE else private, inputs, rows)
        elif items := {one: data.rows(one, held[one]).items for one in names if len(held[one])}:
            splits[f"{key}, {name}"] = Split(name, inputs, rows, items)
    return splits


def own_requests(splits: Mapping[str, Split]) -> list[Request]:
    """Request the single-task models of splits, in batches."""
    requests = []
    for key, split in splits.items():
        names = sorted(split.rows)
        size = DENSE_BATCH if isinstance(split.inputs, DenseInputs) else WORD_BATCH
        batches = [tuple(names[start : start + size]) for start in range(0, len(names), size)]
        requests += [Request(key, "own", batch) for batch in batches]
    return requests


def train_request(inputs: JobInputs, request: Request) -> Result:
    """Run a job: train the models of a request; in a fold, predict the held-out items with them."""
    split, seed = inputs.splits[request.split], inputs.seed
    stage = request.kind + split.seed_suffix
    models: dict[str, OwnModel]
    if request.kind == "own":
        models = {
            name: fit_own(split.inputs, split.rows[name], settings=inputs.settings, seed=seed, stage=stage)
            for name in request.names
        }
        content = {name: describe_own(model) for name, model in models.items()}
    else:
        is_small = request.kind == "cluster" and not inputs.stop_early  # the paper has no other models
        settings = inputs.settings.of_cluster() if is_small else inputs.settings
        model = train_jointly(
            split.inputs,
            [split.rows[name] for name in request.names],
            settings=settings,
            generator=numpy_generator(seed, f"{stage}, copy 0", request.names),
            stop_early=inputs.stop_early,
        )
        models, content = dict.fromkeys(request.names, model), model.describe()
    if split.held_out is None:
        return Result(*split_arrays(content))
    held = {name: split.inputs.take(split.held_out[name]) for name in request.names if name in split.held_out}
    return Result(*split_arrays({name: own_probabilities(models[name], name, held[name]) for name in held}))


@dataclass(slots=True, eq=False)
class Trainer:
    """Trains models of the same tasks as jobs, all with the same settings and seed."""

    jobs: TrainingJobs
    data: TrainingData
    settings: MultiTaskSettings
    seed: int

    def train(
        self, splits: Mapping[str, Split], requests: Iterable[Request], *, stop_early: bool = False
    ) -> dict[Request, dict[str, Any]]:
        """Train all of these in one go: the predictions in folds, else the models, by task.

        A model that could not be trained is not there. A batch of single-task models that failed is tried
        again task by task, so that one bad task does not take the others with it.

        Raises
        ------
        WorkError
            If a shared model could not be trained.
        """
        inputs = JobInputs(splits, self.settings, self.seed, stop_early)
        self.jobs.set_inputs(inputs)

        def count_rows(request: Request) -> int:
            rows = splits[request.split].rows
            return 0 if request.kind == "own" else sum(len(rows[name].items) for name in request.names)

        # The longest first, so that no worker waits for it in the end; batches of single-task ones are short.
        ordered = sorted(dict.fromkeys(requests), key=lambda request: -count_rows(request))
        found: dict[Request, dict[str, Any]] = {}
        for request, trained in zip(ordered, self._run(inputs, ordered), strict=True):
            if trained is None and request.kind == "own" and len(request.names) > 1:
                alone = [replace(request, names=(name,)) for name in request.names]
                trained = {
                    name: one for part in self._run(inputs, alone) for name, one in (part or {}).items()
                }
            found[request] = trained or {}
        return found

    def _run(self, inputs: JobInputs, requests: Sequence[Request]) -> list[dict[str, Any] | None]:
        """Run the jobs of requests; None for one that failed."""
        jobs = []
        for request in requests:
            # The tasks are in the key, not the number of their cluster: clusters can be numbered otherwise.
            name = inputs.splits[request.split].name
            key = "/".join([STAGE, name, request.kind, name_tasks(request.names)])
            jobs.append(Job(key, train_request, request, request.names))
        found: list[dict[str, Any] | None] = []
        for request, job, result in zip(requests, jobs, self.jobs.run(jobs), strict=True):
            if request.kind == "shared":
                result = require_result("the model of all tasks", job, result)
            if result is None:
                found.append(None)
                continue
            content = join_arrays(result.values, result.arrays)
            if inputs.splits[request.split].held_out is not None:
                found.append(content)
            elif request.kind == "own":
                found.append({name: own_from(own) for name, own in content.items()})
            else:
                found.append(dict.fromkeys(request.names, SharedModel.from_description(content)))
        return found


def train_blend(
    trainer: Trainer,
    encoder: Encoder,
    rows: Rows,
    weights: BlendWeights,
    cluster_weights: Mapping[int, BlendWeights],
    *,
    name: str = WHOLE,
) -> Predictor:
    """Train the models that serve on some rows of every task; `name` is for the keys of jobs."""
    data, sharing = trainer.data, trainer.data.sharing
    splits = make_splits(data, rows, name=name)
    own = own_requests(splits)
    shared = [Request(WHOLE, "shared", sharing)] if len(sharing) > 1 else []
    members = clusters_to_train(data.clusters) if weights.uses("cluster") else {}
    clusters = {number: Request(WHOLE, "cluster", names) for number, names in members.items()}
    trained = trainer.train(splits, [*shared, *clusters.values(), *own])
    predictor = new_predictor(data, encoder, splits)
    for request in own:
        predictor.own |= trained[request]
    for request in shared:
        predictor.shared = trained[request][sharing[0]]
    lost = take_clusters(predictor, trained, clusters)
    warn_about_tasks(f"{NO_CLUSTERS}; single-task models take their places", lost)
    for task in predictor.tasks.values():
        if task.may_share:
            own_weights = cluster_weights.get(task.cluster, weights)
            predictor.tasks[task.name] = replace(task, weights=own_weights)
    complete(predictor, data, splits, trainer.seed)
    return predictor


def train_paper(trainer: Trainer, encoder: Encoder) -> Predictor:
    """Train as Algorithm 2 does: a cluster has one shared layer and one classifier per task, from scratch.

    The epoch with the highest mean validation accuracy over the cluster's tasks is kept. Without clusters all
    tasks are one cluster; a task in no cluster, or a private one, is trained alone in the same way, and so
    are the tasks of a cluster whose model could not be trained.
    """
    data = trainer.data
    splits = make_splits(data, {task.name: task.rows("train") for task in data.tasks}, valid=True)
    numbers = [0 if data.clusters is None else data.clusters[name] for name in data.sharing]
    members = cluster_members(data.sharing, numbers, smallest=2)
    clusters = {number: Request(WHOLE, "cluster", names) for number, names in members.items()}
    in_cluster = {name for names in members.values() for name in names}
    alone = [Request(WHOLE, "cluster", (name,)) for name in data.sharing if name not in in_cluster]
    alone += [Request(f"private {name}", "cluster", (name,)) for name in data.private]
    trainer.jobs.total += len(clusters) + len(alone)
    trained = trainer.train(splits, [*clusters.values(), *alone], stop_early=True)
    predictor = new_predictor(data, encoder, splits)
    lost = take_clusters(predictor, trained, clusters)
    warn_about_tasks(f"{NO_CLUSTERS}; their tasks are trained alone", lost)
    again = [Request(WHOLE, "cluster", (name,)) for name in lost]
    trained |= trainer.train(splits, again, stop_early=True)
    for request in (*alone, *again):
        predictor.own |= trained[request]
    for task in predictor.tasks.values():
        is_served = task.may_share and task.cluster in predictor.clusters
        predictor.tasks[task.name] = replace(task, weights=CLUSTER_ONLY if is_served else OWN_ONLY)
    complete(predictor, data, splits, trainer.seed)
    return predictor


NO_CLUSTERS = "the models of some clusters could not be trained"


def take_clusters(
    predictor: Predictor, trained: Mapping[Request, Mapping[str, Any]], clusters: Mapping[int, Request]
) -> list[str]:
    """Keep the models of clusters; return the tasks of those that could not be trained."""
    lost: list[str] = []
    for number, request in clusters.items():
        if trained[request]:
            predictor.clusters[number] = trained[request][request.names[0]]
        else:
            lost += request.names
    return lost


def new_predictor(data: TrainingData, encoder: Encoder, splits: Mapping[str, Split]) -> Predictor:
    """Make what predicts, without models."""
    rows = {name: own for split in splits.values() for name, own in split.rows.items()}
    tasks = {}
    for task in data.tasks:
        shares = tuple(label_prior(rows[task.name].codes, len(task.label_names))[0].tolist())
        cluster = (0 if data.clusters is None else data.clusters[task.name]) if task.may_share else -1
        tasks[task.name] = ServedTask(task.name, task.label_names, shares, cluster, task.may_share)
    private = {name: encoder.for_new_texts(prepared) for name, prepared in data.private.items()}
    reader = next(iter(private.values())) if data.prepared is None else encoder.for_new_texts(data.prepared)
    # Only words have numbers that depend on the texts; any other reader serves all tasks alike.
    words = {name: own for name, own in private.items() if isinstance(own, WordEncoder)}
    return Predictor(tasks, reader, words, seen=data.seen)


def complete(predictor: Predictor, data: TrainingData, splits: Mapping[str, Split], seed: int) -> None:
    """Put a uniform model where a task's own could not be trained, and keep what out-of-scope texts need."""
    in_cluster = {name for model in predictor.clusters.values() for name in model.names}
    missing = [
        name
        for name, task in predictor.tasks.items()
        if name not in predictor.own and not (task.weights == CLUSTER_ONLY and name in in_cluster)
    ]
    for name in missing:
        predictor.own[name] = uniform_model(data.inputs_of(name), len(predictor.tasks[name].label_names))
    warn_about_tasks("own models of some tasks could not be trained; all labels are alike to them", missing)
    for split in splits.values():
        for name, rows in split.rows.items():
            inputs = split.inputs.take(draw_references(name, rows.items, seed))
            predictor.references[name] = to_reference(predictor.represent(name, inputs))


def to_reference(representation: Floats) -> NDArray[np.float16]:
    """Return representations as the out-of-scope score keeps them: in half precision, as angles matter."""
    return to_unit_length(representation.astype(np.float64)).astype(np.float16)


def draw_references(name: str, items: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the distinct items of a task's training rows, not too many."""
    distinct = np.unique(items)
    if len(distinct) > MAX_REFERENCES:
        drawn = numpy_generator(seed, "references", [name]).permutation(distinct)[:MAX_REFERENCES]
        distinct = np.sort(drawn)
    return distinct

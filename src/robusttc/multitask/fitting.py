"""The two ways to train on clusters: the paper's, and averages of own, shared and cluster models."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robusttc.data.taskset import TaskSet
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.reading import WordReader, reader_of
from robusttc.learning.familiar import FamiliarTexts
from robusttc.multitask.choosing import Choice, choose
from robusttc.multitask.components import COMPONENTS, fit_own, train_copies
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.out_of_fold import OutOfFold, train_clusters
from robusttc.multitask.serving import OWN_ONLY, ServedTask, Serving
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.task_rows import make_parts
from robusttc.multitask.weighing import Weights
from robusttc.progress import Progress

__all__ = ["TrainingData", "fit_blend", "fit_paper", "prepare_tasks"]

Numbers = NDArray[np.int64]
CLUSTER_ONLY = Weights((0.0, 0.0, 1.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """All that training sees.

    Attributes
    ----------
    tasks
        The tasks that may share.
    prepared, parts
        Their frozen inputs and rows; None and empty if there is no such task.
    private
        Each task that may not share, prepared on its own, so that nothing of it reaches the others: not even
        its words.
    labels
        The cluster of every task that may share, by name; None for no clusters.
    familiar
        Which training texts several tasks have; None if inputs are no texts.
    """

    tasks: TaskSet
    prepared: PreparedTasks | None
    parts: dict[str, TaskPart]
    private: dict[str, tuple[PreparedTasks, TaskPart]] = field(default_factory=dict)
    labels: dict[str, int] | None = None
    familiar: FamiliarTexts | None = None

    def valid_familiar(self, name: str) -> NDArray[np.bool_] | None:
        """Tell which rows in ``valid`` of a task have texts that other tasks have too."""
        if self.familiar is None:
            return None
        task = self.tasks[name]
        return self.familiar.find(name, task.texts.take(task.rows("valid")))


def prepare_tasks(
    tasks: TaskSet, encoder: Encoder, labels: Mapping[str, int] | None, *, progress: Progress | None = None
) -> TrainingData:
    """Compute the frozen inputs: of the tasks that may share together, of each other one alone.

    All rows are prepared, those of other splits too: that tells their words their vectors, which a reader of
    words needs to know them later. Training looks at ``train`` and ``valid`` only.
    """
    shareable = tasks.shareable()
    prepared = encoder.prepare(shareable, progress=progress) if len(shareable) else None
    parts = {} if prepared is None else make_parts(shareable, prepared)
    private = {}
    for task in tasks:
        if not task.may_share:
            alone = TaskSet([task])
            own = encoder.prepare(alone, progress=progress)
            private[task.name] = (own, make_parts(alone, own)[task.name])
    kept = None if labels is None else {name: labels[name] for name in shareable.names}
    # Ready-made vectors stand for texts that nobody will give when predictions are asked for.
    has_texts = len(shareable) > 0 and not isinstance(encoder, FeatureEncoder)
    familiar = FamiliarTexts.of(shareable) if has_texts else None
    return TrainingData(shareable, prepared, parts, private, kept, familiar)


def new_serving(tasks: TaskSet, data: TrainingData, encoder: Encoder) -> Serving:
    """Make what serves, with readers and without models."""
    served = {
        task.name: ServedTask(
            task.name,
            task.label_names,
            (data.labels[task.name] if data.labels is not None else 0) if task.may_share else -1,
            task.may_share,
            OWN_ONLY,
        )
        for task in tasks
    }
    private = {name: reader_of(encoder, prepared) for name, (prepared, _) in data.private.items()}
    reader = next(iter(private.values())) if data.prepared is None else reader_of(encoder, data.prepared)
    # Only words have numbers that depend on the texts; any other reader serves all tasks alike.
    words = {name: own for name, own in private.items() if isinstance(own, WordReader)}
    return Serving(served, reader, words, familiar=data.familiar)


def fit_paper(
    tasks: TaskSet,
    data: TrainingData,
    encoder: Encoder,
    *,
    settings: MultiTaskSettings,
    seed: int,
    progress: Progress | None = None,
) -> Serving:
    """Train as Algorithm 2 says: a cluster has one shared layer and one classifier a task, from scratch.

    The epoch with the highest mean validation accuracy over the cluster's tasks is kept. Without labels all
    tasks are one cluster; a task in no cluster, or that may not share, is trained alone in the same way.
    """
    serving = new_serving(tasks, data, encoder)
    if data.prepared is not None:
        labels = data.labels or dict.fromkeys(data.parts, 0)
        serving.clusters = train_clusters(
            data.prepared.inputs,
            data.parts,
            labels,
            settings=settings,
            seed=seed,
            stage="cluster",
            stop_early=True,
            progress=progress,
        )
    for name, task in serving.tasks.items():
        if task.may_share and task.cluster in serving.clusters:
            continue
        prepared, part = data.private[name] if name in data.private else (data.prepared, data.parts[name])
        assert prepared is not None  # noqa: S101 - the task was prepared one way or the other
        serving.alone[name] = train_copies(
            prepared.inputs, [part], settings=settings, seed=seed, stage="cluster", stop_early=True
        )
    for name, task in serving.tasks.items():
        weights = OWN_ONLY if name in serving.alone else CLUSTER_ONLY
        serving.tasks[name] = dataclasses.replace(task, weights=weights)
    return serving


def fit_blend(
    tasks: TaskSet,
    data: TrainingData,
    encoder: Encoder,
    *,
    settings: MultiTaskSettings,
    clusters: str,
    n_folds: int | None,
    n_random: int,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Serving, Choice | None]:
    """Decide on out-of-fold predictions what serves, and train that on all training rows.

    With fewer than two tasks that may share there is nothing to decide: own models serve.
    """
    serving = new_serving(tasks, data, encoder)
    choice: Choice | None = None
    weights = OWN_ONLY
    if data.prepared is not None and len(data.tasks) > 1:
        rows = OutOfFold(
            data.tasks,
            data.prepared,
            n_folds=n_folds,
            settings=settings,
            seed=seed,
            familiar=data.familiar,
            progress=progress,
        )
        choice = choose(rows, data.labels, clusters=clusters, n_random=n_random, seed=seed)
        weights = choice.weights
        train_served(serving, data, choice, settings=settings, seed=seed, progress=progress)
    for name, task in serving.tasks.items():
        own_weights = weights if task.may_share else OWN_ONLY
        serving.tasks[name] = dataclasses.replace(task, weights=own_weights)
        if uses(own_weights, "own") or task.cluster not in serving.clusters:
            prepared, part = data.private[name] if name in data.private else (data.prepared, data.parts[name])
            assert prepared is not None  # noqa: S101 - the task was prepared one way or the other
            serving.own[name] = fit_own(prepared.inputs, part, settings=settings, seed=seed, stage="own")
    return serving, choice


def uses(weights: Weights, kind: str) -> bool:
    """Tell whether a component counts for some texts."""
    place = COMPONENTS.index(kind)
    return weights.new[place] > 0 or weights.familiar[place] > 0


def train_served(
    serving: Serving,
    data: TrainingData,
    choice: Choice,
    *,
    settings: MultiTaskSettings,
    seed: int,
    progress: Progress | None,
) -> None:
    """Train the models that have a weight, and those that others start from."""
    assert data.prepared is not None  # noqa: S101 - the caller has looked
    inputs = data.prepared.inputs
    clusters_start = choice.clusters_serve and choice.start == "shared"
    shared = None
    if uses(choice.weights, "shared") or clusters_start:
        shared = train_copies(
            inputs, data.parts.values(), settings=settings, seed=seed, stage="shared", progress=progress
        )
    if uses(choice.weights, "shared"):
        serving.shared = shared
    if choice.clusters_serve and uses(choice.weights, "cluster"):
        assert data.labels is not None  # noqa: S101 - else clusters would not serve
        serving.clusters = train_clusters(
            inputs,
            data.parts,
            data.labels,
            settings=settings,
            seed=seed,
            stage="cluster",
            start=shared if clusters_start else None,
            progress=progress,
        )

"""The two ways to train on clusters: the paper's, and averages of own, shared and cluster models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.jobs import Result
from robusttc.models import TrainingJobs, require_result, warn_about_tasks
from robusttc.multitask.choosing import Choice, choose, has_clusters
from robusttc.multitask.components import COMPONENTS, blank_own
from robusttc.multitask.label_power import find_offsets
from robusttc.multitask.out_of_fold import OutOfFold, clusters_of_two
from robusttc.multitask.serving import CLUSTER_ONLY, OWN_ONLY, Serving
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.training import shared_or_none, train_all
from robusttc.multitask.training_data import TrainingData, new_serving
from robusttc.multitask.units import (
    JointOrder,
    Material,
    OwnOrder,
    Round,
    batch_tasks,
    joint_unit,
    shared_from,
)
from robusttc.multitask.weighing import Weights

__all__ = ["count_own_units", "fit_blend", "fit_paper", "uses"]

# The round of all training rows of tasks that share.
WHOLE = "whole"


def make_material(
    data: TrainingData, *, settings: MultiTaskSettings, seed: int, start: Result | None = None
) -> Material:
    """Lay out all training rows: those of tasks that share together, those of each other one alone."""
    rounds = {
        round_of(data, name): Round("private", prepared.inputs, {name: part})
        for name, (prepared, part) in data.private.items()
    }
    if data.prepared is not None:
        rounds[WHOLE] = Round(WHOLE, data.prepared.inputs, data.parts, start=start)
    return Material(rounds, settings, seed)


def round_of(data: TrainingData, name: str) -> str:
    """Give the round that a task's own model is trained in."""
    return f"private {name}" if name in data.private else WHOLE


def fit_paper(
    tasks: TaskSet,
    data: TrainingData,
    encoder: Encoder,
    *,
    settings: MultiTaskSettings,
    seed: int,
    bench: TrainingJobs,
) -> Serving:
    """Train as Algorithm 2 says: a cluster has one shared layer and one classifier a task, from scratch.

    The epoch with the highest mean validation accuracy over the cluster's tasks is kept. Without labels all
    tasks are one cluster; a task in no cluster, or that may not share, is trained alone in the same way, and
    so are the tasks of a cluster whose model could not be trained.
    """
    serving = new_serving(tasks, data, encoder)
    labels = data.labels or dict.fromkeys(data.parts, 0)
    options = {"stop_early": True, "keeps": "model"}
    clusters = {
        cluster: JointOrder(WHOLE, names, "cluster", **options)  # type: ignore[arg-type]
        for cluster, names in clusters_of_two(data.parts, labels).items()
    }
    alone = {
        name: JointOrder(round_of(data, name), (name,), "cluster", **options)  # type: ignore[arg-type]
        for name in serving.tasks
    }
    in_cluster = {name for order in clusters.values() for name in order.names}
    material = make_material(data, settings=settings, seed=seed)
    trained = train_all(
        bench,
        material,
        [*clusters.values(), *(order for name, order in alone.items() if name not in in_cluster)],
    )
    made = {cluster: shared_or_none(trained.joint[order]) for cluster, order in clusters.items()}
    serving.clusters = {cluster: model for cluster, model in made.items() if model is not None}
    lost = [name for cluster, order in clusters.items() if made[cluster] is None for name in order.names]
    warn_about_tasks("the models of some clusters could not be trained; their tasks are trained alone", lost)
    trained.joint |= train_all(bench, material, [alone[name] for name in lost]).joint
    for name, task in serving.tasks.items():
        is_served = task.may_share and task.cluster in serving.clusters
        weights = CLUSTER_ONLY if is_served else OWN_ONLY
        serving.tasks[name] = dataclasses.replace(task, weights=weights)
        model = None if is_served else shared_or_none(trained.joint[alone[name]])
        if model is not None:
            serving.alone[name] = model
    set_blanks(serving, data, (name for name in serving.tasks if serving.tasks[name].weights == OWN_ONLY))
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
    bench: TrainingJobs,
) -> tuple[Serving, Choice | None]:
    """Decide on out-of-fold predictions what serves, and train that on all training rows.

    With fewer than two tasks that may share there is nothing to decide: own models serve.
    """
    serving = new_serving(tasks, data, encoder)
    choice: Choice | None = None
    if data.prepared is not None and len(data.tasks) > 1:
        rows = OutOfFold(
            data.tasks,
            data.prepared,
            n_folds=n_folds,
            settings=settings,
            seed=seed,
            familiar=data.familiar,
            keeps_start=clusters != "never" and has_clusters(data.labels),
            bench=bench,
        )
        choice = choose(rows, data.labels, clusters=clusters, n_random=n_random, seed=seed)
    for name, task in serving.tasks.items():
        if choice is None or not task.may_share:
            serving.tasks[name] = dataclasses.replace(task, weights=OWN_ONLY)
            continue
        offsets = find_offsets(data.parts[name], choice.label_power)
        serving.tasks[name] = dataclasses.replace(task, weights=choice.weights, offsets=offsets)
    train_served(serving, data, choice, settings=settings, seed=seed, bench=bench)
    return serving, choice


def uses(weights: Weights, kind: str) -> bool:
    """Tell whether a component counts for some texts."""
    place = COMPONENTS.index(kind)
    return weights.new[place] > 0 or weights.familiar[place] > 0


def train_served(
    serving: Serving,
    data: TrainingData,
    choice: Choice | None,
    *,
    settings: MultiTaskSettings,
    seed: int,
    bench: TrainingJobs,
) -> None:
    """Train the models that have a weight, and those that others start from."""
    shared: JointOrder | None = None
    clusters: dict[int, JointOrder] = {}
    from_shared = choice is not None and choice.clusters_serve and choice.start == "shared"
    serves_shared = choice is not None and uses(choice.weights, "shared")
    if from_shared or serves_shared:
        shared = JointOrder(WHOLE, tuple(sorted(data.parts)), "shared", keeps="model")
    if choice is not None and choice.clusters_serve and uses(choice.weights, "cluster"):
        assert data.labels is not None  # noqa: S101 - else clusters would not serve
        clusters = {
            cluster: JointOrder(WHOLE, names, "cluster", from_start=from_shared, keeps="model")
            for cluster, names in clusters_of_two(data.parts, data.labels).items()
        }
    wanted = [
        name
        for name, task in serving.tasks.items()
        if uses(task.weights, "own") or task.cluster not in clusters
    ]
    material = make_material(data, settings=settings, seed=seed)
    first = [*([shared] if shared is not None else []), *([] if from_shared else clusters.values())]
    trained = train_all(bench, material, first, own_orders(data, wanted))
    if shared is not None:
        start = require_result("the model of all tasks", joint_unit(material, shared), trained.joint[shared])
        if serves_shared:
            serving.shared = shared_from(start)
        if from_shared and clusters:
            material = make_material(data, settings=settings, seed=seed, start=start)
            trained.joint |= train_all(bench, material, clusters.values()).joint
    made = {cluster: shared_or_none(trained.joint[order]) for cluster, order in clusters.items()}
    serving.clusters = {cluster: model for cluster, model in made.items() if model is not None}
    lost = [name for cluster, order in clusters.items() if made[cluster] is None for name in order.names]
    warn_about_tasks("the models of some clusters could not be trained; own models serve their tasks", lost)
    late = own_orders(data, set(lost) - set(wanted))
    trained.own_models |= train_all(bench, material, [], late).own_models
    needed = set(wanted) | set(lost)
    for name in serving.tasks:
        model = trained.own_models.get((round_of(data, name), name))
        if model is not None:
            serving.own[name] = model
    set_blanks(serving, data, (name for name in serving.tasks if name in needed))


def own_orders(data: TrainingData, names: Iterable[str]) -> list[OwnOrder]:
    """Order the own models of some tasks."""
    chosen = set(names)
    orders = [OwnOrder(round_of(data, name), (name,), "model") for name in data.private if name in chosen]
    if data.prepared is not None:
        parts = [part for name, part in data.parts.items() if name in chosen]
        orders += [OwnOrder(WHOLE, batch, "model") for batch in batch_tasks(data.prepared.inputs, parts)]
    return orders


def set_blanks(serving: Serving, data: TrainingData, names: Iterable[str]) -> None:
    """Give tasks that have no model of their own one without an opinion, and say so."""
    without = [name for name in names if name not in serving.own and name not in serving.alone]
    for name in without:
        prepared, part = data.round_of(name)
        serving.own[name] = blank_own(prepared.inputs, part.n_labels)
    warn_about_tasks("own models of some tasks could not be trained; they have no opinion", without)


def count_own_units(data: TrainingData, *, strategy: str, n_folds: int | None) -> int:
    """Give how many units of own models a fit has at the most."""
    if strategy == "paper":
        return len(data.private) + len(data.parts)
    n_batches = 0
    if data.prepared is not None:
        n_batches = len(batch_tasks(data.prepared.inputs, data.parts.values()))
    n_rounds = (n_folds or 1) + 1 if len(data.parts) > 1 else 1
    return len(data.private) + n_rounds * n_batches

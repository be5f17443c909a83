"""Models that do not serve, trained to be compared with on test rows."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Literal

from robusttc.data import TaskSet
from robusttc.errors import DoubtWarning, WorkError
from robusttc.jobs import Runner
from robusttc.models import TrainingJobs
from robusttc.multitask.choosing import has_clusters
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.multitask.fitting import WHOLE, make_material, own_orders
from robusttc.multitask.serving import Serving
from robusttc.multitask.training import shared_or_none, train_all
from robusttc.multitask.units import JointOrder
from robusttc.progress import Progress
from robusttc.run.evaluation import Asked, Evaluation, evaluate_tasks

__all__ = ["Make", "compare_models"]

Make = Callable[[Literal["auto", "always", "never"] | None], ClusterMultiTask]
LEARNING, STAGE = "multitask", "evaluate"


def compare_models(
    tasks: TaskSet,
    labels: dict[str, int] | None,
    estimator: ClusterMultiTask,
    make: Make,
    *,
    runner: Runner,
    name: str,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a trained model on test rows, beside own, shared and cluster models.

    A blend has components; those that do not serve are trained here, under the names of the stage
    ``multitask``: its folds come from the store. The paper's models have no components: tasks alone, and all
    tasks as one cluster, are trained in the same way.

    Parameters
    ----------
    tasks, labels
        What the model was trained on.
    estimator
        The model.
    make
        Makes the estimator of the run, with another answer to whether cluster models serve; None keeps it.
    runner, name
        Who trains, and under which name the stage ``multitask`` did so.
    progress
        Told of training, and after every task.
    """
    serving = estimator._serving
    shared = runner.with_prefix(name, cost_stage=STAGE)
    asked: dict[str, Asked] = {}

    def ask(kind: str, train: Callable[[], Serving], asked_kind: str) -> None:
        try:
            asked[kind] = Asked(train(), asked_kind)
        except WorkError as error:
            # Figures that are missing are no reason to have no models.
            warnings.warn(f"{kind} models cannot be compared with: {error}", DoubtWarning, stacklevel=2)

    def fit(
        way: str, groups: dict[str, int] | None, clusters: Literal["always"] | None = None
    ) -> ClusterMultiTask:
        # Under another name, unless it is the very computation of the stage multitask.
        own = runner.with_prefix(f"{name}/{way}", stage=STAGE) if way else shared
        return make(clusters).fit(tasks, groups, progress=progress, runner=own)

    if estimator.strategy == "paper":
        ask("own", lambda: fit("alone", dict.fromkeys(tasks.names, -1))._serving, "own")
        ask("shared", lambda: fit("together", None)._serving, "cluster")
        asked["cluster"] = Asked(serving, "cluster")
        return evaluate_tasks(tasks, serving, asked, progress=progress)
    whole = serving
    lacks_own = any(name not in serving.own for name in tasks.names)
    if lacks_own or (serving.shared is None and len(tasks.shareable()) > 1):
        trained = estimator if estimator._data is not None else fit("", labels)
        whole = with_missing(trained, shared, progress)
    asked |= {"own": Asked(whole, "own"), "shared": Asked(whole, "shared")}
    if serving.clusters:
        asked["cluster"] = Asked(serving, "cluster")
    elif labels is not None and has_clusters({name: labels[name] for name in tasks.shareable().names}):
        ask("cluster", lambda: fit("", labels, "always")._serving, "cluster")
    return evaluate_tasks(tasks, serving, asked, progress=progress)


def with_missing(estimator: ClusterMultiTask, runner: Runner, progress: Progress | None) -> Serving:
    """Train the own models, and the model of all tasks, that a blend gave no weight to."""
    fitted, data = estimator._need(), estimator._data
    serving = fitted.serving
    assert data is not None  # noqa: S101 - the caller has looked
    material = make_material(data, settings=fitted.settings, seed=fitted.seed)
    shared = JointOrder(WHOLE, tuple(sorted(data.parts)), "shared", keeps="model")
    joint = [shared] if serving.shared is None and len(data.parts) > 1 else []
    own = own_orders(data, set(serving.tasks) - set(serving.own))
    with TrainingJobs(LEARNING, runner, progress=progress, total=len(joint) + len(own)) as bench:
        trained = train_all(bench, material, joint, own)
    return dataclasses.replace(
        serving,
        own={**serving.own, **{name: model for (_, name), model in trained.own_models.items()}},
        shared=shared_or_none(trained.joint[shared]) if joint else serving.shared,
    )

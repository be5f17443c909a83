"""Models that do not serve, trained to be compared with on test rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

from robusttc.data import TaskSet
from robusttc.errors import DoubtWarning, WorkError
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask, Predictor, clusters_to_train
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

    A blend has own and shared models; cluster models that do not serve are trained here, under the names of
    the stage ``multitask``: its folds come from the store. The paper's models have no components: tasks
    alone, and all tasks as one cluster, are trained in the same way.

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
    serving = estimator.predictor_
    shared = runner.with_prefix(name, cost_stage=STAGE)
    asked: dict[str, Asked] = {}

    def ask(kind: str, train: Callable[[], Predictor], asked_kind: str) -> None:
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
        ask("own", lambda: fit("alone", dict.fromkeys(tasks.names, -1)).predictor_, "own")
        ask("shared", lambda: fit("together", None).predictor_, "cluster")
        asked["cluster"] = Asked(serving, "cluster")
        return evaluate_tasks(tasks, serving, asked, progress=progress)
    asked |= {"own": Asked(serving, "own"), "shared": Asked(serving, "shared")}
    if serving.clusters:
        asked["cluster"] = Asked(serving, "cluster")
    elif labels is not None and clusters_to_train({name: labels[name] for name in tasks.shareable().names}):
        ask("cluster", lambda: fit("", labels, "always").predictor_, "cluster")
    return evaluate_tasks(tasks, serving, asked, progress=progress)

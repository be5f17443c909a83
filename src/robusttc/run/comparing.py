"""Models that do not serve, trained to be compared with on test rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Literal

from robusttc.data import TaskSet
from robusttc.errors import DoubtWarning, WorkError
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask, clusters_to_train
from robusttc.progress import Progress, report
from robusttc.run.evaluation import Evaluation, Hits, judge

__all__ = ["Make", "compare_models"]

Make = Callable[[Literal["auto", "always", "never"] | None], ClusterMultiTask]
STAGE = "evaluate"


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
    """Return what the test rows say of a trained model, beside single-task, shared and cluster models.

    All figures are of models that have not seen the test rows, before any refit. A blend has single-task and
    shared models; cluster models that do not serve are trained here, under the names of the stage
    ``multitask``: its folds come from the store. The paper's models have no components: tasks alone, and all
    tasks as one cluster, are trained in the same way.

    Parameters
    ----------
    tasks, labels
        What the model was trained on.
    estimator
        The model.
    make
        Makes the estimator of the run, with another policy for cluster models; None keeps it.
    runner, name
        Runs the jobs, and the name under which the stage ``multitask`` ran them.
    progress
        Called with the progress of training.
    """
    shared = runner.with_prefix(name, cost_stage=STAGE)
    right: dict[str, dict[str, Hits]] = {
        task: dict(held.right) for task, held in estimator.evaluation_.items()
    }

    def compare_with(
        kind: str, of: str, key: str, clusters: Mapping[str, int] | None, policy: Literal["always"] | None
    ) -> None:
        """Train other models, and take what their component `of` predicts right as that of a `kind`."""
        # Under another name, unless it is the very computation of the stage multitask.
        own = runner.with_prefix(f"{name}/{key}", stage=STAGE) if key else shared
        try:
            other = make(policy).fit(tasks, clusters, progress=progress, runner=own)
        except WorkError as error:
            # Figures that are missing are no reason to have no models.
            warnings.warn(f"{kind} models cannot be compared with: {error}", DoubtWarning, stacklevel=2)
            return
        for task, held in other.evaluation_.items():
            if of in held.right:
                right[task][kind] = held.right[of]

    if estimator.strategy == "paper":
        for hits in right.values():
            hits.pop("own", None)
        compare_with("own", "own", "alone", dict.fromkeys(tasks.names, -1), None)
        compare_with("shared", "cluster", "together", None, None)
    elif (
        not estimator.predictor_.clusters
        and labels is not None
        and clusters_to_train({task: labels[task] for task in tasks.shareable().names})
    ):
        compare_with("cluster", "cluster", "", labels, "always")
    report(progress, STAGE, len(right), len(right), "tasks")
    found = estimator.predictor_.tasks
    return Evaluation.of(
        [judge(task, found[task].cluster, len(hits["served"]), hits) for task, hits in right.items()]
    )

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
from robusttc.run.evaluation import Codes, Evaluation, judge, paired_gain

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
    predicted: dict[str, dict[str, Codes]] = {
        task: dict(held.predicted) for task, held in estimator.evaluation_.items()
    }

    def compare_with(
        kind: str, of: str, key: str, clusters: Mapping[str, int] | None, policy: Literal["always"] | None
    ) -> None:
        """Train other models, and take what their component `of` predicts as that of a `kind`."""
        # Under another name, unless it is the very computation of the stage multitask.
        own = runner.with_prefix(f"{name}/{key}", stage=STAGE) if key else shared
        try:
            other = make(policy).fit(tasks, clusters, progress=progress, runner=own)
        except WorkError as error:
            # Figures that are missing are no reason to have no models.
            warnings.warn(f"{kind} models cannot be compared with: {error}", DoubtWarning, stacklevel=2)
            return
        for task, held in other.evaluation_.items():
            if of in held.predicted:
                predicted[task][kind] = held.predicted[of]

    if estimator.strategy == "paper":
        for codes in predicted.values():
            codes.pop("own", None)
        compare_with("own", "own", "alone", dict.fromkeys(tasks.names, -1), None)
        compare_with("shared", "cluster", "together", None, None)
    elif (
        not estimator.predictor_.clusters
        and labels is not None
        and clusters_to_train({task: labels[task] for task in tasks.shareable().names})
    ):
        compare_with("cluster", "cluster", "", labels, "always")
    report(progress, STAGE, len(predicted), len(predicted), "tasks")
    figures = []
    for task, codes in predicted.items():
        cluster, test = estimator.predictor_.tasks[task].cluster, estimator.evaluation_[task]
        held_out = estimator.held_out_.get(task)
        gain = None if held_out is None else paired_gain(held_out.right)
        figures.append(judge(tasks[task], cluster, test.rows, codes, test.seen, gain))
    return Evaluation.of(figures)

"""Which tasks are worse off with others than alone, by rows that no model was trained on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import UsageError
from robusttc.jobs import Runner
from robusttc.multitask.culprits import Culprit, Found, estimate_culprits
from robusttc.multitask.persistence import Fitted
from robusttc.multitask.retraining import retrain_culprits
from robusttc.multitask.training_data import TrainingData
from robusttc.progress import Progress
from robusttc.stats import Estimate, mean_interval, share_interval

__all__ = ["HarmReport", "TaskHarm", "report_harm"]

# A loss that is no smaller than this, in accuracy, is worth a look even where chance may have made it.
DOUBTFUL_LOSS = 0.01
# So many tasks, the worst ones, are asked for culprits.
MAX_ASKED = 10


@dataclass(frozen=True, slots=True)
class TaskHarm:
    """What sharing does to one task, on its out-of-fold rows.

    Attributes
    ----------
    name, cluster
        The task, and its cluster.
    n_rows
        How many rows were held out.
    own, shared, in_cluster, served
        The share of them that the task's own model, the model of all tasks, that of its cluster, and what
        serves, predict right, with Wilson's interval; None for what was not trained.
    gain
        The mean over rows of what serves less the own model, with the interval of the paired difference.
    is_hurt
        Whether that interval is below zero. Of 40 tasks that nothing hurts, one is expected to look hurt.
    is_doubtful
        Whether the task seems to lose at least one point, but chance may have done it.
    culprits
        The mates that are to blame, the worst first; see `HarmReport.method`.
    """

    name: str
    cluster: int
    n_rows: int
    own: Estimate
    shared: Estimate | None
    in_cluster: Estimate | None
    served: Estimate
    gain: Estimate
    is_hurt: bool
    is_doubtful: bool
    culprits: tuple[Culprit, ...] = ()


@dataclass(frozen=True, slots=True)
class HarmReport:
    """What sharing does to every task that shares.

    Attributes
    ----------
    tasks
        One entry a task with held-out rows, in the order of names.
    method
        How culprits were found: ``retrain`` (the model without the mate, on the same held-out rows),
        ``estimate`` (gradients), ``none``.
    sentence
        All this in one sentence.
    """

    tasks: tuple[TaskHarm, ...]
    method: str
    sentence: str

    @property
    def hurt(self) -> tuple[str, ...]:
        """The tasks that sharing hurts, the worst first."""
        return tuple(task.name for task in by_gain(self.tasks) if task.is_hurt)

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The tasks that sharing may hurt, the worst first."""
        return tuple(task.name for task in by_gain(self.tasks) if task.is_doubtful)

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        entries = []
        for task in self.tasks:
            values = asdict(task)
            for name in ("own", "shared", "in_cluster", "served", "gain"):
                estimate = getattr(task, name)
                values[name] = None if estimate is None else estimate.to_dict()
            entries.append(values)
        return {
            "tasks": entries,
            "method": self.method,
            "hurt": list(self.hurt),
            "doubtful": list(self.doubtful),
            "sentence": self.sentence,
        }


def by_gain(tasks: tuple[TaskHarm, ...]) -> list[TaskHarm]:
    """Sort tasks, the greatest loss first."""
    return sorted(tasks, key=lambda task: (task.gain.mean, task.name))


def report_harm(
    fitted: Fitted,
    data: TrainingData | None,
    *,
    culprits: str,
    n_folds: int,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> HarmReport:
    """Compare what serves with each task's own model, and look for culprits where it loses.

    Raises
    ------
    UsageError
        If nothing was held out, or culprits are asked for without training data.
    """
    if not fitted.right:
        raise UsageError(
            "there are no out-of-fold predictions to tell harm by",
            got=f"strategy {fitted.strategy!r}, {len(fitted.serving.tasks):,} tasks",
            expected="strategy 'blend', and at least two tasks that may share",
        )
    if culprits != "none" and data is None:
        raise UsageError(
            "culprits cannot be found without the training data",
            got="a model that was loaded from a folder",
            todo="ask with culprits='none', or fit again",
        )
    tasks = tuple(judge(fitted, name, fitted.right[name]) for name in sorted(fitted.right))
    if culprits != "none" and data is not None:
        asked = [task for task in by_gain(tasks) if task.is_hurt] or [
            task for task in by_gain(tasks) if task.is_doubtful
        ]
        names = [task.name for task in asked[:MAX_ASKED]]
        found: Found = {}
        if names and culprits == "retrain":
            found = retrain_culprits(fitted, data, names, n_folds=n_folds, runner=runner, progress=progress)
        elif names:
            found = estimate_culprits(fitted, data, names, n_folds=n_folds, progress=progress)
        tasks = tuple(with_culprits(task, found.get(task.name, ())) for task in tasks)
    return HarmReport(tasks, culprits, word_harm(tasks))


def judge(fitted: Fitted, name: str, right: dict[str, NDArray[np.bool_]]) -> TaskHarm:
    """Compare the models of one task."""
    estimates = {kind: share_interval(int(hits.sum()), len(hits)) for kind, hits in right.items()}
    gain = mean_interval(right["served"].astype(np.float64) - right["own"].astype(np.float64))
    return TaskHarm(
        name,
        fitted.serving.tasks[name].cluster,
        len(right["own"]),
        estimates["own"],
        estimates.get("shared"),
        estimates.get("cluster"),
        estimates["served"],
        gain,
        gain.below_zero,
        not gain.below_zero and gain.mean <= -DOUBTFUL_LOSS,
    )


def with_culprits(task: TaskHarm, culprits: tuple[Culprit, ...]) -> TaskHarm:
    """Give the entry with culprits."""
    values = {name: getattr(task, name) for name in TaskHarm.__slots__}
    return TaskHarm(**{**values, "culprits": culprits})


def word_harm(tasks: tuple[TaskHarm, ...]) -> str:
    """Put the report into one sentence."""
    n_hurt = sum(task.is_hurt for task in tasks)
    n_doubtful = sum(task.is_doubtful for task in tasks)
    n_better = sum(task.gain.above_zero for task in tasks)
    return (
        f"Of {len(tasks):,} tasks sharing helps {n_better:,} and hurts {n_hurt:,} for sure (95 % intervals); "
        f"{n_doubtful:,} more seem to lose at least a point, which may be chance."
    )

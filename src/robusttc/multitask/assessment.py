"""Whether clusters pay in multi-task learning, without training what would serve."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.errors import DataError
from robusttc.jobs import Runner
from robusttc.models import TrainingJobs, Verdict, check_clusters
from robusttc.multitask.choosing import choose
from robusttc.multitask.counting import count_models
from robusttc.multitask.out_of_fold import OutOfFold
from robusttc.multitask.settings import MultiTaskSettings, default_settings
from robusttc.multitask.task_rows import check_learnable
from robusttc.multitask.training_data import prepare_tasks
from robusttc.multitask.units import STAGE
from robusttc.progress import Progress

__all__ = ["assess_multitask"]


def assess_multitask(
    tasks: TaskSet,
    labels: ArrayLike | Mapping[str, int],
    *,
    encoder: Encoder,
    settings: MultiTaskSettings | None = None,
    n_folds: int = 3,
    n_random: int = 2,
    seed: int = 0,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Compare blends with and without cluster models on out-of-fold rows; see `robusttc.multitask.choosing`.

    It is what `ClusterMultiTask.fit` does before it trains what serves.

    Raises
    ------
    UsageError
        If the labels cannot be used.
    DataError
        If a task cannot be learned, or fewer than two may share.

    Examples
    --------
    >>> import numpy as np
    >>> from robusttc.data import Task
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["text"] * 8, ["x", "y"] * 4) for name in "abc")
    >>> encoder = FeatureEncoder(dict.fromkeys("abc", np.tile(np.eye(2), (4, 1))))
    >>> settings = MultiTaskSettings(width=4, min_steps=5)
    >>> assess_multitask(tasks, [0, 0, 1], encoder=encoder, settings=settings).clusters_help
    False
    """
    check_learnable(tasks)
    by_name = dict(zip(tasks.names, check_clusters(tasks, labels).tolist(), strict=True))
    data = prepare_tasks(tasks, encoder, by_name, progress=progress)
    if data.prepared is None or len(data.tasks) < 2:
        raise DataError(
            "there is nothing to compare",
            got=f"{len(data.tasks):,} tasks that may share",
            expected="at least two",
        )
    total = count_models(data.labels, strategy="blend", clusters="auto", n_folds=n_folds, n_random=n_random)
    with TrainingJobs(STAGE, runner, progress=progress, total=total) as bench:
        rows = OutOfFold(
            data.tasks,
            data.prepared,
            n_folds=n_folds,
            settings=settings or default_settings(data.prepared.inputs),
            seed=seed,
            familiar=data.familiar,
            bench=bench,
        )
        verdict = choose(rows, data.labels, clusters="auto", n_random=n_random, seed=seed).verdict
        bench.finish()
    return verdict

"""Whether clusters pay, before any model is trained for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import DEFAULT_ENCODER, Encoder, make_encoder
from robusttc.fewshot import assess_fewshot
from robusttc.models import Setting, Verdict
from robusttc.multitask import assess_multitask
from robusttc.params import Choice, check_param
from robusttc.progress import ProgressOption, resolve_progress
from robusttc.random import RandomState, run_seed

__all__ = ["assess_clusters"]


def assess_clusters(
    tasks: TaskSet,
    labels: ArrayLike | Mapping[str, int],
    *,
    setting: Setting = "multitask",
    encoder: str | Encoder = DEFAULT_ENCODER,
    n_random: int = 1,
    random_state: RandomState = 0,
    progress: ProgressOption = True,
) -> Verdict:
    """Return whether clusters help, over one shared model and over random clusters of the same sizes.

    `ClusterMultiTask` and `ClusterFewShot` compute the same when they are fitted (`verdict_`); here it takes
    their default settings, and no models are trained that serve.

    Parameters
    ----------
    tasks
        The tasks. Those with ``may_share=False`` have no part in it.
    labels
        The cluster of every task, in order or by name; -1 for none.
    setting
        ``multitask``: predictions for training rows by models that have not seen them (three folds), blends
        with cluster models against blends without. ``fewshot``: some tasks are held out as few-shot
        targets, the mixture with clusters' metrics against the one shared metric.
    encoder
        See `robusttc.encoders.make_encoder`.
    n_random
        How many draws of random clusters are compared with; 0 for none.
    random_state
        The seed.
    progress
        True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

    Raises
    ------
    UsageError
        If a parameter or the labels cannot be used.
    DataError
        If the tasks cannot be learned.

    Examples
    --------
    >>> import numpy as np
    >>> from robusttc.data import Task
    >>> from robusttc.encoders import FeatureEncoder
    >>> names = [f"task-{number}" for number in range(4)]
    >>> tasks = TaskSet(Task(name, ["text"] * 24, ["x"] * 12 + ["y"] * 12) for name in names)
    >>> rows = {name: np.repeat(np.eye(4), 6, axis=0) for name in names}
    >>> assess_clusters(tasks, [0, 0, 1, 1], encoder=FeatureEncoder(rows)).clusters_help
    False
    """
    progress = resolve_progress(progress)
    check_param("setting", setting, Choice(*get_args(Setting)))
    seed = run_seed(random_state)
    with threadpool_limits(1):
        ready = make_encoder(encoder)
        assess = assess_multitask if setting == "multitask" else assess_fewshot
        return assess(tasks, labels, encoder=ready, n_random=n_random, seed=seed, progress=progress)

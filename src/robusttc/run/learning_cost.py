"""How long learning will take, roughly: by the number of rows and of models.

Measuring transfer can be estimated by trying a little of it. The time of learning depends on clusters that
nobody knows yet, so this is a rule of thumb: processor seconds for one row in one model, and for one metric,
times what there is to do. Those of `sentence` were seen on `bots175` on one core; `both` takes 1.8 times as
long; those of `cnn` lie between what was seen there and on small planted tasks. It tells minutes from hours.
"""

from __future__ import annotations

import math

from robusttc.data import TaskSet
from robusttc.run.settings import FitSettings

__all__ = ["estimate_learning"]

# One row in one joint model, all epochs, and the classifiers that are fitted on it.
SECONDS_A_ROW = {"sentence": 4e-4, "both": 7e-4, "cnn": 1.6e-3}
SECONDS_A_METRIC = {"sentence": 1.5, "both": 2.7, "cnn": 3.0}
SECONDS_A_SCENE = 0.15
# Fine-tuning a sentence model, and encoding a short text with the result.
SECONDS_TUNING, SECONDS_A_TEXT = 180.0, 4e-3
# So many held-out tasks are enough to judge few-shot learning on.
MOST_HELD_OUT = 60
TASKS_A_CLUSTER = 25
# Models that are trained only to be compared with, and reading what is there.
EVALUATION = 2.0


def estimate_learning(tasks: TaskSet, configuration: FitSettings, *, n_workers: int = 1) -> float:
    """Give the seconds that multi-task and few-shot learning will take, to a factor of two or three.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet(Task(name, ["hi", "bye"] * 50, ["x", "y"] * 50) for name in "abcdef")
    >>> quick = estimate_learning(tasks, FitSettings(), n_workers=2)
    >>> estimate_learning(tasks, FitSettings()) == 2 * quick
    True
    """
    shareable = tasks.shareable()
    n_rows = sum(len(task.rows("train")) for task in shareable)
    encoder = configuration.encoder if configuration.encoder in SECONDS_A_ROW else "sentence"
    wanted = configuration.clusters
    n_clusters = max(2, math.ceil(len(shareable) / TASKS_A_CLUSTER)) if wanted == "auto" else wanted
    passes = EVALUATION
    if configuration.strategy == "blend":
        # In each fold: the shared model, the clusters, and random clusters.
        passes += (configuration.n_folds - 1) * (2 + configuration.n_random)
    n_rounds = 1 if len(shareable) > MOST_HELD_OUT else 3
    n_metrics = (n_rounds + 1) * (1 + n_clusters) + n_rounds * n_clusters
    n_scenes = 2 * min(len(shareable), MOST_HELD_OUT)
    seconds = SECONDS_A_ROW[encoder] * n_rows * passes
    seconds += SECONDS_A_METRIC[encoder] * n_metrics + SECONDS_A_SCENE * n_scenes
    tuning = 0.0
    if configuration.tune == "encoder":
        tuning = SECONDS_TUNING + SECONDS_A_TEXT * sum(len(set(task.texts)) for task in shareable)
    return seconds / n_workers + tuning

"""Robust task clustering for hundreds or thousands of small text-classification tasks.

>>> import robusttc as rtc
>>> planted = rtc.make_planted_tasks(n_tasks=12, random_state=0)
>>> planted.tasks.names[0]
'task-0000'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach
from robusttc.version import __version__

if TYPE_CHECKING:
    from robusttc.assessment import assess_clusters
    from robusttc.clustering import RobustTaskClustering, complete_similarity, make_planted_scores
    from robusttc.data import Task, TaskSet, inspect_tasks, load_tasks, make_planted_tasks, write_tasks
    from robusttc.encoders import (
        CnnEncoder,
        Encoder,
        FeatureEncoder,
        MultilingualEncoder,
        PairedEncoder,
        RemoteEncoder,
        SentenceEncoder,
        StaticEncoder,
    )
    from robusttc.errors import (
        DataError,
        DataWarning,
        DoubtWarning,
        RobustTCError,
        RobustTCWarning,
        StoreError,
        UsageError,
    )
    from robusttc.fewshot import ClusterFewShot
    from robusttc.multitask import ClusterMultiTask
    from robusttc.run import Run, open_run
    from robusttc.run.fit import fit
    from robusttc.serve import Client
    from robusttc.transfer import TransferScores, measure_transfer, read_scores

__all__ = [
    "Client",
    "ClusterFewShot",
    "ClusterMultiTask",
    "CnnEncoder",
    "DataError",
    "DataWarning",
    "DoubtWarning",
    "Encoder",
    "FeatureEncoder",
    "MultilingualEncoder",
    "PairedEncoder",
    "RemoteEncoder",
    "RobustTCError",
    "RobustTCWarning",
    "RobustTaskClustering",
    "Run",
    "SentenceEncoder",
    "StaticEncoder",
    "StoreError",
    "Task",
    "TaskSet",
    "TransferScores",
    "UsageError",
    "__version__",
    "assess_clusters",
    "complete_similarity",
    "fit",
    "inspect_tasks",
    "load_tasks",
    "make_planted_scores",
    "make_planted_tasks",
    "measure_transfer",
    "open_run",
    "read_scores",
    "write_tasks",
]

__getattr__ = attach(
    __name__,
    {
        "assessment": ("assess_clusters",),
        "clustering": ("RobustTaskClustering", "complete_similarity", "make_planted_scores"),
        "data": ("Task", "TaskSet", "inspect_tasks", "load_tasks", "make_planted_tasks", "write_tasks"),
        "encoders": (
            "CnnEncoder",
            "Encoder",
            "FeatureEncoder",
            "MultilingualEncoder",
            "PairedEncoder",
            "RemoteEncoder",
            "SentenceEncoder",
            "StaticEncoder",
        ),
        "errors": (
            "DataError",
            "DataWarning",
            "DoubtWarning",
            "RobustTCError",
            "RobustTCWarning",
            "StoreError",
            "UsageError",
        ),
        "fewshot": ("ClusterFewShot",),
        "multitask": ("ClusterMultiTask",),
        "run": ("Run", "open_run"),
        "run.fit": ("fit",),
        "serve": ("Client",),
        "transfer": ("TransferScores", "measure_transfer", "read_scores"),
    },
)


def __dir__() -> list[str]:
    return __all__

"""Robust task clustering for hundreds or thousands of small text-classification tasks.

>>> import robusttc as rtc
>>> planted = rtc.make_planted_tasks(n_tasks=12, random_state=0)
>>> planted.tasks.names[0]
'task-0000'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from robusttc.version import __version__

if TYPE_CHECKING:
    from robusttc.assessing import assess_clusters
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
    from robusttc.fewshot.estimator import ClusterFewShot
    from robusttc.multitask import ClusterMultiTask
    from robusttc.transfer import TransferScores, measure_transfer, read_scores

__all__ = [
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
    "inspect_tasks",
    "load_tasks",
    "make_planted_scores",
    "make_planted_tasks",
    "measure_transfer",
    "read_scores",
    "write_tasks",
]

# Each public name is imported when it is first used, so that `import robusttc` costs next to nothing.
_HOME_OF_NAME = {
    "ClusterFewShot": "robusttc.fewshot.estimator",
    "ClusterMultiTask": "robusttc.multitask",
    "CnnEncoder": "robusttc.encoders",
    "DataError": "robusttc.errors",
    "DataWarning": "robusttc.errors",
    "DoubtWarning": "robusttc.errors",
    "Encoder": "robusttc.encoders",
    "FeatureEncoder": "robusttc.encoders",
    "MultilingualEncoder": "robusttc.encoders",
    "PairedEncoder": "robusttc.encoders",
    "RemoteEncoder": "robusttc.encoders",
    "RobustTCError": "robusttc.errors",
    "RobustTCWarning": "robusttc.errors",
    "RobustTaskClustering": "robusttc.clustering",
    "SentenceEncoder": "robusttc.encoders",
    "StaticEncoder": "robusttc.encoders",
    "StoreError": "robusttc.errors",
    "Task": "robusttc.data",
    "TaskSet": "robusttc.data",
    "TransferScores": "robusttc.transfer",
    "UsageError": "robusttc.errors",
    "assess_clusters": "robusttc.assessing",
    "complete_similarity": "robusttc.clustering",
    "inspect_tasks": "robusttc.data",
    "load_tasks": "robusttc.data",
    "make_planted_scores": "robusttc.clustering",
    "make_planted_tasks": "robusttc.data",
    "measure_transfer": "robusttc.transfer",
    "read_scores": "robusttc.transfer",
    "write_tasks": "robusttc.data",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF_NAME:
        raise AttributeError(f"module 'robusttc' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

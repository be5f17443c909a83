"""What the clusters have to beat: every baseline of the paper, and what is usual today."""

from robusttc.baselines.asap import AsapBaseline
from robusttc.baselines.base import TaskModel
from robusttc.baselines.few_shot import MatchingNetworkBaseline, TaskMixtureBaseline
from robusttc.baselines.holistic import FineTunedHolisticBaseline, HolisticBaseline
from robusttc.baselines.single_task import (
    FastTextBaseline,
    LogisticRegressionBaseline,
    NearestNeighbourBaseline,
    PrototypeBaseline,
    SingleTaskBaseline,
)

__all__ = [
    "AsapBaseline",
    "FastTextBaseline",
    "FineTunedHolisticBaseline",
    "HolisticBaseline",
    "LogisticRegressionBaseline",
    "MatchingNetworkBaseline",
    "NearestNeighbourBaseline",
    "PrototypeBaseline",
    "SingleTaskBaseline",
    "TaskMixtureBaseline",
    "TaskModel",
]

"""Clusters of tasks from transfer scores: completion, certificate, clusters and verdict."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robusttc.clustering.completion import complete_scores
    from robusttc.clustering.estimator import Certificate, RobustTaskClustering, TransferPrediction
    from robusttc.clustering.filtering import filter_scores
    from robusttc.clustering.n_clusters import fit_two_groups, pair_values
    from robusttc.clustering.planted import make_planted_scores
    from robusttc.clustering.similarity import CompletionResult, complete_similarity
    from robusttc.clustering.spectral import cluster_points, cut
    from robusttc.clustering.stop_rule import StopRule
    from robusttc.clustering.strategies import MIN_PAIRS, PairEvidence
    from robusttc.clustering.verdict import Verdict

# Imported when first used: SciPy and scikit-learn take a second.
_HOME_OF_NAME = {
    "MIN_PAIRS": "strategies",
    "Certificate": "estimator",
    "CompletionResult": "similarity",
    "PairEvidence": "strategies",
    "RobustTaskClustering": "estimator",
    "StopRule": "stop_rule",
    "TransferPrediction": "estimator",
    "Verdict": "verdict",
    "cluster_points": "spectral",
    "complete_scores": "completion",
    "complete_similarity": "similarity",
    "cut": "spectral",
    "filter_scores": "filtering",
    "fit_two_groups": "n_clusters",
    "make_planted_scores": "planted",
    "pair_values": "n_clusters",
}

__all__ = [
    "MIN_PAIRS",
    "Certificate",
    "CompletionResult",
    "PairEvidence",
    "RobustTaskClustering",
    "StopRule",
    "TransferPrediction",
    "Verdict",
    "cluster_points",
    "complete_scores",
    "complete_similarity",
    "cut",
    "filter_scores",
    "fit_two_groups",
    "make_planted_scores",
    "pair_values",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF_NAME[name]}"), name)

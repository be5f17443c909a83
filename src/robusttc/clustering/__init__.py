"""Clusters of tasks from transfer scores: completion, certificate, clusters and verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach

if TYPE_CHECKING:
    from robusttc.clustering.completion import complete_scores
    from robusttc.clustering.estimator import (
        MIN_PAIRS,
        Certificate,
        RobustTaskClustering,
        TransferPrediction,
    )
    from robusttc.clustering.n_clusters import PairEvidence, fit_two_groups, pair_values
    from robusttc.clustering.paper import filter_scores
    from robusttc.clustering.planted import make_planted_scores
    from robusttc.clustering.similarity import CompletionResult, complete_similarity
    from robusttc.clustering.spectral import cluster_points, cut
    from robusttc.clustering.stop_rule import StopRule
    from robusttc.clustering.verdict import Verdict

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

# SciPy and scikit-learn take a second to import.
__getattr__ = attach(
    __name__,
    {
        "completion": ("complete_scores",),
        "estimator": ("MIN_PAIRS", "Certificate", "RobustTaskClustering", "TransferPrediction"),
        "n_clusters": ("PairEvidence", "fit_two_groups", "pair_values"),
        "paper": ("filter_scores",),
        "planted": ("make_planted_scores",),
        "similarity": ("CompletionResult", "complete_similarity"),
        "spectral": ("cluster_points", "cut"),
        "stop_rule": ("StopRule",),
        "verdict": ("Verdict",),
    },
)

"""Clusters of tasks from transfer scores: completion, certificate, clusters and verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach

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
        "estimator": ("Certificate", "RobustTaskClustering", "TransferPrediction"),
        "filtering": ("filter_scores",),
        "n_clusters": ("fit_two_groups", "pair_values"),
        "planted": ("make_planted_scores",),
        "similarity": ("CompletionResult", "complete_similarity"),
        "spectral": ("cluster_points", "cut"),
        "stop_rule": ("StopRule",),
        "strategies": ("MIN_PAIRS", "PairEvidence"),
        "verdict": ("Verdict",),
    },
)

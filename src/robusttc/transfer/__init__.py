"""Transfer between tasks: which pairs to measure, measuring them, and the scores with their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach

if TYPE_CHECKING:
    from robusttc.transfer.cost import CostEstimate, estimate_cost, process_memory
    from robusttc.transfer.measure import (
        STAGE,
        StopMeasuring,
        measure_transfer,
        normalise_text,
        round_sizes,
        text_overlap,
    )
    from robusttc.transfer.pair_scores import TransferSettings, seen_labels
    from robusttc.transfer.pairs import PairChoice, PairList, choose_pairs, count_entries, parse_pairs
    from robusttc.transfer.score_columns import ScoreReliability, row_means, standardise_columns
    from robusttc.transfer.score_files import read_scores
    from robusttc.transfer.scores import KINDS, TransferScores

__all__ = [
    "KINDS",
    "STAGE",
    "CostEstimate",
    "PairChoice",
    "PairList",
    "ScoreReliability",
    "StopMeasuring",
    "TransferScores",
    "TransferSettings",
    "choose_pairs",
    "count_entries",
    "estimate_cost",
    "measure_transfer",
    "normalise_text",
    "parse_pairs",
    "process_memory",
    "read_scores",
    "round_sizes",
    "row_means",
    "seen_labels",
    "standardise_columns",
    "text_overlap",
]

# Measuring needs numba and SciPy, scores need neither.
__getattr__ = attach(
    __name__,
    {
        "cost": ("CostEstimate", "estimate_cost", "process_memory"),
        "measure": (
            "STAGE",
            "StopMeasuring",
            "measure_transfer",
            "normalise_text",
            "round_sizes",
            "text_overlap",
        ),
        "pair_scores": ("TransferSettings", "seen_labels"),
        "pairs": ("PairChoice", "PairList", "choose_pairs", "count_entries", "parse_pairs"),
        "score_columns": ("ScoreReliability", "row_means", "standardise_columns"),
        "score_files": ("read_scores",),
        "scores": ("KINDS", "TransferScores"),
    },
)

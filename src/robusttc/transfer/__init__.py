"""Transfer between tasks: which pairs to measure, measuring them, and the scores with their files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robusttc.transfer.cost import CostEstimate, estimate_cost, process_memory
    from robusttc.transfer.measure import STAGE, StopMeasuring, measure_transfer, round_sizes
    from robusttc.transfer.overlap import normalise_text, text_overlap
    from robusttc.transfer.pair_scores import SourceScores, score_rows_of
    from robusttc.transfer.pairs import PairChoice, PairList, choose_pairs, count_entries, parse_pairs
    from robusttc.transfer.plan import MEASURES, TransferSettings, seen_labels
    from robusttc.transfer.reliability import (
        ColumnStatistics,
        ScoreReliability,
        row_means,
        standardise_columns,
    )
    from robusttc.transfer.score_files import read_scores, write_scores
    from robusttc.transfer.scores import DUPLICATES, KINDS, ScorePairs, TransferScores

# Imported when first used: measuring needs numba and SciPy, scores need neither.
_HOME_OF_NAME = {
    "DUPLICATES": "scores",
    "KINDS": "scores",
    "MEASURES": "plan",
    "STAGE": "measure",
    "ColumnStatistics": "reliability",
    "CostEstimate": "cost",
    "PairChoice": "pairs",
    "PairList": "pairs",
    "ScorePairs": "scores",
    "ScoreReliability": "reliability",
    "SourceScores": "pair_scores",
    "StopMeasuring": "measure",
    "TransferScores": "scores",
    "TransferSettings": "plan",
    "choose_pairs": "pairs",
    "count_entries": "pairs",
    "estimate_cost": "cost",
    "measure_transfer": "measure",
    "normalise_text": "overlap",
    "parse_pairs": "pairs",
    "process_memory": "cost",
    "read_scores": "score_files",
    "round_sizes": "measure",
    "row_means": "reliability",
    "score_rows_of": "pair_scores",
    "seen_labels": "plan",
    "standardise_columns": "reliability",
    "text_overlap": "overlap",
    "write_scores": "score_files",
}

__all__ = [
    "DUPLICATES",
    "KINDS",
    "MEASURES",
    "STAGE",
    "ColumnStatistics",
    "CostEstimate",
    "PairChoice",
    "PairList",
    "ScorePairs",
    "ScoreReliability",
    "SourceScores",
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
    "score_rows_of",
    "seen_labels",
    "standardise_columns",
    "text_overlap",
    "write_scores",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF_NAME[name]}"), name)

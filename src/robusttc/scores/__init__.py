"""Transfer scores: what the measuring of transfer writes and clustering reads."""

from __future__ import annotations

from robusttc.scores.checks import DUPLICATES, KINDS, check_choice
from robusttc.scores.csv_files import read_scores, write_scores
from robusttc.scores.statistics import ColumnStatistics, ScoreReliability, row_means, standardise_columns
from robusttc.scores.transfer_scores import ScorePairs, TransferScores

__all__ = [
    "DUPLICATES",
    "KINDS",
    "ColumnStatistics",
    "ScorePairs",
    "ScoreReliability",
    "TransferScores",
    "check_choice",
    "read_scores",
    "row_means",
    "standardise_columns",
    "write_scores",
]

"""Why a task of a run is where it is, what sharing gave it, and what would help it."""

from robusttc.run.explain.explain import Explanation, explain_task
from robusttc.run.explain.labels import CrossTable, LabelConflict, LabelMatch, find_conflicts, find_matches
from robusttc.run.explain.place import measured_pairs, nearest_first
from robusttc.run.explain.sharing import harmful_sources

__all__ = [
    "CrossTable",
    "Explanation",
    "LabelConflict",
    "LabelMatch",
    "explain_task",
    "find_conflicts",
    "find_matches",
    "harmful_sources",
    "measured_pairs",
    "nearest_first",
]

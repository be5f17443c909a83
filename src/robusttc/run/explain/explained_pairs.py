"""The measured pairs of one task: scores both ways with intervals, the verdict of Eq. 1, X and E."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from robusttc.clustering.filtering import Reason, Verdict, filter_scores
from robusttc.run.similarity import Similarity
from robusttc.scores import TransferScores, standardise_columns

__all__ = ["Direction", "MeasuredPair", "find_pairs", "similarity_to_others"]

Side = Literal["for", "against", "nothing"]
SIDES: tuple[Side, ...] = ("for", "against", "nothing")


@dataclass(frozen=True, slots=True)
class Direction:
    """One measured score.

    Attributes
    ----------
    score
        The score.
    low, high
        Its 95 % interval; None where neither an error nor a number of examples is known.
    above_average
        How far it is above the mean score of its target over all measured sources, in standard deviations.
    n_examples
        How many texts it was measured on; None where that is not known.
    """

    score: float
    low: float | None
    high: float | None
    above_average: float
    n_examples: int | None


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """A pair of the explained task.

    Attributes
    ----------
    other, cluster
        The other task, and its cluster; -1 for none.
    to_task, from_task
        How well the encoder of the other task serves this one, and the other way round; None where that was
        not measured.
    verdict, reason
        What the filter (Eq. 1) says: ``same``, ``different`` or ``uncertain``, and why.
    speaks
        Whether that is ``for`` the task's cluster (same and together, different and apart), ``against`` it,
        or says ``nothing``.
    similarity
        The completed similarity X; None where it is not known.
    error
        The part of the verdict that completion takes for an error (E); None where it is not known.
    """

    other: str
    cluster: int
    to_task: Direction | None
    from_task: Direction | None
    verdict: str
    reason: str
    speaks: Side
    similarity: float | None
    error: float | None

    @property
    def above_average(self) -> float | None:
        """The mean of the directions that were measured."""
        values = [one.above_average for one in (self.to_task, self.from_task) if one is not None]
        return float(np.mean(values)) if values else None

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return asdict(self)


def find_pairs(
    name: str,
    scores: TransferScores | None,
    partition: Mapping[str, int],
    *,
    similarity: Similarity | None = None,
    rule: str = "both",
    remove_donor_effect: bool = False,
) -> tuple[MeasuredPair, ...]:
    """Give the measured pairs of a task: those for its cluster, those against, the others; best scores first.

    Parameters
    ----------
    name
        The task.
    scores
        All scores; None where nothing was measured.
    partition
        The cluster of every task, -1 for none.
    similarity
        What completion made of them.
    rule, remove_donor_effect
        The filter of the run; see `robusttc.clustering.filtering.filter_scores`.

    Examples
    --------
    >>> S = [[1.0, 0.9, 0.2, 0.3], [0.8, 1.0, 0.1, 0.2], [0.2, 0.3, 1.0, 0.7], [0.1, 0.2, 0.9, 1.0]]
    >>> scores = TransferScores.from_matrix(S, ["a", "b", "c", "d"])
    >>> [(pair.other, pair.speaks) for pair in find_pairs("a", scores, {"a": 0, "b": 0, "c": 1, "d": 1})]
    [('b', 'for'), ('c', 'for'), ('d', 'nothing')]
    """
    if scores is None or name not in scores.task_names:
        return ()
    place = scores.task_names.index(name)
    filtered = filter_scores(scores, rule=rule, remove_donor_effect=remove_donor_effect)
    directions = read_directions(scores, place)
    is_own = (filtered.first == place) | (filtered.second == place)
    number = partition.get(name, -1)
    to_others = similarity_to_others(name, similarity)
    errors = errors_to_others(name, similarity)
    found = []
    for pair in np.flatnonzero(is_own):
        other = int(filtered.first[pair] + filtered.second[pair] - place)
        other_name = scores.task_names[other]
        verdict = Verdict(filtered.verdict[pair])
        cluster = partition.get(other_name, -1)
        found.append(
            MeasuredPair(
                other_name,
                cluster,
                directions.get((other, place)),
                directions.get((place, other)),
                verdict.name.lower(),
                Reason(filtered.reason[pair]).text,
                find_side(verdict, number, cluster),
                to_others.get(other_name),
                errors.get(other_name),
            )
        )
    return tuple(sorted(found, key=in_order))


def in_order(pair: MeasuredPair) -> tuple[Any, ...]:
    """Sort by side, then tasks that belong together before those that do not, then the clearest first."""
    height = pair.above_average or 0.0
    clear = height if pair.verdict == "different" else -height
    return SIDES.index(pair.speaks), pair.verdict != "same", clear, pair.other


def read_directions(scores: TransferScores, place: int) -> dict[tuple[int, int], Direction]:
    """Give all scores from and to a task, by source and target."""
    entries = np.flatnonzero(scores.off_diagonal)
    columns = standardise_columns(scores.target[entries], scores.score[entries], n_tasks=scores.n_tasks)
    low, high = scores.intervals()
    is_own = (scores.source[entries] == place) | (scores.target[entries] == place)
    found = {}
    for standard, entry in zip(columns.standardised[is_own], entries[is_own], strict=True):
        is_known = bool(np.isfinite(low[entry]))
        found[int(scores.source[entry]), int(scores.target[entry])] = Direction(
            float(scores.score[entry]),
            float(low[entry]) if is_known else None,
            float(high[entry]) if is_known else None,
            float(standard),
            None if scores.n_examples is None else int(scores.n_examples[entry]) or None,
        )
    return found


def find_side(verdict: Verdict, number: int, cluster: int) -> Side:
    """Tell whether a verdict speaks for a task's being where it is."""
    if verdict is Verdict.UNCERTAIN or cluster < 0:
        return "nothing"
    together = number == cluster
    return "for" if together == (verdict is Verdict.SAME) else "against"


def similarity_to_others(name: str, similarity: Similarity | None) -> dict[str, float]:
    """Give the completed similarity of a task to every other one; empty where it is not known."""
    if similarity is None or name not in similarity.task_names:
        return {}
    row = similarity.row(name)
    return {other: float(row[place]) for place, other in enumerate(similarity.task_names) if other != name}


def errors_to_others(name: str, similarity: Similarity | None) -> dict[str, float]:
    """Give the errors of a task's pairs; 0 for every pair that was judged and has none."""
    if similarity is None or name not in similarity.task_names:
        return {}
    place = similarity.task_names.index(name)
    judged = similarity.verdicts[[place]].tocoo()
    found = {similarity.task_names[other]: 0.0 for other in judged.col}
    errors = similarity.errors[[place]].tocoo()
    for other, value in zip(errors.col, errors.data, strict=True):
        if other != place:
            found[similarity.task_names[other]] = float(value)
    return found

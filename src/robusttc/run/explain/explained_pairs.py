"""The measured pairs of one task: scores both ways with intervals, and what they say about its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from robusttc.clustering import fit_two_groups, pair_values
from robusttc.run.outputs import Similarity
from robusttc.transfer import TransferScores, standardise_columns

__all__ = ["Direction", "MeasuredPair", "find_pairs", "similarity_to_others"]

Side = Literal["for", "against", "nothing"]
SIDES: tuple[Side, ...] = ("for", "against", "nothing")
CLEAR = 2 / 3  # a posterior above it, or below one less it, says something of a pair


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
    same_group
        The posterior probability that both belong to one group, by their own scores; None where these cannot
        be standardised.
    verdict
        That in a word: ``same`` above 2/3, ``different`` below 1/3, else ``uncertain``.
    speaks
        Whether that is ``for`` the task's cluster (same and together, different and apart), ``against`` it,
        or says ``nothing``.
    similarity
        The completed similarity, from -1 to 1; None where it is not known.
    outlier
        What the robust loss clipped of the scores, in standard deviations; None where it is not known.
    """

    other: str
    cluster: int
    to_task: Direction | None
    from_task: Direction | None
    same_group: float | None
    verdict: str
    speaks: Side
    similarity: float | None
    outlier: float | None

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

    Examples
    --------
    >>> from robusttc.clustering import make_planted_scores
    >>> names, labels = [f"t{number}" for number in range(12)], [number % 2 for number in range(12)]
    >>> scores = make_planted_scores(names, labels, noise=0.1, random_state=0)
    >>> pairs = find_pairs("t0", scores, dict(zip(names, labels)))
    >>> [pair.other for pair in pairs if pair.verdict == "same"]
    ['t6', 't4', 't8']
    """
    if scores is None or name not in scores.task_names:
        return ()
    place = scores.task_names.index(name)
    directions = read_directions(scores, place)
    number = partition.get(name, -1)
    to_others = similarity_to_others(name, similarity)
    same_group = same_group_of(name, scores, partition, similarity)
    is_completed = similarity is not None and name in similarity.task_names
    outliers = outliers_of(name, similarity)
    found = []
    for other in sorted({end for pair in directions for end in pair if end != place}):
        other_name = scores.task_names[other]
        cluster = partition.get(other_name, -1)
        probability = same_group.get(other_name)
        verdict = judge_pair(probability)
        found.append(
            MeasuredPair(
                other_name,
                cluster,
                directions.get((other, place)),
                directions.get((place, other)),
                probability,
                verdict,
                find_side(verdict, number, cluster),
                to_others.get(other_name),
                outliers.get(other_name, 0.0) if is_completed and probability is not None else None,
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


def judge_pair(probability: float | None) -> str:
    """Say whether a pair is of one group, where its scores are clear enough."""
    if probability is None or 1 - CLEAR <= probability <= CLEAR:
        return "uncertain"
    return "same" if probability > CLEAR else "different"


def find_side(verdict: str, number: int, cluster: int) -> Side:
    """Tell whether a verdict speaks for a task's being where it is."""
    if verdict == "uncertain" or cluster < 0:
        return "nothing"
    together = number == cluster
    return "for" if together == (verdict == "same") else "against"


def similarity_to_others(name: str, similarity: Similarity | None) -> dict[str, float]:
    """Give the completed similarity of a task to every other one; empty where it is not known."""
    if similarity is None or name not in similarity.task_names:
        return {}
    row = similarity.row(name)
    return {other: float(row[place]) for place, other in enumerate(similarity.task_names) if other != name}


def same_group_of(
    name: str, scores: TransferScores, partition: Mapping[str, int], similarity: Similarity | None
) -> dict[str, float]:
    """Give the posterior of *same group* for the measured pairs of a task.

    A task that came after the clustering has none in the matrices: its scores are judged by the distributions
    of pairs within clusters and between them.
    """
    if similarity is not None and name in similarity.task_names:
        row = similarity.same_group[[similarity.task_names.index(name)]].tocoo()
        return {
            similarity.task_names[other]: float(value) for other, value in zip(row.col, row.data, strict=True)
        }
    first, second, value = pair_values(scores)
    labels = np.array([partition.get(one, -1) for one in scores.task_names])
    known = (labels[first] >= 0) & (labels[second] >= 0)
    same = labels[first[known]] == labels[second[known]]
    if not same.any() or same.all():
        return {}
    groups = fit_two_groups(value[known], same)
    place = scores.task_names.index(name)
    own = (first == place) | (second == place)
    others = (first + second - place)[own]
    return {
        scores.task_names[other]: float(probability)
        for other, probability in zip(others, groups.posterior(value[own]), strict=True)
    }


def outliers_of(name: str, similarity: Similarity | None) -> dict[str, float]:
    """Give what the robust loss clipped of a task's pairs."""
    if similarity is None or name not in similarity.task_names:
        return {}
    row = similarity.outliers[[similarity.task_names.index(name)]].tocoo()
    return {
        similarity.task_names[other]: float(value) for other, value in zip(row.col, row.data, strict=True)
    }

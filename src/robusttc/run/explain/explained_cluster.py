"""Why a task is in its cluster: the pairs that were measured, and what they say for and against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robusttc.run.explain.explained_pairs import MeasuredPair
from robusttc.stats import Estimate, mean_interval

__all__ = ["ClusterReasons", "explain_cluster"]

MIN_RIVALS = 3


@dataclass(frozen=True, slots=True)
class ClusterReasons:
    """A task's cluster, and why.

    Attributes
    ----------
    number, size
        The cluster, -1 for none, and how many tasks it has.
    confidence
        The posterior probability of the cluster given the measured pairs, if the clusters are right; None
        where it is not known.
    supported
        Whether held-out pairs support the clusters of the run.
    pairs
        The measured pairs of the task: those that speak for its cluster, those against, and the others.
    n_mates_measured
        With how many of the other tasks of its cluster it was measured.
    n_better
        How many of these help it more than the average task does.
    within, next_best
        The mean over the measured tasks of its cluster, and of the next best one, of how far the score is
        above that of the average task, in standard deviations; both directions of a pair count.
    next_number
        The next best cluster by that mean, among those of which three tasks were measured if there are such;
        None where no other was measured.
    similarity_within, similarity_next
        The mean completed similarity to its cluster, and to the most similar other one.
    sentence
        All this in words.
    """

    number: int
    size: int
    confidence: float | None
    supported: bool
    pairs: tuple[MeasuredPair, ...]
    n_mates_measured: int
    n_better: int
    within: Estimate | None
    next_number: int | None
    next_best: Estimate | None
    similarity_within: float | None
    similarity_next: float | None
    sentence: str

    def count(self, side: str) -> int:
        """Count the pairs that speak ``for`` the cluster, ``against`` it, or say ``nothing``."""
        return sum(pair.speaks == side for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            **asdict(self),
            "pairs": [pair.to_dict() for pair in self.pairs],
            "n_for": self.count("for"),
            "n_against": self.count("against"),
            "within": None if self.within is None else self.within.to_dict(),
            "next_best": None if self.next_best is None else self.next_best.to_dict(),
        }


def explain_cluster(
    name: str,
    partition: Mapping[str, int],
    *,
    confidence: float | None,
    supported: bool,
    pairs: tuple[MeasuredPair, ...],
    similarity: Mapping[str, float],
) -> ClusterReasons:
    """Put the reasons together.

    Parameters
    ----------
    name
        The task.
    partition
        The cluster of every task, -1 for none.
    confidence, supported
        How sure its own is, and whether held-out pairs support the clusters of the run.
    pairs
        Its measured pairs, see `robusttc.run.explain.explained_pairs.find_pairs`.
    similarity
        The completed similarity to every other task.

    Examples
    --------
    >>> reasons = explain_cluster(
    ...     "a", {"a": 0, "b": 0}, confidence=0.9, supported=True, pairs=(), similarity={"b": 1.0}
    ... )
    >>> reasons.sentence
    'It is in cluster 0 with 1 other task, 90% sure. No pair of it was measured.'
    """
    number = partition.get(name, -1)
    mates = {other for other, own in partition.items() if own == number and other != name and number >= 0}
    measured = [pair for pair in pairs if pair.other in mates]
    n_better = sum(pair.to_task is not None and pair.to_task.above_average > 0 for pair in measured)
    by_cluster: dict[int, list[float]] = {}
    for pair in pairs:
        own = partition.get(pair.other, -1)
        if own >= 0 and pair.above_average is not None:
            by_cluster.setdefault(own, []).append(pair.above_average)
    means = {own: float(np.mean(values)) for own, values in by_cluster.items()}
    rivals = [own for own in means if own != number]
    # The best of many clusters of one task each would be the best by chance.
    rivals = [own for own in rivals if len(by_cluster[own]) >= MIN_RIVALS] or rivals
    next_number = max(rivals, key=lambda own: (means[own], -own)) if rivals else None
    by_similarity = mean_by_cluster(similarity, partition)
    reasons = ClusterReasons(
        number,
        len(mates) + (number >= 0),
        confidence,
        supported,
        pairs,
        len(measured),
        n_better,
        mean_interval(by_cluster[number]) if number in by_cluster else None,
        next_number,
        None if next_number is None else mean_interval(by_cluster[next_number]),
        by_similarity.get(number),
        max((mean for own, mean in by_similarity.items() if own != number), default=None),
        "",
    )
    return ClusterReasons(**{**fields_of(reasons), "sentence": word(reasons)})


def fields_of(reasons: ClusterReasons) -> dict[str, Any]:
    """Give all values by name."""
    return {field: getattr(reasons, field) for field in ClusterReasons.__slots__}


def mean_by_cluster(similarity: Mapping[str, float], partition: Mapping[str, int]) -> dict[int, float]:
    """Give the mean similarity to the tasks of every cluster."""
    values: dict[int, list[float]] = {}
    for other, value in similarity.items():
        if partition.get(other, -1) >= 0:
            values.setdefault(partition[other], []).append(value)
    return {own: float(np.mean(found)) for own, found in values.items()}


def word(reasons: ClusterReasons) -> str:
    """Put the reasons into words."""
    n_mates = reasons.size - 1
    if reasons.number < 0:
        parts = ["It is in no cluster."]
    else:
        company = f"with {n_mates:,} other {'task' if n_mates == 1 else 'tasks'}" if n_mates else "alone"
        sure = "" if reasons.confidence is None else f", {say_sure(reasons.confidence)} sure"
        if sure and not reasons.supported:
            sure += " if the clusters are real, which held-out pairs do not confirm"
        parts = [f"It is in cluster {reasons.number} {company}{sure}."]
    if not reasons.pairs:
        return " ".join([*parts, "No pair of it was measured."])
    if n_mates > 0 and reasons.number >= 0:
        few = "" if reasons.n_mates_measured else "none of "
        counted = few or f"{reasons.n_mates_measured:,} of "
        parts.append(
            f"It was measured with {counted}them"
            + (
                f"; {reasons.n_better:,} {'helps' if reasons.n_better == 1 else 'help'} it more than the "
                "average task does."
                if reasons.n_mates_measured
                else "."
            )
        )
    n_for, n_against = reasons.count("for"), reasons.count("against")
    parts.append(
        f"Of {len(reasons.pairs):,} measured {'pair' if len(reasons.pairs) == 1 else 'pairs'} {n_for:,} "
        f"{'speaks' if n_for == 1 else 'speak'} for its place and {n_against:,} against it; the others say "
        "neither."
    )
    if reasons.within is not None and reasons.next_best is not None:
        parts.append(
            f"With its cluster the scores are {reasons.within.mean:+.2f} standard deviations from the "
            f"average, with the next best, cluster {reasons.next_number}, {reasons.next_best.mean:+.2f}."
        )
    return " ".join(parts)


def say_sure(confidence: float) -> str:
    """Give a probability in hundredths; one that is almost 1 does not round to certainty.

    >>> say_sure(0.9), say_sure(0.99999), say_sure(1.0)
    ('90%', 'over 99%', 'over 99%')
    """
    return "over 99%" if confidence > 0.99 else f"{confidence:.0%}"

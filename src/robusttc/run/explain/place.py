"""Why a task is in its cluster: its measured pairs, what completion made of them, and its nearest tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from robusttc.clustering import fit_two_groups, pair_values
from robusttc.formatting import count
from robusttc.stats import Estimate, mean_interval
from robusttc.transfer import TransferScores, standardise_columns

if TYPE_CHECKING:
    from robusttc.run.outputs import Similarity

__all__ = [
    "ClusterReasons",
    "Direction",
    "MeasuredPair",
    "NearTask",
    "Nearest",
    "explain_cluster",
    "find_nearest",
    "measured_pairs",
    "nearest_first",
]

Side = Literal["for", "against", "nothing"]
Verdict = Literal["same", "different", "uncertain"]
SIDES: tuple[Side, ...] = ("for", "against", "nothing")
CLEAR = 2 / 3  # a posterior above it, or below one less it, says something of a pair
# X of clear clusters is 0 or 1 for whole blocks; where it is the same, what was measured decides.
DECIMALS = 3
MIN_RIVALS = 3


@dataclass(frozen=True, slots=True)
class Direction:
    """One measured score with its 95 % interval (None where no error is known).

    `above_average` is how far it is above the mean score of its target over all measured sources, in standard
    deviations; `n_examples` the number of texts that it was measured on, where that is known.
    """

    score: float
    low: float | None
    high: float | None
    above_average: float
    n_examples: int | None


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """A pair of the explained task, and what it says about the task's cluster."""

    other: str
    cluster: int  # of the other task; -1 for none
    to_task: Direction | None  # how well the other's encoder serves this task; None where not measured
    from_task: Direction | None  # the other way round
    same_group: float | None  # posterior of one group by the pair's own scores; None where not standardised
    verdict: Verdict  # that in a word: same above 2/3, different below 1/3
    speaks: Side  # for the task's cluster: same and together, or different and apart; else against it
    similarity: float | None  # completed, from -1 to 1; None where it is not known
    outlier: float | None  # what the robust loss clipped, in standard deviations; None where not known

    @property
    def above_average(self) -> float | None:
        """The mean of the directions that were measured."""
        values = [one.above_average for one in (self.to_task, self.from_task) if one is not None]
        return float(np.mean(values)) if values else None


@dataclass(frozen=True, slots=True)
class ClusterReasons:
    """A task's cluster, and why.

    `within` and `next_best` are means of how far the scores of both directions are above those of the average
    task, in standard deviations; the next best cluster is one of which three tasks were measured, if any is.
    """

    number: int  # -1 for none
    size: int  # with the task itself
    confidence: float | None  # posterior of the cluster given the measured pairs, if the clusters are right
    supported: bool  # whether held-out pairs support the clusters of the run
    pairs: tuple[MeasuredPair, ...]  # those for the cluster, those against it, the others
    n_for: int
    n_against: int
    n_mates_measured: int  # with how many of the other tasks of its cluster it was measured
    n_better: int  # how many of these help it more than the average task does
    within: Estimate | None
    next_number: int | None  # None where no other cluster was measured
    next_best: Estimate | None
    sentence: str = ""  # all this in words


@dataclass(frozen=True, slots=True)
class NearTask:
    """A task that is like another."""

    name: str
    cluster: int  # -1 for none, or where it is not known
    similarity: float | None  # completed; of an adapted task the cosine of the texts
    above_average: float | None  # mean measured score of both directions, in standard deviations


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest tasks, the nearest first: by the completed similarity, and by the measured scores alone."""

    by_similarity: tuple[NearTask, ...] = ()
    by_scores: tuple[NearTask, ...] = ()

    def choose(self, n: int) -> tuple[str, ...]:
        """Return the names of so many tasks, from both lists in turn.

        >>> near = [NearTask(name, 0, None, None) for name in "abc"]
        >>> Nearest(tuple(near[:2]), tuple(near[1:])).choose(3)
        ('a', 'b', 'c')
        """
        turns = zip_longest(self.by_similarity, self.by_scores)
        names = (near.name for near in chain.from_iterable(turns) if near is not None)
        return tuple(dict.fromkeys(names))[:n]


def measured_pairs(
    name: str,
    scores: TransferScores | None,
    clusters: Mapping[str, int],
    *,
    similarity: Similarity | None = None,
) -> tuple[MeasuredPair, ...]:
    """Return the pairs of a task: those for its cluster, those against, the others; the best scores first.

    `scores` are all scores, None where nothing was measured; `clusters` has the cluster of every task, -1 for
    none; `similarity` is what completion made of the scores.

    Examples
    --------
    >>> from robusttc.clustering import make_planted_scores
    >>> names, labels = [f"t{number}" for number in range(12)], [number % 2 for number in range(12)]
    >>> scores = make_planted_scores(names, labels, noise=0.1, random_state=0)
    >>> pairs = measured_pairs("t0", scores, dict(zip(names, labels)))
    >>> [pair.other for pair in pairs if pair.verdict == "same"]
    ['t6', 't4', 't8']
    """
    if scores is None or name not in scores.task_names:
        return ()
    place = scores.task_names.index(name)
    directions = read_directions(scores, place)
    is_completed = similarity is not None and name in similarity.task_names
    to_others = similarity_to_others(name, similarity)
    same_group = same_group_of(name, scores, clusters, similarity)
    outliers = matrix_row(name, similarity, "outliers") if is_completed and similarity else {}
    found = []
    for other in sorted({end for pair in directions for end in pair if end != place}):
        other_name = scores.task_names[other]
        probability = same_group.get(other_name)
        verdict = judge_pair(probability)
        found.append(
            MeasuredPair(
                other_name,
                clusters.get(other_name, -1),
                directions.get((other, place)),
                directions.get((place, other)),
                probability,
                verdict,
                find_side(verdict, clusters.get(name, -1), clusters.get(other_name, -1)),
                to_others.get(other_name),
                outliers.get(other_name, 0.0) if is_completed and probability is not None else None,
            )
        )
    return tuple(sorted(found, key=pair_order))


def pair_order(pair: MeasuredPair) -> tuple[Any, ...]:
    """Sort by side, then tasks that belong together before those that do not, then the clearest first."""
    height = pair.above_average or 0.0
    clear = height if pair.verdict == "different" else -height
    return SIDES.index(pair.speaks), pair.verdict != "same", clear, pair.other


def read_directions(scores: TransferScores, place: int) -> dict[tuple[int, int], Direction]:
    """Return all scores from and to a task, by source and target."""
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


def judge_pair(probability: float | None) -> Verdict:
    """Return whether a pair is of one group, where its scores are clear enough."""
    if probability is None or 1 - CLEAR <= probability <= CLEAR:
        return "uncertain"
    return "same" if probability > CLEAR else "different"


def find_side(verdict: Verdict, number: int, cluster: int) -> Side:
    """Return whether a verdict speaks for a task's being where it is."""
    if verdict == "uncertain" or cluster < 0:
        return "nothing"
    return "for" if (number == cluster) == (verdict == "same") else "against"


def similarity_to_others(name: str, similarity: Similarity | None) -> dict[str, float]:
    """Return the completed similarity of a task to every other one; empty where it is not known."""
    if similarity is None or name not in similarity.task_names:
        return {}
    row = similarity.row(name)
    return {other: float(row[place]) for place, other in enumerate(similarity.task_names) if other != name}


def matrix_row(name: str, similarity: Similarity, matrix: str) -> dict[str, float]:
    """Return the stored entries of one task in a sparse matrix of the similarity, by the other task."""
    row = getattr(similarity, matrix)[[similarity.task_names.index(name)]].tocoo()
    return {
        similarity.task_names[other]: float(value) for other, value in zip(row.col, row.data, strict=True)
    }


def same_group_of(
    name: str, scores: TransferScores, clusters: Mapping[str, int], similarity: Similarity | None
) -> dict[str, float]:
    """Return the posterior of *same group* for the measured pairs of a task.

    A task that came after the clustering has none in the matrices: its scores are judged by the distributions
    of pairs within clusters and between them.
    """
    if similarity is not None and name in similarity.task_names:
        return matrix_row(name, similarity, "same_group")
    first, second, value = pair_values(scores)
    labels = np.array([clusters.get(one, -1) for one in scores.task_names])
    known = (labels[first] >= 0) & (labels[second] >= 0)
    same = labels[first[known]] == labels[second[known]]
    if not same.any() or same.all():
        return {}
    groups = fit_two_groups(value[known], same)
    place = scores.task_names.index(name)
    own = (first == place) | (second == place)
    others = (first + second - place)[own]
    posteriors = groups.posterior(value[own])
    return {scores.task_names[other]: float(value) for other, value in zip(others, posteriors, strict=True)}


def explain_cluster(
    name: str,
    clusters: Mapping[str, int],
    *,
    confidence: float | None,
    supported: bool,
    pairs: tuple[MeasuredPair, ...],
) -> ClusterReasons:
    """Return the reasons for a task's cluster, from what `measured_pairs` returned.

    `clusters` has the cluster of every task, -1 for none; `supported` says whether held-out pairs support the
    clusters.

    Examples
    --------
    >>> reasons = explain_cluster("a", {"a": 0, "b": 0}, confidence=0.9, supported=True, pairs=())
    >>> reasons.sentence
    'It is in cluster 0 with 1 other task, 90% sure. No pair of it was measured.'
    """
    number = clusters.get(name, -1)
    mates = {other for other, own in clusters.items() if own == number and other != name and number >= 0}
    measured = [pair for pair in pairs if pair.other in mates]
    heights = by_cluster(
        ((pair.other, pair.above_average) for pair in pairs if pair.above_average is not None), clusters
    )
    means = {own: float(np.mean(values)) for own, values in heights.items()}
    rivals = [own for own in means if own != number]
    # The best of many clusters of one task each would be the best by chance.
    rivals = [own for own in rivals if len(heights[own]) >= MIN_RIVALS] or rivals
    next_number = max(rivals, key=lambda own: (means[own], -own)) if rivals else None
    reasons = ClusterReasons(
        number,
        len(mates) + (number >= 0),
        confidence,
        supported,
        pairs,
        sum(pair.speaks == "for" for pair in pairs),
        sum(pair.speaks == "against" for pair in pairs),
        len(measured),
        sum(pair.to_task is not None and pair.to_task.above_average > 0 for pair in measured),
        mean_interval(heights[number]) if number in heights else None,
        next_number,
        None if next_number is None else mean_interval(heights[next_number]),
    )
    return replace(reasons, sentence=" ".join(cluster_sentences(reasons)))


def by_cluster(values: Iterable[tuple[str, float]], clusters: Mapping[str, int]) -> dict[int, list[float]]:
    """Return values of tasks by their clusters; tasks without one are left out."""
    found: dict[int, list[float]] = {}
    for task, value in values:
        if clusters.get(task, -1) >= 0:
            found.setdefault(clusters[task], []).append(value)
    return found


def cluster_sentences(reasons: ClusterReasons) -> list[str]:
    """Return the reasons in words."""
    n_mates = reasons.size - 1
    sentences = ["It is in no cluster."]
    if reasons.number >= 0:
        company = f"with {count(n_mates, 'other task')}" if n_mates else "alone"
        sure = "" if reasons.confidence is None else f", {format_confidence(reasons.confidence)} sure"
        if sure and not reasons.supported:
            sure += " if the clusters are real, which held-out pairs do not confirm"
        sentences = [f"It is in cluster {reasons.number} {company}{sure}."]
    if not reasons.pairs:
        return [*sentences, "No pair of it was measured."]
    if n_mates > 0 and reasons.number >= 0:
        verb = "helps" if reasons.n_better == 1 else "help"
        sentences.append(
            f"It was measured with {reasons.n_mates_measured:,} of them; {reasons.n_better:,} {verb} it more "
            "than the average task does."
            if reasons.n_mates_measured
            else "It was measured with none of them."
        )
    sentences.append(
        f"Of {count(len(reasons.pairs), 'measured pair')} {reasons.n_for:,} "
        f"{'speaks' if reasons.n_for == 1 else 'speak'} for its place and {reasons.n_against:,} against it; "
        "the others say neither."
    )
    if reasons.within is not None and reasons.next_best is not None:
        sentences.append(
            f"With its cluster the scores are {reasons.within.mean:+.2f} standard deviations from the "
            f"average, with the next best, cluster {reasons.next_number}, {reasons.next_best.mean:+.2f}."
        )
    return sentences


def format_confidence(confidence: float) -> str:
    """Return a probability in hundredths; one that is almost 1 does not round to certainty.

    >>> format_confidence(0.9), format_confidence(0.99999), format_confidence(1.0)
    ('90%', 'over 99%', 'over 99%')
    """
    return "over 99%" if confidence > 0.99 else f"{confidence:.0%}"


def nearest_first(similarity: Mapping[str, float], above_average: Mapping[str, float]) -> list[str]:
    """Return tasks by their similarity to one task; of those that are alike, the better measured ones first.

    Examples
    --------
    >>> nearest_first({"a": 0.2, "b": 0.9, "c": 0.9}, {"c": 1.5})
    ['c', 'b', 'a']
    """
    return sorted(
        similarity, key=lambda task: (-round(similarity[task], DECIMALS), -above_average.get(task, 0.0), task)
    )


def find_nearest(
    pairs: Sequence[MeasuredPair],
    similarity: Mapping[str, float],
    clusters: Mapping[str, int],
    *,
    n: int = 10,
) -> Nearest:
    """Return the nearest tasks, at most `n` by each measure, from what `measured_pairs` returned."""
    measured = {pair.other: pair.above_average for pair in pairs if pair.above_average is not None}

    def near(task: str) -> NearTask:
        return NearTask(task, clusters.get(task, -1), similarity.get(task), measured.get(task))

    by_similarity = nearest_first(similarity, measured)[:n]
    by_scores = sorted(measured, key=lambda task: (-measured[task], task))[:n]
    return Nearest(tuple(map(near, by_similarity)), tuple(map(near, by_scores)))

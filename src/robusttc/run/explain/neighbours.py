"""The tasks that are most like one task: by the completed similarity, and by the scores themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from typing import Any

from robusttc.run.explain.explained_pairs import MeasuredPair

__all__ = ["NearTask", "Nearest", "find_nearest"]

# X of clear clusters is 0 or 1 for whole blocks; where it is the same, what was measured decides.
DECIMALS = 3


@dataclass(frozen=True, slots=True)
class NearTask:
    """A task that is like another.

    Attributes
    ----------
    name, cluster
        The task, and its cluster; -1 for none, or where it is not known.
    similarity
        The completed similarity X; of an adapted task the cosine of the texts. None where it is not known.
    above_average
        How far the measured scores of the two are above the average, in standard deviations, the mean of
        both directions; None where nothing was measured.
    """

    name: str
    cluster: int
    similarity: float | None
    above_average: float | None


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest tasks, the nearest first.

    Attributes
    ----------
    by_similarity
        By the completed similarity, and where that is the same by the scores.
    by_scores
        By the measured scores alone.
    """

    by_similarity: tuple[NearTask, ...] = ()
    by_scores: tuple[NearTask, ...] = ()

    def choose(self, n: int) -> tuple[str, ...]:
        """Give the names of so many tasks, from both lists in turn.

        >>> near = [NearTask(name, 0, None, None) for name in "abc"]
        >>> Nearest(tuple(near[:2]), tuple(near[1:])).choose(3)
        ('a', 'b', 'c')
        """
        turns = zip_longest(self.by_similarity, self.by_scores)
        names = (near.name for near in chain.from_iterable(turns) if near is not None)
        return tuple(dict.fromkeys(names))[:n]

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            "by_similarity": [asdict(near) for near in self.by_similarity],
            "by_scores": [asdict(near) for near in self.by_scores],
        }


def find_nearest(
    pairs: Sequence[MeasuredPair],
    similarity: Mapping[str, float],
    partition: Mapping[str, int],
    *,
    n: int = 10,
) -> Nearest:
    """Find the nearest tasks.

    Parameters
    ----------
    pairs
        The measured pairs of the task.
    similarity
        Its completed similarity to every other task.
    partition
        The cluster of every task.
    n
        How many, at the most.
    """
    measured = {pair.other: pair.above_average for pair in pairs}
    near = [
        NearTask(name, partition.get(name, -1), similarity.get(name), measured.get(name))
        for name in sorted(similarity.keys() | measured.keys())
    ]
    by_similarity = sorted(
        (one for one in near if one.similarity is not None),
        key=lambda one: (-round(one.similarity or 0.0, DECIMALS), -(one.above_average or 0.0)),
    )
    by_scores = sorted(
        (one for one in near if one.above_average is not None), key=lambda one: -(one.above_average or 0.0)
    )
    return Nearest(tuple(by_similarity[:n]), tuple(by_scores[:n]))

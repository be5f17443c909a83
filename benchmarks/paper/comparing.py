"""Two rows of a table side by side: paired differences over tasks, and which baseline is the best.

The best baseline is the one that is strongest *on test rows*, on all and on novel texts each for itself. It
is chosen with hindsight, which can only make ours look worse.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from benchmarks.paper.reading import Row, mean
from benchmarks.paper.roles import BASELINES
from robusttc.stats import Estimate, mean_interval

SAME = 5e-6  # accuracies are kept to five digits


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first row less the second, over the tasks that both have."""

    first: Row
    second: Row
    texts: str
    difference: Estimate
    wins: int
    ties: int
    losses: int

    @property
    def counts(self) -> str:
        """Give on how many tasks the first is better, alike and worse."""
        return f"{self.wins} / {self.ties} / {self.losses}"


def compare_rows(first: Row, second: Row, texts: str) -> Comparison | None:
    """Compare two rows; None where they have no task in common."""
    own, other = first.accuracies[texts], second.accuracies[texts]
    common = sorted(set(own) & set(other))
    if not common:
        return None
    gains = [own[name] - other[name] for name in common]
    wins, losses = sum(gain > SAME for gain in gains), sum(gain < -SAME for gain in gains)
    difference = find_interval(tuple(gains))
    return Comparison(first, second, texts, difference, wins, len(gains) - wins - losses, losses)


def estimate_row(row: Row, texts: str) -> Estimate | None:
    """Give the mean over tasks with its interval; None where there are no tasks."""
    values = tuple(row.accuracies[texts].values())
    return find_interval(values) if values else None


@cache
def find_interval(values: tuple[float, ...]) -> Estimate:
    """Give a mean over tasks with its interval; pages ask for the same one several times."""
    return mean_interval(values)


def best_row(rows: Iterable[Row], texts: str, *, tasks: Iterable[str]) -> Row | None:
    """Give the row with the highest mean over these tasks, among those that have them all."""
    wanted = list(tasks)
    whole = [row for row in rows if wanted and all(name in row.accuracies[texts] for name in wanted)]
    return max(
        whole, key=lambda row: (mean(row.accuracies[texts][name] for name in wanted), row.title), default=None
    )


def best_baseline(
    rows: Sequence[Row], row: Row, texts: str, *, roles: Collection[str] = BASELINES
) -> Row | None:
    """Give the strongest baseline on test rows, which may be the row itself.

    `roles` are what counts as a baseline. One that was not run on all tasks of the row does not: the mean of
    other tasks says nothing.
    """
    baselines = [other for other in rows if other.role in roles and not other.left_out]
    return best_row(baselines, texts, tasks=row.accuracies[texts])


def show_estimate(figure: Estimate | None, *, sign: str = "") -> str:
    """Give a figure in per cent with its interval; without one where there is a single task."""
    if figure is None:
        return ""
    if not math.isfinite(figure.low):
        return f"{100 * figure.mean:{sign}.1f} (one task)"
    ends = (figure.low, figure.high)
    if not sign:  # an accuracy: what the bootstrap gives beyond its limits cannot be
        ends = (max(figure.low, 0.0), min(figure.high, 1.0))
    low, high = (show_end(100 * end, sign) for end in ends)
    return f"{100 * figure.mean:{sign}.1f} [{low}, {high}]"


def show_end(end: float, sign: str) -> str:
    """Give the end of an interval so that one can see on which side of zero it is.

    Examples
    --------
    >>> show_end(1.26, "+"), show_end(0.021, "+"), show_end(-0.004, "+")
    ('+1.3', '+0.02', '-0.004')
    """
    digits = next((count for count in (1, 2, 3) if round(end, count) != 0), 1)
    return f"{end:{sign}.{digits}f}"


def show_difference(comparison: Comparison | None) -> str:
    """Give a difference in points with its interval."""
    return "" if comparison is None else show_estimate(comparison.difference, sign="+")

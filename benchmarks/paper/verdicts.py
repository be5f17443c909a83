"""What the figures say to a claim: it holds, it does not, or it cannot be told.

It is judged by the paired difference over tasks on all test texts (what the paper measures); novel texts
are judged beside it. A claim *holds* where the 95 % interval is above zero, and *does not* where the whole of
it is below half a point: what could be gained is then not worth a mention. Otherwise, and with fewer than
five tasks, it *cannot be told*. Whether the difference reaches the paper's own margin is answered beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from benchmarks.paper.comparing import Comparison, show_difference
from robusttc.stats import Estimate

HOLDS, FAILS, UNKNOWN, NOT_RUN = "holds", "does not", "cannot be told", "not run"
WORTH = 0.005  # a gain below half a point is none
LEAST_TASKS = 5  # an interval over fewer tasks says nothing


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim on one data set with one encoder and one number of clusters."""

    claim: str
    table: str
    targets: str
    group: str
    n_clusters: str
    comparisons: dict[str, Comparison | None]
    paper_margin: float | None
    missing: str = ""

    def show(self, texts: str = "all") -> str:
        """Give the difference in points, with its interval."""
        return show_difference(self.comparisons.get(texts))

    def verdict(self, texts: str = "all") -> str:
        """Say what the figures say to the claim."""
        comparison = self.comparisons.get(texts)
        return NOT_RUN if comparison is None else judge(comparison.difference)

    def to_dict(self) -> dict[str, Any]:
        """Give it for JSON, differences in points."""
        found: dict[str, Any] = {
            name: getattr(self, name) for name in ("claim", "table", "targets", "group", "n_clusters")
        }
        found["paper_margin"] = None if self.paper_margin is None else round(self.paper_margin, 2)
        for texts, comparison in self.comparisons.items():
            if comparison is not None:
                ends = {name: getattr(comparison.difference, name) for name in ("mean", "low", "high")}
                shown = {
                    name: round(100 * end, 2) if math.isfinite(end) else None for name, end in ends.items()
                }
                against = {"against": comparison.second.way}
                found[texts] = {**against, **shown, "verdict": self.verdict(texts)}
        return found | {"verdict": self.verdict()}

    @property
    def margin_verdict(self) -> str:
        """Say where the difference stands beside the paper's."""
        comparison = self.comparisons.get("all")
        if comparison is None or self.paper_margin is None:
            return ""
        margin, difference = self.paper_margin / 100, comparison.difference
        if difference.high < margin:
            return "smaller than the paper's"
        return "larger than the paper's" if difference.low > margin else "as the paper's may be"


def judge(difference: Estimate) -> str:
    """Say whether a claim holds, from the paired difference.

    Examples
    --------
    >>> judge(Estimate(0.01, 0.002, 0.02, 40)), judge(Estimate(0.0, -0.002, 0.002, 40))
    ('holds', 'does not')
    >>> judge(Estimate(0.01, -0.01, 0.03, 10))
    'cannot be told'
    """
    if difference.n < LEAST_TASKS:
        return UNKNOWN
    if difference.above_zero:
        return HOLDS
    return FAILS if difference.high < WORTH else UNKNOWN

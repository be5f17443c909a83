"""The verdict: whether the groups predict pairs that were not measured.

Clusters are found on part of the pairs and judged on another part. There, score = row effect + column effect
+ gamma [same cluster] + noise, and the verdict is a one-sided test of gamma > 0. The indicator of the same
cluster is first made orthogonal to row and column effects on the held-out pairs, so that tasks which are good
sources for everybody, or targets that are hard for all, cannot pass for groups; under the null hypothesis
(effects and noise, no groups) the statistic is then a weighted sum of independent noise, pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsmr
from scipy.stats import t as student

from robusttc.clustering.problem import Floats, Labels, Numbers, number_pairs
from robusttc.formatting import format_percent

__all__ = ["HeldOutPairs", "Verdict", "judge_clusters"]

LEVEL = 0.05
ALL = 0.999  # of the pairs, but for rounding


@dataclass(frozen=True, eq=False)
class HeldOutPairs:
    """Held-out standardised scores, and whether their tasks are in one cluster found without them."""

    rows: Numbers
    columns: Numbers
    values: Floats
    same: NDArray[np.bool_]


@dataclass(frozen=True)
class Verdict:
    """Whether groups predict unmeasured pairs.

    Attributes
    ----------
    supported
        Whether the held-out pairs support groups, at a level of 5 %.
    p_value
        The probability of so large a difference without groups; NaN where it cannot be tested.
    difference
        By how much held-out scores of tasks in one cluster are higher than between clusters, in standard
        deviations of a target's scores, row and column effects aside.
    explained
        The share of the completed similarity that is explained by its blocks.
    held_out
        The share of the variance of held-out scores that the completion predicts.
    n_pairs
        How many held-out pairs were judged.
    sentence
        All that in words.
    advice
        What to do next; empty where there is nothing to do.
    """

    supported: bool
    p_value: float
    difference: float
    explained: float
    held_out: float
    n_pairs: int
    sentence: str
    advice: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        values = {**asdict(self), "advice": list(self.advice)}
        return {name: None if value != value else value for name, value in values.items()}


def judge_clusters(
    held: Sequence[HeldOutPairs], U: Floats, labels: Labels, *, held_out: float, n_measured: int
) -> Verdict:
    """Test the clusters on held-out pairs.

    `held` has parts of the scores, none where there are too few; `U` is the factor of the completed
    similarity, `labels` are the clusters that are reported; `held_out` is for the verdict as it is, and
    `n_measured` is the number of measured pairs.
    """
    is_complete = n_measured >= ALL * len(labels) * (len(labels) - 1) / 2
    n_clusters = len(np.unique(labels[labels >= 0]))
    if not held or n_clusters < 2:
        return untested(n_clusters, len(labels), is_complete)
    tests = [contrast(part, len(labels)) for part in held]
    size = sum(test.size for test in tests)
    difference = sum(test.total for test in tests) / size if size > 1e-9 else 0.0
    # No score is judged twice, and none by clusters that it had a part in.
    deviation = float(np.sqrt(sum(test.deviation**2 for test in tests)))
    statistic = sum(test.total for test in tests) / max(deviation, 1e-12)
    p_value = float(student.sf(statistic, min(test.freedom for test in tests))) if size > 1e-9 else 1.0
    n_pairs = sum(test.n_pairs for test in tests)
    explained = explained_by_blocks(U, labels)
    shown = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
    supported = p_value < LEVEL
    advice: tuple[str, ...] = ()
    if supported:
        sentence = (
            f"Groups predict unmeasured pairs ({shown}): transfer within the {n_clusters} clusters is better "
            f"than between them on held-out pairs. The clusters explain {format_percent(explained, 0)} of "
            "the similarity."
        )
    else:
        sentence = (
            f"Groups do not predict unmeasured pairs ({shown}): on held-out pairs, transfer within the "
            f"{n_clusters} clusters is not clearly better than between them."
        )
        more = "Measure more pairs: groups that are weak show only with more of them."
        enough = "All pairs are measured: treat the tasks as one group, or bring tasks with more data."
        advice = (enough if is_complete else more,)
    return Verdict(supported, p_value, difference, explained, held_out, n_pairs, sentence, advice)


class Contrast(NamedTuple):
    """The summed difference on one part, its standard deviation and degrees of freedom under the null."""

    total: float
    size: float
    deviation: float
    freedom: float
    n_pairs: int


def contrast(held: HeldOutPairs, n: int) -> Contrast:
    """Compare pairs within and between clusters, row and column effects removed."""
    rows, columns, indicator = held.rows, held.columns, held.same.astype(np.float64)
    pairs, pair = number_pairs(rows, columns, n)
    direction = remove_effects(indicator, rows, columns, n)
    values = remove_effects(held.values, rows, columns, n)
    size = float(direction @ indicator)
    if size < 1e-9:
        return Contrast(0.0, 0.0, 0.0, 1.0, len(pairs))
    total = float(direction @ values)
    noise = values - total / size * direction
    # Least squares makes the residuals too small by its degrees of freedom.
    left_over = max(len(values) - len(np.unique(rows)) - len(np.unique(columns)), 1) / len(values)
    deviation = float(np.sqrt(np.sum(np.bincount(pair, weights=direction * noise) ** 2) / left_over))
    # A contrast that rests on few pairs (a cluster of two tasks) is not normal: as many degrees of freedom.
    energy = np.bincount(pair, weights=direction**2)
    freedom = max(float(energy.sum() ** 2 / np.sum(energy**2)) - 1, 1.0)
    return Contrast(total, size, deviation, freedom, len(pairs))


def remove_effects(values: Floats, rows: Numbers, columns: Numbers, n: int) -> Floats:
    """Return what least squares on row and column effects leaves."""
    entries = np.arange(len(rows))
    ones = np.ones(len(rows))
    shape = (len(rows), n)
    dummies = [sparse.csr_array((ones, (entries, ends)), shape=shape) for ends in (rows, columns)]
    design = sparse.csr_array(sparse.hstack(dummies))
    found = lsmr(design, values, atol=1e-10, btol=1e-10, maxiter=500)[0]
    return np.asarray(values - design @ found)


def explained_by_blocks(U: Floats, labels: Labels) -> float:
    """Return the share of the squared entries of centred X that the means of its blocks explain."""
    kept = labels >= 0
    centred, own = U[kept] - U[kept].mean(axis=0), labels[kept]
    total = float(np.sum((centred.T @ centred) ** 2))
    counts = np.bincount(own)
    sums = np.zeros((len(counts), U.shape[1]))
    np.add.at(sums, own, centred)
    scaled = sums / np.sqrt(np.maximum(counts, 1))[:, None]
    return float(np.sum((scaled.T @ scaled) ** 2)) / total if total > 0 else 0.0


def untested(n_clusters: int, n_tasks: int, is_complete: bool) -> Verdict:
    """Return the verdict where there is nothing to test."""
    nan = float("nan")
    advice: tuple[str, ...] = ()
    if n_tasks < 4:
        sentence = f"There are no groups to look for among {n_tasks:,} task{'s' if n_tasks > 1 else ''}."
    elif n_clusters == 1:
        sentence = "All tasks are one cluster: there are no groups to judge."
    else:
        sentence = "Too few pairs can be compared to test whether there are groups."
        advice = () if is_complete else ("Measure more pairs.",)
    return Verdict(False, nan, nan, nan, nan, 0, sentence, advice)

"""Reliable pairs: Eq. 1 of the paper, which makes a partly observed 0/1 matrix Y of the transfer scores S."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from robusttc.clustering.problem import Labels
from robusttc.params import Choice, Number, check_param
from robusttc.transfer import TransferScores, standardise_columns

__all__ = ["RULES", "FilteredScores", "PairVerdict", "filter_scores"]

RULES = ("both", "any")
MIN_ENTRIES = 3  # of two scores one is always high and the other low, whatever they are


class PairVerdict(IntEnum):
    """What the scores of a pair say; the first two are the values of Y."""

    DIFFERENT = 0
    SAME = 1
    UNCERTAIN = 2


@dataclass(frozen=True, eq=False)
class FilteredScores:
    """What Eq. 1 leaves of the scores.

    Y is symmetric, n x n: 1 for pairs that belong together, 0 for pairs that do not (the zeros are stored);
    the diagonal is 1. An entry that is not stored is unobserved. `verdict` holds the `PairVerdict` of each
    measured pair of tasks, ``first < second``, as a number.
    """

    Y: csr_array[np.float64]
    first: Labels
    second: Labels
    verdict: NDArray[np.int8]


def filter_scores(
    scores: TransferScores, *, p_high: float = 0.5, p_low: float = 0.5, rule: str = "both"
) -> FilteredScores:
    """Return the partly observed similarity Y of the paper (Eq. 1).

    .. code-block:: text

        rule "both":  Y_ij = Y_ji = 1           if S_ij > mu_j + p_1 sigma_j  and  S_ji > mu_i + p_1 sigma_i
                                    0           if S_ij < mu_j - p_2 sigma_j  and  S_ji < mu_i - p_2 sigma_i
                                    unobserved  otherwise
        rule "any":   Y_ij = Y_ji = 1           if S_ij >= mu_j  or  S_ji >= mu_i
                                    0           otherwise

    mu_j and sigma_j are mean and standard deviation of the measured scores of target j; ``any``, which the
    paper uses for its largest data set, does not look at `p_high` (p_1) and `p_low` (p_2).

    Deviation: scores of a task with itself are left out, because S_ii = 1 is set, not measured. Deviation: a
    score nearer to a threshold than 1e-10 of the range of its column is on it, so that rounding, which
    depends on the order of the tasks, does not decide. What Eq. 1 leaves open: a pair measured in one
    direction is unobserved under ``both`` and decided by that direction under ``any``; a target with fewer
    than three scores, or with equal ones, cannot tell high from low and counts as not measured.

    Raises
    ------
    UsageError
        If a parameter is out of its domain.

    Examples
    --------
    >>> S = [[1.0, 0.9, 0.2, 0.3], [0.8, 1.0, 0.1, 0.2], [0.2, 0.3, 1.0, 0.7], [0.1, 0.2, 0.9, 1.0]]
    >>> filtered = filter_scores(TransferScores.from_matrix(S, ["a", "b", "c", "d"]))
    >>> filtered.Y.toarray()
    array([[1., 1., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 1.],
           [0., 0., 1., 1.]])
    >>> [PairVerdict(verdict).name for verdict in filtered.verdict[:3]]
    ['SAME', 'DIFFERENT', 'UNCERTAIN']
    """
    check_param("rule", rule, Choice(*RULES))
    check_param("p_high", p_high, Number(0))
    check_param("p_low", p_low, Number(0))
    entries = np.flatnonzero(scores.off_diagonal)
    target = scores.target[entries]
    columns = standardise_columns(target, scores.score[entries], n_tasks=scores.n_tasks)
    usable = (columns.has_spread & (columns.count >= MIN_ENTRIES))[target]
    z, tie = columns.standardised, columns.tie[target]
    # The last place is that of a direction that was not measured: neither high nor low.
    high, low = np.zeros(len(scores) + 1, dtype=np.bool_), np.zeros(len(scores) + 1, dtype=np.bool_)
    if rule == "both":
        high[entries], low[entries] = usable & (z > p_high + tie), usable & (z < -(p_low + tie))
    else:
        high[entries], low[entries] = usable & (z >= -tie), usable & (z < -tie)
    pairs = scores.pairs()
    combine = np.logical_and if rule == "both" else np.logical_or
    verdict = np.full(len(pairs.first), PairVerdict.UNCERTAIN, dtype=np.int8)
    verdict[combine(low[pairs.forward], low[pairs.backward])] = PairVerdict.DIFFERENT
    verdict[combine(high[pairs.forward], high[pairs.backward])] = PairVerdict.SAME
    known = verdict != PairVerdict.UNCERTAIN
    Y = build_similarity(pairs.first[known], pairs.second[known], verdict[known], scores.n_tasks)
    return FilteredScores(Y, pairs.first, pairs.second, verdict)


def build_similarity(first: Labels, second: Labels, value: NDArray[np.int8], n: int) -> csr_array[np.float64]:
    """Return a symmetric matrix with these values, zeros stored, and ones on the diagonal."""
    diagonal = np.arange(n)
    rows, columns = np.concatenate([first, second, diagonal]), np.concatenate([second, first, diagonal])
    values = np.concatenate([value, value, np.ones(n)]).astype(np.float64)
    Y = csr_array((values, (rows, columns)), shape=(n, n))
    Y.sort_indices()
    return Y

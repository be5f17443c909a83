"""Keeping only what the scores say reliably: Eq. 1 of the paper.

Symbols of the paper, and what they are here:

* ``S`` (n x n, sparse): transfer scores; S_ij is how well the encoder of task i serves task j.
* ``mu``, ``sigma`` (n): mean and deviation of each column of S: ``column_mean``, ``column_deviation``.
* ``p_1``, ``p_2``: ``p_high``, ``p_low``.
* ``Y`` (n x n, sparse, symmetric): 1 for tasks that belong together, 0 for tasks that do not.
* ``Omega``: the places where Y is known: ``observed``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, get_index_dtype

from robusttc.errors import UsageError, quote
from robusttc.scores import ScorePairs, TransferScores, check_choice, row_means, standardise_columns

__all__ = ["RULES", "FilteredScores", "Reason", "Verdict", "filter_scores"]

RULES = ("both", "any")
MIN_ENTRIES = 3


class Verdict(IntEnum):
    """What the scores of a pair say; the first two are the values of Y."""

    DIFFERENT = 0
    SAME = 1
    UNCERTAIN = 2


class Level(IntEnum):
    """How one score stands in its column."""

    LOW = 0
    MIDDLING = 1
    HIGH = 2
    UNUSABLE = 3  # the column cannot tell high from low
    UNMEASURED = 4


class Reason(IntEnum):
    """Why a pair has its verdict; `text` says it in words."""

    BOTH_HIGH = 0
    BOTH_LOW = 1
    HIGH_AND_LOW = 2
    HIGH_AND_MIDDLING = 3
    LOW_AND_MIDDLING = 4
    BOTH_MIDDLING = 5
    ONE_DIRECTION = 6
    UNUSABLE_COLUMN = 7
    ONLY_HIGH = 8
    ONLY_LOW = 9

    @property
    def text(self) -> str:
        """The reason in words."""
        return TEXT_OF_REASON[self]


TEXT_OF_REASON = {
    Reason.BOTH_HIGH: "high in both directions",
    Reason.BOTH_LOW: "low in both directions",
    Reason.HIGH_AND_LOW: "high one way, low the other",
    Reason.HIGH_AND_MIDDLING: "high one way, middling the other",
    Reason.LOW_AND_MIDDLING: "low one way, middling the other",
    Reason.BOTH_MIDDLING: "middling in both directions",
    Reason.ONE_DIRECTION: "only one direction measured",
    Reason.UNUSABLE_COLUMN: "a target has too few scores, or scores without spread",
    Reason.ONLY_HIGH: "high in the only direction that can be used",
    Reason.ONLY_LOW: "low in the only direction that can be used",
}

# For each rule, the verdict and reason of two levels; the order of the two does not matter.
LOW, MIDDLING, HIGH, UNUSABLE, UNMEASURED = Level
OUTCOMES: dict[str, dict[tuple[Level, Level], tuple[Verdict, Reason]]] = {
    "both": {
        (HIGH, HIGH): (Verdict.SAME, Reason.BOTH_HIGH),
        (LOW, LOW): (Verdict.DIFFERENT, Reason.BOTH_LOW),
        (LOW, HIGH): (Verdict.UNCERTAIN, Reason.HIGH_AND_LOW),
        (MIDDLING, HIGH): (Verdict.UNCERTAIN, Reason.HIGH_AND_MIDDLING),
        (LOW, MIDDLING): (Verdict.UNCERTAIN, Reason.LOW_AND_MIDDLING),
        (MIDDLING, MIDDLING): (Verdict.UNCERTAIN, Reason.BOTH_MIDDLING),
        (LOW, UNUSABLE): (Verdict.UNCERTAIN, Reason.UNUSABLE_COLUMN),
        (MIDDLING, UNUSABLE): (Verdict.UNCERTAIN, Reason.UNUSABLE_COLUMN),
        (HIGH, UNUSABLE): (Verdict.UNCERTAIN, Reason.UNUSABLE_COLUMN),
        (UNUSABLE, UNUSABLE): (Verdict.UNCERTAIN, Reason.UNUSABLE_COLUMN),
        (LOW, UNMEASURED): (Verdict.UNCERTAIN, Reason.ONE_DIRECTION),
        (MIDDLING, UNMEASURED): (Verdict.UNCERTAIN, Reason.ONE_DIRECTION),
        (HIGH, UNMEASURED): (Verdict.UNCERTAIN, Reason.ONE_DIRECTION),
        (UNUSABLE, UNMEASURED): (Verdict.UNCERTAIN, Reason.ONE_DIRECTION),
    },
    "any": {
        (HIGH, HIGH): (Verdict.SAME, Reason.BOTH_HIGH),
        (LOW, HIGH): (Verdict.SAME, Reason.HIGH_AND_LOW),
        (HIGH, UNUSABLE): (Verdict.SAME, Reason.ONLY_HIGH),
        (HIGH, UNMEASURED): (Verdict.SAME, Reason.ONLY_HIGH),
        (LOW, LOW): (Verdict.DIFFERENT, Reason.BOTH_LOW),
        (LOW, UNUSABLE): (Verdict.DIFFERENT, Reason.ONLY_LOW),
        (LOW, UNMEASURED): (Verdict.DIFFERENT, Reason.ONLY_LOW),
        (UNUSABLE, UNUSABLE): (Verdict.UNCERTAIN, Reason.UNUSABLE_COLUMN),
        (UNUSABLE, UNMEASURED): (Verdict.UNCERTAIN, Reason.UNUSABLE_COLUMN),
    },
}


@dataclass(frozen=True, eq=False)
class FilteredScores:
    """What is left of the scores behind the filter.

    Attributes
    ----------
    task_names
        The names of the tasks.
    Y
        Symmetric (n, n) with 1 for pairs that belong together and 0 for pairs that do not; the zeros are
        stored. The diagonal is 1. Never NaN.
    observed
        True at the places of `Y` that are known, stored at the same places as `Y`.
    first, second
        The task numbers of each pair of different tasks with at least one score, ``first < second``.
    verdict, reason
        The `Verdict` and `Reason` of each pair, as numbers.
    column_count
        The number of measured scores of each column, the diagonal left out.
    column_mean, column_deviation
        Mean and population standard deviation of these scores (with `remove_donor_effect` of the residuals);
        NaN where there are none.
    column_usable
        Whether the column can tell high from low.
    min_entries, rule, p_high, p_low, remove_donor_effect
        The parameters of the filter.
    """

    task_names: tuple[str, ...]
    Y: csr_array[np.float64]
    observed: csr_array[np.bool_]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    verdict: NDArray[np.int8]
    reason: NDArray[np.int8]
    column_count: NDArray[np.int64]
    column_mean: NDArray[np.float64]
    column_deviation: NDArray[np.float64]
    column_usable: NDArray[np.bool_]
    min_entries: int
    rule: str
    p_high: float
    p_low: float
    remove_donor_effect: bool

    def count(self, verdict: Verdict) -> int:
        """Count the pairs with this verdict."""
        return int(np.count_nonzero(self.verdict == verdict))

    def explain(self, pair: int) -> str:
        """Say in one line what became of a pair, and why.

        Parameters
        ----------
        pair
            The place of the pair in `first` and `second`.
        """
        reason = Reason(self.reason[pair])
        ends = (int(self.first[pair]), int(self.second[pair]))
        names = " and ".join(quote(self.task_names[end]) for end in ends)
        message = f"{names}: {Verdict(self.verdict[pair]).name.lower()}, {reason.text}"
        if reason is not Reason.UNUSABLE_COLUMN:
            return message
        faults = [self._describe_column(end) for end in ends if not self.column_usable[end]]
        return f"{message} ({'; '.join(faults)})"

    def _describe_column(self, task: int) -> str:
        count = int(self.column_count[task])
        if count < self.min_entries:
            return f"{quote(self.task_names[task])} has {count} of at least {self.min_entries} scores"
        since = " once the donor effect is removed" if self.remove_donor_effect else ""
        return f"the {count:,} scores of {quote(self.task_names[task])} do not differ{since}"


def filter_scores(
    scores: TransferScores,
    *,
    p_high: float = 0.5,
    p_low: float = 0.5,
    rule: str = "both",
    remove_donor_effect: bool = False,
    min_entries: int = MIN_ENTRIES,
) -> FilteredScores:
    r"""Make the partly observed similarity Y of the paper (Eq. 1) from transfer scores.

    .. code-block:: text

        rule "both":  Y_ij = Y_ji = 1           if S_ij > mu_j + p_1 sigma_j  and  S_ji > mu_i + p_1 sigma_i
                                    0           if S_ij < mu_j - p_2 sigma_j  and  S_ji < mu_i - p_2 sigma_i
                                    unobserved  otherwise
        rule "any":   Y_ij = Y_ji = 1           if S_ij >= mu_j  or  S_ji >= mu_i
                                    0           otherwise

    ``any`` is what the paper uses for its largest data set, to make every measured pair an observed one; it
    has no p_1 and p_2, and `p_high` and `p_low` are not looked at. The diagonal is observed with Y_ii = 1.

    mu_j and sigma_j are mean and population standard deviation (as `numpy.std`) over the measured scores of
    column j. Deviation: the scores of a task with itself are left out of them, because S_ii = 1 is set, not
    measured. Deviation: a score that is nearer to a threshold than 1e-10 of the range of its column is on it,
    neither above nor below, because the order of the tasks, which changes the rounding of a mean, must not
    decide.

    What Eq. 1 leaves open: a pair measured in one direction only is uncertain under ``both``, and decided by
    that direction under ``any``. Deviation: a column with fewer than `min_entries` scores, or with scores
    that do not differ beyond rounding, cannot tell high from low: its direction is treated like one that was
    not measured, save that its reason says so. (By the letter, all scores of a constant column would be
    "at the mean", and ``any`` would make ones of them.)

    Without usable scores (none at all, one task, all of them equal) only the diagonal is observed.

    Parameters
    ----------
    scores
        The transfer scores S.
    p_high, p_low
        p_1 and p_2: how many standard deviations from the mean is high, or low; 0 or more.
    rule
        ``both`` or ``any``.
    remove_donor_effect
        Apply the rule to residuals: the column-standardised scores, minus the mean of each row (source) over
        its measured entries in usable columns; mean and deviation of the columns are computed anew. This
        takes away what a source gives to all targets alike. Deviation: the paper does not do this; on real
        tasks 13 to 21 % of the variance of the standardised scores is such an effect.
    min_entries
        The least number of scores that a column must have, 2 or more. With two, one is always high and the
        other low, whatever they are; hence the default of 3.

    Returns
    -------
    FilteredScores
        Y, where it is observed, and the verdict on every pair with its reason.

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
    >>> filtered.observed.toarray().astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1],
           [1, 1, 1, 1],
           [0, 1, 1, 1]])
    >>> filtered.explain(2)
    "'a' and 'd': uncertain, low one way, middling the other"
    """
    check_choice("rule", rule, RULES)
    p_high, p_low = check_share("p_high", p_high), check_share("p_low", p_low)
    is_integer = isinstance(min_entries, int | np.integer) and not isinstance(min_entries, bool)
    if not is_integer or min_entries < 2:
        raise UsageError(
            "min_entries cannot be used", got=quote(min_entries), expected="a whole number, 2 or more"
        )

    # The diagonal never takes part; from here on it is as if it had not been given.
    entries = np.flatnonzero(scores.off_diagonal)
    source, target = scores.source[entries], scores.target[entries]
    columns = standardise_columns(target, scores.score[entries], n_tasks=scores.n_tasks)
    count = columns.count
    usable = columns.has_spread & (count >= min_entries)
    if remove_donor_effect:
        kept = usable[target]
        entries, source, target = entries[kept], source[kept], target[kept]
        residual = columns.standardised[kept]
        residual -= row_means(source, residual, scores.n_tasks)[source]
        # Residuals come from numbers of about 1 to sqrt(n): what they lose by rounding is in that unit.
        size = np.sqrt(np.maximum(count, 1.0))
        columns = standardise_columns(target, residual, n_tasks=scores.n_tasks, size=size)
        usable &= columns.has_spread

    level = np.full(len(scores) + 1, UNMEASURED, dtype=np.int8)  # the last is that of a missing direction
    level[:-1] = UNUSABLE
    level[entries] = find_levels(columns.standardised, columns.tie[target], rule, p_high, p_low)
    level[entries[~usable[target]]] = UNUSABLE

    pairs = scores.pairs()
    verdict, reason = judge_pairs(level[pairs.forward], level[pairs.backward], rule)
    Y = build_similarity(pairs, verdict, scores.n_tasks)
    observed = csr_array((np.ones(Y.nnz, dtype=np.bool_), Y.indices.copy(), Y.indptr.copy()), shape=Y.shape)
    return FilteredScores(
        task_names=scores.task_names,
        Y=Y,
        observed=observed,
        first=pairs.first,
        second=pairs.second,
        verdict=verdict,
        reason=reason,
        column_count=count,
        column_mean=columns.mean,
        column_deviation=columns.deviation,
        column_usable=usable,
        min_entries=int(min_entries),
        rule=rule,
        p_high=p_high,
        p_low=p_low,
        remove_donor_effect=bool(remove_donor_effect),
    )


def check_share(option: str, value: float) -> float:
    """Refuse what is not a number of standard deviations."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise UsageError(f"{option} cannot be used", got=quote(value), expected="a finite number, 0 or more")
    return float(value)


def find_levels(
    standardised: NDArray[np.float64], tie: NDArray[np.float64], rule: str, p_high: float, p_low: float
) -> NDArray[np.int8]:
    """Say of each score where it stands in its column; ``S > mu + p sigma`` is ``(S - mu) / sigma > p``."""
    if rule == "any":
        return np.where(standardised >= -tie, HIGH, LOW).astype(np.int8)
    level = np.full(len(standardised), MIDDLING, dtype=np.int8)
    level[standardised > p_high + tie] = HIGH
    level[standardised < -(p_low + tie)] = LOW
    return level


def judge_pairs(
    forward: NDArray[np.int8], backward: NDArray[np.int8], rule: str
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Give verdict and reason of each pair from the levels of its two directions."""
    # Pairs of levels that a rule cannot give stay at -1, which no verdict is.
    verdicts = np.full((len(Level), len(Level)), -1, dtype=np.int8)
    reasons = verdicts.copy()
    for (one, other), (verdict, reason) in OUTCOMES[rule].items():
        verdicts[one, other] = verdicts[other, one] = verdict
        reasons[one, other] = reasons[other, one] = reason
    return verdicts[forward, backward], reasons[forward, backward]


def build_similarity(pairs: ScorePairs, verdict: NDArray[np.int8], n_tasks: int) -> csr_array[np.float64]:
    """Put the verdicts into a symmetric matrix, zeros stored, with ones on the diagonal."""
    known = verdict != Verdict.UNCERTAIN
    first, second, value = pairs.first[known], pairs.second[known], verdict[known].astype(np.float64)
    # 32 bits where they suffice: half the memory, and what the compiled solvers like best.
    index = get_index_dtype(maxval=max(n_tasks, 2 * len(value) + n_tasks))
    first, second, diagonal = first.astype(index), second.astype(index), np.arange(n_tasks, dtype=index)
    rows = np.concatenate([first, second, diagonal])
    columns = np.concatenate([second, first, diagonal])
    values = np.concatenate([value, value, np.ones(n_tasks)])
    Y = csr_array((values, (rows, columns)), shape=(n_tasks, n_tasks))
    Y.sort_indices()
    return Y

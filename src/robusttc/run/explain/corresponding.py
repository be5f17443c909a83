"""Which labels of two tasks mean the same, from counts of how each task answers the other's texts.

A *table* counts, for every label of one task, which label its texts have in the other task: the one that they
were given where the other task has them too, else the one that its model predicts; the last column is for
texts that fit none. Chance is what the table itself shows: a label that catches everything catches the texts
of every label, and corresponds to none. A pair of labels is only looked at where Fisher's exact test says in
both directions that their texts meet more often than chance has it. All tests of one explanation are one
family: of the pairs that pass, at most 5 % are expected to be chance (Benjamini and Hochberg). What a pair is
then follows from Wilson's intervals of the two shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control, hypergeom

from robusttc.models import label_words
from robusttc.stats import Estimate, share_interval

__all__ = ["LEVEL", "MIN_TEXTS", "CrossTables", "LabelRelation", "adjust_together", "find_relations"]

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]
Kind = Literal["corresponds", "contained", "contains", "overlaps"]

# Of fewer texts nothing is said: with four, all of them must go one way for a share to be above a half.
MIN_TEXTS = 4
LEVEL = 0.05
MOST = 0.5
KINDS: tuple[Kind, ...] = ("corresponds", "contained", "contains", "overlaps")


@dataclass(frozen=True, slots=True, eq=False)
class CrossTables:
    """How two tasks answer each other's texts.

    Attributes
    ----------
    task, label_names
        The other task, and its labels.
    own_label_names
        The labels of the task that is explained.
    forward
        Shape (own labels, other labels + 1): which label of the other task the texts of every own label have
        there; the last column counts those that fit none.
    backward
        Shape (other labels, own labels + 1): the same the other way round.
    common
        Shape (own labels, other labels): the texts that both tasks have, by the labels that they have. These
        are counted in the other two tables as well.
    """

    task: str
    label_names: tuple[str, ...]
    own_label_names: tuple[str, ...]
    forward: Counts
    backward: Counts
    common: Counts


@dataclass(frozen=True, slots=True)
class LabelRelation:
    """What a label of the explained task has to do with one of another task.

    Attributes
    ----------
    kind
        ``corresponds``: most texts of each are the other's. ``contained``: the other label has most texts of
        this one, and others beside. ``contains``: the other way round. ``overlaps``: one has most of the
        other's texts; whether that holds the other way round, too, cannot be told.
    label, task, other_label
        The label, the other task, and its label.
    forward, backward
        The share of the label's texts that are the other label's there, and the other way round.
    forward_chance, backward_chance
        The same shares for the texts of all other labels.
    p_value
        The larger of the two adjusted p-values.
    n_common
        How many of these texts both tasks have, the one with this label, the other with that. All others are
        predicted by models that have not seen them.
    same_name
        Whether the labels have the same words as names.
    """

    kind: Kind
    label: str
    task: str
    other_label: str
    forward: Estimate
    backward: Estimate
    forward_chance: float
    backward_chance: float
    p_value: float
    n_common: int
    same_name: bool

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            **asdict(self),
            "forward": self.forward.to_dict(),
            "backward": self.backward.to_dict(),
        }


def find_relations(tables: Sequence[CrossTables]) -> tuple[LabelRelation, ...]:
    """Find the labels of other tasks that have to do with those of the explained one.

    Parameters
    ----------
    tables
        One a task that it is compared with. Their order changes nothing.

    Returns
    -------
    tuple of LabelRelation
        At most one a pair of labels, in the order of the label, the kind and the share.

    Examples
    --------
    >>> forward = np.array([[9, 1, 0], [0, 9, 1]])
    >>> tables = CrossTables("b", ("hello", "bye"), ("greet", "leave"), forward, forward, 0 * forward[:, :2])
    >>> [(one.kind, one.label, one.other_label) for one in find_relations([tables])]
    [('corresponds', 'greet', 'hello'), ('corresponds', 'leave', 'bye')]
    """
    tests = [judge_cells(counts) for one in tables for counts in (one.forward, one.backward)]
    adjusted = adjust_together([values for values, _ in tests], [tested for _, tested in tests])
    found: list[LabelRelation] = []
    for one, there, back in zip(tables, adjusted[::2], adjusted[1::2], strict=True):
        found += relate(one, there, back)
    return tuple(sorted(found, key=in_order))


def in_order(relation: LabelRelation) -> tuple[Any, ...]:
    """Sort by label, then the surest kind, then the larger share."""
    share = -(relation.forward.mean + relation.backward.mean)
    return relation.label, KINDS.index(relation.kind), share, relation.task, relation.other_label


def judge_cells(counts: Counts) -> tuple[Shares, NDArray[np.bool_]]:
    """Test every cell of a table: Fisher's exact test, one-sided, and which cells can be tested at all."""
    rows, columns = counts.sum(axis=1), counts[:, :-1].sum(axis=0)
    tested = (rows >= MIN_TEXTS)[:, None] & (columns > 0)[None, :]
    values = hypergeom.sf(counts[:, :-1] - 1, rows.sum(), rows[:, None], columns[None, :])
    return np.where(tested, np.clip(np.nan_to_num(values, nan=1.0), 0.0, 1.0), 1.0), tested


def adjust_together(values: Sequence[Shares], tested: Sequence[NDArray[np.bool_]]) -> list[Shares]:
    """Adjust the p-values of several tables as one family; what was not tested is 1.

    Examples
    --------
    >>> values, tested = np.array([[0.01, 0.9]]), np.array([[True, False]])
    >>> adjust_together([values, values], [tested, tested])[0].tolist()
    [[0.01, 1.0]]
    """
    flat = [table[mask] for table, mask in zip(values, tested, strict=True)]
    family = np.concatenate(flat) if flat else np.zeros(0)
    adjusted = false_discovery_control(family) if len(family) else family
    result, begin = [], 0
    for mask in tested:
        table = np.ones(mask.shape)
        end = begin + int(mask.sum())
        table[mask] = adjusted[begin:end]
        result.append(table)
        begin = end
    return result


def relate(tables: CrossTables, there: Shares, back: Shares) -> list[LabelRelation]:
    """Name the relation of every pair of labels whose texts meet both ways, by adjusted p-values."""
    found = []
    for own, other in zip(*np.nonzero((there < LEVEL) & (back.T < LEVEL)), strict=True):
        forward = share_interval(int(tables.forward[own, other]), int(tables.forward[own].sum()))
        backward = share_interval(int(tables.backward[other, own]), int(tables.backward[other].sum()))
        kind = name_kind(forward, backward)
        if kind is None:
            continue
        name, other_name = tables.own_label_names[own], tables.label_names[other]
        found.append(
            LabelRelation(
                kind,
                name,
                tables.task,
                other_name,
                forward,
                backward,
                chance_of(tables.forward, own, other),
                chance_of(tables.backward, other, own),
                float(max(there[own, other], back[other, own])),
                int(tables.common[own, other]),
                label_words(name) == label_words(other_name),
            )
        )
    return found


def name_kind(forward: Estimate, backward: Estimate) -> Kind | None:
    """Say what two labels are to each other by the shares of their texts; None for nothing much.

    Examples
    --------
    >>> name_kind(share_interval(19, 20), share_interval(9, 20))
    'contained'
    """
    if min(forward.n, backward.n) < MIN_TEXTS:
        return None
    goes, comes = forward.low > MOST, backward.low > MOST
    if goes and comes:
        return "corresponds"
    if goes and backward.high < forward.low:
        return "contained"
    if comes and forward.high < backward.low:
        return "contains"
    return "overlaps" if goes or comes else None


def chance_of(counts: Counts, row: int, column: int) -> float:
    """Give the share of the texts of all other labels that get a label."""
    n_others = int(counts.sum() - counts[row].sum())
    n_there = int(counts[:, column].sum() - counts[row, column])
    return n_there / n_others if n_others else 0.0

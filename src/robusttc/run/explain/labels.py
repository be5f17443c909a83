"""Label matching and label conflicts, from counts of how each of two tasks predicts the other's texts.

A *cross table* counts, for every label of one task, which label its texts have in the other task: the one
that they were given where the other task has them too, else the one that its model predicts; the last column
is for texts that fit none. Chance is what the table itself shows: a label that catches everything catches the
texts of every label, and matches none. A pair of labels is only looked at where Fisher's exact test says in
both directions that their texts meet more often than chance has it. All tests of one explanation are one
family: of the pairs that pass, at most 5 % are expected to be chance (Benjamini and Hochberg). What a pair is
then follows from Wilson's intervals of the two shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, false_discovery_control, hypergeom

from robusttc.formatting import count
from robusttc.models import label_words, name_as_text
from robusttc.stats import Estimate, share_interval

__all__ = [
    "KINDS",
    "CommonText",
    "CrossTable",
    "LabelConflict",
    "LabelMatch",
    "find_conflicts",
    "find_matches",
]

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]
Kind = Literal["corresponds", "contained", "contains", "overlaps"]
Reason = Literal["same name, other texts", "same text, other label"]
Whose = Literal["own", "other", "both"]

# Of fewer texts nothing is said: with four, all of them must go one way for a share to be above a half.
MIN_TEXTS = 4
LEVEL = 0.05
MOST = 0.5
KINDS: tuple[Kind, ...] = ("corresponds", "contained", "contains", "overlaps")


@dataclass(frozen=True, slots=True, eq=False)
class CrossTable:
    """How two tasks predict each other's texts; the last column of a table counts those that fit none."""

    task: str  # the other task
    label_names: tuple[str, ...]
    own_label_names: tuple[str, ...]
    forward: Counts  # (own labels, other labels + 1): the label there of the texts of every own label
    backward: Counts  # (other labels, own labels + 1): the same the other way round
    common: Counts  # (own labels, other labels): texts that both have; counted in the other two as well


@dataclass(frozen=True, slots=True)
class LabelMatch:
    """How a label of the explained task is related to one of another task.

    It ``corresponds`` if most texts of each are the other's; it is ``contained`` if the other label has most
    of its texts, and others beside; it ``contains`` the other the other way round; they are ``overlaps`` if
    one has most of the other's texts, and whether that holds the other way round cannot be told.
    """

    kind: Kind
    label: str
    task: str
    other_label: str
    forward: Estimate  # the share of the label's texts that are the other label's there
    backward: Estimate  # the other way round
    forward_chance: float  # the same shares for the texts of all other labels
    backward_chance: float
    p_value: float  # the larger of the two adjusted ones
    n_common: (
        int  # texts that both tasks have with these labels; all others are predicted, by models new to them
    )
    same_name: bool  # whether the labels have the same words as names


@dataclass(frozen=True, slots=True)
class CommonText:
    """A text that two tasks have, with its label in the explained one and in the other."""

    text: str
    label: str
    other_label: str


@dataclass(frozen=True, slots=True)
class LabelConflict:
    """A disagreement between a label of the explained task and one of another task.

    ``same name, other texts``: the labels have the same name, but the texts of one are not what the other
    task takes for it. ``same text, other label``: both tasks have some texts, and could have given them the
    same label, but have not; these have no shares.
    """

    reason: Reason
    label: str
    task: str
    other_label: str
    whose: Whose  # whose texts go elsewhere; both if most texts of each fit no label of the other task
    goes_to: str | None  # the label that most get instead, in the task that they are not of; None for none
    share: (
        Estimate | None
    )  # of these texts (of the explained task's, for both) that get the label of that name
    share_elsewhere: Estimate | None  # of those that go elsewhere
    n_texts: int  # that this rests on
    texts: tuple[str, ...] = ()  # those in dispute, for the second reason

    @property
    def sentence(self) -> str:
        """What two tasks disagree about."""
        if self.share is None:
            texts = count(self.n_texts, "text")
            return f"{texts} of both tasks: {self.label} here, {self.other_label} in {self.task}"
        kept = f"{100 * self.share.mean:.0f}% of {self.n_texts:,} keep the name"
        if self.whose == "both":
            unlike = "but neither's texts are like the other's"
            return f"{self.label}: the same name in {self.task}, {unlike} ({kept})"
        whose, there = ("its", f"in {self.task}") if self.whose == "own" else (f"{self.task}'s", "here")
        return f"{self.label}: most of {whose} texts of that name are {self.goes_to} {there} ({kept})"


def find_matches(tables: Sequence[CrossTable]) -> tuple[LabelMatch, ...]:
    """Return the labels of other tasks that are related to those of the explained one.

    There is one table per task that it is compared with; their order changes nothing. The matches are at most
    one per pair of labels, in the order of the label, the kind and the share.

    Examples
    --------
    >>> forward = np.array([[9, 1, 0], [0, 9, 1]])
    >>> table = CrossTable("b", ("hello", "bye"), ("greet", "leave"), forward, forward, 0 * forward[:, :2])
    >>> [(one.kind, one.label, one.other_label) for one in find_matches([table])]
    [('corresponds', 'greet', 'hello'), ('corresponds', 'leave', 'bye')]
    """
    tests = [judge_cells(counts) for one in tables for counts in (one.forward, one.backward)]
    adjusted = adjust_together([values for values, _ in tests], [tested for _, tested in tests])
    found: list[LabelMatch] = []
    for one, there, back in zip(tables, adjusted[::2], adjusted[1::2], strict=True):
        found += match_labels(one, there, back)
    share = {one: -(one.forward.mean + one.backward.mean) for one in found}
    return tuple(
        sorted(
            found, key=lambda one: (one.label, KINDS.index(one.kind), share[one], one.task, one.other_label)
        )
    )


def judge_cells(counts: Counts) -> tuple[Shares, NDArray[np.bool_]]:
    """Test every cell of a table: Fisher's exact test, one-sided, and which cells can be tested at all."""
    rows, columns = counts.sum(axis=1), counts[:, :-1].sum(axis=0)
    tested = (rows >= MIN_TEXTS)[:, None] & (columns > 0)[None, :]
    values = hypergeom.sf(counts[:, :-1] - 1, rows.sum(), rows[:, None], columns[None, :])
    return np.where(tested, np.clip(np.nan_to_num(values, nan=1.0), 0.0, 1.0), 1.0), tested


def adjust_together(values: Sequence[Shares], tested: Sequence[NDArray[np.bool_]]) -> list[Shares]:
    """Adjust the p-values of several tables as one family; what was not tested is 1.

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


def match_labels(table: CrossTable, there: Shares, back: Shares) -> list[LabelMatch]:
    """Name the relation of every pair of labels whose texts meet both ways, by adjusted p-values."""
    found = []
    for own, other in zip(*np.nonzero((there < LEVEL) & (back.T < LEVEL)), strict=True):
        forward = share_interval(int(table.forward[own, other]), int(table.forward[own].sum()))
        backward = share_interval(int(table.backward[other, own]), int(table.backward[other].sum()))
        kind = name_kind(forward, backward)
        if kind is None:
            continue
        name, other_name = table.own_label_names[own], table.label_names[other]
        found.append(
            LabelMatch(
                kind,
                name,
                table.task,
                other_name,
                forward,
                backward,
                chance_of(table.forward, own, other),
                chance_of(table.backward, other, own),
                float(max(there[own, other], back[other, own])),
                int(table.common[own, other]),
                label_words(name) == label_words(other_name),
            )
        )
    return found


def name_kind(forward: Estimate, backward: Estimate) -> Kind | None:
    """Say what two labels are to each other by the shares of their texts; None for nothing much.

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
    """Return the share of the texts of all other labels that get a label."""
    n_others = int(counts.sum() - counts[row].sum())
    n_there = int(counts[:, column].sum() - counts[row, column])
    return n_there / n_others if n_others else 0.0


def find_conflicts(
    tables: Sequence[CrossTable],
    common: Mapping[str, Sequence[CommonText]],
    matches: Sequence[LabelMatch],
) -> tuple[LabelConflict, ...]:
    """Return where the labels of other tasks disagree with those of the explained one.

    `common` has the texts that each of the other tasks has too, by its name; `matches` is what `find_matches`
    returned for the same tables: labels that match do not conflict.

    Examples
    --------
    >>> forward = np.array([[1, 11, 0], [11, 1, 0]])
    >>> table = CrossTable("b", ("pay", "send"), ("pay", "send"), forward, forward, 0 * forward[:, :2])
    >>> [(one.label, one.goes_to) for one in find_conflicts([table], {}, []) if one.whose == "own"]
    [('pay', 'send'), ('send', 'pay')]
    """
    found = name_conflicts(tables, {(one.label, one.task, one.other_label) for one in matches})
    for one in tables:
        found += text_conflicts(one, common.get(one.task, ()), matches)
    return tuple(sorted(found, key=lambda one: (one.reason, one.label, -one.n_texts, one.task, one.whose)))


class Elsewhere(NamedTuple):
    """Where most texts of a label go that do not get the label of the same name, and the two shares."""

    goes_to: str | None
    share: Estimate
    elsewhere: Estimate


def name_conflicts(tables: Sequence[CrossTable], matched: set[tuple[str, str, str]]) -> list[LabelConflict]:
    """Return labels of the same name whose texts go elsewhere; all tests are one family."""
    asked = [
        (one, own, other)
        for one in tables
        for own, other in same_names(one)
        if (one.own_label_names[own], one.task, one.label_names[other]) not in matched
    ]
    both = [((one.forward[own], other), (one.backward[other], own)) for one, own, other in asked]
    # The chance of so few texts, or fewer, if half of them had the label of the same name.
    values = [
        np.array([float(binom.cdf(counts[place], counts.sum(), MOST)) for counts, place in pair])
        for pair in both
    ]
    tested = [np.array([counts.sum() >= MIN_TEXTS for counts, _ in pair]) for pair in both]
    found = []
    for (one, own, other), pair, adjusted in zip(asked, both, adjust_together(values, tested), strict=True):
        names = one.label_names, one.own_label_names
        there, here = (
            find_elsewhere(counts, place, labels) if value < LEVEL else None
            for (counts, place), labels, value in zip(pair, names, adjusted, strict=True)
        )
        sides: tuple[tuple[Whose, Elsewhere | None], ...] = (("own", there), ("other", here))
        clashes = [
            (whose, clash) for whose, clash in sides if clash is not None and clash.goes_to is not None
        ]
        # Texts that fit no label may only be worded otherwise, unless it is so both ways.
        if there is not None and here is not None and there.goes_to is None and here.goes_to is None:
            clashes = [("both", there)]
        names_of = one.own_label_names[own], one.task, one.label_names[other]
        found += [
            LabelConflict("same name, other texts", *names_of, whose, *clash, clash.share.n)
            for whose, clash in clashes
        ]
    return found


def find_elsewhere(counts: Counts, place: int, names: tuple[str, ...]) -> Elsewhere | None:
    """Say where most texts go; None unless that is clearly more than get the label at a place."""
    others = counts.copy()
    others[place] = -1
    most = int(others.argmax())
    n_texts = int(counts.sum())
    share = share_interval(int(counts[place]), n_texts)
    elsewhere = share_interval(int(counts[most]), n_texts)
    if elsewhere.low <= share.high:
        return None
    return Elsewhere(names[most] if most < len(names) else None, share, elsewhere)


def same_names(table: CrossTable) -> list[tuple[int, int]]:
    """Return the places of labels that have the same words as names; names without words say nothing."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(table.label_names):
        if name_as_text(name) is not None:
            places.setdefault(label_words(name), []).append(place)
    return [
        (own, other)
        for own, name in enumerate(table.own_label_names)
        for other in places.get(label_words(name), ())
    ]


def text_conflicts(
    table: CrossTable, common: Sequence[CommonText], matches: Sequence[LabelMatch]
) -> list[LabelConflict]:
    """Return texts in common that could have had the same label in both tasks, and have not.

    They could have if one of their labels is there in the other task too, by its name, or corresponds to
    another label there.
    """
    here = [one for one in matches if one.task == table.task]
    sure = {(one.label, one.other_label) for one in here if one.kind == "corresponds"}
    named = {(table.own_label_names[own], table.label_names[other]) for own, other in same_names(table)}
    agreed = named | {(one.label, one.other_label) for one in here}
    own_known, other_known = ({pair[place] for pair in named | sure} for place in (0, 1))
    disputed: dict[tuple[str, str], list[str]] = {}
    for one in common:
        pair = (one.label, one.other_label)
        if pair not in agreed and (one.label in own_known or one.other_label in other_known):
            disputed.setdefault(pair, []).append(one.text)
    return [
        LabelConflict(
            *("same text, other label", label, table.task, other, "both", None, None, None),
            n_texts=len(texts),
            texts=tuple(sorted(texts)),
        )
        for (label, other), texts in disputed.items()
    ]

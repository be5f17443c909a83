"""Labels of two tasks that disagree: one name for different texts, or one text with different labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from robusttc.models import label_words, name_as_text
from robusttc.run.explain.corresponding import (
    LEVEL,
    MIN_TEXTS,
    MOST,
    CrossTables,
    LabelRelation,
    adjust_together,
)
from robusttc.stats import Estimate, share_interval

__all__ = ["CommonText", "LabelConflict", "find_conflicts"]

Counts = NDArray[np.int64]
Reason = Literal["same name, other texts", "same text, other label"]
Whose = Literal["own", "other", "both"]


@dataclass(frozen=True, slots=True)
class CommonText:
    """A text that two tasks have, with its label in the explained one and in the other."""

    text: str
    label: str
    other_label: str


@dataclass(frozen=True, slots=True)
class LabelConflict:
    """A disagreement between a label of the explained task and one of another task.

    Attributes
    ----------
    reason
        ``same name, other texts``: the labels have the same name, but the texts of one are not what the
        other task takes for it. ``same text, other label``: both tasks have some texts, and could have given
        them the same label, but have not.
    label, task, other_label
        The label, the other task, and its label.
    whose
        For the first reason, whose texts go elsewhere: ``own``, ``other``, or ``both``, if most texts of each
        fit no label of the other task at all; for the second ``both``.
    goes_to
        For the first reason, the label that most of these texts get instead: one of the other task for own
        texts, of the explained one for the others; None where they fit none.
    share, share_elsewhere
        For the first reason, the share of these texts (of the explained task's, for ``both``) that get the
        label of the same name, and that of those that go elsewhere; None for the second.
    n_texts
        On how many texts this rests.
    texts
        For the second reason, the texts.
    """

    reason: Reason
    label: str
    task: str
    other_label: str
    whose: Whose
    goes_to: str | None
    share: Estimate | None
    share_elsewhere: Estimate | None
    n_texts: int
    texts: tuple[str, ...] = ()

    def to_dict(self, *, show_texts: bool = False) -> dict[str, Any]:
        """Give it as values for JSON; the texts themselves only if they are asked for."""
        return {
            "reason": self.reason,
            "label": self.label,
            "task": self.task,
            "other_label": self.other_label,
            "whose": self.whose,
            "goes_to": self.goes_to,
            "share": None if self.share is None else self.share.to_dict(),
            "share_elsewhere": None if self.share_elsewhere is None else self.share_elsewhere.to_dict(),
            "n_texts": self.n_texts,
            "texts": list(self.texts) if show_texts else None,
        }


def find_conflicts(
    tables: Sequence[CrossTables],
    common: Mapping[str, Sequence[CommonText]],
    relations: Sequence[LabelRelation],
) -> tuple[LabelConflict, ...]:
    """Find where the labels of other tasks disagree with those of the explained one.

    Parameters
    ----------
    tables
        One a task that it is compared with.
    common
        The texts that each of these has too, by its name.
    relations
        What `robusttc.run.explain.corresponding.find_relations` found: related labels do not conflict.

    Examples
    --------
    >>> forward = np.array([[1, 11, 0], [11, 1, 0]])
    >>> tables = CrossTables("b", ("pay", "send"), ("pay", "send"), forward, forward, 0 * forward[:, :2])
    >>> [(one.label, one.goes_to) for one in find_conflicts([tables], {}, []) if one.whose == "own"]
    [('pay', 'send'), ('send', 'pay')]
    """
    found = find_clashes(tables, {(one.label, one.task, one.other_label) for one in relations})
    for one in tables:
        found += find_disputes(one, common.get(one.task, ()), relations)
    return tuple(sorted(found, key=lambda one: (one.reason, one.label, -one.n_texts, one.task, one.whose)))


def find_clashes(tables: Sequence[CrossTables], related: set[tuple[str, str, str]]) -> list[LabelConflict]:
    """Find labels of the same name whose texts go elsewhere; all tests are one family."""
    asked = [
        (one, own, other)
        for one in tables
        for own, other in same_names(one)
        if (one.own_label_names[own], one.task, one.label_names[other]) not in related
    ]
    both = [((one.forward[own], other), (one.backward[other], own)) for one, own, other in asked]
    values = [np.array([chance_of_most(*forward), chance_of_most(*backward)]) for forward, backward in both]
    tested = [np.array([counts.sum() >= MIN_TEXTS for counts, _ in pair]) for pair in both]
    found = []
    for (one, own, other), pair, adjusted in zip(asked, both, adjust_together(values, tested), strict=True):
        name, other_name = one.own_label_names[own], one.label_names[other]
        there, here = (
            goes_elsewhere(counts, place, names) if value < LEVEL else None
            for (counts, place), names, value in zip(
                pair, (one.label_names, one.own_label_names), adjusted, strict=True
            )
        )
        unknown = [clash is not None and clash.goes_to is None for clash in (there, here)]
        for clash, whose in ((there, "own"), (here, "other")):
            # Texts that fit no label may only be worded otherwise, unless it is so both ways.
            if clash is None or (clash.goes_to is None and (whose == "other" or not all(unknown))):
                continue
            who: Whose = "both" if clash.goes_to is None else "own" if whose == "own" else "other"
            found.append(
                LabelConflict(
                    "same name, other texts",
                    name,
                    one.task,
                    other_name,
                    who,
                    clash.goes_to,
                    clash.share,
                    clash.elsewhere,
                    clash.share.n,
                )
            )
    return found


@dataclass(frozen=True, slots=True)
class Clash:
    """Texts of a label that do not get the label of the same name: where most go, and the two shares."""

    goes_to: str | None
    share: Estimate
    elsewhere: Estimate


def chance_of_most(counts: Counts, place: int) -> float:
    """Give the chance of so few texts, or fewer, if half of them had the label at a place."""
    return float(binom.cdf(counts[place], counts.sum(), MOST))


def goes_elsewhere(counts: Counts, place: int, names: tuple[str, ...]) -> Clash | None:
    """Say where most texts go; None unless that is clearly more than get the label at a place."""
    others = counts.copy()
    others[place] = -1
    most = int(others.argmax())
    n_texts = int(counts.sum())
    share = share_interval(int(counts[place]), n_texts)
    elsewhere = share_interval(int(counts[most]), n_texts)
    if elsewhere.low <= share.high:
        return None
    return Clash(names[most] if most < len(names) else None, share, elsewhere)


def same_names(tables: CrossTables) -> list[tuple[int, int]]:
    """Give the places of labels that have the same words as names; names without words say nothing."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(tables.label_names):
        if name_as_text(name) is not None:
            places.setdefault(label_words(name), []).append(place)
    return [
        (own, other)
        for own, name in enumerate(tables.own_label_names)
        for other in places.get(label_words(name), ())
    ]


def find_disputes(
    tables: CrossTables, common: Sequence[CommonText], relations: Sequence[LabelRelation]
) -> list[LabelConflict]:
    """Find texts in common that could have had the same label in both tasks, and have not.

    They could have if one of their labels is there in the other task too, by its name, or corresponds to
    another label there.
    """
    here = [one for one in relations if one.task == tables.task]
    sure = {(one.label, one.other_label) for one in here if one.kind == "corresponds"}
    named = set(named_pairs(tables))
    agreed = named | {(one.label, one.other_label) for one in here}
    own_known, other_known = ({pair[place] for pair in named | sure} for place in (0, 1))
    disputed: dict[tuple[str, str], list[str]] = {}
    for one in common:
        pair = (one.label, one.other_label)
        if pair not in agreed and (one.label in own_known or one.other_label in other_known):
            disputed.setdefault(pair, []).append(one.text)
    return [
        LabelConflict(
            "same text, other label",
            label,
            tables.task,
            other,
            "both",
            None,
            None,
            None,
            len(texts),
            tuple(sorted(texts)),
        )
        for (label, other), texts in disputed.items()
    ]


def named_pairs(tables: CrossTables) -> list[tuple[str, str]]:
    """Give the labels that have the same words as names."""
    return [(tables.own_label_names[own], tables.label_names[other]) for own, other in same_names(tables)]

"""How the labels of a task stand to those of others, as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from robusttc.cli.console import (
    cut,
    make_table,
    name,
    percent,
    print_examples,
    print_more,
    print_table,
    print_title,
    print_wrapped,
)
from robusttc.formatting import count
from robusttc.run.explain.conflicting import LabelConflict
from robusttc.run.explain.corresponding import KINDS, LabelRelation
from robusttc.run.explain.explained_labels import LabelMap

__all__ = ["show_labels"]

SIGNS = {"corresponds": "=", "contained": "<", "contains": ">", "overlaps": "~"}
LEGEND = (
    "Labels of other tasks (= the same, < this one lies within it, > this one contains it, ~ they overlap); "
    "there: % of this label's texts that are that label's [95 % interval]; back: the other way round; "
    "at most 5 % of these are expected to be chance"
)


def show_labels(console: Console, labels: LabelMap, limit: int, *, show_texts: bool) -> None:
    """Print the labels of other tasks that have to do with those of the task."""
    if labels.relations:
        print_title(console, LEGEND)
        table = make_table("label", "", "that label", "of task", "there", "back", n_names=4, name_width=16)
        chosen = best_first(labels.relations, limit)
        for one in chosen:
            table.add_row(
                name(one.label),
                SIGNS[one.kind],
                name(one.other_label),
                name(one.task),
                percent(one.forward, decimals=0),
                percent(one.backward, decimals=0),
            )
        print_table(console, table)
        print_more(console, len(labels.relations), len(chosen))
    if labels.conflicts:
        print_title(console, "Conflicts between labels")
        for conflict in cut(labels.conflicts, limit):
            print_wrapped(console, f"• {word_conflict(conflict)}", indent=2)
            if show_texts:
                print_examples(console, conflict.texts)
        print_more(console, len(labels.conflicts), len(cut(labels.conflicts, limit)))
    if labels.thin:
        thin = ", ".join(str(name(label)) for label in cut(labels.thin, limit))
        more = " …" if limit and len(labels.thin) > limit else ""
        print_title(console, f"Too few texts to compare: {thin}{more}")


def best_first(relations: Sequence[LabelRelation], limit: int) -> Sequence[LabelRelation]:
    """Give all relations; where there are too many, the best of every label, the surest kinds first."""
    if not limit or len(relations) <= limit:
        return relations
    rank = {relation: place for place, relation in enumerate(relations)}
    best: dict[str, LabelRelation] = {}
    for one in relations:  # those of a label come with the surest first
        best.setdefault(one.label, one)
    ordered = sorted(relations, key=lambda one: (best[one.label] != one, KINDS.index(one.kind), rank[one]))
    return sorted(ordered[:limit], key=lambda one: rank[one])


def word_conflict(conflict: LabelConflict) -> str:
    """Say what two tasks disagree about."""
    label, other, task = name(conflict.label), name(conflict.other_label), name(conflict.task)
    if conflict.share is None:
        return f"{count(conflict.n_texts, 'text')} of both tasks: {label} here, {other} in {task}"
    kept = f"{100 * conflict.share.mean:.0f}% of {conflict.n_texts:,} keep the name"
    if conflict.whose == "both":
        return f"{label}: the same name in {task}, but neither's texts are like the other's ({kept})"
    whose, there = ("its", f"in {task}") if conflict.whose == "own" else (f"{task}'s", "here")
    return f"{label}: most of {whose} texts of that name are {name(conflict.goes_to or '')} {there} ({kept})"

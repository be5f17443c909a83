"""`robusttc explain`: why a task is where it is, what sharing gave it, and what to label next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robusttc.cli.console import (
    cut,
    make_table,
    name,
    output_console,
    percent,
    print_examples,
    print_json,
    print_more,
    print_table,
    print_title,
    print_wrapped,
    show_working,
)
from robusttc.cli.options import DeviceOption, JsonOption, RunFolder
from robusttc.formatting import count

if TYPE_CHECKING:
    from robusttc.run.explain import Explanation, LabelMatch
    from robusttc.run.explain.cross_predictions import LabelComparison
    from robusttc.run.explain.place import Direction, MeasuredPair, Nearest
    from robusttc.run.explain.sharing import Sharing
    from robusttc.run.explain.weak_labels import WeakLabel

__all__ = ["explain", "show_explanation"]

SIGNS = {"corresponds": "=", "contained": "<", "contains": ">", "overlaps": "~"}
LEGEND = (
    "Labels of other tasks (= the same, < this one lies within it, > this one contains it, ~ they overlap); "
    "there: % of this label's texts that are that label's [95 % interval]; back: the other way round; "
    "at most 5 % of these are expected to be chance"
)
TEXTS = {"all": "", "novel": ", novel", "seen": ", seen elsewhere"}
COMPONENTS = ("own", "shared", "cluster", "served", "gain")
N_NEAREST = 5


def explain(
    run: RunFolder,
    task: Annotated[str, typer.Option(metavar="NAME", help="A task of the run.")],
    others: Annotated[
        int,
        typer.Option(min=0, max=1000, help="With how many of the nearest tasks its labels are compared."),
    ] = 8,
    limit: Annotated[
        int, typer.Option(min=0, help="How many lines a table has at the most; 0 shows all.")
    ] = 10,
    show_texts: Annotated[
        bool,
        typer.Option("--show-texts", help="Show texts: those that were missed, and those in dispute."),
    ] = False,
    gradients: Annotated[
        bool,
        typer.Option(
            "--gradients",
            help="Look for the sources of negative transfer by gradients, even if that takes minutes.",
        ),
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Explain one task: its cluster, its labels among those of others, and what to label next.

    Shows why it is in its cluster (the measured pairs for and against), its nearest tasks, labels of these
    that correspond to, contain or conflict with its own, what sharing gave it, and its weakest labels.
    """
    # Late, so that --help does not wait for SciPy and torch.
    from robusttc.run import open_run
    from robusttc.run.explain import explain_task

    with show_working("Comparing labels with the nearest tasks …"):
        opened = open_run(run, device=device)
        explanation = explain_task(opened, task, n_others=others, by_gradients=gradients)
    if json:
        print_json(explanation.to_dict(show_texts=show_texts))
    else:
        show_explanation(output_console(), explanation, limit=limit, show_texts=show_texts)


def show_explanation(
    console: Console, explanation: Explanation, *, limit: int = 10, show_texts: bool = False
) -> None:
    """Print an explanation, the answer first; a `limit` of 0 shows all lines of tables."""
    rows = ", ".join(f"{number:,} {split}" for split, number in explanation.n_rows.items() if number)
    labels = count(len(explanation.label_names), "label")
    facts = ", ".join(fact for fact in (rows and f"rows: {rows}", labels) if fact)
    print_wrapped(console, f"{explanation.task} ({facts})" if explanation.label_names else explanation.task)
    for sentence in explanation.sentences:
        print_wrapped(console, f"• {sentence}", indent=2)
    if explanation.cluster is not None and explanation.cluster.pairs:
        show_pairs(console, explanation.cluster.pairs, limit)
    show_nearest(console, explanation.nearest, limit)
    if explanation.cluster_weights:
        mixed = sorted(explanation.cluster_weights.items(), key=lambda entry: (-entry[1], entry[0]))
        print_wrapped(
            console, "Clusters that it mixes: " + ", ".join(f"{n} ({w:.0%})" for n, w in mixed) + "."
        )
    if explanation.labels is not None:
        show_labels(console, explanation.labels, limit, show_texts=show_texts)
    if explanation.sharing is not None:
        show_sharing(console, explanation.sharing)
    if explanation.weak_labels:
        show_weak_labels(console, explanation.weak_labels, limit, show_texts=show_texts)


def show_pairs(console: Console, pairs: Sequence[MeasuredPair], limit: int) -> None:
    """Print the pairs that speak for and against a task's cluster."""
    for side, words in (("for", "for its place"), ("against", "against it")):
        chosen = [pair for pair in pairs if pair.speaks == side]
        if not chosen:
            continue
        print_title(console, f"Measured pairs that speak {words} (score ± half of its 95 % interval)")
        # Tasks that came later were not completed, and have neither.
        has_matrices = any(pair.similarity is not None for pair in chosen)
        more = ("similarity", "outlier") if has_matrices else ()
        table = make_table("task", "cluster", "helps this one", "is helped", "same group", *more)
        for pair in cut(chosen, limit):
            table.add_row(
                name(pair.other),
                str(pair.cluster) if pair.cluster >= 0 else "",
                format_score(pair.to_task),
                format_score(pair.from_task),
                "" if pair.same_group is None else f"{pair.same_group:.0%}",
                *((format_number(pair.similarity), format_number(pair.outlier)) if has_matrices else ()),
            )
        print_table(console, table)
        print_more(console, len(chosen), len(cut(chosen, limit)))


def format_score(direction: Direction | None) -> str:
    """Return a score with half the width of its interval."""
    if direction is None:
        return "not measured"
    if direction.low is None or direction.high is None:
        return f"{direction.score:.2f}"
    return f"{direction.score:.2f} ±{(direction.high - direction.low) / 2:.2f}"


def format_number(value: float | None) -> str:
    """Return a number with two decimals; one that rounds to zero has no sign."""
    return "" if value is None else f"{round(value, 2) + 0.0:.2f}"


def show_nearest(console: Console, nearest: Nearest, limit: int) -> None:
    """Print the nearest tasks; one whose likeness is nothing is not near."""
    most = min(limit, N_NEAREST) if limit else 0
    similar = [(near.name, near.similarity or 0.0, ".2f") for near in nearest.by_similarity]
    measured = [(near.name, near.above_average or 0.0, "+.2f") for near in nearest.by_scores]
    for found, words in ((similar, "similarity"), (measured, "measured scores")):
        near = [(task, format(value, shape)) for task, value, shape in found if round(value, 2) > 0]
        if near:
            shown = ", ".join(f"{name(task)} ({value})" for task, value in cut(near, most))
            print_title(console, f"Nearest by {words}: {shown}")


def show_labels(console: Console, labels: LabelComparison, limit: int, *, show_texts: bool) -> None:
    """Print the labels of other tasks that match or conflict with those of the task."""
    if labels.matches:
        print_title(console, LEGEND)
        table = make_table("label", "", "that label", "of task", "there", "back", n_names=4, name_width=16)
        chosen = best_first(labels.matches, limit)
        for one in chosen:
            shares = (percent(share, decimals=0) for share in (one.forward, one.backward))
            table.add_row(name(one.label), SIGNS[one.kind], name(one.other_label), name(one.task), *shares)
        print_table(console, table)
        print_more(console, len(labels.matches), len(chosen))
    if labels.conflicts:
        print_title(console, "Conflicts between labels")
        for conflict in cut(labels.conflicts, limit):
            print_wrapped(console, f"• {name(conflict.sentence)}", indent=2)
            if show_texts:
                print_examples(console, conflict.texts)
        print_more(console, len(labels.conflicts), len(cut(labels.conflicts, limit)))
    if labels.too_few:
        few = ", ".join(str(name(label)) for label in cut(labels.too_few, limit))
        more = " …" if limit and len(labels.too_few) > limit else ""
        print_title(console, f"Too few texts to compare: {few}{more}")


def best_first(matches: Sequence[LabelMatch], limit: int) -> Sequence[LabelMatch]:
    """Return all matches; where there are too many, the best of every label, the surest kinds first."""
    if not limit or len(matches) <= limit:
        return matches
    kinds = tuple(SIGNS)
    rank = {match: place for place, match in enumerate(matches)}
    best: dict[str, LabelMatch] = {}
    for one in matches:  # those of a label come with the surest first
        best.setdefault(one.label, one)
    ordered = sorted(matches, key=lambda one: (best[one.label] != one, kinds.index(one.kind), rank[one]))
    return sorted(ordered[:limit], key=lambda one: rank[one])


def show_sharing(console: Console, sharing: Sharing) -> None:
    """Print the accuracy of each kind of model, and the sources of negative transfer."""
    for rows, figures in (("test", sharing.test), ("held-out", sharing.held_out)):
        if "served" not in figures.get("all", {}):
            continue
        print_title(console, f"Accuracy in % [95 % interval] on {rows} rows")
        headings = (f"{one['served'].n:,} rows{TEXTS[texts]}" for texts, one in figures.items())
        table = make_table("model", *headings)
        for kind in COMPONENTS:
            cells = [one.get(kind) for one in figures.values()]
            if any(cell is not None for cell in cells):
                label, sign = ("served - own", "+") if kind == "gain" else (kind, "")
                table.add_row(label, *(percent(cell, sign=sign) for cell in cells))
        print_table(console, table)
    if sharing.sources:
        sources = ", ".join(f"{name(source.task)} ({source.effect:.2f})" for source in sharing.sources)
        how = "by gradients" if sharing.method == "gradients" else "by measured scores"
        print_title(console, f"Likely sources of negative transfer ({how}): {sources}")
    elif sharing.is_harmed or sharing.is_doubtful:
        print_title(console, "No single task stands out as the source of negative transfer.")


def show_weak_labels(console: Console, labels: Sequence[WeakLabel], limit: int, *, show_texts: bool) -> None:
    """Print the labels that cost most: what to label next."""
    print_title(console, "What to label next: labels by how many of 100 texts are expected to be lost there")
    headings = ("label", "taken for", "lost", "% of held-out found", "train rows")
    table = make_table(*headings, n_names=2, name_width=19)
    chosen = cut(labels, limit)
    for one in chosen:
        recall = "none held out"
        if one.recall is not None:
            recall = f"{percent(one.recall, decimals=0)} of {one.recall.n:,}"
        confused = name(one.confused_with or "")
        table.add_row(name(one.label), confused, f"{one.lost_of_100:.1f}", recall, f"{one.n_train:,}")
    print_table(console, table)
    print_more(console, len(labels), len(chosen))
    for one in chosen if show_texts else ():
        if one.missed:
            print_wrapped(console, f"Missed of {name(one.label)}:")
            print_examples(console, one.missed)

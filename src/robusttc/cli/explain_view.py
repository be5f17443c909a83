"""An explanation of one task as text for people: at most 80 columns, the answer first."""

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
from robusttc.cli.explain_labels_view import show_labels
from robusttc.formatting import count
from robusttc.run.evaluation import KINDS
from robusttc.run.explain.explained_pairs import Direction, MeasuredPair
from robusttc.run.explain.explained_sharing import Sharing
from robusttc.run.explain.explanation import Explanation
from robusttc.run.explain.neighbours import Nearest
from robusttc.run.explain.weak_labels import WeakLabel
from robusttc.stats import Estimate

__all__ = ["show_explanation"]


def show_explanation(
    console: Console, explanation: Explanation, *, limit: int = 10, show_texts: bool = False
) -> None:
    """Print an explanation.

    Parameters
    ----------
    console
        Where to.
    explanation
        What to print.
    limit
        How many lines a table has at the most; 0 shows all.
    show_texts
        Whether texts of the task are shown.
    """
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
        headings = ("cluster", "helps this one", "is helped", "same group", *more)
        table = make_table("task", *headings)
        for pair in cut(chosen, limit):
            table.add_row(
                name(pair.other),
                str(pair.cluster) if pair.cluster >= 0 else "",
                say_score(pair.to_task),
                say_score(pair.from_task),
                "" if pair.same_group is None else f"{pair.same_group:.0%}",
                *((number(pair.similarity), number(pair.outlier)) if has_matrices else ()),
            )
        print_table(console, table)
        print_more(console, len(chosen), len(cut(chosen, limit)))


def say_score(direction: Direction | None) -> str:
    """Show a score with half the width of its interval."""
    if direction is None:
        return "not measured"
    if direction.low is None or direction.high is None:
        return f"{direction.score:.2f}"
    return f"{direction.score:.2f} ±{(direction.high - direction.low) / 2:.2f}"


def number(value: float | None) -> str:
    """Show a number with two decimals; one that rounds to zero has no sign."""
    return "" if value is None else f"{round(value, 2) + 0.0:.2f}"


def show_nearest(console: Console, nearest: Nearest, limit: int) -> None:
    """Print the nearest tasks."""
    for chosen, words in ((nearest.by_similarity, "similarity"), (nearest.by_scores, "measured scores")):
        if not chosen:
            continue
        shown = []
        for near in cut(chosen, min(limit, 5) if limit else 0):
            value = near.similarity if words == "similarity" else near.above_average
            sign = "" if words == "similarity" else "+"
            shown.append(f"{name(near.name)} ({format(value or 0.0, f'{sign}.2f')})")
        print_title(console, f"Nearest by {words}: {', '.join(shown)}")


def show_sharing(console: Console, sharing: Sharing) -> None:
    """Print the accuracy of each kind of model, and who works against the task."""
    columns: dict[str, dict[str, Estimate | None]] = {}
    if sharing.test is not None and sharing.test.served is not None:
        columns[f"{sharing.test.n_rows:,} test rows"] = {
            kind: getattr(sharing.test, kind) for kind in (*KINDS, "gain")
        }
    if sharing.held_out is not None:
        held = sharing.held_out
        columns[f"{held.n_rows:,} held-out rows"] = {
            "own": held.own,
            "shared": held.shared,
            "cluster": held.in_cluster,
            "served": held.served,
            "gain": held.gain,
        }
    if columns:
        print_title(console, "Accuracy in % [95 % interval]")
        table = make_table("model", *columns)
        for kind in (*KINDS, "gain"):
            if not any(column[kind] for column in columns.values()):
                continue
            words = "served - own" if kind == "gain" else kind
            sign = "+" if kind == "gain" else ""
            table.add_row(words, *(percent(column[kind], sign=sign) for column in columns.values()))
        print_table(console, table)
    if sharing.culprits:
        who = ", ".join(f"{name(culprit.name)} ({culprit.blame:.2f})" for culprit in sharing.culprits)
        how = "their training works against it" if sharing.method == "gradients" else "they serve it badly"
        print_title(console, f"To blame, as far as can be told ({how}): {who}")
    elif sharing.is_harmed or sharing.is_doubtful:
        print_title(console, "No single task can be blamed.")


def show_weak_labels(console: Console, labels: Sequence[WeakLabel], limit: int, *, show_texts: bool) -> None:
    """Print the labels that cost most: what to label next."""
    print_title(console, "What to label next: labels by how many of 100 texts are expected to be lost there")
    table = make_table(
        "label", "taken for", "lost", "% of held-out found", "train rows", n_names=2, name_width=19
    )
    chosen = cut(labels, limit)
    for one in chosen:
        table.add_row(
            name(one.label),
            name(one.confused_with or ""),
            f"{one.lost_of_100:.1f}",
            "none held out"
            if one.recall is None
            else f"{percent(one.recall, decimals=0)} of {one.recall.n:,}",
            f"{one.n_train:,}",
        )
    print_table(console, table)
    print_more(console, len(labels), len(chosen))
    if show_texts:
        for one in chosen:
            if one.missed:
                print_wrapped(console, f"Missed of {name(one.label)}:")
                print_examples(console, one.missed)

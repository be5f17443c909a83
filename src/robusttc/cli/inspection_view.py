"""An inspection as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rich.console import Console
from rich.table import Table
from rich.text import Text

from robusttc.cli.console import without_controls
from robusttc.data import SPLITS, Inspection, LoadedTasks
from robusttc.encoders import DEFAULT_ENCODER
from robusttc.errors import quote
from robusttc.formatting import count

__all__ = ["show_inspection"]

MAX_EXAMPLES = 5


def show_inspection(
    console: Console,
    loaded: LoadedTasks,
    inspection: Inspection,
    limit: int,
    *,
    encoder: str = DEFAULT_ENCODER,
) -> None:
    """Print the table of tasks, the totals, and what is worth fixing before they are read with an encoder."""
    show_tasks(console, inspection, limit)
    splits = ", ".join(f"{n_rows:,} {split}" for split, n_rows in inspection.rows_by_split.items() if n_rows)
    kind = "identical label sets" if inspection.same_label_sets else "different label sets"
    say(
        console,
        f"\n{count(len(inspection.tasks), 'task')}, {count(inspection.n_rows, 'row')} ({splits}), "
        f"{inspection.n_distinct_texts:,} distinct texts, {inspection.n_labels:,} labels, {kind}.",
    )
    if loaded.n_skipped:
        say(console, f"Bad rows left out: {loaded.n_skipped:,}.")

    findings = describe_findings(inspection, encoder)
    if not findings:
        say(console, "\nNothing found that is worth mending.")
        return
    say(console, "\nWorth mending before training (--json lists all of it):")
    for title, examples in findings:
        say(console, f"  • {title}")
        for example in examples[:MAX_EXAMPLES]:
            say(console, f"      {example}")
        if len(examples) > MAX_EXAMPLES:
            say(console, f"      … and {len(examples) - MAX_EXAMPLES:,} more")


def say(console: Console, line: str) -> None:
    """Print one line as it is: names and texts of users are no mark-up."""
    console.print(without_controls(line), markup=False, soft_wrap=True)


def show_tasks(console: Console, inspection: Inspection, limit: int) -> None:
    """Print the table of tasks."""
    extra = [split for split in inspection.rows_by_split if split not in SPLITS]
    table = Table("task", box=None, pad_edge=False)
    for heading in ["rows", "labels", *SPLITS, *extra, "median words"]:
        table.add_column(heading, justify="right")
    shown = inspection.tasks[:limit] if limit else inspection.tasks
    for task in shown:
        counts = [f"{task.rows_by_split.get(split, 0):,}" for split in [*SPLITS, *extra]]
        numbers = [f"{task.n_rows:,}", f"{task.n_labels:,}", *counts, f"{task.median_words:g}"]
        table.add_row(Text(without_controls(task.task)), *numbers)
    console.print(table)
    if len(shown) < len(inspection.tasks):
        say(console, f"… and {len(inspection.tasks) - len(shown):,} more tasks (--limit 0 shows all)")


def describe_findings(inspection: Inspection, encoder: str) -> list[tuple[str, Sequence[str]]]:
    """Give each finding as a title and its examples."""
    findings: list[tuple[str, Sequence[str]]] = []
    if conflicts := inspection.conflicting_texts:
        n_tasks = len({conflict.task for conflict in conflicts})
        findings.append(
            (
                f"{count(len(conflicts), 'text')} with two or more labels, in {count(n_tasks, 'task')}: "
                "decide on one label",
                [f"{c.task}: {quote(c.text)} is {' and '.join(map(quote, c.labels))}" for c in conflicts],
            )
        )
    if thin := inspection.thin_labels:
        n_labels = sum(len(labels.training_rows) for labels in thin)
        findings.append(
            (
                f"{count(n_labels, 'label')} with fewer than 3 training rows, in {count(len(thin), 'task')}: "
                "add examples, or merge labels",
                [
                    f"{labels.task}: "
                    + ", ".join(
                        f"{quote(label)} ({n})" for label, n in islice(labels.training_rows.items(), 4)
                    )
                    + (" …" if len(labels.training_rows) > 4 else "")
                    for labels in thin
                ],
            )
        )
    if similar_labels := inspection.similar_labels:
        findings.append(
            (
                f"{count(len(similar_labels), 'group')} of labels that read the same: one label, or several?",
                [f"{similar.task}: {', '.join(map(quote, similar.labels))}" for similar in similar_labels],
            )
        )
    if similar_tasks := inspection.similar_tasks:
        findings.append(
            (
                f"{count(len(similar_tasks), 'pair')} of tasks that share most of the smaller one's texts: "
                "copies of one another, or of one template?",
                [
                    f"{pair.first} and {pair.second}: {pair.n_shared_texts:,} texts, "
                    f"{pair.share_of_smaller:.0%} of the smaller and {pair.share_of_larger:.0%} of the larger"
                    for pair in sorted(similar_tasks, key=lambda pair: -pair.share_of_larger)
                ],
            )
        )
    if duplicates := inspection.duplicate_rows:
        n_rows = sum(found.n_duplicates for found in duplicates)
        findings.append(
            (
                f"{count(n_rows, 'duplicate row')} (same text and label), in "
                f"{count(len(duplicates), 'task')}: remove them, unless they show how frequent a text is",
                [
                    f"{found.task}: {found.n_duplicates:,}, for instance {quote(found.example)}"
                    for found in duplicates
                ],
            )
        )
    if long_texts := inspection.long_texts:
        findings.append(
            (
                f"{count(sum(found.n_long for found in long_texts), 'text')} probably longer than the 256 "
                f"word pieces that the sentence model reads, in {count(len(long_texts), 'task')}: the rest "
                "of each is ignored",
                [
                    f"{found.task}: {found.n_long:,}, up to {found.most_words:,} words, "
                    f"{quote(found.example)}"
                    for found in long_texts
                ],
            )
        )
    if encoder != "multilingual" and (languages := inspection.other_languages):
        trained = "half of the encoder both was" if encoder == "both" else f"the encoder {encoder} was"
        findings.append(
            (
                f"{count(len(languages), 'task')} probably not in English, which {trained} trained on: "
                "--encoder multilingual is more accurate there",
                [f"{found.task}: {found.language}, {quote(found.example)}" for found in languages],
            )
        )
    if leaks := inspection.leaks:
        findings.append(
            (
                f"{count(sum(leak.n_leaked for leak in leaks), 'test row')} whose text is also in train, in "
                f"{count(len(leaks), 'task')}: test figures will flatter",
                [
                    f"{leak.task}: {leak.n_leaked:,} of {leak.n_test:,}, for instance {quote(leak.example)}"
                    for leak in leaks
                ],
            )
        )
    return findings

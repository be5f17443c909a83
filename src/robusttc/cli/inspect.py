"""`robusttc inspect`: what is there before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robusttc.cli.console import (
    make_table,
    name,
    output_console,
    print_json,
    print_more,
    say,
    show_working,
)
from robusttc.cli.options import AllowIncomplete, JsonOption, LimitOption, TasksPath, with_settings
from robusttc.cli.reading import read_aloud
from robusttc.data import SPLITS, Inspection, LoadedTasks, TaskSet, inspect_tasks
from robusttc.encoders import DEFAULT_ENCODER
from robusttc.errors import DataError, WordVectorsError, quote
from robusttc.formatting import count
from robusttc.run.settings import Execution, MeasureSettings, read_settings

if TYPE_CHECKING:
    from robusttc.transfer import CostEstimate

__all__ = ["inspect", "show_inspection"]

MAX_EXAMPLES = 5


@with_settings(MeasureSettings, Execution, leave_out=["executor", "kind", "device", "model"])
def inspect(
    tasks: TasksPath,
    given: dict[str, Any],
    allow_incomplete: AllowIncomplete = False,
    limit: LimitOption = 20,
    no_cost: Annotated[
        bool, typer.Option("--no-cost", help="Do not estimate what measuring transfer would cost.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show tasks, labels, sizes, what is worth mending before training, and what measuring would cost."""
    chosen, execution = read_settings(MeasureSettings, environment={}, options=given)
    estimate = None if no_cost else make_estimator(chosen, execution)
    loaded = read_aloud(tasks, chosen.read_options(allow_incomplete=allow_incomplete))
    with show_working("Looking for what is worth mending"):
        inspection = inspect_tasks(loaded.tasks)
    if json:
        cost = None if estimate is None else describe_cost(estimate(loaded.tasks))
        print_json({**as_document(loaded, inspection), "cost": cost})
        return
    console = output_console()
    show_inspection(console, loaded, inspection, limit, encoder=chosen.encoder)
    if estimate is not None:
        found = estimate(loaded.tasks)
        say(console, "\n" + (found if isinstance(found, str) else found.describe()))


def make_estimator(chosen: MeasureSettings, execution: Execution) -> Callable[[TaskSet], CostEstimate | str]:
    """Return what estimates the cost of measuring, or says why it cannot."""
    # Late, so that --help and --no-cost do not wait for SciPy and torch.
    from robusttc.clustering import StopRule
    from robusttc.encoders import make_encoder
    from robusttc.transfer import estimate_cost

    encoder = make_encoder(chosen.encoder, vectors=chosen.vectors)

    def estimate(tasks: TaskSet) -> CostEstimate | str:
        try:
            with show_working("Estimating the cost of measuring transfer"):
                return estimate_cost(
                    tasks,
                    encoder=encoder,
                    pairs=chosen.pairs,
                    stop=StopRule(),
                    n_workers=execution.workers,
                    random_state=chosen.seed,
                )
        except WordVectorsError:
            raise
        except DataError as error:
            # To look at tasks that cannot be measured is what this command is for.
            return f"No estimate of what measuring transfer costs: {error}"

    return estimate


def describe_cost(cost: CostEstimate | str) -> dict[str, Any]:
    """Give the cost as a part of the JSON document."""
    if isinstance(cost, str):
        return {"message": cost}
    return {**asdict(cost), "seconds": cost.seconds, "message": cost.describe()}


def as_document(loaded: LoadedTasks, inspection: Inspection) -> dict[str, Any]:
    """Give the inspection as a JSON document."""
    hashes = loaded.tasks.content_hashes
    fields = asdict(inspection)
    tasks = [{**task, "content_hash": hashes[task["task"]]} for task in fields.pop("tasks")]
    totals = ("n_rows", "n_labels", "n_distinct_texts", "rows_by_split", "same_label_sets")
    return {
        "totals": {"n_tasks": len(tasks), **{name: fields.pop(name) for name in totals}},
        "tasks": tasks,
        "worth_mending": fields,
        "files": loaded.files,
        "ignored_files": loaded.ignored,
        "notes": (*loaded.notes, *loaded.unread),
        "n_skipped_rows": loaded.n_skipped,
    }


def show_inspection(
    console: Console,
    loaded: LoadedTasks,
    inspection: Inspection,
    limit: int,
    *,
    encoder: str = DEFAULT_ENCODER,
) -> None:
    """Print the table of tasks, the totals, and what is worth fixing before an encoder reads the texts."""
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
    findings = [*label_findings(inspection), *text_findings(inspection, encoder)]
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


def show_tasks(console: Console, inspection: Inspection, limit: int) -> None:
    """Print the table of tasks."""
    extra = [split for split in inspection.rows_by_split if split not in SPLITS]
    table = make_table("task", "rows", "labels", *SPLITS, *extra, "median words", name_width=None)
    shown = inspection.tasks[:limit] if limit else inspection.tasks
    for task in shown:
        counts = [f"{task.rows_by_split.get(split, 0):,}" for split in [*SPLITS, *extra]]
        table.add_row(
            name(task.task), f"{task.n_rows:,}", f"{task.n_labels:,}", *counts, f"{task.median_words:g}"
        )
    console.print(table)
    print_more(console, len(inspection.tasks), len(shown), "tasks")


def in_tasks(findings: Sequence[Any]) -> str:
    """Return in how many tasks something was found."""
    return "in " + count(len({found.task for found in findings}), "task")


def label_findings(found: Inspection) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield what is worth mending of labels and tasks: a title and examples."""
    if conflicts := found.conflicting_texts:
        yield (
            f"{count(len(conflicts), 'text')} with two or more labels, {in_tasks(conflicts)}: "
            "decide on one label",
            [f"{c.task}: {quote(c.text)} is {' and '.join(map(quote, c.labels))}" for c in conflicts],
        )
    if thin := found.thin_labels:
        n_labels = sum(len(labels.training_rows) for labels in thin)
        yield (
            f"{count(n_labels, 'label')} with fewer than 3 training rows, {in_tasks(thin)}: "
            "add examples, or merge labels",
            [
                f"{labels.task}: "
                + ", ".join(f"{quote(label)} ({n})" for label, n in islice(labels.training_rows.items(), 4))
                + (" …" if len(labels.training_rows) > 4 else "")
                for labels in thin
            ],
        )
    if similar_labels := found.similar_labels:
        yield (
            f"{count(len(similar_labels), 'group')} of labels that read the same: one label, or several?",
            [f"{similar.task}: {', '.join(map(quote, similar.labels))}" for similar in similar_labels],
        )
    if similar_tasks := found.similar_tasks:
        yield (
            f"{count(len(similar_tasks), 'pair')} of tasks that share most of the smaller one's texts: "
            "copies of one another, or of one template?",
            [
                f"{pair.first} and {pair.second}: {pair.n_shared_texts:,} texts, "
                f"{pair.share_of_smaller:.0%} of the smaller and {pair.share_of_larger:.0%} of the larger"
                for pair in sorted(similar_tasks, key=lambda pair: -pair.share_of_larger)
            ],
        )


def text_findings(found: Inspection, encoder: str) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield what is worth mending of texts: a title and examples."""
    if duplicates := found.duplicate_rows:
        n_rows = sum(one.n_duplicates for one in duplicates)
        yield (
            f"{count(n_rows, 'duplicate row')} (same text and label), {in_tasks(duplicates)}: "
            "remove them, unless they show how frequent a text is",
            [f"{one.task}: {one.n_duplicates:,}, for instance {quote(one.example)}" for one in duplicates],
        )
    if long_texts := found.long_texts:
        yield (
            f"{count(sum(one.n_long for one in long_texts), 'text')} probably longer than the 256 word "
            f"pieces that the sentence model reads, {in_tasks(long_texts)}: the rest of each is ignored",
            [
                f"{one.task}: {one.n_long:,}, up to {one.most_words:,} words, {quote(one.example)}"
                for one in long_texts
            ],
        )
    if encoder != "multilingual" and (languages := found.other_languages):
        trained = "half of the encoder both was" if encoder == "both" else f"the encoder {encoder} was"
        yield (
            f"{count(len(languages), 'task')} probably not in English, which {trained} trained on: "
            "--encoder multilingual is more accurate there",
            [f"{one.task}: {one.language}, {quote(one.example)}" for one in languages],
        )
    if leaks := found.leaks:
        yield (
            f"{count(sum(leak.n_leaked for leak in leaks), 'test row')} whose text is also in train, "
            f"{in_tasks(leaks)}: test figures will flatter",
            [
                f"{leak.task}: {leak.n_leaked:,} of {leak.n_test:,}, for instance {quote(leak.example)}"
                for leak in leaks
            ],
        )

"""`robusttc inspect`: what is there before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.console import output_console, print_json, show_working
from robusttc.cli.inspection_view import say, show_inspection
from robusttc.cli.measuring_options import EncoderName, PairNumber, VectorsFile, Workers
from robusttc.cli.reading import (
    AllowIncomplete,
    Delimiter,
    Encoding,
    LabelColumn,
    Seed,
    Shares,
    SkipBadRows,
    SplitColumn,
    SplitValues,
    TaskColumn,
    TasksPath,
    TextColumn,
    parse_shares,
    parse_split_values,
    read_aloud,
)
from robusttc.data import Inspection, LoadedTasks, ReadOptions, TaskSet, inspect_tasks
from robusttc.encoders import DEFAULT_ENCODER
from robusttc.errors import DataError, WordVectorsError

if TYPE_CHECKING:
    from robusttc.transfer import CostEstimate

__all__ = ["inspect"]


def inspect(
    tasks: TasksPath,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    split_column: SplitColumn = None,
    task_column: TaskColumn = None,
    split_value: SplitValues = None,
    shares: Shares = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    skip_bad_rows: SkipBadRows = False,
    allow_incomplete: AllowIncomplete = False,
    limit: Annotated[
        int, typer.Option(min=0, help="How many rows a table shows at the most; 0 shows all.")
    ] = 20,
    no_cost: Annotated[
        bool, typer.Option("--no-cost", help="Do not estimate what measuring transfer would cost.")
    ] = False,
    encoder: EncoderName = DEFAULT_ENCODER,
    vectors: VectorsFile = None,
    pairs: PairNumber = "auto",
    workers: Workers = 1,
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show tasks, labels, sizes, what is worth mending before training, and what measuring would cost."""
    options = ReadOptions(
        text_column=text_column,
        label_column=label_column,
        split_column=split_column,
        task_column=task_column,
        split_values=parse_split_values(split_value),
        shares=parse_shares(shares),
        delimiter=delimiter,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        allow_incomplete=allow_incomplete,
        seed=seed,
    )
    estimate = None if no_cost else make_estimator(encoder, vectors, pairs, workers, seed)
    loaded = read_aloud(tasks, options)
    with show_working("Looking for what is worth mending"):
        inspection = inspect_tasks(loaded.tasks)
    if json:
        cost = None if estimate is None else describe_cost(estimate(loaded.tasks))
        print_json({**as_document(loaded, inspection), "cost": cost})
        return
    console = output_console()
    show_inspection(console, loaded, inspection, limit, encoder=encoder)
    if estimate is not None:
        found = estimate(loaded.tasks)
        say(console, "\n" + (found if isinstance(found, str) else found.describe()))


def make_estimator(
    encoder: str, vectors: Path | None, pairs: str, workers: int, seed: int
) -> Callable[[TaskSet], CostEstimate | str]:
    """Check the options of measuring, and give what estimates its cost, or says why it cannot."""
    # Late, so that --help and --no-cost do not wait for SciPy and torch.
    from robusttc.clustering import StopRule
    from robusttc.encoders import make_encoder
    from robusttc.transfer import estimate_cost, parse_pairs

    chosen, number = make_encoder(encoder, vectors=vectors), parse_pairs(pairs)

    def estimate(tasks: TaskSet) -> CostEstimate | str:
        try:
            with show_working("Estimating the cost of measuring transfer"):
                return estimate_cost(
                    tasks,
                    encoder=chosen,
                    pairs=number,
                    stop=StopRule(),
                    n_workers=workers,
                    random_state=seed,
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

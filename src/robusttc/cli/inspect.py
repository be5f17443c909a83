"""`robusttc inspect`: what is there before anything is trained."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from robusttc.cli.console import output_console, print_json, show_working
from robusttc.cli.inspection_view import show_inspection
from robusttc.cli.reading import (
    AllowIncomplete,
    Delimiter,
    Encoding,
    LabelColumn,
    Seed,
    SkipBadRows,
    SplitColumn,
    SplitValues,
    TaskColumn,
    TasksPath,
    TextColumn,
    parse_split_values,
    read_aloud,
)
from robusttc.data.inspection import Inspection, inspect_tasks
from robusttc.data.loading import LoadedTasks
from robusttc.data.options import ReadOptions

__all__ = ["inspect"]


def inspect(
    tasks: TasksPath,
    text_column: TextColumn = "text",
    label_column: LabelColumn = "label",
    split_column: SplitColumn = None,
    task_column: TaskColumn = None,
    split_value: SplitValues = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    skip_bad_rows: SkipBadRows = False,
    allow_incomplete: AllowIncomplete = False,
    limit: Annotated[
        int, typer.Option(min=0, help="How many rows a table shows at the most; 0 shows all.")
    ] = 20,
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show tasks, labels, sizes, and what is worth mending before training."""
    options = ReadOptions(
        text_column=text_column,
        label_column=label_column,
        split_column=split_column,
        task_column=task_column,
        split_values=parse_split_values(split_value),
        delimiter=delimiter,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        allow_incomplete=allow_incomplete,
        seed=seed,
    )
    loaded = read_aloud(tasks, options)
    with show_working("Looking for what is worth mending"):
        inspection = inspect_tasks(loaded.tasks)
    if json:
        print_json(as_document(loaded, inspection))
    else:
        show_inspection(output_console(), loaded, inspection, limit)


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
        "n_skipped_rows": loaded.n_skipped,
    }

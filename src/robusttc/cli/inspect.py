"""`robusttc inspect`: what is there before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.console import output_console, print_json, show_working
from robusttc.cli.inspection_view import say, show_inspection
from robusttc.cli.options import JsonOption, TasksPath, with_settings
from robusttc.cli.reading import AllowIncomplete, read_aloud
from robusttc.data import Inspection, LoadedTasks, TaskSet, inspect_tasks
from robusttc.errors import DataError, WordVectorsError
from robusttc.run.settings import Execution, MeasureSettings, read_settings

if TYPE_CHECKING:
    from robusttc.transfer import CostEstimate

__all__ = ["inspect"]


@with_settings(MeasureSettings, Execution, leave_out=["executor", "kind", "device", "model"])
def inspect(
    tasks: TasksPath,
    given: dict[str, Any],
    allow_incomplete: AllowIncomplete = False,
    limit: Annotated[
        int, typer.Option(min=0, help="How many rows a table shows at the most; 0 shows all.")
    ] = 20,
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

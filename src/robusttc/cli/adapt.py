"""`robusttc adapt`: a new task from a handful of examples."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robusttc.cli.console import output_console, print_json, say, show_working
from robusttc.cli.options import DeviceOption, JsonOption, MaxFlips, MustPass, RunFolder, with_settings
from robusttc.cli.reading import read_examples_aloud, read_limits
from robusttc.data import name_problem
from robusttc.errors import DoubtWarning, ExitCode, UsageError, quote
from robusttc.formatting import command_line, count
from robusttc.run.settings import ReadSettings, read_settings

if TYPE_CHECKING:
    from robusttc.data import Task
    from robusttc.fewshot import FewShotModel
    from robusttc.run import Run

__all__ = ["adapt"]

MAX_NEAREST = 5
MAX_WEIGHTS = 5


@with_settings(ReadSettings, leave_out=["task_column", "shares", "seed"])
def adapt(
    run: RunFolder,
    given: dict[str, Any],
    examples: Annotated[
        Path, typer.Argument(metavar="EXAMPLES", help="A file of text,label rows; all are used for training.")
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="The name of the new task.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of an added task of the same name.")
    ] = False,
    max_flips: MaxFlips = None,
    must_pass: MustPass = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> int:
    """Add a new task to a run from a handful of examples; `robusttc predict` finds it by its name.

    Where the file has a column of splits, only its training rows are used. Ends with code 3 where the
    examples contradict each other, or the next version breaks --max-flips or --must-pass.
    """
    reading, _ = read_settings(ReadSettings, environment={}, options=given)
    # Late, so that --help does not wait for SciPy and torch.
    from robusttc.run import Run

    check_name(name)
    limits = read_limits(max_flips, must_pass)
    opened = Run(run, device=device)
    task = read_examples_aloud(examples, name, reading.read_options(allow_incomplete=True))
    with show_working(f"Learning {name}"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DoubtWarning)
        model = opened.adapt(task, replace=replace, limits=limits)
    doubts = [str(one.message) for one in caught if issubclass(one.category, DoubtWarning)]
    if json:
        print_json(as_document(model, task, opened, doubts))
    else:
        show_adapted(output_console(), model, task, opened, run)
        for doubt in doubts:
            say(output_console(), f"Doubtful: {doubt}")
    return int(ExitCode.DOUBT if doubts else ExitCode.DONE)


def check_name(name: str) -> None:
    """Refuse a name that files of tasks could not have either."""
    problem = name_problem(name, "name")
    if problem is not None:
        raise UsageError(problem, where="option --name", got=quote(name))


def show_adapted(console: Console, model: FewShotModel, task: Task, opened: Run, run: Path) -> None:
    """Print what was learned, from whom, and how well."""
    n_rows = len(task.rows("train"))
    say(
        console,
        f"{model.name}: learned from {count(n_rows, 'example')} of {count(len(model.label_names), 'label')}.",
    )
    accuracy = model.support_accuracy_
    if math.isnan(accuracy):
        say(console, "How well is not known: no label has two examples, so none can be left out.")
    else:
        say(console, f"Each example left out in its turn, {accuracy:.0%} of them are predicted right.")
    if opened.fewshot.clusters_serve_ and model.weights_:
        ordered = sorted(model.weights_.items(), key=lambda pair: -pair[1])[:MAX_WEIGHTS]
        shares = ", ".join(f"{number} ({weight:.0%})" for number, weight in ordered)
        say(console, f"Clusters that it mixes: {shares}.")
    if model.out_of_cluster_:
        say(console, "No cluster is enough like it, so a model of its own serves.")
    if model.nearest_tasks_:
        shown = ", ".join(f"{name} ({value:.2f})" for name, value in model.nearest_tasks_[:MAX_NEAREST])
        say(console, f"Most like it: {shown} (1 is the same, 0 nothing in common).")
    say(console, f"\nNext: {command_line('predict', run, ('--task', model.name), 'TEXTS.txt')}")
    if not math.isnan(accuracy) and accuracy < 0.7:
        say(console, "      More examples of each label will help: adapt again with --replace.")


def as_document(model: FewShotModel, task: Task, opened: Run, doubts: list[str]) -> dict[str, Any]:
    """Give all of it as a JSON document."""
    accuracy = model.support_accuracy_
    return {
        "task": model.name,
        "n_examples": len(task.rows("train")),
        "label_names": list(model.label_names),
        "leave_one_out_accuracy": None if math.isnan(accuracy) else accuracy,
        "clusters_serve": opened.fewshot.clusters_serve_,
        "weights": [
            {"cluster": number, "weight": weight} for number, weight in sorted(model.weights_.items())
        ],
        "out_of_cluster": bool(model.out_of_cluster_),
        "nearest_tasks": [{"task": name, "similarity": value} for name, value in model.nearest_tasks_],
        "temperature": model.temperature_,
        "doubts": doubts,
    }

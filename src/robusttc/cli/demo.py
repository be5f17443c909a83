"""`robusttc demo`: the whole journey on planted tasks that the package makes by itself."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robusttc.cli.console import output_console, show_working
from robusttc.cli.demo_folder import DemoFolder
from robusttc.cli.demo_new_tasks import NewTask, compare_learners, cut_new_task
from robusttc.cli.demo_view import begin_step, say_what_next, show_families, show_new_tasks, show_planted
from robusttc.cli.inspection_view import say, show_inspection
from robusttc.cli.reading import Seed, read_aloud
from robusttc.cli.report import show_report, write_aloud
from robusttc.cli.run_progress import show_stages
from robusttc.cli.run_view import show_clusters, show_doubts, show_means
from robusttc.cli.stopping import RunStoppedError, stop_on_signals
from robusttc.data import ReadOptions, inspect_tasks, make_planted_tasks, read_examples
from robusttc.errors import DoubtWarning, UsageError, quote
from robusttc.formatting import command_line
from robusttc.random import run_seed

if TYPE_CHECKING:
    from robusttc.data import TaskSet
    from robusttc.run.fitting import FitResult

__all__ = ["demo"]

# One of every family.
N_NEW = 6
NEW_NAME = "new-task"
# Fewer models than by default: a demo is waited for.
N_FOLDS, N_RANDOM = 2, 1
MAX_WORKERS = 2
MAX_SHOWN = 6


def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets everything the demo makes.")] = Path("demo"),
    n_tasks: Annotated[int, typer.Option("--tasks", min=12, help="How many tasks to plant.")] = 36,
    seed: Seed = 0,
) -> None:
    """Plant tasks of known families and take them the whole way: inspect, fit, adapt, report.

    Every step says which command does the same. Takes two or three minutes, and needs no network. Run again,
    it goes on where it was stopped, or shows what is there.
    """
    run_seed(seed)  # refuses a seed that cannot be used before anything is written
    console, place = output_console(), DemoFolder(out)
    place.claim(n_tasks=n_tasks, seed=seed)
    with show_working("Planting tasks"):
        planted = make_planted_tasks(n_tasks=n_tasks + N_NEW, random_state=seed)
        names = planted.tasks.names
        sources = planted.tasks.subset(names[:n_tasks])
        new_tasks = [cut_new_task(planted.tasks[name], seed) for name in names[n_tasks:]]
        first = cut_new_task(planted.tasks[names[n_tasks]], seed, name=NEW_NAME)
        place.write(sources, first.examples, first.test)
    show_planted(console, planted, n_tasks, place.tasks)
    inspect_aloud(console, place, sources)
    result = fit_aloud(console, place, sources, seed)

    # Late, so that the other commands do not wait for SciPy.
    from robusttc.run.summary import evaluation_of

    evaluation = evaluation_of(result.summary)
    show_clusters(console, result.summary)
    show_families(console, evaluation, planted)
    say(console, "")
    show_means(console, evaluation)
    verdict = result.summary["multitask"]["verdict"]
    if verdict is not None:
        say(console, verdict["sentence"])
    say(console, evaluation.sentence)
    show_doubts(console, result.summary)
    adapt_aloud(console, place, sources, new_tasks, seed)
    report_aloud(console, place)
    say_what_next(console)


def inspect_aloud(console: Console, place: DemoFolder, sources: TaskSet) -> None:
    """Read the tasks back as any others would be, and say what is there."""
    title = "2. What is there, and what is worth mending"
    begin_step(console, title, "inspect", place.tasks, "--limit", str(MAX_SHOWN), "--no-cost")
    loaded = read_aloud(place.tasks, ReadOptions(allow_incomplete=True))
    wanted, found = sources.content_hashes, loaded.tasks.content_hashes
    other = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if other:
        raise UsageError(
            "these are no longer the tasks of the demo",
            where=quote(str(place.tasks)),
            got=f"other rows of {', '.join(quote(name) for name in other[:MAX_SHOWN])}",
            todo="give a new folder with --out, or fit what is there: "
            + command_line("fit", place.tasks, "--out", "RUN"),
        )
    show_inspection(console, loaded, inspect_tasks(loaded.tasks), limit=MAX_SHOWN)


def fit_aloud(console: Console, place: DemoFolder, sources: TaskSet, seed: int) -> FitResult:
    """Fit the tasks in a run; one that was stopped goes on, and one that is finished is taken as it is."""
    from robusttc.jobs import Stopped
    from robusttc.run.fitting import fit_run
    from robusttc.run.settings import Execution, FitSettings

    n_workers = min(MAX_WORKERS, count_cores())
    options = {"--n-folds": N_FOLDS, "--n-random": N_RANDOM, "--seed": seed, "--workers": n_workers}
    words = [str(part) for option in options.items() for part in option]
    title = "3. Which tasks help each other, and what it is worth"
    begin_step(console, title, "fit", place.tasks, "--out", place.run, *words)
    with stop_on_signals() as stop, show_stages() as progress:
        try:
            result = fit_run(
                place.run,
                sources,
                FitSettings(n_folds=N_FOLDS, n_random=N_RANDOM, seed=seed),
                execution=Execution(workers=n_workers),
                progress=progress,
                stop=stop,
            )
        except (Stopped, KeyboardInterrupt):
            raise RunStoppedError(place.folder) from None
    if result.was_finished:
        say(console, f"The run in {place.run} is finished: there is nothing to do.\n")
    return result


def count_cores() -> int:
    """Give the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover


def adapt_aloud(
    console: Console, place: DemoFolder, sources: TaskSet, new_tasks: list[NewTask], seed: int
) -> None:
    """Learn a new task from its examples, and compare with what one would have without the run."""
    from robusttc.cli.adapt import show_adapted
    from robusttc.run.opening import OpenRun

    title = "4. A new task comes, with a handful of examples"
    # To be copied and run: by then the task is there.
    begin_step(console, title, "adapt", place.run, place.new_task, "--name", NEW_NAME, "--replace")
    opened = OpenRun(place.run)
    with show_working("Learning new tasks"), warnings.catch_warnings():
        # Planted labels are a little noisy, so a text may stand under two of them.
        warnings.simplefilter("ignore", DoubtWarning)
        examples = read_examples(place.new_task, NEW_NAME).tasks[NEW_NAME]
        model = opened.fewshot.adapt(examples)
        opened.adapted.save(model)
        accuracies = compare_learners(opened.fewshot, sources, new_tasks, seed)
    show_adapted(console, model, examples, opened, place.run)
    show_new_tasks(console, accuracies, n_rows=len(new_tasks[0].test), texts=place.new_texts)
    if opened.fewshot.verdict_ is not None:
        say(console, opened.fewshot.verdict_.sentence)


def report_aloud(console: Console, place: DemoFolder) -> None:
    """Write the report."""
    begin_step(console, "5. All of it on one page, to open in a browser", "report", place.run)
    show_report(write_aloud(place.run, None))

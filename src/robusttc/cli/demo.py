"""`robusttc demo`: the whole journey on planted tasks that the package makes by itself."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from robusttc.cli.console import make_table, output_console, percent, say, show_working
from robusttc.cli.inspect import show_inspection
from robusttc.cli.options import SeedOption
from robusttc.cli.progress import FIT_STAGES, RunStoppedError, show_progress, stop_on_signals
from robusttc.cli.reading import read_aloud
from robusttc.cli.report import show_report, write_page
from robusttc.cli.run_view import show_clusters, show_doubts, show_means
from robusttc.data import (
    ReadOptions,
    Task,
    TaskSet,
    inspect_tasks,
    make_planted_tasks,
    read_examples,
    write_tasks,
)
from robusttc.errors import DoubtWarning, StoreError, UsageError, quote
from robusttc.files import write_file
from robusttc.formatting import command_line
from robusttc.random import run_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robusttc.data import PlantedTasks
    from robusttc.fewshot import ClusterFewShot
    from robusttc.run import Evaluation, FitResult

__all__ = ["demo"]

N_NEW = 6  # one of every family
NEW_NAME = "new-task"
# A demo is waited for: fewer models than by default, and the encoder that learning on takes half the time.
N_FOLDS, N_RANDOM, ENCODER = 2, 1, "sentence"
MAX_WORKERS = 2
MAX_SHOWN = 6
MODEL_WORDS = {
    "own": "own: logistic regression",
    "shared": "shared: one metric of all",
    "ours": "ours: what adapt gives",
}
NEXT = (
    "robusttc inspect clients",
    "robusttc fit clients --out run",
    "robusttc adapt run new-client.csv --name new-client",
    "robusttc predict run --task new-client texts.txt",
)
FORMAT = "robusttc demo"
NOTE = "demo.json"


def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets everything the demo makes.")] = Path("demo"),
    n_tasks: Annotated[int, typer.Option("--tasks", min=12, help="How many tasks to plant.")] = 36,
    seed: SeedOption = 0,
) -> None:
    """Plant tasks of known families and take them the whole way: inspect, fit, adapt, report.

    Every step says which command does the same. Takes about two minutes, and needs no network. Run again,
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

    evaluation, summary = result.run.evaluation, result.run.summary
    show_clusters(console, summary)
    show_families(console, evaluation, planted)
    say(console, "")
    show_means(console, evaluation)
    verdict = summary["multitask"]["verdict"]
    if verdict is not None:
        say(console, verdict["sentence"])
    say(console, evaluation.sentence)
    show_doubts(console, summary)
    adapt_aloud(console, place, sources, new_tasks, seed)
    report_aloud(console, place)
    say_what_next(console, place)


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
    from robusttc.run import Execution, FitSettings, fit_run

    n_workers = min(MAX_WORKERS, count_cores())
    options = {
        "--encoder": ENCODER,
        "--n-folds": N_FOLDS,
        "--n-random": N_RANDOM,
        "--seed": seed,
        "--workers": n_workers,
    }
    words = [str(part) for option in options.items() for part in option]
    title = "3. Which tasks help each other, and what it is worth"
    begin_step(console, title, "fit", place.tasks, "--out", place.run, *words)
    with stop_on_signals() as stop, show_progress(stages=FIT_STAGES) as progress:
        try:
            result = fit_run(
                place.run,
                sources,
                FitSettings(encoder=ENCODER, n_folds=N_FOLDS, n_random=N_RANDOM, seed=seed),
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
    from robusttc.run import Run

    title = "4. A new task comes, with a handful of examples"
    # To be copied and run: by then the task is there.
    begin_step(console, title, "adapt", place.run, place.new_task, "--name", NEW_NAME, "--replace")
    opened = Run(place.run)
    with show_working("Learning new tasks"), warnings.catch_warnings():
        # Planted labels are a little noisy, so a text may stand under two of them.
        warnings.simplefilter("ignore", DoubtWarning)
        examples = read_examples(place.new_task, NEW_NAME).tasks[NEW_NAME]
        model = opened.adapt(examples, replace=True)
        accuracies = compare_learners(opened.fewshot, sources, new_tasks, seed)
    show_adapted(console, model, examples, opened, place.run)
    show_new_tasks(console, accuracies, n_rows=len(new_tasks[0].test), texts=place.new_texts)
    if opened.fewshot.verdict_ is not None:
        say(console, opened.fewshot.verdict_.sentence)


def report_aloud(console: Console, place: DemoFolder) -> None:
    """Write the report."""
    from robusttc.run import open_run

    begin_step(console, "5. All of it on one page, to open in a browser", "report", place.run)
    show_report(write_page(open_run(place.run), None, None))


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folder of a demo: what is where in it, and whether it may be used."""

    folder: Path

    @property
    def tasks(self) -> Path:
        """The planted tasks, one file each."""
        return self.folder / "tasks"

    @property
    def run(self) -> Path:
        """What `robusttc fit` makes of them."""
        return self.folder / "run"

    @property
    def new_task(self) -> Path:
        """The examples of a task that comes later."""
        return self.folder / "new-task.csv"

    @property
    def new_texts(self) -> Path:
        """Other rows of that task, to try it on."""
        return self.folder / "new-task-test.csv"

    def claim(self, *, n_tasks: int, seed: int) -> None:
        """Take a new or empty folder, or that of the same demo; a note in it says which demo it is."""
        note = self.folder / NOTE
        wanted = {"format": FORMAT, "n_tasks": n_tasks, "seed": seed}
        if note.is_file():
            refuse_other_demo(note, wanted)
            return
        if self.folder.is_dir():
            found = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
            if found:
                raise UsageError(
                    "the folder holds other files",
                    where=quote(str(self.folder)),
                    got=quote(found[0]),
                    todo="give a new or empty folder with --out",
                )
        put(note, json.dumps(wanted, indent=2) + "\n")

    def write(self, tasks: TaskSet, examples: Task, test: Task) -> None:
        """Write what is not there yet; files that somebody has changed stay as they are."""
        missing = [task for task in tasks if not (self.tasks / f"{task.name}.csv").exists()]
        write_tasks(TaskSet(missing), self.tasks)
        for path, task in ((self.new_task, examples), (self.new_texts, test)):
            if not path.exists():
                put(path, as_csv(task))


def refuse_other_demo(note: Path, wanted: dict[str, object]) -> None:
    """Refuse a folder whose note is of another demo."""
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found == wanted:
        return
    is_ours = isinstance(found, dict) and found.get("format") == FORMAT
    raise UsageError(
        "the folder holds another demo" if is_ours else "the folder holds other files",
        where=quote(str(note.parent)),
        got=f"--tasks {found.get('n_tasks')} --seed {found.get('seed')}" if is_ours else quote(note.name),
        expected=f"--tasks {wanted['n_tasks']} --seed {wanted['seed']}" if is_ours else None,
        todo="give another folder with --out",
    )


def as_csv(task: Task) -> str:
    """Write a task as CSV without splits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["text", "label"])
    writer.writerows(zip(task.texts, task.labels.tolist(), strict=True))
    return stream.getvalue()


def put(path: Path, content: str) -> None:
    """Write a file; where that fails, it is the folder that was given that cannot be used."""
    try:
        write_file(path, content.encode())
    except StoreError as error:
        raise UsageError(error.what, where=error.where, got=error.got, todo=error.todo) from None


@dataclass(frozen=True, slots=True, eq=False)
class NewTask:
    """A task that was not in the run: the few examples that it comes with, and rows to judge it by."""

    examples: Task
    test: Task


def cut_new_task(task: Task, seed: int, *, name: str | None = None) -> NewTask:
    """Cut a task to the paper's few-shot setting: an example a label and twenty more."""
    # Late, so that --help does not wait for SciPy.
    from robusttc.fewshot import few_shot_rows

    def take(rows: NDArray[np.intp], split: str) -> Task:
        texts, labels = list(task.texts_at(rows)), task.labels[rows].tolist()
        return Task(name or task.name, texts, labels, [split] * len(rows))

    return NewTask(take(few_shot_rows(task, random_state=seed), "train"), take(task.rows("test"), "test"))


def compare_learners(
    learner: ClusterFewShot, sources: TaskSet, new_tasks: Sequence[NewTask], seed: int
) -> dict[str, NDArray[np.float64]]:
    """Return the accuracy on every new task of logistic regression, of the shared metric, and of the run."""
    from robusttc.baselines import LogisticRegressionBaseline

    own = LogisticRegressionBaseline(ENCODER, few_shot=True, random_state=seed).fit(sources)
    learners: dict[str, Any] = {"own": own, "shared": learner.without_clusters(), "ours": learner}
    return {
        name: np.array([accuracy(learner.adapt(new.examples), new.test) for new in new_tasks])
        for name, learner in learners.items()
    }


def accuracy(model: Any, test: Task) -> float:
    """Return the share of rows that a model predicts right."""
    return float((model.predict(list(test.texts)) == test.labels).mean())


def begin_step(console: Console, title: str, *arguments: str | Path) -> None:
    """Print the title of a step, and the command that does the same.

    Examples
    --------
    >>> begin_step(Console(), "2. What is there", "inspect", Path("my tasks"))
    <BLANKLINE>
    2. What is there
       $ robusttc inspect 'my tasks'
    <BLANKLINE>
    """
    say(console, f"\n{title}")
    say(console, f"   $ {command_line(*arguments)}\n")


def show_planted(console: Console, planted: PlantedTasks, n_tasks: int, folder: Path) -> None:
    """Say what was planted."""
    say(console, f"1. {n_tasks} tasks, planted in {folder}: one CSV file each.")
    say(console, f"   They are of {len(planted.family_names)} families, which are ways of labelling texts:")
    say(console, f"   {', '.join(planted.family_names)}.")
    say(console, "   Tasks of one family can help each other. Nobody is told which are of one family.")


def show_families(console: Console, evaluation: Evaluation, planted: PlantedTasks) -> None:
    """Print the clusters that were found beside the families that were planted."""
    from sklearn.metrics import adjusted_rand_score

    family_of = dict(zip(planted.tasks.names, planted.families.tolist(), strict=True))
    clusters: dict[int, list[str]] = {}
    for figures in evaluation.tasks:
        clusters.setdefault(figures.group, []).append(figures.task)
    for number, names in sorted(clusters.items()):
        shown = ", ".join(names[:MAX_SHOWN]) + (" …" if len(names) > MAX_SHOWN else "")
        counts = Counter(planted.family_names[family_of[name]] for name in names)
        truth = ", ".join(f"{n} of {family}" for family, n in counts.most_common())
        say(console, f"  {f'cluster {number}' if number >= 0 else 'none'}: {shown} (planted: {truth})")
    agreement = adjusted_rand_score(
        [family_of[figures.task] for figures in evaluation.tasks],
        [figures.group for figures in evaluation.tasks],
    )
    say(console, f"Agreement with the planted families (adjusted Rand index, 1 is perfect): {agreement:.2f}")


def show_new_tasks(
    console: Console, accuracies: Mapping[str, NDArray[np.float64]], *, n_rows: int, texts: Path
) -> None:
    """Print how well the first new task is predicted, and a table of the means over all of them."""
    from robusttc.stats import mean_interval

    own, ours = accuracies["own"], accuracies["ours"]
    say(console, f"\nOf {n_rows} other rows of it, in {texts}, {ours[0]:.1%} are predicted right;")
    say(console, f"by logistic regression on its examples alone, {own[0]:.1%}.\n")
    say(console, f"Test accuracy: mean over {len(own)} new tasks [95 % interval]")
    table = make_table("model", "accuracy", "over own", name_width=None)
    for model, values in accuracies.items():
        gain = "" if model == "own" else percent(mean_interval(values - own), sign="+")
        table.add_row(MODEL_WORDS[model], percent(mean_interval(values)), gain)
    console.print(table)


def say_what_next(console: Console, place: DemoFolder) -> None:
    """Say what to try with one's own data, and how to serve what was made."""
    say(console, "\n6. What to try next with your own data")
    say(console, "   Put it into a folder, here clients, with one CSV file a task: text,label.\n")
    for command in NEXT:
        say(console, f"   {command}")
    say(console, "\n   A page to try all tasks of this demo, and an API (pip install 'robusttc[serve]'):\n")
    say(console, f"   {command_line('serve', place.run)}")

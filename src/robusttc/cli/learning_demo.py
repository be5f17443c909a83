"""The last part of the demo: models on the clusters, beside what one would have without them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from robusttc.cli.inspection_view import say
from robusttc.cli.progress_view import show_progress
from robusttc.data.task import Task
from robusttc.data.taskset import TaskSet
from robusttc.errors import DoubtWarning

if TYPE_CHECKING:
    from robusttc.learning.verdict import Verdict
    from robusttc.scores import TransferScores

__all__ = ["show_learning"]

TARGETS_SHARE = 4  # every fourth task is new to few-shot learning
# Half the models of the defaults: a demo is waited for.
N_FOLDS, N_RANDOM = 2, 1


def show_learning(
    console: Console, tasks: TaskSet, scores: TransferScores, labels: NDArray[np.intp], seed: int
) -> None:
    """Train multi-task models on the clusters and few-shot models of new tasks, and show both in tables."""
    # Late, so that the other commands do not wait for SciPy and torch.
    from robusttc.baselines.logistic_regression import LogisticRegressionBaseline
    from robusttc.learning.intervals import mean_interval
    from robusttc.multitask.estimator import ClusterMultiTask

    say(console, "\n5. Models on the clusters: ClusterMultiTask().fit(tasks, labels)\n")
    with show_progress() as progress:
        own = LogisticRegressionBaseline(random_state=seed).fit(tasks)
        shared = ClusterMultiTask(clusters="never", n_folds=N_FOLDS, random_state=seed)
        shared.fit(tasks, progress=progress)
        ours = ClusterMultiTask(n_folds=N_FOLDS, n_random=N_RANDOM, random_state=seed)
        ours.fit(tasks, labels, progress=progress)
    ways: dict[str, Callable[[Task, list[str]], Any]] = {
        "own (logistic regression)": lambda task, texts: own.predict(task.name, texts),
        "shared (one model of all)": lambda task, texts: shared.predict(task.name, texts),
        "ours (with clusters)": lambda task, texts: ours.predict(task.name, texts),
    }
    show_table(console, "Multi-task, test rows of all tasks", ways, list(tasks), mean_interval)
    show_verdict(console, ours.verdict_)
    say(console, ours.harm_report(culprits="none").sentence)
    show_few_shot(console, tasks, scores, seed)


def show_few_shot(console: Console, tasks: TaskSet, scores: TransferScores, seed: int) -> None:
    """Cluster some of the tasks without the others, which then come as new ones with a handful of rows."""
    from robusttc.baselines.logistic_regression import LogisticRegressionBaseline
    from robusttc.clustering.estimator import RobustTaskClustering
    from robusttc.fewshot.estimator import ClusterFewShot
    from robusttc.fewshot.protocol import choose_targets, make_few_shot
    from robusttc.fewshot.settings import default_settings
    from robusttc.learning.intervals import mean_interval

    targets = choose_targets(tasks, len(tasks) // TARGETS_SHARE, random_state=seed)
    names = [name for name in tasks.names if name not in targets]
    sources = tasks.subset(names)
    say(
        console,
        f"\n6. {len(targets)} of the tasks as new ones, with a row a label and 20 more: adapt(task)\n",
    )
    with show_progress() as progress, warnings.catch_warnings():
        # What is doubtful about clusters of fewer tasks was said above for all of them.
        warnings.simplefilter("ignore", DoubtWarning)
        clustering = RobustTaskClustering(random_state=seed, remove_donor_effect=True).fit(
            scores.subset(names)
        )
        own = LogisticRegressionBaseline(few_shot=True, random_state=seed).fit(sources)
        settings = default_settings("blend", words=False).replace(held_out=0.5)
        shared = ClusterFewShot(clusters="never", settings=settings, random_state=seed).fit(
            sources, progress=progress
        )
        ours = ClusterFewShot(settings=settings, random_state=seed).fit(
            sources, clustering.labels_, progress=progress
        )

    def adapted(learner: Any) -> Callable[[Task, list[str]], Any]:
        return lambda task, texts: learner.adapt(make_few_shot(task, random_state=seed)).predict(texts)

    ways = {
        "own (logistic regression)": adapted(own),
        "shared (one metric of all)": adapted(shared),
        "ours (with clusters)": adapted(ours),
    }
    show_table(
        console, "Few-shot, test rows of new tasks", ways, [tasks[name] for name in targets], mean_interval
    )
    show_verdict(console, ours.verdict_)


def show_table(
    console: Console,
    title: str,
    ways: dict[str, Callable[[Task, list[str]], Any]],
    tasks: list[Task],
    mean_interval: Callable[..., Any],
) -> None:
    """Print the mean accuracy of each way over tasks, with its interval and the difference to the first."""
    table = Table(title=title, title_justify="left")
    for column in ("model", "accuracy in % [95 % interval]", "gain over own"):
        table.add_column(column, justify="left" if column == "model" else "right")
    first: NDArray[np.float64] | None = None
    for name, predict in ways.items():
        accuracies = np.array([judge(task, predict) for task in tasks])
        mean = mean_interval(accuracies)
        gain = ""
        if first is not None:
            found = mean_interval(accuracies - first)
            gain = f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
        first = accuracies if first is None else first
        table.add_row(name, f"{100 * mean.mean:.1f} [{100 * mean.low:.1f}, {100 * mean.high:.1f}]", gain)
    console.print(table)


def judge(task: Task, predict: Callable[[Task, list[str]], Any]) -> float:
    """Give the accuracy on the test rows of a task."""
    rows = task.rows("test")
    return float((predict(task, list(task.texts.take(rows))) == task.labels[rows]).mean())


def show_verdict(console: Console, verdict: Verdict | None) -> None:
    """Say whether clusters pay."""
    if verdict is not None:
        say(console, verdict.sentence)

"""Why clusters do or do not pay in multi-task learning: the paper's models under changed conditions.

``python -m benchmarks.paper.why [--quick] [--only WAY|GROUP ...] [--sets SET ...] [--seeds N] [--out FILE]``

Every row trains the paper's models on sentence vectors: one for all tasks (holistic), one for each cluster,
one for each random cluster of the same sizes, and one for each task, and compares them by task, on test rows.
No choice is made by it. What changes:

* ``base``: nothing; 20 clusters of the paper's scores;
* ``width``: how many numbers the shared layer has. If tasks fought for room in it, a narrow one would make
  clusters pay;
* ``rows``: only a part of every task's training rows. With few rows, what others know is worth more;
* ``phrases``: training rows are left out whose text stands among the test rows of another task;
* ``K``: the number of clusters, of the paper's scores and of our default instrument.

Tasks that lose are those for which the model of all tasks is worse than their own: what clusters could mend.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.learning_multitask import judge as judge_model
from benchmarks.paper import diverse, intents_mtl
from benchmarks.paper.clusters import Clusterings, Instrument
from benchmarks.paper.figure_table import FigureTable, Measured, Options, parse_options
from benchmarks.paper.plan import Plan
from benchmarks.paper.sets import cut_rows
from benchmarks.paper.table import Way
from robusttc import Task, TaskSet
from robusttc.baselines.holistic import HolisticBaseline
from robusttc.baselines.single_task import SingleTaskBaseline
from robusttc.learning.groups import random_groups_like
from robusttc.learning.intervals import difference_interval
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.transfer.overlap import normalise_text

__all__ = ["Condition", "drop_phrases", "list_conditions", "main"]

TABLE = "why"
PLANS = {"bots175": intents_mtl.make_plan, "diverse": diverse.make_plan}
ENCODER = "sentence"
NUMBER = {False: 20, True: 3}
WIDTHS = {False: (5, 10, 25, 50, 800), True: (10,)}
SHARES = {False: (0.1, 0.25, 0.5), True: (0.5,)}
NUMBERS = {False: (2, 5, 10, 40), True: (2,)}
LEAST_ROWS = 8
Accuracies = dict[str, dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is changed."""

    way: str
    group: str
    width: int = 200
    share: float = 1.0
    without_phrases: bool = False
    number: int = 20
    instrument: Instrument = "paper"


def list_conditions(*, quick: bool) -> Iterator[Condition]:
    """Give all conditions; what is not named is as in the first."""
    base = Condition(way="as in the tables", group="base", number=NUMBER[quick])
    yield base
    yield replace(base, way="our scores", group="K", instrument="default")
    yield replace(base, way="no text of another task's test rows", group="phrases", without_phrases=True)
    for width in WIDTHS[quick]:
        yield replace(base, way=f"width {width}", group="width", width=width)
    for share in SHARES[quick]:
        yield replace(base, way=f"{share:.0%} of the training rows", group="rows", share=share)
    for number in NUMBERS[quick]:
        yield replace(base, way=f"K = {number}", group="K", number=number)
        yield replace(base, way=f"K = {number}, our scores", group="K", number=number, instrument="default")


@dataclass(eq=False)
class Trials:
    """All models of one set; those that several conditions share are trained once."""

    plan: Plan
    quick: bool
    accuracies: dict[tuple[Any, ...], Accuracies] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clusterings = Clusterings(self.plan)

    def compare(self, condition: Condition, seed: int) -> Measured:
        """Train all models of a condition, and compare them by task."""
        tasks = self.change(condition)
        clusters = self.clusterings.robust(
            condition.instrument, condition.number, encoder=ENCODER, tasks=self.plan.data.tasks, seed=seed
        )
        labels = [clusters.groups[name] for name in tasks.names]
        shuffled = dict(zip(tasks.names, random_groups_like(labels, seed).tolist(), strict=True))
        changed = (condition.width, condition.share, condition.without_phrases, seed)
        holistic = self.once(("holistic", *changed), lambda: self.holistic(tasks, condition, seed), tasks)
        single = self.once(("single", *changed[1:]), lambda: self.single(tasks, seed), tasks)
        on_clusters = self.judge(self.on(tasks, dict(clusters.groups), condition, seed), tasks)
        on_random = self.judge(self.on(tasks, shuffled, condition, seed), tasks)
        figures: dict[str, Any] = {"n_clusters": clusters.extra["n_clusters"]}
        for name, own in (
            ("single", single),
            ("holistic", holistic),
            ("clusters", on_clusters),
            ("random", on_random),
        ):
            figures[name] = 100 * float(np.mean(list(own["all"].values())))
        for texts in ("all", "novel"):
            for name, other in (("holistic", holistic), ("random", on_random)):
                figures[f"clusters_less_{name}_{texts}"] = show(on_clusters[texts], other[texts])
        alone, shared = (np.array(list(one["all"].values())) for one in (single, holistic))
        figures["tasks_that_lose"] = int(np.count_nonzero(shared < alone))
        n_rows = sum(len(task.rows("train")) for task in tasks)
        return Measured(
            figures=figures,
            settings={**vars(condition), "settings": self.settings(condition)},
            extra={**clusters.extra, "n_training_rows": n_rows},
        )

    def once(self, key: tuple[Any, ...], fit: Any, tasks: TaskSet) -> Accuracies:
        """Judge a model that other conditions have too."""
        if key not in self.accuracies:
            self.accuracies[key] = self.judge(fit(), tasks)
        return self.accuracies[key]

    def change(self, condition: Condition) -> TaskSet:
        """Give the tasks with the training rows of a condition."""
        tasks = self.plan.data.tasks
        if condition.without_phrases:
            tasks = drop_phrases(tasks)
        if condition.share < 1:
            tasks = TaskSet(cut_share(task, condition.share) for task in tasks)
        return tasks

    def settings(self, condition: Condition) -> Any:
        """Give how models are trained."""
        return self.plan.multitask[ENCODER].replace(width=condition.width)

    def holistic(self, tasks: TaskSet, condition: Condition, seed: int) -> Any:
        """Train one model for all tasks."""
        model = HolisticBaseline(ENCODER, settings=self.settings(condition), random_state=seed)
        return model.fit(tasks)

    def single(self, tasks: TaskSet, seed: int) -> Any:
        """Train a model for each task, as the tables do."""
        model = SingleTaskBaseline(ENCODER, settings=self.plan.frozen_single, random_state=seed)
        return model.fit(tasks)

    def on(self, tasks: TaskSet, groups: dict[str, int], condition: Condition, seed: int) -> Any:
        """Train a model for each cluster."""
        settings = self.settings(condition)
        model = ClusterMultiTask(ENCODER, strategy="paper", settings=settings, random_state=seed)
        return model.fit(tasks, groups)

    def judge(self, model: Any, tasks: TaskSet) -> Accuracies:
        """Give the accuracy of every task on all and on novel texts."""
        return judge_model(model, tasks, "test", dict(self.plan.data.novel))


def show(first: dict[str, float], second: dict[str, float]) -> str:
    """Give the paired difference in points, with its interval."""
    names = sorted(first)
    found = difference_interval([first[name] for name in names], [second[name] for name in names])
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def cut_share(task: Task, share: float) -> Task:
    """Keep a part of a task's training rows, at least eight and one of every label."""
    n_rows = max(LEAST_ROWS, round(share * len(task.rows("train"))))
    return cut_rows(task, (n_rows,))


def drop_phrases(tasks: TaskSet) -> TaskSet:
    """Leave out training rows whose text stands among the test rows of another task.

    The first row of a label stays, else the task would lose it.
    """
    tested: dict[str, set[str]] = {}
    for task in tasks:
        for text in task.texts.take(task.rows("test")):
            tested.setdefault(normalise_text(text), set()).add(task.name)
    kept = []
    for task in tasks:
        rows = task.rows("train")
        elsewhere = [
            bool(tested.get(normalise_text(text), set()) - {task.name}) for text in task.texts.take(rows)
        ]
        _, first = np.unique(task.label_codes[rows], return_index=True)
        stays = ~np.array(elsewhere)
        stays[first] = True
        kept.append(task.take(np.sort(np.concatenate([rows[stays], task.rows("valid", "test")]))))
    return TaskSet(kept)


def run(options: Options) -> FigureTable:
    """Make all records that are not there yet."""
    table = FigureTable(options.out, TABLE, "quick" if options.quick else "full")
    plans = {name: PLANS[name](options.quick) for name in options.sets}
    table.describe_sets({name: plan.data.tasks for name, plan in plans.items()})
    for seed in range(options.seeds or 1):
        for name, plan in plans.items():
            trials = Trials(plan, options.quick)
            for condition in list_conditions(quick=options.quick):
                way = Way(way=condition.way, group=condition.group, encoder=ENCODER)
                if options.wants(way):
                    table.make(way, partial(trials.compare, condition, seed), seed=seed, targets=name)
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run the table."""
    run(parse_options(str(__doc__), table=TABLE, sets=tuple(PLANS), arguments=arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The data of the tables: tasks with their rows as they are used, targets, and which test texts are novel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning_data import load_set, novel_rows, targets
from benchmarks.reliability import read_kinds
from benchmarks.report import find_data
from robusttc import Task, TaskSet, load_tasks
from robusttc.data import SPLITS
from robusttc.fewshot import choose_targets, few_shot_rows
from robusttc.random import numpy_generator

__all__ = ["Data", "cut_rows", "load_amazon", "load_diverse", "load_intents", "load_many", "make_support"]

AMAZON_TARGETS = ("books", "dvd", "electronics", "kitchen_housewares")
WITHOUT_TRAINING = ("music", "video")
TRAINING_SHARE = 0.8
# Sentence vectors of reviews take 25 ms each: of all of them, longer than everything else together.
AMAZON_ROWS = (1000, 200)
QUICK_ROWS = (48, 24, 30)
N_MANY_TARGETS = 100
N_DIVERSE_TARGETS = 40

Novel = dict[str, NDArray[np.bool_]]


@dataclass(frozen=True, kw_only=True)
class Data:
    """The tasks of a table.

    Attributes
    ----------
    name
        The name of the data set.
    tasks
        All tasks, with the rows that multi-task learning uses.
    targets
        The names of the tasks that are judged in multi-task learning, by the name of their set.
    new_targets
        The same for few-shot learning; none of them is a source there.
    novel
        Of the test rows of every target, whether no other task has the text.
    few_shot
        Tasks whose support set is given and not drawn, by name; empty where it is drawn.
    kinds
        The true kind of every task, where it is known.
    """

    name: str
    tasks: TaskSet
    targets: Mapping[str, tuple[str, ...]]
    novel: Novel
    new_targets: Mapping[str, tuple[str, ...]]
    few_shot: Mapping[str, Task]
    kinds: Mapping[str, int] | None = None

    @property
    def sources(self) -> TaskSet:
        """The tasks that few-shot learning learns from."""
        held_out = {name for names in self.new_targets.values() for name in names}
        return self.tasks.subset(name for name in self.tasks.names if name not in held_out)


def load_amazon(*, quick: bool) -> Data:
    """Read `amazon69`: a target trains on ``train_full``, drawn anew to the natural share of positives.

    Test rows of tasks that are not judged are left out when it is known which texts are novel.
    """
    whole = load_tasks(
        find_data("amazon69"), split_values={"train_full": "train_full"}, allow_incomplete=True
    )
    if quick:
        domains = ("books", "beauty", "grocery", "software", "video")
        whole = whole.subset(name for name in whole.names if name.split(".")[0] in domains)
        whole = whole.subset(name for name in whole.names if not name.endswith("t2"))
    names = tuple(name for name in whole.names if name.split(".")[0] in AMAZON_TARGETS)
    limits = QUICK_ROWS[:2] if quick else AMAZON_ROWS
    tasks, few_shot = [], {}
    for task in whole:
        if task.name in names:
            few_shot[task.name] = cut_test(task.take(task.rows("train", "test")), quick)
            tasks.append(cut_rows(cut_test(weigh_training(task), quick), limits if quick else ()))
        elif task.name.split(".")[0] in WITHOUT_TRAINING:
            tasks.append(cut_rows(split_validation(task), limits, keep_others=False))
        else:
            tasks.append(cut_rows(task, limits, keep_others=False))
    used = TaskSet(tasks)
    seen_whole = TaskSet([used[task.name] if task.name in names else task for task in whole])
    key = str(len(names))
    return Data(
        name="amazon69",
        tasks=used,
        targets={key: names},
        novel={name: rows for name, rows in novel_rows(seen_whole, "test").items() if name in names},
        new_targets={key: names},
        few_shot=few_shot,
    )


def weigh_training(task: Task, *, seed: int = 0) -> Task:
    """Train on ``train_full``, with as many rows, drawn so that positives are as frequent as in ``valid``."""
    generator = numpy_generator(seed, "natural shares", [task.name])
    full, valid = task.rows("train_full"), task.rows("valid")
    shares = np.bincount(task.label_codes[valid], minlength=len(task.label_names)) / len(valid)
    counts = np.bincount(task.label_codes[full], minlength=len(task.label_names))
    # As many rows as can be had without drawing one twice: a copy teaches nothing.
    n_rows = int(np.floor(np.min(counts[shares > 0] / shares[shares > 0])))
    drawn = []
    for code, share in enumerate(shares):
        own = full[task.label_codes[full] == code]
        drawn.append(generator.permutation(own)[: round(share * n_rows)])
    rows = np.sort(np.concatenate([*drawn, valid, task.rows("test")]))
    splits = ["train" if split == "train_full" else split for split in task.splits[rows]]
    return task.take(rows).with_splits(splits)


def split_validation(task: Task, *, seed: int = 0) -> Task:
    """Train on 80 % of ``valid``, drawn by the seed: these tasks came without training rows."""
    generator = numpy_generator(seed, "training rows of valid", [task.name])
    rows = task.rows("valid", "test")
    kept = task.take(rows)
    valid = kept.rows("valid")
    splits = kept.splits.copy()
    splits[generator.permutation(valid)[: round(TRAINING_SHARE * len(valid))]] = "train"
    return kept.with_splits(splits.tolist())


def cut_rows(task: Task, limits: Sequence[int], *, keep_others: bool = True, seed: int = 0) -> Task:
    """Keep so many rows of each split at the most (train, valid, test), drawn by the task's name.

    At least one row of every label stays in ``train``.
    """
    kept = []
    for place, split in enumerate(SPLITS):
        rows = task.rows(split)
        if place < len(limits) and len(rows) > limits[place]:
            generator = numpy_generator(seed, "rows of a table", [task.name, split])
            order = generator.permutation(rows)
            # The first of each label come first in train, so that the task can be learned.
            _, first = np.unique(task.label_codes[order], return_index=True)
            others = np.setdiff1d(np.arange(len(order)), first)
            rows = order[np.concatenate([np.sort(first), others])][: max(limits[place], len(first))]
        elif place >= len(limits) and not keep_others:
            continue
        kept.append(rows)
    return task.take(np.sort(np.concatenate(kept)))


def cut_test(task: Task, quick: bool) -> Task:
    """Cut the test rows in the quick setting, in the same way for all uses of a task."""
    if not quick:
        return task
    everything = len(task)
    return cut_rows(task, (everything, everything, QUICK_ROWS[2]))


def load_intents(*, quick: bool) -> Data:
    """Read `bots175` whole with its 10 and 30 targets; quick: 16 small bots, three of them targets."""
    tasks = load_set("bots175")
    chosen = {"30": targets(30), "10": targets(10)}
    if quick:
        tasks = pick_small(tasks, 16)
        chosen = {"3": choose_targets(tasks, 3)}
    judged = {"all": tasks.names, **chosen}
    return Data(
        name="bots175",
        tasks=tasks,
        targets=judged,
        novel=novel_rows(tasks, "test"),
        new_targets=chosen,
        few_shot={},
    )


def load_many(*, quick: bool) -> Data:
    """Read `clients1491`; 100 clients, drawn once, are held out for few-shot learning."""
    tasks = load_tasks(find_data("clients1491"))
    if quick:
        tasks = pick_small(tasks, 40)
    chosen = choose_targets(tasks, 5 if quick else N_MANY_TARGETS)
    return Data(
        name="clients1491",
        tasks=tasks,
        targets={"all": tasks.names},
        novel=novel_rows(tasks, "test"),
        new_targets={str(len(chosen)): chosen},
        few_shot={},
    )


def load_diverse(*, quick: bool) -> Data:
    """Read the cut of `diverse`; 40 targets for few-shot learning are drawn over all kinds."""
    tasks = load_set("diverse")
    kinds = dict(zip(tasks.names, read_kinds(tasks), strict=True))
    if quick:
        # Only tasks that were cut: their rows are then the same as in the full setting.
        drawn = draw_over_kinds(kinds, 18)
        tasks = TaskSet([cut_rows(tasks[name], QUICK_ROWS) for name in drawn])
        kinds = {name: kinds[name] for name in drawn}
    chosen = draw_over_kinds(kinds, 6 if quick else N_DIVERSE_TARGETS)
    _, numbers = np.unique([kinds[name] for name in tasks.names], return_inverse=True)
    return Data(
        name="diverse",
        tasks=tasks,
        targets={"all": tasks.names},
        novel=novel_rows(tasks, "test"),
        new_targets={str(len(chosen)): chosen},
        few_shot={},
        kinds=dict(zip(tasks.names, numbers.tolist(), strict=True)),
    )


def draw_over_kinds(kinds: Mapping[str, str], n: int, *, seed: int = 0) -> tuple[str, ...]:
    """Draw tasks kind by kind in turns, so that every kind has some, as many as the others or all it has.

    One task of every kind is left, so that a kind never has targets alone.
    """
    order = {}
    for kind in sorted(set(kinds.values())):
        names = sorted(name for name, own in kinds.items() if own == kind)
        shuffled = numpy_generator(seed, "targets of a kind", [kind]).permutation(len(names))
        order[kind] = [names[place] for place in shuffled][:-1]
    drawn: list[str] = []
    for turn in range(max(map(len, order.values()))):
        drawn += [names[turn] for names in order.values() if turn < len(names)]
    chosen = set(drawn[:n])
    return tuple(name for name in kinds if name in chosen)


def pick_small(tasks: TaskSet, n: int) -> TaskSet:
    """Draw tasks of 100 to 300 rows and at most 12 labels: enough to learn, little to compute."""
    small = [task.name for task in tasks if 100 <= len(task) <= 300 and len(task.label_names) <= 12]
    return tasks.subset(choose_targets(tasks.subset(small), n))


def make_support(data: Data, name: str, draw: int) -> Task:
    """Give a target with a support set in ``train`` and its test rows: as given, or by a draw."""
    if name in data.few_shot:
        return data.few_shot[name]
    task = data.tasks[name]
    rows = few_shot_rows(task, random_state=draw)
    return task.take(np.sort(np.concatenate([rows, task.rows("test")])))

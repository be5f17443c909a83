"""How all tables are made: who learns from what, what is chosen where, and what is counted.

Multi-task: all tasks are learned from their training rows; the targets are judged on their test rows.
Few-shot: the targets are held out; all other tasks are sources, whose training and validation rows may be
used; a target has a support set, and is judged on its test rows. Test rows are looked at when everything is
fitted, and once.

Hyper-parameters are those of the paper's section "Hyper-Parameter Tuning": p1 = p2 = 0.5, a convolution of
window 5 with 200 filters, step size 0.001, word vectors that are random in sentiment and GloVe in intent
models, one setting for all tasks, the epoch with the best mean validation accuracy of the tasks that are
trained together. Single-task models that measure transfer have fixed GloVe vectors. What the paper does not
tell (batch size, dropout, number of epochs, how the fallback is judged) is as the product has it by
default, which was chosen on validation rows of bots175 and diverse, and for few-shot learning on sources of
bots175 that were played as targets; where a table has other numbers for want of time, it says so. Models of
several tasks see each row 60 times at the most (convolutions, 16 tasks a step) or 100 times (sentence
vectors, 4 tasks a step, better on validation rows of bots175 with and without clusters); most are best near
that end, so all of them would gain a little from more. Baselines
are tuned in the same way: C of logistic regression and fastText, the number of neighbours and the penalty
of ASAP by the mean accuracy on validation rows, one value for all tasks; in few-shot tables on sources that
are cut to the size of a support set.

Every row says which seeds it has. Our default has two (one on clients1491, and in multi-task learning of
reviews), and so has what is quick: few-shot learning on sentence vectors, and all of diverse on them; the
rest has one, for time, where a table does not say otherwise, and so has the tuned encoder. Three were
planned. The rows of a task and the support sets are the same for all seeds.

The paper's clusters come from scores of the same run: with the encoder of the row, accuracy as in section
3.1, then Eq. 1, Eq. 2 and spectral clustering. Rows named "default scores" have the clusters of our default
instrument (leave-one-out log-likelihood on narrow encoders, scores completed). Rows named "adaptive"
fall back to the task's own model where no cluster reaches 20 % leave-one-out accuracy on the support set.

Deviation: single-task models are not stopped early, and get a second classifier that is fitted to
convergence: on small tasks both are clearly better, and a weak baseline would make every gain an illusion.

Deviation: weights of clusters (Eq. 3) are learned by leave-one-out on the support set, on the simplex; the
paper does not say how it fits them.

Deviation: sentence vectors are not in the paper. There the convolution is a dense layer of the same width
on frozen MiniLM vectors; where all label sets are identical, few-shot cluster models are softmax regression
on them.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.kept_vectors import keep_vectors
from benchmarks.paper.clusters import Clusterings
from benchmarks.paper.fewshot_ways import fewshot_trials
from benchmarks.paper.multitask_ways import multitask_trials
from benchmarks.paper.plan import Learning, Plan
from benchmarks.paper.sets import Data, make_support
from benchmarks.paper.table import Cost, Figures, Setting, Stopwatch, Table, default_path, key_of
from benchmarks.paper.ways import Learned, Trial, choose_trials
from benchmarks.records import LEAST_ROWS
from robusttc.errors import StoreError

__all__ = ["main", "run_table"]

GROUPS = ("paper, cnn", "paper, sentence", "ours", "today")
# What two processes of a full run have to do: about the same.
SHARES = (("paper, cnn",), ("today", "ours", "paper, sentence"))
DRAWS = 2  # decimals of the accuracy of a draw, in per cent

Right = dict[str, list[NDArray[np.bool_]]]


def run_table(
    plan: Plan,
    table: Table,
    *,
    only: Sequence[str] | None = None,
    skip: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    seeds: int | None = None,
) -> None:
    """Make all records of a table that are not there yet."""
    table.describe_data(plan.data.name, plan.used)
    clusterings = Clusterings(plan)
    work: list[tuple[Learning, Trial, int]] = []
    wanted: list[str] = []
    for learning in plan.learning:
        make = multitask_trials if learning == "multitask" else fewshot_trials
        sets = plan.data.targets if learning == "multitask" else plan.data.new_targets
        trials = make(plan, clusterings)
        chosen = choose_trials(trials, only=only, skip=skip, groups=groups)
        for trial in trials:
            keys = trial.targets or tuple(sets)
            count = plan.seeds.get(trial.way.group, 1)
            wanted += [
                key_of(trial.way, seed=seed, targets=key)
                for seed in range(trial.count_seeds(count))
                for key in keys
            ]
            if trial in chosen:
                work += [
                    (learning, trial, seed)
                    for seed in range(trial.count_seeds(seeds or count))
                    if table.lacks(trial.way, seed=seed, targets=keys)
                ]
    table.expect(wanted, {name: float(rows.mean()) for name, rows in plan.data.novel.items()})
    # One seed of everything first: a run that is cut short has a whole table.
    work.sort(key=lambda one: one[2])
    start = time.perf_counter()
    for place, (learning, trial, seed) in enumerate(work):
        make_records(plan, table, clusterings, learning, trial, seed)
        spent = time.perf_counter() - start
        left = spent / (place + 1) * (len(work) - place - 1)
        print(
            f"  {place + 1} of {len(work)} fits, {spent:.0f} s; {left:.0f} s to go at this pace", flush=True
        )


def leave_out(table: Table, trial: Trial, seed: int, keys: Sequence[str], reason: str) -> None:
    """Make the record of a way that something is missing for: it says what."""
    missing = Figures(accuracies={}, extra={"left_out": reason})
    for key in keys:
        table.add(trial.way, missing, Stopwatch().read(), seed=seed, targets=key)


def make_records(
    plan: Plan, table: Table, clusterings: Clusterings, learning: Learning, trial: Trial, seed: int
) -> None:
    """Fit a way once, and make its record for every set of targets."""
    data = plan.data
    sets = data.targets if learning == "multitask" else data.new_targets
    keys = trial.targets or tuple(sets)
    watch, before = Stopwatch(), clusterings.spent()
    learned = trial.fit(seed)
    after = clusterings.spent()
    fitting = less(watch.read(), before, after)
    names = [name for name in data.tasks.names if any(name in sets[key] for key in keys)]
    extra = {**learned.extra, "fit_seconds": fitting.seconds}
    draws = 1
    if learning == "multitask":
        right = judge_multitask(learned.model, data, names)
    else:
        draws = plan.draws if trial.max_draws is None else min(plan.draws, trial.max_draws)
        try:
            right, said = judge_fewshot(learned, data, names, draws)
        except ModuleNotFoundError as error:
            leave_out(table, trial, seed, keys, str(error))
            return
        extra |= said
    cost = less(watch.read(), before, after)
    settings = {"learning": learning, **learned.settings, "draws": draws}
    for key in keys:
        own = {name: right[name] for name in names if name in sets[key]}
        told = dict(extra)
        if draws > 1:
            told["draws"] = {name: percents(rows) for name, rows in own.items()}
        figures = Figures(accuracies=score(own, data.novel), settings=settings, extra=told)
        table.add(trial.way, figures, cost, seed=seed, targets=key)


def less(cost: Cost, before: tuple[float, float], after: tuple[float, float]) -> Cost:
    """Take from a cost what the scores took, which other rows use too."""
    return dataclasses.replace(
        cost,
        seconds=round(cost.seconds - (after[0] - before[0]), 2),
        cpu_seconds=round(cost.cpu_seconds - (after[1] - before[1]), 2),
    )


def percents(draws: Sequence[NDArray[np.bool_]]) -> list[float]:
    """Give the accuracy of every draw in per cent."""
    return [round(100 * float(rows.mean()), DRAWS) for rows in draws]


def judge_multitask(model: Any, data: Data, names: Sequence[str]) -> Right:
    """Tell of every test row of some tasks whether it is predicted right."""
    right: Right = {}
    for name in names:
        task = data.tasks[name]
        rows = task.rows("test")
        right[name] = [model.predict(name, list(task.texts_at(rows))) == task.labels[rows]]
    return right


def judge_fewshot(
    learned: Learned, data: Data, names: Sequence[str], draws: int
) -> tuple[Right, Mapping[str, Any]]:
    """Tell the same of every draw of a support set; say how often the task's own model served."""
    right: Right = {name: [] for name in names}
    n_out, seconds = 0, []
    for name in names:
        keep_vectors(learned.model, data.tasks[name].texts)
        for draw in range(draws):
            task = make_support(data, name, draw)
            rows = task.rows("test")
            start = time.perf_counter()
            model = learned.model.adapt(task)
            seconds.append(time.perf_counter() - start)
            right[name].append(model.predict(list(task.texts_at(rows))) == task.labels[rows])
            n_out += bool(getattr(model, "out_of_cluster_", False))
    said = {
        "out_of_cluster": n_out,
        "n_adapted": len(seconds),
        "adapt_ms": round(1000 * float(np.median(seconds)), 1),
    }
    return right, said


def score(right: Right, novel: Mapping[str, NDArray[np.bool_]]) -> dict[str, dict[str, float]]:
    """Give the accuracy of every task on all and on novel texts, the mean over draws."""
    scores: dict[str, dict[str, float]] = {"all": {}, "novel": {}}
    for name, draws in right.items():
        rows = np.mean(draws, axis=0)
        scores["all"][name] = float(rows.mean())
        if novel[name].sum() >= LEAST_ROWS:
            scores["novel"][name] = float(rows[novel[name]].mean())
    return scores


def main(name: str, make_plan: Callable[[bool], Plan], description: str | None = None) -> None:
    """Run a table from the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few small tasks, to see that it works")
    parser.add_argument("--only", nargs="+", metavar="WAY", help="ways with one of these words in the name")
    parser.add_argument("--skip", nargs="+", metavar="WAY", help="no ways with one of these words")
    parser.add_argument("--group", nargs="+", choices=GROUPS, help="groups of rows")
    parser.add_argument("--seeds", type=int, help="so many seeds for every way")
    parser.add_argument("--out", type=Path, help="the file of records")
    parser.add_argument(
        "--processes", type=int, choices=(1, 2), help="2 (full) has the convolutions apart; 1 is for quick"
    )
    arguments = parser.parse_args()
    setting: Setting = "quick" if arguments.quick else "full"
    path = arguments.out or default_path(name, setting)
    start = time.perf_counter()
    if (arguments.processes or (1 if arguments.quick else 2)) == 2 and not arguments.group:
        run_shares()
    else:
        try:
            table = Table(path, name, setting)
        except StoreError as error:
            sys.exit(str(error))
        plan = make_plan(arguments.quick)
        chosen = {"only": arguments.only, "skip": arguments.skip, "groups": arguments.group}
        run_table(plan, table, seeds=arguments.seeds, **chosen)
    print(f"{name}, {setting}: {time.perf_counter() - start:.0f} s; records in {path}", flush=True)


def run_shares() -> None:
    """Run this command twice at once, each with its own groups of rows; both write to the one file."""
    module = ["-m", "benchmarks.paper." + Path(sys.argv[0]).stem]
    started = [
        subprocess.Popen([sys.executable, *module, *sys.argv[1:], "--processes", "1", "--group", *share])
        for share in SHARES
    ]
    failed = [share for share, process in zip(SHARES, started, strict=True) if process.wait()]
    if failed:
        sys.exit(f"Not all rows were made: {failed}. Run it again: what is there is not made again.")

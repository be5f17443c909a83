"""How good single-task models are on bots175, beside probes of their own features and logistic regression.

``python -m benchmarks.single_task`` trains the model of every bot, with three seeds, on its training rows:

* CNN: convolution on frozen GloVe vectors; sentence layer: a dense layer on frozen MiniLM vectors; both with
  the default settings. Of each: the classifier of the last epoch, a class-balanced ridge probe on the same
  features, and the product's model (`robusttc.models.training`);
* class-balanced logistic regression on MiniLM vectors, C = 30: scikit-learn's and ours (`fit_softmax`).

The figure is the accuracy on validation rows, the mean over bots, with a 95 % bootstrap interval over bots;
with ``--test``, that on test rows. Everything was chosen on validation rows. *Novel* texts occur in no other
bot's data (lower-cased, letters and digits only). Seeds are averaged within a bot.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from threadpoolctl import threadpool_limits

from benchmarks.report import GLOVE, find_data, print_table
from robusttc.data import Task, TaskSet, load_tasks
from robusttc.encoders import CnnEncoder, DenseInputs, Encoder, PreparedTasks, SentenceEncoder
from robusttc.models import HEAD_C, TrainingSettings, add_converged_head, fit_softmax, train_single_task
from robusttc.random import numpy_generator
from robusttc.stats import Estimate, difference_interval, mean_interval
from robusttc.transfer import normalise_text

Codes = NDArray[np.int64]
# One row of correct answers (or not) by the name of the way.
Answers = dict[str, NDArray[np.bool_]]

RIDGE = 10.0
LOGISTIC_C = 30.0
LEAST_ROWS = 5
PAIRS = (
    ("CNN, ours", "CNN, last epoch"),
    ("CNN, ours", "CNN, ridge probe"),
    ("sentence layer, ours", "sentence layer, last epoch"),
    ("sentence layer, ours", "sentence layer, ridge probe"),
    ("sentence layer, ours", "MiniLM, logistic regression (scikit-learn)"),
    ("MiniLM, logistic regression (ours)", "MiniLM, logistic regression (scikit-learn)"),
)


def trained_answers(kind: str, task: Task, prepared: PreparedTasks, split: str, seed: int) -> Answers:
    """Train one model, and give the answers of its three classifiers."""
    train, rows = task.rows("train"), task.rows(split)
    inputs, held_out = prepared.inputs_of(task.name, train), prepared.inputs_of(task.name, rows)
    codes = task.label_codes[train].astype(np.int64)
    # What `train_single_task` does by default, in two steps, since the first is wanted too.
    last = train_single_task(task, prepared, settings=TrainingSettings(), seed=seed, head_c=None)
    ours = add_converged_head(last, inputs, codes, HEAD_C, balanced=True)
    probe = RidgeClassifier(alpha=RIDGE, class_weight="balanced").fit(last.layer.represent(inputs), codes)
    found = {
        "last epoch": last.predict_codes(held_out),
        "ridge probe": probe.predict(last.layer.represent(held_out)),
        "ours": ours.predict_codes(held_out),
    }
    return {f"{kind}, {way}": predicted == task.label_codes[rows] for way, predicted in found.items()}


def logistic_answers(task: Task, prepared: PreparedTasks, split: str) -> Answers:
    """Fit both logistic regressions on the frozen vectors, and give their answers."""
    train, rows = task.rows("train"), task.rows(split)
    inputs, held_out = prepared.inputs_of(task.name, train), prepared.inputs_of(task.name, rows)
    assert isinstance(inputs, DenseInputs)
    assert isinstance(held_out, DenseInputs)
    codes = task.label_codes[train].astype(np.int64)
    theirs = LogisticRegression(C=LOGISTIC_C, class_weight="balanced", max_iter=1000).fit(
        inputs.matrix, codes
    )
    ours = fit_softmax(
        inputs.matrix, codes, n_labels=len(task.label_names), C=LOGISTIC_C, balanced=True
    ).predict_codes(held_out.matrix)
    expected = task.label_codes[rows]
    return {
        "MiniLM, logistic regression (scikit-learn)": theirs.predict(held_out.matrix) == expected,
        "MiniLM, logistic regression (ours)": ours == expected,
    }


def find_novel(tasks: TaskSet, split: str) -> dict[str, NDArray[np.bool_]]:
    """Tell which texts of a split occur in no other task, in any split."""
    forms = {task.name: [normalise_text(text) for text in task.texts] for task in tasks}
    n_tasks_of = Counter(form for own in forms.values() for form in set(own))
    return {
        task.name: np.array([n_tasks_of[forms[task.name][row]] == 1 for row in task.rows(split)], dtype=bool)
        for task in tasks
    }


def measure(
    *,
    n_tasks: int | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    split: str = "valid",
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Train everything, and give the accuracies of every bot, on all and on novel texts."""
    everything = load_tasks(find_data("bots175"))
    novel = find_novel(everything, split)
    tasks = everything
    if n_tasks is not None and n_tasks < len(everything):
        drawn = numpy_generator(0, "single-task benchmark").permutation(everything.names)[:n_tasks]
        tasks = everything.subset(sorted(drawn.tolist()))
    encoders: dict[str, Encoder] = {"CNN": CnnEncoder(GLOVE), "sentence layer": SentenceEncoder()}
    answers: dict[str, list[Answers]] = {task.name: [] for task in tasks}
    with threadpool_limits(1):
        for kind, encoder in encoders.items():
            prepared = encoder.prepare(tasks, splits=("train", split))
            for number, task in enumerate(tasks):
                answers[task.name] += [trained_answers(kind, task, prepared, split, seed) for seed in seeds]
                if kind == "sentence layer":
                    answers[task.name].append(logistic_answers(task, prepared, split))
                tell(f"{kind}: {number + 1} of {len(tasks)}")
    return summarise(answers, novel, split=split, seeds=seeds)


def summarise(
    answers: dict[str, list[Answers]],
    novel: dict[str, NDArray[np.bool_]],
    *,
    split: str,
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Give the mean over bots of every way, and paired differences, on all and on novel texts."""
    figures: dict[str, Any] = {"split": split, "seeds": list(seeds), "head_c": HEAD_C}
    for texts in ("all", "novel"):
        # A mean of one or two rows is a coin; every bot has more in all.
        names = [name for name in answers if texts == "all" or novel[name].sum() >= LEAST_ROWS]
        accuracies: dict[str, list[float]] = {}
        for name in names:
            kept = novel[name] if texts == "novel" else np.ones_like(novel[name])
            by_way: dict[str, list[float]] = {}
            for answer in answers[name]:
                for way, correct in answer.items():
                    by_way.setdefault(way, []).append(float(correct[kept].mean()))
            for way, values in by_way.items():
                accuracies.setdefault(way, []).append(float(np.mean(values)))
        columns = {way: np.array(values) for way, values in accuracies.items()}
        figures[texts] = {
            "n_tasks": len(names),
            "accuracies": accuracies,
            "means": {way: as_tuple(mean_interval(values)) for way, values in columns.items()},
            "differences": {
                f"{first} less {second}": as_tuple(difference_interval(columns[first], columns[second]))
                for first, second in PAIRS
            },
        }
    return figures


def as_tuple(figure: Estimate) -> tuple[float, float, float]:
    """Return the mean and the ends of its interval."""
    return figure.mean, figure.low, figure.high


def show(mean: float, low: float, high: float, *, sign: str = "") -> str:
    """Give a figure in per cent, with its interval."""
    return f"{100 * mean:{sign}.1f} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", type=int, help="how many bots are drawn; all if left out")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds, from 0 up")
    parser.add_argument("--test", action="store_true", help="look at test rows, not validation rows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    arguments = parser.parse_args()
    split = "test" if arguments.test else "valid"
    figures = measure(n_tasks=arguments.tasks, seeds=range(arguments.seeds), split=split)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(
        f"Accuracy in % on rows in {split}, mean over {figures['all']['n_tasks']} bots (novel texts: "
        f"{figures['novel']['n_tasks']} bots with at least {LEAST_ROWS}), 95 % bootstrap interval over bots; "
        f"seeds {figures['seeds']}\n"
    )
    for part, sign in (("means", ""), ("differences", "+")):
        header = ["model" if part == "means" else "difference in points", "all texts", "novel texts"]
        rows = [
            [way, *(show(*figures[texts][part][way], sign=sign) for texts in ("all", "novel"))]
            for way in figures["all"][part]
        ]
        print_table(header, rows)
        print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The part ``accuracy`` of `benchmarks.ground`: regression on the vectors of MiniLM, of USE, and of both.

Trained on train, judged on valid; test rows are not looked at. Novel texts (lower-cased, letters and digits
only) occur in no other of the 175 bots. The strength of regularisation is one for all tasks, chosen for each
encoder and setting on 30 bots: on a fifth of their train rows, or on those that are no few-shot examples. A
figure is a mean over tasks in per cent, then the paired difference to MiniLM with its 95 % bootstrap interval
over tasks. German and Spanish intents are made from the templates of ``planted_languages.toml``: the
templates of valid are not those of train.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning_data import targets
from benchmarks.pair_gain import find_novel
from benchmarks.records import Record, compare, estimate, score_answers, show
from benchmarks.report import find_data
from robusttc import Task, TaskSet, load_tasks
from robusttc.encoders import DenseInputs, make_encoder
from robusttc.models import fit_softmax
from robusttc.random import numpy_generator

ENCODERS = ("sentence", "multilingual", "both")
HEADER = ("what", *ENCODERS)
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
N_EXAMPLES, N_DRAWS = 5, 5  # examples a label; draws of them, seeds 0 to 4
ALL_ROWS, FEW_SHOT = "all train rows", f"{N_EXAMPLES} examples a label"
LANGUAGES = Path(__file__).parent / "planted_languages.toml"
N_TASKS, N_INTENTS = 8, 8  # a language; a task
FILLED = {"train": 3, "valid": 2}  # rows of a template

Floats = NDArray[np.float32]
Codes = NDArray[np.int64]
# Predicts the labels of the last argument from vectors and labels of the first two.
Predict = Callable[[Floats, Codes, Floats, int], Codes]
# Chooses rows to train on, from their labels, a seed and the name of the task.
Cut = Callable[[Codes, int, str], NDArray[np.intp]]


@dataclass(frozen=True)
class Problem:
    """The train and valid rows of a task, as one encoder sees them."""

    name: str
    n_labels: int
    train: Floats
    train_codes: Codes
    valid: Floats
    valid_codes: Codes
    novel: NDArray[np.bool_]


def measure(_old: Path | None) -> list[list[str]]:
    """Return the rows of the table."""
    bots = load_tasks(find_data("bots175"))
    novel = find_novel(bots)
    few = {encoder: prepare(bots.subset(targets(30)), encoder, novel) for encoder in ENCODERS}
    strengths = {
        how: {encoder: choose_strength(few[encoder], cut) for encoder in ENCODERS}
        for how, cut in ((ALL_ROWS, keep_most), (FEW_SHOT, draw_examples))
    }
    rows = measure_bots(f"{len(targets(30))} bots", few, strengths)
    for language in tomllib.loads(LANGUAGES.read_text(encoding="utf-8")):
        tasks = make_language_tasks(language)
        planted = {encoder: prepare(tasks, encoder) for encoder in ENCODERS}
        what = f"{N_TASKS} planted tasks in {language}"
        found = {name: judge(planted[name], regress(strengths[FEW_SHOT][name])) for name in ENCODERS}
        rows += show_rows(f"{what}, regression", found, kinds=("all",))
        found = {name: judge(planted[name], nearest_mean) for name in ENCODERS}
        rows += show_rows(f"{what}, nearest label mean", found, kinds=("all",))
    whole = {encoder: prepare(bots, encoder, novel) for encoder in ENCODERS}
    return rows + measure_bots(f"{len(bots)} bots", whole, strengths)


def measure_bots(
    what: str, problems: Mapping[str, list[Problem]], strengths: Mapping[str, Mapping[str, float]]
) -> list[list[str]]:
    """Return the rows of some bots: trained on all train rows, and on few of them."""
    rows = []
    for how, cut in ((ALL_ROWS, None), (FEW_SHOT, draw_examples)):
        found = {name: judge(problems[name], regress(strengths[how][name]), cut) for name in ENCODERS}
        chosen = ", ".join(f"{strength:g}" for strength in strengths[how].values())
        rows += show_rows(f"{what}, {how}, regression (C = {chosen})", found)
    found = {name: judge(problems[name], nearest_mean, draw_examples) for name in ENCODERS}
    return rows + show_rows(f"{what}, {FEW_SHOT}, nearest label mean", found)


def prepare(tasks: TaskSet, encoder: str, novel: dict[str, NDArray[np.bool_]] | None = None) -> list[Problem]:
    """Encode train and valid of tasks that have both."""
    prepared = make_encoder(encoder, device="cpu").prepare(tasks, splits=("train", "valid"))
    assert isinstance(prepared.inputs, DenseInputs)
    problems = []
    for task in tasks:
        train, valid = task.rows("train"), task.rows("valid")
        if len(valid) == 0:
            continue
        vectors = [prepared.inputs.matrix[prepared.items_of(task.name, rows)] for rows in (train, valid)]
        codes = task.label_codes.astype(np.int64)
        is_novel = np.ones(len(valid), dtype=np.bool_) if novel is None else novel[task.name][valid]
        problems.append(
            Problem(
                task.name,
                len(task.label_names),
                vectors[0],
                codes[train],
                vectors[1],
                codes[valid],
                is_novel,
            )
        )
    return problems


def regress(strength: float, tol: float = 1e-4) -> Predict:
    """Return class-balanced softmax regression."""

    def predict(train: Floats, codes: Codes, asked: Floats, n_labels: int) -> Codes:
        model = fit_softmax(train, codes, n_labels=n_labels, C=strength, balanced=True, tol=tol)
        return model.predict_codes(asked)

    return predict


def nearest_mean(train: Floats, codes: Codes, asked: Floats, n_labels: int) -> Codes:
    """Predict the label whose mean vector has the largest cosine."""
    del n_labels
    labels = np.unique(codes)
    means = np.stack([train[codes == label].mean(axis=0) for label in labels])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(labels[np.argmax(asked @ means.T, axis=1)])


def keep_most(codes: Codes, seed: int, name: str) -> NDArray[np.intp]:
    """Return four fifths of the rows, of every label alike."""
    order = numpy_generator(seed, "train rows of a benchmark", [name]).permutation(len(codes))
    by_label = order[np.argsort(codes[order], kind="stable")]
    return np.delete(by_label, np.arange(2, len(codes), 5))


def draw_examples(codes: Codes, seed: int, name: str) -> NDArray[np.intp]:
    """Return five rows of every label, or all of those that have fewer."""
    order = numpy_generator(seed, "few-shot rows of a benchmark", [name]).permutation(len(codes))
    return np.concatenate([order[codes[order] == label][:N_EXAMPLES] for label in np.unique(codes)])


def choose_strength(problems: Sequence[Problem], cut: Cut) -> float:
    """Return the strength with the best mean accuracy on the train rows that are left out of training."""
    means = []
    for strength in STRENGTHS:
        predict, accuracies = regress(strength, tol=1e-3), []
        for problem in problems:
            kept = cut(problem.train_codes, 0, problem.name)
            left = np.setdiff1d(np.arange(len(problem.train_codes)), kept)
            if len(left) == 0 or len(np.unique(problem.train_codes[kept])) < 2:
                continue
            own, codes = problem.train, problem.train_codes
            right = predict(own[kept], codes[kept], own[left], problem.n_labels) == codes[left]
            accuracies.append(right.mean())
        means.append(np.mean(accuracies))
    print(f"{cut.__name__}: {dict(zip(STRENGTHS, np.round(means, 4).tolist(), strict=True))}", flush=True)
    return STRENGTHS[int(np.argmax(means))]


def judge(problems: Sequence[Problem], predict: Predict, cut: Cut | None = None) -> list[Record]:
    """Return the accuracy of every task on all and on novel rows of valid, one record a draw."""
    records: list[Record] = []
    for seed in range(1 if cut is None else N_DRAWS):
        right = {}
        for problem in problems:
            own, codes = problem.train, problem.train_codes
            if cut is not None:
                kept = cut(codes, seed, problem.name)
                own, codes = own[kept], codes[kept]
            right[problem.name] = predict(own, codes, problem.valid, problem.n_labels) == problem.valid_codes
        records.append(dict(score_answers(right, {problem.name: problem.novel for problem in problems})))
    return records


def show_rows(
    what: str, found: dict[str, list[Record]], kinds: Sequence[str] = ("all", "novel")
) -> list[list[str]]:
    """Return a row for all and one for novel texts."""
    rows = []
    for texts in kinds:
        base = found["sentence"]
        cells: list[str] = []
        for own in found.values():
            mean = f"{100 * estimate(own, texts).mean:.1f}"
            cells.append(mean if own is base else f"{mean}: {show(compare(own, base, texts), sign='+')}")
        rows.append([f"{what}, {texts} texts", *cells])
        print(" | ".join(rows[-1]), flush=True)
    return rows


def make_language_tasks(language: str) -> TaskSet:
    """Make tasks of some intents each; half of the templates of an intent are of train, half of valid."""
    grammar: dict[str, Any] = tomllib.loads(LANGUAGES.read_text(encoding="utf-8"))[language]
    tasks = []
    for number in range(N_TASKS):
        generator = numpy_generator(0, "language tasks of a benchmark", [language, str(number)])
        rows = set()
        for intent in generator.choice(sorted(grammar["intents"]), N_INTENTS, replace=False):
            templates = generator.permutation(grammar["intents"][intent])
            for place, template in enumerate(templates):
                split = "train" if 2 * place < len(templates) else "valid"
                for _ in range(FILLED[split]):
                    slots = {name: generator.choice(words) for name, words in grammar["slots"].items()}
                    rows.add((str(template).format(**slots), str(intent), split))
        tasks.append(Task(f"{language}-{number}", *zip(*sorted(rows), strict=True)))
    return TaskSet(tasks)

"""Few-shot learning through its public names, beside balanced regression with label names.

Printed by ``make bench-learning ARGUMENTS="--only PART"``; every part learns without clusters (``bots`` is in
`benchmarks.learning_bots`):

* ``targets``: the 30 targets of `bots175`, one row a label and 20 more, all and novel test texts;
* ``curves``: from one row a label to 50, on public intent sets that are unlike the sources;
* ``anchors``: BANKING77, CLINC150 and HWU64 with the fixed 5- and 10-shot rows that others report on;
* ``scope``: texts of other targets as out-of-scope texts, and how many of a task's own texts are rejected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning_bots import Scores, add, bench_bots, show, show_difference
from benchmarks.learning_data import load_set, novel_rows, targets
from benchmarks.records import LEAST_ROWS
from benchmarks.report import find_data, print_table
from robusttc import ClusterFewShot, Task, TaskSet, load_tasks
from robusttc.encoders import DEFAULT_ENCODER, Encoder, encode_with, make_encoder
from robusttc.jobs import Runner
from robusttc.models import auroc, carries_words, fit_softmax, label_key, label_words
from robusttc.random import numpy_generator
from robusttc.transfer import normalise_text

LEARNERS: dict[str, dict[str, Any]] = {
    "static": {"encoder": "static"},
    "sentence": {"encoder": "sentence"},
    "standard": {},
    "fine-tuned": {"tune": "encoder"},
}
BASELINE = "regression"
# The best or within 0.2 points of it at every size, on source bots that were held out.
BASELINE_C = 100.0
CURVE_SIZES = (1, 3, 5, 10, 20, 50)
# Chosen by name, before any result was seen.
CURVE_TASKS = (
    "atis/all",
    "banking77/all",
    "clinc150/auto_and_commute",
    "clinc150/kitchen_and_dining",
    "clinc150/travel",
    "hwu64/general",
    "hwu64/iot",
    "massive_en/play",
    "massive_en/qa",
    "mtop_en/calling",
    "mtop_en/reminder",
    "snips/all",
    "stackoverflow/titles",
    "trec/fine_enty",
    "sgd/flights_1",
)
MAX_QUERIES = 500
# CPFT (Zhang et al., EMNLP 2021), as published.
PUBLISHED = {
    "banking77-5shot": 80.9,
    "banking77-10shot": 87.2,
    "clinc150-5shot": 92.3,
    "clinc150-10shot": 94.2,
    "hwu64-5shot": 82.0,
    "hwu64-10shot": 87.1,
}
# HWU64's test texts stand in these too.
NOT_FOR_HWU64 = ("massive_en", "bot-175")
# The shares of own texts that thresholds promise to reject.
PROMISED = (0.02, 0.05, 0.1)


# What several parts need is fitted once.
FITTED: dict[Any, dict[str, Learner]] = {}


class Learner(Protocol):
    """A learner that adapts to new tasks."""

    def adapt(self, task: Task) -> Any:
        """Return a model of the task."""


class Regression:
    """Balanced regression on the support set and the names of its labels, on vectors of unit length."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def adapt(self, task: Task) -> Regression:
        """Fit the training rows of a task."""
        rows = task.rows("train")
        present, codes = np.unique(task.label_codes[rows], return_inverse=True)
        self.labels = np.array([task.label_names[code] for code in present], dtype=object)
        texts = list(task.texts_at(rows))
        if carries_words(self.labels.tolist()):
            texts += [label_words(label) for label in self.labels]
            codes = np.concatenate([codes, np.arange(len(present))])
        vectors = self._encode(texts)
        self.head = fit_softmax(vectors, codes, n_labels=len(present), C=BASELINE_C, balanced=True)
        return self

    def predict(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return the labels of texts."""
        return np.asarray(self.labels[self.head.predict_codes(self._encode(texts))])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        inputs: Any = self.encoder.encode_cached(texts, keep=False)
        vectors = inputs.matrix
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def fit_learners(
    names: Iterable[str], sources: TaskSet, others: Iterable[Task], seed: int
) -> dict[str, Learner]:
    """Fit the learners of some names on the sources; texts of the other tasks are encoded once."""
    key = (tuple(names), sources.names, seed)
    if key in FITTED:
        return FITTED[key]
    found: dict[str, Learner] = {BASELINE: Regression(make_encoder("sentence", device="cpu"))}
    texts = [text for task in others for text in task.texts]
    for name in names:
        options = LEARNERS[name]
        encode_with(Runner(), make_encoder(options.get("encoder", DEFAULT_ENCODER), device="cpu"), texts)
        start = time.process_time()
        found[name] = ClusterFewShot(random_state=seed, **options).fit(sources, progress=False)
        print(f"{name}, seed {seed}: fitted in {time.process_time() - start:.1f} CPU s", flush=True)
    FITTED[key] = found
    return found


def draw_support(task: Task, per_label: int, extra: int, seed: int) -> Task:
    """Return a task with so many random training rows of each label, and so many more."""
    rows = numpy_generator(seed, "support set", [task.name]).permutation(task.rows("train"))
    codes = task.label_codes[rows]
    rank = np.array([np.sum(codes[:place] == code) for place, code in enumerate(codes)])
    chosen = np.concatenate([rows[rank < per_label], rows[rank >= per_label][:extra]])
    return task.take(np.sort(chosen))


def split_targets() -> tuple[TaskSet, list[Task]]:
    """Return the sources of `bots175` and its 30 targets."""
    tasks = load_set("bots175")
    names = targets()
    return tasks.subset([name for name in tasks.names if name not in names]), [tasks[name] for name in names]


def bench_targets(learners: Sequence[str], seeds: int) -> None:
    """Print the accuracy on the 30 targets, on all and on novel test texts."""
    sources, chosen = split_targets()
    novel = novel_rows(load_set("bots175"), "test")
    scores: dict[str, Scores] = {"all": {}, "novel": {}}
    seconds: dict[str, list[float]] = {}
    for seed in range(seeds):
        for name, learner in fit_learners(learners, sources, chosen, seed).items():
            for task in chosen:
                support = draw_support(task, 1, 20, seed)
                start = time.process_time()
                model = learner.adapt(support)
                seconds.setdefault(name, []).append(time.process_time() - start)
                rows = task.rows("test")
                right = model.predict(list(task.texts_at(rows))) == task.labels[rows]
                add(scores["all"], name, task.name, float(right.mean()))
                if novel[task.name].sum() >= LEAST_ROWS:
                    add(scores["novel"], name, task.name, float(right[novel[task.name]].mean()))
    rows_of_table = []
    for name in scores["all"]:
        row = [name]
        for texts in ("all", "novel"):
            row.append(show([float(np.mean(values)) for values in scores[texts][name].values()]))
            row.append(show_difference(scores[texts][name], scores[texts][BASELINE]))
        rows_of_table.append([*row, f"{1000 * np.median(seconds[name]):.0f}"])
    print("\n## Few-shot: 30 targets of bots175, one row a label and 20 more\n")
    header = ["learner", "all, %", f"to {BASELINE}", "novel, %", f"to {BASELINE}", "adapt, CPU ms"]
    print_table(header, rows_of_table)


def without_texts(tasks: Iterable[Task], forbidden: set[str]) -> TaskSet:
    """Return the tasks without the rows of some normalised texts; what is left with one label goes."""
    kept = []
    for task in tasks:
        rows = [row for row, text in enumerate(task.texts) if normalise_text(text) not in forbidden]
        if len(np.unique(task.label_codes[rows])) > 1:
            kept.append(task.take(np.array(rows)))
    return TaskSet(kept)


def bench_curves(learners: Sequence[str], seeds: int) -> None:
    """Print accuracy by rows a label, on public sets of which the sources have no text."""
    classic = load_tasks(find_data("intents_classic"))
    chosen = [classic[name] for name in CURVE_TASKS]
    forbidden = {normalise_text(text) for task in chosen for text in task.texts}
    sources = without_texts(load_set("bots175"), forbidden)
    scores: dict[int, Scores] = {size: {} for size in CURVE_SIZES}
    queries = {}
    for task in chosen:
        rows = numpy_generator(0, "queries", [task.name]).permutation(task.rows("test"))[:MAX_QUERIES]
        queries[task.name] = list(task.texts_at(rows)), task.labels[rows]
    for seed in range(seeds):
        supports = {
            (size, task.name): draw_support(task, size, 0, seed) for task in chosen for size in CURVE_SIZES
        }
        for name, learner in fit_learners(learners, sources, supports.values(), seed).items():
            for (size, task_name), support in supports.items():
                texts, labels = queries[task_name]
                right = learner.adapt(support).predict(texts) == labels
                add(scores[size], name, task_name, float(right.mean()))
    print(f"\n## Few-shot: {len(chosen)} public sets by rows a label, sources bots175\n")
    rows_of_table = []
    for size, own in scores.items():
        row = [str(size), show([float(np.mean(values)) for values in own[BASELINE].values()])]
        rows_of_table.append([*row, *(show_difference(own[name], own[BASELINE]) for name in learners)])
    print_table(["rows a label", f"{BASELINE}, %", *learners], rows_of_table)


def anchor_sources(anchors: TaskSet, origin: str) -> TaskSet:
    """Return bots and public sets without the anchors and without their validation and test texts."""
    tasks = [*load_set("bots175"), *load_tasks(find_data("intents_classic"))]
    own = tuple({name.split("-")[0] for name in anchors.names})
    left_out = (*own, *NOT_FOR_HWU64) if origin == "hwu64" else own
    forbidden = {
        normalise_text(text)
        for task in anchors
        if task.name.startswith(origin)
        for text in task.texts_at(task.rows("valid", "test"))
    }
    return without_texts((task for task in tasks if not task.name.startswith(left_out)), forbidden)


def bench_anchors(learners: Sequence[str], seeds: int) -> None:
    """Print the accuracy on the anchors' test rows; there is one support set, so seeds are those of fit."""
    anchors = load_tasks(find_data("fewshot_anchors"))
    scores: Scores = {}
    for origin in ("banking77", "clinc150", "hwu64"):
        sources = anchor_sources(anchors, origin)
        chosen = [task for task in anchors if task.name.startswith(origin)]
        for seed in range(seeds):
            for name, learner in fit_learners(learners, sources, chosen, seed).items():
                for task in chosen:
                    rows = task.rows("test")
                    predicted = learner.adapt(task.take(task.rows("train"))).predict(
                        list(task.texts_at(rows))
                    )
                    add(scores, name, task.name, float((predicted == task.labels[rows]).mean()))
    print("\n## Few-shot: fixed splits that others report on, accuracy in %\n")
    rows_of_table = [["CPFT, published", *(f"{figure:.1f}" for figure in PUBLISHED.values())]]
    for name, own in scores.items():
        rows_of_table.append([name, *(f"{100 * np.mean(own[anchor]):.1f}" for anchor in PUBLISHED)])
    print_table(["learner", *PUBLISHED], rows_of_table)


def bench_scope(learners: Sequence[str], seeds: int) -> None:
    """Print how well texts of other targets are told from a target's own; labels of the same name are not."""
    sources, chosen = split_targets()
    generator = numpy_generator(0, "texts out of scope", [])
    areas: Scores = {}
    rejected: dict[str, Scores] = {}
    for seed in range(seeds):
        for name, learner in fit_learners(learners, sources, chosen, seed).items():
            if name == BASELINE:
                continue
            for task in chosen:
                outside = generator.permutation(np.array(texts_outside(task, chosen), dtype=object))
                model = learner.adapt(draw_support(task, 1, 20, seed))
                inside = model.scope_score(list(task.texts_at(task.rows("test"))))
                add(areas, name, task.name, auroc(inside, model.scope_score(outside[:MAX_QUERIES].tolist())))
                for promised in PROMISED:
                    share = float((inside > model.scope_threshold(rejects=promised)).mean())
                    add(rejected.setdefault(name, {}), str(promised), task.name, share)
    print("\n## Few-shot: out-of-scope texts, 30 targets of bots175\n")
    rows_of_table = [
        [name, show([float(np.mean(values)) for values in own.values()])]
        + [
            show([float(np.mean(values)) for values in of_rate.values()])
            for of_rate in rejected[name].values()
        ]
        for name, own in areas.items()
    ]
    print_table(
        ["learner", "AUROC", *(f"own texts rejected, {100 * one:.0f} % promised" for one in PROMISED)],
        rows_of_table,
    )


def texts_outside(task: Task, others: Iterable[Task]) -> list[str]:
    """Return test texts of other tasks that neither occur in this one nor have a label of the same name."""
    texts = {normalise_text(text) for text in task.texts}
    keys = {label_key(label) for label in task.label_names}
    return [
        text
        for other in others
        if other.name != task.name
        for text, label in zip(
            other.texts_at(other.rows("test")), other.labels[other.rows("test")], strict=True
        )
        if normalise_text(text) not in texts and label_key(str(label)) not in keys
    ]


PARTS: dict[str, Callable[[Sequence[str], int], None]] = {
    "bots": bench_bots,
    "targets": bench_targets,
    "curves": bench_curves,
    "anchors": bench_anchors,
    "scope": bench_scope,
}

"""Multi-task learning on all 175 bots, on test rows that no model has seen, beside regression.

``make bench-learning ARGUMENTS="--only bots"`` prints accuracy on all and on novel texts, how much of a bot's
own texts a threshold of the out-of-scope score rejects, and the CPU time of `fit` with vectors in the cache.
Models are trained on the rows in ``train`` and ``valid``, regression also on those in ``train`` alone; all on
the same vectors. Clusters are those of mean vectors, found in a second: they are there for their cost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from benchmarks.learning_data import load_set, novel_rows
from benchmarks.records import LEAST_ROWS
from benchmarks.report import print_table
from robusttc import ClusterMultiTask, TaskSet
from robusttc.encoders import DEFAULT_ENCODER, PreparedTasks, make_encoder
from robusttc.models import auroc, fit_softmax
from robusttc.multitask import MultiTaskSettings
from robusttc.random import numpy_generator
from robusttc.stats import difference_interval, mean_interval

PROMISED = 0.05
N_CLUSTERS = 7
MAX_OUTSIDE = 200
KINDS = ("regression, train", "own: regression, train and valid", "shared", "served: the blend")

Scores = dict[str, dict[str, list[float]]]
Right = NDArray[np.bool_]


def show(values: Sequence[float], sign: str = "") -> str:
    """Format a mean over tasks in per cent, with its interval."""
    estimate = mean_interval(values)
    return (
        f"{100 * estimate.mean:{sign}.1f} [{100 * estimate.low:{sign}.1f}, {100 * estimate.high:{sign}.1f}]"
    )


def show_difference(first: Mapping[str, list[float]], second: Mapping[str, list[float]]) -> str:
    """Format the mean of paired differences over tasks, each task's mean over seeds."""
    estimate = difference_interval(
        *([float(np.mean(values[name])) for name in sorted(first)] for values in (first, second))
    )
    return f"{100 * estimate.mean:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"


def add(scores: Scores, learner: str, task: str, value: float) -> None:
    scores.setdefault(learner, {}).setdefault(task, []).append(value)


def bench_bots(_learners: Sequence[str], seeds: int) -> None:
    """Print the table; there is one learner here, the default."""
    tasks = load_set("bots175")
    novel = novel_rows(tasks, "test")
    encoder = make_encoder(DEFAULT_ENCODER, device="cpu")
    scores: dict[str, Scores] = {"all": {}, "novel": {}}
    scope: Scores = {}
    prepared = encoder.prepare(tasks)
    clusters = cluster_by_means(tasks, prepared)
    regression = fit_regressions(tasks, prepared)
    for seed in range(seeds):
        start = time.process_time()
        model = ClusterMultiTask(encoder, refit="valid", random_state=seed)
        model.fit(tasks, clusters, progress=False)
        print(f"seed {seed}: fitted in {time.process_time() - start:.1f} CPU s; {model.weights_}", flush=True)
        print(model.verdict_.sentence if model.verdict_ else "", model.trust_report(), flush=True)
        measure_scope(model, tasks, seed, scope)
        for name, held in model.evaluation_.items():
            found = (regression[name], *(held.right[kind] for kind in ("own", "shared", "served")))
            for kind, right in zip(KINDS, found, strict=True):
                add(scores["all"], kind, name, float(right.mean()))
                if novel[name].sum() >= LEAST_ROWS:
                    add(scores["novel"], kind, name, float(right[novel[name]].mean()))
    print(f"\n## Multi-task: bots175, test rows, {seeds} seeds\n")
    rows = []
    for kind in KINDS:
        row = [kind]
        for of_kind in scores.values():
            row.append(show([float(np.mean(values)) for values in of_kind[kind].values()]))
            row.append(show_difference(of_kind[kind], of_kind[KINDS[1]]))
        rows.append(row)
    print_table(["model", "all, %", "to own", "novel, %", "to own"], rows)
    for what, values in scope.items():
        print(f"{what}: {show([float(np.mean(one)) for one in values.values()])} %")


def cluster_by_means(tasks: TaskSet, prepared: PreparedTasks) -> dict[str, int]:
    """Return clusters of tasks by the mean vector of their training rows."""
    means = [
        np.asarray(prepared.inputs_of(task.name, task.rows("train")).matrix).mean(axis=0)  # type: ignore[union-attr]
        for task in tasks
    ]
    labels = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit_predict(np.stack(means))
    return dict(zip(tasks.names, labels.tolist(), strict=True))


def fit_regressions(tasks: TaskSet, prepared: PreparedTasks) -> dict[str, Right]:
    """Return which test rows balanced regression on the rows in ``train`` predicts right."""
    found = {}
    for task in tasks:
        train, test = (task.rows(split) for split in ("train", "test"))
        vectors = [np.asarray(prepared.inputs_of(task.name, rows).matrix) for rows in (train, test)]  # type: ignore[union-attr]
        codes, strength = task.label_codes.astype(np.int64), MultiTaskSettings().own_c
        head = fit_softmax(
            vectors[0], codes[train], n_labels=len(task.label_names), C=strength, balanced=True
        )
        found[task.name] = head.predict_codes(vectors[1]) == codes[test]
    return found


def measure_scope(model: ClusterMultiTask, tasks: TaskSet, seed: int, scope: Scores) -> None:
    """Measure how texts of other bots are told from a bot's own, and how many of its own are rejected."""
    texts = [text for task in tasks for text in task.texts_at(task.rows("test"))]
    for task in tasks:
        own = list(task.texts_at(task.rows("test")))
        drawn = numpy_generator(seed, "outside", [task.name]).permutation(len(texts))[:MAX_OUTSIDE]
        outside = [texts[place] for place in drawn if texts[place] not in set(task.texts)]
        inside = model.scope_score(task.name, own)
        add(
            scope,
            "AUROC of the out-of-scope score",
            task.name,
            auroc(inside, model.scope_score(task.name, outside)),
        )
        limit = model.scope_threshold(task.name, rejects=PROMISED)
        rejected = float((inside > limit).mean())
        add(scope, f"own texts rejected, {100 * PROMISED:.0f} % promised", task.name, rejected)

"""One trial of `benchmarks.learning`, for whichever version of the package stands first in PYTHONPATH.

It is run as a file, so that it needs nothing of the package but what both versions have. Only rows in
``train`` and ``valid`` are read; the accuracies are those of the rows in ``valid``, which no model was
trained on.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from robusttc import ClusterMultiTask, RobustTaskClustering, TaskSet, load_tasks, measure_transfer
from robusttc.encoders import make_encoder
from robusttc.jobs import Runner
from robusttc.random import numpy_generator
from robusttc.transfer import normalise_text

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
N_ADDED = 15
FEWEST_NOVEL = 5  # a mean of fewer novel texts is a coin


def load_set(name: str) -> TaskSet:
    """Read the tasks of a set: 60 bots whole, half of `diverse` and the sources of `amazon69` cut short."""
    place = SHARED / name
    if name == "bots175":
        tasks = load_tasks(place / "tasks.jsonl.gz")
        lines = (place / "TARGETS30.txt").read_text(encoding="utf-8").splitlines()
        targets = [line.strip() for line in lines if line.strip()]
        others = sorted(set(tasks.names) - set(targets))
        more = numpy_generator(0, "more bots", []).permutation(len(others))[:30]
        return cut(tasks.subset(sorted([*targets, *(others[place] for place in more)])), 10**6, 10**6)
    if name == "diverse":
        tasks = load_tasks(place / "tasks.jsonl.gz")
        return cut(tasks.subset(sorted(tasks.names)[::2]), 64, 32)
    tasks = load_tasks(place / "tasks.jsonl.gz", skip_bad_rows=True, allow_incomplete=True)
    return cut(tasks.subset(sorted(task.name for task in tasks if len(task.rows("train")) > 50)), 96, 64)


def cut(tasks: TaskSet, n_train: int, n_valid: int) -> TaskSet:
    """Keep so many rows of each task, drawn by its name."""
    kept = []
    for task in tasks:
        generator = numpy_generator(0, "rows of a benchmark", [task.name])
        train = np.sort(generator.permutation(task.rows("train"))[:n_train])
        valid = np.sort(generator.permutation(task.rows("valid"))[:n_valid])
        if len(np.unique(task.label_codes[train])) > 1 and len(valid):
            kept.append(task.take(np.concatenate([train, valid])))
    return TaskSet(kept)


def find_clusters(tasks: TaskSet, path: Path) -> dict[str, int]:
    """Return the clusters of a set, found once, so that both versions have the same."""
    if not path.is_file():
        scores = measure_transfer(tasks, encoder="sentence", pairs="all", random_state=0, progress=False)
        found = RobustTaskClustering(random_state=0).fit(scores).labels_.tolist()
        path.write_text(json.dumps(dict(zip(scores.task_names, found, strict=True))), encoding="utf-8")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def make_model(policy: str) -> ClusterMultiTask:
    """Make the estimator, by the names that its parameters have in this version."""
    options: dict[str, Any] = {"random_state": 0}
    if "refit" in inspect.signature(ClusterMultiTask).parameters:
        return ClusterMultiTask("sentence", cluster_models=policy, refit="train", **options)  # type: ignore[arg-type]
    return ClusterMultiTask("sentence", clusters=policy, **options)  # type: ignore[call-arg]


def find_trainer() -> Any:
    """Return what trains added tasks, by the name that it has in this version."""
    if find_spec("robusttc.run.updates"):
        return import_module("robusttc.run.updates.new_heads").train_new_heads
    return import_module("robusttc.run.later.joins").join_all


def score(model: ClusterMultiTask, tasks: TaskSet) -> dict[str, dict[str, float]]:
    """Return the accuracy of every task on the rows in ``valid``, on all and on novel texts."""
    texts = {task.name: {normalise_text(text) for text in task.texts} for task in tasks}
    found: dict[str, dict[str, float]] = {"all": {}, "novel": {}}
    for task in tasks:
        rows = task.rows("valid")
        asked = list(task.texts_at(rows))
        right = model.predict(task.name, asked) == task.labels[rows]
        others = set().union(*(own for name, own in texts.items() if name != task.name))
        novel = np.array([normalise_text(text) not in others for text in asked])
        found["all"][task.name] = float(right.mean())
        if novel.sum() >= FEWEST_NOVEL:
            found["novel"][task.name] = float(right[novel].mean())
    return found


def try_fit(tasks: TaskSet, clusters: dict[str, int], policy: str) -> dict[str, Any]:
    """Fit, and predict the rows in ``valid``."""
    start = time.process_time()
    model = make_model(policy)
    model.fit(tasks, clusters, progress=False)
    record: dict[str, Any] = dict(score(model, tasks))
    trust, verdict = model.trust_report(), model.verdict_
    return record | {
        "weights": model.weights_,
        "verdict": None if verdict is None else verdict.sentence,
        "scope_auroc": None if trust.scope_auroc is None else trust.scope_auroc.mean,
        "cpu_seconds": time.process_time() - start,
    }


def try_adding(tasks: TaskSet, clusters: dict[str, int]) -> dict[str, Any]:
    """Fit all tasks but some, add these later, and predict their rows in ``valid``."""
    order = numpy_generator(0, "added tasks", []).permutation(len(tasks))
    added = sorted(np.array(tasks.names)[order[:N_ADDED]].tolist())
    known = tasks.subset([name for name in tasks.names if name not in added])
    model = make_model("always").fit(known, {name: clusters[name] for name in known.names}, progress=False)
    # As test rows: they are judged by, and nothing is trained or decided on them.
    new = TaskSet(
        tasks[name].with_splits(["train" if split == "train" else "test" for split in tasks[name].splits])
        for name in added
    )
    start = time.process_time()
    base: Any = model._need() if hasattr(model, "_need") else model
    joined = find_trainer()(
        new,
        {name: clusters[name] for name in added},
        base,
        make_encoder("sentence"),
        n_folds=3,
        runner=Runner(),
    )
    seconds = time.process_time() - start
    figures = {name: one.figures for name, one in joined.items()}
    return {
        "all": {name: one.served.mean for name, one in figures.items() if one.served is not None},
        "own": {name: one.own.mean for name, one in figures.items() if one.own is not None},
        "cpu_seconds": seconds,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    part, name, clusters_path, record_path = sys.argv[1:5]
    tasks = load_set(name)
    clusters = find_clusters(tasks, Path(clusters_path))
    record = try_adding(tasks, clusters) if part == "adding" else try_fit(tasks, clusters, "auto")
    Path(record_path).write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()

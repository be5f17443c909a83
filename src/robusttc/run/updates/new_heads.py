"""Classifiers of new tasks on the frozen layers of a run: trained as jobs, then put together and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder
from robusttc.jobs import Runner
from robusttc.models import warn_about_tasks
from robusttc.multitask import (
    ADD_STAGE,
    AddedTask,
    AddInputs,
    ClusterMultiTask,
    Predictor,
    add_job,
    finish_task,
    lay_out_task,
    predict_rows,
    serve_added,
)
from robusttc.progress import Progress
from robusttc.run.evaluation import TaskFigures, judge
from robusttc.stats import Estimate

__all__ = ["NewHead", "train_new_heads"]


@dataclass(frozen=True, slots=True, eq=False)
class NewHead:
    """A new task with what was trained for it."""

    parts: AddedTask
    model: ClusterMultiTask  # what predicts for it: its own parts on the layers of the run
    gain: (
        Estimate | None
    )  # what sharing is expected to give; None where nothing was held out, or it is private
    figures: TaskFigures  # what its test rows say


def train_new_heads(
    tasks: TaskSet,
    clusters: Mapping[str, int],
    model: ClusterMultiTask,
    encoder: Encoder,
    *,
    n_folds: int,
    runner: Runner,
    progress: Progress | None = None,
) -> dict[str, NewHead]:
    """Train what new tasks need, and judge it; a task that could not be trained is not there.

    `model` has the models of the run, of which nothing changes; `clusters` is the cluster of each new task,
    -1 for none; `encoder` is that of the run: of words, it knows vectors that its models have not seen.
    """
    predictor, strategy, seed = model.predictor_, model.strategy, model.seed_
    with threadpool_limits(1):
        new = {
            task.name: lay_out_task(
                task,
                clusters[task.name],
                predictor,
                encoder,
                n_folds=n_folds,
                seed=seed,
                strategy=strategy,
            )
            for task in tasks
        }
    label_names = {name: task.label_names for name, task in predictor.tasks.items()}
    inputs = AddInputs(
        new, predictor.shared, predictor.clusters, label_names, model.settings_, seed, strategy
    )
    shared = runner.share(inputs)
    try:
        results = runner.run(
            ADD_STAGE, [add_job(name) for name in new], shared, progress=progress, unit="tasks"
        )
    finally:
        runner.release(shared)
    done = dict(zip(new, results, strict=True))
    failed = [name for name, result in done.items() if result is None]
    warn_about_tasks("models of new tasks could not be trained", failed)
    found: dict[str, NewHead] = {}
    with threadpool_limits(1):
        for name, result in done.items():
            if result is None:
                continue
            parts, gain = finish_task(
                new[name],
                result,
                predictor,
                weights=model.cluster_weights_.get(clusters[name], model.blend_weights_),
                held_out={one: held.right for one, held in model.held_out_.items()},
                temperature=model.temperature_,
                strategy=strategy,
                seed=seed,
            )
            serving = serve_added(predictor, parts)
            figures = judge_new(serving, tasks[name], gain)
            found[name] = NewHead(parts, model.with_predictor(serving), gain, figures)
    return found


def judge_new(serving: Predictor, task: Task, gain: Estimate | None) -> TaskFigures:
    """Return what the test rows of a new task say; its models have not seen them."""
    rows = task.rows("test")
    texts = task.texts_at(rows)
    inputs, seen = serving.read(task.name, texts)
    predicted = predict_rows(serving, task.name, inputs, seen)
    is_seen = serving.seen.find(task.name, texts) if serving.seen is not None and task.may_share else None
    return judge(task, serving.find(task.name).cluster, rows, predicted, is_seen, gain)

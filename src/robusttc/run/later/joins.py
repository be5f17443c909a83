"""Models for new tasks on top of a run's: trained as jobs, then put together and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.jobs import Runner
from robusttc.models import warn_about_tasks
from robusttc.multitask import (
    ADD_STAGE,
    AddedTask,
    AddInputs,
    ClusterMultiTask,
    add_job,
    finish_task,
    lay_out_task,
    predict_rows,
    serve_added,
)
from robusttc.progress import Progress
from robusttc.run.evaluation import TaskFigures, judge
from robusttc.stats import Estimate

__all__ = ["Joined", "join_all"]


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """A new task with its models.

    Attributes
    ----------
    later
        What is kept of it.
    gain
        What sharing is expected to give it; None where nothing could be held out, or it may not share.
    figures
        What its test rows say.
    """

    later: AddedTask
    gain: Estimate | None
    figures: TaskFigures

    @property
    def shares(self) -> bool:
        """Whether models of other tasks serve it."""
        return self.later.task.shares


def join_all(
    tasks: TaskSet,
    clusters: Mapping[str, int],
    model: ClusterMultiTask,
    encoder: Encoder,
    *,
    n_folds: int,
    runner: Runner,
    progress: Progress | None = None,
) -> dict[str, Joined]:
    """Train what new tasks need, and judge it; a task that could not be trained is not there.

    Parameters
    ----------
    tasks
        The new tasks; all can be learned.
    clusters
        The cluster of each; -1 for none.
    model
        The models of the run. Nothing of them changes.
    encoder
        The encoder of the run: of words, it knows vectors that the run's models have not seen.
    n_folds
        Into how many folds their training rows are dealt.
    runner
        Who trains.
    progress
        Told how far it is.
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
        jobs = [add_job(name) for name in new]
        results = runner.run(ADD_STAGE, jobs, shared, progress=progress, unit="tasks")
    finally:
        runner.release(shared)
    done = dict(zip(new, results, strict=True))
    failed = [name for name, result in done.items() if result is None]
    warn_about_tasks("models of new tasks could not be trained", failed)
    found: dict[str, Joined] = {}
    with threadpool_limits(1):
        for name, result in done.items():
            if result is not None:
                added, gain = finish_task(
                    new[name],
                    result,
                    predictor,
                    weights=model.cluster_weights_.get(clusters[name], model.blend_weights_),
                    held_out={one: held.right for one, held in model.held_out_.items()},
                    temperature=model.temperature_,
                    strategy=strategy,
                    seed=seed,
                )
                serving = serve_added(predictor, added)
                task, rows = tasks[name], tasks[name].rows("test")
                inputs, seen = serving.read(name, task.texts_at(rows))
                predicted = predict_rows(serving, name, inputs, seen)
                if serving.seen is not None and task.may_share:
                    seen = serving.seen.find(name, task.texts_at(rows))
                figures = judge(task, added.task.cluster, rows, predicted, seen, gain)
                found[name] = Joined(added, gain, figures)
    return found

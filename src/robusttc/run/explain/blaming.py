"""Who is to blame where sharing harms a task: by gradients where that is quick, else by the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import FeatureEncoder, WordEncoder
from robusttc.multitask import ClusterMultiTask, TransferSource, find_sources, sharing_with
from robusttc.run.explain.explained_pairs import MeasuredPair
from robusttc.run.run import Run
from robusttc.run.task_files import task_file

__all__ = ["blame"]

Method = Literal["gradients", "scores"]

MAX_CULPRITS = 5
# Standard deviations below the average source from which on a source counts as bad: that of Eq. 1.
BAD = -0.5
# So many tasks share a model that is trained again in a few seconds.
MAX_MATES = 24


def blame(
    model: ClusterMultiTask,
    opened: Run,
    name: str,
    pairs: Sequence[MeasuredPair],
    *,
    n_folds: int | None,
    all_culprits: bool = False,
) -> tuple[tuple[TransferSource, ...], Method]:
    """Give the tasks that work against one task, the worst first, and how they were found.

    Parameters
    ----------
    model
        The models of the run.
    opened
        The run.
    name
        The task.
    pairs
        Its measured pairs.
    n_folds
        Into how many folds training rows were dealt; None where the encoder has seen them all.
    all_culprits
        Gradients need a model that is trained half again. Where more than 24 tasks share it, or they are
        word by word, that takes minutes: the scores are looked at in its place, unless this is True.
    """
    mates = sharing_with(model.predictor_, name)
    reader = model.predictor_.reader
    has_vectors = not isinstance(reader, WordEncoder | FeatureEncoder)
    quick = has_vectors and len(mates) <= MAX_MATES
    are_kept = all(task_file(other) in opened.version for other in (name, *mates))
    if not has_vectors or n_folds is None or not are_kept or not (quick or all_culprits):
        return blame_by_scores(pairs, set(mates)), "scores"
    tasks = TaskSet(sorted(map(opened.rows_of, (name, *mates)), key=lambda task: task.name))
    with threadpool_limits(1):
        found = find_sources(model.predictor_, tasks, [name], settings=model.settings_, seed=model.seed_)
    return found[name][:MAX_CULPRITS], "gradients"


def blame_by_scores(pairs: Sequence[MeasuredPair], mates: set[str]) -> tuple[TransferSource, ...]:
    """Give the tasks of the same model that were measured to serve a task badly, the worst first."""
    found = [
        TransferSource(pair.other, -pair.to_task.above_average)
        for pair in pairs
        if pair.other in mates and pair.to_task is not None and pair.to_task.above_average < BAD
    ]
    return tuple(sorted(found, key=lambda culprit: (-culprit.blame, culprit.name))[:MAX_CULPRITS])

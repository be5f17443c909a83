"""Whether clusters would pay in few-shot learning, without training what serves."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import Encoder, WordInputs
from robusttc.fewshot.deciding import THRESHOLD, judge
from robusttc.fewshot.lessons import Teacher
from robusttc.fewshot.rehearsal import rehearse
from robusttc.fewshot.settings import FewShotSettings, Strategy, check_integer, default_settings
from robusttc.fewshot.sources import make_ready
from robusttc.fewshot.support_set import find_tuning
from robusttc.jobs import Runner
from robusttc.models import Verdict, check_clusters, cluster_members
from robusttc.progress import Progress

__all__ = ["assess_fewshot", "find_clusters"]


def assess_fewshot(
    tasks: TaskSet,
    labels: ArrayLike | Mapping[str, int],
    *,
    encoder: Encoder,
    strategy: Strategy = "blend",
    settings: FewShotSettings | None = None,
    n_random: int = 1,
    seed: int = 0,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Hold out source tasks, play them as few-shot targets, and tell whether clusters helped them.

    With the defaults this is the `verdict_` of `ClusterFewShot`.

    Parameters
    ----------
    tasks
        The sources. Those with ``may_share=False`` have no part in it.
    labels
        The cluster of every task, in order or by name; -1 for none.
    encoder
        How texts are read.
    strategy, settings
        As for `ClusterFewShot`.
    n_random
        How many draws of random clusters are compared with; 0 for none.
    seed
        The seed of the run.
    runner
        Who trains, see `robusttc.jobs.Runner`; None trains here.
    progress
        Told after every held-out task.

    Raises
    ------
    UsageError
        If the labels or a number cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from robusttc.data import Task
    >>> from robusttc.encoders import FeatureEncoder
    >>> rows = {name: np.repeat(np.eye(4), 6, axis=0) for name in ("a", "b")}
    >>> tasks = TaskSet(Task(name, ["text"] * 24, ["x"] * 12 + ["y"] * 12) for name in rows)
    >>> assess_fewshot(tasks, [0, 1], encoder=FeatureEncoder(rows)).clusters_help
    False
    """
    check_integer("n_random", n_random, 0)
    sources = tasks.shareable()
    clusters = find_clusters(tasks, labels)
    with threadpool_limits(1):
        ready = make_ready(sources, encoder, use_label_names=strategy == "blend", progress=progress)
        chosen = settings or default_settings(
            strategy, words=isinstance(ready.inputs, WordInputs), tuned=find_tuning(encoder)
        )
        shared_labels = next(iter(sources)).label_names if sources.same_label_sets else None
        rehearsal = rehearse(
            ready.inputs,
            ready.sources,
            clusters,
            strategy=strategy,
            settings=chosen,
            threshold=THRESHOLD,
            shared_labels=shared_labels,
            n_random=n_random,
            seed=seed,
            teacher=Teacher(
                ready.inputs,
                ready.sources,
                settings=chosen,
                seed=seed,
                n_labels=len(shared_labels or ()),
                runner=runner,
                progress=progress,
            ),
            progress=progress,
        )
    return judge(rehearsal, seed)


def find_clusters(tasks: TaskSet, labels: ArrayLike | Mapping[str, int] | None) -> dict[int, tuple[str, ...]]:
    """Give the tasks of each cluster that may share; one cluster of all is none.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet(Task(name, ["hi"], ["x"]) for name in ("a", "b", "c"))
    >>> find_clusters(tasks, [3, 5, -1]), find_clusters(tasks, [1, 1, 1]), find_clusters(tasks, None)
    ({3: ('a',), 5: ('b',)}, {}, {})
    """
    if labels is None:
        return {}
    shared = set(tasks.shareable().names)
    numbers = check_clusters(tasks, labels)
    found = {
        number: tuple(name for name in names if name in shared)
        for number, names in cluster_members(tasks.names, numbers).items()
    }
    found = {number: names for number, names in found.items() if names}
    return found if len(found) > 1 else {}

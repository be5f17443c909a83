"""Clusters as the learners take them, random ones of the same sizes, and the verdict on whether they pay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import TaskSet
from robusttc.errors import DataError, UnknownTaskError, UsageError, quote
from robusttc.formatting import count
from robusttc.params import Choice, check_param
from robusttc.random import numpy_generator
from robusttc.stats import Estimate, check_values, difference_interval

# Labels in the order of the tasks, a dict by name, or anything fitted that has `labels_` and `task_names_`.
Clusters = Any
Setting = Literal["multitask", "fewshot"]

# With five tasks, all for clusters, chance alone does as much once in 16 times: no interval of 95 %.
FEWEST_TASKS = 6
SETTING_WORDS = {"multitask": "multi-task", "fewshot": "few-shot"}
UNKNOWN = Estimate(0.0, -math.inf, math.inf, 0)


def check_clusters(tasks: TaskSet, clusters: Clusters) -> NDArray[np.int64]:
    """Return the cluster of every task, in the order of the tasks.

    `clusters` is one whole number per task, in the order of the tasks; a dict of them by name; or a fitted
    `RobustTaskClustering` of at least the tasks that may share. A task with -1 is in no cluster.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["hi"], ["x"]), Task("b", ["ho"], ["x"])])
    >>> check_clusters(tasks, {"b": 0, "a": 3}).tolist(), check_clusters(tasks, [1, -1]).tolist()
    ([3, 0], [1, -1])
    """
    if hasattr(clusters, "get_params"):
        clusters = clusters_of_estimator(tasks, clusters)
    values = order_by_name(tasks, clusters) if isinstance(clusters, Mapping) else clusters
    try:
        numbers = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise UsageError(
            "the clusters cannot be read", got=str(error), expected="one whole number a task"
        ) from error
    if numbers.ndim != 1 or len(numbers) != len(tasks):
        raise UsageError(
            "there is not one cluster a task",
            got=f"clusters of shape {numbers.shape} for {len(tasks):,} tasks",
            expected="one whole number a task, in the order of the tasks",
            todo="or give a dictionary of clusters by the names of the tasks",
        )
    for place, number in enumerate(numbers.tolist()):
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not -1 <= number < 2**62 or not float(number).is_integer():
            raise UsageError(
                "a cluster is not a whole number",
                where=f"task {quote(tasks.names[place])}",
                got=quote(number),
                expected="a whole number from 0 up, or -1 for a task that is in no cluster",
            )
    return numbers.astype(np.int64)


def clusters_of_estimator(tasks: TaskSet, estimator: Any) -> dict[str, int]:
    """Return the clusters that a fitted clustering found, by name; -1 for private tasks."""
    if not hasattr(estimator, "labels_") or not hasattr(estimator, "task_names_"):
        raise UsageError(
            "the clustering cannot be used", got=quote(estimator), expected="a fitted RobustTaskClustering"
        )
    found = dict(zip(estimator.task_names_, np.asarray(estimator.labels_).tolist(), strict=True))
    private = {task.name: -1 for task in tasks if not task.may_share}
    return {name: number for name, number in (private | found).items() if name in tasks}


def order_by_name(tasks: TaskSet, clusters: Mapping[str, int]) -> list[int]:
    """Return clusters that are given by name in the order of the tasks."""
    for name in clusters:
        if name not in tasks:
            raise UnknownTaskError(name, tasks.names)
    for name in tasks.names:
        if name not in clusters:
            raise DataError(
                "a task has no cluster",
                where=f"task {quote(name)}",
                expected="one cluster a task",
                todo="give -1 to a task that is in no cluster",
            )
    return [clusters[name] for name in tasks.names]


def random_clusters_like(clusters: ArrayLike, seed: int, draw: int = 0) -> NDArray[np.int64]:
    """Draw clusters of the same sizes at random; tasks in no cluster (-1) stay so.

    The draw permutes the given numbers, so it depends on the order of the tasks: sort them by name where
    that must not matter.

    Examples
    --------
    >>> drawn = random_clusters_like([0, 0, 1, -1, 1, 1], seed=0)
    >>> sorted(drawn.tolist()), int(drawn[3])
    ([-1, 0, 0, 1, 1, 1], -1)
    """
    numbers = np.array(clusters, dtype=np.int64)
    inside = np.flatnonzero(numbers >= 0)
    generator = numpy_generator(seed, "random clusters", [str(draw)])
    numbers[inside] = numbers[inside][generator.permutation(len(inside))]
    return numbers


def cluster_members(
    names: Sequence[str], clusters: ArrayLike, *, smallest: int = 1
) -> dict[int, tuple[str, ...]]:
    """Return the names of the tasks of every cluster of at least `smallest` tasks, by its number.

    Tasks that are in no cluster (-1) are left out.

    Examples
    --------
    >>> cluster_members(["a", "b", "c", "d"], [1, 0, 1, -1])
    {0: ('b',), 1: ('a', 'c')}
    """
    numbers = np.asarray(clusters, dtype=np.int64)
    if len(numbers) != len(names):
        raise UsageError(
            "there is not one cluster a task", got=f"{len(numbers):,} clusters for {len(names):,} tasks"
        )
    found = {
        cluster: tuple(names[place] for place in np.flatnonzero(numbers == cluster).tolist())
        for cluster in sorted(set(numbers[numbers >= 0].tolist()))
    }
    return {cluster: members for cluster, members in found.items() if len(members) >= smallest}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether clusters help these tasks.

    They do where cluster models are better than models without clusters, with the interval above zero, and,
    where random clusters were measured, than those too.
    """

    setting: Setting
    over_shared: Estimate  # the mean difference in accuracy to models without clusters, over tasks
    over_random: Estimate | None  # the same to random clusters of the same sizes
    clusters_help: bool
    n_tasks: int
    sentence: str  # all this, and what serves, with figures in points (hundredths of accuracy)

    def to_dict(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        random = None if self.over_random is None else self.over_random.to_dict()
        return {**asdict(self), "over_shared": self.over_shared.to_dict(), "over_random": random}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """Rebuild it from what `to_dict` returned; a DataError if something is missing or of another type."""
        types = {"setting": str, "over_shared": dict, "clusters_help": bool, "n_tasks": int, "sentence": str}
        for name, expected in types.items():
            if not isinstance(values.get(name), expected):
                raise DataError("a verdict cannot be read", where=name, got=quote(values.get(name)))
        random = values.get("over_random")
        return cls(
            check_setting(values["setting"]),
            Estimate.from_dict(values["over_shared"]),
            None if random is None else Estimate.from_dict(random),
            values["clusters_help"],
            values["n_tasks"],
            values["sentence"],
        )


def make_verdict(
    setting: str,
    *,
    cluster: ArrayLike | None,
    shared: ArrayLike,
    random: ArrayLike | None = None,
    always: bool = False,
    otherwise: str = "the shared model serves",
    seed: int = 0,
) -> Verdict:
    """Judge clusters by the accuracies of the same tasks with cluster models, without, with random clusters.

    `cluster` is None where there are no clusters to judge; `random` is (tasks,), or (draws, tasks), of which
    the mean is taken, or None if it was not measured. With `always` cluster models serve whatever the
    verdict, and `otherwise` is what else serves, as a clause; `seed` is that of the bootstrap over tasks.

    Examples
    --------
    >>> shared = np.linspace(0.5, 0.8, 40)
    >>> make_verdict("fewshot", cluster=shared + 0.02, shared=shared).sentence.partition(" over")[0]
    'Clusters help these tasks by 2.0 points [2.0, 2.0]'
    >>> make_verdict("fewshot", cluster=shared[::-1], shared=shared).clusters_help
    False
    """
    kind = check_setting(setting)
    n_tasks = int(np.size(shared))
    if cluster is None:
        what = f"There are no clusters to tell apart ({SETTING_WORDS[kind]}, {count(n_tasks, 'task')})"
        return Verdict(kind, UNKNOWN, None, False, n_tasks, f"{what}; {otherwise}.")
    over_shared = difference_interval(cluster, shared, seed=seed)
    over_random = None
    if random is not None:
        draws = np.asarray(random, dtype=np.float64)
        mean = draws.mean(axis=0) if draws.ndim == 2 and len(draws) else draws
        over_random = difference_interval(cluster, check_values("an accuracy", mean), seed=seed)
    enough = n_tasks >= FEWEST_TASKS
    clusters_help = enough and over_shared.above_zero and (over_random is None or over_random.above_zero)
    serves = "they serve" if clusters_help else "they serve all the same, as asked" if always else otherwise
    sentence = word_verdict(kind, over_shared, over_random, enough=enough)
    return Verdict(kind, over_shared, over_random, clusters_help, n_tasks, f"{sentence}; {serves}.")


def word_verdict(kind: Setting, over_shared: Estimate, over_random: Estimate | None, *, enough: bool) -> str:
    """Return the figures of a verdict as a clause."""
    basis = f"({SETTING_WORDS[kind]}, {count(over_shared.n, 'task')})"
    shared_part = f"{points(over_shared)} over the shared model"
    random_part = "" if over_random is None else f"{points(over_random, unit='')} over random clusters"
    both = f"{shared_part} and {random_part}" if random_part else shared_part
    if not enough:
        return (
            f"Too few tasks to tell whether clusters help: {both} {basis}, where {FEWEST_TASKS} tasks are "
            "needed"
        )
    if over_shared.above_zero and over_random is not None and not over_random.above_zero:
        return (
            f"Clusters do not help these tasks more than chance: {shared_part}, but {random_part} of the "
            f"same sizes {basis}"
        )
    if over_shared.above_zero:
        gain = f"{points(over_shared, sign='')} over the shared model"
        if over_random is not None:
            gain += f" and {points(over_random, sign='', unit='')} over random clusters of the same sizes"
        return f"Clusters help these tasks by {gain} {basis}"
    verb = "harm" if over_shared.below_zero else "do not help"
    sizes = " of the same sizes" if random_part else ""
    return f"Clusters {verb} these tasks: {both}{sizes} {basis}"


def points(estimate: Estimate, *, sign: str = "+", unit: str = " points") -> str:
    """Format a difference in hundredths with its interval."""
    mean, low, high = (100 * value for value in (estimate.mean, estimate.low, estimate.high))
    # Without the sum, a difference that rounds to zero could show as -0.0.
    shown_mean = format(round(mean, 1) + 0.0, f"{sign}.1f")
    if not math.isfinite(low):
        return f"{shown_mean}{unit} [no interval]"
    return f"{shown_mean}{unit} [{round(low, 1) + 0.0:.1f}, {round(high, 1) + 0.0:.1f}]"


def check_setting(setting: str) -> Setting:
    """Refuse a setting that is not known."""
    check_param("setting", setting, Choice(*get_args(Setting)))
    return "fewshot" if setting == "fewshot" else "multitask"

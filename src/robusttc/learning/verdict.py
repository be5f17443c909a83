"""Whether clusters pay, in figures and in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from robusttc.errors import DataError, UsageError, quote
from robusttc.stats import Estimate, check_values, difference_interval

__all__ = ["Setting", "Verdict", "make_verdict"]

Setting = Literal["multitask", "fewshot"]

# With five tasks, all for clusters, chance alone does as much once in 16 times: no interval of 95 %.
FEWEST_TASKS = 6
SETTING_WORDS = {"multitask": "multi-task", "fewshot": "few-shot"}
NOT_KNOWN = Estimate(0.0, -math.inf, math.inf, 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether clusters help these tasks.

    Attributes
    ----------
    setting
        ``multitask`` or ``fewshot``.
    over_shared
        The mean difference in accuracy of cluster models to the shared model, over tasks.
    over_random
        The same to random clusters of the same sizes; None where those were not measured.
    clusters_help
        Whether the interval over the shared model is above zero and, where random clusters were measured,
        the one over them too.
    n_tasks
        How many tasks the differences are of.
    sentence
        All this in one sentence of plain English, with figures in points (hundredths of accuracy).
    """

    setting: Setting
    over_shared: Estimate
    over_random: Estimate | None
    clusters_help: bool
    n_tasks: int
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            "setting": self.setting,
            "over_shared": self.over_shared.to_dict(),
            "over_random": None if self.over_random is None else self.over_random.to_dict(),
            "clusters_help": self.clusters_help,
            "n_tasks": self.n_tasks,
            "sentence": self.sentence,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """Make it from what `to_dict` gave.

        Raises
        ------
        DataError
            If something is missing or of another kind.
        """
        kinds = {"setting": str, "over_shared": dict, "clusters_help": bool, "n_tasks": int, "sentence": str}
        for name, kind in kinds.items():
            if not isinstance(values.get(name), kind):
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
    seed: int = 0,
) -> Verdict:
    """Judge clusters by the accuracies of the same tasks with cluster models, shared model, random clusters.

    Parameters
    ----------
    setting
        ``multitask`` or ``fewshot``.
    cluster
        The accuracy of every task with the model of its cluster. None where there are no clusters to judge:
        none were given, or all tasks are in one.
    shared
        The same with the one model of all tasks.
    random
        The same with random clusters of the same sizes, (tasks,), or (draws, tasks), of which the mean is
        taken; None if they were not measured.
    seed
        Of the bootstrap over tasks.

    Raises
    ------
    UsageError
        If the setting is unknown, or the accuracies are not of the same tasks.
    DataError
        If an accuracy is not a finite number.

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
        what = f"There are no clusters to tell apart ({SETTING_WORDS[kind]}, {count(n_tasks)})"
        return Verdict(kind, NOT_KNOWN, None, False, n_tasks, f"{what}; the shared model serves.")
    over_shared = difference_interval(cluster, shared, seed=seed)
    over_random = None
    if random is not None:
        draws = np.asarray(random, dtype=np.float64)
        mean = draws.mean(axis=0) if draws.ndim == 2 and len(draws) else draws
        over_random = difference_interval(cluster, check_values("an accuracy", mean), seed=seed)
    enough = n_tasks >= FEWEST_TASKS
    clusters_help = enough and over_shared.above_zero and (over_random is None or over_random.above_zero)
    sentence = word_verdict(kind, over_shared, over_random, enough=enough)
    return Verdict(kind, over_shared, over_random, clusters_help, n_tasks, sentence)


def word_verdict(kind: Setting, over_shared: Estimate, over_random: Estimate | None, *, enough: bool) -> str:
    """Put a verdict into one sentence."""
    basis = f"({SETTING_WORDS[kind]}, {count(over_shared.n)})"
    shared_part = f"{points(over_shared)} over the shared model"
    random_part = "" if over_random is None else f"{points(over_random, unit='')} over random clusters"
    both = f"{shared_part} and {random_part}" if random_part else shared_part
    if not enough:
        return (
            f"Too few tasks to tell whether clusters help: {both} {basis}, where {FEWEST_TASKS} tasks are "
            "needed; the shared model serves."
        )
    if over_shared.above_zero and over_random is not None and not over_random.above_zero:
        return (
            f"Clusters do not help these tasks more than chance: {shared_part}, but {random_part} of the "
            f"same sizes {basis}; the shared model serves."
        )
    if over_shared.above_zero:
        gain = f"{points(over_shared, sign='')} over the shared model"
        if over_random is not None:
            gain += f" and {points(over_random, sign='', unit='')} over random clusters of the same sizes"
        return f"Clusters help these tasks by {gain} {basis}; they serve."
    verb = "harm" if over_shared.below_zero else "do not help"
    sizes = " of the same sizes" if random_part else ""
    return f"Clusters {verb} these tasks: {both}{sizes} {basis}; the shared model serves."


def points(estimate: Estimate, *, sign: str = "+", unit: str = " points") -> str:
    """Show a difference in hundredths with its interval."""
    mean, low, high = (100 * value for value in (estimate.mean, estimate.low, estimate.high))
    # Without the sum, a difference that rounds to zero could show as -0.0.
    shown_mean = format(round(mean, 1) + 0.0, f"{sign}.1f")
    if not math.isfinite(low):
        return f"{shown_mean}{unit} [no interval]"
    return f"{shown_mean}{unit} [{round(low, 1) + 0.0:.1f}, {round(high, 1) + 0.0:.1f}]"


def count(n_tasks: int) -> str:
    """Say how many tasks."""
    return f"{n_tasks:,} task" + ("" if n_tasks == 1 else "s")


def check_setting(setting: str) -> Setting:
    """Refuse a setting that is not known."""
    for known in get_args(Setting):
        if setting == known:
            return known  # type: ignore[no-any-return]
    raise UsageError("the setting is unknown", got=quote(setting), expected=" or ".join(get_args(Setting)))

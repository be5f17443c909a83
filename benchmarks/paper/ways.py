"""A way of learning as a row of a table: what it is called, and how it is fitted with a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paper.clusters import Clusterings, Grouping
from benchmarks.paper.plan import Plan
from benchmarks.paper.table import Way
from robusttc import TaskSet

__all__ = ["Learned", "Trial", "describe_model", "list_groupings", "paper_way"]

# What says nothing about a model: the defaults, or what the record has elsewhere.
UNSAID = ("device", "model", "random_state", "encoder", "targets")


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What has been fitted, with what it was given and what it says of itself."""

    model: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A row of a table.

    Attributes
    ----------
    way
        What it is called.
    fit
        From a seed to what has been fitted. Where that needs something for its targets that is not installed
        and no dependency, it raises `ModuleNotFoundError` there: the row is then left out, and says so.
    targets
        The sets of targets that it is judged on; None for all of the table.
    is_random
        Whether the seed matters; if not, one record does.
    max_seeds
        The greatest number of seeds, where more would take too long.
    max_draws
        The greatest number of support sets of a target, where more would take too long.
    """

    way: Way
    fit: Callable[[int], Learned]
    targets: tuple[str, ...] | None = None
    is_random: bool = True
    max_seeds: int | None = None
    max_draws: int | None = None

    def count_seeds(self, wanted: int) -> int:
        """Give the number of seeds, of so many that are wanted."""
        return min(wanted if self.is_random else 1, self.max_seeds or wanted)


def paper_way(name: str, encoder: str) -> Way:
    """Name a way of the paper; its group is that of the encoder."""
    return Way(way=f"paper: {name}", group=f"paper, {encoder}", encoder=encoder)


def describe_model(model: Any) -> dict[str, Any]:
    """Give the parameters of an estimator, without what says nothing."""
    found = {}
    for name, value in model.get_params().items():
        if name in UNSAID or value is None:
            continue
        # Where the file lies is nobody's business.
        found[name] = value.name if isinstance(value, Path) else value
    return {"estimator": type(model).__name__, **found}


def list_groupings(
    plan: Plan, clusterings: Clusterings, encoder: str, tasks: TaskSet
) -> Iterator[tuple[str, Callable[[int], Grouping]]]:
    """Give the name and the maker of all clusters that the paper's models are trained on."""

    def robust(instrument: Any, number: Any) -> Callable[[int], Grouping]:
        return lambda seed: clusterings.robust(instrument, number, encoder=encoder, tasks=tasks, seed=seed)

    for number in plan.numbers:
        yield f"clusters K={number}", robust("paper", number)
    for number in plan.default_numbers:
        yield f"clusters K={number}, default scores", robust("default", number)
    if plan.data.kinds is not None:
        yield "true kinds", lambda _: clusterings.kinds(tasks=tasks)
    if plan.control is not None and encoder in plan.control_encoders:
        control = plan.control
        yield (
            f"clusters of raw S, K={control}",
            lambda seed: clusterings.raw(control, encoder=encoder, tasks=tasks, seed=seed),
        )
        yield (
            f"random clusters K={control}",
            lambda seed: clusterings.random(control, encoder=encoder, tasks=tasks, seed=seed),
        )
    for number in plan.asap:
        yield f"ASAP clusters K={number}", make_asap(clusterings, number, tasks)
    # Last: these need sentence vectors, which another process may be computing meanwhile.
    if plan.control is not None and encoder in plan.control_encoders:
        yield (
            f"text centroids K={control}",
            lambda seed: clusterings.centroids(control, tasks=tasks, seed=seed),
        )


def make_asap(clusterings: Clusterings, number: int, tasks: TaskSet) -> Callable[[int], Grouping]:
    """Give the maker of the clusters of ASAP."""
    return lambda seed: clusterings.asap(number, tasks=tasks, seed=seed)


def choose_trials(
    trials: Sequence[Trial],
    *,
    only: Sequence[str] | None = None,
    skip: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> list[Trial]:
    """Keep the ways of these groups whose name has one of these words in it, and none of those to skip."""

    def has_one(trial: Trial, words: Sequence[str]) -> bool:
        return any(word.lower() in trial.way.way.lower() for word in words)

    return [
        trial
        for trial in trials
        if (not only or has_one(trial, only))
        and not (skip and has_one(trial, skip))
        and (not groups or trial.way.group in groups)
    ]

"""Multi-task training cut into units: one a model of several tasks, one a batch of tasks' own models.

A unit trains on the rows of a `Round`: a fold, all training rows, or those of a task that may not share. It
gives the model, or what the model says about the items that the round asks about, or both; models of folds
are large and seldom needed again, so they mostly give their answers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.jobs import Job, Result
from robusttc.models import name_tasks
from robusttc.multitask.components import (
    OwnModel,
    Shared,
    describe_own,
    fit_own,
    own_from_description,
    train_copies,
)
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.shared_model import SharedModel

__all__ = [
    "STAGE",
    "JointOrder",
    "Material",
    "OwnOrder",
    "Round",
    "answers_of",
    "batch_tasks",
    "joint_unit",
    "own_models_of",
    "own_unit",
    "shared_from",
]

STAGE = "multitask"

Numbers = NDArray[np.int64]
Keeps = Literal["nothing", "start", "model"]

# Own models of about a second of work go into one unit. What they take, measured: on vectors so many seconds
# a row and label, on words so many a row and at the least.
BATCH_SECONDS = 1.0
DENSE_SECONDS = 2e-6
WORD_SECONDS, LEAST_WORD_SECONDS = 2e-3, 0.15


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Rows to train on, and items to ask about.

    Attributes
    ----------
    place
        What it is, for the keys of units: ``fold 0``, ``whole``, ``private``.
    inputs
        The frozen inputs.
    parts
        The rows of every task.
    asked
        The items of every task that models are asked about; a task that is not there is not asked.
    seed_suffix
        What the names of random draws end with.
    start
        A model of all tasks that others may start from, as `train_joint` gave it.
    """

    place: str
    inputs: FrozenInputs
    parts: Mapping[str, TaskPart]
    asked: Mapping[str, Numbers] = field(default_factory=dict)
    seed_suffix: str = ""
    start: Result | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What all units see.

    Attributes
    ----------
    rounds
        The rounds, by names of their own.
    settings, seed
        How to train.
    """

    rounds: Mapping[str, Round]
    settings: MultiTaskSettings
    seed: int


@dataclass(frozen=True, slots=True)
class JointOrder:
    """One model of several tasks to be trained.

    Attributes
    ----------
    round
        On which rows.
    names
        The tasks, in the order of their names.
    stage
        What it is for: ``shared``, ``cluster`` or ``culprits``.
    from_start
        Whether it starts from the round's `start`.
    stop_early
        See `robusttc.multitask.joint.train_jointly`.
    keeps
        What of the model is given back: ``nothing``, what others can ``start`` from, the whole ``model``.
    """

    round: str
    names: tuple[str, ...]
    stage: str
    from_start: bool = False
    stop_early: bool = False
    keeps: Keeps = "nothing"


@dataclass(frozen=True, slots=True)
class OwnOrder:
    """The own models of some tasks to be fitted; see `JointOrder`."""

    round: str
    names: tuple[str, ...]
    keeps: Keeps = "nothing"


def joint_unit(material: Material, order: JointOrder) -> Job:
    """Make the unit of a model of several tasks.

    Its key has the tasks, not the number of their cluster: the same tasks are the same work.
    """
    kind = order.stage
    if order.stage == "cluster":
        kind += " from shared" if order.from_start else " from scratch"
    elif order.stage == "shared" and order.keeps == "nothing":
        # Remembered answers must not pass for the model that others start from.
        kind += ", answers only"
    key = "/".join([STAGE, material.rounds[order.round].place, kind, name_tasks(order.names)])
    return Job(key, train_joint, order, order.names)


def own_unit(material: Material, order: OwnOrder) -> Job:
    """Make the unit of some tasks' own models."""
    key = "/".join([STAGE, material.rounds[order.round].place, "own", name_tasks(order.names)])
    return Job(key, fit_owns, order, order.names)


def train_joint(material: Material, order: JointOrder) -> Result:
    """Do a unit: train a model of several tasks, and ask it."""
    own = material.rounds[order.round]
    start = None
    if order.from_start:
        assert own.start is not None  # noqa: S101 - such orders are given when it is there
        start = shared_from(own.start)
    model = train_copies(
        own.inputs,
        [own.parts[name] for name in order.names],
        settings=material.settings,
        seed=material.seed,
        stage=f"{order.stage}{own.seed_suffix}",
        start=start,
        stop_early=order.stop_early,
    )
    values: dict[str, Any] = {}
    arrays = put_answers(own, order.names, model.probabilities)
    if order.keeps != "nothing":
        described = [copy.describe() for copy in model.copies]
        values["copies"] = [settings for settings, _ in described]
        for number, (_, of_copy) in enumerate(described):
            arrays |= {
                f"model/{number}/{name}": array
                for name, array in of_copy.items()
                # Who starts from a model does not look at its converged classifiers.
                if order.keeps == "model" or not name.startswith("converged")
            }
    return Result(values, arrays)


def fit_owns(material: Material, order: OwnOrder) -> Result:
    """Do a unit: fit the own models of some tasks, and ask them."""
    own = material.rounds[order.round]
    stage = f"own{own.seed_suffix}"
    models: dict[str, OwnModel] = {
        name: fit_own(
            own.inputs, own.parts[name], settings=material.settings, seed=material.seed, stage=stage
        )
        for name in order.names
    }
    arrays = put_answers(own, order.names, lambda name, inputs: models[name].probabilities(inputs))
    if order.keeps != "nothing":
        for place, name in enumerate(order.names):
            described = describe_own(models[name])
            arrays |= {f"model/{place}/{key}": array for key, array in described.items()}
    return Result({}, arrays)


def put_answers(
    own: Round, names: Sequence[str], ask: Callable[[str, FrozenInputs], NDArray[np.floating]]
) -> dict[str, NDArray[Any]]:
    """Ask models about the items of their tasks."""
    return {
        f"said/{place}": np.asarray(ask(name, own.inputs.take(own.asked[name])), dtype=np.float64)
        for place, name in enumerate(names)
        if name in own.asked
    }


def answers_of(payload: Result, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Give what a unit of these tasks says about each that was asked."""
    return {
        name: payload.arrays[f"said/{place}"]
        for place, name in enumerate(names)
        if f"said/{place}" in payload.arrays
    }


def own_models_of(payload: Result, names: Sequence[str]) -> dict[str, OwnModel]:
    """Make the own models again that `fit_owns` gave."""
    return {
        name: own_from_description(arrays_under(payload, f"model/{place}/"))
        for place, name in enumerate(names)
    }


def shared_from(payload: Result) -> Shared:
    """Make the model again that `train_joint` gave."""
    return Shared(
        [
            SharedModel.from_description(settings, arrays_under(payload, f"model/{number}/"))
            for number, settings in enumerate(payload.values["copies"])
        ]
    )


def arrays_under(payload: Result, prefix: str) -> dict[str, NDArray[Any]]:
    """Give the arrays whose names begin so, without that beginning."""
    return {
        name.removeprefix(prefix): array for name, array in payload.arrays.items() if name.startswith(prefix)
    }


def batch_tasks(inputs: FrozenInputs, parts: Iterable[TaskPart]) -> list[tuple[str, ...]]:
    """Put tasks together whose own models take about a second, in the order of their names.

    Examples
    --------
    >>> inputs = DenseInputs(np.eye(2, dtype=np.float32))
    >>> parts = [TaskPart(name, 100, np.zeros(2000, np.int64), np.zeros(2000, np.int64)) for name in "abcd"]
    >>> batch_tasks(inputs, parts)
    [('a', 'b', 'c'), ('d',)]
    """
    batches: list[list[str]] = []
    seconds = BATCH_SECONDS
    for part in sorted(parts, key=lambda part: part.name):
        if seconds >= BATCH_SECONDS:
            batches.append([])
            seconds = 0.0
        batches[-1].append(part.name)
        if isinstance(inputs, DenseInputs):
            seconds += DENSE_SECONDS * len(part.items) * part.n_labels
        else:
            seconds += max(LEAST_WORD_SECONDS, WORD_SECONDS * len(part.items))
    return [tuple(batch) for batch in batches]

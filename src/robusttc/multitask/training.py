"""The units of multi-task training handed out together, and what comes back of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robusttc.jobs import Result
from robusttc.models import TrainingJobs
from robusttc.multitask.components import OwnModel, Shared
from robusttc.multitask.units import (
    JointOrder,
    Material,
    OwnOrder,
    answers_of,
    joint_unit,
    own_models_of,
    own_unit,
    shared_from,
)

__all__ = ["Trained", "shared_or_none", "train_all"]


@dataclass(slots=True, eq=False)
class Trained:
    """What came back.

    Attributes
    ----------
    joint
        What each order gave; None for one that could not be done.
    own_answers, own_models
        By round and task; tasks that could not be worked on are not there.
    """

    joint: dict[JointOrder, Result | None] = field(default_factory=dict)
    own_answers: dict[tuple[str, str], NDArray[np.float64]] = field(default_factory=dict)
    own_models: dict[tuple[str, str], OwnModel] = field(default_factory=dict)

    def add_own(self, order: OwnOrder, payload: Result) -> None:
        """Take in the own models of some tasks."""
        for name, said in answers_of(payload, order.names).items():
            self.own_answers[order.round, name] = said
        if order.keeps != "nothing":
            for name, model in own_models_of(payload, order.names).items():
                self.own_models[order.round, name] = model


def train_all(
    jobs: TrainingJobs, material: Material, joint: Iterable[JointOrder], own: Iterable[OwnOrder] = ()
) -> Trained:
    """Let all of these be trained, in one go.

    A batch of own models that could not be done is tried again task by task, so that one bad task does not
    take the others with it.
    """
    jobs.set_inputs(material)
    # The longest first, so that nobody waits for it in the end.
    ordered = sorted(dict.fromkeys(joint), key=lambda order: -count_rows(material, order))
    batches = list(dict.fromkeys(own))
    units = [joint_unit(material, order) for order in ordered]
    results = jobs.run([*units, *(own_unit(material, order) for order in batches)])
    trained = Trained(dict(zip(ordered, results[: len(ordered)], strict=True)))
    again: list[OwnOrder] = []
    for order, payload in zip(batches, results[len(ordered) :], strict=True):
        if payload is not None:
            trained.add_own(order, payload)
        elif len(order.names) > 1:
            again += [OwnOrder(order.round, (name,), order.keeps) for name in order.names]
    for order, payload in zip(again, jobs.run([own_unit(material, one) for one in again]), strict=True):
        if payload is not None:
            trained.add_own(order, payload)
    return trained


def count_rows(material: Material, order: JointOrder) -> int:
    """Give how many rows a model is trained on."""
    parts = material.rounds[order.round].parts
    return sum(len(parts[name].items) for name in order.names)


def shared_or_none(payload: Result | None) -> Shared | None:
    """Make a model again, if it is there."""
    return None if payload is None else shared_from(payload)

"""Held-out tasks played as few-shot targets, one unit a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.adapting import Support, accuracy, own_model
from robusttc.fewshot.gate import Evidence, Gate
from robusttc.fewshot.knowledge import Knowledge
from robusttc.fewshot.parts import mix_parts
from robusttc.fewshot.scenes import Scene
from robusttc.fewshot.units import STAGE
from robusttc.jobs import Job, Result

__all__ = ["Played", "Theatre", "evidence_unit", "play_unit", "read_evidence", "read_played"]

Items = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """One held-out task with one support set.

    Attributes
    ----------
    name
        The task.
    support, queries
        Items of the frozen inputs.
    codes
        The labels of the queries.
    probabilities
        What the predictor gave the queries, by the way of predicting: ``shared``, ``cluster``, ``random 0``
        and so on.
    weights, best_accuracy
        Of the predictor, see `robusttc.fewshot.adapting.Adapted`; by the same.
    outside, outside_confidence
        Items of other tasks, and the highest probability that the predictor gave each of them, by the same.
        Without items where the task was asked about them with another support set.
    own_accuracy
        The accuracy of the task's own model, where it was asked for.
    """

    name: str
    support: Support
    queries: Items
    codes: Items
    probabilities: dict[str, NDArray[np.float64]]
    weights: dict[str, dict[int, float]]
    best_accuracy: dict[str, float]
    outside: Items
    outside_confidence: dict[str, NDArray[np.float64]]
    own_accuracy: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Theatre:
    """What all units see.

    Attributes
    ----------
    inputs
        The frozen inputs of all rows and names.
    scenes
        The held-out tasks with their support sets.
    outside
        For every scene, items of other tasks to be asked about.
    ways_of
        What was learned in each round from the tasks that are not held out, by the way of predicting.
    with_own
        Whether the task's own model is tried too.
    """

    inputs: FrozenInputs
    scenes: tuple[Scene, ...]
    outside: tuple[Items, ...]
    ways_of: tuple[Mapping[str, Knowledge], ...]
    with_own: bool


def evidence_unit(theatre: Theatre, places: Sequence[int]) -> Job:
    """Make the unit that finds what the gate goes by, for all scenes of one task."""
    scene = theatre.scenes[places[0]]
    name = scene.source.name
    return Job(
        f"{STAGE}/round {scene.number}/evidence/task {name}", find_all_evidence, tuple(places), (name,)
    )


def find_all_evidence(theatre: Theatre, places: Sequence[int]) -> Result:
    """Do a unit: adapt to the support sets of a task without a gate, and give the evidence of each."""
    values: dict[str, Any] = {"clusters": []}
    arrays: dict[str, NDArray[Any]] = {}
    for number, place in enumerate(places):
        scene = theatre.scenes[place]
        adapted = theatre.ways_of[scene.number]["cluster"].adapt(scene.support, ())
        values["clusters"].append(list(adapted.weights))
        if adapted.evidence is not None:
            arrays[f"evidence/{number}"] = adapted.evidence
    return Result(values, arrays)


def read_evidence(payload: Result) -> list[tuple[list[int], Evidence | None]]:
    """Give the clusters and the evidence of each scene, from the result of a unit."""
    return [
        (clusters, payload.arrays.get(f"evidence/{number}"))
        for number, clusters in enumerate(payload.values["clusters"])
    ]


def play_unit(theatre: Theatre, places: Sequence[int], gate: Gate | None) -> Job:
    """Make the unit that plays all scenes of one task, with a gate that others have taught."""
    scene = theatre.scenes[places[0]]
    name = scene.source.name
    key = f"{STAGE}/round {scene.number}/play/task {name}"
    return Job(key, play_all, (tuple(places), gate), (name,))


def play_all(theatre: Theatre, argument: tuple[Sequence[int], Gate | None]) -> Result:
    """Do a unit: adapt to the support sets of a task, and ask the predictors about its queries."""
    places, gate = argument
    values: dict[str, Any] = {"scenes": []}
    arrays: dict[str, NDArray[Any]] = {}
    for number, place in enumerate(places):
        scene = theatre.scenes[place]
        ways = dict(theatre.ways_of[scene.number])
        if "cluster" in ways:
            ways["cluster"] = dataclasses.replace(ways["cluster"], gate=gate)
        queries = theatre.inputs.take(scene.queries)
        outside = theatre.inputs.take(theatre.outside[place])
        told: dict[str, Any] = {"ways": list(ways)}
        for way, knowledge in ways.items():
            adapted = knowledge.adapt(scene.support, scene.label_names)
            arrays[f"{number}/said/{way}"] = mix_parts(adapted.parts, adapted.shares, queries)
            arrays[f"{number}/clusters/{way}"] = np.array(list(adapted.weights), dtype=np.int64)
            arrays[f"{number}/weights/{way}"] = np.array(list(adapted.weights.values()), dtype=np.float64)
            # An array: it may be no number, which JSON does not have.
            arrays[f"{number}/best/{way}"] = np.array([adapted.best_accuracy])
            if len(outside):
                table = mix_parts(adapted.parts, adapted.shares, outside)
                arrays[f"{number}/outside/{way}"] = table.max(axis=1)
        if theatre.with_own:
            told["own_accuracy"] = try_own(scene, ways["shared"], queries)
        values["scenes"].append(told)
    return Result(values, arrays)


def try_own(scene: Scene, knowledge: Knowledge, queries: FrozenInputs) -> float:
    """Give the accuracy of the task's own model on its queries."""
    own = own_model(scene.support, knowledge.metrics.frozen, knowledge.settings, knowledge.seed)
    everything = np.ones(len(scene.queries), dtype=np.bool_)
    return accuracy(own.probabilities(queries), scene.codes, everything)


def read_played(theatre: Theatre, places: Sequence[int], payload: Result) -> list[Played]:
    """Give the scenes of a task as they were played, from the result of a unit."""
    played = []
    for number, (place, told) in enumerate(zip(places, payload.values["scenes"], strict=True)):
        scene, ways = theatre.scenes[place], told["ways"]

        def get(what: str, ways: Sequence[str] = ways, number: int = number) -> dict[str, NDArray[Any]]:
            keys = {way: f"{number}/{what}/{way}" for way in ways}
            return {way: payload.arrays[key] for way, key in keys.items() if key in payload.arrays}

        clusters, weights = get("clusters"), get("weights")
        played.append(
            Played(
                scene.source.name,
                scene.support,
                scene.queries,
                scene.codes,
                get("said"),
                {way: dict(zip(clusters[way].tolist(), weights[way].tolist(), strict=True)) for way in ways},
                {way: float(best[0]) for way, best in get("best").items()},
                theatre.outside[place],
                get("outside"),
                told.get("own_accuracy"),
            )
        )
    return played

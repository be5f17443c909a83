"""Rehearsal: source tasks are held out and played as few-shot targets, a third of them at a time.

Metrics are trained on the other sources; the held-out tasks draw support sets, and their other rows are the
queries. What comes out judges clusters (against the shared metric alone, and against random clusters of the
same sizes), gives the temperatures and the sense of scope that new tasks borrow, and teaches the gate. A task
that is held out is weighed by a gate that was learned from others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.episodes import SourceRows, usable_sources
from robusttc.fewshot.gate import Evidence, Gate, cross_fit, fit_gate
from robusttc.fewshot.knowledge import Knowledge, learn
from robusttc.fewshot.lessons import Lesson, Teacher
from robusttc.fewshot.playing import (
    Played,
    Theatre,
    evidence_unit,
    play_unit,
    read_evidence,
    read_played,
)
from robusttc.fewshot.scenes import Scene, set_scenes
from robusttc.fewshot.settings import FewShotSettings, Strategy
from robusttc.fewshot.units import STAGE
from robusttc.jobs import Result, Runner
from robusttc.models import TrainingJobs, cluster_members, random_clusters_like, warn_about_tasks
from robusttc.progress import Progress
from robusttc.random import numpy_generator

__all__ = ["LEAST_TASKS", "Rehearsal", "plan_rounds", "rehearse"]

# With fewer usable sources none is held out: what is left would teach too little.
LEAST_TASKS = 6
# So many held-out tasks give an interval that tells half a point from none, on intent tasks.
ENOUGH_TASKS = 30
# Texts from outside that a task is shown.
MAX_OUTSIDE = 40


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """All held-out tasks with all their support sets, and the gate that they taught."""

    played: tuple[Played, ...]
    gate: Gate | None = None

    def accuracies(self, way: str) -> NDArray[np.float64] | None:
        """Give the accuracy of each task by a way of predicting, the mean of its support sets."""
        by_task: dict[str, list[float]] = {}
        for one in self.played:
            if way not in one.probabilities:
                return None
            right = one.probabilities[way].argmax(axis=1) == one.codes
            by_task.setdefault(one.name, []).append(float(right.mean()))
        return np.array([float(np.mean(values)) for values in by_task.values()])


def rehearse(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    clusters: Mapping[int, Sequence[str]],
    *,
    strategy: Strategy,
    settings: FewShotSettings,
    threshold: float,
    shared_labels: tuple[str, ...] | None = None,
    with_own: bool = False,
    n_random: int = 1,
    seed: int = 0,
    teacher: Teacher | None = None,
    progress: Progress | None = None,
) -> Rehearsal:
    """Hold out a share of the sources, learn from the rest, and play the held-out ones as targets.

    Parameters
    ----------
    inputs, sources, clusters
        The frozen inputs, the tasks, and the names of the tasks of each cluster; without clusters only the
        shared metric is judged.
    strategy, settings, threshold, shared_labels, seed
        As in `robusttc.fewshot.knowledge.learn`.
    with_own
        Whether the task's own model is tried too, which tuning the threshold needs.
    n_random
        How many draws of random clusters are compared with.
    teacher
        Who trains; None trains here.
    progress
        Told after every held-out task.
    """
    rounds = plan_rounds(sources, clusters, settings=settings, n_random=n_random, seed=seed)
    teacher = teacher or Teacher(
        inputs, sources, settings=settings, seed=seed, n_labels=len(shared_labels or ())
    )
    teacher.teach([lesson for one in rounds for lesson in one.lessons.values()])
    ways_of: list[dict[str, Knowledge]] = []
    scenes: list[Scene] = []
    for number, one in enumerate(rounds):
        ways_of.append(
            {
                way: learn(
                    teacher, lesson, strategy=strategy, threshold=threshold, shared_labels=shared_labels
                )
                for way, lesson in one.lessons.items()
            }
        )
        scenes += set_scenes(
            inputs, one.held, shared_labels, n_draws=settings.rehearsals, number=number, seed=seed
        )
    theatre = Theatre(inputs, tuple(scenes), choose_outside(scenes, clusters, seed), tuple(ways_of), with_own)
    return play_scenes(theatre, clusters, seed=seed, runner=teacher.runner, progress=progress)


def play_scenes(
    theatre: Theatre,
    clusters: Mapping[int, Sequence[str]],
    *,
    seed: int,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Rehearsal:
    """Play all scenes: first without a gate, to teach one, then each with a gate that others have taught."""
    by_task: dict[str, list[int]] = {}
    for place, scene in enumerate(theatre.scenes):
        by_task.setdefault(scene.source.name, []).append(place)
    teaches = [
        places
        for places in by_task.values()
        for knowledge in [theatre.ways_of[theatre.scenes[places[0]].number].get("cluster")]
        if knowledge is not None and knowledge.marks is not None
    ]
    n_jobs = len(teaches) + len(by_task)
    with TrainingJobs(STAGE, runner, progress=progress, total=n_jobs, unit="tasks") as jobs:
        jobs.set_inputs(theatre)
        found = jobs.run([evidence_unit(theatre, places) for places in teaches])
        examples = gather_examples(theatre, teaches, found, clusters)
        gates = cross_fit(examples, seed)
        units = [play_unit(theatre, places, gates.get(name)) for name, places in by_task.items()]
        results = dict(zip(by_task, jobs.run(units), strict=True))
    warn_about_tasks(
        "some tasks could not be played as few-shot targets",
        (name for name, payload in results.items() if payload is None),
    )
    by_place: dict[int, Played] = {}
    for name, payload in results.items():
        if payload is not None:
            played = read_played(theatre, by_task[name], payload)
            by_place |= dict(zip(by_task[name], played, strict=True))
    gate = fit_gate([(evidence, own) for _, evidence, own in examples])
    return Rehearsal(tuple(by_place[place] for place in sorted(by_place)), gate)


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Tasks that are held out together, and what is learned from the others, by the way of predicting."""

    held: tuple[SourceRows, ...]
    lessons: dict[str, Lesson]


def plan_rounds(
    sources: Sequence[SourceRows],
    clusters: Mapping[int, Sequence[str]],
    *,
    settings: FewShotSettings,
    n_random: int = 1,
    seed: int = 0,
) -> list[Round]:
    """Say what is held out, and what is learned: with no clusters, with these, and with random ones."""
    usable = sorted(usable_sources(sources), key=lambda source: source.name)
    if len(usable) < LEAST_TASKS:
        return []
    rounds = []
    dealt = deal_rounds([source.name for source in usable], settings.held_out, seed)
    for number, held_names in enumerate(dealt):
        rest = sorted(source.name for source in sources if source.name not in held_names)
        by_way: dict[str, Mapping[int, Sequence[str]]] = {"shared": {}}
        if clusters:
            by_way["cluster"] = clusters
            for draw in range(n_random):
                by_way[f"random {draw}"] = random_clusters(clusters, rest, seed, draw)
        lessons = {way: Lesson(f"round {number}", tuple(rest), own) for way, own in by_way.items()}
        rounds.append(Round(tuple(source for source in usable if source.name in held_names), lessons))
    return rounds


def gather_examples(
    theatre: Theatre,
    teaches: Sequence[Sequence[int]],
    found: Sequence[Result | None],
    clusters: Mapping[int, Sequence[str]],
) -> list[tuple[str, Evidence, int]]:
    """Give the name and the evidence of each held-out task, and the place of its own cluster in it."""
    number_of = {name: number for number, names in clusters.items() for name in names}
    examples = []
    for places, payload in zip(teaches, found, strict=True):
        name = theatre.scenes[places[0]].source.name
        for known, evidence in [] if payload is None else read_evidence(payload):
            if evidence is not None and number_of.get(name) in known:
                examples.append((name, evidence, known.index(number_of[name])))
    return examples


def choose_outside(
    scenes: Sequence[Scene], clusters: Mapping[int, Sequence[str]], seed: int
) -> tuple[NDArray[np.int64], ...]:
    """Give for the first scene of each task queries of tasks of other clusters; for other scenes none.

    Without several clusters, queries of all other tasks. None of them is a query of the task itself.
    """
    cluster_of = {name: number for number, names in clusters.items() for name in names}
    first: dict[str, Scene] = {}
    for scene in scenes:
        first.setdefault(scene.source.name, scene)
    several = len({cluster_of.get(name) for name in first}) > 1
    nothing = np.zeros(0, dtype=np.int64)
    chosen = []
    for scene in scenes:
        name = scene.source.name
        if first[name] is not scene:
            chosen.append(nothing)
            continue
        others = [
            other.queries
            for other_name, other in first.items()
            if other_name != name and (not several or cluster_of.get(other_name) != cluster_of.get(name))
        ]
        outside = np.setdiff1d(np.concatenate([nothing, *others]), np.unique(scene.queries))
        chosen.append(numpy_generator(seed, "outside", [name]).permutation(outside)[:MAX_OUTSIDE])
    return tuple(chosen)


def deal_rounds(names: Sequence[str], share: float, seed: int) -> list[frozenset[str]]:
    """Give the names that are held out together, round after round.

    One round holds out the share. Where that is fewer than `ENOUGH_TASKS` tasks, there are more rounds, until
    they are enough or every task was held out once.

    Examples
    --------
    >>> [len(names) for names in deal_rounds([f"task {number}" for number in range(12)], 1 / 3, 0)]
    [4, 4, 4]
    >>> [len(names) for names in deal_rounds([f"task {number}" for number in range(120)], 1 / 3, 0)]
    [40]
    """
    order = numpy_generator(seed, "rehearsal", names).permutation(len(names))
    n_parts = max(2, round(1 / share)) if share > 0 else len(names)
    parts = [frozenset(names[place] for place in part) for part in np.array_split(order, n_parts)]
    n_rounds = min(n_parts, -(-ENOUGH_TASKS // len(parts[-1])))
    return parts[:n_rounds]


def random_clusters(
    clusters: Mapping[int, Sequence[str]], sources: Sequence[str], seed: int, draw: int
) -> dict[int, tuple[str, ...]]:
    """Deal tasks at random to clusters of the same sizes."""
    number_of = {name: number for number, names in clusters.items() for name in names}
    names = [name for name in sources if name in number_of]
    return cluster_members(names, random_clusters_like([number_of[name] for name in names], seed, draw))

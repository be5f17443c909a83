"""Rehearsal: source tasks are held out and played as few-shot targets, a third of them at a time.

Metrics are trained on the other sources; the held-out tasks draw support sets, and their other rows are the
queries. What comes out judges clusters (against the shared metric alone, and against random clusters of the
same sizes), gives the temperatures and the sense of scope that new tasks borrow, and teaches the gate. A task
that is held out is weighed by a gate that was learned from others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.inputs import FrozenInputs
from robusttc.fewshot.adapting import Adapted, Support, accuracy, own_model
from robusttc.fewshot.episodes import SourceRows, usable_sources
from robusttc.fewshot.gate import Evidence, Gate, cross_fit, fit_gate
from robusttc.fewshot.knowledge import Knowledge, learn
from robusttc.fewshot.parts import mix_parts
from robusttc.fewshot.scenes import Scene, set_scenes
from robusttc.fewshot.settings import FewShotSettings, Strategy
from robusttc.learning.groups import members, random_groups_like
from robusttc.progress import Progress, report
from robusttc.seeds import numpy_generator

__all__ = ["LEAST_TASKS", "Played", "Rehearsal", "rehearse"]

# With fewer usable sources none is held out: what is left would teach too little.
LEAST_TASKS = 6
# So many held-out tasks give an interval that tells half a point from none, on intent tasks.
ENOUGH_TASKS = 30


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
    adapted
        How the predictor came about, by the same.
    own_accuracy
        The accuracy of the task's own model, where it was asked for.
    """

    name: str
    support: Support
    queries: NDArray[np.int64]
    codes: NDArray[np.int64]
    probabilities: dict[str, NDArray[np.float64]]
    adapted: dict[str, Adapted]
    own_accuracy: float | None = None


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
    progress
        Told after every held-out task.
    """
    usable = sorted(usable_sources(sources), key=lambda source: source.name)
    if len(usable) < LEAST_TASKS:
        return Rehearsal(())
    rounds = deal_rounds([source.name for source in usable], settings.held_out, seed)
    ways_of: list[dict[str, Knowledge]] = []
    scenes: list[Scene] = []
    for number, held_names in enumerate(rounds):
        rest = sorted(
            (source for source in sources if source.name not in held_names), key=lambda source: source.name
        )
        ways_of.append(
            learn_ways(
                inputs,
                rest,
                clusters,
                strategy=strategy,
                settings=settings,
                threshold=threshold,
                shared_labels=shared_labels,
                n_random=n_random,
                seed=seed,
            )
        )
        held = [source for source in usable if source.name in held_names]
        scenes += set_scenes(
            inputs, held, shared_labels, n_draws=settings.rehearsals, number=number, seed=seed
        )
    examples = gather_examples(scenes, ways_of, clusters)
    gates = cross_fit(examples, seed)
    played: list[Played] = []
    for done, scene in enumerate(scenes, start=1):
        ways = dict(ways_of[scene.number])
        if "cluster" in ways:
            ways["cluster"] = dataclasses.replace(ways["cluster"], gate=gates.get(scene.source.name))
        played.append(play(inputs, scene, ways, with_own=with_own))
        report(progress, "rehearsal", done, len(scenes), "support sets")
    return Rehearsal(tuple(played), fit_gate([(evidence, own) for _, evidence, own in examples]))


def learn_ways(
    inputs: FrozenInputs,
    rest: Sequence[SourceRows],
    clusters: Mapping[int, Sequence[str]],
    *,
    strategy: Strategy,
    settings: FewShotSettings,
    threshold: float,
    shared_labels: tuple[str, ...] | None,
    n_random: int,
    seed: int,
) -> dict[str, Knowledge]:
    """Learn from the tasks that are not held out: with no clusters, with these, and with random ones."""
    by_way: dict[str, Mapping[int, Sequence[str]]] = {"shared": {}}
    if clusters:
        by_way["cluster"] = clusters
        for draw in range(n_random):
            by_way[f"random {draw}"] = random_clusters(clusters, rest, seed, draw)
    ways: dict[str, Knowledge] = {}
    for way, groups in by_way.items():
        ways[way] = learn(
            inputs,
            rest,
            groups,
            strategy=strategy,
            settings=settings,
            threshold=threshold,
            shared_labels=shared_labels,
            like=ways.get("shared"),
            seed=seed,
        )
    return ways


def gather_examples(
    scenes: Sequence[Scene], ways_of: Sequence[Mapping[str, Knowledge]], clusters: Mapping[int, Sequence[str]]
) -> list[tuple[str, Evidence, int]]:
    """Give the name and the evidence of each held-out task, and the place of its own cluster in it."""
    number_of = {name: number for number, names in clusters.items() for name in names}
    examples = []
    for scene in scenes:
        knowledge = ways_of[scene.number].get("cluster")
        if knowledge is None or knowledge.marks is None:
            continue
        adapted = knowledge.adapt(scene.support, ())
        own, known = number_of.get(scene.source.name), list(adapted.weights)
        if adapted.evidence is not None and own in known:
            examples.append((scene.source.name, adapted.evidence, known.index(own)))
    return examples


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
    clusters: Mapping[int, Sequence[str]], sources: Sequence[SourceRows], seed: int, draw: int
) -> dict[int, tuple[str, ...]]:
    """Deal tasks at random to clusters of the same sizes."""
    number_of = {name: number for number, names in clusters.items() for name in names}
    names = [source.name for source in sources if source.name in number_of]
    return members(names, random_groups_like([number_of[name] for name in names], seed, draw))


def play(inputs: FrozenInputs, scene: Scene, ways: Mapping[str, Knowledge], *, with_own: bool) -> Played:
    """Play a task as a few-shot target."""
    support = scene.support
    adapted = {way: knowledge.adapt(support, scene.label_names) for way, knowledge in ways.items()}
    read = inputs.take(scene.queries)
    probabilities = {way: mix_parts(one.parts, one.shares, read) for way, one in adapted.items()}
    own_accuracy = None
    if with_own:
        knowledge = ways["shared"]
        own = own_model(support, knowledge.metrics.frozen, knowledge.settings, knowledge.seed)
        everything = np.ones(len(scene.queries), dtype=np.bool_)
        own_accuracy = accuracy(own.probabilities(read), scene.codes, everything)
    return Played(
        scene.source.name, support, scene.queries, scene.codes, probabilities, adapted, own_accuracy
    )

"""New tasks measured against representatives of a run's clusters, and placed in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robusttc.clustering import pair_values
from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.jobs import Runner
from robusttc.progress import Progress
from robusttc.run.settings import FitSettings
from robusttc.run.updates.placement import ClusterAssigner, Placement, choose_representatives
from robusttc.transfer import (
    PairChoice,
    PairList,
    TransferScores,
    TransferSettings,
    choose_pairs,
    measure_transfer,
    seen_labels,
)

if TYPE_CHECKING:
    from robusttc.run.run import Run

__all__ = ["NO_CLUSTER", "Measured", "measure_new_tasks"]

# Up to so many tasks that no cluster fits are all measured with each other; more, with about so many each.
MAX_ALL_UNPLACED = 8
NO_CLUSTER = Placement(-1, 0.0, {})


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What was measured of new tasks, and where they belong."""

    scores: TransferScores | None  # the new ones; None where nothing could be measured
    placements: Mapping[str, Placement] = field(default_factory=dict)
    has_clusters: bool = False  # whether there were clusters to place tasks in
    groups: Sequence[tuple[str, ...]] = ()  # tasks that fit no cluster, and are like each other
    doubts: Sequence[str] = ()  # what could not be done, a sentence each

    def placement(self, name: str) -> Placement:
        """Return where a task belongs."""
        return self.placements.get(name, NO_CLUSTER)

    def n_measured(self, name: str) -> int:
        """Return with how many tasks a new one was measured."""
        if self.scores is None or name not in self.scores.task_names:
            return 0
        place, source, target = self.scores.task_names.index(name), self.scores.source, self.scores.target
        ends = (source == place) | (target == place)
        return len({*source[ends].tolist(), *target[ends].tolist()} - {place})


def measure_new_tasks(
    run: Run,
    new: TaskSet,
    settings: FitSettings,
    encoder: Encoder,
    *,
    runner: Runner,
    progress: Progress | None = None,
) -> Measured:
    """Measure new tasks that may share against representatives of every cluster, and place them."""
    known = scores_of_fit(run, new)
    if known is None or not len(new):
        return Measured(None)
    labels = np.array([run.clusters.get(name, -1) for name in known.task_names], dtype=np.int64)
    has_clusters = bool((labels >= 0).any())
    grouped = labels if has_clusters else np.zeros(len(labels), dtype=np.int64)
    names = choose_representatives(known.task_names, likeness_of(run, known), grouped)
    chosen, problem = choose_settings(run, known, settings, new)
    if problem:
        return Measured(None, doubts=[problem])
    everybody = TaskSet([*new, *(run.rows_of(name) for name in names)])
    first = np.repeat(np.arange(len(new)), len(names))
    second = np.tile(np.arange(len(new), len(everybody)), len(new))

    def measure(tasks: TaskSet, pairs: PairList, prefix: str) -> TransferScores:
        return measure_transfer(
            tasks,
            encoder=encoder,
            pairs=pairs,
            settings=chosen,
            device=settings.device,
            random_state=settings.seed,
            # The texts of all tasks are inputs of a job of either round: its keys must not be the same.
            runner=runner.with_prefix(prefix, cost_stage="add"),
            progress=progress,
        )

    scores = measure(everybody, PairList(first, second), "representatives")
    if not has_clusters:
        return Measured(scores)
    assigner = ClusterAssigner(known, labels, names)
    placements = {name: assigner.place(scores, name) for name in new.names}
    unplaced = tuple(name for name in new.names if placements[name].out_of_cluster)
    groups: list[tuple[str, ...]] = []
    if len(unplaced) > 1:
        few = len(unplaced) <= MAX_ALL_UNPLACED
        wanted: PairChoice = "all" if few else len(unplaced) * MAX_ALL_UNPLACED
        pairs = choose_pairs(unplaced, wanted, random_state=settings.seed)
        scores = scores.merged_with(measure(new.subset(unplaced), pairs, "unplaced"))
        groups = assigner.find_groups(scores, unplaced)
    return Measured(scores, placements, has_clusters=True, groups=groups)


def scores_of_fit(run: Run, new: TaskSet) -> TransferScores | None:
    """Return the scores of the tasks of the fit; tasks that came later have scores with a few others only."""
    if run.scores is None or run.similarity is None:
        return None
    later = {*run.added, *new.names}
    return run.scores.subset([name for name in run.scores.task_names if name not in later])


def likeness_of(run: Run, known: TransferScores) -> NDArray[np.float64]:
    """Return how much each two tasks are alike: the completed similarity, or what was measured without it."""
    found = run.similarity
    if found is not None and set(known.task_names) <= set(found.task_names):
        place_of = {name: place for place, name in enumerate(found.task_names)}
        chosen = [place_of[name] for name in known.task_names]
        return found.dense()[np.ix_(chosen, chosen)]
    first, second, value = pair_values(known)
    likeness = np.full((known.n_tasks, known.n_tasks), np.nan)
    likeness[first, second] = likeness[second, first] = value
    return likeness


def choose_settings(
    run: Run, known: TransferScores, settings: FitSettings, new: TaskSet
) -> tuple[TransferSettings, str]:
    """Return how to measure so that scores can be compared with those of the run, or why that cannot be.

    With accuracies, a run whose tasks all have the same labels uses models on other tasks as they are. A few
    tasks must not be taken for such a run, nor the other way round.
    """
    chosen = TransferSettings(kind=settings.kind)
    if settings.kind != "accuracy":
        return chosen, ""
    labels = {seen_labels(run.rows_of(name)) for name in known.task_names}
    if len(labels) > 1:
        return chosen.replace(label_sets="different"), ""
    if {seen_labels(task) for task in new} != labels:
        return chosen, (
            "The new tasks have other labels than those of the run, which all have the same: what they give "
            "to each other cannot be compared, so they have no clusters."
        )
    return chosen.replace(label_sets="identical"), ""

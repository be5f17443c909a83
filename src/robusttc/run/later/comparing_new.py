"""New tasks measured against some of the run's, and placed in its clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robusttc.clustering import pair_values
from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.jobs import Runner
from robusttc.progress import Progress
from robusttc.run.kept_tasks import KeptTasks
from robusttc.run.later.partners import choose_partners
from robusttc.run.later.placing import Placement, Placer
from robusttc.run.places import SIMILARITY
from robusttc.run.settings import FitSettings
from robusttc.run.similarity import read_similarity
from robusttc.transfer import (
    PairChoice,
    PairList,
    TransferScores,
    TransferSettings,
    choose_pairs,
    measure_transfer,
    seen_labels,
)

__all__ = ["Compared", "compare_new"]

# Up to so many tasks that no cluster fits are all measured with each other; more, with about so many each.
MAX_ALL_STRANGERS = 8
NO_CLUSTER = Placement(-1, 0.0, {})


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What was measured of new tasks, and where they belong.

    Attributes
    ----------
    scores
        The new scores; None where nothing could be measured.
    placements
        Where each task belongs.
    is_placed
        Whether there were clusters to place tasks in.
    alike
        Groups of tasks that fit no cluster, and are like each other.
    share_found
        See `Placer.share_found`.
    doubts
        What could not be done, a sentence each.
    """

    scores: TransferScores | None
    placements: Mapping[str, Placement]
    is_placed: bool
    alike: Sequence[tuple[str, ...]] = ()
    share_found: float | None = None
    doubts: list[str] = field(default_factory=list)


def compare_new(
    folder: Path,
    new: TaskSet,
    known: TransferScores | None,
    partition: Mapping[str, int],
    configuration: FitSettings,
    encoder: Encoder,
    *,
    runner: Runner,
    strangers_runner: Runner,
    progress: Progress | None = None,
) -> Compared:
    """Measure new tasks against representatives of every cluster, and place them.

    Parameters
    ----------
    folder
        The run's folder.
    new
        The new tasks that may share.
    known
        The scores of the tasks of the fit; None where none were measured.
    partition
        The cluster of every task of the run.
    configuration, encoder
        How the run measures.
    runner, strangers_runner
        Who measures: pairs with representatives, and pairs of new tasks that no cluster fits.
    progress
        Told how far it is.
    """
    nowhere = dict.fromkeys(new.names, NO_CLUSTER)
    if known is None or not len(new):
        return Compared(None, nowhere, is_placed=False)
    labels = np.array([partition.get(name, -1) for name in known.task_names], dtype=np.int64)
    has_clusters = bool((labels >= 0).any())
    grouped = labels if has_clusters else np.zeros(len(labels), dtype=np.int64)
    partners = choose_partners(known.task_names, find_likeness(folder, known), grouped)
    tasks = KeptTasks(folder).read(partners)
    settings, why = choose_settings(folder, known, configuration, new)
    if why is not None:
        return Compared(None, nowhere, is_placed=False, doubts=[why])
    everybody = TaskSet([*new, *tasks])
    first = np.repeat(np.arange(len(new)), len(tasks))
    second = np.tile(np.arange(len(new), len(everybody)), len(new))

    def measure(these: TaskSet, pairs: PairList, by: Runner) -> TransferScores:
        return measure_transfer(
            these,
            encoder=encoder,
            pairs=pairs,
            settings=settings,
            device=configuration.device,
            random_state=configuration.seed,
            runner=by,
            progress=progress,
        )

    scores = measure(everybody, PairList(first, second), runner)
    if not has_clusters:
        return Compared(scores, nowhere, is_placed=False)
    placer = Placer(known, labels, partners)
    placements = {name: placer.place(scores, name) for name in new.names}
    strangers = tuple(name for name in new.names if placements[name].out_of_cluster)
    alike: list[tuple[str, ...]] = []
    if len(strangers) > 1:
        wanted: PairChoice = "all"
        if len(strangers) > MAX_ALL_STRANGERS:
            wanted = len(strangers) * MAX_ALL_STRANGERS
        pairs = choose_pairs(strangers, wanted, random_state=configuration.seed)
        scores = scores.merged_with(measure(new.subset(strangers), pairs, strangers_runner))
        alike = placer.find_alike(scores, strangers)
    return Compared(scores, placements, True, alike, placer.share_found)


def find_likeness(folder: Path, known: TransferScores) -> NDArray[np.float64]:
    """Give how much each two tasks are alike: the completed similarity, or what was measured without it."""
    if (folder / SIMILARITY).is_file():
        found = read_similarity(folder)
        place_of = {name: place for place, name in enumerate(found.task_names)}
        if set(known.task_names) <= place_of.keys():
            chosen = [place_of[name] for name in known.task_names]
            return found.dense()[np.ix_(chosen, chosen)]
    first, second, value = pair_values(known)
    likeness = np.full((known.n_tasks, known.n_tasks), np.nan)
    likeness[first, second] = likeness[second, first] = value
    return likeness


def choose_settings(
    folder: Path, known: TransferScores, configuration: FitSettings, new: TaskSet
) -> tuple[TransferSettings, str | None]:
    """Give how to measure so that scores can be compared with those of the run, or why that cannot be.

    With accuracies, a run whose tasks all have the same labels uses models on other tasks as they are. A few
    tasks must not be taken for such a run, nor the other way round.
    """
    settings = TransferSettings(kind=configuration.kind)
    if configuration.kind != "accuracy":
        return settings, None
    labels = {seen_labels(task) for task in KeptTasks(folder).read(known.task_names)}
    if len(labels) > 1:
        return settings.replace(label_sets="different"), None
    if {seen_labels(task) for task in new} != labels:
        return settings, (
            "The new tasks have other labels than those of the run, which all have the same: what they give "
            "to each other cannot be compared, so they have no clusters."
        )
    return settings.replace(label_sets="identical"), None

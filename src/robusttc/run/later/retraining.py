"""What is trained again without some tasks: everything that had learned from them, beside what serves now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.fewshot import ClusterFewShot
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import Progress
from robusttc.run.evaluation import Evaluation
from robusttc.run.kept_tasks import KeptTasks
from robusttc.run.later.added_tasks import ADDED
from robusttc.run.later.joins import Joined, join_all
from robusttc.run.naming import digest_values
from robusttc.run.settings import FitSettings
from robusttc.run.stages import Outcome, Stages
from robusttc.run.store import RunStore
from robusttc.run.summary import describe_fewshot, describe_multitask

__all__ = ["STAGING", "Retrained", "retrain"]

# Where models are saved until all of them are there; hidden, for nobody is to read them.
STAGING = ".retrained"


class Again(Stages):
    """The stages of learning once more, under names of their own and in a folder of their own."""

    without: str = ""

    def name(self, stage: str, labels: dict[str, int] | None) -> str:
        """Name what a stage depends on, and which tasks are gone."""
        return digest_values(self.without, super().name(stage, labels))


@dataclass(frozen=True, slots=True, eq=False)
class Retrained:
    """What was trained again.

    Attributes
    ----------
    multitask, fewshot, evaluation, doubts
        As in `robusttc.run.stages.Outcome`.
    joined
        The tasks that came later, on the new models.
    names
        The names in the keys of all units that made it.
    """

    multitask: ClusterMultiTask
    fewshot: ClusterFewShot | None
    evaluation: Evaluation
    doubts: Sequence[str]
    joined: Mapping[str, Joined]
    names: tuple[str, ...]

    def sections(self) -> dict[str, Any]:
        """Give what a summary says of the models."""
        outcome = Outcome(None, None, self.multitask, self.fewshot, self.evaluation)
        return {"multitask": describe_multitask(outcome), "fewshot": describe_fewshot(outcome)}

    def describe(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Bring what a summary says of a task that came later up to date."""
        one = self.joined.get(values["name"])
        if one is None:
            return dict(values)
        gain = None if one.gain is None else one.gain.to_dict()
        return {**values, "expected_gain": gain, "shares": one.shares}


def retrain(
    store: RunStore,
    runner: Runner,
    configuration: FitSettings,
    before: Mapping[str, Any],
    partition: Mapping[str, int],
    *,
    gone: Sequence[str],
    name: str,
    progress: Progress | None = None,
) -> Retrained:
    """Train everything that had learned from some tasks, without them.

    Parameters
    ----------
    store, runner
        The run, and who works on it.
    configuration
        How it was fitted.
    before
        The summary of the version before.
    partition
        The cluster of every task; clusters stay as they are.
    gone
        The tasks.
    name
        The name of the removal, for the keys of units.
    progress
        Told how far it is.
    """
    later = {values["name"]: values for values in before.get(ADDED, []) if values["name"] not in gone}
    learned = {figures["task"] for figures in before["evaluation"]["tasks"]} - set(gone)
    kept = KeptTasks(store.folder).read(sorted(learned))
    tasks = kept.subset([one for one in kept.names if one not in later])
    labels: dict[str, int] | None = None
    if before["clusters"] is not None:
        labels = {one: partition.get(one, -1) for one in tasks.names}
    stages = Again(store.folder / STAGING, store, runner, configuration, progress=progress)
    stages.without = name
    encoder = stages.encode(kept)
    multitask = stages.learn_multitask(tasks, encoder, labels)
    fewshot = stages.learn_fewshot(tasks, encoder, labels)
    evaluation = stages.evaluate(tasks, encoder, labels, multitask)
    joined = join_later(kept.subset(sorted(later)), later, multitask, encoder, stages, name)
    return Retrained(
        multitask,
        fewshot,
        evaluation,
        stages.doubts,
        joined,
        (name, stages.name("multitask", labels), stages.name("fewshot", labels)),
    )


def join_later(
    tasks: TaskSet,
    later: Mapping[str, Mapping[str, Any]],
    multitask: ClusterMultiTask,
    encoder: Encoder,
    stages: Stages,
    name: str,
) -> dict[str, Joined]:
    """Let the tasks that came later join the new models."""
    if not len(tasks):
        return {}
    with stages.stage("add") as progress:
        return join_all(
            tasks,
            {one: int(later[one]["cluster"]) for one in tasks.names},
            multitask,
            encoder,
            n_folds=stages.configuration.n_folds,
            runner=stages.runner.with_prefix(name, cost_stage="add"),
            progress=progress,
        )

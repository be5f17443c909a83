"""The stages of a fit, one after the other: encode, transfer, cluster, multitask, fewshot, evaluate.

Each stage calls what a user of the library would call, with the runner of the run. What a stage depends on
is in the names of its units, so a stage whose inputs have changed starts anew and all others find their
results.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from robusttc.clustering import StopRule
from robusttc.data import TaskSet
from robusttc.encoders import DenseInputs, Encoder, distinct_texts, encode_with, make_encoder
from robusttc.errors import DataError, DoubtWarning, StoreError, WorkError
from robusttc.fewshot import ClusterFewShot
from robusttc.jobs import Runner
from robusttc.models import fine_tune_on_tasks, name_as_text
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import Progress, ProgressEvent, report
from robusttc.run.comparing import compare_models
from robusttc.run.evaluation import Evaluation
from robusttc.run.grouping import Groups, find_groups
from robusttc.run.naming import digest_values
from robusttc.run.places import FEWSHOT, MULTITASK
from robusttc.run.settings import FitSettings
from robusttc.run.store import RunStore
from robusttc.transfer import TransferScores, count_entries, measure_transfer

__all__ = ["STAGES", "Outcome", "Stages"]

STAGES = ("encode", "transfer", "cluster", "multitask", "fewshot", "evaluate")
# Stages whose units depend on each other: once one of them is tried again, all of the stage are.
ENTANGLED = ("multitask", "fewshot")
# So many texts are encoded sooner than a worker has loaded a sentence model.
FEW_TEXTS = 2000
Model = TypeVar("Model")


@dataclass(slots=True, eq=False)
class Outcome:
    """What the stages give.

    Attributes
    ----------
    scores, groups
        The transfer scores and the clusters; None with fewer than two tasks that may share, or where they
        were tried in vain.
    multitask, fewshot
        What was trained; None for few-shot learning where there is nothing to learn from.
    evaluation
        What the test rows say.
    doubts
        What makes the result doubtful, a sentence each.
    stopped_early
        Where measuring stopped before all planned scores: their numbers, and a sentence; else None.
    """

    scores: TransferScores | None
    groups: Groups | None
    multitask: ClusterMultiTask
    fewshot: ClusterFewShot | None
    evaluation: Evaluation
    doubts: list[str] = field(default_factory=list)
    stopped_early: dict[str, Any] | None = None


class Stages:
    """Does the stages of one run.

    Parameters
    ----------
    folder
        The run's folder.
    store
        What is finished, and where times are noted.
    runner
        Who does units of work.
    configuration
        What the results depend on.
    progress
        Told of every stage.
    """

    def __init__(
        self,
        folder: Path,
        store: RunStore,
        runner: Runner,
        configuration: FitSettings,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.folder = folder
        self.store = store
        self.runner = runner
        self.configuration = configuration
        self.progress = progress
        self.doubts: list[str] = []
        self.stopped_early: dict[str, Any] | None = None

    def run(self, tasks: TaskSet) -> Outcome:
        """Do all stages; what is finished is not done again."""
        encoder = self.encode(tasks)
        scores = self.measure(tasks, encoder)
        groups = None if scores is None else self.cluster(tasks, encoder, scores)
        labels = None
        if groups is not None:
            # Tasks that may not share have no scores, and no cluster.
            labels = {name: groups.by_name.get(name, -1) for name in tasks.names}
        multitask = self.learn_multitask(tasks, encoder, labels)
        fewshot = self.learn_fewshot(tasks, encoder, labels)
        evaluation = self.evaluate(tasks, encoder, labels, multitask)
        self.doubt_clusters(groups, multitask, fewshot)
        return Outcome(scores, groups, multitask, fewshot, evaluation, self.doubts, self.stopped_early)

    def encode(self, tasks: TaskSet) -> Encoder:
        """Give the encoder, with the sentence vectors of all texts in its cache."""
        chosen = self.configuration
        encoder = make_encoder(
            chosen.encoder, vectors=chosen.vectors, model=chosen.model, device=chosen.device
        )
        with self.stage("encode") as progress:
            if encoder.keeps_vectors:
                encode_texts(self.runner, encoder, tasks, progress)
            if chosen.tune == "encoder" and len(tasks.shareable()):
                # It keeps itself, so the estimators find it; here it has a stage to show for it.
                tuned = fine_tune_on_tasks(
                    encoder,
                    tasks.shareable(),
                    seed=chosen.seed,
                    label_texts=name_as_text,
                    progress=progress,
                )
                encode_texts(self.runner, tuned, tasks, progress)
        return encoder

    def measure(self, tasks: TaskSet, encoder: Encoder) -> TransferScores | None:
        """Measure transfer between the tasks that may share."""
        shareable = tasks.shareable()
        if len(shareable) < 2:
            return None
        chosen, rule = self.configuration, StopRule()
        with self.stage("transfer") as progress:
            try:
                scores = measure_transfer(
                    shareable,
                    encoder=encoder,
                    pairs=chosen.pairs,
                    kind=chosen.kind,
                    stop=rule,
                    device=chosen.device,
                    random_state=chosen.seed,
                    progress=progress,
                    runner=self.runner,
                )
            except WorkError as error:
                self.doubts.append(f"Transfer could not be measured, so there are no clusters: {error}.")
                return None
        self.stopped_early = rule.summary(len(scores), count_entries(len(shareable), chosen.pairs))
        return scores

    def cluster(self, tasks: TaskSet, encoder: Encoder, scores: TransferScores) -> Groups | None:
        """Cluster the tasks that were measured."""
        with self.stage("cluster") as progress:
            groups = find_groups(
                scores,
                self.configuration,
                task_features=mean_vectors(tasks, encoder, scores.task_names),
                runner=self.runner,
                progress=progress,
            )
        if groups is None:
            self.doubts.append("The tasks could not be clustered, so there are no cluster models.")
        return groups

    def learn_multitask(
        self, tasks: TaskSet, encoder: Encoder, labels: dict[str, int] | None
    ) -> ClusterMultiTask:
        """Train own, shared and cluster models, and save what serves."""
        place = self.folder / MULTITASK
        with self.stage("multitask") as progress:
            if self.is_saved("multitask", labels):
                saved = load_or_remove(ClusterMultiTask.load, place)
                if saved is not None:
                    return saved
            estimator = make_multitask(self.configuration, encoder)
            estimator.fit(tasks, labels, progress=progress, runner=self.named("multitask", labels))
            estimator.save(place)
            self.note_saved("multitask", labels)
            return estimator

    def learn_fewshot(
        self, tasks: TaskSet, encoder: Encoder, labels: dict[str, int] | None
    ) -> ClusterFewShot | None:
        """Learn from all tasks how to learn a new one, and save that."""
        place, chosen = self.folder / FEWSHOT, self.configuration
        with self.stage("fewshot") as progress:
            if self.is_saved("fewshot", labels):
                saved = load_or_remove(ClusterFewShot.load, place)
                if saved is not None:
                    return saved
            estimator = ClusterFewShot(
                encoder,
                strategy=chosen.strategy,
                cluster_models=chosen.cluster_models,
                use_label_names=chosen.use_label_names,
                tune=tuning(chosen),
                refit=chosen.refit,
                random_state=chosen.seed,
            )
            try:
                estimator.fit(tasks, labels, progress=progress, runner=self.named("fewshot", labels))
            except (DataError, WorkError) as error:
                # A single private client, or one row a label: that is no reason to have no models at all.
                self.doubts.append(f"New tasks cannot be learned from few rows: {error}.")
                return None
            estimator.save(place)
            self.note_saved("fewshot", labels)
            return estimator

    def evaluate(
        self,
        tasks: TaskSet,
        encoder: Encoder,
        labels: dict[str, int] | None,
        multitask: ClusterMultiTask,
    ) -> Evaluation:
        """Ask all models about the test rows; those that do not serve are trained for the comparison."""
        with self.stage("evaluate") as progress:
            return compare_models(
                tasks,
                labels,
                multitask,
                lambda clusters: make_multitask(self.configuration, encoder, clusters=clusters),
                runner=self.runner,
                name=self.name("multitask", labels),
                progress=progress,
            )

    @contextmanager
    def stage(self, stage: str) -> Iterator[Progress | None]:
        """Note when a stage begins and ends, and what was doubtful in it; give its progress."""
        self.store.begin_stage(stage, 0)
        report(self.progress, stage, 0, 0, "units")  # it has begun; how much there is will be told
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DoubtWarning)
            yield in_stage(self.progress, stage)
        found = [str(one.message) for one in caught if issubclass(one.category, DoubtWarning)]
        self.doubts += [sentence for sentence in dict.fromkeys(found) if sentence not in self.doubts]
        for one in caught:
            if not issubclass(one.category, DoubtWarning):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        self.store.end_stage(stage)

    def doubt_clusters(
        self, groups: Groups | None, multitask: ClusterMultiTask, fewshot: ClusterFewShot | None
    ) -> None:
        """Report clusters that serve on a completion that did not converge."""
        serve = multitask.clusters_serve_ or (fewshot is not None and fewshot.clusters_serve_)
        if groups is not None and serve and not groups.certificate["converged"]:
            self.doubts.append(f"Of the clusters that serve: {groups.certificate['sentence']}")

    def name(self, stage: str, labels: dict[str, int] | None) -> str:
        """Name what a stage of learning depends on besides the run's identity."""
        return digest_values(labels, self.store.value(f"retried/{stage}", 0))

    def named(self, stage: str, labels: dict[str, int] | None) -> Runner:
        """Give the runner with that name in all keys."""
        return self.runner.with_prefix(self.name(stage, labels))

    def is_saved(self, stage: str, labels: dict[str, int] | None) -> bool:
        """Tell whether the model of a stage is on disk."""
        return bool(self.store.value(f"saved/{stage}") == self.name(stage, labels))

    def note_saved(self, stage: str, labels: dict[str, int] | None) -> None:
        """Note that the model of a stage is on disk."""
        self.store.set_value(f"saved/{stage}", self.name(stage, labels))


def load_or_remove(load: Callable[[Path], Model], place: Path) -> Model | None:
    """Give a saved model; one that is damaged is removed, since it can be made again from the store."""
    try:
        return load(place)
    except StoreError:
        shutil.rmtree(place, ignore_errors=True)
        return None


def tuning(chosen: FitSettings) -> Literal["encoder"] | None:
    """Give what estimators call `tune`."""
    return "encoder" if chosen.tune == "encoder" else None


def make_multitask(
    chosen: FitSettings, encoder: Encoder, *, clusters: Literal["auto", "always", "never"] | None = None
) -> ClusterMultiTask:
    """Make the estimator of a configuration; with `clusters`, one to compare with, which is not refitted."""
    return ClusterMultiTask(
        encoder,
        strategy=chosen.strategy,
        cluster_models=chosen.cluster_models if clusters is None else clusters,
        tune=tuning(chosen),
        refit=chosen.refit if clusters is None else "train" if chosen.refit == "train" else "valid",
        n_folds=chosen.n_folds,
        n_random=chosen.n_random,
        random_state=chosen.seed,
    )


def encode_texts(runner: Runner, encoder: Encoder, tasks: TaskSet, progress: Progress | None) -> None:
    """Compute the sentence vectors that are missing."""
    texts, _ = distinct_texts(tasks)
    if len(texts) <= FEW_TEXTS:
        encoder.prepare(tasks, progress=progress)
    else:
        encode_with(runner, encoder, texts, progress=progress)


def mean_vectors(tasks: TaskSet, encoder: Encoder, names: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the mean vector of each task's texts; None for an encoder that gives no vectors."""
    prepared = encoder.prepare(tasks.subset(names), splits=("train", "valid"))
    if not isinstance(prepared.inputs, DenseInputs):
        return None
    rows = [prepared.items_of(name, tasks[name].rows("train", "valid")) for name in names]
    return np.array([prepared.inputs.matrix[own].mean(axis=0, dtype=np.float64) for own in rows])


def in_stage(progress: Progress | None, stage: str) -> Progress | None:
    """Give a callback whose events are of this stage; what the library called it becomes the detail."""
    if progress is None:
        return None

    def tell(event: ProgressEvent) -> None:
        detail: Any = event.stage if event.stage != stage else event.detail
        progress(ProgressEvent(stage, event.done, event.total, event.unit, detail))

    return tell

"""The fit: encode, transfer, cluster, multitask, fewshot, evaluate, publish; top to bottom.

Each stage calls what a user of the library would call, with the runner of the run. What a stage depends on is
in the keys of its jobs, so a stage whose inputs have changed starts anew, and all others find their results:
a fit that was killed runs from its first line again, and is soon where it was.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.clustering import RobustTaskClustering, StopRule
from robusttc.data import TaskSet
from robusttc.encoders import DenseInputs, Encoder, distinct_texts, encode_with, make_encoder
from robusttc.errors import DataError, DoubtWarning, StoreError, WorkError
from robusttc.fewshot import ClusterFewShot
from robusttc.files import encode_json
from robusttc.formatting import count
from robusttc.jobs import Job, Result, Runner, Stopped, make_executor
from robusttc.models import fine_tune_on_tasks, name_as_text
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import Progress, ProgressEvent, ProgressOption, report, resolve_progress
from robusttc.run.evaluation import Evaluation, compare_models
from robusttc.run.folder import FolderWriter
from robusttc.run.inputs import (
    SortedTasks,
    identify,
    library_versions,
    refuse_difference,
    refuse_other,
    sort_tasks,
)
from robusttc.run.outputs import (
    CLUSTERS,
    FEWSHOT,
    MULTITASK,
    SCORES,
    SIMILARITY,
    SUMMARY,
    ClusterRow,
    Similarity,
    make_summary,
    pack_clusters,
    pack_similarity,
    pack_summary,
    similarity_of,
)
from robusttc.run.run import Run
from robusttc.run.settings import Execution, FitSettings, make_settings
from robusttc.run.store import JobStore, Quarantined
from robusttc.run.task_files import pack_task, task_file
from robusttc.run.version import Change, Version
from robusttc.transfer import TransferScores, count_entries, measure_transfer

__all__ = ["STAGES", "FitResult", "fit", "fit_run"]

STAGES = ("encode", "transfer", "cluster", "multitask", "fewshot", "evaluate")
# Stages whose jobs depend on each other: once one of them is tried again, all of the stage are.
ENTANGLED = ("multitask", "fewshot")
# So many texts are encoded sooner than a worker has loaded a sentence model.
FEW_TEXTS = 2000


@dataclass(frozen=True, slots=True, eq=False)
class FitResult:
    """What a fit leaves behind: the run, and whether it was finished before."""

    run: Run
    was_finished: bool


def fit(
    tasks: TaskSet,
    out: str | os.PathLike[str],
    *,
    settings: FitSettings | Mapping[str, Any] | None = None,
    execution: Execution | Mapping[str, Any] | None = None,
    retry: bool = False,
    progress: ProgressOption = True,
) -> Run:
    """Cluster tasks, train models on the clusters, and judge them, in a folder that remembers finished work.

    Calling it again with the same arguments goes on where it was stopped, or killed; the result depends on
    tasks and settings alone.

    Parameters
    ----------
    tasks
        The tasks. Those that cannot be learned are set aside, and named in the summary.
    out
        The folder of the run: new, empty, or that of the same run.
    settings
        What the result depends on, as `robusttc.run.FitSettings` or a mapping of some of its values; None
        takes the defaults.
    execution
        Where jobs run, and how many at a time, likewise: `robusttc.run.Execution`.
    retry
        Whether jobs that were given up before are tried again.
    progress
        True shows a bar, False nothing; a callback gets a `ProgressEvent` now and then.

    Returns
    -------
    Run
        The finished run.

    Raises
    ------
    UsageError
        If an argument cannot be used, the folder holds something else, or a run of something else.
    DataError
        If no task can be learned.
    StoreError
        If the run is damaged, another process works on it, or the disk is full.
    """
    return fit_run(
        out,
        tasks,
        make_settings(FitSettings, settings),
        execution=make_settings(Execution, execution),
        retry=retry,
        progress=resolve_progress(progress),
    ).run


def fit_run(
    folder: str | os.PathLike[str],
    tasks: TaskSet,
    settings: FitSettings,
    *,
    execution: Execution | None = None,
    retry: bool = False,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> FitResult:
    """Fit as `fit` does, and say whether there was anything to do.

    `stop` is asked now and then; once it says True, jobs under way are dropped and `Stopped` is raised.
    """
    found = sort_tasks(tasks, settings)
    given = tasks.keep_private(settings.private)
    identity, libraries = identify(given, settings), library_versions()
    with FolderWriter(folder, create=True) as writer:
        current = writer.current() if writer.numbers() else None
        if current is not None:
            refuse_other(current, identity, libraries)
            if not retry and is_whole(current):
                return FitResult(Run(folder), was_finished=True)
            refuse_changed(current)
        store = writer.jobs(reuse=retry)
        begun = store.fact("identity")
        if begun is not None:
            refuse_difference(begun["identity"], identity, begun["libraries"], libraries, where=writer.path)
        store.set_fact("identity", {"identity": identity, "libraries": libraries})
        if retry:
            release(store)
        with make_runner(store, execution or Execution(), stop=stop) as runner:
            context = FitContext(store, runner, settings, stop_in(progress, stop))
            outcome = run_stages(context, found.tasks)
        publish(writer, given, found, settings, outcome, identity, libraries)
    return FitResult(Run(folder), was_finished=False)


@contextmanager
def make_runner(store: JobStore, execution: Execution, *, stop: Callable[[], bool]) -> Iterator[Runner]:
    """Yield a runner that keeps results in the store; its workers end with the block."""
    # Unless a number was asked for, Ray decides how many jobs run at a time.
    is_given = execution.executor == "local" or "workers" in execution.model_fields_set
    executor = make_executor(execution.executor, n_workers=execution.workers if is_given else None)
    with Runner(executor, store, stop=stop) as runner:
        yield runner


def is_whole(version: Version) -> bool:
    """Tell whether all files of a version are as they were written."""
    try:
        version.check()
    except StoreError:
        return False
    return True


def refuse_changed(current: Version) -> None:
    """Refuse to fit anew where that would lose what came after the fit."""
    if current.change.kind != "fit":
        raise StoreError(
            "a fit would lose what came after it",
            where=repr(str(current.folder.parent.parent)),
            got=current.change.sentence,
            todo="bring the run back from a copy, or fit in another folder",
        )


def release(store: JobStore) -> None:
    """Have everything that was given up tried again, with what depends on it."""
    stages = {job.stage for job in store.quarantined()}
    for stage in ENTANGLED:
        if stage in stages:
            store.set_fact(f"retried/{stage}", store.fact(f"retried/{stage}", 0) + 1)
    store.release()


# The stages.


@dataclass(slots=True, eq=False)
class FitContext:
    """What all stages need: where work is kept and done, the settings, and what was doubtful so far."""

    store: JobStore
    runner: Runner
    settings: FitSettings
    progress: Progress | None = None
    doubts: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: str) -> Iterator[Progress | None]:
        """Time a stage, note what was doubtful in it, and yield its progress."""
        report(self.progress, stage, 0, 0, "jobs")  # it has begun; how much there is will be told
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DoubtWarning)
            with self.store.timed(stage):
                yield in_stage(self.progress, stage)
        found = [str(one.message) for one in caught if issubclass(one.category, DoubtWarning)]
        self.doubts += [sentence for sentence in dict.fromkeys(found) if sentence not in self.doubts]
        for one in caught:
            if not issubclass(one.category, DoubtWarning):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)

    def prefix(self, stage: str, labels: Mapping[str, int] | None) -> str:
        """Return what a stage of learning depends on besides the inputs of the run, as a part of its keys."""
        values = encode_json([labels, self.store.fact(f"retried/{stage}", 0)], where=stage)
        return hashlib.sha256(values.encode()).hexdigest()[:12]


@dataclass(slots=True, eq=False)
class Outcome:
    """What the stages give.

    Attributes
    ----------
    scores, clustering
        The transfer scores and the clusters; None with fewer than two tasks that may share, or where they
        were tried in vain.
    multitask, fewshot
        The models; None for few-shot learning where there is nothing to learn from.
    evaluation
        What the test rows say.
    doubts
        What makes the result doubtful, a sentence each.
    stopped_early
        Where measuring stopped before all planned scores: their numbers, and a sentence; else None.
    """

    scores: TransferScores | None
    clustering: Clustering | None
    multitask: ClusterMultiTask
    fewshot: ClusterFewShot | None
    evaluation: Evaluation
    doubts: list[str]
    stopped_early: dict[str, Any] | None = None


def run_stages(context: FitContext, tasks: TaskSet) -> Outcome:
    """Do all stages; what is finished is not done again."""
    encoder = encode_tasks(context, tasks)
    scores, stopped_early = measure(context, tasks, encoder)
    clustering = None if scores is None else find_clusters(context, tasks, encoder, scores)
    # Tasks that may not share have no scores, and no cluster.
    labels = None if clustering is None else {name: clustering.by_name.get(name, -1) for name in tasks.names}
    multitask = fit_multitask(context, tasks, encoder, labels)
    fewshot = fit_fewshot(context, tasks, encoder, labels)
    evaluation = evaluate(context, tasks, encoder, labels, multitask)
    serve = multitask.clusters_serve_ or (fewshot is not None and fewshot.clusters_serve_)
    if clustering is not None and serve and not clustering.certificate["converged"]:
        context.doubts.append(f"Of the clusters that serve: {clustering.certificate['sentence']}")
    return Outcome(scores, clustering, multitask, fewshot, evaluation, context.doubts, stopped_early)


def encode_tasks(context: FitContext, tasks: TaskSet) -> Encoder:
    """Return the encoder, with the vectors of all texts in its cache."""
    settings, shared = context.settings, tasks.shareable()
    encoder = make_encoder(
        settings.encoder, vectors=settings.vectors, model=settings.model, device=settings.device
    )
    with context.stage("encode") as progress:
        if encoder.keeps_vectors:
            encode_texts(context.runner, encoder, tasks, progress)
        if settings.tune == "encoder" and len(shared):
            # It keeps itself, so the estimators find it; here it has a stage to show for it.
            tuned = fine_tune_on_tasks(
                encoder, shared, seed=settings.seed, label_texts=name_as_text, progress=progress
            )
            encode_texts(context.runner, tuned, tasks, progress)
    return encoder


def encode_texts(runner: Runner, encoder: Encoder, tasks: TaskSet, progress: Progress | None) -> None:
    """Compute the vectors that are missing."""
    texts, _ = distinct_texts(tasks)
    if len(texts) <= FEW_TEXTS:
        encoder.prepare(tasks, progress=progress)
    else:
        encode_with(runner, encoder, texts, progress=progress)


def measure(
    context: FitContext, tasks: TaskSet, encoder: Encoder
) -> tuple[TransferScores | None, dict[str, Any] | None]:
    """Measure transfer between the tasks that may share; also say where measuring stopped early."""
    shared, settings, rule = tasks.shareable(), context.settings, StopRule()
    if len(shared) < 2:
        return None, None
    with context.stage("transfer") as progress:
        try:
            scores = measure_transfer(
                shared,
                encoder=encoder,
                pairs=settings.pairs,
                kind=settings.kind,
                stop=rule,
                device=settings.device,
                random_state=settings.seed,
                progress=progress,
                runner=context.runner,
            )
        except WorkError as error:
            context.doubts.append(f"Transfer could not be measured, so there are no clusters: {error}.")
            return None, None
    return scores, rule.summary(len(scores), count_entries(len(shared), settings.pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """The clusters of the tasks that were measured.

    Attributes
    ----------
    labels, confidence
        The cluster of each task of `similarity`, -1 for none, and its posterior probability.
    n_clusters, reason
        How many there are, and why.
    certificate, verdict
        What is proven of the completion, and whether held-out pairs support the clusters, as values for JSON.
    similarity
        The matrices behind it.
    """

    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    n_clusters: int
    reason: str
    certificate: Mapping[str, Any]
    verdict: Mapping[str, Any]
    similarity: Similarity

    @property
    def by_name(self) -> dict[str, int]:
        """The cluster of each task."""
        return dict(zip(self.similarity.task_names, self.labels.tolist(), strict=True))


def find_clusters(
    context: FitContext, tasks: TaskSet, encoder: Encoder, scores: TransferScores
) -> Clustering | None:
    """Cluster the tasks that were measured, in one job; None where that was tried in vain."""
    settings = context.settings
    parameters = {
        "n_clusters": settings.clusters,
        "strategy": "paper" if settings.strategy == "paper" else "default",
        "rule": settings.rule,
        "random_state": settings.seed,
    }
    # Scores that are there after jobs were tried again make another clustering, with a key of its own.
    job = Job(f"cluster/{scores.content_hash[:16]}", cluster_job, parameters)
    with context.stage("cluster") as progress:
        shared = context.runner.share((scores, mean_vectors(tasks, encoder, scores.task_names)))
        try:
            (result,) = context.runner.run("cluster", [job], shared, progress=progress, unit="clusterings")
        finally:
            context.runner.release(shared)
    if result is None:
        context.doubts.append("The tasks could not be clustered, so there are no cluster models.")
        return None
    return Clustering(
        result.arrays["labels"],
        result.arrays["confidence"],
        **result.values,
        similarity=Similarity.from_arrays(scores.task_names, result.arrays),
    )


def cluster_job(
    shared: tuple[TransferScores, NDArray[np.float64] | None], parameters: Mapping[str, Any]
) -> Result:
    """Cluster the tasks of some scores, with mean vectors of their texts as side information."""
    scores, task_features = shared
    estimator = RobustTaskClustering(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)  # what is doubtful is part of the certificate
        estimator.fit(scores, task_features=task_features)
    return Result(
        {
            "n_clusters": int(estimator.n_clusters_),
            "reason": estimator.n_clusters_reason_,
            "certificate": estimator.certificate_.as_dict(),
            "verdict": estimator.verdict_.as_dict(),
        },
        {
            "labels": estimator.labels_.astype(np.int64),
            "confidence": estimator.confidence_.astype(np.float64),
            **similarity_of(estimator).arrays(),
        },
    )


def mean_vectors(tasks: TaskSet, encoder: Encoder, names: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the mean vector of each task's texts; None for an encoder that gives no vectors."""
    prepared = encoder.prepare(tasks.subset(names), splits=("train", "valid"))
    if not isinstance(prepared.inputs, DenseInputs):
        return None
    rows = [prepared.items_of(name, tasks[name].rows("train", "valid")) for name in names]
    return np.array([prepared.inputs.matrix[own].mean(axis=0, dtype=np.float64) for own in rows])


def fit_multitask(
    context: FitContext, tasks: TaskSet, encoder: Encoder, labels: Mapping[str, int] | None
) -> ClusterMultiTask:
    """Train single-task, shared and cluster models, and decide what serves."""
    runner = context.runner.with_prefix(context.prefix("multitask", labels))
    with context.stage("multitask") as progress:
        return make_multitask(context.settings, encoder).fit(tasks, labels, progress=progress, runner=runner)


def make_multitask(
    settings: FitSettings, encoder: Encoder, *, clusters: Literal["auto", "always", "never"] | None = None
) -> ClusterMultiTask:
    """Return the estimator of the settings; with `clusters`, one to compare with, which is not refitted."""
    return ClusterMultiTask(
        encoder,
        strategy=settings.strategy,
        cluster_models=settings.cluster_models if clusters is None else clusters,
        tune=tuning(settings),
        refit=settings.refit if clusters is None else "train" if settings.refit == "train" else "valid",
        n_folds=settings.n_folds,
        n_random=settings.n_random,
        random_state=settings.seed,
    )


def tuning(settings: FitSettings) -> Literal["encoder"] | None:
    """Return what estimators call `tune`."""
    return "encoder" if settings.tune == "encoder" else None


def fit_fewshot(
    context: FitContext, tasks: TaskSet, encoder: Encoder, labels: Mapping[str, int] | None
) -> ClusterFewShot | None:
    """Train metrics on all tasks by which a new one is learned; None where there is nothing to learn from."""
    settings = context.settings
    estimator = ClusterFewShot(
        encoder,
        strategy=settings.strategy,
        cluster_models=settings.cluster_models,
        use_label_names=settings.use_label_names,
        tune=tuning(settings),
        refit=settings.refit,
        random_state=settings.seed,
    )
    runner = context.runner.with_prefix(context.prefix("fewshot", labels))
    with context.stage("fewshot") as progress:
        try:
            return estimator.fit(tasks, labels, progress=progress, runner=runner)
        except (DataError, WorkError) as error:
            # A single private client, or one row a label: that is no reason to have no models at all.
            context.doubts.append(f"New tasks cannot be learned from few rows: {error}.")
            return None


def evaluate(
    context: FitContext,
    tasks: TaskSet,
    encoder: Encoder,
    labels: Mapping[str, int] | None,
    multitask: ClusterMultiTask,
) -> Evaluation:
    """Judge all models on the test rows; those that do not serve are trained for the comparison."""
    with context.stage("evaluate") as progress:
        return compare_models(
            tasks,
            None if labels is None else dict(labels),
            multitask,
            lambda clusters: make_multitask(context.settings, encoder, clusters=clusters),
            runner=context.runner,
            name=context.prefix("multitask", labels),
            progress=progress,
        )


def publish(
    writer: FolderWriter,
    tasks: TaskSet,
    found: SortedTasks,
    settings: FitSettings,
    outcome: Outcome,
    identity: Mapping[str, Any],
    libraries: Mapping[str, str],
) -> Version:
    """Write the files of a fit, and make them the version that answers."""
    store = writer.jobs()
    failed, costs = store.quarantined(), store.costs()
    aside = [Quarantined("read", f"read/{name}", why, (name,)) for name, why in found.set_aside.items()]
    left_out = sorted([*aside, *failed], key=lambda job: (job.stage, job.key))
    staging = writer.begin()
    outcome.multitask.save(staging / MULTITASK)
    if outcome.fewshot is not None:
        outcome.fewshot.save(staging / FEWSHOT)
    if outcome.scores is not None:
        outcome.scores.write_csv(staging / SCORES, owner_only=True)
    if outcome.clustering is not None:
        writer.write(SIMILARITY, pack_similarity(outcome.clustering.similarity))
    for task in tasks:
        writer.write(task_file(task.name), pack_task(task))
    writer.write(CLUSTERS, pack_clusters(cluster_rows(tasks, found, outcome, left_out)))
    writer.write(SUMMARY, pack_summary(make_summary(tasks, settings, outcome, left_out)))
    n_clusters = 0 if outcome.clustering is None else outcome.clustering.n_clusters
    sentence = f"The fit, of {count(len(tasks), 'task')} in {count(n_clusters, 'cluster')}."
    seconds = sum(cost.wall_seconds for cost in costs)
    details = {"costs": [asdict(cost) for cost in costs]}
    change = Change("fit", (), sentence, seconds, details=details)
    # Jobs that failed may be tried again, which must not cost those that did not.
    return writer.publish(change, identity=identity, libraries=libraries, keep_jobs=bool(failed))


def cluster_rows(
    tasks: TaskSet, found: SortedTasks, outcome: Outcome, left_out: Sequence[Quarantined]
) -> list[ClusterRow]:
    """Return the lines of the file of clusters."""
    reasons: dict[str, list[str]] = {}
    for job in left_out:
        for name in job.tasks if len(job.tasks) == 1 else ():
            reasons.setdefault(name, []).append(f"{job.stage}: {job.error}")
    clustering = outcome.clustering
    labels = {} if clustering is None else clustering.by_name
    confidence = {} if clustering is None else dict(zip(labels, clustering.confidence.tolist(), strict=True))
    return [
        ClusterRow(
            task.name,
            labels.get(task.name, -1),
            confidence.get(task.name),
            not task.may_share,
            task.name not in found.set_aside,
            "; ".join(reasons.get(task.name, [])),
        )
        for task in tasks
    ]


def in_stage(progress: Progress | None, stage: str) -> Progress | None:
    """Return a callback whose events are of this stage; what the library called it becomes the detail."""
    if progress is None:
        return None

    def tell(event: ProgressEvent) -> None:
        detail = event.stage if event.stage != stage else event.detail
        progress(ProgressEvent(stage, event.done, event.total, event.unit, detail))

    return tell


def stop_in(progress: Progress | None, stop: Callable[[], bool]) -> Progress:
    """Return a callback that also ends work in this very process, once it is to stop."""

    def tell(event: ProgressEvent) -> None:
        if stop():
            raise Stopped
        if progress is not None:
            progress(event)

    return tell

"""Remove: tasks out of a finished run. What learned from them is trained again, and nothing of them stays.

Only the history keeps their names. What others have learned is decided from the version that answers, before
anything is done, and is a part of the next version: it is the same after any kill.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from robusttc.data import Task, TaskSet
from robusttc.encoders import VectorCache, default_cache_folder
from robusttc.errors import UnknownTaskError, UsageError, quote
from robusttc.fewshot import ClusterFewShot, FewShotModel
from robusttc.formatting import count
from robusttc.multitask import ClusterMultiTask, load_added, save_added
from robusttc.progress import Progress
from robusttc.run.evaluation import TaskFigures
from robusttc.run.fit import FitContext, encode_tasks, evaluate, fit_fewshot, fit_multitask
from robusttc.run.folder import FolderWriter
from robusttc.run.outputs import (
    CLUSTERS,
    FEWSHOT,
    MULTITASK,
    RETIRED,
    SCORES,
    SIMILARITY,
    SUMMARY,
    AddedTask,
    Similarity,
    describe_fewshot,
    describe_multitask,
    pack_clusters,
    pack_similarity,
    pack_summary,
)
from robusttc.run.predict import TaskPredictor
from robusttc.run.run import Run, added_model_folder
from robusttc.run.settings import Execution
from robusttc.run.task_files import adapted_files, pack_adapted, pack_names, read_examples, task_file
from robusttc.run.updates.new_heads import NewHead, train_new_heads
from robusttc.run.updates.next_version import (
    Flip,
    Judgement,
    Limits,
    Update,
    count_clusters,
    judge_version,
    list_names,
    must_pass_file,
    refuse_pending,
    with_figures,
)
from robusttc.run.version import Change

__all__ = ["RemovalPlan", "RemoveResult", "plan_removal", "remove_tasks", "retire_tasks"]

# The stages that are done again.
RETRAINED = ("multitask", "fewshot", "evaluate")
ANONYMOUS = "a removed task"


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What the removal of tasks means.

    Attributes
    ----------
    learned_from
        Those of the tasks that others learned from at the fit: their influence is trained away.
    in_models
        Those of the fit that nobody learned from: their parts of the models go.
    others
        Tasks that came later, or were set aside: nobody else is touched.
    retrains
        What is trained again, a phrase each; empty where nobody learned from the tasks.
    seconds
        About how long that takes, by what the fit took.
    """

    learned_from: tuple[str, ...]
    in_models: tuple[str, ...]
    others: tuple[str, ...]
    retrains: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class RemoveResult:
    """What a removal leaves behind.

    Attributes
    ----------
    folder, version
        The run's folder, and its version now.
    tasks
        The tasks that are gone.
    plan
        What had learned from them.
    flips
        Held-out texts of other tasks that are labelled otherwise now.
    sentences
        What changed, in plain words.
    doubts
        What makes the models that were trained again doubtful.
    """

    folder: Path
    version: int
    tasks: tuple[str, ...]
    plan: RemovalPlan
    flips: tuple[Flip, ...]
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]


def retire_tasks(run: Run, names: Iterable[str]) -> None:
    """Let tasks answer no longer, at once: the next version says so, and `remove_tasks` does the rest.

    Raises
    ------
    UnknownTaskError, UsageError, StoreError
        As `remove_tasks`.
    """
    with FolderWriter(run.folder) as writer:
        refuse_pending(writer)
        run.reload()
        wanted = sorted(set(names))
        plan_removal(run, wanted)
        base = run.version
        summary = {key: value for key, value in run.summary.items() if key != "costs"}
        writer.begin(base)
        writer.write(SUMMARY, pack_summary({**summary, RETIRED: sorted({*run.retired, *wanted})}))
        change = Change("retire", tuple(wanted), f"{list_names(wanted)}: no longer served.")
        writer.publish(change, identity=base.identity, libraries=base.libraries)
    run.reload()


def plan_removal(run: Run, names: Iterable[str]) -> RemovalPlan:
    """Return what a removal means, before anything is done; for errors see `remove_tasks`."""
    wanted = tuple(sorted(set(names)))
    rows = run.cluster_rows
    if is_done(run, wanted):
        return RemovalPlan((), (), wanted, (), 0.0)
    for name in wanted:
        if name not in rows and name not in run.adapted_names:
            raise UnknownTaskError(name, [*rows, *run.adapted_names])
    if not wanted:
        raise UsageError("there is nothing to remove", expected="names of tasks")
    of_fit = {name for name, row in rows.items() if row.learned} - run.added.keys()
    if of_fit <= set(wanted):
        raise UsageError(
            "the last task of the fit cannot be removed: what came later stands on its models",
            where=repr(str(run.folder)),
            got=list_names(wanted),
            todo="delete the folder of the run",
        )
    learned_from = tuple(name for name in wanted if name in of_fit and not rows[name].private)
    in_models = tuple(name for name in wanted if name in of_fit and rows[name].private)
    others = tuple(name for name in wanted if name not in of_fit)
    if not learned_from:
        return RemovalPlan((), in_models, others, (), 0.0)
    seconds = sum(cost["wall_seconds"] for cost in run.costs if cost["stage"] in RETRAINED)
    return RemovalPlan(learned_from, in_models, others, list_retrained(run, learned_from, wanted), seconds)


def list_retrained(run: Run, learned_from: Iterable[str], gone: Iterable[str]) -> tuple[str, ...]:
    """Say what is trained again, a phrase each."""
    phrases = ["the model of all tasks", "own models, weights, temperatures and the out-of-scope score"]
    numbers = sorted({run.clusters[name] for name in learned_from} - {-1})
    if numbers and run.summary["multitask"]["clusters_serve"]:
        listed = ", ".join(map(str, numbers))
        phrases.insert(1, f"the model of cluster {listed}, and those of all clusters that start from it")
    if run.summary["fewshot"] is not None:
        phrases.append("what learns new tasks from a handful of examples")
    sharing = {name for name, one in run.added.items() if one.shares} - set(gone)
    if sharing:
        phrases.append(f"classifiers of {count(len(sharing), 'task')} that came later")
    adapted = set(run.adapted_names) - set(gone)
    if adapted:
        phrases.append(f"{count(len(adapted), 'task')} made by robusttc adapt, from their examples")
    return tuple(phrases)


def is_done(run: Run, names: tuple[str, ...]) -> bool:
    """Tell whether the version that answers is the removal of these tasks.

    Killed while older versions are erased, the same command finishes that: it opens the folder for writing.
    """
    change = run.version.change
    return change.kind == "remove" and change.tasks == names and not set(names) & set(run.adapted_names)


def remove_tasks(
    folder: str | os.PathLike[str],
    names: Sequence[str],
    *,
    limits: Limits | None = None,
    execution: Execution | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> RemoveResult:
    """Remove tasks from a finished run.

    Of a task that came later its models, scores and texts go, and nobody else is touched. What a task of the
    fit has influenced is trained again from the tasks that the run keeps: the model of all tasks, those of
    clusters, weights, and what learns new tasks; clusters and the scores of others stay. Older versions go,
    since they hold its texts, figures and labels, and so do the vectors of its texts in the encoder's cache.

    Parameters
    ----------
    folder
        The folder of a finished run.
    names
        The tasks: of the fit, added, adapted, private or set aside.
    limits
        What the next version must not break.
    execution
        Where jobs run; None runs them in this process.
    progress
        Called now and then with how far it is.
    stop
        Asked now and then; once it says True, work under way is dropped and `Stopped` is raised.

    Raises
    ------
    UnknownTaskError
        If the run has no such task.
    UsageError
        If no task would be left, or another change of the run is under way.
    VersionRefusedError
        If the next version breaks a limit.
    StoreError
        If the run is damaged, or another process works on it.
    """
    with Update.begin(folder) as update:
        plan = plan_removal(update.run, names)
        if is_done(update.run, plan.others):
            sentences = tuple(update.run.version.change.details["sentences"])
            number = update.run.version.number
            return RemoveResult(update.run.folder, number, plan.others, plan, (), sentences, ())
        gone = {*plan.learned_from, *plan.in_models, *plan.others}
        update.claim("remove", dict.fromkeys(sorted(gone), ""))
        again = Retrained()
        if plan.retrains:
            with update.working(execution, progress, stop) as context:
                again = retrain(context, update, gone)
        judgement = judge_version(update.run, again.predictors(update.run), limits or Limits(), gone=gone)
        return publish(update, plan, gone, again, judgement)


@dataclass(slots=True, eq=False)
class Retrained:
    """What was trained again; nothing where nobody had learned from the tasks."""

    multitask: ClusterMultiTask | None = None
    fewshot: ClusterFewShot | None = None
    figures: list[TaskFigures] = field(default_factory=list)
    heads: dict[str, NewHead] = field(default_factory=dict)  # of the tasks that came later
    adapted: dict[str, tuple[FewShotModel, Task]] = field(default_factory=dict)

    def predictors(self, run: Run) -> dict[str, TaskPredictor]:
        """Return what predicts for all tasks that were trained again."""
        models = {name: head.model for name, head in self.heads.items()}
        if self.multitask is not None:
            models |= dict.fromkeys(self.multitask.task_names_, self.multitask)
        found = {
            name: TaskPredictor.of_model(model, name, reader(run, name)) for name, model in models.items()
        }
        return found | {name: TaskPredictor.of_adapted(model) for name, (model, _) in self.adapted.items()}


def reader(run: Run, name: str) -> Callable[[], Task]:
    """Return what reads the rows of a task."""
    return lambda: run.rows_of(name)


def retrain(context: FitContext, update: Update, gone: set[str]) -> Retrained:
    """Train everything that had learned from some tasks, without them; clusters stay as they are."""
    run = update.run
    learned = [name for name, row in run.cluster_rows.items() if row.learned and name not in gone]
    kept = TaskSet(run.rows_of(name) for name in sorted(learned))
    later = sorted(run.added.keys() - gone)
    tasks = kept.subset([name for name in kept.names if name not in run.added])
    labels = None
    if run.summary["clusters"] is not None:
        labels = {name: run.clusters.get(name, -1) for name in tasks.names}
    encoder = encode_tasks(context, kept)
    multitask = fit_multitask(context, tasks, encoder, labels)
    fewshot = fit_fewshot(context, tasks, encoder, labels)
    evaluation = evaluate(context, tasks, encoder, labels, multitask)
    heads: dict[str, NewHead] = {}
    if later:
        with context.stage("add") as tell:
            heads = train_new_heads(
                kept.subset(later),
                {name: run.added[name].cluster for name in later},
                multitask,
                encoder,
                n_folds=context.settings.n_folds,
                runner=context.runner.with_prefix("retrained", cost_stage="add"),
                progress=tell,
            )
    adapted = {}
    for name in sorted(set(run.adapted_names) - gone):
        if fewshot is None:
            raise UsageError(
                "without this task nothing could learn from a handful of examples",
                got=f"{quote(name)}, made by robusttc adapt",
                todo="remove the tasks that adapt made too, or keep this one",
            )
        examples = read_examples(run.version, name)
        adapted[name] = (fewshot.adapt(examples), examples)
    return Retrained(multitask, fewshot, list(evaluation.tasks), heads, adapted)


def publish(
    update: Update, plan: RemovalPlan, gone: set[str], again: Retrained, judgement: Judgement
) -> RemoveResult:
    """Write the files of the next version without some tasks, and let it answer."""
    writer, run = update.writer, update.run
    erase_vectors(run, gone)  # while their texts are there; a vector that somebody needs is computed again
    staging = writer.begin(run.version)
    files = [file for name in sorted(gone) for file in files_of(run, name)]
    writer.remove(files)
    write_models(update, plan, gone, again)
    if set(run.adapted_names) & gone:
        for file, content in pack_names(sorted(set(run.adapted_names) - gone)).items():
            writer.write(file, content)
    if run.similarity is not None:
        writer.write(SIMILARITY, pack_similarity(without_tasks(run.similarity, gone)))
    scores = run.scores
    if scores is not None:
        scores = scores.subset([name for name in scores.task_names if name not in gone])
        if len(scores):
            scores.write_csv(staging / SCORES, owner_only=True)
        else:
            writer.remove([SCORES])
    rows = [row for name, row in run.cluster_rows.items() if name not in gone]
    summary = summarise(update, gone, again)
    summary["clusters"] = count_clusters(summary, rows)
    if summary["transfer"] is not None:
        n_scores = 0 if scores is None else len(scores)
        summary["transfer"] = {**summary["transfer"], "n_scores": n_scores} if n_scores else None
    writer.write(CLUSTERS, pack_clusters(rows))
    writer.write(SUMMARY, pack_summary(summary))
    sentences = describe_removal(run, plan, gone)
    details = {
        "learned_from": list(plan.learned_from),
        "retrained": list(plan.retrains),
        "sentences": list(sentences),
    }
    change = Change("remove", tuple(sorted(gone)), sentences[0], details=details)
    # Of tasks that nobody learned from, older versions have their own files and no more.
    drop_older = not gone <= set(run.adapted_names)
    identity = update.identity({}, gone=gone)
    version = update.publish(change, judgement, identity, erase=files, drop_older=drop_older)
    names = tuple(sorted(gone))
    return RemoveResult(
        run.folder, version.number, names, plan, judgement.flips, sentences, tuple(update.doubts)
    )


def files_of(run: Run, name: str) -> list[str]:
    """Return the files of a version that are a task's alone."""
    own = [task_file(name), must_pass_file(name), *adapted_files(name)]
    return [*own, *run.version.names(added_model_folder(name))]


def write_models(update: Update, plan: RemovalPlan, gone: set[str], again: Retrained) -> None:
    """Write the models that are others than before, and those that stand on them."""
    run, writer = update.run, update.writer
    multitask = again.multitask
    if multitask is None and plan.in_models:
        multitask = run.multitask.without_tasks(plan.in_models)
    if multitask is None:
        return
    folder = update.save_folder(MULTITASK, multitask.save)
    base = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    for name in sorted(run.added.keys() - gone):
        # Those that were not trained again stand on the same layers as before, by another name.
        head = again.heads.get(name)
        place = added_model_folder(name)
        parts = load_added(run.path(place), base=None) if head is None else head.parts
        update.save_folder(place, partial(save_added, parts, base=base))
    if again.multitask is None:
        return
    fewshot = again.fewshot
    update.save_folder(FEWSHOT, (lambda _: None) if fewshot is None else fewshot.save)
    for model, examples in again.adapted.values():
        for file, content in pack_adapted(model, examples).items():
            writer.write(file, content)


def summarise(update: Update, gone: set[str], again: Retrained) -> dict[str, Any]:
    """Return the summary without some tasks: their entries, and their names in sentences."""
    run = update.run
    before = {key: value for key, value in run.summary.items() if key not in {"costs", RETIRED}}
    rows = {name: row for name, row in run.cluster_rows.items() if name not in gone}
    figures = [*again.figures, *(head.figures for head in again.heads.values())]
    n_rows = sum(len(run.rows_of(name)) for name in gone if name in run.cluster_rows)
    private = [name for name in before["configuration"]["private"] if name not in gone]
    jobs = [
        {**job, "tasks": left, "error": anonymise(job["error"], gone)}
        for job in before["quarantined"]
        if (left := [name for name in job["tasks"] if name not in gone])
    ]
    doubts = [anonymise(doubt, gone) for doubt in before["doubts"]]
    summary = {
        **before,
        "configuration": {**before["configuration"], "private": private},
        "tasks": {
            "n": len(rows),
            "n_learned": sum(row.learned for row in rows.values()),
            "n_private": sum(row.private for row in rows.values()),
            "n_rows": before["tasks"]["n_rows"] - n_rows,
        },
        "evaluation": with_figures(run.evaluation, figures, without=gone),
        "added": [
            describe_added(one, again.heads.get(name)).to_dict()
            for name, one in run.added.items()
            if name not in gone
        ],
        "doubts": list(dict.fromkeys([*doubts, *update.doubts])),
        "quarantined": jobs,
    }
    retired = sorted(set(run.retired) - gone)
    if retired:
        summary[RETIRED] = retired
    if again.multitask is not None:
        summary["multitask"] = describe_multitask(again.multitask)
        summary["fewshot"] = describe_fewshot(again.fewshot)
    return summary


def describe_added(one: AddedTask, head: NewHead | None) -> AddedTask:
    """Return what is known of a task that came later, on new models if it was trained again."""
    if head is None:
        return one
    return AddedTask(
        one.name,
        one.version,
        one.cluster,
        one.confidence,
        one.out_of_cluster,
        head.gain,
        head.figures,
        one.n_measured,
        head.parts.task.shares,
    )


def anonymise(text: str, names: Iterable[str]) -> str:
    """Return a sentence without the quoted names of some tasks.

    >>> anonymise("'a' is hurt by 'b', not by a", ["a"])
    "a removed task is hurt by 'b', not by a"
    """
    # The longest first: a name can have another one in quotes inside it.
    for quoted in sorted((quote(name) for name in names), key=len, reverse=True):
        text = text.replace(quoted, ANONYMOUS)
    return text


def without_tasks(similarity: Similarity, gone: set[str]) -> Similarity:
    """Return the matrices of a clustering without some tasks."""
    kept = np.array(
        [place for place, name in enumerate(similarity.task_names) if name not in gone], dtype=int
    )
    return Similarity(
        tuple(similarity.task_names[place] for place in kept),
        similarity.points[kept],
        similarity.same_group[kept][:, kept],
        similarity.outliers[kept][:, kept],
    )


def erase_vectors(run: Run, gone: Iterable[str]) -> None:
    """Erase the vectors of the texts of tasks from the user's cache, of all encoders."""
    texts: set[str] = set()
    for name in gone:
        task = run.rows_of(name) if name in run.cluster_rows else read_examples(run.version, name)
        texts |= set(task.texts)
    VectorCache(default_cache_folder()).erase(sorted(texts))


def describe_removal(run: Run, plan: RemovalPlan, gone: set[str]) -> tuple[str, ...]:
    """Say what went."""
    said = f"{count(len(gone), 'task')} removed: {list_names(gone)}"
    if plan.retrains:
        said += "; what had learned from it was trained again"
    clusters: Mapping[str, int] = run.clusters
    left = {number for name, number in clusters.items() if name not in gone}
    vanished = sorted({clusters[name] for name in gone if clusters.get(name, -1) >= 0} - left)
    if vanished:
        numbers = ", ".join(map(str, vanished))
        said += f"; cluster {numbers} has no tasks any more, the others keep their numbers"
    return (f"{said}.",)

"""Why a task of a run is where it is, what sharing gave it, and what would help it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from robusttc.data import Task
from robusttc.encoders import FrozenInputs
from robusttc.errors import UsageError, quote
from robusttc.multitask import COMPONENTS, SharedModel, judge_sharing
from robusttc.run.evaluation import TaskFigures
from robusttc.run.explain.blaming import blame
from robusttc.run.explain.explained_cluster import ClusterReasons, explain_cluster
from robusttc.run.explain.explained_labels import LabelMap, map_labels
from robusttc.run.explain.explained_pairs import find_pairs, similarity_to_others
from robusttc.run.explain.explained_sharing import Sharing, explain_sharing
from robusttc.run.explain.explanation import Explanation
from robusttc.run.explain.held_out_answers import ask_held_out
from robusttc.run.explain.neighbours import Nearest, NearTask, find_nearest
from robusttc.run.explain.weak_labels import WeakLabel, find_weak_labels
from robusttc.run.outputs import AddedTask
from robusttc.run.run import Run
from robusttc.run.task_files import read_task

__all__ = ["Explanation", "explain_task"]

MIN_NEAREST = 10

NO_TEXTS = "The run does not keep its tasks, so nothing is said of labels: fit it again with this version."
NO_EXAMPLES = "Its examples are not kept, so nothing is said of its labels; robusttc add would keep them."
NOT_COMPARED = "Private tasks are measured with no other, and their labels are compared with none."


def explain_task(opened: Run, name: str, *, n_others: int = 8, all_culprits: bool = False) -> Explanation:
    """Explain one task of a finished run.

    Parameters
    ----------
    opened
        The run.
    name
        A task of it: learned, added, adapted, private, or set aside.
    n_others
        With how many of the nearest tasks its labels are compared.
    all_culprits
        Whether to look for culprits by gradients also where that may take minutes; see
        `robusttc.run.explain.blaming.blame`.

    Raises
    ------
    UnknownTaskError
        If the run has no such task; the message names the nearest one.
    UsageError
        If `n_others` is no such number.
    StoreError
        If the run is damaged.
    """
    if not isinstance(n_others, int) or isinstance(n_others, bool) or n_others < 0:
        raise UsageError("n_others cannot be used", got=quote(n_others), expected="an integer from 0 up")
    figures = {one.task: one for one in opened.evaluation.tasks}
    if name not in figures and name in opened.adapted_names:
        return explain_adapted(opened, name)
    why_not = tuple(
        f"{unit['stage']}: {unit['error']}" for unit in opened.quarantined if unit["tasks"] == [name]
    )
    if name not in figures and not why_not:
        opened.predictor(name)  # says that there is no such task, and names the nearest one
    task = read_task(opened.version, name)
    facts: dict[str, Any] = {"why_not": why_not, "notes": () if task is not None else (NO_TEXTS,)}
    if task is not None:
        facts |= {"n_rows": count_rows(task), "label_names": task.label_names}
    if name not in figures:
        return Explanation(name, opened.folder.name, "set aside", **facts)
    added = opened.added.get(name)
    if opened.cluster_rows[name].private:
        sharing = explain_sharing(figures[name], None, shares=False)
        weak = () if task is None else judge_labels(opened, task)
        facts["notes"] = (*facts["notes"], NOT_COMPARED)
        return Explanation(name, opened.folder.name, "private", sharing=sharing, weak_labels=weak, **facts)
    cluster, nearest = explain_place(opened, name, added, n_nearest=max(MIN_NEAREST, n_others))
    return Explanation(
        name,
        opened.folder.name,
        "learned" if added is None else "added",
        cluster=cluster,
        nearest=nearest,
        labels=None if task is None else compare_labels(opened, task, nearest.choose(n_others)),
        sharing=share_of(opened, figures[name], added, cluster, all_culprits=all_culprits),
        weak_labels=() if task is None else judge_labels(opened, task),
        **facts,
    )


def explain_adapted(opened: Run, name: str) -> Explanation:
    """Explain a task that was learned from a handful of examples: what its model says of itself."""
    model = opened.adapted_model(name)
    near = tuple(NearTask(other, -1, float(likeness), None) for other, likeness in model.nearest_tasks_)
    accuracy = model.support_accuracy_
    notes = [
        f"Each example left out in its turn, {accuracy:.0%} of them are predicted right."
        if accuracy == accuracy  # not NaN
        else "How well it does is not known: no label has two examples.",
        "No cluster fits it: a model of its own serves." if model.out_of_cluster_ else "",
        NO_EXAMPLES,
    ]
    return Explanation(
        name,
        opened.folder.name,
        "adapted",
        label_names=model.label_names,
        cluster_weights=dict(model.weights_),
        nearest=Nearest(by_similarity=near),
        notes=tuple(note for note in notes if note),
    )


def count_rows(task: Task) -> dict[str, int]:
    """Count the rows of each split."""
    counted = Counter(task.splits.tolist())
    return {split: counted[split] for split in task.split_names}


def explain_place(
    opened: Run, name: str, added: AddedTask | None, *, n_nearest: int
) -> tuple[ClusterReasons, Nearest]:
    """Explain the cluster of a task, and find its nearest tasks."""
    partition, similarity = opened.clusters, opened.similarity
    pairs = find_pairs(name, opened.scores, partition, similarity=similarity)
    to_others = similarity_to_others(name, similarity)
    confidence = opened.cluster_rows[name].confidence
    if confidence is None and added is not None:
        confidence = added.confidence
    cluster = explain_cluster(
        name,
        partition,
        confidence=confidence,
        supported=bool((opened.verdict or {}).get("supported")),
        pairs=pairs,
        similarity=to_others,
    )
    return cluster, find_nearest(pairs, to_others, partition, n=n_nearest)


def compare_labels(opened: Run, task: Task, others: tuple[str, ...]) -> LabelMap:
    """Compare the labels of a task with those of others that the run keeps."""
    there = [one for one in (read_task(opened.version, other) for other in others) if one is not None]
    known = dict(opened.multitask.predictor_.own)
    for one in (task, *there):
        if one.name in opened.added:
            known |= opened.learned(one.name).predictor_.own
    # The paper's models of one task are not single-task models of the blend: those are quickly made.
    own_models = {name: own for name, own in known.items() if not isinstance(own, SharedModel)}
    return map_labels(task, there, opened.multitask, own_models)


def share_of(
    opened: Run,
    figures: TaskFigures,
    added: AddedTask | None,
    cluster: ClusterReasons,
    *,
    all_culprits: bool,
) -> Sharing:
    """Say what sharing gave a task, and where it harms it look for culprits."""
    name, model = figures.task, opened.multitask
    rows = model.held_out_.get(name)
    held_out = None if rows is None else judge_sharing(model.predictor_, name, rows.right)
    if added is not None or name not in model.predictor_.tasks:
        gain = None if added is None else added.expected_gain
        return explain_sharing(figures, held_out, shares=added is None or added.shares, expected_gain=gain)
    served = model.predictor_.tasks[name]
    weights, shares = dict(zip(COMPONENTS, served.weights.novel, strict=True)), served.shares
    sharing = explain_sharing(figures, held_out, shares=shares, weights=weights)
    if not (sharing.is_harmed or sharing.is_doubtful):
        return sharing
    culprits, method = blame(
        model,
        opened,
        name,
        cluster.pairs,
        n_folds=folds_of(opened),
        all_culprits=all_culprits,
    )
    return explain_sharing(
        figures, held_out, shares=shares, weights=weights, culprits=culprits, method=method
    )


def folds_of(opened: Run) -> int | None:
    """Give into how many folds training rows were dealt; None where the encoder was tuned on all of them."""
    configuration = opened.summary["configuration"]
    return None if configuration["tune"] == "encoder" else int(configuration["n_folds"])


def judge_labels(opened: Run, task: Task) -> tuple[WeakLabel, ...]:
    """Judge the labels of a task by rows that were held out."""
    model, rows = opened.multitask, task.rows("train", "valid")
    reader = model.predictor_.private_readers.get(task.name, model.predictor_.reader)
    inputs: FrozenInputs = reader.read(list(task.texts_at(rows)))
    answers = ask_held_out(
        task,
        inputs,
        model.held_out_.get(task.name),
        n_folds=folds_of(opened),
        seed=model.seed_,
        settings=model.settings_,
    )
    return find_weak_labels(task, answers)

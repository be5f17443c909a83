"""Labels of other tasks that correspond to, contain or conflict with those of one task of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task
from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.models import TrainedModel
from robusttc.multitask import ClusterMultiTask, Predictor, SingleTaskModel, TaskRows, fit_own
from robusttc.run.explain.conflicting import LabelConflict, find_conflicts
from robusttc.run.explain.corresponding import MIN_TEXTS, LabelRelation, find_relations
from robusttc.run.explain.cross_predicting import Sample, ask_each_other, choose_texts, make_sample

__all__ = ["LabelMap", "map_labels"]


@dataclass(frozen=True, slots=True)
class LabelMap:
    """How the labels of a task stand to those of others.

    Attributes
    ----------
    compared
        The tasks that it was compared with.
    relations, conflicts
        What was found.
    n_texts
        How many distinct texts of the task were asked about.
    thin
        Its labels that have too few texts for anything to be said of them.
    sentence
        All this in words.
    """

    compared: tuple[str, ...]
    relations: tuple[LabelRelation, ...]
    conflicts: tuple[LabelConflict, ...]
    n_texts: int
    thin: tuple[str, ...]
    sentence: str

    def to_dict(self, *, show_texts: bool = False) -> dict[str, Any]:
        """Give it as values for JSON; the texts themselves only if they are asked for."""
        return {
            "compared": list(self.compared),
            "relations": [relation.to_dict() for relation in self.relations],
            "conflicts": [conflict.to_dict(show_texts=show_texts) for conflict in self.conflicts],
            "n_texts": self.n_texts,
            "thin": list(self.thin),
            "sentence": self.sentence,
        }


def map_labels(
    task: Task, others: Iterable[Task], fitted: ClusterMultiTask, own_models: Mapping[str, SingleTaskModel]
) -> LabelMap:
    """Compare the labels of a task with those of others; tasks that may not share take no part.

    Parameters
    ----------
    task
        The task.
    others
        Those that it is compared with.
    fitted
        The models of the run.
    own_models
        The own models of tasks, as far as they are there.
    """
    with threadpool_limits(1):
        own = sample_task(task, fitted, own_models.get(task.name))
        samples = [
            sample_task(other, fitted, own_models.get(other.name)) for other in others if other.may_share
        ]
        known = [sample for sample in samples if sample is not None]
        if own is None or not known or not task.may_share:
            return LabelMap((), (), (), 0, (), "Its labels were compared with no other task.")
        asked = [ask_each_other(own, other) for other in known]
    tables = [one for one, _ in asked]
    relations = find_relations(tables)
    conflicts = find_conflicts(tables, {one.task: common for one, common in asked}, relations)
    counted = np.bincount(own.texts.codes, minlength=len(task.label_names))
    thin = tuple(label for label, n in zip(task.label_names, counted, strict=True) if n < MIN_TEXTS)
    compared = tuple(one.task for one in tables)
    sentence = word(task, compared, relations, conflicts)
    return LabelMap(compared, relations, conflicts, len(own.texts.keys), thin, sentence)


def sample_task(task: Task, fitted: ClusterMultiTask, model: SingleTaskModel | None) -> Sample | None:
    """Read texts of a task; None where it has no own model, and none is quickly made."""
    texts = choose_texts(task)
    if len(np.unique(texts.codes[~texts.is_held])) < 2:
        return None
    serving = fitted.predictor_
    inputs = serving.reader.read(list(texts.shown))
    if model is None and isinstance(inputs, DenseInputs):
        trained = np.flatnonzero(~texts.is_held)
        part = TaskRows(task.name, len(texts.label_names), trained, texts.codes[trained])
        model = fit_own(inputs, part, settings=fitted.settings_, seed=fitted.seed_, stage="own")
    return None if model is None else make_sample(texts, inputs, represent(serving, model, inputs), model)


def represent(serving: Predictor, model: SingleTaskModel, inputs: FrozenInputs) -> NDArray[np.float32]:
    """Give what likeness is judged by: vectors as they are, words by the layer of the task's own model."""
    if isinstance(inputs, DenseInputs):
        return inputs.matrix
    if serving.shared is not None:
        return serving.shared.layer.represent(inputs)
    assert isinstance(model, TrainedModel)  # noqa: S101 - words have convolutions
    return model.layer.represent(inputs)


def word(
    task: Task,
    compared: Sequence[str],
    relations: Sequence[LabelRelation],
    conflicts: Sequence[LabelConflict],
) -> str:
    """Say how much was found."""
    sure = [one for one in relations if one.kind != "overlaps"]
    matched = {one.label for one in sure}
    disputed = {(one.label, one.task) for one in conflicts}
    tasks = f"{len(compared):,} {'task' if len(compared) == 1 else 'tasks'}"
    verbs = "corresponds to, contains or lies" if len(matched) == 1 else "correspond to, contain or lie"
    conflict = "is 1 conflict" if len(disputed) == 1 else f"are {len(disputed):,} conflicts"
    return (
        f"Compared with {tasks}: {len(matched):,} of its {len(task.label_names):,} labels {verbs} within a "
        f"label there, and there {conflict}."
    )

"""A task that comes later joins trained models: nothing of them changes, it gets classifiers on their layers.

One unit a task. It fits the task's own model, as the training of all tasks would have done, and a classifier
on the frozen model of all tasks and on that of its cluster: in every fold, for a fair comparison on rows that
were held out, and once more on all training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.encoders import FrozenInputs
from robusttc.jobs import Job, Result
from robusttc.models import ConvolutionLayer, name_tasks
from robusttc.multitask.components import OwnModel, Shared, describe_own, fit_own, train_copies
from robusttc.multitask.folds import deal_folds
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.new_heads import Head, HeadRows, first_head, train_head
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.shared_model import SharedModel
from robusttc.random import numpy_generator

__all__ = ["STAGE", "Fold", "JoinMaterial", "NewTask", "join_unit", "lay_out_task", "with_words"]

STAGE = "join"

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """What the models of one fold are trained on, and the items that they are asked about."""

    part: TaskPart
    held: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class NewTask:
    """What joining sees of a task.

    Attributes
    ----------
    inputs
        Its frozen inputs, an item a row of the task.
    part
        Its training and validation rows.
    folds
        The folds of its training rows; none where there is nothing to hold out.
    cluster
        Its cluster; -1 for none.
    may_share
        Whether it may use models of others; one that may not only has its own.
    vectors
        Vectors of words that the models have not seen, which are numbered behind theirs; None for none.
    """

    inputs: FrozenInputs
    part: TaskPart
    folds: tuple[Fold, ...]
    cluster: int
    may_share: bool
    vectors: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JoinMaterial:
    """What all units see.

    Attributes
    ----------
    tasks
        The new tasks.
    shared, clusters
        The models to join; None and empty where there are none.
    from_shared
        Whether the models of clusters started from the one of all tasks.
    known
        The labels of the tasks of these models.
    settings, seed, strategy
        How they were trained.
    """

    tasks: Mapping[str, NewTask]
    shared: Shared | None
    clusters: Mapping[int, Shared]
    from_shared: bool
    known: Mapping[str, tuple[str, ...]]
    settings: MultiTaskSettings
    seed: int
    strategy: str


def lay_out_task(
    task: Task,
    inputs: FrozenInputs,
    *,
    cluster: int,
    n_folds: int,
    seed: int,
    vectors: Floats | None = None,
) -> NewTask:
    """Lay out the rows of a task for joining."""
    folds: list[Fold] = []
    if task.may_share:
        numbers = deal_folds(task, n_folds, seed)
        train = task.rows("train")
        for number in range(n_folds):
            held = np.flatnonzero(numbers == number)
            if len(held):
                folds.append(Fold(part_of(task, train[numbers[train] != number]), held))
    return NewTask(inputs, part_of(task, task.rows("train")), tuple(folds), cluster, task.may_share, vectors)


def part_of(task: Task, rows: NDArray[np.intp]) -> TaskPart:
    """Give some training rows of a task, and all in ``valid``; items are the rows themselves."""
    valid = task.rows("valid")
    return TaskPart(
        task.name,
        len(task.label_names),
        rows.astype(np.int64),
        task.label_codes[rows].astype(np.int64),
        valid.astype(np.int64),
        task.label_codes[valid].astype(np.int64),
        task.label_names,
    )


def join_unit(name: str) -> Job:
    """Make the unit of a task; the shared data is the `JoinMaterial`."""
    return Job(f"{STAGE}/{name_tasks([name])}", join_task, name, (name,))


def join_task(material: JoinMaterial, name: str) -> Result:
    """Do a unit: all models of one new task, and what those of its folds say about held-out rows."""
    new = material.tasks[name]
    arrays: dict[str, NDArray[np.generic]] = {}
    said: dict[str, list[NDArray[np.float64]]] = {}
    bases = find_bases(material, new)
    for number, fold in enumerate(new.folds):
        own, heads = train_round(material, new, bases, fold.part, f", fold {number}")
        asked = new.inputs.take(fold.held)
        said.setdefault("own", []).append(np.asarray(own.probabilities(name, asked), dtype=np.float64))
        for kind, models in heads.items():
            said.setdefault(kind, []).append(joined(bases[kind], models, name).probabilities(name, asked))
    own, heads = train_round(material, new, bases, new.part, "")
    values = {
        "kinds": sorted(heads),
        "is_alone": isinstance(own, Alone),
        "epochs": {kind: [head.n_epochs for head in models] for kind, models in heads.items()},
        "alone": [],
    }
    if isinstance(own, Alone):
        described = [copy.describe() for copy in own.shared.copies]
        values["alone"] = [settings for settings, _ in described]
        for number, (_, of_copy) in enumerate(described):
            arrays |= {f"alone/{number}/{key}": array for key, array in of_copy.items()}
    else:
        arrays |= {f"own/{key}": array for key, array in describe_own(own.model).items()}
    for kind, models in heads.items():
        for number, head in enumerate(models):
            arrays |= {f"{kind}/{number}/{key}": array for key, array in head.arrays().items()}
    for kind, tables in said.items():
        arrays[f"held/{kind}"] = np.concatenate(tables)
    return Result(values, arrays)


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """A task's own model, by its name as those of several tasks are asked."""

    model: OwnModel

    def probabilities(self, name: str, inputs: FrozenInputs) -> NDArray[np.floating]:
        """Give the probability of every label for every item."""
        del name
        return self.model.probabilities(inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """A model that was trained like that of a cluster, for one task only."""

    shared: Shared

    def probabilities(self, name: str, inputs: FrozenInputs) -> NDArray[np.floating]:
        """Give the probability of every label for every item."""
        return self.shared.probabilities(name, inputs)


def find_bases(material: JoinMaterial, new: NewTask) -> dict[str, Shared]:
    """Give the models that a task may join, with room for its words."""
    if not new.may_share:
        return {}
    found = {"shared": material.shared, "cluster": material.clusters.get(new.cluster)}
    return {kind: with_words(model, new.vectors) for kind, model in found.items() if model is not None}


def with_words(model: Shared, vectors: Floats | None) -> Shared:
    """Give a model that knows more words, with vectors as they come; its layers keep all else."""
    if vectors is None or not len(vectors):
        return model
    return Shared([extend(copy, vectors) for copy in model.copies])


def extend(copy: SharedModel, vectors: Floats) -> SharedModel:
    """Give a copy of a model that knows more words."""
    layer = copy.layer
    if not isinstance(layer, ConvolutionLayer) or layer.vectors is None:
        return copy
    longer = ConvolutionLayer(layer.filters, layer.bias, np.concatenate([layer.vectors, vectors]))
    heads = (copy.weight, copy.bias, copy.n_epochs, copy.converged)
    return SharedModel(longer, copy.names, copy.starts, copy.ends, *heads)


def joined(base: Shared, heads: tuple[Head, ...], name: str) -> Shared:
    """Put classifiers on the layers of a model."""
    return Shared([head.on(copy, name) for copy, head in zip(base.copies, heads, strict=True)])


def train_round(
    material: JoinMaterial, new: NewTask, bases: Mapping[str, Shared], part: TaskPart, suffix: str
) -> tuple[Own | Alone, dict[str, tuple[Head, ...]]]:
    """Train all models of a task on some of its rows."""
    settings, seed = material.settings, material.seed
    own: Own | Alone
    if material.strategy == "paper":
        alone = train_copies(
            new.inputs, [part], settings=settings, seed=seed, stage=f"cluster{suffix}", stop_early=True
        )
        own = Alone(alone)
    else:
        own = Own(fit_own(new.inputs, part, settings=settings, seed=seed, stage=f"own{suffix}"))
    heads: dict[str, tuple[Head, ...]] = {}
    for kind, base in bases.items():
        starts = heads.get("shared") if kind == "cluster" and material.from_shared else None
        heads[kind] = tuple(
            join_copy(
                material,
                new,
                part,
                copy,
                start=None if starts is None else starts[number],
                is_later=kind == "cluster" and material.from_shared,
                generator=numpy_generator(seed, f"join {kind}{suffix}, copy {number}", [part.name]),
            )
            for number, copy in enumerate(base.copies)
        )
    return own, heads


def join_copy(
    material: JoinMaterial,
    new: NewTask,
    part: TaskPart,
    copy: SharedModel,
    *,
    start: Head | None,
    is_later: bool,
    generator: np.random.Generator,
) -> Head:
    """Train the classifier of a task on one copy of a model."""
    settings = material.settings
    rows = HeadRows(
        copy.layer.represent(new.inputs.take(part.items)),
        part.codes,
        copy.layer.represent(new.inputs.take(part.valid_items)),
        part.valid_codes,
    )
    if start is None:
        start = first_head(copy, material.known, part.label_names, settings=settings, generator=generator)
    is_paper = material.strategy == "paper"
    return train_head(
        rows,
        start,
        settings=settings,
        learning_rate=settings.start_learning_rate if is_later else settings.learning_rate,
        # Where the best epoch is looked for, the number of another training says nothing.
        n_epochs=settings.epochs if is_paper else max(1, copy.n_epochs),
        generator=generator,
        stop_early=is_paper,
    )

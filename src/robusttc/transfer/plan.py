"""What is measured and how: the settings, the rows of every task, and the data that all jobs share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import FrozenInputs, PreparedTasks, WordInputs
from robusttc.errors import DataError, UsageError, quote
from robusttc.models import TrainingSettings
from robusttc.params import Choice, Constraint, Integer, Nothing, Settings
from robusttc.random import numpy_generator

__all__ = [
    "MEASURES",
    "TaskRows",
    "TransferPlan",
    "TransferSettings",
    "have_same_labels",
    "make_plan",
    "seen_labels",
    "select_rows",
]

MEASURES = ("log_likelihood", "brier", "accuracy", "overlap")  # "accuracy" is the paper's
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "kind": (Choice(*MEASURES),),
    "measure_width": (Integer(1), Nothing()),
    "label_sets": (Choice("auto", "identical", "different"),),
}
# Two vectors nearer than this, relative to their length, are of one input: encoders differ in the last bits.
SAME_VECTOR = 1e-5

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings(Settings):
    """What is measured, and how; checked when it is made, immutable.

    Parameters
    ----------
    kind
        ``log_likelihood`` (the default) and ``brier``: leave-one-out prediction of the target's rows of train
        and valid by a ridge classifier on the source's narrow encoder. ``accuracy``: the paper's. With
        different label sets, the accuracy on valid of a softmax classifier that was trained on train, on the
        frozen encoder of the source; with identical label sets, the accuracy of the source's own model on
        train. ``overlap``: the share of the target's rows whose text the source has too; needs no encoder.
        Deviation: the paper has accuracy alone. A few dozen validation rows make it mostly noise.
    measure_width
        The largest dimension of the narrow encoder (a task with k labels has k - 1 directions). Wide encoders
        serve every task alike; a narrow one must select. None measures with the encoder as it is.
    label_sets
        Which of the two definitions of ``accuracy`` is used: ``identical``, ``different``, or ``auto``, by
        the tasks.
    training
        How a layer is trained, which is done on words and for kind ``accuracy``.

    Raises
    ------
    UsageError
        If a value cannot be used.

    Examples
    --------
    >>> TransferSettings(kind="brier").measure_width
    6
    """

    kind: str = "log_likelihood"
    measure_width: int | None = 6
    label_sets: str = "auto"
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        self._check(CONSTRAINTS)
        if not isinstance(self.training, TrainingSettings):
            raise UsageError(
                "training cannot be used", got=quote(self.training), expected="a TrainingSettings"
            )

    @property
    def uses_leave_one_out(self) -> bool:
        """Whether rows of train and valid are one pool, of which every row is left out once."""
        return self.kind in ("log_likelihood", "brier")


@dataclass(frozen=True, eq=False)
class TaskRows:
    """The rows of a task that may be used for measuring: train and valid, never test."""

    name: str
    items: Numbers  # the position of each row's input, first those of train, then those of valid
    codes: Numbers  # the label of each row: its position among the sorted labels of these rows
    n_train: int
    n_labels: int  # a label that only test rows have does not count
    order: Numbers  # a random order of the rows, to split them into halves


@dataclass(frozen=True, eq=False)
class TransferPlan:
    """Everything that the jobs share."""

    rows: tuple[TaskRows, ...]  # in the order of the tasks
    inputs: FrozenInputs  # the text features of all distinct texts
    settings: TransferSettings
    same_labels: bool  # whether models are applied to other tasks as they are
    seed: int

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return tuple(rows.name for rows in self.rows)

    @property
    def trains_layers(self) -> bool:
        """Whether every source trains a layer of its own, or uses the text features directly."""
        return self.settings.kind == "accuracy" or isinstance(self.inputs, WordInputs)


def make_plan(
    tasks: TaskSet, prepared: PreparedTasks, *, settings: TransferSettings, seed: int
) -> TransferPlan:
    """Return what the jobs share; of the inputs, those of train and valid alone."""
    identical = have_same_labels(tasks, settings) and settings.kind == "accuracy"
    rows = [find_rows(task, prepared, settings, needs_valid=not identical, seed=seed) for task in tasks]
    used, places = np.unique(np.concatenate([each.items for each in rows]), return_inverse=True)
    ends = np.cumsum([len(each.items) for each in rows])[:-1]
    renumbered = tuple(
        replace(each, items=items) for each, items in zip(rows, np.split(places, ends), strict=True)
    )
    return TransferPlan(renumbered, prepared.inputs.take(used), settings, identical, seed)


def have_same_labels(tasks: TaskSet, settings: TransferSettings) -> bool:
    """Return whether models can be used on other tasks as they are; refuse settings that say so wrongly."""
    name_of = {seen_labels(task): task.name for task in tasks}
    if settings.label_sets == "identical" and len(name_of) > 1:
        first, second = list(name_of.values())[:2]
        raise DataError(
            "the tasks have different label sets, so a model cannot be used on another task as it is",
            got=f"{quote(first)} and {quote(second)} differ",
            todo="measure with label_sets='auto'",
        )
    return settings.label_sets != "different" and len(name_of) == 1


def select_rows(
    task: Task, settings: TransferSettings, *, needs_valid: bool, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of train and valid that measuring uses.

    With leave-one-out a task without valid rows is measured on train alone. For ``accuracy`` such a task has
    a fifth of every label's training rows held out in place of valid, drawn by the seed and its name.
    """
    train, valid = task.rows("train"), task.rows("valid")
    found = np.unique(task.label_codes[train])
    if len(found) < 2:
        names = ", ".join(quote(task.label_names[code]) for code in found)
        raise DataError(
            "the training rows of the task have fewer than two labels, so there is nothing to learn",
            where=f"task {quote(task.name)}",
            got=f"{len(train):,} training rows, labels: {names or 'none'}",
            todo="leave the task out, or give it rows of another label",
        )
    if settings.uses_leave_one_out or not needs_valid or len(valid):
        return train, valid
    shuffled = numpy_generator(seed, "hold out", [task.name]).permutation(train)
    by_label = [shuffled[task.label_codes[shuffled] == code] for code in found]
    held = [own[: max(1, len(own) // 5)] for own in by_label if len(own) > 1]
    if not held:
        raise DataError(
            "the task has no valid rows, and one training row per label, so nothing can be held out",
            where=f"task {quote(task.name)}",
            todo="give it valid rows, leave it out, or measure another kind than 'accuracy'",
        )
    valid = np.sort(np.concatenate(held))
    return np.setdiff1d(train, valid), valid


def find_rows(
    task: Task, prepared: PreparedTasks, settings: TransferSettings, *, needs_valid: bool, seed: int
) -> TaskRows:
    """Return the rows of a task with their inputs and labels.

    With leave-one-out, an input that occurs again with the same label counts once: else its twin would
    predict it. Inputs are compared as the encoder sees them, not by their letters.
    """
    train, valid = select_rows(task, settings, needs_valid=needs_valid, seed=seed)
    both = np.concatenate([train, valid])
    # Numbered anew: a label that only test rows have must not change a score.
    seen, codes = np.unique(task.label_codes[both], return_inverse=True)
    items, n_train = prepared.items_of(task.name, both), len(train)
    if settings.uses_leave_one_out:
        kept = first_of_twins(prepared.inputs.take(items), codes)
        n_train = int(np.count_nonzero(kept < n_train))
        items, codes = items[kept], codes[kept]
    order = numpy_generator(seed, "halves", [task.name]).permutation(len(items))
    return TaskRows(task.name, items, codes, n_train, len(seen), order)


def first_of_twins(inputs: FrozenInputs, codes: Numbers) -> Numbers:
    """Return the first row of every (input, label), in the order of the rows."""
    if isinstance(inputs, WordInputs):
        keys = [(words.tobytes(), code) for words, code in zip(inputs.tokens, codes.tolist(), strict=True)]
        return np.sort(np.array(list({key: row for row, key in reversed(list(enumerate(keys)))}.values())))
    matrix = inputs.matrix
    # Equal vectors are neighbours when sorted by label and a random projection.
    direction = numpy_generator(0, "twins").standard_normal(matrix.shape[1])
    order = np.lexsort((matrix.astype(np.float64) @ direction, codes))
    gap = np.abs(matrix[order[1:]] - matrix[order[:-1]]).max(axis=1)
    tolerance = SAME_VECTOR * np.abs(matrix[order[1:]]).max(axis=1)
    starts = np.r_[True, (gap > tolerance) | np.diff(codes[order]).astype(bool)]
    return np.sort(np.minimum.reduceat(order, np.flatnonzero(starts)))


def seen_labels(task: Task) -> tuple[str, ...]:
    """Return the labels that rows of train or valid have."""
    return tuple(task.label_names[code] for code in np.unique(task.label_codes[task.rows("train", "valid")]))

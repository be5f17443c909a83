"""The job that measuring transfer consists of: the encoder of one source, and its scores on its targets.

A wide representation keeps nearly everything that the text features hold, whatever it was trained on, so it
serves every task alike and its scores say nothing. A narrow one must select what its own task needs. The
selection has a closed form: the directions w that maximise

    (w' S_between w) / (w' S_within w), S_within = (1 - shrinkage) covariance + shrinkage * mean variance * I,

(linear discriminant analysis with a shrunk covariance), each scaled by how well it separates the labels. With
k labels there are at most k - 1 of them. Nothing is random, and a task takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, FrozenInputs, PreparedTasks, WordInputs
from robusttc.errors import DataError, UsageError, quote
from robusttc.jobs import Result
from robusttc.models import Layer, TrainedModel, TrainingSettings, fit_softmax, multiply_rows, train_model
from robusttc.params import Choice, Constraint, Integer, Nothing, Settings
from robusttc.random import numpy_generator
from robusttc.transfer.leave_one_out import leave_one_out_brier, leave_one_out_log_likelihood

__all__ = [
    "MEASURES",
    "SCORE_COLUMNS",
    "SourceEncoder",
    "TaskRows",
    "TransferPlan",
    "TransferSettings",
    "discriminant_projection",
    "have_same_labels",
    "make_plan",
    "measure_source",
    "score_source",
    "seen_labels",
    "select_rows",
    "train_source",
]

MEASURES = ("log_likelihood", "brier", "accuracy", "overlap")  # "accuracy" is the paper's
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "kind": (Choice(*MEASURES),),
    "measure_width": (Integer(1), Nothing()),
    "label_sets": (Choice("auto", "identical", "different"),),
}
SCORE_COLUMNS = ("score", "standard_error", "first_half", "second_half", "n_examples")
# Two vectors nearer than this, relative to their length, are of one input: encoders differ in the last bits.
SAME_VECTOR = 1e-5
# With more than this share of all inputs needed, all are encoded: cheaper than copying the needed ones.
SHARE_FOR_ALL = 0.5
MAX_ERROR_CHARACTERS = 200
# How exactly the classifiers of kind "accuracy" are solved: a closer solution predicts no better.
CLASSIFIER_TOLERANCE = 1e-2
CLASSIFIER_C = 1.0
SHRINKAGE = 0.9  # of the covariance within labels towards its mean variance
RIDGE = 1.0  # the penalty of the ridge classifier

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
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


# --- The job of a source


def measure_source(plan: TransferPlan, job: tuple[int, Numbers]) -> Result:
    """Run a job: train the encoder of one source, and score it on its targets."""
    source, targets = job
    return score_source(plan, source, train_source(plan, source), targets)


def score_source(plan: TransferPlan, source: int, encoder: SourceEncoder, targets: Numbers) -> Result:
    """Score the encoder of one source on targets; a score depends on source and target alone.

    The values of the result are the names of `source` and `targets`, and in `failed` each target that raised
    an error, with the error: it must not prevent the other scores. The arrays have one entry per target.
    """
    place_of, features = encode_targets(plan, encoder, targets)
    scored: list[tuple[float, ...]] = []
    names: list[str] = []
    failed: list[list[str]] = []
    for target in targets:
        rows = plan.rows[target]
        try:
            numbers = score_pair(plan, encoder, rows, features[place_of[rows.items]])
            if not np.isfinite(numbers).all():
                raise DataError("the score is not finite", got=", ".join(f"{number:g}" for number in numbers))
        except Exception as error:
            failed.append([rows.name, f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]])
        else:
            scored.append(numbers)
            names.append(rows.name)
    columns = dict(zip(SCORE_COLUMNS, np.array(scored).reshape(-1, len(SCORE_COLUMNS)).T, strict=True))
    columns["n_examples"] = columns["n_examples"].astype(np.int64)
    return Result({"source": plan.rows[source].name, "targets": names, "failed": failed}, columns)


def encode_targets(plan: TransferPlan, encoder: SourceEncoder, targets: Numbers) -> tuple[Numbers, Features]:
    """Encode every text of the targets once; return the position of each input, and the features."""
    n_inputs = len(plan.inputs)
    is_needed = np.zeros(n_inputs, dtype=np.bool_)
    for target in targets:
        is_needed[plan.rows[target].items] = True
    needed = np.flatnonzero(is_needed)
    if len(needed) > SHARE_FOR_ALL * n_inputs:
        return np.arange(n_inputs), encoder.represent(plan.inputs)
    place_of = np.full(n_inputs, -1, dtype=np.int64)
    place_of[needed] = np.arange(len(needed))
    return place_of, encoder.represent(plan.inputs.take(needed))


def score_pair(
    plan: TransferPlan, encoder: SourceEncoder, rows: TaskRows, features: Features
) -> tuple[float, ...]:
    """Return score, standard error, the scores of two halves, and the number of rows."""
    if plan.settings.kind == "accuracy":
        values, order = find_correct(encoder, rows, features)
    else:
        rule = leave_one_out_brier if plan.settings.kind == "brier" else leave_one_out_log_likelihood
        values, order = rule(features, rows.codes, rows.n_labels, RIDGE), rows.order
    n = len(values)
    middle = max(1, n // 2)
    halves = order[:middle], order[middle:] if n > 1 else order  # a single row is both halves
    first, second = (float(values[half].mean()) for half in halves)
    return float(values.mean()), float(values.std() / np.sqrt(n)), first, second, n


def find_correct(encoder: SourceEncoder, rows: TaskRows, features: Features) -> tuple[Floats, Numbers]:
    """Return for each evaluation row whether its prediction is correct (0 or 1), and an order of these rows.

    Identical label sets: the source's own classifier on train. Else: a classifier trained on train, evaluated
    on valid (section 3.1 of the paper), solved as far as its predictions need.
    """
    n_train = rows.n_train
    if encoder.classifier is not None:
        head = encoder.classifier
        logits = multiply_rows(features[:n_train], head.head_weight) + head.head_bias
        predicted, truth = logits.argmax(axis=1), rows.codes[:n_train]
        order = rows.order[rows.order < n_train]
    else:
        fitted = fit_softmax(
            features[:n_train],
            rows.codes[:n_train],
            n_labels=rows.n_labels,
            C=CLASSIFIER_C,
            tol=CLASSIFIER_TOLERANCE,
        )
        predicted, truth = fitted.predict_codes(features[n_train:]), rows.codes[n_train:]
        order = rows.order[rows.order >= n_train] - n_train
    return (predicted == truth).astype(np.float64), order


# --- The encoder of a source


@dataclass(frozen=True, eq=False)
class SourceEncoder:
    """The frozen encoder of a task as a source of transfer."""

    layer: Layer | None  # None where text features are used as they are
    projection: Features | None = None  # narrows the representation, shape (width of the layer, directions)
    classifier: TrainedModel | None = None  # the whole model, for kind "accuracy" with identical label sets

    def represent(self, inputs: FrozenInputs) -> Features:
        """Return the representation of every item; it depends on the item alone, to the bit."""
        if self.layer is not None:
            features = self.layer.represent(inputs)
        else:
            assert isinstance(inputs, DenseInputs)  # noqa: S101 - words always have a layer
            features = inputs.matrix
        return features if self.projection is None else multiply_rows(features, self.projection)


def train_source(plan: TransferPlan, source: int) -> SourceEncoder:
    """Return the encoder of one task; it depends on the task, the settings and the seed alone.

    For kind ``accuracy`` it is the layer of a model trained on train. Else the text features, or the trained
    layer of them where the plan has layers, are narrowed to the directions that separate the labels of train
    and valid.
    """
    rows, settings = plan.rows[source], plan.settings
    model: TrainedModel | None = None
    if plan.trains_layers:
        model = train_model(
            plan.inputs.take(rows.items[: rows.n_train]),
            rows.codes[: rows.n_train],
            n_labels=rows.n_labels,
            settings=settings.training,
            generator=numpy_generator(plan.seed, "model", [rows.name]),
        )
    encoder = SourceEncoder(None if model is None else model.layer)
    if settings.kind == "accuracy":
        return SourceEncoder(encoder.layer, classifier=model if plan.same_labels else None)
    if settings.measure_width is None:
        return encoder
    projection = discriminant_projection(
        encoder.represent(plan.inputs.take(rows.items)),
        rows.codes,
        n_labels=rows.n_labels,
        width=settings.measure_width,
    )
    return SourceEncoder(encoder.layer, projection)


def discriminant_projection(
    features: Features, codes: Numbers, *, n_labels: int, width: int, shrinkage: float = SHRINKAGE
) -> Features:
    """Return the most discriminative directions, shape (dimension, at most `width`), the best first.

    Some of the labels may have no row; there are fewer directions than labels with rows.

    >>> features = np.array([[0, 5], [1, -5], [10, 5], [11, -5]], dtype=np.float32)
    >>> codes = np.array([0, 0, 1, 1])
    >>> projection = discriminant_projection(features, codes, n_labels=2, width=3, shrinkage=0.1)
    >>> projection.shape, (features @ projection).argmin(axis=0) < 2
    ((2, 1), array([ True]))
    """
    rows = features.astype(np.float64)
    n, dimension = rows.shape
    counts = np.bincount(codes, minlength=n_labels)
    present = counts > 0
    members = np.zeros((n_labels, n))
    members[codes, np.arange(n)] = 1.0
    means = (members @ rows)[present] / counts[present, None]
    rows -= means[np.cumsum(present)[codes] - 1]
    means -= np.average(means, axis=0, weights=counts[present])
    within = rows.T @ rows / n
    variance = np.trace(within) / dimension
    if variance <= 0.0:
        # All rows of a label are the same: every direction between labels separates them alike.
        within, variance, shrinkage = np.eye(dimension), 1.0, 1.0
    within = (1 - shrinkage) * within + shrinkage * variance * np.eye(dimension)
    try:
        root = cholesky(within, lower=True)
    except LinAlgError:
        # Without shrinkage the covariance of few rows is singular.
        root = cholesky(within + 1e-6 * variance * np.eye(dimension), lower=True)
    whitened = solve_triangular(root, (means * np.sqrt(counts[present] / n)[:, None]).T, lower=True)
    # Labels are mostly fewer than dimensions, so the eigenvectors are those of the smaller matrix.
    values, vectors = eigh(whitened.T @ whitened)
    n_directions = min(width, int(present.sum()) - 1, dimension)
    order = np.argsort(-values, kind="stable")[:n_directions]
    kept = order[values[order] > 1e-12 * max(values[order[0]], 1e-300)] if len(order) else order
    # whitened @ vector has length sqrt(value): the scale that says how well a direction separates.
    directions = solve_triangular(root, whitened @ vectors[:, kept], lower=True, trans="T")
    # The sign of an eigenvector is arbitrary.
    largest = np.argmax(np.abs(directions), axis=0)
    directions *= np.where(directions[largest, np.arange(len(kept))] < 0, -1.0, 1.0)
    return np.ascontiguousarray(directions, dtype=np.float32)

"""Models of several tasks: one shared layer with one softmax classifier per task, trained together.

The loss of a step is the mean cross-entropy of its rows; the optimiser is Adam, for classifiers and word
vectors only with what a step touches. Big tasks do not drown small ones (`expected_counts`), labels of the
same name share a part of their classifiers (`SharedLabels`), and when the layer is ready a second set of
classifiers is fitted on it to convergence (`converge_heads`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from robusttc.data import Task
from robusttc.encoders import FrozenInputs
from robusttc.errors import DataError, UnknownTaskError, quote
from robusttc.models import (
    Adam,
    Batch,
    Heads,
    Layer,
    RowGradients,
    TrainingSettings,
    compiled,
    fit_softmax,
    label_key,
    layer_from_parameters,
    multiply_rows,
    new_head,
    new_layer,
    to_half,
    train_steps,
)
from robusttc.multitask.settings import MultiTaskSettings

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Probabilities = NDArray[np.float64]

# An epoch has at least so many steps, if it has rows of so many tasks.
LEAST_STEPS = 8
# Converged classifiers are held back by their penalty, and less confident than trained ones by about this
# factor in their temperature (1.5 to 1.6, by the validation rows of 175 intent tasks and three layers).
CONVERGED_SHARPNESS = np.float32(1.5)


def no_numbers() -> Numbers:
    """Return an empty array."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TaskRows:
    """The rows of a task that models are trained on."""

    name: str
    n_labels: int  # not all of them need to occur
    items: Numbers  # of every training row, its item among the frozen inputs
    codes: Numbers  # and its label
    valid_items: Numbers = field(default_factory=no_numbers)  # of the rows that early stopping looks at
    valid_codes: Numbers = field(default_factory=no_numbers)
    label_names: tuple[str, ...] = ()  # for `SharedLabels`; without them it shares none

    @classmethod
    def of(
        cls,
        task: Task,
        rows: NDArray[np.intp],
        items_of: Callable[[NDArray[np.intp]], NDArray[np.integer]],
        *,
        valid: bool = False,
    ) -> TaskRows:
        """Take some rows of a task, with those in ``valid`` if asked for; `items_of` maps rows to items."""
        held = task.rows("valid") if valid else no_numbers()
        items, valid_items = (np.asarray(items_of(own), dtype=np.int64) for own in (rows, held))
        codes = task.label_codes.astype(np.int64)
        names = task.label_names
        return cls(task.name, len(names), items, codes[rows], valid_items, codes[held], names)


class SharedModel:
    """A trained layer, and the softmax classifiers of several tasks on it.

    The classifiers are stacked: `weight` is (all labels, width), and `ends` says where the labels of each
    task end. `converged` is the weight and bias of a second set of them, fitted to convergence on the trained
    layer; probabilities are then the mean of both. `n_epochs` is 0 if it was not trained.

    Examples
    --------
    >>> from robusttc.models import DenseLayer
    >>> from robusttc.encoders import DenseInputs
    >>> eye, zero = np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32)
    >>> model = SharedModel(DenseLayer(eye, zero), ["a"], np.array([2]), eye, zero)
    >>> model.probabilities("a", DenseInputs(eye)).round(2).tolist()
    [[0.73, 0.27], [0.27, 0.73]]
    """

    def __init__(
        self,
        layer: Layer,
        names: Sequence[str],
        ends: Numbers,
        weight: Floats,
        bias: Floats,
        n_epochs: int = 0,
        converged: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.layer, self.names = layer, tuple(names)
        self.ends = np.asarray(ends, dtype=np.int64)
        self.starts = np.concatenate([[0], self.ends[:-1]]).astype(np.int64)
        self.weight, self.bias = weight, bias
        self.n_epochs, self.converged = n_epochs, converged
        self._places = {name: place for place, name in enumerate(self.names)}

    def copy(self, *, n_epochs: int) -> SharedModel:
        """Return an independent model of the trained classifiers, as they are after an epoch."""
        heads = (self.weight.copy(), self.bias.copy())
        return SharedModel(self.layer.clone(), self.names, self.ends, *heads, n_epochs)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def labels_of(self, name: str) -> slice:
        """Return where the labels of a task are among all."""
        if name not in self._places:
            raise UnknownTaskError(name, self.names)
        place = self._places[name]
        return slice(int(self.starts[place]), int(self.ends[place]))

    def logits(self, name: str, inputs: FrozenInputs) -> Floats:
        """Return the trained classifier's score of every label of a task; it depends on the item alone."""
        own = self.labels_of(name)
        return score(self.layer.represent(inputs), self.weight[own], self.bias[own])

    def probabilities(self, name: str, inputs: FrozenInputs) -> Probabilities:
        """Return the probability of every label of a task for every item."""
        return self.classify(name, self.layer.represent(inputs))

    def classify(self, name: str, representation: Floats) -> Probabilities:
        """Return the probability of every label of a task for every representation."""
        own = self.labels_of(name)
        trained = wide_softmax(score(representation, self.weight[own], self.bias[own]))
        if self.converged is None:
            return trained
        weight, bias = self.converged
        converged = CONVERGED_SHARPNESS * score(representation, weight[own], bias[own])
        return (trained + wide_softmax(converged)) / 2

    def with_small_heads(self) -> SharedModel:
        """Return the model with classifiers in half precision: they are most of what a task needs."""
        converged = self.converged and (to_half(self.converged[0]), self.converged[1])
        weight = to_half(self.weight)
        return SharedModel(self.layer, self.names, self.ends, weight, self.bias, self.n_epochs, converged)

    def describe(self) -> dict[str, Any]:
        """Return what a file needs to rebuild the model: values for JSON, and arrays."""
        return {
            "names": self.names,
            "n_epochs": self.n_epochs,
            "activation": getattr(self.layer, "activation", "relu"),
            "layer": self.layer.parameters(),
            "ends": self.ends,
            "weight": self.weight,
            "bias": self.bias,
            "converged": self.converged,
        }

    @classmethod
    def from_description(cls, content: Mapping[str, Any]) -> SharedModel:
        """Rebuild the model from what `describe` returned."""
        settings = TrainingSettings(activation=content["activation"])
        layer = layer_from_parameters(content["layer"], settings=settings)
        rest = [content[name] for name in ("names", "ends", "weight", "bias", "n_epochs", "converged")]
        return cls(layer, *rest)


def score(representation: Floats, weight: Floats, bias: Floats) -> Floats:
    """Return representation x weight^T + bias; a row depends on its own item alone."""
    return np.asarray(multiply_rows(representation, weight.T) + bias)


def wide_softmax(logits: Floats) -> Probabilities:
    """Turn scores into probabilities, row by row, in 64-bit floats."""
    return np.asarray(softmax(logits.astype(np.float64), axis=1))


def train_jointly(
    inputs: FrozenInputs,
    tasks: Sequence[TaskRows],
    *,
    settings: MultiTaskSettings,
    generator: np.random.Generator,
    stop_early: bool = False,
) -> SharedModel:
    """Train a shared layer and the classifiers of all tasks from scratch.

    The order of tasks has no influence: they are taken in the order of their names.

    With `stop_early` the epoch with the highest mean validation accuracy over the tasks that have validation
    rows is kept (of equal ones the first). If no task has any, all epochs are trained.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> from robusttc.random import numpy_generator
    >>> inputs = DenseInputs(np.eye(4, dtype=np.float32))
    >>> tasks = [TaskRows(name, 2, np.arange(4), np.array([0, 0, 1, 1])) for name in "ab"]
    >>> settings = MultiTaskSettings(width=8, epochs=200)
    >>> model = train_jointly(inputs, tasks, settings=settings, generator=numpy_generator(0, "x"))
    >>> model.probabilities("b", inputs).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    tasks = sorted(tasks, key=lambda task: task.name)
    check_rows(tasks)
    layer: Layer = new_layer(inputs, settings=settings.layer_settings(), generator=generator)
    weight = np.concatenate([new_head(layer.width, task.n_labels, generator)[0].T for task in tasks])
    if settings.share_labels:
        # Small, so that what namesakes share has no random differences to undo.
        weight *= np.float32(0.1)
    ends = np.cumsum([task.n_labels for task in tasks])
    bias = np.zeros(int(ends[-1]), dtype=np.float32)
    model = SharedModel(layer, [task.name for task in tasks], ends, np.ascontiguousarray(weight), bias)
    stop_early = stop_early and any(len(task.valid_items) for task in tasks)
    best, best_accuracy = model, -1.0
    for epoch, _ in enumerate(train_epochs(inputs, tasks, model, settings, generator), start=1):
        model.n_epochs = epoch
        if stop_early:
            accuracy = mean_valid_accuracy(inputs, tasks, model)
            if accuracy > best_accuracy:
                best, best_accuracy = model.copy(n_epochs=epoch), accuracy
    if stop_early:
        return best.with_small_heads()
    if settings.head_c > 0:
        model.converged = converge_heads(inputs, tasks, model, settings.head_c)
    return model.with_small_heads()


def train_epochs(
    inputs: FrozenInputs,
    tasks: Sequence[TaskRows],
    model: SharedModel,
    settings: MultiTaskSettings,
    generator: np.random.Generator,
) -> Iterator[None]:
    """Train a model in place, and yield after every epoch."""
    optimiser = Adam(model.layer.parameters(), learning_rate=settings.learning_rate)
    heads = Heads(model.weight, model.bias)
    if settings.share_labels and all(len(task.label_names) == task.n_labels for task in tasks):
        groups = label_groups([name for task in tasks for name in task.label_names])
        heads = SharedLabels(groups, model.weight, model.bias, own_rate=settings.own_rate)
    options = {"balance": settings.balance, "power": settings.power, "cap": settings.cap}
    counts = [expected_counts(task.codes, **options) for task in tasks]  # type: ignore[arg-type]
    n_parts = sum(math.ceil(float(own.sum()) / settings.rows_a_task) for own in counts)
    # Few tasks have smaller steps, so that a small cluster is not trained worse than all tasks together.
    tasks_a_step = min(settings.tasks_a_step, math.ceil(n_parts / LEAST_STEPS))
    steps_an_epoch = math.ceil(n_parts / tasks_a_step)
    n_epochs = settings.count_epochs(steps_an_epoch)
    n_steps = n_epochs * steps_an_epoch

    def rate_at(step: int) -> float:
        # Rounding can make an epoch one step longer: the last ones stand still.
        return settings.learning_rate * 0.5 * (1 + float(np.cos(np.pi * min(1.0, step / n_steps))))

    for _ in range(n_epochs):
        drawn = [draw_rows(own, generator) for own in counts]
        steps = make_steps(
            drawn, rows_a_task=settings.rows_a_task, tasks_a_step=tasks_a_step, generator=generator
        )
        train_steps(
            inputs,
            model.layer,
            heads,
            (make_batch(tasks, model, chosen, rows) for chosen, rows in steps),
            optimiser=optimiser,
            dropout=settings.dropout,
            generator=generator,
            head_rate=settings.head_rate,
            rate_at=rate_at if settings.decay else None,
        )
        heads.refresh(0, len(model.bias))
        yield


def make_batch(
    tasks: Sequence[TaskRows], model: SharedModel, chosen: Numbers, rows: Sequence[Numbers]
) -> Batch:
    """Put together some rows of some tasks."""
    pairs = list(zip(chosen, rows, strict=True))
    return Batch(
        np.concatenate([tasks[task].items[own] for task, own in pairs]),
        np.concatenate([tasks[task].codes[own] for task, own in pairs]),
        np.cumsum([0, *(len(own) for own in rows)]),
        model.starts[chosen],
        model.ends[chosen],
    )


def converge_heads(
    inputs: FrozenInputs, tasks: Sequence[TaskRows], model: SharedModel, head_c: float
) -> tuple[Floats, Floats]:
    """Fit class-balanced classifiers to convergence on the representation as it is now.

    In joint training a small task's classifier is moved by a handful of its rows at a time, under dropout,
    and is far from the best one for its own rows when the layer is ready; but it has learned from namesakes.
    So both serve. A task with rows of one label only keeps the trained one.
    """
    weights, biases = model.weight.copy(), model.bias.copy()
    for task in tasks:
        if len(np.unique(task.codes)) > 1:
            own = model.labels_of(task.name)
            representation = model.layer.represent(inputs.take(task.items))
            weights[own], biases[own] = converge_head(representation, task, head_c)
    return weights, biases


def converge_head(
    representation: Floats, task: TaskRows, head_c: float, near: Any = None, tol: float = 1e-4
) -> tuple[Floats, Floats]:
    """Return weight (labels, width) and bias of one converged classifier; see `fit_softmax`."""
    fitted = fit_softmax(
        representation, task.codes, n_labels=task.n_labels, C=head_c, balanced=True, near=near, tol=tol
    )
    return np.ascontiguousarray(fitted.weight.T, dtype=np.float32), fitted.bias.astype(np.float32)


def check_rows(tasks: Sequence[TaskRows]) -> None:
    """Refuse tasks that nothing can be learned from."""
    if not tasks:
        raise DataError("there are no tasks to train on", expected="at least one task")
    for task in tasks:
        if len(task.items) == 0 or len(task.items) != len(task.codes):
            raise DataError(
                "the task cannot be learned",
                where=f"task {quote(task.name)}",
                got=f"{len(task.items):,} training rows with {len(task.codes):,} labels",
                expected="at least one training row, and one label for each",
            )


def mean_valid_accuracy(inputs: FrozenInputs, tasks: Sequence[TaskRows], model: SharedModel) -> float:
    """Return the mean validation accuracy over the tasks that have validation rows.

    Deviation: the paper takes the accuracy on the union of all validation rows. There a task of thousands of
    rows would decide when all others stop.
    """
    found = []
    for task in tasks:
        if len(task.valid_items):
            predicted = model.logits(task.name, inputs.take(task.valid_items)).argmax(axis=1)
            found.append(float((predicted == task.valid_codes).mean()))
    return float(np.mean(found))


def expected_counts(codes: Numbers, *, balance: float, power: float, cap: int) -> NDArray[np.float64]:
    """Return how often an epoch sees each row of a task, on average.

    A row of a label with m rows counts 1 / m^balance: 0 takes labels as they are, with 1 every label is seen
    alike. A task of n rows has cap * (n / cap)^power of them seen if it has more than `cap`, else all.

    Examples
    --------
    >>> expected_counts(np.array([0, 0, 0, 1]), balance=1.0, power=0.5, cap=100).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    n_rows = len(codes)
    n_seen = n_rows if n_rows <= cap else cap * (n_rows / cap) ** power
    shares = 1.0 / np.bincount(codes)[codes].astype(np.float64) ** balance
    return np.asarray(shares * (n_seen / shares.sum()), dtype=np.float64)


def draw_rows(counts: NDArray[np.float64], generator: np.random.Generator) -> Numbers:
    """Draw rows by systematic sampling: one that should be seen 2.3 times is seen twice or three times."""
    order = generator.permutation(len(counts))
    ends = np.floor(np.cumsum(counts[order]) + generator.random() + 1e-9).astype(np.int64)
    return generator.permutation(np.repeat(order, np.diff(ends, prepend=0)))


def make_steps(
    drawn: Sequence[Numbers], *, rows_a_task: int, tasks_a_step: int, generator: np.random.Generator
) -> Iterator[tuple[Numbers, list[Numbers]]]:
    """Deal an epoch's rows into steps: the tasks of a step in rising order, and the rows of each.

    The rows of a task are cut into parts of at most `rows_a_task`; the parts of all tasks are shuffled, and a
    step takes `tasks_a_step` of them. Parts of the same task that meet are put together.
    """
    parts = [(task, start) for task, rows in enumerate(drawn) for start in range(0, len(rows), rows_a_task)]
    order = generator.permutation(len(parts))
    for first in range(0, len(parts), tasks_a_step):
        by_task: dict[int, list[Numbers]] = {}
        for number in order[first : first + tasks_a_step]:
            task, start = parts[number]
            by_task.setdefault(task, []).append(drawn[task][start : start + rows_a_task])
        tasks = sorted(by_task)
        yield np.array(tasks, dtype=np.int64), [np.concatenate(by_task[task]) for task in tasks]


def label_groups(label_names: Sequence[str]) -> Numbers:
    """Return the same number for labels of the same words, or, without words, of the same characters."""
    keys = np.array([label_key(name) for name in label_names], dtype=object).astype(str)
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


class SharedLabels(Heads):
    """The classifiers of all tasks as sums of a shared and an own part, and the state of their training.

    The weight of label l of task t is ``V[name of l] + D[t, l]``: V is shared by all labels of that name in
    the tasks that are trained together, D is the task's own. Both start small and are trained by Adam, V
    with the full step size and D with a share of it, so what tasks agree on goes to V.

    Deviation: in the paper tasks of a cluster share the encoder only. Half the labels of real intent tasks,
    and nearly all of sentiment and dialogue-act tasks, have namesakes in other tasks, and sharing them is
    worth more than sharing the encoder.

    `groups` has a number per label of every task, see `label_groups`; `weight` and `bias` are the live
    stacked classifiers, which `refresh` keeps the sums; `own_rate` is the step size of D relative to that of
    V.
    """

    def __init__(self, groups: Numbers, weight: Floats, bias: Floats, *, own_rate: float) -> None:
        n_groups = int(groups.max()) + 1
        self.groups, self.own_rate = groups, own_rate
        self.weight, self.bias = weight, bias
        self.shared = {
            "weight": np.zeros((n_groups, weight.shape[1]), dtype=np.float32),
            "bias": np.zeros((n_groups, 1), dtype=np.float32),
        }
        self.own = {"weight": weight.copy(), "bias": bias[:, None].copy()}
        self._shared_optimiser = Adam(self.shared, learning_rate=0.0)
        self._own_optimiser = Adam(self.own, learning_rate=0.0)

    def refresh(self, start: int, end: int) -> None:
        """Bring the sums of some labels up to date: others of their names may have moved meanwhile."""
        groups = self.groups[start:end]
        self.weight[start:end] = self.shared["weight"][groups] + self.own["weight"][start:end]
        self.bias[start:end] = (self.shared["bias"][groups] + self.own["bias"][start:end])[:, 0]

    def step(self, labels: NDArray[np.int32], weight: Floats, bias: Floats, *, learning_rate: float) -> None:
        """Move both parts by the gradients of some labels' sums."""
        touched, places = np.unique(self.groups[labels], return_inverse=True)
        rows, column = touched.astype(np.int32), bias[:, None]
        self._shared_optimiser.learning_rate = learning_rate
        self._shared_optimiser.step(
            {
                "weight": RowGradients(rows, add_up(weight, places, len(rows))),
                "bias": RowGradients(rows, add_up(column, places, len(rows))),
            }
        )
        self._own_optimiser.learning_rate = learning_rate * self.own_rate
        self._own_optimiser.step(
            {"weight": RowGradients(labels, weight), "bias": RowGradients(labels, column)}
        )


@compiled
def add_up(values: Floats, places: Numbers, n_places: int) -> Floats:
    """Add the rows that go to the same place."""
    total = np.zeros((n_places, values.shape[1]), dtype=np.float32)
    for row in range(len(values)):
        total[places[row]] += values[row]
    return total

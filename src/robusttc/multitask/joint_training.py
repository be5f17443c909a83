"""Models of several tasks: one shared layer with one softmax classifier per task, trained together.

The loss of a step is the mean cross-entropy of its rows; the optimiser is Adam, for classifiers and word
vectors only with what a step touches. Big tasks do not drown small ones (`expected_counts`), labels of the
same name share a part of their classifiers (`SharedLabels`), and when the layer is ready a second set of
classifiers is fitted on it to convergence (`converge_heads`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    train_steps,
)
from robusttc.multitask.settings import MultiTaskSettings

__all__ = ["SharedModel", "TaskRows", "converge_head", "softmax", "train_jointly"]

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
    """The rows of a task that models are trained on.

    Attributes
    ----------
    name
        The task's name.
    n_labels
        How many labels its classifier tells apart; not all of them need to occur.
    items, codes
        For every training row, its item among the frozen inputs, and its label.
    valid_items, valid_codes
        The same of the rows that early stopping looks at; there may be none.
    label_names
        The names of its labels, for `SharedLabels`; without them it shares none.
    """

    name: str
    n_labels: int
    items: Numbers
    codes: Numbers
    valid_items: Numbers = field(default_factory=no_numbers)
    valid_codes: Numbers = field(default_factory=no_numbers)
    label_names: tuple[str, ...] = ()


class SharedModel:
    """A trained layer, and the softmax classifiers of several tasks on it.

    Parameters
    ----------
    layer
        From frozen inputs to representations.
    names
        The tasks.
    ends
        Where the labels of each task end among those of all.
    weight, bias
        The classifiers stacked, shapes (all labels, width) and (all labels,).
    n_epochs
        After how many epochs this is the model; 0 if it was not trained.
    converged
        Weight and bias of a second set of classifiers, of the same shapes, fitted to convergence on the
        trained layer; None for none. Probabilities are then the mean of both.

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
        """Return a model of its own with the same parameters."""
        converged = None if self.converged is None else (self.converged[0].copy(), self.converged[1].copy())
        heads = (self.weight.copy(), self.bias.copy())
        return SharedModel(self.layer.clone(), self.names, self.ends, *heads, n_epochs, converged)

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
        own = self.labels_of(name)
        representation = self.layer.represent(inputs)
        trained = softmax(score(representation, self.weight[own], self.bias[own]))
        if self.converged is None:
            return trained
        weight, bias = self.converged
        return (trained + softmax(CONVERGED_SHARPNESS * score(representation, weight[own], bias[own]))) / 2

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what a file needs to rebuild the model: values for JSON, and arrays."""
        arrays: dict[str, NDArray[Any]] = {
            f"layer.{key}": array for key, array in self.layer.parameters().items()
        }
        arrays |= {"weight": self.weight, "bias": self.bias, "ends": self.ends}
        if self.converged is not None:
            arrays |= {"converged weight": self.converged[0], "converged bias": self.converged[1]}
        activation = getattr(self.layer, "activation", "relu")
        return {"names": list(self.names), "activation": activation, "n_epochs": self.n_epochs}, arrays

    @classmethod
    def from_description(cls, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SharedModel:
        """Rebuild the model from what `describe` returned."""
        parameters = {
            key.removeprefix("layer."): array for key, array in arrays.items() if key.startswith("layer.")
        }
        layer = layer_from_parameters(parameters, settings=TrainingSettings(activation=values["activation"]))
        converged = None
        if "converged weight" in arrays:
            converged = (arrays["converged weight"], arrays["converged bias"])
        heads = (arrays["weight"], arrays["bias"])
        return cls(layer, values["names"], arrays["ends"], *heads, values["n_epochs"], converged)


def score(representation: Floats, weight: Floats, bias: Floats) -> Floats:
    """Return representation x weight^T + bias; a row depends on its own item alone."""
    logits: Floats = multiply_rows(representation, weight.T)
    logits += bias
    return logits


def softmax(logits: Floats) -> Probabilities:
    """Turn scores into probabilities, row by row, in 64-bit floats.

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]], dtype=np.float32)).tolist()
    [[0.5, 0.5]]
    """
    wide = logits.astype(np.float64)
    shares = np.exp(wide - wide.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float64)


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

    Raises
    ------
    DataError
        If there are no tasks, or one has no rows.

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
        return best
    if settings.head_c > 0:
        model.converged = converge_heads(inputs, tasks, model, settings.head_c)
    return model


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


def converge_head(representation: Floats, task: TaskRows, head_c: float) -> tuple[Floats, Floats]:
    """Return weight (labels, width) and bias of one converged classifier."""
    fitted = fit_softmax(representation, task.codes, n_labels=task.n_labels, C=head_c, balanced=True)
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
    """Draw rows by systematic sampling: one that should be seen 2.3 times is seen twice or three times.

    Examples
    --------
    >>> from robusttc.random import numpy_generator
    >>> rows = draw_rows(np.array([1.0, 2.0, 0.5, 0.5]), numpy_generator(0, "rows"))
    >>> np.bincount(rows, minlength=4)[:2].tolist(), len(rows)
    ([1, 2], 4)
    """
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
    """Return the same number for labels of the same words, or, without words, of the same characters.

    Examples
    --------
    >>> label_groups(["thank_you", "ThankYou", "1", "-1", "1"]).tolist()
    [2, 2, 1, 0, 1]
    """
    keys = np.array([label_key(name) for name in label_names], dtype=object).astype(str)
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


class SharedLabels(Heads):
    """The classifiers of all tasks as sums of a shared and an own part, and the state of their training.

    The weight of label l of task t is ``V[name of l] + D[t, l]``: V is shared by all labels of that name in
    the tasks that are trained together, D is the task's own. Both start small and are trained by Adam, V
    with the full step size and D with a share of it, so what tasks agree on goes to V. A name means the same
    thing to tasks of one cluster far more often than to all tasks ("1" of two sentiment tasks, "inform" of
    two dialogues).

    Deviation: in the paper tasks of a cluster share the encoder only. Half the labels of real intent tasks,
    and nearly all of sentiment and dialogue-act tasks, have namesakes in other tasks, and sharing them is
    worth more than sharing the encoder.

    Parameters
    ----------
    groups
        Which labels share a part, see `label_groups`; one number per label of every task.
    weight, bias
        The live classifiers of all tasks stacked, shapes (labels, width) and (labels,). They are the sums,
        and kept so by `refresh`.
    own_rate
        The step size of the own parts relative to that of the shared ones.
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

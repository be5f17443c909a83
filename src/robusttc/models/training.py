"""How a layer and the heads on top of it are trained, on the rows of one task or of many.

One loop, `train_steps`, serves both: a batch has rows of one or several tasks, the heads of all tasks are
stacked, and a step moves the layer and the heads of the tasks in the batch. `train_model` trains one task,
`train_single_task` makes the best model of a task: trained, then averaged with a head solved to convergence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data import Task
from robusttc.encoders import FrozenInputs, PreparedTasks, WordInputs
from robusttc.errors import DataError, UsageError, quote
from robusttc.models.convolution import ConvolutionLayer
from robusttc.models.layers import (
    DenseLayer,
    Gradients,
    Layer,
    ResidualLayer,
    RowGradients,
    compiled,
    head_gradients,
    multiply_rows,
    new_head,
)
from robusttc.models.softmax import fit_softmax
from robusttc.params import Choice, Integer, Number, Settings
from robusttc.random import numpy_generator

__all__ = [
    "HEAD_C",
    "Activation",
    "Adam",
    "Batch",
    "Embeddings",
    "Heads",
    "TrainedModel",
    "TrainingSettings",
    "add_converged_head",
    "draw_batches",
    "layer_from_parameters",
    "new_layer",
    "train_model",
    "train_single_task",
    "train_steps",
]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Embeddings = Literal["frozen", "pretrained", "random"]
Activation = Literal["relu", "linear", "residual"]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8

# Both chosen on the validation rows of 175 intent tasks, one value for all tasks and both encoders: the mean
# of the two heads beats each of them on convolutions, and is as good as the better one on sentence vectors.
HEAD_C = 3.0
PRIOR_CORRECTION = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings(Settings):
    """How one model is trained; checked when it is made, immutable.

    There is no early stopping. Small tasks have a few dozen validation rows, and stopping by those starves
    them: 55 to 60 % mean accuracy on small intent tasks, against 72 % with a fixed 40 epochs.

    Parameters
    ----------
    width
        Width of a representation: the filters of a convolution, the outputs of a dense layer.
    window
        How many neighbouring words a filter of a convolution covers.
    epochs
        How often every row is seen.
    min_steps
        Least number of steps. A task with so few rows that `epochs` would give fewer gets more epochs, always
        whole ones: ten rows in batches of 32 make one step per epoch.
    learning_rate
        Step size of Adam.
    batch_size
        Rows per step; the last batch of an epoch may have fewer.
    dropout
        Share of the representation that is set to zero in training, from 0 up to but not including 1.
    embeddings
        Word vectors of a convolution: ``frozen`` keeps them, ``pretrained`` trains them from the given ones,
        ``random`` trains them from random ones.
    activation
        Activation of a dense layer: ``relu`` or ``linear`` (none). ``residual`` uses a layer that adds a
        learned correction to its input (`robusttc.models.layers.ResidualLayer`): `width` is then that of its
        hidden part, and a representation is as wide as the input.

    Raises
    ------
    UsageError
        If a value cannot be used.

    Examples
    --------
    >>> settings = TrainingSettings(epochs=10, min_steps=0)
    >>> settings.replace(width=16).width, settings.count_epochs(100)
    (16, 10)
    """

    width: int = 200
    window: int = 5
    epochs: int = 40
    min_steps: int = 200
    learning_rate: float = 3e-3
    batch_size: int = 32
    dropout: float = 0.5
    embeddings: Embeddings = "frozen"
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        self._check(
            {
                **dict.fromkeys(("width", "window", "epochs", "batch_size"), (Integer(1),)),
                "min_steps": (Integer(0),),
                "learning_rate": (Number(0, excludes=("low",)),),
                "dropout": (Number(0, 1, excludes=("high",)),),
                "embeddings": (Choice(*get_args(Embeddings)),),
                "activation": (Choice(*get_args(Activation)),),
            }
        )

    def count_epochs(self, n_rows: int) -> int:
        """Return the number of epochs for a task of so many rows; see `min_steps`."""
        steps_per_epoch = -(-n_rows // self.batch_size)
        return max(self.epochs, -(-self.min_steps // max(steps_per_epoch, 1)))


def new_layer(
    inputs: FrozenInputs, *, settings: TrainingSettings, generator: np.random.Generator
) -> ConvolutionLayer | DenseLayer | ResidualLayer:
    """Return the layer for a kind of inputs, with random weights.

    A convolution for words; for vectors a dense layer, or a residual one if the settings say so.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> inputs = DenseInputs(np.eye(3, dtype=np.float32))
    >>> layer = new_layer(inputs, settings=TrainingSettings(width=4), generator=numpy_generator(0, "layer"))
    >>> layer.represent(inputs).shape
    (3, 4)
    """
    if isinstance(inputs, WordInputs):
        return ConvolutionLayer.new(inputs, settings=settings, generator=generator)
    if settings.activation == "residual":
        return ResidualLayer.new(inputs, settings=settings, generator=generator)
    return DenseLayer.new(inputs, settings=settings, generator=generator)


def layer_from_parameters(
    parameters: Mapping[str, Floats], *, settings: TrainingSettings
) -> ConvolutionLayer | DenseLayer | ResidualLayer:
    """Return a layer made from what `Layer.parameters` returned, for instance after reading it from a file.

    Raises
    ------
    DataError
        If the names are not those of a layer.
    UsageError
        If the shapes do not fit each other.

    Examples
    --------
    >>> layer = DenseLayer(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))
    >>> layer_from_parameters(layer.parameters(), settings=TrainingSettings()).width
    2
    """
    names = set(parameters)
    if names == {"weight", "bias"}:
        return DenseLayer(parameters["weight"], parameters["bias"], settings.activation)
    if names == {"weight", "bias", "output"} and settings.activation == "residual":
        return ResidualLayer(parameters["weight"], parameters["bias"], parameters["output"])
    if names in ({"filters", "bias"}, {"filters", "bias", "vectors"}):
        return ConvolutionLayer(parameters["filters"], parameters["bias"], parameters.get("vectors"))
    raise DataError(
        "these are not the parameters of a layer",
        got=quote(sorted(names)),
        expected="weight and bias, with or without output, or filters and bias, with or without vectors",
    )


class Adam:
    """Adam on named arrays, which it changes in place, in 32-bit floats.

    With gradient g at step t: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, and the parameter moves by
    -rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon).

    Deviation: of a matrix with `RowGradients` only the touched rows move, and only their averages decay (the
    paper's Adam would move every word vector at every step); the number of steps counts all steps. A step
    then costs what the batch's words cost, not what the vocabulary costs.

    Parameters
    ----------
    parameters
        The live arrays, by name, each contiguous.
    learning_rate
        The step size; it may be changed between steps.
    weight_decay
        Decoupled weight decay: a weight that moves is first multiplied by 1 - learning_rate * weight_decay.
        Biases and word vectors (``bias``, ``vectors``) are exempt.

    Examples
    --------
    >>> weight = np.zeros(2, dtype=np.float32)
    >>> Adam({"weight": weight}, learning_rate=0.5).step({"weight": np.array([3.0, -0.1], np.float32)})
    >>> weight.round(4).tolist()
    [-0.5, 0.5]
    """

    def __init__(
        self, parameters: Mapping[str, Floats], *, learning_rate: float, weight_decay: float = 0.0
    ) -> None:
        self.parameters = dict(parameters)
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.n_steps = 0
        self._first = {name: np.zeros_like(array) for name, array in parameters.items()}
        self._second = {name: np.zeros_like(array) for name, array in parameters.items()}

    def step(self, gradients: Mapping[str, Floats | RowGradients]) -> None:
        """Move the parameters that have a gradient."""
        self.n_steps += 1
        root = (1 - BETA_2**self.n_steps) ** 0.5
        # The corrections of m and v, moved out of the loops: the same formula with fewer operations.
        rate = np.float32(self.learning_rate * root / (1 - BETA_1**self.n_steps))
        epsilon = np.float32(EPSILON * root)
        shrinking = np.float32(1 - self.learning_rate * self.weight_decay)
        for name, gradient in gradients.items():
            parameter, first, second = self.parameters[name], self._first[name], self._second[name]
            decays = self.weight_decay > 0 and name not in ("bias", "vectors")
            if isinstance(gradient, RowGradients):
                if decays:
                    parameter[gradient.rows] *= shrinking
                move_rows(parameter, first, second, gradient.rows, gradient.values, rate, epsilon)
            else:
                if decays:
                    parameter *= shrinking
                parameter, first, second = (array.reshape(-1) for array in (parameter, first, second))
                move_all(parameter, first, second, gradient.reshape(-1), rate, epsilon)


@compiled
def move_all(
    parameter: Floats, first: Floats, second: Floats, gradient: Floats, rate: np.float32, epsilon: np.float32
) -> None:
    """Make one step with a flat array."""
    keep_1, add_1 = np.float32(BETA_1), np.float32(1 - BETA_1)
    keep_2, add_2 = np.float32(BETA_2), np.float32(1 - BETA_2)
    for i in range(len(parameter)):
        g = gradient[i]
        m = keep_1 * first[i] + add_1 * g
        v = keep_2 * second[i] + add_2 * g * g
        first[i] = m
        second[i] = v
        parameter[i] -= rate * m / (np.sqrt(v) + epsilon)


@compiled
def move_rows(
    parameter: Floats,
    first: Floats,
    second: Floats,
    rows: NDArray[np.int32],
    values: Floats,
    rate: np.float32,
    epsilon: np.float32,
) -> None:
    """Make one step with some rows of a matrix."""
    for i in range(len(rows)):
        row = rows[i]
        move_all(parameter[row], first[row], second[row], values[i], rate, epsilon)


class Heads:
    """The softmax classifiers of one or many tasks, stacked, and Adam on those in a batch.

    Parameters
    ----------
    weight, bias
        The live arrays, shapes (all labels, width) and (all labels,).
    weight_decay
        See `Adam`.
    """

    def __init__(self, weight: Floats, bias: Floats, *, weight_decay: float = 0.0) -> None:
        self.weight, self.bias = weight, bias
        # The bias as rows of one number, a view: only those of the tasks in a batch move.
        arrays = {"weight": weight, "bias": bias[:, None]}
        self._optimiser = Adam(arrays, learning_rate=0.0, weight_decay=weight_decay)

    def refresh(self, start: int, end: int) -> None:
        """Bring a range of labels up to date before it is used; for heads that are sums of shared parts."""

    def step(self, labels: NDArray[np.int32], weight: Floats, bias: Floats, *, learning_rate: float) -> None:
        """Move the heads of some labels by their gradients."""
        self._optimiser.learning_rate = learning_rate
        self._optimiser.step(
            {"weight": RowGradients(labels, weight), "bias": RowGradients(labels, bias[:, None])}
        )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of one or several tasks; those of a task are contiguous.

    Attributes
    ----------
    items, codes
        For every row, its item among the inputs, and its label, counted within its task.
    row_starts
        Where the rows of each task begin, and where the last ones end, shape (tasks + 1,).
    label_starts, label_ends
        The range of each task's labels among the stacked heads.
    """

    items: Numbers
    codes: Numbers
    row_starts: Numbers
    label_starts: Numbers
    label_ends: Numbers


def train_steps(
    inputs: FrozenInputs,
    layer: Layer,
    heads: Heads,
    batches: Iterable[Batch],
    *,
    optimiser: Adam,
    dropout: float,
    generator: np.random.Generator,
    smoothing: float = 0.0,
    head_rate: float = 1.0,
    rate_at: Callable[[int], float] | None = None,
) -> None:
    """Make one step of training per batch: the loop of single-task and of joint training.

    The loss is the mean cross-entropy of the batch's rows, with dropout on the representation. Every batch
    takes one draw of 32-bit floats, shape (rows, width): a number is dropped where its draw is below
    `dropout`. Without dropout nothing is drawn.

    Parameters
    ----------
    inputs
        The inputs that the items of the batches belong to.
    layer, heads
        What is trained, in place.
    batches
        May be drawn from `generator` as they are needed.
    optimiser
        Adam on the parameters of the layer.
    dropout
        Share of the representation that is dropped.
    generator
        Source of the draws of dropout.
    smoothing
        Label smoothing.
    head_rate
        Step size of the heads relative to that of the layer.
    rate_at
        The step size by the number of steps so far; None leaves that of the optimiser.
    """
    threshold, scale = np.float32(dropout), np.float32(1 / (1 - dropout))
    for batch in batches:
        if rate_at is not None:
            optimiser.learning_rate = rate_at(optimiser.n_steps)
        for start, end in zip(batch.label_starts.tolist(), batch.label_ends.tolist(), strict=True):
            heads.refresh(start, end)
        representation = layer.forward(inputs, batch.items)
        kept: Floats | None = None
        if dropout > 0:
            draws = generator.random(representation.shape, dtype=np.float32)
            kept = np.multiply(draws >= threshold, scale, dtype=np.float32)
            representation = representation * kept
        _, gradient, labels, weight_gradient, bias_gradient = head_gradients(
            representation,
            batch.row_starts,
            batch.label_starts,
            batch.label_ends,
            batch.codes,
            heads.weight,
            heads.bias,
            smoothing,
        )
        if kept is not None:
            gradient *= kept
        gradients: Gradients = layer.backward(gradient)
        optimiser.step(gradients)
        heads.step(labels, weight_gradient, bias_gradient, learning_rate=optimiser.learning_rate * head_rate)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A trained layer with the head of one task.

    Attributes
    ----------
    layer
        From inputs to representations.
    head_weight, head_bias
        From representations to labels, shapes (width, labels) and (labels,).
    """

    layer: Layer
    head_weight: Floats
    head_bias: Floats

    def logits(self, inputs: FrozenInputs) -> Floats:
        """Return the logits of every item; those of an item depend on the item alone."""
        return multiply_rows(self.layer.represent(inputs), self.head_weight) + self.head_bias

    def predict_codes(self, inputs: FrozenInputs) -> Numbers:
        """Return the label with the highest logit for every item."""
        return np.asarray(self.logits(inputs).argmax(axis=1), dtype=np.int64)

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Return the probability of every label for every item."""
        logits = self.logits(inputs)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float32)


def draw_batches(
    codes: Numbers, *, n_labels: int, settings: TrainingSettings, generator: np.random.Generator
) -> Iterator[Batch]:
    """Yield the batches of the whole training of one task: every epoch all rows, in a newly drawn order.

    Examples
    --------
    >>> settings = TrainingSettings(batch_size=2, epochs=1, min_steps=0)
    >>> batches = draw_batches(
    ...     np.array([0, 1, 0, 1, 0]), n_labels=2, settings=settings, generator=numpy_generator(0, "batches")
    ... )
    >>> [len(batch.items) for batch in batches]
    [2, 2, 1]
    """
    label_starts, label_ends = np.array([0]), np.array([n_labels])
    for _ in range(settings.count_epochs(len(codes))):
        order = generator.permutation(len(codes))
        for start in range(0, len(codes), settings.batch_size):
            rows = order[start : start + settings.batch_size]
            yield Batch(rows, codes[rows], np.array([0, len(rows)]), label_starts, label_ends)


def train_model(
    inputs: FrozenInputs,
    codes: ArrayLike,
    *,
    n_labels: int,
    settings: TrainingSettings,
    generator: np.random.Generator,
) -> TrainedModel:
    """Train a layer and a head on the rows of one task.

    The loss is the mean cross-entropy of a batch, with dropout on the representation; the optimiser is Adam;
    the number of epochs is fixed (see `TrainingSettings`). Random draws come from `generator` alone, in this
    order: the layer's weights, the head's weights, then per epoch the order of the rows and per batch the
    dropout. The same arguments give the same model.

    Parameters
    ----------
    inputs
        The inputs of the training rows.
    codes
        The label of every row, from 0 to ``n_labels - 1``.
    n_labels
        Number of labels; not all of them need to occur.
    settings
        How to train.
    generator
        Source of all random draws.

    Raises
    ------
    DataError
        If there are no rows, fewer than two labels among them, or a label out of range.
    UsageError
        If the labels are not one integer for each row.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> inputs = DenseInputs(np.eye(2, dtype=np.float32))
    >>> settings, generator = TrainingSettings(width=8), numpy_generator(0, "train")
    >>> model = train_model(inputs, [0, 1], n_labels=2, settings=settings, generator=generator)
    >>> model.predict_codes(inputs).tolist()
    [0, 1]
    """
    labels = check_codes(codes, n_rows=len(inputs), n_labels=n_labels)
    layer = new_layer(inputs, settings=settings, generator=generator)
    weight, bias = new_head(layer.width, n_labels, generator)
    heads = Heads(np.ascontiguousarray(weight.T), bias)
    train_steps(
        inputs,
        layer,
        heads,
        draw_batches(labels, n_labels=n_labels, settings=settings, generator=generator),
        optimiser=Adam(layer.parameters(), learning_rate=settings.learning_rate),
        dropout=settings.dropout,
        generator=generator,
    )
    return TrainedModel(layer, np.ascontiguousarray(heads.weight.T), bias)


def check_codes(codes: ArrayLike, *, n_rows: int, n_labels: int) -> Numbers:
    """Return the labels of the rows as an array; refuse those that nothing can be learned from."""
    labels = np.asarray(codes)
    if labels.shape != (n_rows,) or (n_rows and labels.dtype.kind not in "iu"):
        raise UsageError(
            "the labels do not fit the inputs",
            got=f"{labels.dtype} of shape {labels.shape}",
            expected=f"one integer for each of {n_rows:,} rows",
        )
    if n_rows == 0:
        raise DataError("there are no rows to train on", expected="at least one row of each of two labels")
    if labels.min() < 0 or labels.max() >= n_labels:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise DataError(
            "a label is out of range", got=str(wrong), expected=f"numbers from 0 to {n_labels - 1:,}"
        )
    if labels.min() == labels.max():
        raise DataError(
            "all rows have the same label, so there is nothing to learn",
            got=f"label {labels[0]} in all of {n_rows:,} rows",
            expected="at least two labels",
            todo="add rows of another label, or leave the task out",
        )
    return labels.astype(np.int64)


def train_single_task(
    task: Task,
    prepared: PreparedTasks,
    *,
    settings: TrainingSettings,
    seed: int,
    head_c: float | None = HEAD_C,
    balanced: bool = True,
) -> TrainedModel:
    """Train the model of one task on its rows in ``train``.

    It depends on these rows, their features, the settings and the seed, and not on any other task.

    Parameters
    ----------
    task
        The task.
    prepared
        The features of at least its training rows.
    settings
        How to train.
    seed
        The seed of the run; draws come from the child seed of stage ``model`` and the task's name.
    head_c
        Inverse strength of the penalty of the head that is fitted to convergence (see `fit_softmax`); None
        omits it, so that the head is that of the last epoch.
        Deviation: the paper has the last epoch's alone. On small tasks with many labels the average of the
        two is better.
    balanced
        Whether all labels weigh the same; without `head_c` it has no effect.

    Returns
    -------
    TrainedModel
        Its codes are those of ``task.label_names``; a label without a training row is never predicted.

    Raises
    ------
    DataError
        If the task has no training rows, or all of them have the same label.
    UsageError
        If its training rows were not encoded, or an option cannot be used.

    Examples
    --------
    >>> from robusttc.data import TaskSet
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> prepared = FeatureEncoder({"acme": np.eye(2)}).prepare(TaskSet([task]))
    >>> model = train_single_task(task, prepared, settings=TrainingSettings(width=8), seed=0)
    >>> [task.label_names[code] for code in model.predict_codes(prepared.inputs)]
    ['greet', 'leave']
    """
    rows = task.rows("train")
    codes = task.label_codes[rows].astype(np.int64)
    where = f"task {quote(task.name)}"
    if len(np.unique(codes)) < 2:
        raise DataError(
            "the task cannot be learned",
            where=where,
            got=f"{len(rows):,} training rows, all of label {quote(task.label_names[codes[0]])}"
            if len(rows)
            else "no training rows",
            expected="training rows of at least two labels",
            todo="add rows of another label, or leave the task out",
        )
    if (prepared.items_of(task.name, rows) < 0).any():
        raise UsageError(
            "the training rows of the task are not prepared",
            where=where,
            todo="prepare the split 'train' too",
        )
    inputs = prepared.inputs_of(task.name, rows)
    model = train_model(
        inputs,
        codes,
        n_labels=len(task.label_names),
        settings=settings,
        generator=numpy_generator(seed, "model", [task.name]),
    )
    return model if head_c is None else add_converged_head(model, inputs, codes, head_c, balanced)


def add_converged_head(
    model: TrainedModel, inputs: FrozenInputs, codes: Numbers, head_c: float, balanced: bool
) -> TrainedModel:
    """Return the model with its head averaged with one that is fitted to convergence on its representation.

    Both are linear, so the mean of their logits is again one linear head. The trained head saw the labels as
    often as they occur and favours the frequent ones; where labels are to weigh the same, part of that is
    taken back: its logit of a label loses `PRIOR_CORRECTION` times the logarithm of the label's share.
    """
    n_labels = len(model.head_bias)
    fitted = fit_softmax(model.layer.represent(inputs), codes, n_labels=n_labels, C=head_c, balanced=balanced)
    weight = (model.head_weight + fitted.weight) / 2
    bias = (model.head_bias + fitted.bias) / 2
    if balanced:
        # A label without rows has no share, and is never predicted anyway.
        shares = np.bincount(codes, minlength=n_labels).clip(1) / len(codes)
        bias -= PRIOR_CORRECTION / 2 * np.log(shares)
    return dataclasses.replace(
        model, head_weight=weight.astype(np.float32), head_bias=bias.astype(np.float32)
    )

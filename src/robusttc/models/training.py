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
from scipy.special import softmax

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
    head_gradients,
    multiply_rows,
    new_head,
)
from robusttc.models.optimiser import Adam
from robusttc.models.softmax import check_codes, fit_softmax
from robusttc.params import Choice, Integer, Number, Settings
from robusttc.random import numpy_generator

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Embeddings = Literal["frozen", "pretrained", "random"]
Activation = Literal["relu", "linear", "residual"]

# Both chosen on the validation rows of 175 intent tasks, one value for all tasks and both encoders: the mean
# of the two heads beats each of them on convolutions, and is as good as the better one on sentence vectors.
HEAD_C = 3.0
PRIOR_CORRECTION = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings(Settings):
    """How one model is trained; checked when it is made, immutable.

    There is no early stopping. Small tasks have a few dozen validation rows, and stopping by those starves
    them: 55 to 60 % mean accuracy on small intent tasks, against 72 % with a fixed 40 epochs.

    Examples
    --------
    >>> settings = TrainingSettings(epochs=10, min_steps=0)
    >>> settings.replace(width=16).width, settings.count_epochs(100)
    (16, 10)
    """

    width: int = 200  # of a representation: the filters of a convolution, the outputs of a dense layer
    window: int = 5  # how many neighbouring words a filter of a convolution covers
    # How often every row is seen, and the least number of steps. A task with so few rows that `epochs` would
    # give fewer gets more epochs, always whole ones: ten rows in batches of 32 make one step per epoch.
    epochs: int = 40
    min_steps: int = 200
    learning_rate: float = 3e-3  # of Adam
    batch_size: int = 32  # rows per step; the last batch of an epoch may have fewer
    dropout: float = 0.5  # share of the representation that is set to zero in training
    # Word vectors of a convolution: `frozen` keeps them, `pretrained` trains them from the given ones,
    # `random` from random ones.
    embeddings: Embeddings = "frozen"
    # Of a dense layer: `relu` or `linear` (none). `residual` uses a layer that adds a learned correction to
    # its input (`ResidualLayer`): `width` is then that of its hidden part.
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
    """Return a layer with random weights: a convolution for words; for vectors a dense or residual one."""
    if isinstance(inputs, WordInputs):
        return ConvolutionLayer.new(inputs, settings=settings, generator=generator)
    if settings.activation == "residual":
        return ResidualLayer.new(inputs, settings=settings, generator=generator)
    return DenseLayer.new(inputs, settings=settings, generator=generator)


def layer_from_parameters(
    parameters: Mapping[str, Floats], *, settings: TrainingSettings
) -> ConvolutionLayer | DenseLayer | ResidualLayer:
    """Return the layer that had these `Layer.parameters`, for instance before they were written to a file.

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


class Heads:
    """The softmax classifiers of one or many tasks, stacked, and Adam on those in a batch.

    `weight` (all labels, width) and `bias` are live arrays.
    """

    def __init__(self, weight: Floats, bias: Floats) -> None:
        self.weight, self.bias = weight, bias
        # The bias as rows of one number, a view: only those of the tasks in a batch move.
        self._optimiser = Adam({"weight": weight, "bias": bias[:, None]}, learning_rate=0.0)

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
    """Rows of one or several tasks; those of a task are contiguous."""

    items: Numbers  # of every row, among the inputs
    codes: Numbers  # the labels, counted within each task
    row_starts: Numbers  # (tasks + 1,): where the rows of each task begin, and where the last ones end
    label_starts: Numbers  # (tasks,): the range of each task's labels among the stacked heads
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
    head_rate: float = 1.0,
    rate_at: Callable[[int], float] | None = None,
) -> None:
    """Make one step of training per batch: the loop of single-task and of joint training.

    The loss is the mean cross-entropy of the batch's rows, with dropout on the representation. Every batch
    takes one draw of 32-bit floats, shape (rows, width): a number is dropped where its draw is below
    `dropout`. Without dropout nothing is drawn. `layer` and `heads` are trained in place; `optimiser` is that
    of the layer, `head_rate` the step size of the heads relative to it, and `rate_at` returns the step size
    by the number of steps so far.
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
        )
        if kept is not None:
            gradient *= kept
        gradients: Gradients = layer.backward(gradient)
        optimiser.step(gradients)
        heads.step(labels, weight_gradient, bias_gradient, learning_rate=optimiser.learning_rate * head_rate)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A trained layer with the head of one task."""

    layer: Layer
    head_weight: Floats  # (width, labels)
    head_bias: Floats

    def logits(self, inputs: FrozenInputs) -> Floats:
        """Return the logits of every item; those of an item depend on the item alone."""
        return multiply_rows(self.layer.represent(inputs), self.head_weight) + self.head_bias

    def predict_codes(self, inputs: FrozenInputs) -> Numbers:
        """Return the label with the highest logit for every item."""
        return np.asarray(self.logits(inputs).argmax(axis=1), dtype=np.int64)

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Return the probability of every label for every item."""
        return np.asarray(softmax(self.logits(inputs), axis=1), dtype=np.float32)


def draw_batches(
    codes: Numbers, *, n_labels: int, settings: TrainingSettings, generator: np.random.Generator
) -> Iterator[Batch]:
    """Yield the batches of the whole training of one task: every epoch all rows, in a newly drawn order."""
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
    dropout. The same arguments give the same model. Not all labels need to occur in `codes`, but two.

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


def training_rows(task: Task) -> NDArray[np.intp]:
    """Return the rows of a task in ``train``; raise a DataError if they have fewer than two labels."""
    rows = task.rows("train")
    found = np.unique(task.label_codes[rows])
    if len(found) < 2:
        only = (
            f"{len(rows):,} training rows, all of label {quote(task.label_names[found[0]])}"
            if len(found)
            else ""
        )
        raise DataError(
            "the task cannot be learned",
            where=f"task {quote(task.name)}",
            got=only or "no training rows",
            expected="training rows of at least two labels",
            todo="add rows of another label, or leave the task out",
        )
    return rows


def train_single_task(
    task: Task,
    prepared: PreparedTasks,
    *,
    settings: TrainingSettings,
    seed: int,
    head_c: float | None = HEAD_C,
    balanced: bool = True,
) -> TrainedModel:
    """Train the model of one task on its rows in ``train``; no other task has an influence.

    `head_c` is the inverse strength of the penalty of the head that is fitted to convergence (see
    `fit_softmax`), with all labels weighing the same if `balanced`; None omits it, so that the head is that
    of the last epoch. A label without a training row is never predicted. Deviation: the paper has the last
    epoch's head alone. On small tasks with many labels the average of the two is better.

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
    rows = training_rows(task)
    codes = task.label_codes[rows].astype(np.int64)
    if (prepared.items_of(task.name, rows) < 0).any():
        raise UsageError(
            "the training rows of the task are not prepared",
            where=f"task {quote(task.name)}",
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

"""The training of one single-task model: a layer and a softmax classifier, together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.encoders import FrozenInputs, resolve_device
from robusttc.encoders.adam import Adam
from robusttc.encoders.head import head_gradients
from robusttc.encoders.layer import new_layer
from robusttc.encoders.model import TrainedModel
from robusttc.encoders.schedule import draw_batches, new_head
from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import DataError, UsageError

__all__ = ["check_codes", "train_model"]


def train_model(
    inputs: FrozenInputs,
    codes: ArrayLike,
    *,
    n_labels: int,
    settings: TrainingSettings,
    generator: np.random.Generator,
    device: str = "cpu",
) -> TrainedModel:
    """Train a layer and a softmax classifier on the rows of one task.

    The loss is the mean cross-entropy of a batch, with dropout on the representation; the optimiser is Adam;
    the number of epochs is fixed (see `TrainingSettings`). Random draws come from `generator` only, in this
    order: the layer's weights, the classifier's weights, and then what `draw_batches` draws. The same
    arguments give the same model.

    Parameters
    ----------
    inputs
        The frozen inputs of the training rows.
    codes
        The label of every row, a number from 0 up to `n_labels` - 1.
    n_labels
        How many labels the classifier tells apart; not all of them need to occur.
    settings
        How to train.
    generator
        Where all random draws come from.
    device
        ``cpu`` trains with compiled loops of our own; anything else (see `resolve_device`) with torch.

    Raises
    ------
    DataError
        If there are no rows, fewer than two labels among them, or a label out of range.
    UsageError
        If the device is not there.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> from robusttc.random import numpy_generator
    >>> inputs = DenseInputs(np.eye(2, dtype=np.float32))
    >>> settings, generator = TrainingSettings(width=8), numpy_generator(0, "train")
    >>> model = train_model(inputs, [0, 1], n_labels=2, settings=settings, generator=generator)
    >>> model.predict_codes(inputs).tolist()
    [0, 1]
    """
    labels = check_codes(codes, n_rows=len(inputs), n_labels=n_labels)
    where = resolve_device(device)
    if where != "cpu":
        from robusttc.encoders.torch_training import train_with_torch

        return train_with_torch(
            inputs, labels, n_labels=n_labels, settings=settings, generator=generator, device=where
        )
    layer = new_layer(inputs, settings=settings, generator=generator)
    weight, bias = new_head(layer.width, n_labels, generator)
    parameters = {**layer.parameters(), "head_weight": weight, "head_bias": bias}
    optimiser = Adam(parameters, learning_rate=settings.learning_rate)
    batches = draw_batches(len(inputs), settings=settings, generator=generator, width=layer.width)
    for rows, kept in batches:
        representation = layer.forward(inputs, rows)
        _, gradient, weight_gradient, bias_gradient = head_gradients(
            representation, kept, settings.dropout, labels[rows], weight, bias
        )
        gradients = layer.backward(gradient)
        optimiser.step({**gradients, "head_weight": weight_gradient, "head_bias": bias_gradient})
    return TrainedModel(layer, weight, bias)


def check_codes(codes: ArrayLike, *, n_rows: int, n_labels: int) -> NDArray[np.int64]:
    """Give the labels of the rows as an array; refuse those that nothing can be learned from."""
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

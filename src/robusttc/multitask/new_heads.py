"""The classifier of a task that comes later, on the frozen layer of a model of other tasks.

It is trained as in joint training (`robusttc.multitask.joint_steps`), but the layer stands still. What other
tasks know of labels of the same name is not lost: a classifier begins with the mean of its namesakes'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.models import Adam, fit_softmax, head_gradients, label_key, new_head
from robusttc.multitask.sampling import draw_rows, expected_counts
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.shared_model import SharedModel, score

__all__ = ["Head", "HeadRows", "first_head", "train_head"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """A classifier on the layer of a shared model; see `robusttc.multitask.shared_model.SharedModel`.

    Attributes
    ----------
    weight, bias
        The trained classifier, shapes (labels, width) and (labels,).
    converged
        Weight and bias of the one that was fitted to convergence; None for none.
    n_epochs
        After how many epochs this is the classifier.
    """

    weight: Floats
    bias: Floats
    converged: tuple[Floats, Floats] | None = None
    n_epochs: int = 0

    def on(self, model: SharedModel, name: str) -> SharedModel:
        """Put it on the layer that it was trained for, as a model of this one task."""
        n_labels = np.array([len(self.bias)])
        start = np.zeros(1, dtype=np.int64)
        return SharedModel(
            model.layer, [name], start, n_labels, self.weight, self.bias, self.n_epochs, self.converged
        )

    def arrays(self) -> dict[str, Floats]:
        """Give its arrays, for a file."""
        arrays = {"weight": self.weight, "bias": self.bias}
        if self.converged is not None:
            arrays |= {"converged weight": self.converged[0], "converged bias": self.converged[1]}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], n_epochs: int) -> Head:
        """Make it from what `arrays` gave."""
        converged = None
        if "converged weight" in arrays:
            converged = (arrays["converged weight"], arrays["converged bias"])
        return cls(arrays["weight"], arrays["bias"], converged, n_epochs)


@dataclass(frozen=True, slots=True, eq=False)
class HeadRows:
    """What a classifier is trained on: representations and labels, of training and of validation rows."""

    representation: Floats
    codes: Numbers
    valid_representation: Floats
    valid_codes: Numbers


def first_head(
    model: SharedModel,
    known: Mapping[str, tuple[str, ...]],
    label_names: tuple[str, ...],
    *,
    settings: MultiTaskSettings,
    generator: np.random.Generator,
) -> Head:
    """Give the classifier that training begins with.

    A label whose name other tasks have begins with the mean of their classifiers; any other, and all of them
    if the settings do not share labels, with a small random one.

    Parameters
    ----------
    model
        The model of other tasks.
    known
        The labels of its tasks.
    label_names
        The labels of the new task.
    settings
        How the model was trained.
    generator
        Where random draws come from.
    """
    weight = np.ascontiguousarray(new_head(model.layer.width, len(label_names), generator)[0].T)
    bias = np.zeros(len(label_names), dtype=np.float32)
    if not settings.share_labels:
        return Head(weight, bias)
    weight *= np.float32(0.1)
    wanted = {label_key(label) for label in label_names}
    namesakes: dict[str, list[int]] = {}
    for number, label in enumerate(label for name in model.names for label in known[name]):
        if (key := label_key(label)) in wanted:
            namesakes.setdefault(key, []).append(number)
    for place, label in enumerate(label_names):
        if found := namesakes.get(label_key(label)):
            weight[place] = model.weight[found].mean(axis=0)
            bias[place] = model.bias[found].mean()
    return Head(weight, bias)


def train_head(
    rows: HeadRows,
    start: Head,
    *,
    settings: MultiTaskSettings,
    learning_rate: float,
    n_epochs: int,
    generator: np.random.Generator,
    stop_early: bool = False,
) -> Head:
    """Train a classifier on representations that do not change.

    Parameters
    ----------
    rows
        What it is trained on.
    start
        What it begins with.
    settings
        How the shared model was trained.
    learning_rate
        The step size of the shared model's layer; that of classifiers is `settings.head_rate` times it.
    n_epochs
        For how many epochs.
    generator
        Where random draws come from.
    stop_early
        Whether to keep the epoch with the highest accuracy on validation rows, if there are any.

    Examples
    --------
    >>> rows = HeadRows(np.eye(2, dtype=np.float32), np.array([1, 0]), np.eye(0, 2), np.zeros(0, np.int64))
    >>> start = Head(np.zeros((2, 2), np.float32), np.zeros(2, np.float32))
    >>> head = train_head(
    ...     rows,
    ...     start,
    ...     settings=MultiTaskSettings(),
    ...     learning_rate=0.01,
    ...     n_epochs=20,
    ...     generator=np.random.default_rng(0),
    ... )
    >>> score(rows.representation, head.weight, head.bias).argmax(axis=1).tolist()
    [1, 0]
    """
    weight, bias = start.weight.copy(), start.bias.copy()
    optimiser = Adam({"weight": weight, "bias": bias}, learning_rate=0.0)
    counts = expected_counts(rows.codes, balance=settings.balance, power=settings.power, cap=settings.cap)
    n_steps = n_epochs * max(1, math.ceil(float(counts.sum()) / settings.rows_a_task))
    looks = stop_early and len(rows.valid_codes) > 0
    best, best_right = Head(weight, bias), -1
    for epoch in range(n_epochs):
        drawn = draw_rows(counts, generator)
        for begin in range(0, len(drawn), settings.rows_a_task):
            share = min(1.0, optimiser.n_steps / n_steps) if settings.decay else 0.0
            rate = learning_rate * settings.head_rate * 0.5 * (1 + math.cos(math.pi * share))
            optimiser.learning_rate = rate
            make_step(rows, drawn[begin : begin + settings.rows_a_task], optimiser, settings, generator)
        if looks:
            scores = score(rows.valid_representation, weight, bias)
            n_right = int((scores.argmax(axis=1) == rows.valid_codes).sum())
            if n_right > best_right:
                best, best_right = Head(weight.copy(), bias.copy(), None, epoch + 1), n_right
    if looks:
        return best
    return Head(weight, bias, converge(rows, weight, bias, settings.head_c), n_epochs)


def make_step(
    rows: HeadRows,
    chosen: Numbers,
    optimiser: Adam,
    settings: MultiTaskSettings,
    generator: np.random.Generator,
) -> None:
    """Move the classifier by some rows."""
    weight, bias = optimiser.parameters["weight"], optimiser.parameters["bias"]
    representation = rows.representation[chosen]
    if settings.dropout > 0:
        kept = generator.random(representation.shape, dtype=np.float32) >= np.float32(settings.dropout)
        representation = representation * kept * np.float32(1 / (1 - settings.dropout))
    _, _, _, of_weight, of_bias = head_gradients(
        np.ascontiguousarray(representation, dtype=np.float32),
        np.array([0, len(chosen)]),
        np.zeros(1, dtype=np.int64),
        np.array([len(bias)]),
        rows.codes[chosen],
        weight,
        bias,
        settings.smoothing,
    )
    optimiser.step({"weight": of_weight, "bias": of_bias})


def converge(rows: HeadRows, weight: Floats, bias: Floats, head_c: float) -> tuple[Floats, Floats] | None:
    """Fit the second classifier; see `robusttc.multitask.joint.converge_heads`."""
    if head_c <= 0:
        return None
    if len(np.unique(rows.codes)) < 2:
        return weight.copy(), bias.copy()
    fitted = fit_softmax(rows.representation, rows.codes, n_labels=len(bias), C=head_c, balanced=True)
    return np.ascontiguousarray(fitted.weight.T, dtype=np.float32), fitted.bias.astype(np.float32)

"""How multi-task models are trained: one value for all of them, with defaults a kind of encoder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np

from robusttc.encoders import FrozenInputs, WordInputs
from robusttc.errors import UsageError, quote
from robusttc.models import Activation, Embeddings, TrainingSettings
from robusttc.params import Choice, Settings, check_param

__all__ = ["PAPER", "MultiTaskSettings", "default_settings", "paper_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTaskSettings(Settings):
    """How a shared model is trained; checked when it is made, never changed after that.

    Parameters
    ----------
    width, window, embeddings, activation, dropout
        The layer, as in `robusttc.models.TrainingSettings`.
    epochs
        How many epochs a model over all tasks, or over a cluster from scratch, is trained.
    min_steps
        The least number of steps of such a model. Few small tasks would else be trained for a handful of
        steps: they get more epochs, always whole ones.
    start_epochs
        How many epochs a cluster's model is trained that starts from the shared one.
    learning_rate, start_learning_rate
        Adam's step size, and that of a cluster's model that starts from the shared one. They fall to zero
        along a cosine if `decay`.
    head_rate
        How many times as large the step size of the classifiers is. A task's classifier moves only in steps
        that have rows of it, the layer in all of them.
    decay
        Whether the step size falls.
    weight_decay
        How much of itself a weight loses in a step, before the step size is multiplied in.
    smoothing
        The share of the right label that is spread over all labels.
    rows_a_task, tasks_a_step
        A step has parts of so many tasks, each of at most so many rows; of fewer where there are few tasks.
    balance, power, cap
        Which rows an epoch sees, see `robusttc.multitask.sampling.expected_counts`.
    share_labels
        Whether labels of the same name share a part of their classifiers, see
        `robusttc.multitask.label_sharing`.
    own_rate
        The step size of what is a label's own then, as a share of that of the shared part.
    own_c
        The inverse penalty of a task's own model on sentence vectors (class-balanced softmax regression).
    head_c
        The inverse penalty of a second set of classifiers, class-balanced and fitted to convergence on the
        representation when the layer is ready; probabilities are the mean of both. 0 leaves them out.
    n_copies
        How many shared models, and cluster models, are trained from different draws and averaged.

    Raises
    ------
    UsageError
        If a value cannot be used.

    Examples
    --------
    >>> settings = MultiTaskSettings(width=64)
    >>> settings.replace(epochs=3).epochs, settings.layer_settings().width
    (3, 64)
    """

    width: int = 256
    window: int = 5
    embeddings: Embeddings = "pretrained"
    activation: Activation = "residual"
    dropout: float = 0.5
    epochs: int = 15
    min_steps: int = 500
    start_epochs: int = 5
    learning_rate: float = 2e-3
    start_learning_rate: float = 1e-3
    head_rate: float = 5.0
    decay: bool = True
    weight_decay: float = 0.0
    smoothing: float = 0.0
    rows_a_task: int = 16
    tasks_a_step: int = 16
    balance: float = 1.0
    power: float = 0.5
    cap: int = 100
    share_labels: bool = True
    own_rate: float = 0.3
    own_c: float = 30.0
    head_c: float = 3.0
    n_copies: int = 1

    def __post_init__(self) -> None:
        names = "width window epochs min_steps start_epochs rows_a_task tasks_a_step cap n_copies"
        for name in names.split():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name} cannot be used", got=quote(value), expected="an integer from 1 up")
            object.__setattr__(self, name, int(value))
        limits = {
            "dropout": (0.0, 1.0, True),
            "learning_rate": (0.0, math.inf, False),
            "start_learning_rate": (0.0, math.inf, False),
            "head_rate": (0.0, math.inf, False),
            "weight_decay": (0.0, math.inf, True),
            "smoothing": (0.0, 1.0, True),
            "balance": (0.0, math.inf, True),
            "power": (0.0, math.inf, True),
            "own_rate": (0.0, math.inf, True),
            "own_c": (0.0, math.inf, False),
            "head_c": (0.0, math.inf, True),
        }
        for name, (lowest, below, may_be_lowest) in limits.items():
            check_number(name, getattr(self, name), lowest, below, may_be_lowest)
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("decay", "share_labels"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise UsageError(f"{name} cannot be used", got=quote(value), expected="True or False")
            object.__setattr__(self, name, bool(value))
        check_param("embeddings", self.embeddings, Choice(*get_args(Embeddings)))
        check_param("activation", self.activation, Choice(*get_args(Activation)))

    def count_epochs(self, steps_an_epoch: int, *, is_start: bool = False) -> int:
        """Give the number of epochs of a training; see `min_steps`, which a start from shared cuts too."""
        if is_start:
            min_steps = self.min_steps * self.start_epochs / self.epochs
            return max(self.start_epochs, math.ceil(min_steps / max(1, steps_an_epoch)))
        return max(self.epochs, math.ceil(self.min_steps / max(1, steps_an_epoch)))

    def layer_settings(self) -> TrainingSettings:
        """Give what the layer needs to know."""
        return TrainingSettings(
            width=self.width,
            window=self.window,
            embeddings=self.embeddings,
            activation=self.activation,
            dropout=self.dropout,
        )


def check_number(name: str, value: object, lowest: float, below: float, may_be_lowest: bool) -> None:
    """Refuse what is not a number in a range."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if is_number:
        number = float(value)  # type: ignore[arg-type]
        if (number > lowest or (may_be_lowest and number == lowest)) and number < below:
            return
    start = f"from {lowest:g}" if may_be_lowest else f"above {lowest:g}"
    end = "" if below == math.inf else f" and below {below:g}"
    raise UsageError(f"{name} cannot be used", got=quote(value), expected=f"a finite number {start}{end}")


def default_settings(inputs: FrozenInputs) -> MultiTaskSettings:
    """Give the settings that serve a kind of inputs best, by the validation rows of real tasks.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> default_settings(DenseInputs(np.eye(2, dtype=np.float32))).activation
    'residual'
    """
    if isinstance(inputs, WordInputs):
        return MultiTaskSettings(
            width=200,
            activation="relu",
            epochs=40,
            start_epochs=10,
            learning_rate=1e-3,
            start_learning_rate=5e-4,
            head_rate=3.0,
            rows_a_task=8,
            tasks_a_step=8,
            balance=0.5,
            cap=300,
        )
    return MultiTaskSettings()


PAPER = MultiTaskSettings(
    width=200,
    window=5,
    activation="relu",
    dropout=0.5,
    epochs=60,
    learning_rate=1e-3,
    head_rate=1.0,
    head_c=0.0,
    decay=False,
    balance=0.0,
    power=1.0,
    share_labels=False,
)


def paper_settings(inputs: FrozenInputs) -> MultiTaskSettings:
    """Give the paper's settings: step size 0.001 for all, labels as they come, no further aids.

    Words: window 5, 200 filters, trained vectors. The paper has no sentence vectors; they get a plain layer
    of the same width.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> paper_settings(DenseInputs(np.eye(2, dtype=np.float32))).width
    200
    """
    del inputs  # the same for all kinds; which layer it is follows from the inputs
    return PAPER

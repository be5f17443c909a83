"""How one model is trained: one value that every training loop gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from robusttc.encoders.settings_base import Settings
from robusttc.errors import UsageError, nearest_name, quote

__all__ = ["Activation", "Embeddings", "TrainingSettings"]

Embeddings = Literal["frozen", "pretrained", "random"]
Activation = Literal["relu", "linear", "residual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings(Settings):
    """How one model is trained; checked when it is made, never changed after that.

    There is no patience. Small tasks have a few dozen validation rows, and stopping by those starves them:
    55 to 60 % mean accuracy on small intent tasks, against 72 % with a fixed 40 epochs.

    Parameters
    ----------
    width
        How many numbers a representation has: the filters of a convolution, the outputs of a dense layer.
    window
        How many neighbouring words a filter of a convolution sees.
    epochs
        How often every row is seen.
    min_steps
        The least number of steps. A task with so few rows that `epochs` would give fewer gets more epochs,
        always whole ones: ten rows in batches of 32 make one step an epoch.
    learning_rate
        Adam's step size.
    batch_size
        How many rows a step has; the last batch of an epoch may have fewer.
    dropout
        The share of the representation that is set to zero in training, from 0 up to but without 1.
    embeddings
        What a convolution does with word vectors: ``frozen`` keeps them, ``pretrained`` trains them from the
        given ones, ``random`` trains them from random ones.
    activation
        What a dense layer does after its product: ``relu`` or ``linear`` (nothing). ``residual`` takes a
        layer that adds a learned correction to its input (see `robusttc.encoders.residual`): `width` is then
        that of its hidden part, and a representation is as wide as the input.

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
        for name, smallest in (
            ("width", 1),
            ("window", 1),
            ("epochs", 1),
            ("min_steps", 0),
            ("batch_size", 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < smallest:
                raise UsageError(
                    f"{name} cannot be used", got=quote(value), expected=f"an integer from {smallest} up"
                )
            object.__setattr__(self, name, int(value))
        for name, largest, allowed in (
            ("learning_rate", math.inf, "a finite number above 0"),
            ("dropout", 1.0, "a number from 0 up to but without 1"),
        ):
            value = getattr(self, name)
            is_number = isinstance(value, int | float | np.integer | np.floating)
            is_allowed = is_number and not isinstance(value, bool) and 0 <= value < largest
            if not is_allowed or (value == 0 and name == "learning_rate"):
                raise UsageError(f"{name} cannot be used", got=quote(value), expected=allowed)
            object.__setattr__(self, name, float(value))
        check_choice("embeddings", self.embeddings, get_args(Embeddings))
        check_choice("activation", self.activation, get_args(Activation))

    def count_epochs(self, n_rows: int) -> int:
        """Give the number of epochs for a task of so many rows; see `min_steps`."""
        steps_an_epoch = -(-n_rows // self.batch_size)
        return max(self.epochs, -(-self.min_steps // max(steps_an_epoch, 1)))


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of the allowed words."""
    if isinstance(value, str) and value in allowed:
        return
    nearest = nearest_name(value, allowed) if isinstance(value, str) else None
    raise UsageError(
        f"{name} cannot be used",
        got=quote(value),
        expected=f"one of {', '.join(allowed)}",
        todo=f"did you mean {quote(nearest)}?" if nearest else None,
    )

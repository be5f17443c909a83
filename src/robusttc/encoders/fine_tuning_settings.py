"""How a sentence encoder is fine-tuned on many tasks: one value, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robusttc.errors import UsageError, quote
from robusttc.params import Settings

__all__ = ["FineTuningSettings"]

INTEGERS = {
    "steps": 1,
    "labels_a_batch": 2,
    "texts_a_label": 2,
    "trained_layers": 1,
    "max_tokens": 3,
    "checkpoint_every": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuningSettings(Settings):
    """How a sentence encoder is fine-tuned; see `robusttc.encoders.fine_tuning` for the loss.

    Parameters
    ----------
    steps
        How many batches are seen.
    labels_a_batch
        How many labels of one task are told apart in a batch; a task that has fewer gives all it has.
    texts_a_label
        How many texts of each label are in a batch, its name not counted.
    temperature
        What cosines are divided by in the loss.
    learning_rate
        The largest step size of Adam.
    warm_up
        The share of the steps over which the step size rises from 0; after them it falls to 0, both in a
        straight line.
    trained_layers
        How many of the upper layers are trained; those below, and the word vectors, stay as they are.
    rank
        None trains all weights of these layers. A number r trains, for each weight matrix of these layers, an
        added matrix of this rank alone: r (inputs + outputs) numbers a matrix.
    task_power
        A task is drawn with a probability that grows with this power of its number of usable training texts:
        0 draws all tasks alike, 1 draws all texts alike.
    max_tokens
        A text is cut after so many tokens, in training only.
    checkpoint_every
        After how many steps the state is kept on disk; it has no influence on the result.

    Raises
    ------
    UsageError
        If a value cannot be used.

    Examples
    --------
    >>> settings = FineTuningSettings(steps=100)
    >>> settings.replace(rank=8).rank, [round(settings.rate_at(step), 7) for step in (0, 9, 99)]
    (8, [5e-06, 5e-05, 6e-07])
    """

    steps: int = 700
    labels_a_batch: int = 14
    texts_a_label: int = 4
    temperature: float = 0.07
    learning_rate: float = 5e-5
    warm_up: float = 0.1
    trained_layers: int = 3
    rank: int | None = None
    task_power: float = 0.5
    max_tokens: int = 64
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        smallest_of = {**INTEGERS, "rank": 1} if self.rank is not None else INTEGERS
        for name, smallest in smallest_of.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < smallest:
                raise UsageError(
                    f"{name} cannot be used", got=quote(value), expected=f"an integer from {smallest} up"
                )
            object.__setattr__(self, name, int(value))
        for name, largest, allowed in (
            ("temperature", math.inf, "a finite number above 0"),
            ("learning_rate", math.inf, "a finite number above 0"),
            ("warm_up", 1.0, "a number from 0 up to but without 1"),
            ("task_power", math.inf, "a finite number from 0 up"),
        ):
            value = getattr(self, name)
            is_number = isinstance(value, int | float | np.integer | np.floating)
            is_allowed = is_number and not isinstance(value, bool) and 0 <= value < largest
            if not is_allowed or (value == 0 and "above 0" in allowed):
                raise UsageError(f"{name} cannot be used", got=quote(value), expected=allowed)
            object.__setattr__(self, name, float(value))

    def rate_at(self, step: int) -> float:
        """Give the step size of Adam at a step, counted from 0."""
        n_rising = math.ceil(self.warm_up * self.steps)
        if step < n_rising:
            return self.learning_rate * (step + 1) / n_rising
        return self.learning_rate * (self.steps - step) / max(self.steps - n_rising, 1)

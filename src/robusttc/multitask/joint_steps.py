"""The steps of joint training: what they see of a task, and how they move layer and classifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.models import Adam, Batch, Heads, train_steps
from robusttc.multitask.label_sharing import SharedLabels, label_groups
from robusttc.multitask.sampling import draw_rows, expected_counts, make_steps
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.shared_model import SharedModel

__all__ = ["TaskPart", "Trainer"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

# An epoch has at least so many steps, if it has so many parts of tasks.
LEAST_STEPS = 8


def no_numbers() -> Numbers:
    """Give an empty array."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TaskPart:
    """What joint training sees of a task.

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
        The names of its labels, for `robusttc.multitask.label_sharing`; without them it shares none.
    """

    name: str
    n_labels: int
    items: Numbers
    codes: Numbers
    valid_items: Numbers = field(default_factory=no_numbers)
    valid_codes: Numbers = field(default_factory=no_numbers)
    label_names: tuple[str, ...] = ()


class Trainer:
    """The state of one training: optimiser, step size, and what an epoch draws."""

    def __init__(
        self,
        inputs: FrozenInputs,
        parts: Sequence[TaskPart],
        model: SharedModel,
        settings: MultiTaskSettings,
        generator: np.random.Generator,
        is_start: bool,
    ) -> None:
        self.inputs, self.parts, self.model = inputs, parts, model
        self.settings, self.generator = settings, generator
        self.rate = settings.start_learning_rate if is_start else settings.learning_rate
        decay = settings.weight_decay
        self.optimiser = Adam(model.layer.parameters(), learning_rate=self.rate, weight_decay=decay)
        self.heads = Heads(model.weight, model.bias, weight_decay=decay)
        if settings.share_labels and all(len(part.label_names) == part.n_labels for part in parts):
            names = [name for part in parts for name in part.label_names]
            self.heads = SharedLabels(
                label_groups(names), model.weight, model.bias, own_rate=settings.own_rate
            )
        self.counts = [
            expected_counts(part.codes, balance=settings.balance, power=settings.power, cap=settings.cap)
            for part in parts
        ]
        n_parts = sum(math.ceil(float(counts.sum()) / settings.rows_a_task) for counts in self.counts)
        # Few tasks have smaller steps, so that a small cluster is not trained worse than all tasks together.
        self.tasks_a_step = min(settings.tasks_a_step, math.ceil(n_parts / LEAST_STEPS))
        steps_an_epoch = math.ceil(n_parts / self.tasks_a_step)
        self.n_epochs = settings.count_epochs(steps_an_epoch, is_start=is_start)
        self.n_steps = self.n_epochs * steps_an_epoch

    def train_epoch(self) -> None:
        """Go through the rows of one epoch."""
        drawn = [draw_rows(counts, self.generator) for counts in self.counts]
        steps = make_steps(
            drawn,
            rows_a_task=self.settings.rows_a_task,
            tasks_a_step=self.tasks_a_step,
            generator=self.generator,
        )
        train_steps(
            self.inputs,
            self.model.layer,
            self.heads,
            (self.batch_of(tasks, rows) for tasks, rows in steps),
            optimiser=self.optimiser,
            dropout=self.settings.dropout,
            generator=self.generator,
            smoothing=self.settings.smoothing,
            head_rate=self.settings.head_rate,
            rate_at=self.rate_at if self.settings.decay else None,
        )
        self.heads.refresh(0, len(self.model.bias))

    def batch_of(self, tasks: Numbers, rows: Sequence[Numbers]) -> Batch:
        """Put together some rows of some tasks."""
        pairs = list(zip(tasks, rows, strict=True))
        return Batch(
            np.concatenate([self.parts[task].items[own] for task, own in pairs]),
            np.concatenate([self.parts[task].codes[own] for task, own in pairs]),
            np.cumsum([0, *(len(own) for own in rows)]),
            self.model.starts[tasks],
            self.model.ends[tasks],
        )

    def rate_at(self, n_steps: int) -> float:
        """Return the step size after so many steps: it falls to 0 with a cosine."""
        # Rounding can make an epoch one step longer: the last ones stand still.
        share = min(1.0, n_steps / self.n_steps)
        return self.rate * 0.5 * (1 + float(np.cos(np.pi * share)))

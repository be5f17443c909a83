"""The steps of joint training: what they see of a task, and how they move layer and classifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.encoders.adam import Adam, Gradients, RowGradients
from robusttc.multitask.joint_kernels import classifier_gradients
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
        self.optimiser = Adam(model.layer.parameters(), learning_rate=self.rate)
        # The bias as rows of one number, a view: only those of the tasks in a step move.
        heads = {"weight": model.weight, "bias": model.bias[:, None]}
        self.head_optimiser = Adam(heads, learning_rate=self.rate * settings.head_rate)
        self.shared_labels: SharedLabels | None = None
        if settings.share_labels and all(len(part.label_names) == part.n_labels for part in parts):
            names = [name for part in parts for name in part.label_names]
            self.shared_labels = SharedLabels(
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
        for tasks, rows in steps:
            self.make_step(tasks, rows)
        if self.shared_labels is not None:
            self.shared_labels.refresh(0, len(self.model.bias))

    def make_step(self, tasks: Numbers, rows: Sequence[Numbers]) -> None:
        """Train on some rows of some tasks."""
        settings, model, layer = self.settings, self.model, self.model.layer
        if settings.decay:
            # Rounding can make an epoch one step longer: the last ones stand still.
            share = min(1.0, self.optimiser.n_steps / self.n_steps)
            rate = self.rate * 0.5 * (1 + float(np.cos(np.pi * share)))
            self.optimiser.learning_rate = rate
            self.head_optimiser.learning_rate = rate * settings.head_rate
        items = np.concatenate([self.parts[task].items[own] for task, own in zip(tasks, rows, strict=True)])
        codes = np.concatenate([self.parts[task].codes[own] for task, own in zip(tasks, rows, strict=True)])
        row_starts = np.cumsum([0, *(len(own) for own in rows)])
        if self.shared_labels is not None:
            for task in tasks:
                self.shared_labels.refresh(int(model.starts[task]), int(model.ends[task]))
        representation = layer.forward(self.inputs, items)
        dropped = representation
        kept: Floats | None = None
        if settings.dropout > 0:
            draws = self.generator.random(representation.shape, dtype=np.float32)
            scale = np.float32(1 / (1 - settings.dropout))
            kept = np.asarray((draws >= np.float32(settings.dropout)) * scale, dtype=np.float32)
            dropped = representation * kept
        _, gradient, labels, weight_gradient, bias_gradient = classifier_gradients(
            dropped,
            row_starts,
            model.starts[tasks],
            model.ends[tasks],
            codes,
            model.weight,
            model.bias,
            settings.smoothing,
        )
        if kept is not None:
            gradient *= kept
        self.move(self.optimiser, layer.backward(gradient))
        if self.shared_labels is not None:
            self.shared_labels.step(
                labels, weight_gradient, bias_gradient, learning_rate=self.head_optimiser.learning_rate
            )
        else:
            self.move(
                self.head_optimiser,
                {
                    "weight": RowGradients(labels, weight_gradient),
                    "bias": RowGradients(labels, bias_gradient[:, None]),
                },
            )

    def move(self, optimiser: Adam, gradients: Gradients) -> None:
        """Make one step."""
        if self.settings.weight_decay > 0:
            shrink(optimiser, gradients, self.settings.weight_decay)
        optimiser.step(gradients)


def shrink(optimiser: Adam, gradients: Gradients, weight_decay: float) -> None:
    """Take a little of every weight that moves; biases and word vectors keep theirs."""
    factor = np.float32(1 - optimiser.learning_rate * weight_decay)
    for name, gradient in gradients.items():
        if name in ("bias", "vectors"):
            continue
        array = optimiser.parameters[name]
        if isinstance(gradient, RowGradients):
            array[gradient.rows] *= factor
        else:
            array *= factor

"""How multi-task models are trained: one value for all of them, with defaults by type of input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from robusttc.encoders import FrozenInputs, WordInputs
from robusttc.models import Activation, Embeddings, TrainingSettings
from robusttc.params import Boolean, Choice, Constraint, Integer, Number, Settings

__all__ = ["PAPER", "MultiTaskSettings", "default_settings", "paper_settings"]

POSITIVE = (Number(0, excludes=("low",)),)
NOT_NEGATIVE = (Number(0),)
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    **{name: (Integer(1),) for name in ("width", "window", "epochs", "min_steps")},
    **{name: (Integer(1),) for name in ("rows_a_task", "tasks_a_step", "cap")},
    **dict.fromkeys(("learning_rate", "head_rate", "own_c"), POSITIVE),
    **dict.fromkeys(("balance", "power", "own_rate", "head_c"), NOT_NEGATIVE),
    "dropout": (Number(0, 1, excludes=("high",)),),
    "decay": (Boolean(),),
    "share_labels": (Boolean(),),
    "embeddings": (Choice(*get_args(Embeddings)),),
    "activation": (Choice(*get_args(Activation)),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTaskSettings(Settings):
    """How shared, cluster and single-task models are trained; checked when made, never changed.

    Parameters
    ----------
    width, window, embeddings, activation, dropout
        The layer, as in `robusttc.models.TrainingSettings`.
    epochs
        How many epochs a shared or cluster model is trained.
    min_steps
        The least number of steps of such a model. A few small tasks would otherwise be trained for a handful
        of steps: they get more epochs, always whole ones.
    learning_rate
        Adam's step size for the layer. It falls to zero along a cosine if `decay`.
    head_rate
        The step size of the classifiers relative to it. A task's classifier moves only in steps that have
        rows of the task, the layer in all of them.
    decay
        Whether the step size falls.
    rows_a_task, tasks_a_step
        A step has rows of so many tasks, at most so many of each; fewer where there are few tasks.
    balance, power, cap
        Which rows an epoch sees, see `robusttc.multitask.joint_training.expected_counts`.
    share_labels
        Whether labels of the same name share a part of their classifiers, see
        `robusttc.multitask.joint_training.SharedLabels`.
    own_rate
        The step size of the part that is a label's own then, relative to that of the shared part.
    own_c
        The inverse penalty of single-task models on vectors (class-balanced softmax regression).
    head_c
        The inverse penalty of a second set of classifiers, class-balanced and fitted to convergence on the
        trained layer; probabilities are the mean of both. 0 leaves them out.

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
    learning_rate: float = 2e-3
    head_rate: float = 5.0
    decay: bool = True
    rows_a_task: int = 16
    tasks_a_step: int = 16
    balance: float = 1.0
    power: float = 0.5
    cap: int = 100
    share_labels: bool = True
    own_rate: float = 0.3
    own_c: float = 30.0
    head_c: float = 3.0

    def __post_init__(self) -> None:
        self._check(CONSTRAINTS)

    def count_epochs(self, steps_an_epoch: int) -> int:
        """Return the number of epochs of a training; see `min_steps`."""
        return max(self.epochs, math.ceil(self.min_steps / max(1, steps_an_epoch)))

    def layer_settings(self) -> TrainingSettings:
        """Return the settings of the layer."""
        return TrainingSettings(
            width=self.width,
            window=self.window,
            embeddings=self.embeddings,
            activation=self.activation,
            dropout=self.dropout,
        )


def default_settings(inputs: FrozenInputs) -> MultiTaskSettings:
    """Return the settings that suit a type of input best, by the validation rows of real tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from robusttc.encoders import DenseInputs
    >>> default_settings(DenseInputs(np.eye(2, dtype=np.float32))).activation
    'residual'
    """
    if isinstance(inputs, WordInputs):
        return MultiTaskSettings(
            width=200,
            activation="relu",
            epochs=40,
            learning_rate=1e-3,
            head_rate=3.0,
            rows_a_task=8,
            tasks_a_step=8,
            balance=0.5,
            cap=300,
        )
    return MultiTaskSettings()


# Deviation: the paper leaves open the number of epochs (60, at least 500 steps), dropout (0.5), how rows of
# several tasks are put into a step (16 rows of 16 tasks, at least 8 steps an epoch), and that Adam moves a
# classifier or word vector only in steps that touch it. The paper's word vectors are random for sentiment
# tasks; here they are pretrained unless `embeddings` says otherwise.
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
    """Return the paper's settings: step size 0.001 for all, labels as they come, no further aids.

    Words: window 5, 200 filters, trained vectors. The paper has no sentence vectors; they get a plain layer
    of the same width.

    Examples
    --------
    >>> import numpy as np
    >>> from robusttc.encoders import DenseInputs
    >>> paper_settings(DenseInputs(np.eye(2, dtype=np.float32))).width
    200
    """
    del inputs  # the same for all types; which layer it is follows from the inputs
    return PAPER

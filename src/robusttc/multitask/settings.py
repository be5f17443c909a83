"""How multi-task models are trained: one value for all of them, with defaults by type of input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from robusttc.encoders import FrozenInputs, WordInputs
from robusttc.models import Activation, Embeddings, TrainingSettings
from robusttc.params import Boolean, Choice, Constraint, Integer, Number, Settings

COUNTS = ("width", "window", "epochs", "min_steps", "rows_a_task", "tasks_a_step", "cap")
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    **dict.fromkeys(COUNTS, (Integer(1),)),
    **dict.fromkeys(("learning_rate", "head_rate", "own_c"), (Number(0, excludes=("low",)),)),
    **dict.fromkeys(("balance", "power", "own_rate", "head_c"), (Number(0),)),
    **dict.fromkeys(("cluster_width", "cluster_steps"), (Number(0, 1, excludes=("low",)),)),
    **dict.fromkeys(("decay", "share_labels"), (Boolean(),)),
    "dropout": (Number(0, 1, excludes=("high",)),),
    "embeddings": (Choice(*get_args(Embeddings)),),
    "activation": (Choice(*get_args(Activation)),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTaskSettings(Settings):
    """How shared, cluster and single-task models are trained; checked when made, never changed.

    Examples
    --------
    >>> settings = MultiTaskSettings(width=64)
    >>> settings.replace(epochs=3).epochs, settings.layer_settings().width
    (3, 64)
    """

    # The layer, as in `robusttc.models.TrainingSettings`.
    width: int = 256
    window: int = 5
    embeddings: Embeddings = "pretrained"
    activation: Activation = "residual"
    dropout: float = 0.5
    # Epochs of a shared or cluster model, and its least number of steps. A few small tasks would otherwise be
    # trained for a handful of steps: they get more epochs, always whole ones.
    epochs: int = 15
    min_steps: int = 500
    # In a blend the model of a cluster has such a share of the width and of the least number of steps: there
    # are many of them, and larger ones are no more accurate.
    cluster_width: float = 0.25
    cluster_steps: float = 0.5
    # Adam's step size for the layer, which falls to zero along a cosine if `decay`, and that of the
    # classifiers relative to it. A classifier moves only in steps with rows of its task, the layer in all.
    learning_rate: float = 2e-3
    head_rate: float = 5.0
    decay: bool = True
    # A step has rows of so many tasks, at most so many of each; fewer where there are few tasks.
    rows_a_task: int = 16
    tasks_a_step: int = 16
    # Which rows an epoch sees, see `robusttc.multitask.joint_training.expected_counts`.
    balance: float = 1.0
    power: float = 0.5
    cap: int = 100
    # Whether labels of the same name share a part of their classifiers, and the step size of the part that
    # is a label's own, relative to the shared one; see `robusttc.multitask.joint_training.SharedLabels`.
    share_labels: bool = True
    own_rate: float = 0.3
    # The inverse penalty of single-task models on vectors (class-balanced softmax regression).
    own_c: float = 30.0
    # That of a second set of classifiers, class-balanced and fitted to convergence on the trained layer, of
    # models of all tasks and of clusters; probabilities are the mean of both. 0 leaves them out.
    head_c: float = 0.0

    def __post_init__(self) -> None:
        self._check(CONSTRAINTS)

    def of_cluster(self) -> MultiTaskSettings:
        """Return the settings of the model of a cluster.

        Examples
        --------
        >>> settings = MultiTaskSettings(width=64).of_cluster()
        >>> settings.width, settings.min_steps
        (16, 250)
        """
        width, steps = self.width * self.cluster_width, self.min_steps * self.cluster_steps
        return self.replace(width=math.ceil(width), min_steps=math.ceil(steps))

    def count_epochs(self, steps_an_epoch: int) -> int:
        """Return the number of epochs of a training; see `min_steps`."""
        return max(self.epochs, math.ceil(self.min_steps / max(1, steps_an_epoch)))

    def layer_settings(self) -> TrainingSettings:
        """Return the settings of the layer."""
        names = ("width", "window", "embeddings", "activation", "dropout")
        return TrainingSettings(**{name: getattr(self, name) for name in names})


WORDS = MultiTaskSettings(
    width=200,
    cluster_width=1.0,
    cluster_steps=1.0,
    activation="relu",
    epochs=40,
    learning_rate=1e-3,
    head_rate=3.0,
    rows_a_task=8,
    tasks_a_step=8,
    balance=0.5,
    cap=300,
    head_c=3.0,
)
# The paper's settings: step size 0.001 for all, labels as they come, no further aids. Words: window 5, 200
# filters, trained vectors. The paper has no sentence vectors; they get a plain layer of the same width.
# Deviation: the paper leaves open the number of epochs (60, at least 500 steps), dropout (0.5), how rows of
# several tasks are put into a step (16 rows of 16 tasks, at least 8 steps an epoch), and that Adam moves a
# classifier or word vector only in steps that touch it. The paper's word vectors are random for sentiment
# tasks; here they are pretrained unless `embeddings` says otherwise.
PAPER = MultiTaskSettings(
    width=200,
    activation="relu",
    epochs=60,
    learning_rate=1e-3,
    head_rate=1.0,
    decay=False,
    balance=0.0,
    power=1.0,
    share_labels=False,
)


def default_settings(inputs: FrozenInputs) -> MultiTaskSettings:
    """Return the settings that suit words or vectors best, by the validation rows of real tasks."""
    return WORDS if isinstance(inputs, WordInputs) else MultiTaskSettings()

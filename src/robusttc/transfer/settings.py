"""What is measured between two tasks, and how: one value that every unit of work gets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from robusttc.errors import UsageError, quote
from robusttc.models import TrainingSettings
from robusttc.params import Settings
from robusttc.scores import check_choice

__all__ = ["MEASURES", "TransferSettings"]

# What can be measured. "accuracy" is the paper's.
MEASURES = ("log_likelihood", "brier", "accuracy", "logme", "overlap")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings(Settings):
    """What is measured, and how; checked when it is made, never changed after that.

    Parameters
    ----------
    kind
        ``log_likelihood`` (the default) and ``brier``: how well the rows of the target are predicted by a
        ridge classifier on the source's narrow encoder, every row left out in its turn, over train and valid.
        ``accuracy``: the paper's. With different label sets, the accuracy on valid of a softmax classifier
        that was trained on train, on the frozen encoder of the source; with identical label sets, the
        accuracy of the source's own model on train. ``logme``: the evidence of a linear model on the source's
        encoder, which needs no classifier. ``overlap``: the share of the target's rows whose text the source
        has too; needs no encoder at all.
        Deviation: the paper has accuracy alone. A few dozen validation rows make it mostly noise.
    measure_width
        How many numbers the narrow encoder has at the most (a task with k labels has k - 1 directions).
        Wide encoders serve every task alike and tell nothing; a narrow one must choose. None measures with
        the encoder as it is.
    shrinkage
        How far the spread within labels is taken for equal in all directions when the narrow encoder is made,
        from 0 to 1.
    ridge
        The penalty of the ridge classifier, on features whose rows have a mean squared length of
        `measure_width`.
    classifier_c
        The C of the softmax classifier (kind ``accuracy``): the larger, the less it is regularised.
    label_sets
        Which of the two definitions of ``accuracy`` is used: ``identical``, ``different``, or ``auto``, by
        the tasks.
    train_layer
        Whether a layer is trained below the narrow encoder: ``auto`` trains one where the frozen part gives
        words, and none where it gives vectors, for there it does not help.
    training
        How a layer is trained.

    Raises
    ------
    UsageError
        If a value cannot be used.

    Examples
    --------
    >>> TransferSettings(kind="brier").measure_width
    6
    """

    kind: str = "log_likelihood"
    measure_width: int | None = 6
    shrinkage: float = 0.9
    ridge: float = 1.0
    classifier_c: float = 1.0
    label_sets: str = "auto"
    train_layer: bool | str = "auto"
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, MEASURES)
        check_choice("label_sets", self.label_sets, ("auto", "identical", "different"))
        if not isinstance(self.train_layer, bool) and self.train_layer != "auto":
            raise UsageError(
                "train_layer cannot be used", got=quote(self.train_layer), expected="True, False or 'auto'"
            )
        width = self.measure_width
        if width is not None and (not isinstance(width, int) or isinstance(width, bool) or width < 1):
            raise UsageError(
                "measure_width cannot be used", got=quote(width), expected="an integer from 1 up, or None"
            )
        for name in ("shrinkage", "ridge", "classifier_c"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if name == "shrinkage":
                is_allowed, expected = is_number and 0 <= value <= 1, "a number from 0 to 1"
            else:
                is_allowed, expected = is_number and 0 < value < math.inf, "a finite number above 0"
            if not is_allowed:
                raise UsageError(f"{name} cannot be used", got=quote(value), expected=expected)
            # One form for one number: equal settings must have equal fingerprints.
            object.__setattr__(self, name, float(value))
        if not isinstance(self.training, TrainingSettings):
            raise UsageError(
                "training cannot be used", got=quote(self.training), expected="a TrainingSettings"
            )

    @property
    def is_left_out(self) -> bool:
        """Whether rows of train and valid are one pool, of which every row is left out in its turn."""
        return self.kind in ("log_likelihood", "brier", "logme")

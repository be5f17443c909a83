"""A trained single-task model: a layer and the classifier on top of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.encoders.layer import Layer
from robusttc.encoders.products import multiply_rows

__all__ = ["TrainedModel"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A trained layer with its softmax classifier.

    Attributes
    ----------
    layer
        From frozen inputs to representations.
    head_weight, head_bias
        From representations to labels, shapes (width, labels) and (labels,).
    """

    layer: Layer
    head_weight: Floats
    head_bias: Floats

    def logits(self, inputs: FrozenInputs) -> Floats:
        """Give the score of every label for every item; an item's scores depend on the item alone."""
        return multiply_rows(self.layer.represent(inputs), self.head_weight) + self.head_bias

    def predict_codes(self, inputs: FrozenInputs) -> NDArray[np.int64]:
        """Give the label of the highest score for every item."""
        return np.asarray(self.logits(inputs).argmax(axis=1), dtype=np.int64)

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item."""
        logits = self.logits(inputs)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float32)

"""The parts of a predictor for one task, and their form on disk.

A part is a metric and what was fitted in it on the support set. A prediction is the weighted mean of the
probabilities of some parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.errors import RobustTCError, StoreError, quote
from robusttc.fewshot.heads import LinearHead
from robusttc.fewshot.losses import softmax_rows
from robusttc.fewshot.matching import match
from robusttc.fewshot.spaces import Space
from robusttc.models import DenseLayer, Layer, TrainingSettings, layer_from_parameters, multiply_rows

__all__ = ["LinearPart", "MatchingPart", "Part", "describe_layer", "describe_part", "layer_from", "part_from"]

Floats = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class LinearPart:
    """Softmax classifiers on a representation, whose probabilities are averaged.

    Attributes
    ----------
    layer
        The metric; None for ready vectors as they are.
    unit
        Whether the representation is brought to length 1 first.
    shares
        The weight of each classifier; their sum is 1.
    heads
        The weight (width, labels) and bias of each classifier.
    """

    layer: Layer | None
    unit: bool
    shares: tuple[float, ...]
    heads: tuple[LinearHead, ...]

    def probabilities(self, inputs: FrozenInputs) -> NDArray[np.float64]:
        """Give the probability of every label for every item; it depends on the item alone."""
        space = Space(self.layer)
        representation = space.directions(inputs) if self.unit else space.represent(inputs)
        total = np.zeros((len(inputs), len(self.heads[0][1])))
        for share, (weight, bias) in zip(self.shares, self.heads, strict=True):
            logits = multiply_rows(representation, weight).astype(np.float64) + bias
            total += share * softmax_rows(logits)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class MatchingPart:
    """Matching with the support examples (Eq. 4) under a metric.

    Attributes
    ----------
    layer
        The metric; None for ready vectors as they are.
    support, codes
        The representations of the support set, and their labels.
    n_labels
        How many labels there are.
    """

    layer: Layer | None
    support: Floats
    codes: NDArray[np.int64]
    n_labels: int

    def probabilities(self, inputs: FrozenInputs) -> NDArray[np.float64]:
        """Give the probability of every label for every item; it depends on the item alone."""
        queries = Space(self.layer).represent(inputs)
        return match(queries, self.support, self.codes, n_labels=self.n_labels)


Part = LinearPart | MatchingPart


def describe_layer(layer: Layer | None) -> tuple[dict[str, Any] | None, Arrays]:
    """Give the settings and arrays that a layer is made again from.

    Examples
    --------
    >>> describe_layer(None)
    (None, {})
    """
    if layer is None:
        return None, {}
    activation = layer.activation if isinstance(layer, DenseLayer) else "relu"
    return {"activation": activation}, dict(layer.parameters())


def layer_from(settings: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]]) -> Layer | None:
    """Make a layer from its description.

    Raises
    ------
    StoreError
        If the description is not that of a layer.

    Examples
    --------
    >>> layer_from(None, {}) is None
    True
    """
    if settings is None:
        return None
    try:
        return layer_from_parameters(dict(arrays), settings=TrainingSettings(**settings))
    except (RobustTCError, TypeError) as error:
        raise StoreError("a saved metric is damaged", got=str(error)) from error


def describe_part(part: Part) -> tuple[dict[str, Any], Arrays]:
    """Give the settings and arrays that a part is made again from.

    Examples
    --------
    >>> part = LinearPart(None, True, (1.0,), ((np.eye(2, dtype=np.float32), np.zeros(2, np.float32)),))
    >>> settings, arrays = describe_part(part)
    >>> part_from(settings, arrays).shares
    (1.0,)
    """
    layer, layer_arrays = describe_layer(part.layer)
    arrays: Arrays = {f"layer/{name}": array for name, array in layer_arrays.items()}
    if isinstance(part, MatchingPart):
        arrays |= {"support": part.support, "codes": part.codes}
        return {"kind": "matching", "layer": layer, "n_labels": part.n_labels}, arrays
    for number, (weight, bias) in enumerate(part.heads):
        arrays |= {f"head{number}/weight": weight, f"head{number}/bias": bias}
    return {"kind": "linear", "layer": layer, "unit": part.unit, "shares": list(part.shares)}, arrays


def part_from(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Part:
    """Make a part from its description.

    Raises
    ------
    StoreError
        If the description is not that of a part.
    """
    try:
        layer = layer_from(settings["layer"], take_prefix(arrays, "layer/"))
        if settings["kind"] == "matching":
            return MatchingPart(layer, arrays["support"], arrays["codes"], int(settings["n_labels"]))
        shares = tuple(float(share) for share in settings["shares"])
        heads = tuple(
            (arrays[f"head{number}/weight"], arrays[f"head{number}/bias"]) for number in range(len(shares))
        )
        return LinearPart(layer, bool(settings["unit"]), shares, heads)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError("a saved part of a predictor is damaged", got=quote(error)) from error


def take_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    """Give the arrays whose names begin so, without that beginning."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def mix_parts(parts: Sequence[Part], weights: Sequence[float], inputs: FrozenInputs) -> NDArray[np.float64]:
    """Give the weighted mean of the probabilities of some parts (Eq. 3)."""
    total = sum(weight * part.probabilities(inputs) for weight, part in zip(weights, parts, strict=True))
    result = np.asarray(total, dtype=np.float64)
    # Rounding must not leave a sum a little off 1.
    return np.asarray(result / result.sum(axis=1, keepdims=True), dtype=np.float64)

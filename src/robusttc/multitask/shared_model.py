"""A model that several tasks share: one layer, one classifier a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.errors import UnknownTaskError
from robusttc.models import Layer, TrainingSettings, layer_from_parameters, multiply_rows

__all__ = ["SharedModel", "softmax"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

# Converged classifiers are held back by their penalty, and less sure than trained ones by about this factor
# in their temperature (1.5 to 1.6, by the validation rows of 175 intent tasks and three kinds of layer).
CONVERGED_SHARPNESS = np.float32(1.5)


class SharedModel:
    """A trained layer, and the softmax classifiers of several tasks on it.

    Parameters
    ----------
    layer
        From frozen inputs to representations.
    names
        The tasks.
    starts, ends
        Which labels among all are those of each task.
    weight, bias
        The classifiers under each other, shapes (all labels, width) and (all labels,).
    n_epochs
        After how many epochs this is the model; 0 if it was not trained.
    converged
        Weight and bias of a second set of classifiers, of the same shapes, that were fitted to convergence on
        the ready layer; None for none. Probabilities are then the mean of both.

    Examples
    --------
    >>> from robusttc.models import DenseLayer
    >>> from robusttc.encoders import DenseInputs
    >>> eye, zero = np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32)
    >>> model = SharedModel(DenseLayer(eye, zero), ["a"], np.array([0]), np.array([2]), eye, zero)
    >>> model.probabilities("a", DenseInputs(eye)).round(2).tolist()
    [[0.73, 0.27], [0.27, 0.73]]
    """

    def __init__(
        self,
        layer: Layer,
        names: Sequence[str],
        starts: Numbers,
        ends: Numbers,
        weight: Floats,
        bias: Floats,
        n_epochs: int = 0,
        converged: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.layer = layer
        self.names = tuple(names)
        self.starts = np.asarray(starts, dtype=np.int64)
        self.ends = np.asarray(ends, dtype=np.int64)
        self.weight = np.ascontiguousarray(weight, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)
        self.n_epochs = n_epochs
        self.converged = converged
        self._places = {name: place for place, name in enumerate(self.names)}

    def copy(self, *, n_epochs: int) -> SharedModel:
        """Give a model of its own with the same parameters."""
        return SharedModel(
            self.layer.clone(),
            self.names,
            self.starts,
            self.ends,
            self.weight.copy(),
            self.bias.copy(),
            n_epochs,
            None if self.converged is None else (self.converged[0].copy(), self.converged[1].copy()),
        )

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def labels_of(self, name: str) -> slice:
        """Give the labels of a task among all."""
        if name not in self._places:
            raise UnknownTaskError(name, self.names)
        place = self._places[name]
        return slice(int(self.starts[place]), int(self.ends[place]))

    def head(self, name: str) -> tuple[Floats, Floats]:
        """Give the live weight (labels, width) and bias of a task's trained classifier."""
        own = self.labels_of(name)
        return self.weight[own], self.bias[own]

    def logits(self, name: str, inputs: FrozenInputs) -> Floats:
        """Give the trained classifier's score of every label of a task; it depends on the item alone."""
        return score(self.layer.represent(inputs), *self.head(name))

    def probabilities(self, name: str, inputs: FrozenInputs) -> NDArray[np.float64]:
        """Give the probability of every label of a task for every item."""
        representation = self.layer.represent(inputs)
        trained = softmax(score(representation, *self.head(name)))
        if self.converged is None:
            return trained
        own = self.labels_of(name)
        weight, bias = self.converged
        return (trained + softmax(CONVERGED_SHARPNESS * score(representation, weight[own], bias[own]))) / 2

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Give what a file needs to make the model again: values for JSON, and arrays."""
        arrays: dict[str, NDArray[Any]] = {
            f"layer.{key}": array for key, array in self.layer.parameters().items()
        }
        arrays |= {"weight": self.weight, "bias": self.bias, "ends": self.ends}
        if self.converged is not None:
            arrays |= {"converged weight": self.converged[0], "converged bias": self.converged[1]}
        settings = {
            "names": list(self.names),
            "activation": getattr(self.layer, "activation", "relu"),
            "n_epochs": self.n_epochs,
        }
        return settings, arrays

    @classmethod
    def from_description(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SharedModel:
        """Make the model again from what `describe` gave."""
        parameters = {
            key.removeprefix("layer."): array for key, array in arrays.items() if key.startswith("layer.")
        }
        layer = layer_from_parameters(
            parameters, settings=TrainingSettings(activation=settings["activation"])
        )
        ends = arrays["ends"]
        starts = np.concatenate([[0], ends[:-1]])
        converged = None
        if "converged weight" in arrays:
            converged = (arrays["converged weight"], arrays["converged bias"])
        heads = (arrays["weight"], arrays["bias"])
        return cls(layer, settings["names"], starts, ends, *heads, settings["n_epochs"], converged)


def score(representation: Floats, weight: Floats, bias: Floats) -> Floats:
    """Give representation x weight^T + bias; a row depends on its own item alone."""
    logits: Floats = multiply_rows(representation, weight.T)
    logits += bias
    return logits


def softmax(logits: Floats) -> NDArray[np.float64]:
    """Turn scores into probabilities, row by row, in 64-bit floats.

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]], dtype=np.float32)).tolist()
    [[0.5, 0.5]]
    """
    wide = logits.astype(np.float64)
    shares = np.exp(wide - wide.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float64)

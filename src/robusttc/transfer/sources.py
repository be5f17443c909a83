"""The unit of work "a model": what one task brings as a source of transfer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.models import Layer, TrainedModel, multiply_rows, train_model
from robusttc.random import numpy_generator
from robusttc.transfer.narrowing import discriminant_directions
from robusttc.transfer.plan import TransferPlan

__all__ = ["SourceModel", "train_source"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SourceModel:
    """The frozen encoder of a task, and for identical label sets its classifier.

    Attributes
    ----------
    layer
        The trained layer; None where the frozen vectors are taken as they are.
    directions
        The directions of the representation that are kept, shape (width of the layer, directions); None
        keeps the representation as it is.
    classifier
        The whole model, where it is to be used on other tasks as it is; else None.
    """

    layer: Layer | None
    directions: Floats | None
    classifier: TrainedModel | None = None

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Give the representation of every item; bit for bit, it depends on the item alone."""
        if self.layer is not None:
            features = self.layer.represent(inputs)
        else:
            assert isinstance(inputs, DenseInputs)  # noqa: S101 - words always have a layer
            features = inputs.matrix
        return features if self.directions is None else multiply_rows(features, self.directions)


def train_source(plan: TransferPlan, source: int) -> SourceModel:
    """Make the encoder of one task; it depends on the task, the settings and the seed alone.

    With the paper's kind it is the layer of a model trained on train. Else the layer, if there is to be one,
    is narrowed to the directions that tell the labels apart on train and valid.
    """
    rows, settings = plan.rows[source], plan.settings
    layer: Layer | None = None
    classifier: TrainedModel | None = None
    if plan.trains_layers:
        inputs = plan.inputs.take(rows.items[: rows.n_train])
        codes = rows.codes[: rows.n_train]
        model = train_model(
            inputs,
            codes,
            n_labels=rows.n_labels,
            settings=settings.training,
            generator=numpy_generator(plan.seed, "model", [rows.name]),
        )
        layer = model.layer
        if settings.kind == "accuracy" and plan.same_labels:
            classifier = model
    if settings.kind == "accuracy" or settings.measure_width is None:
        return SourceModel(layer, None, classifier)
    features = SourceModel(layer, None).represent(plan.inputs.take(rows.items))
    directions = discriminant_directions(
        features,
        rows.codes,
        n_labels=rows.n_labels,
        width=settings.measure_width,
        shrinkage=settings.shrinkage,
    )
    return SourceModel(layer, directions)

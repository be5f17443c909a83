"""The encoder of one task as a source of transfer: a trained layer, narrowed to its discriminant directions.

A wide representation keeps nearly everything that the text features hold, whatever it was trained on, so it
serves every task alike and its scores say nothing. A narrow one must select what its own task needs. The
selection has a closed form: the directions w that maximise

    (w' S_between w) / (w' S_within w), S_within = (1 - shrinkage) covariance + shrinkage * mean variance * I,

(linear discriminant analysis with a shrunk covariance), each scaled by how well it separates the labels. With
k labels there are at most k - 1 of them. Nothing is random, and a task takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.models import Layer, TrainedModel, multiply_rows, train_model
from robusttc.random import numpy_generator

if TYPE_CHECKING:
    from robusttc.transfer.plan import TransferPlan

__all__ = ["SourceEncoder", "discriminant_projection", "train_source"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SourceEncoder:
    """The frozen encoder of a task.

    Attributes
    ----------
    layer
        The trained layer; None where text features are used as they are.
    projection
        What narrows the representation, shape (width of the layer, directions); None keeps it as it is.
    classifier
        The whole model, for kind ``accuracy`` with identical label sets; else None.
    """

    layer: Layer | None
    projection: Floats | None = None
    classifier: TrainedModel | None = None

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Return the representation of every item; it depends on the item alone, to the bit."""
        if self.layer is not None:
            features = self.layer.represent(inputs)
        else:
            assert isinstance(inputs, DenseInputs)  # noqa: S101 - words always have a layer
            features = inputs.matrix
        return features if self.projection is None else multiply_rows(features, self.projection)


def train_source(plan: TransferPlan, source: int) -> SourceEncoder:
    """Return the encoder of one task; it depends on the task, the settings and the seed alone.

    For kind ``accuracy`` it is the layer of a model trained on train. Else the text features, or the trained
    layer of them where the plan has layers, are narrowed to the directions that separate the labels of train
    and valid.
    """
    rows, settings = plan.rows[source], plan.settings
    model: TrainedModel | None = None
    if plan.trains_layers:
        model = train_model(
            plan.inputs.take(rows.items[: rows.n_train]),
            rows.codes[: rows.n_train],
            n_labels=rows.n_labels,
            settings=settings.training,
            generator=numpy_generator(plan.seed, "model", [rows.name]),
        )
    encoder = SourceEncoder(None if model is None else model.layer)
    if settings.kind == "accuracy":
        return SourceEncoder(encoder.layer, classifier=model if plan.same_labels else None)
    if settings.measure_width is None:
        return encoder
    projection = discriminant_projection(
        encoder.represent(plan.inputs.take(rows.items)),
        rows.codes,
        n_labels=rows.n_labels,
        width=settings.measure_width,
        shrinkage=settings.shrinkage,
    )
    return SourceEncoder(encoder.layer, projection)


def discriminant_projection(
    features: Floats, codes: NDArray[np.int64], *, n_labels: int, width: int, shrinkage: float
) -> Floats:
    """Return the most discriminative directions, shape (dimension, at most `width`), the best first.

    Parameters
    ----------
    features
        The representation of the task's rows, shape (rows, dimension).
    codes
        The label of every row.
    n_labels
        The number of labels; some may have no row.
    width
        The largest number of directions. There are no more than labels with rows, less one.
    shrinkage
        From 0, the covariance within labels as measured, to 1, its mean variance in every direction.

    Examples
    --------
    >>> features = np.array([[0, 5], [1, -5], [10, 5], [11, -5]], dtype=np.float32)
    >>> codes = np.array([0, 0, 1, 1])
    >>> projection = discriminant_projection(features, codes, n_labels=2, width=3, shrinkage=0.1)
    >>> projection.shape, (features @ projection).argmin(axis=0) < 2
    ((2, 1), array([ True]))
    """
    rows = features.astype(np.float64)
    n, dimension = rows.shape
    counts = np.bincount(codes, minlength=n_labels)
    present = counts > 0
    members = np.zeros((n_labels, n))
    members[codes, np.arange(n)] = 1.0
    means = (members @ rows)[present] / counts[present, None]
    rows -= means[np.cumsum(present)[codes] - 1]
    means -= np.average(means, axis=0, weights=counts[present])
    within = rows.T @ rows / n
    variance = np.trace(within) / dimension
    if variance <= 0.0:
        # All rows of a label are the same: every direction between labels separates them alike.
        within, variance, shrinkage = np.eye(dimension), 1.0, 1.0
    within = (1 - shrinkage) * within + shrinkage * variance * np.eye(dimension)
    try:
        root = cholesky(within, lower=True)
    except LinAlgError:
        # Without shrinkage the covariance of few rows is singular.
        root = cholesky(within + 1e-6 * variance * np.eye(dimension), lower=True)
    whitened = solve_triangular(root, (means * np.sqrt(counts[present] / n)[:, None]).T, lower=True)
    # Labels are mostly fewer than dimensions, so the eigenvectors are those of the smaller matrix.
    values, vectors = eigh(whitened.T @ whitened)
    n_directions = min(width, int(present.sum()) - 1, dimension)
    order = np.argsort(-values, kind="stable")[:n_directions]
    kept = order[values[order] > 1e-12 * max(values[order[0]], 1e-300)] if len(order) else order
    # whitened @ vector has length sqrt(value): the scale that says how well a direction separates.
    directions = solve_triangular(root, whitened @ vectors[:, kept], lower=True, trans="T")
    # The sign of an eigenvector is arbitrary.
    largest = np.argmax(np.abs(directions), axis=0)
    directions *= np.where(directions[largest, np.arange(len(kept))] < 0, -1.0, 1.0)
    return np.ascontiguousarray(directions, dtype=np.float32)

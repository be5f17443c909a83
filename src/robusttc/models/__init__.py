"""Trained layers and classifiers on top of an encoder's features."""

from robusttc.models.convolution import ConvolutionLayer
from robusttc.models.layers import (
    DenseLayer,
    Gradients,
    Layer,
    ResidualLayer,
    RowGradients,
    compiled,
    head_gradients,
    multiply_rows,
    new_head,
)
from robusttc.models.optimiser import Adam
from robusttc.models.softmax import NEVER, SoftmaxClassifier, fit_softmax
from robusttc.models.training import (
    HEAD_C,
    Activation,
    Batch,
    Embeddings,
    Heads,
    TrainedModel,
    TrainingSettings,
    add_converged_head,
    draw_batches,
    layer_from_parameters,
    new_layer,
    train_model,
    train_single_task,
    train_steps,
)

__all__ = [
    "HEAD_C",
    "NEVER",
    "Activation",
    "Adam",
    "Batch",
    "ConvolutionLayer",
    "DenseLayer",
    "Embeddings",
    "Gradients",
    "Heads",
    "Layer",
    "ResidualLayer",
    "RowGradients",
    "SoftmaxClassifier",
    "TrainedModel",
    "TrainingSettings",
    "add_converged_head",
    "compiled",
    "draw_batches",
    "fit_softmax",
    "head_gradients",
    "layer_from_parameters",
    "multiply_rows",
    "new_head",
    "new_layer",
    "train_model",
    "train_single_task",
    "train_steps",
]

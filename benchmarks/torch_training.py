"""The plain way to train a layer and a head, in torch: what `robusttc.models.train_model` is compared with.

It draws the same numbers in the same order, so up to rounding it makes the same model.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from robusttc.data import TokenArray
from robusttc.encoders import DenseInputs, FrozenInputs, WordInputs
from robusttc.models import (
    ConvolutionLayer,
    DenseLayer,
    ResidualLayer,
    TrainedModel,
    TrainingSettings,
    draw_batches,
    layer_from_parameters,
    new_head,
    new_layer,
    train_model,
)

Floats = NDArray[np.float32]


class ConvolutionModule(nn.Module):
    """A `ConvolutionLayer` in torch: embedding, convolution, masked maximum, ReLU."""

    def __init__(self, layer: ConvolutionLayer, vectors: Floats, *, sparse: bool = False) -> None:
        super().__init__()
        window, width, dimension = layer.filters.shape
        self.padding = (window // 2, window - 1 - window // 2)
        self.embedding = nn.Embedding(len(vectors), dimension, padding_idx=0, sparse=sparse)
        copy_into(self.embedding.weight, vectors)
        self.embedding.weight.requires_grad_(layer.vectors is not None)
        self.convolution = nn.Conv1d(dimension, width, window)
        copy_into(self.convolution.weight, layer.filters.transpose(1, 2, 0))
        copy_into(self.convolution.bias, layer.bias)

    def take(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the padded word numbers of some rows, and which of them are positions of the text."""
        assert isinstance(inputs, WordInputs)
        ids, lengths = pad_rows(inputs.tokens, rows)
        own = np.arange(ids.shape[1]) < np.maximum(lengths, 1)[:, None]
        return torch.from_numpy(ids), torch.from_numpy(own)

    def forward(self, ids: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Return the representation of padded texts."""
        embedded = functional.pad(self.embedding(ids).transpose(1, 2), self.padding)
        convolved = self.convolution(embedded).masked_fill(~own[:, None, :], -torch.inf)
        return functional.relu(convolved.max(dim=2).values)

    def to_parameters(self) -> dict[str, Floats]:
        """Return the parameters as those of a `ConvolutionLayer`."""
        filters, bias = self.convolution.weight.permute(2, 0, 1), self.convolution.bias
        assert bias is not None
        parameters = {"filters": to_numpy(filters), "bias": to_numpy(bias)}
        if self.embedding.weight.requires_grad:
            parameters["vectors"] = to_numpy(self.embedding.weight)
        return parameters


class VectorModule(nn.Module):
    """A `DenseLayer` or a `ResidualLayer` in torch."""

    def __init__(self, layer: DenseLayer | ResidualLayer) -> None:
        super().__init__()
        self.activation = layer.activation
        self.arrays = nn.ParameterDict(
            {name: torch.from_numpy(array.copy()) for name, array in layer.parameters().items()}
        )

    def take(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> tuple[torch.Tensor]:
        """Return the vectors of some rows."""
        assert isinstance(inputs, DenseInputs)
        return (torch.from_numpy(inputs.matrix[rows]),)

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return the representation of some vectors."""
        product: torch.Tensor = matrix @ self.arrays["weight"] + self.arrays["bias"]
        if self.activation == "residual":
            corrected: torch.Tensor = matrix + functional.relu(product) @ self.arrays["output"]
            return corrected
        return functional.relu(product) if self.activation == "relu" else product

    def to_parameters(self) -> dict[str, Floats]:
        """Return the parameters as those of a layer."""
        return {name: to_numpy(array) for name, array in self.arrays.items()}


def train_with_torch(
    inputs: FrozenInputs,
    codes: NDArray[np.int64],
    *,
    n_labels: int,
    settings: TrainingSettings,
    generator: np.random.Generator,
) -> TrainedModel:
    """Train a layer and a head; see `robusttc.models.train_model`."""
    layer = new_layer(inputs, settings=settings, generator=generator)
    weight, bias = new_head(layer.width, n_labels, generator)
    if isinstance(layer, ConvolutionLayer):
        assert isinstance(inputs, WordInputs)
        vectors = inputs.vectors if layer.vectors is None else layer.vectors
        module: ConvolutionModule | VectorModule = ConvolutionModule(layer, vectors, sparse=True)
    else:
        module = VectorModule(layer)
    head = nn.Linear(layer.width, n_labels)
    copy_into(head.weight, weight.T)
    copy_into(head.bias, bias)
    words = [module.embedding.weight] if isinstance(module, ConvolutionModule) else []
    dense = [
        each for each in [*module.parameters(), *head.parameters()] if not any(each is word for word in words)
    ]
    optimisers: list[torch.optim.Optimizer] = [torch.optim.Adam(dense, lr=settings.learning_rate)]
    if words and words[0].requires_grad:
        optimisers.append(torch.optim.SparseAdam(words, lr=settings.learning_rate))  # moves touched rows only
    labels = torch.from_numpy(codes)
    for batch in draw_batches(codes, n_labels=n_labels, settings=settings, generator=generator):
        representation = module(*module.take(inputs, batch.items))
        if settings.dropout > 0:
            draws = generator.random(representation.shape, dtype=np.float32)
            kept = torch.from_numpy(draws >= np.float32(settings.dropout))
            representation = representation * kept / (1 - settings.dropout)
        loss = functional.cross_entropy(head(representation), labels[torch.from_numpy(batch.items)])
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for optimiser in optimisers:
            optimiser.step()
    trained = layer_from_parameters(module.to_parameters(), settings=settings)
    return TrainedModel(trained, to_numpy(head.weight.T), to_numpy(head.bias))


@torch.inference_mode()
def encode_with_torch(inputs: WordInputs, layer: ConvolutionLayer, batch_size: int = 256) -> Floats:
    """Encode all texts by a convolution, in batches sorted by length."""
    module = ConvolutionModule(layer, inputs.vectors)
    order = np.argsort(inputs.tokens.lengths, kind="stable")
    result = np.empty((len(order), layer.width), dtype=np.float32)
    for rows in np.split(order, np.arange(batch_size, len(order), batch_size)):
        result[rows] = module(*module.take(inputs, rows)).numpy()
    return result


def warm_up(inputs: WordInputs) -> None:
    """Compile what is compiled, and let torch choose its algorithms."""
    some, codes = inputs.take(np.arange(64) % len(inputs)), np.arange(64) % 2
    settings = TrainingSettings(epochs=1, min_steps=0)
    for train in (train_with_torch, train_model):
        train(some, codes, n_labels=2, settings=settings, generator=np.random.default_rng(0))


def pad_rows(tokens: TokenArray, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the word numbers of some rows as a matrix, filled with the padding word, and their lengths."""
    taken = tokens.take(rows)
    lengths = taken.lengths
    ids = np.zeros((len(rows), max(1, int(lengths.max(initial=0)))), dtype=np.int64)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = taken.ids
    return ids, lengths


def copy_into(parameter: torch.Tensor | None, array: Floats) -> None:
    """Give a parameter its values."""
    assert parameter is not None
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))


def to_numpy(tensor: torch.Tensor) -> Floats:
    """Copy a tensor into an array."""
    return np.array(tensor.detach().numpy(), dtype=np.float32, order="C")
